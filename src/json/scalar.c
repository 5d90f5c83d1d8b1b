/* SPDX-License-Identifier: MIT */
#include "json/scalar.h"

#include "json/reader.h"
#include "json/scan.h"

static int refuse(struct hx_json_cursor *cursor, enum hx_json_outcome outcome, const char *reason)
{
    cursor->reason = reason;
    return (int)outcome;
}

/* Reads four hex digits behind "\u"; -1 when they are not. */
static int32_t scan_hex4(struct hx_json_cursor *cursor)
{
    int32_t value = 0;
    if (cursor->end - cursor->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        unsigned char c = *cursor->at;
        int32_t nibble = hx_json_is_digit(c)    ? c - '0'
                         : c >= 'a' && c <= 'f' ? c - 'a' + 10
                         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                : -1;
        if (nibble < 0)
            return -1;
        value = value * 16 + nibble;
        cursor->at++;
    }
    return value;
}

/* cursor->at stands behind the backslash. */
static int scan_escape(struct hx_json_cursor *cursor, uint8_t *flags)
{
    *flags |= HX_JSON_HAS_ESCAPES;
    if (cursor->at == cursor->end)
        return refuse(cursor, HX_JSON_BAD_SYNTAX, "string not ended");
    unsigned char kind = *cursor->at;
    if (kind != 'u') {
        if (kind == '\0' || strchr("\"\\/bfnrt", kind) == NULL)
            return refuse(cursor, HX_JSON_BAD_SYNTAX, "unknown escape");
        cursor->at++;
        return 0;
    }
    cursor->at++;
    int32_t code = scan_hex4(cursor);
    if (code < 0)
        return refuse(cursor, HX_JSON_BAD_SYNTAX, "\\u needs four hex digits");
    if (code < 0xD800 || code > 0xDFFF)
        return 0;
    const unsigned char *after = cursor->at;
    if (code <= 0xDBFF && cursor->end - after >= 6 && after[0] == '\\' && after[1] == 'u') {
        cursor->at += 2;
        int32_t low = scan_hex4(cursor);
        if (low >= 0xDC00 && low <= 0xDFFF)
            return 0;
        cursor->at = after; /* whatever follows is judged on its own */
    }
    *flags |= HX_JSON_HAS_LONE_SURROGATE;
    return 0;
}

/* cursor->at stands on the opening quote; afterwards behind the closing one. */
int hx_json_scan_string(struct hx_json_cursor *cursor, uint8_t *ret_flags)
{
    uint8_t flags = 0;
    cursor->at++;
    for (;;) {
        cursor->at = hx_json_plain_end(cursor->at, cursor->end);
        if (cursor->at == cursor->end)
            return refuse(cursor, HX_JSON_BAD_SYNTAX, "string not ended");
        unsigned char c = *cursor->at;
        if (c == '"')
            break;
        if (c == '\\') {
            cursor->at++;
            int rc = scan_escape(cursor, &flags);
            if (rc != 0)
                return rc;
        } else if (c < 0x20) {
            return refuse(cursor, HX_JSON_BAD_SYNTAX, "control character in a string");
        } else {
            unsigned len = hx_json_utf8_len(cursor->at, cursor->end);
            if (len == 0)
                return refuse(cursor, HX_JSON_BAD_UTF8, "bytes are not UTF-8");
            cursor->at += len;
        }
    }
    cursor->at++;
    *ret_flags = flags;
    return 0;
}

static bool scan_digits(struct hx_json_cursor *cursor)
{
    const unsigned char *start = cursor->at;
    while (cursor->at < cursor->end && hx_json_is_digit(*cursor->at))
        cursor->at++;
    return cursor->at > start;
}

int hx_json_scan_number(struct hx_json_cursor *cursor)
{
    if (*cursor->at == '-')
        cursor->at++;
    const unsigned char *first = cursor->at;
    if (!scan_digits(cursor))
        return refuse(cursor, HX_JSON_BAD_SYNTAX, "digit expected");
    if (*first == '0' && cursor->at - first > 1) {
        cursor->at = first;
        return refuse(cursor, HX_JSON_BAD_SYNTAX, "number with a leading zero");
    }
    if (cursor->at < cursor->end && *cursor->at == '.') {
        cursor->at++;
        if (!scan_digits(cursor))
            return refuse(cursor, HX_JSON_BAD_SYNTAX, "digit expected after the decimal point");
    }
    if (cursor->at < cursor->end && (*cursor->at | 0x20) == 'e') {
        cursor->at++;
        if (cursor->at < cursor->end && (*cursor->at == '+' || *cursor->at == '-'))
            cursor->at++;
        if (!scan_digits(cursor))
            return refuse(cursor, HX_JSON_BAD_SYNTAX, "digit expected in the exponent");
    }
    return 0;
}

int hx_json_scan_word(struct hx_json_cursor *cursor, struct hx_span word)
{
    if ((size_t)(cursor->end - cursor->at) < word.len ||
        memcmp(cursor->at, word.ptr, word.len) != 0)
        return refuse(cursor, HX_JSON_BAD_SYNTAX, "value expected");
    cursor->at += word.len;
    return 0;
}
