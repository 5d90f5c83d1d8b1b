/* SPDX-License-Identifier: MIT */
#include "app/call_report.h"

#include <string.h>

#include "base/shell.h"
#include "json/reader.h"
#include "json/writer.h"

/* ---- what it is ---- */

static bool is_code(const struct hx_call_answer *answer, const char *code)
{
    return hx_span_eq_cstr(answer->code, code);
}

static bool is_waiting_code(const struct hx_call_answer *answer)
{
    return is_code(answer, "BUSY") || is_code(answer, "APPROVAL_REQUIRED") ||
           is_code(answer, "INPUT_REQUIRED");
}

/* Nothing happened. "Too old to know" and "no answer" are no proof of that, and no code is that
 * this program does not know. */
static bool is_refusal_code(const struct hx_call_answer *answer)
{
    static const char *const codes[] = {"FAILED",         "CANCELLED",    "REPEAT_SUSPECTED",
                                        "KEY_INVALID",    "KEY_REQUIRED", "KEY_CONFLICT",
                                        "REQUEST_INVALID"};
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        if (is_code(answer, codes[i]))
            return true;
    return false;
}

int hx_call_exit_status(const struct hx_call_answer *answer)
{
    if (answer->kind == HX_CALL_WAIT_OVER)
        return hx_span_eq_cstr(answer->execution, "unknown") ? HX_CALL_EXIT_UNKNOWN
                                                             : HX_CALL_EXIT_STILL_RUNNING;
    if (!answer->is_ours) {
        if (!answer->is_error)
            return HX_CALL_EXIT_DONE;
        /* Where the ledger knows nothing of the call, it was passed through (read_only): each
         * refusal has a code of ours. */
        return answer->is_row_untold ? HX_CALL_EXIT_UNKNOWN : HX_CALL_EXIT_TOOL_ERROR;
    }
    if (is_code(answer, "RESULT_UNAVAILABLE"))
        return HX_CALL_EXIT_DONE;
    if (is_waiting_code(answer))
        return HX_CALL_EXIT_STILL_RUNNING;
    if (is_code(answer, "UPSTREAM_UNAVAILABLE"))
        return HX_CALL_EXIT_NO_SERVER;
    if (is_code(answer, "LEDGER_UNAVAILABLE"))
        return HX_CALL_EXIT_NO_LEDGER;
    return is_refusal_code(answer) ? HX_CALL_EXIT_NOT_HAPPENED : HX_CALL_EXIT_UNKNOWN;
}

bool hx_call_is_settled(const struct hx_call_answer *answer, bool is_fresh)
{
    switch (hx_call_exit_status(answer)) {
    case HX_CALL_EXIT_DONE:
    case HX_CALL_EXIT_TOOL_ERROR:
        return true;
    case HX_CALL_EXIT_NOT_HAPPENED:
        /* A conflict says nothing about the call that had the key first. */
        return is_fresh || is_code(answer, "FAILED") || is_code(answer, "CANCELLED");
    case HX_CALL_EXIT_NO_SERVER:
    case HX_CALL_EXIT_NO_LEDGER:
        /* The caller is told that nothing was sent, so nothing of it may run later. */
        return is_fresh;
    default:
        return false;
    }
}

bool hx_call_is_unsent(const struct hx_call_answer *answer)
{
    int status = hx_call_exit_status(answer);
    return status == HX_CALL_EXIT_NOT_HAPPENED || status == HX_CALL_EXIT_NO_SERVER ||
           status == HX_CALL_EXIT_NO_LEDGER;
}

/* ---- commands for a shell ---- */

static void add_options(struct hx_buf *out, const char *ops_options)
{
    if (ops_options[0] != '\0')
        (void)hx_buf_printf(out, " %s", ops_options);
}

/* One that begins like an option is none only behind its name. */
static void put_key(struct hx_buf *out, struct hx_span key)
{
    if (key.len > 0 && key.ptr[0] == '-')
        (void)hx_buf_append_cstr(out, "--key=");
    (void)hx_shell_word(out, key);
}

