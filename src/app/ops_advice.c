/* SPDX-License-Identifier: MIT */
#include "app/ops_advice.h"

#include <inttypes.h>
#include <string.h>

#include "app/decide.h"
#include "app/ops_text.h"
#include "base/shell.h"
#include "core/policy.h"
#include "core/words.h"
#include "json/reader.h"

const char *hx_ops_state_sentence(const struct hx_store_found *found)
{
    const struct hx_record *record = &found->record;
    struct hx_facts facts = hx_facts_of_found(found);
    switch (record->state) {
    case HX_OP_AWAITING_APPROVAL:
        return "nothing was sent; a person has to decide";
    case HX_OP_READY:
        return record->is_approved
                   ? "nothing was sent; it is approved, and the next repeat of the call runs it"
                   : "nothing was sent; the next repeat of the call runs it";
    case HX_OP_RUNNING:
        if (found->owner_fact == HX_OWNER_DEAD)
            return hx_nothing_sent(record, &facts)
                       ? "nothing was sent and its process is gone; the next repeat runs it"
                       : "its process is gone; the next repeat or gateway settles it";
        return record->attempt.is_marked ? "it was sent, and its answer is awaited"
                                         : "it is about to be sent";
    case HX_OP_INPUT_REQUIRED:
        return "the tool asked for input";
    case HX_OP_SUCCEEDED:
        return record->outcome.is_error ? "it ran, and its answer says error"
                                        : "it happened; a repeat gets the stored answer";
    case HX_OP_FAILED:
        return hx_record_is_persons_word(record)
                   ? "a person decided: it did not happen, and will not"
                   : "proven: nothing happened, and nothing will";
    case HX_OP_UNKNOWN:
        return record->is_superseded ? "what became of it is not known; it is being done again"
                                     : "it may have happened, and nobody knows";
    case HX_OP_CANCELLED:
        return record->reason == HX_REASON_APPROVAL_EXPIRED
                   ? "nobody approved it within 24 hours; nothing was sent, and nothing will be"
                   : "nothing was sent, and nothing will be";
    case HX_OP_EXPIRED:
        return record->reason == HX_REASON_ROUND_EXPIRED
                   ? "the tool asked for input and got none within 24 hours; it may have acted"
                   : "too old to know";
    case HX_OP_ABSENT:
    case HX_OP_STATE_COUNT:
        break;
    }
    return "no such state";
}

void hx_ops_ledger_option(const struct hx_ops *ops, struct hx_buf *ret_option)
{
    struct hx_span path = hx_span_cstr(ops->options.ledger);
    if (hx_span_is_absent(path))
        return;
    (void)hx_buf_append_cstr(ret_option, " --ledger ");
    (void)hx_shell_word(ret_option, path);
}

bool hx_ops_absence_doubt(const struct hx_store_found *found, const struct hx_now *now,
                          struct hx_buf *ret_sentence)
{
    const struct hx_record *record = &found->record;
    const struct hx_contract *contract = &record->contract;
    struct hx_facts facts = hx_facts_of_found(found);
    if (hx_absence_is_provable(record, &facts, now))
        return false;
    if (!found->is_sender_gone) {
        (void)hx_buf_append_cstr(
            ret_sentence, "the server's process that got the call may still be working on it");
        return true;
    }
    if (contract->in_flight_bound_ms == HX_UNDECLARED_MS) {
        (void)hx_buf_append_cstr(ret_sentence,
                                 "nothing says how long a call of this tool may still "
                                 "be under way (in_flight_bound is not declared)");
        return true;
    }
    const struct hx_now *last =
        record->attempt.is_marked ? &record->attempt.marked_at : &record->settled;
    int64_t wait_ms = contract->in_flight_bound_ms + contract->visibility_lag_ms;
    char text[HX_OPS_AGE_SIZE];
    if (!hx_boot_eq(&last->boot, &now->boot)) {
        hx_ops_age(wait_ms, text);
        (void)hx_buf_printf(
            ret_sentence,
            "this machine was started anew since, so it is not known how much of the "
            "waiting time of %s is over",
            text);
        return true;
    }
    hx_ops_age(wait_ms - hx_mono_since_ms(now->mono, last->mono) + 999, text);
    (void)hx_buf_printf(ret_sentence, "it may still be under way for %s", text);
    return true;
}

static void command(const struct hx_ops *ops, const struct hx_id *id, const char *verb,
                    const char *rest, const char *meaning)
{
    char text[HX_ID_TEXT_SIZE];
    struct hx_buf option;
    hx_id_format(id, text);
    hx_buf_init(&option, 3 * HX_LEDGER_PATH_MAX);
    hx_ops_ledger_option(ops, &option);
    fprintf(ops->out, "  hapax ops %s %s%s%s%.*s\n      %s\n", verb, text, *rest ? " " : "", rest,
            HX_SPAN_FMT(hx_buf_span(&option)), meaning);
    hx_buf_fini(&option);
}

static void advise_unknown(const struct hx_ops *ops, const struct hx_store_found *found)
{
    const struct hx_id *id = &found->record.id;
    struct hx_buf doubt;
    char meaning[512];
    hx_buf_init(&doubt, 400);
    if (hx_ops_absence_doubt(found, &ops->now, &doubt))
        snprintf(meaning, sizeof(meaning),
                 "it did not, and will not be done; refused now without --force, since\n"
                 "      %.*s",
                 HX_SPAN_FMT(hx_buf_span(&doubt)));
    else
        snprintf(meaning, sizeof(meaning), "it did not, and will not be done");
    command(ops, id, "resolve", "happened", "it did happen; repeats of the call are told so");
    command(ops, id, "resolve", "absent", meaning);
    command(ops, id, "resolve", "again", "do it again: the next repeat of the call runs it, once");
    hx_buf_fini(&doubt);
}

