/* SPDX-License-Identifier: MIT */
#include "app/ops_text.h"

#include <inttypes.h>
#include <string.h>

#include "base/fault.h"
#include "core/key.h"
#include "core/words.h"
#include "json/reader.h"
#include "json/text.h"

void hx_ops_short_id(const struct hx_id *id, char *ret_text)
{
    char full[HX_ID_TEXT_SIZE];
    hx_id_format(id, full);
    snprintf(ret_text, HX_ID_TEXT_SIZE, "%s", full + sizeof(full) - 1 - HX_OPS_SHORT_ID);
}

void hx_ops_age(int64_t ms, char *ret_text)
{
    int64_t seconds = ms < 0 ? 0 : ms / 1000;
    int64_t minutes = seconds / 60, hours = minutes / 60, days = hours / 24;
    if (minutes == 0)
        snprintf(ret_text, HX_OPS_AGE_SIZE, "%" PRId64 "s", seconds);
    else if (hours == 0)
        snprintf(ret_text, HX_OPS_AGE_SIZE, "%" PRId64 "m%02" PRId64 "s", minutes, seconds % 60);
    else if (days == 0)
        snprintf(ret_text, HX_OPS_AGE_SIZE, "%" PRId64 "h%02" PRId64 "m", hours, minutes % 60);
    else
        snprintf(ret_text, HX_OPS_AGE_SIZE, "%" PRId64 "d%02" PRId64 "h", days, hours % 24);
}

void hx_ops_moment(struct hx_wall wall, char *ret_text)
{
    enum { SECONDS_END = 19 };
    if (wall.ms == 0) {
        memcpy(ret_text, "-", 2);
        return;
    }
    hx_wall_format(wall, ret_text);
    if (strlen(ret_text) < SECONDS_END)
        return;
    ret_text[10] = ' ';
    memcpy(ret_text + SECONDS_END, "Z", 2);
}

const char *hx_ops_words(const char *name)
{
    enum { TURNS = 8, SIZE = 64 };
    static char texts[TURNS][SIZE];
    static unsigned turn;
    char *text = texts[turn++ % TURNS];
    snprintf(text, SIZE, "%s", name);
    for (char *at = text; *at; at++)
        if (*at == '_')
            *at = ' ';
    return text;
}

void hx_ops_print_plain(FILE *out, struct hx_span text, size_t max)
{
    size_t len = text.len < max ? text.len : max;
    /* Not in the middle of a sign. */
    while (len > 0 && len < text.len && ((unsigned char)text.ptr[len] & 0xc0) == 0x80)
        len--;
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)text.ptr[i];
        /* 0xC2 0x80-0x9F are control characters too. */
        bool is_c1 = byte == 0xc2 && i + 1 < len && (unsigned char)text.ptr[i + 1] < 0xa0;
        if (is_c1)
            i++;
        fputc(byte < 0x20 || byte == 0x7f || is_c1 ? '?' : byte, out);
    }
    if (len < text.len)
        fprintf(out, " … (%zu bytes in all)", text.len);
}

const char *hx_ops_owner_name(enum hx_owner_fact fact)
{
    static const char *const names[] = {
        [HX_OWNER_NOBODY] = "nobody",       [HX_OWNER_MINE] = "this process",
        [HX_OWNER_ALIVE] = "alive",         [HX_OWNER_DEAD] = "dead",
        [HX_OWNER_ELSEWHERE] = "elsewhere", [HX_OWNER_ELSEWHERE_LAPSED] = "elsewhere, lapsed",
    };
    return names[fact];
}

/* --- JSON --- */

static void put_span(struct hx_json_writer *writer, const char *name, struct hx_span value)
{
    hx_json_put_name(writer, name);
    hx_json_put_string(writer, value);
}