void hx_call_open_command(struct hx_buf *out, const char *verb, const struct hx_call_name *name,
                          const char *ops_options)
{
    (void)hx_buf_printf(out, "hapax call %s ", verb);
    put_key(out, name->key);
    if (name->is_shared) {
        (void)hx_buf_append_char(out, ' ');
        (void)hx_shell_word(out, name->tool);
        (void)hx_buf_append_char(out, ' ');
        (void)hx_shell_word(out, name->server);
    }
    add_options(out, ops_options);
}

enum { CHOICES_MAX = 3, COMMAND_MAX = 16 * 1024 };

struct choice {
    const char *name;
    const char *words;
    struct hx_buf command;
};

struct choices {
    int count;
    struct choice items[CHOICES_MAX];
};

static struct hx_buf *add_choice(struct choices *choices, const char *name, const char *words)
{
    struct choice *choice = &choices->items[choices->count++];
    *choice = (struct choice){.name = name, .words = words};
    hx_buf_init(&choice->command, COMMAND_MAX);
    return &choice->command;
}

static void add_ops(struct hx_buf *out, const struct hx_call_told *told, const char *verb,
                    const char *rest)
{
    (void)hx_buf_printf(out, "hapax ops %s %.*s%s", verb, HX_SPAN_FMT(told->answer->operation),
                        rest);
    add_options(out, told->ops_options);
}

/* What may be done about a call that is open. */
static void find_choices(const struct hx_call_told *told, struct choices *ret_choices)
{
    const struct hx_call_answer *answer = told->answer;
    bool is_unknown = told->status == HX_CALL_EXIT_UNKNOWN;
    bool has_id = !hx_span_is_absent(answer->operation);
    ret_choices->count = 0;
    if (!is_unknown && told->status != HX_CALL_EXIT_STILL_RUNNING)
        return;
    struct hx_buf *command =
        add_choice(ret_choices, "query", is_unknown ? "ask again what became of it" : "wait on");
    hx_call_open_command(command, "--resume", &told->name, told->ops_options);
    if (is_unknown && has_id && !is_code(answer, "KEY_EXPIRED")) {
        command = add_choice(ret_choices, "again", "do it again, if you know that it must be");
        add_ops(command, told, "resolve", " again");
        (void)hx_buf_append_cstr(command, " && ");
        hx_call_open_command(command, "--resume", &told->name, told->ops_options);
    } else if (has_id && is_code(answer, "APPROVAL_REQUIRED")) {
        add_ops(add_choice(ret_choices, "approve", "allow it"), told, "approve", "");
    }
    command = add_choice(ret_choices, "give_up",
                         is_unknown ? "leave it unknown, and ask no more" : "ask no more");
    hx_call_open_command(command, "--give-up", &told->name, told->ops_options);
}

static void free_choices(struct choices *choices)
{
    for (int i = 0; i < choices->count; i++)
        hx_buf_fini(&choices->items[i].command);
}

/* ---- one JSON object ---- */

static void put_choices(struct hx_json_writer *writer, const struct choices *choices)
{
    hx_json_put_name(writer, "choices");
    hx_json_open_array(writer);
    for (int i = 0; i < choices->count; i++) {
        hx_json_open_object(writer);
        hx_json_put_name(writer, "choice");
        hx_json_put_cstr(writer, choices->items[i].name);
        hx_json_put_name(writer, "command");
        hx_json_put_string(writer, hx_buf_span(&choices->items[i].command));
        hx_json_close_object(writer);
    }
    hx_json_close_array(writer);
}

/* A line of its own: raw JSON of a server may hold line ends between its values. */
static void put_line(struct hx_buf *line, struct hx_span raw)
{
    for (size_t i = 0; i < raw.len; i++)
        (void)hx_buf_append_char(line, raw.ptr[i] == '\n' || raw.ptr[i] == '\r' ? ' ' : raw.ptr[i]);
}