void hx_ops_print_advice(const struct hx_ops *ops, const struct hx_store_found *found)
{
    const struct hx_record *record = &found->record;
    if (hx_op_state_is_final(record->state) && hx_id_is_nil(&record->successor))
        return;
    fputs("\nWhat can be done\n", ops->out);
    if (!hx_id_is_nil(&record->successor)) {
        command(ops, &record->successor, "show", "", "the operation that took its place");
        return;
    }
    switch (record->state) {
    case HX_OP_AWAITING_APPROVAL:
        command(ops, &record->id, "approve", "", "let it run");
        command(ops, &record->id, "deny", "", "it never runs");
        return;
    case HX_OP_READY:
        command(ops, &record->id, "cancel", "", "it never runs");
        return;
    case HX_OP_RUNNING:
        command(ops, &record->id, "cancel", "",
                record->attempt.is_marked
                    ? "note that it is not wanted any more; it may happen all the same"
                    : "it never runs, if nothing is sent before");
        return;
    case HX_OP_INPUT_REQUIRED:
        command(ops, &record->id, "resolve", "happened", "it did happen");
        return;
    case HX_OP_UNKNOWN:
        advise_unknown(ops, found);
        return;
    default:
        return;
    }
}

/* --- the history in words --- */

static bool put_member(struct hx_json_tape *tape, const char *name, const char *before,
                       struct hx_arena *arena, struct hx_buf *ret_words)
{
    uint32_t at = hx_json_member_of(tape, 0, hx_span_cstr(name), HX_JSON_STRING);
    struct hx_span text;
    if (at == HX_JSON_NONE || hx_json_string(tape, at, arena, &text) != 0)
        return false;
    (void)hx_buf_printf(ret_words, "%s%.*s", before, HX_SPAN_FMT(text));
    return true;
}

/* Reads a note; true when it is {"what":"decision","who":…,"decision":…,"answer":…,"note":…}. */
static bool read_decision(struct hx_span note, struct hx_json_tape *tape)
{
    struct hx_json_limits limits = HX_JSON_LIMITS_DEFAULT;
    return !hx_span_is_absent(note) && hx_json_read(tape, note, &limits) == 0 &&
           hx_json_is_text(tape, hx_json_member(tape, 0, HX_SPAN_LIT("what")),
                           HX_SPAN_LIT("decision"));
}

/* Notes of old, and those about an equal call, have no answer. */
static bool has_answer(const struct hx_json_tape *tape, enum hx_answer answer)
{
    uint32_t at = hx_json_member(tape, 0, HX_SPAN_LIT("answer"));
    return at != HX_JSON_NONE && hx_json_is_text(tape, at, hx_span_cstr(hx_answer_name(answer)));
}

static bool has_counted(const struct hx_json_tape *tape)
{
    return !has_answer(tape, HX_ANSWER_NOT_APPLIED) &&
           !has_answer(tape, HX_ANSWER_LEDGER_UNAVAILABLE);
}

bool hx_ops_is_decision(const struct hx_history_line *line)
{
    struct hx_json_tape tape;
    hx_json_tape_init(&tape);
    bool is_decision =
        strcmp(line->what, "note") == 0 && read_decision(line->text, &tape) && has_counted(&tape);
    hx_json_tape_fini(&tape);
    return is_decision;
}

/* Of notes that are no decisions the whole text. */
static void note_words(struct hx_span note, struct hx_buf *ret_words)
{
    struct hx_json_tape tape;
    struct hx_arena arena;
    hx_json_tape_init(&tape);
    hx_arena_init(&arena, 64 * 1024);
    if (read_decision(note, &tape)) {
        bool is_forced = false;
        (void)put_member(&tape, "who", "", &arena, ret_words);
        (void)put_member(&tape, "decision", ": ", &arena, ret_words);
        uint32_t forced = hx_json_member(&tape, 0, HX_SPAN_LIT("forced"));
        if (forced != HX_JSON_NONE && hx_json_bool(&tape, forced, &is_forced) && is_forced)
            (void)hx_buf_append_cstr(ret_words, ", forced");
        if (!has_counted(&tape))
            (void)hx_buf_append_cstr(ret_words, ", which was not applied");
        if (put_member(&tape, "note", ", \"", &arena, ret_words))
            (void)hx_buf_append_char(ret_words, '"');
    } else {
        (void)hx_buf_append_span(ret_words, note);
    }
    hx_arena_fini(&arena);
    hx_json_tape_fini(&tape);
}

void hx_ops_history_words(const struct hx_history_line *line, struct hx_buf *ret_words)
{
    if (strcmp(line->what, "note") == 0 || strcmp(line->what, "evidence") == 0) {
        note_words(line->text, ret_words);
        return;
    }
    if (strcmp(line->what, "mark") == 0) {
        (void)hx_buf_printf(ret_words, "attempt %" PRIu32 ": about to send its first byte",
                            line->attempt);
        return;
    }
    if (line->from != line->to && line->from != HX_OP_ABSENT)
        (void)hx_buf_printf(ret_words, "%s -> ", hx_op_state_name(line->from));
    (void)hx_buf_printf(ret_words, "%s", hx_op_state_name(line->to));
    if (line->reason != HX_REASON_NONE)
        (void)hx_buf_printf(ret_words, ", %s", hx_ops_words(hx_reason_name(line->reason)));
    if (line->attempt > 0)
        (void)hx_buf_printf(ret_words, "; attempt %" PRIu32 " %s", line->attempt,
                            hx_attempt_state_name(line->attempt_state));
    if (strcmp(line->what, "spool") == 0)
        (void)hx_buf_append_cstr(ret_words, "; from the spool of a process that died");
}
