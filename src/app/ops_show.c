/* SPDX-License-Identifier: MIT */
/*
 * `hapax ops show`: all about one operation. Arguments and results belong to the owner of the
 * ledger's file, which only he can read: he sees them on his terminal, but they do not get into a
 * pipe unasked.
 */
#include "app/ops.h"

#include <inttypes.h>
#include <string.h>

#include "app/ops_advice.h"
#include "app/ops_text.h"
#include "app/table.h"
#include "base/fault.h"
#include "core/words.h"
#include "json/reader.h"

enum { ATTEMPTS_MAX = 64, SHOWN_BYTES = 2048, LABEL = 11 };

/* --- as JSON --- */

static bool add_json_line(void *context, const struct hx_history_line *line)
{
    struct hx_json_writer *writer = context;
    hx_json_open_object(writer);
    hx_ops_put_history_line(writer, line);
    hx_json_close_object(writer);
    return hx_buf_ok(writer->buf);
}

static void put_attempts(struct hx_json_writer *writer, const struct hx_inspect_attempt *attempts,
                         uint32_t count)
{
    hx_json_put_name(writer, "attempts");
    hx_json_open_array(writer);
    for (uint32_t i = 0; i < count; i++) {
        hx_json_open_object(writer);
        hx_json_put_name(writer, "number");
        hx_json_put_uint(writer, attempts[i].number);
        hx_json_put_name(writer, "state");
        hx_json_put_cstr(writer, hx_attempt_state_name(attempts[i].state));
        hx_json_add_wall(writer, "claimed", attempts[i].claimed);
        hx_json_add_wall(writer, "marked", attempts[i].marked);
        hx_json_add_wall(writer, "ended", attempts[i].ended);
        hx_json_put_name(writer, "transport");
        hx_json_put_cstr(writer, attempts[i].transport);
        hx_json_close_object(writer);
    }
    hx_json_close_array(writer);
}

static int show_json(struct hx_ops *ops, const struct hx_store_found *found, struct hx_span outcome,
                     const struct hx_inspect_attempt *attempts, uint32_t attempt_count)
{
    struct hx_ops_json options = {.now = ops->now,
                                  .has_age = true,
                                  .has_payload = !ops->options.without_payload,
                                  .outcome = outcome,
                                  .redact = &ops->redaction.names};
    struct hx_json_writer writer;
    struct hx_buf buf;
    hx_buf_init(&buf, SIZE_MAX / 2);
    hx_json_writer_init(&writer, &buf);
    hx_json_open_object(&writer);
    hx_json_put_name(&writer, "ledger");
    hx_json_put_cstr(&writer, ops->path);
    hx_ops_put_operation(&writer, found, &options);
    put_attempts(&writer, attempts, attempt_count);
    hx_json_put_name(&writer, "history");
    hx_json_open_array(&writer);
    int rc = hx_inspect_history(ops->inspect, found->rowid, add_json_line, &writer);
    hx_json_close_array(&writer);
    if (rc == 0)
        rc = hx_ops_put_events(ops, &found->record.id, &writer);
    hx_json_close_object(&writer);
    bool is_printed = rc == 0 && hx_ops_print_json(ops->out, &buf);
    hx_buf_fini(&buf);
    return is_printed ? HX_EXIT_DONE : hx_ops_fault(ops, HX_EXIT_FAILED);
}

/* --- as text --- */

static void label(const struct hx_ops *ops, const char *name)
{
    fprintf(ops->out, "  %-*s", LABEL, name);
}

static void line_of(const struct hx_ops *ops, const char *name, const char *value)
{
    label(ops, name);
    fprintf(ops->out, "%s\n", value);
}

static void show_head(const struct hx_ops *ops, const struct hx_store_found *found)
{
    const struct hx_record *record = &found->record;
    char id[HX_ID_TEXT_SIZE], age[HX_OPS_AGE_SIZE];
    hx_id_format(&record->id, id);
    hx_ops_age(hx_age_ms(&record->updated, &ops->now), age);
    fprintf(ops->out, "operation %s\n\n", id);
    label(ops, "call");
    hx_ops_print_plain(ops->out, record->tool, 200);
    fputs(" of server ", ops->out);
    hx_ops_print_plain(ops->out, record->server, 200);
    fputc('\n', ops->out);
    label(ops, "state");
    fprintf(ops->out, "%s for %s: %s\n", hx_op_state_name(record->state), age,
            hx_ops_state_sentence(found));
    if (record->reason != HX_REASON_NONE)
        line_of(ops, "reason", hx_ops_words(hx_reason_name(record->reason)));
    line_of(ops, "effect", hx_effect_state_name(hx_record_effect(record)));
    label(ops, "delivery");
    fprintf(ops->out, "%s; %" PRIu32 " answered, %" PRIu32 " lost\n",
            hx_ops_words(hx_delivery_name(hx_record_delivery(record))), record->sent_count,
            record->lost_count);
}

