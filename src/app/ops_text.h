/* SPDX-License-Identifier: MIT */
/*
 * Operations in words and in JSON, the same for every command.
 */
#ifndef HX_APP_OPS_TEXT_H
#define HX_APP_OPS_TEXT_H

#include <stdio.h>

#include "adapter/store_sqlite/inspect.h"
#include "json/redact.h"
#include "json/writer.h"

/* The last digits of an id, which are random; the first are its time and alike for neighbours. */
enum { HX_OPS_SHORT_ID = 8 };
/* Into HX_ID_TEXT_SIZE bytes. */
void hx_ops_short_id(const struct hx_id *id, char *ret_text);

#define HX_OPS_AGE_SIZE 24
/* "12s", "3m12s", "2h05m", "4d07h". */
void hx_ops_age(int64_t ms, char *ret_text);

/* "2026-11-29 20:01:02Z" into HX_TIME_TEXT_SIZE bytes, "-" for never. */
void hx_ops_moment(struct hx_wall wall, char *ret_text);

/* Underscores as blanks. Static storage of eight texts, used in turn. */
const char *hx_ops_words(const char *name);

/* Bytes from elsewhere on a terminal: control bytes as '?', at most `max` bytes. */
void hx_ops_print_plain(FILE *out, struct hx_span text, size_t max);

/* Members of a JSON object that is open. */
struct hx_ops_json {
    struct hx_now now;
    bool has_age;           /* what changes from look to look is not in an export */
    bool has_payload;       /* key, arguments and outcome too */
    struct hx_span outcome; /* its bytes when they are not in the record; may be absent */
    const struct hx_redact_names *redact; /* NULL = all is shown as it is */
};
void hx_ops_put_operation(struct hx_json_writer *writer, const struct hx_store_found *found,
                          const struct hx_ops_json *options);
/* False when the caller's key came in a member that must not be shown, or may have. */
bool hx_ops_shows_key(const struct hx_record *record, const struct hx_redact_names *redact);
void hx_ops_put_history_line(struct hx_json_writer *writer, const struct hx_history_line *line);
/* JSON from elsewhere as one line; null when absent, a string when it is no JSON. */
void hx_ops_put_json(struct hx_json_writer *writer, const char *name, struct hx_span json);

/* Writes a whole JSON document and a line end. False, with a fault, when it became too large. */
bool hx_ops_print_json(FILE *out, struct hx_buf *buf) HX_MUST_CHECK;

/* Who holds it, in one word. */
const char *hx_ops_owner_name(enum hx_owner_fact fact);

#endif