static void put_digest(struct hx_json_writer *writer, const char *name,
                       const struct hx_digest *digest)
{
    char text[7 + HX_DIGEST_HEX_SIZE] = "sha256:";
    hx_digest_hex(digest, text + 7);
    hx_json_add_cstr(writer, name, text);
}

/* What a program put into its ledger by the library need not be JSON. */
static bool is_json(struct hx_span text)
{
    struct hx_json_tape tape;
    struct hx_json_limits limits = HX_JSON_LIMITS_DEFAULT;
    limits.record_depth_max = 1;
    limits.elements_max = 1;
    hx_json_tape_init(&tape);
    bool is_read = hx_json_read(&tape, text, &limits) == 0;
    hx_json_tape_fini(&tape);
    return is_read;
}

/* Line ends stand in JSON between its words only, where a blank means the same. */
void hx_ops_put_json(struct hx_json_writer *writer, const char *name, struct hx_span json)
{
    hx_json_put_name(writer, name);
    if (hx_span_is_absent(json) || json.len == 0) {
        hx_json_put_null(writer);
        return;
    }
    if (!is_json(json)) {
        hx_json_put_string(writer, json);
        return;
    }
    size_t begin = writer->buf->len;
    hx_json_put_raw(writer, json);
    if (!hx_buf_ok(writer->buf))
        return;
    for (size_t i = begin; i < writer->buf->len; i++)
        if (writer->buf->data[i] == '\n' || writer->buf->data[i] == '\r')
            writer->buf->data[i] = ' ';
}

static void put_attempt(struct hx_json_writer *writer, const struct hx_record *record)
{
    const struct hx_attempt *attempt = &record->attempt;
    hx_json_put_name(writer, "attempt");
    hx_json_open_object(writer);
    hx_json_add_uint(writer, "number", attempt->number);
    hx_json_add_cstr(writer, "state", hx_attempt_state_name(attempt->state));
    hx_json_add_wall(writer, "claimed", attempt->claimed_at.wall);
    hx_json_add_wall(writer, "marked",
                     attempt->is_marked ? attempt->marked_at.wall : (struct hx_wall){0});
    hx_json_add_cstr(writer, "transport", attempt->transport);
    hx_json_close_object(writer);
    hx_json_put_name(writer, "earlier_attempts");
    hx_json_open_object(writer);
    hx_json_add_uint(writer, "open", record->earlier.open);
    hx_json_add_uint(writer, "asked", record->earlier.asked);
    hx_json_add_uint(writer, "confirmed", record->earlier.confirmed);
    hx_json_add_uint(writer, "refused", record->earlier.refused);
    hx_json_close_object(writer);
    hx_json_add_uint(writer, "sends", record->sends);
}

/* True when something was taken out of it. */
static bool put_shown(struct hx_json_writer *writer, const char *name, struct hx_span json,
                      const struct hx_redact_names *redact)
{
    struct hx_buf redacted;
    hx_buf_init(&redacted, SIZE_MAX / 2);
    struct hx_span shown = hx_redact_shown(redact, json, &redacted);
    hx_ops_put_json(writer, name, shown);
    hx_buf_fini(&redacted);
    return shown.ptr != json.ptr;
}

/* True when something was taken out of it. */
static bool put_outcome(struct hx_json_writer *writer, const struct hx_outcome *outcome,
                        const struct hx_ops_json *options)
{
    static const char *const kinds[] = {
        [HX_OUTCOME_NONE] = "none", [HX_OUTCOME_RESULT] = "result", [HX_OUTCOME_ERROR] = "error"};
    static const char *const places[] = {
        [HX_OUTCOME_INLINE] = "row", [HX_OUTCOME_BLOB] = "file", [HX_OUTCOME_GONE] = "gone"};
    hx_json_put_name(writer, "outcome");
    if (outcome->kind == HX_OUTCOME_NONE) {
        hx_json_put_null(writer);
        return false;
    }
    bool is_redacted = false;
    hx_json_open_object(writer);
    hx_json_add_cstr(writer, "kind", kinds[outcome->kind]);
    hx_json_add_bool(writer, "is_error", outcome->is_error);
    hx_json_add_bool(writer, "is_reconstructed", outcome->is_reconstructed);
    hx_json_add_cstr(writer, "place", places[outcome->place]);
    hx_json_add_uint(writer, "size", outcome->size);
    put_digest(writer, "digest", &outcome->digest);
    if (options->has_payload)
        is_redacted =
            put_shown(writer, "value",
                      hx_span_is_absent(options->outcome) ? outcome->bytes : options->outcome,
                      options->redact);
    hx_json_close_object(writer);
    return is_redacted;
}