static void show_flags(const struct hx_ops *ops, const struct hx_record *record)
{
    if (record->needs_human && record->state == HX_OP_UNKNOWN && !record->is_superseded)
        line_of(ops, "!", "unknown for so long that a person must look");
    if (record->is_disputed)
        line_of(ops, "!", "DISPUTED: evidence that came later contradicts this");
    if (record->is_cancel_requested && !hx_op_state_is_final(record->state))
        line_of(ops, "!", "a cancel was requested; it may have happened all the same");
    if (record->is_tombstone)
        line_of(ops, "!", "cancelled before it arrived");
}

static void show_link(const struct hx_ops *ops, const char *name, const struct hx_id *id)
{
    char text[HX_ID_TEXT_SIZE];
    if (hx_id_is_nil(id))
        return;
    hx_id_format(id, text);
    line_of(ops, name, text);
}

/* Takes the next of the words between blanks. */
static struct hx_span take_word(struct hx_span *rest)
{
    const char *blank = rest->len > 0 ? memchr(rest->ptr, ' ', rest->len) : NULL;
    struct hx_span word = hx_span(rest->ptr, blank ? (size_t)(blank - rest->ptr) : rest->len);
    size_t used = word.len + (blank ? 1 : 0);
    *rest = hx_span(rest->ptr + used, rest->len - used);
    return word;
}

/* Every word of it that is not the default; the class in any case. Both texts have the same words
 * in the same order, differing in their values only. */
static void show_contract(const struct hx_ops *ops, const struct hx_contract *contract)
{
    struct hx_contract initial = hx_contract_default();
    struct hx_buf ours, defaults;
    hx_buf_init(&ours, 4096);
    hx_buf_init(&defaults, 4096);
    hx_contract_format(contract, &ours);
    hx_contract_format(&initial, &defaults);
    struct hx_span rest = hx_buf_span(&ours), rest_of_defaults = hx_buf_span(&defaults);
    label(ops, "contract");
    for (bool is_class = true; rest.len > 0; is_class = false) {
        struct hx_span word = take_word(&rest);
        if (!hx_span_eq(word, take_word(&rest_of_defaults)) || is_class)
            fprintf(ops->out, "%s%.*s", is_class ? "" : " ", HX_SPAN_FMT(word));
    }
    fputc('\n', ops->out);
    hx_buf_fini(&ours);
    hx_buf_fini(&defaults);
}

static void show_identity(const struct hx_ops *ops, const struct hx_record *record,
                          bool has_payload)
{
    char created[HX_TIME_TEXT_SIZE], age[HX_OPS_AGE_SIZE];
    hx_ops_moment(record->created.wall, created);
    hx_ops_age(hx_age_ms(&record->created, &ops->now), age);
    label(ops, "called");
    fprintf(ops->out, "%s, %s ago; repeated %" PRIu32 " time%s\n", created, age, record->repeats,
            record->repeats == 1 ? "" : "s");
    label(ops, "by");
    fputs("principal ", ops->out);
    hx_ops_print_plain(ops->out, record->principal, 200);
    fputs(", tenant ", ops->out);
    hx_ops_print_plain(ops->out, record->tenant, 200);
    fputc('\n', ops->out);
    label(ops, "key");
    if (record->key_source == HX_KEY_NONE) {
        fputs("none", ops->out);
    } else if (has_payload) {
        bool is_shown = hx_ops_shows_key(record, &ops->redaction.names);
        hx_ops_print_plain(ops->out, is_shown ? record->key : HX_SPAN_LIT(HX_REDACTED),
                           HX_ID_SIZE * HX_ID_SIZE);
        fprintf(ops->out, " (%s)", hx_key_source_name(record->key_source));
    } else {
        fprintf(ops->out, "%s", hx_key_source_name(record->key_source));
    }
    fprintf(ops->out, "%s\n", record->generation > 0 ? ", a later generation" : "");
    show_link(ops, "follows", &record->predecessor);
    show_link(ops, "successor", &record->successor);
    show_contract(ops, &record->contract);
}

static void show_bytes(const struct hx_ops *ops, struct hx_span bytes, bool has_payload)
{
    struct hx_buf redacted;
    if (!has_payload) {
        fprintf(ops->out, "%zu bytes, not shown: --arguments shows them\n", bytes.len);
        return;
    }
    hx_buf_init(&redacted, SIZE_MAX / 2);
    hx_ops_print_plain(ops->out, hx_redact_shown(&ops->redaction.names, bytes, &redacted),
                       SHOWN_BYTES);
    fputc('\n', ops->out);
    hx_buf_fini(&redacted);
}

static void show_payload(const struct hx_ops *ops, const struct hx_record *record,
                         struct hx_span outcome, bool has_payload)
{
    label(ops, "arguments");
    if (hx_span_is_absent(record->arguments))
        fputs(record->is_tombstone ? "not known\n" : "none, or not kept any more\n", ops->out);
    else
        show_bytes(ops, record->arguments, has_payload);
    if (record->outcome.kind == HX_OUTCOME_NONE)
        return;
    label(ops, "outcome");
    fprintf(
        ops->out, "%s%s, %" PRIu64 " bytes%s%s\n",
        record->outcome.kind == HX_OUTCOME_ERROR ? "an error" : "a result",
        record->outcome.kind == HX_OUTCOME_RESULT && record->outcome.is_error ? " that says error"
                                                                              : "",
        record->outcome.size, record->outcome.is_reconstructed ? ", not the tool's own words" : "",
        record->outcome.place == HX_OUTCOME_GONE ? ", not kept" : "");
    if (hx_span_is_absent(outcome))
        return;
    label(ops, "");
    show_bytes(ops, outcome, has_payload);
}