static bool report_json(const struct hx_call_told *told, const struct choices *choices, FILE *out)
{
    const struct hx_call_answer *answer = told->answer;
    struct hx_json_writer writer;
    struct hx_buf buf, raw;
    hx_buf_init(&buf, (size_t)1 << 30);
    hx_buf_init(&raw, (size_t)1 << 30);
    hx_json_writer_init(&writer, &buf);
    hx_json_open_object(&writer);
    hx_json_add_string(&writer, "operation", answer->operation);
    hx_json_add_string(&writer, "key", told->name.key);
    hx_json_add_string(&writer, "server", told->name.server);
    hx_json_add_string(&writer, "tool", told->name.tool);
    hx_json_add_string(&writer, "execution", answer->execution);
    hx_json_add_string(&writer, "effect", answer->effect);
    hx_json_add_string(&writer, "code", answer->code);
    hx_json_put_name(&writer, "replayed");
    hx_json_put_bool(&writer, answer->is_replayed);
    hx_json_put_name(&writer, "exit_status");
    hx_json_put_int(&writer, told->status);
    put_line(&raw, answer->kind == HX_CALL_ERROR ? answer->error : answer->result);
    if (raw.len > 0) {
        hx_json_put_name(&writer, answer->kind == HX_CALL_ERROR ? "error" : "result");
        hx_json_put_raw(&writer, hx_buf_span(&raw));
    }
    put_choices(&writer, choices);
    hx_json_close_object(&writer);
    bool is_good = hx_buf_ok(&buf) && hx_buf_ok(&raw) && hx_buf_append_char(&buf, '\n') == 0 &&
                   fwrite(buf.data, 1, buf.len, out) == buf.len && fflush(out) == 0;
    hx_buf_fini(&buf);
    hx_buf_fini(&raw);
    return is_good;
}

/* ---- words ---- */

enum { BLOCKS_MAX = 64 * 1024 };

static bool is_beyond(const struct hx_json_tape *tape)
{
    uint32_t content = hx_json_member_of(tape, 0, HX_SPAN_LIT("content"), HX_JSON_ARRAY);
    return content != HX_JSON_NONE && hx_json_at(tape, content)->count > BLOCKS_MAX;
}

/* The text blocks of a result; what is no text is named. */
static bool print_content(const struct hx_json_tape *tape, struct hx_arena *arena, FILE *out,
                          FILE *words)
{
    uint32_t content = hx_json_member_of(tape, 0, HX_SPAN_LIT("content"), HX_JSON_ARRAY);
    bool had_text = false;
    hx_json_for_each(block, tape, content)
    {
        struct hx_span text;
        uint32_t at = hx_json_member_of(tape, block, HX_SPAN_LIT("text"), HX_JSON_STRING);
        uint32_t type = hx_json_member(tape, block, HX_SPAN_LIT("type"));
        int rc = at == HX_JSON_NONE ? 1 : hx_json_string(tape, at, arena, &text);
        if (rc < 0)
            return false; /* it is text, and there is no memory for it */
        if (rc == 0) {
            had_text = true;
            fwrite(text.ptr, 1, text.len, out);
            if (text.len == 0 || text.ptr[text.len - 1] != '\n')
                fputc('\n', out);
        } else {
            fprintf(words, "hapax call: a part of the result is no text (%.*s); --json shows it.\n",
                    HX_SPAN_FMT(hx_json_raw(tape, type)));
        }
    }
    uint32_t structured = hx_json_member(tape, 0, HX_SPAN_LIT("structuredContent"));
    if (!had_text && structured != HX_JSON_NONE) {
        struct hx_span raw = hx_json_raw(tape, structured);
        fwrite(raw.ptr, 1, raw.len, out);
        fputc('\n', out);
    }
    return fflush(out) == 0;
}

