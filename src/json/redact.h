/* SPDX-License-Identifier: MIT */
/*
 * Takes the values of named members out of a text before somebody is shown it.
 *
 * A name means members at any depth, whatever their case and whether their words are joined by `_`,
 * by `-`, by a space or by nothing: api_key is also apiKey and API-KEY. Their values become the
 * string "[redacted]", whatever they were; so does the value that an object gives to a name
 * ({"name":"password","value":"x"}), and what follows an option in a list (["--password","x"]). All
 * other bytes stay as they are.
 *
 * Tools put JSON into strings (the text of a result says what its structuredContent says), so a
 * string that holds JSON is looked into too; when something is taken out of it, its escapes may be
 * spelled otherwise. Other text has no members: it is taken out as a whole when a name stands in it
 * before a colon or an equals sign, or as an option ("--password x"). So is JSON that is nested
 * deeper than we read. What running text says in another way is not found. All of it takes time
 * that grows with the text as one.
 *
 * Only copies are changed, never what is sent, stored or compared.
 */
#ifndef HX_JSON_REDACT_H
#define HX_JSON_REDACT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/assert.h"
#include "base/buf.h"
#include "base/span.h"

#define HX_REDACTED "[redacted]"
/* Longer names are none. */
#define HX_REDACT_NAME_MAX 128

struct hx_redact_names {
    const struct hx_span *items; /* borrowed */
    size_t count;
};

enum hx_redact_outcome { HX_REDACT_UNTOUCHED = 1 /* nothing is named; nothing was appended */ };

/* A name that could be meant: a letter or digit, no control byte, and nothing that somebody takes
 * for a pattern or a pointer. */
bool hx_redact_name_is_good(struct hx_span name);
/* Whether the two name the same members. */
bool hx_redact_name_eq(struct hx_span a, struct hx_span b);

/* Appends `text` without what the names take out of it; JSON stays JSON. `names` may be NULL. 0,
 * HX_REDACT_UNTOUCHED, HX_E_NOMEM, or HX_E_LIMIT from the buffer. */
int hx_redact(const struct hx_redact_names *names, struct hx_span text,
              struct hx_buf *out) HX_MUST_CHECK;

/* What may be shown of `text`: all of it, or what `buf` (empty, the caller's) then holds. Where
 * memory ends, nothing of it. */
struct hx_span hx_redact_shown(const struct hx_redact_names *names, struct hx_span text,
                               struct hx_buf *buf);

#endif