/* From the call to its end, or to the moment when its outcome was called unknown. */
static void put_duration(struct hx_json_writer *writer, const struct hx_record *record)
{
    hx_json_put_name(writer, "duration_ms");
    if (record->settled.wall.ms == 0)
        hx_json_put_null(writer);
    else
        hx_json_put_int(writer, hx_age_ms(&record->created, &record->settled));
}

static void put_flags(struct hx_json_writer *writer, const struct hx_record *record)
{
    hx_json_add_bool(writer, "needs_human",
                     record->needs_human && record->state == HX_OP_UNKNOWN &&
                         !record->is_superseded);
    hx_json_add_bool(writer, "is_superseded", record->is_superseded);
    hx_json_add_bool(writer, "is_disputed", record->is_disputed);
    hx_json_add_bool(writer, "is_tombstone", record->is_tombstone);
    hx_json_add_bool(writer, "is_approved", record->is_approved);
    hx_json_add_bool(writer, "is_cancel_requested", record->is_cancel_requested);
    hx_json_add_bool(writer, "is_told_pending", record->is_told_pending);
}

bool hx_ops_shows_key(const struct hx_record *record, const struct hx_redact_names *redact)
{
    bool is_member = record->key_source == HX_KEY_ARGUMENT || record->key_source == HX_KEY_INJECTED;
    if (!is_member || redact == NULL || redact->count == 0)
        return true;
    if (hx_span_is_absent(record->arguments)) /* not kept: nobody can tell any more */
        return false;
    struct hx_buf redacted, key;
    hx_buf_init(&redacted, SIZE_MAX / 2);
    hx_buf_init(&key, 8 * HX_KEY_LEN_MAX);
    struct hx_span shown = hx_redact_shown(redact, record->arguments, &redacted);
    hx_json_text_quote(&key, record->key);
    bool is_shown = shown.ptr == record->arguments.ptr ||
                    (hx_buf_ok(&key) && hx_span_contains(shown, hx_buf_span(&key)));
    hx_buf_fini(&key);
    hx_buf_fini(&redacted);
    return is_shown;
}

/* True when something was taken out of it. */
static bool put_key(struct hx_json_writer *writer, const struct hx_record *record,
                    const struct hx_ops_json *options)
{
    if (!options->has_payload || record->key_source == HX_KEY_NONE)
        return false;
    bool is_shown = hx_ops_shows_key(record, options->redact);
    put_span(writer, "key", is_shown ? record->key : HX_SPAN_LIT(HX_REDACTED));
    return !is_shown;
}

/* True when something was taken out of it. */
static bool put_identity(struct hx_json_writer *writer, const struct hx_record *record,
                         const struct hx_ops_json *options)
{
    put_span(writer, "tenant", record->tenant);
    put_span(writer, "principal", record->principal);
    put_span(writer, "server", record->server);
    put_span(writer, "tool", record->tool);
    hx_json_add_cstr(writer, "key_source", hx_key_source_name(record->key_source));
    bool is_redacted = put_key(writer, record, options);
    hx_json_add_uint(writer, "generation", record->generation);
    put_digest(writer, "fingerprint", &record->fingerprint);
    return is_redacted;
}