/* Nothing of it is printed that cannot be read; then the call stays open, or its answer would be
 * lost without a word. */
static bool print_result(const struct hx_call_answer *answer, FILE *out, FILE *words)
{
    struct hx_json_limits limits = HX_JSON_LIMITS_DEFAULT;
    struct hx_json_tape tape;
    struct hx_arena arena;
    hx_json_tape_init(&tape);
    hx_arena_init(&arena, (size_t)1 << 30);
    limits.record_depth_max = 4; /* the members of a block */
    limits.elements_max = BLOCKS_MAX;
    bool is_good = hx_json_read(&tape, answer->result, &limits) == 0 && !is_beyond(&tape);
    if (is_good)
        is_good = print_content(&tape, &arena, out, words);
    else
        fputs("hapax call: the result cannot be read here; --json prints it as it is.\n", words);
    hx_json_tape_fini(&tape);
    hx_arena_fini(&arena);
    return is_good;
}

static void print_open(const struct hx_call_told *told, FILE *words)
{
    const struct hx_call_answer *answer = told->answer;
    bool has_id = !hx_span_is_absent(answer->operation);
    if (answer->is_row_untold)
        fputs("hapax call: there is no answer yet, and the ledger did not say how far it is.\n",
              words);
    else if (!has_id)
        fputs("hapax call: there is no answer yet; nothing was sent so far.\n", words);
    else if (hx_span_eq_cstr(answer->execution, "ready"))
        fprintf(
            words,
            "hapax call: there is no answer yet; nothing was sent so far, since the server could "
            "not be reached (operation %.*s).\n",
            HX_SPAN_FMT(answer->operation));
    else if (hx_call_exit_status(answer) == HX_CALL_EXIT_UNKNOWN)
        fprintf(words, "hapax call: unknown: it may have happened (operation %.*s).\n",
                HX_SPAN_FMT(answer->operation));
    else
        fprintf(words,
                "hapax call: there is no answer yet; it is %.*s, which is not a failure (operation "
                "%.*s).\n",
                HX_SPAN_FMT(answer->execution), HX_SPAN_FMT(answer->operation));
}

static void print_choices(const struct choices *choices, FILE *words)
{
    if (choices->count > 0)
        fputs("Now choose:\n", words);
    for (int i = 0; i < choices->count; i++) {
        const struct choice *choice = &choices->items[i];
        fprintf(words, "  %s:\n    %.*s\n", choice->words,
                HX_SPAN_FMT(hx_buf_span(&choice->command)));
    }
}

/* Whose error it is. */
static const char *speaker_of(const struct hx_call_answer *answer)
{
    if (!answer->is_ours && answer->is_row_untold)
        return "unknown: it may have happened, for the ledger did not say whether this is the "
               "tool's own answer: ";
    return hx_call_exit_status(answer) == HX_CALL_EXIT_TOOL_ERROR ? "the tool answers: " : "";
}

static bool report_words(const struct hx_call_told *told, const struct choices *choices, FILE *out,
                         FILE *words)
{
    const struct hx_call_answer *answer = told->answer;
    bool is_good = true;
    if (answer->kind == HX_CALL_WAIT_OVER || is_code(answer, "OUTCOME_UNKNOWN"))
        print_open(told, words);
    else if (answer->kind == HX_CALL_ERROR)
        fprintf(words, "hapax call: %s%.*s\n", speaker_of(answer),
                HX_SPAN_FMT(hx_span_is_absent(answer->message) ? answer->error : answer->message));
    else
        is_good = print_result(answer, answer->is_ours ? words : out, words);
    print_choices(choices, words);
    return is_good;
}

bool hx_call_report(const struct hx_call_told *told, FILE *out, FILE *words)
{
    struct choices choices;
    find_choices(told, &choices);
    bool is_good =
        told->is_json ? report_json(told, &choices, out) : report_words(told, &choices, out, words);
    free_choices(&choices);
    return is_good && ferror(out) == 0;
}
