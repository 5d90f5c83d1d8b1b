/* SPDX-License-Identifier: MIT */
/*
 * What a JSON string says, as opposed to how it is spelled. Works on the bytes between the quotes
 * of a string that the reader has accepted; "a" and "\u0061" are the same text.
 */
#ifndef HX_JSON_TEXT_H
#define HX_JSON_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/span.h"

/* Outcomes of hx_json_text_decode. */
enum { HX_JSON_TEXT_LONE_SURROGATE = 1 };

/* Code points one by one. A surrogate escape without its partner comes out as itself
 * (U+D800-DFFF). */
struct hx_json_chars {
    const unsigned char *at;
    const unsigned char *end;
};

static inline struct hx_json_chars hx_json_chars(struct hx_span content)
{
    const unsigned char *at = (const unsigned char *)content.ptr;
    return (struct hx_json_chars){at, at + content.len};
}

/* The next code point, or -1 at the end. */
int32_t hx_json_chars_next(struct hx_json_chars *chars);

/* Writes 1-4 bytes of UTF-8 and returns how many. `code` may be a surrogate (three bytes, for
 * comparing only). */
unsigned hx_json_utf8_encode(int32_t code, char *ret_bytes);

/* <0, 0, >0 in the order of UTF-16 code units, which is what RFC 8785 sorts names by. */
int hx_json_text_compare(struct hx_span a, struct hx_span b);
/* `plain` is UTF-8 without escapes. */
bool hx_json_text_eq(struct hx_span content, struct hx_span plain);

/*
 * The UTF-8 that `content` means. Borrowed from `content` itself when it holds no escape, else
 * copied into `arena`. 0; HX_JSON_TEXT_LONE_SURROGATE (no UTF-8 exists for it); HX_E_NOMEM.
 */
int hx_json_text_decode(struct hx_span content, struct hx_arena *arena,
                        struct hx_span *ret_text) HX_MUST_CHECK;

/* Appends `text` as a JSON string with its quotes, with the fewest escapes (those of RFC 8785).
 * Bytes that are not UTF-8 become U+FFFD: what we write is always valid. Failure is remembered by
 * `buf`. */
void hx_json_text_quote(struct hx_buf *buf, struct hx_span text);

#endif