void hx_ops_put_operation(struct hx_json_writer *writer, const struct hx_store_found *found,
                          const struct hx_ops_json *options)
{
    const struct hx_record *record = &found->record;
    hx_json_add_id(writer, "id", &record->id);
    hx_json_add_cstr(writer, "execution", hx_op_state_name(record->state));
    hx_json_add_cstr(writer, "effect", hx_effect_state_name(hx_record_effect(record)));
    hx_json_add_cstr(writer, "delivery", hx_delivery_name(hx_record_delivery(record)));
    hx_json_add_cstr(writer, "reason", hx_reason_name(record->reason));
    bool is_redacted = put_identity(writer, record, options);
    if (options->has_age) {
        hx_json_put_name(writer, "age_ms");
        hx_json_put_int(writer, hx_age_ms(&record->created, &options->now));
    }
    hx_json_add_wall(writer, "first_sent", record->first_sent);
    hx_json_add_wall(writer, "created", record->created.wall);
    hx_json_add_wall(writer, "updated", record->updated.wall);
    hx_json_add_wall(writer, "settled", record->settled.wall);
    hx_json_add_wall(writer, "not_before", record->not_before.wall);
    put_duration(writer, record);
    hx_json_add_cstr(writer, "owner", hx_ops_owner_name(found->owner_fact));
    hx_json_add_uint(writer, "fence", record->fence);
    put_attempt(writer, record);
    hx_json_add_uint(writer, "repeats", record->repeats);
    hx_json_add_uint(writer, "answers_sent", record->sent_count);
    hx_json_add_uint(writer, "answers_lost", record->lost_count);
    hx_json_add_uint(writer, "adoptions", record->adoptions);
    put_flags(writer, record);
    hx_json_add_id(writer, "successor", &record->successor);
    hx_json_add_id(writer, "predecessor", &record->predecessor);
    if (options->has_payload) {
        hx_json_add_id(writer, "effect_key", &record->effect_key);
        is_redacted |= put_shown(writer, "arguments", record->arguments, options->redact);
    }
    is_redacted |= put_outcome(writer, &record->outcome, options);
    if (options->has_payload)
        hx_json_add_bool(writer, "is_redacted", is_redacted);
    struct hx_buf contract;
    hx_buf_init(&contract, 4096);
    hx_contract_format(&record->contract, &contract);
    put_span(writer, "contract", hx_buf_span(&contract));
    hx_buf_fini(&contract);
}

void hx_ops_put_history_line(struct hx_json_writer *writer, const struct hx_history_line *line)
{
    hx_json_add_wall(writer, "at", line->at);
    hx_json_add_cstr(writer, "what", line->what);
    bool is_row_change = strcmp(line->what, "note") != 0 && strcmp(line->what, "evidence") != 0;
    if (is_row_change) {
        hx_json_add_cstr(writer, "from", hx_op_state_name(line->from));
        hx_json_add_cstr(writer, "to", hx_op_state_name(line->to));
        hx_json_add_cstr(writer, "reason", hx_reason_name(line->reason));
        hx_json_add_uint(writer, "fence", line->fence);
        hx_json_add_uint(writer, "attempt", line->attempt);
        hx_json_add_cstr(writer, "attempt_state", hx_attempt_state_name(line->attempt_state));
    }
    hx_json_add_id(writer, "process", &line->who);
    if (hx_span_is_absent(line->text) || line->text.len == 0)
        return;
    if (is_row_change)
        put_span(writer, "transport", line->text);
    else
        hx_ops_put_json(writer, "note", line->text);
}

bool hx_ops_print_json(FILE *out, struct hx_buf *buf)
{
    (void)hx_buf_append_char(buf, '\n'); /* remembered by the buffer */
    if (!hx_buf_ok(buf)) {
        (void)HX_RAISE(HX_E_LIMIT, "An operation is too large to be written as JSON.");
        return false;
    }
    (void)fwrite(buf->data, 1, buf->len, out); /* remembered by the stream */
    return true;
}
