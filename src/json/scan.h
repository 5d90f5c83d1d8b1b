/* SPDX-License-Identifier: MIT */
/*
 * The inner loop of every JSON scan: how far does a run of plain string bytes reach? Plain means
 * ASCII that needs no look: not a quote, not a backslash, no control character. Eight bytes at a
 * time with plain integer arithmetic, so that it is fast on every machine without a line of
 * intrinsics.
 */
#ifndef HX_JSON_SCAN_H
#define HX_JSON_SCAN_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline bool hx_json_is_plain(unsigned char byte)
{
    return byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
}

/* First byte in [at, end) that is not plain, or `end`. */
static inline const unsigned char *hx_json_plain_end(const unsigned char *at,
                                                     const unsigned char *end)
{
    const uint64_t ones = 0x0101010101010101u;
    const uint64_t highs = 0x8080808080808080u;

    while (end - at >= 8) {
        uint64_t word;
        memcpy(&word, at, sizeof(word));
        /* (x - n) borrows into the high bit where x < n. Bytes from 0x80 need no term of their own:
         * the high bit survives at least one of the two exclusive ors and subtractions of 1. A
         * borrow out of a byte can only come from one that stops us itself. */
        uint64_t quote = word ^ (ones * '"');
        uint64_t slash = word ^ (ones * '\\');
        uint64_t stops = (word - ones * 0x20) | (quote - ones) | (slash - ones);
        if ((stops & highs) != 0)
            break;
        at += 8;
    }
    while (at < end && hx_json_is_plain(*at))
        at++;
    return at;
}

static inline bool hx_json_is_space(unsigned char byte)
{
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

static inline bool hx_json_is_digit(unsigned char byte)
{
    return byte >= '0' && byte <= '9';
}

/* Length (1-4) of the valid UTF-8 sequence at `at`, or 0: overlong forms, surrogates and values
 * above U+10FFFF are not valid. */
static inline unsigned hx_json_utf8_len(const unsigned char *at, const unsigned char *end)
{
    unsigned char lead = at[0];
    if (lead < 0x80)
        return 1;
    if (lead < 0xC2 || lead > 0xF4)
        return 0;
    if (end - at < 2 || (at[1] & 0xC0) != 0x80)
        return 0;
    if (lead < 0xE0)
        return 2;
    if (end - at < 3 || (at[2] & 0xC0) != 0x80)
        return 0;
    if (lead < 0xF0) {
        bool is_overlong = lead == 0xE0 && at[1] < 0xA0;
        bool is_surrogate = lead == 0xED && at[1] >= 0xA0;
        return is_overlong || is_surrogate ? 0 : 3;
    }
    if (end - at < 4 || (at[3] & 0xC0) != 0x80)
        return 0;
    bool is_overlong = lead == 0xF0 && at[1] < 0x90;
    bool is_too_big = lead == 0xF4 && at[1] >= 0x90;
    return is_overlong || is_too_big ? 0 : 4;
}

#endif
