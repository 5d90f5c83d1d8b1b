/* SPDX-License-Identifier: MIT */
/*
 * Text with places to be filled, as an operator writes it: `{"reference": "${effect_key}"}`. A
 * string of JSON that is one place and nothing else becomes the value itself, whatever its type;
 * inside of other text the value's characters are put. Nothing is evaluated.
 */
#ifndef HX_JSON_TEMPLATE_H
#define HX_JSON_TEMPLATE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/span.h"

/* Where the values come from. */
struct hx_json_places {
    /* What a place is called ("effect_key", "/pointer"), as raw JSON, or for plain text as its
     * characters; absent: none. */
    struct hx_span (*value)(void *context, struct hx_span name);
    void *context;
};

/* Appends `text` with its places filled. Inside of quotes a string's content is put, escapes
 * untouched. False when a place has no value, or memory ran out. */
bool hx_json_template_fill(struct hx_buf *out, struct hx_span text,
                           const struct hx_json_places *places);
/* The same for one value, in quotes or without: a text that is one place and nothing else becomes
 * the value itself. */
bool hx_json_template_fill_value(struct hx_buf *out, struct hx_span text,
                                 const struct hx_json_places *places);
/* The same for plain text: the places' characters are put as they are. */
bool hx_json_template_fill_text(struct hx_buf *out, struct hx_span text,
                                const struct hx_json_places *places);

#endif