static void show_attempts(const struct hx_ops *ops, const struct hx_inspect_attempt *attempts,
                          uint32_t count)
{
    static const char *const titles[] = {">attempt",   "state", "claimed",
                                         "first byte", "ended", "transport"};
    if (count == 0)
        return;
    struct hx_table *table = hx_table_new(titles, sizeof(titles) / sizeof(titles[0]));
    for (uint32_t i = 0; i < count; i++) {
        const struct hx_inspect_attempt *attempt = &attempts[i];
        char claimed[HX_TIME_TEXT_SIZE], marked[HX_TIME_TEXT_SIZE], ended[HX_TIME_TEXT_SIZE];
        hx_ops_moment(attempt->claimed, claimed);
        hx_ops_moment(attempt->marked, marked);
        hx_ops_moment(attempt->ended, ended);
        hx_table_addf(table, HX_CELL_PLAIN, "%" PRIu32, attempt->number);
        hx_table_add(table, hx_span_cstr(hx_attempt_state_name(attempt->state)), HX_CELL_PLAIN);
        hx_table_add(table, hx_span_cstr(claimed), HX_CELL_PLAIN);
        hx_table_add(table, hx_span_cstr(marked), HX_CELL_PLAIN);
        hx_table_add(table, hx_span_cstr(ended), HX_CELL_PLAIN);
        hx_table_add(table, hx_span_cstr(attempt->transport), HX_CELL_FAINT);
    }
    fputc('\n', ops->out);
    hx_table_print(table, ops->out, hx_table_options_for(stdout));
    hx_table_free(table);
}

static bool add_table_line(void *context, const struct hx_history_line *line)
{
    struct hx_table *table = context;
    char at[HX_TIME_TEXT_SIZE], process[HX_ID_TEXT_SIZE];
    struct hx_buf words;
    hx_buf_init(&words, 4096);
    hx_ops_moment(line->at, at);
    hx_ops_history_words(line, &words);
    hx_table_add(table, hx_span_cstr(at), HX_CELL_PLAIN);
    hx_ops_short_id(&line->who, process);
    hx_table_add(table, hx_span_cstr(hx_id_is_nil(&line->who) ? "hapax ops" : process),
                 HX_CELL_FAINT);
    hx_table_add(table, hx_buf_span(&words), HX_CELL_PLAIN);
    hx_buf_fini(&words);
    return true;
}

static int show_text(struct hx_ops *ops, const struct hx_store_found *found, struct hx_span outcome,
                     const struct hx_inspect_attempt *attempts, uint32_t attempt_count)
{
    static const char *const titles[] = {"at", "process", "what"};
    bool has_payload =
        !ops->options.without_payload && (ops->is_terminal || ops->options.has_arguments);
    show_head(ops, found);
    show_flags(ops, &found->record);
    show_identity(ops, &found->record, has_payload);
    show_payload(ops, &found->record, outcome, has_payload);
    show_attempts(ops, attempts, attempt_count);
    struct hx_table *table = hx_table_new(titles, sizeof(titles) / sizeof(titles[0]));
    int rc = hx_inspect_history(ops->inspect, found->rowid, add_table_line, table);
    if (rc == 0 && hx_table_row_count(table) > 0) {
        fputc('\n', ops->out);
        hx_table_print(table, ops->out, hx_table_options_for(stdout));
    }
    hx_table_free(table);
    if (rc == 0)
        rc = hx_ops_print_events(ops, &found->record.id);
    if (rc < 0)
        return hx_ops_fault(ops, HX_EXIT_FAILED);
    hx_ops_print_advice(ops, found);
    return HX_EXIT_DONE;
}

int hx_ops_show(struct hx_ops *ops)
{
    struct hx_store_found found;
    struct hx_inspect_attempt attempts[ATTEMPTS_MAX];
    uint32_t attempt_count = 0;
    struct hx_span outcome = HX_SPAN_NONE;
    int status = hx_ops_read_redaction(ops);
    if (status == 0)
        status = hx_ops_find(ops, &found);
    if (status != 0)
        return status;
    if (found.record.outcome.kind != HX_OUTCOME_NONE &&
        found.record.outcome.place != HX_OUTCOME_GONE &&
        hx_inspect_payload(ops->inspect, &found.record.id, &ops->arena, &outcome) < 0)
        return hx_ops_fault(ops, HX_EXIT_FAILED);
    if (hx_inspect_attempts(ops->inspect, found.rowid, attempts, ATTEMPTS_MAX, &attempt_count) < 0)
        return hx_ops_fault(ops, HX_EXIT_FAILED);
    return ops->options.is_json ? show_json(ops, &found, outcome, attempts, attempt_count)
                                : show_text(ops, &found, outcome, attempts, attempt_count);
}
