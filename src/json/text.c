/* SPDX-License-Identifier: MIT */
#include "json/text.h"

#include "base/fault.h"
#include "json/scan.h"

static int32_t hex_value(const unsigned char *digits)
{
    int32_t value = 0;
    for (int i = 0; i < 4; i++) {
        unsigned char c = digits[i];
        int32_t nibble = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
        value = value * 16 + nibble;
    }
    return value;
}

/* `at` stands behind a backslash. */
static int32_t escape_next(struct hx_json_chars *chars)
{
    unsigned char kind = *chars->at++;
    switch (kind) {
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'u':
        break;
    default:
        return kind; /* quote, backslash, slash */
    }
    int32_t code = hex_value(chars->at);
    chars->at += 4;
    if (code < 0xD800 || code > 0xDBFF || chars->end - chars->at < 6)
        return code;
    if (chars->at[0] != '\\' || chars->at[1] != 'u')
        return code;
    int32_t low = hex_value(chars->at + 2);
    if (low < 0xDC00 || low > 0xDFFF)
        return code;
    chars->at += 6;
    return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
}

int32_t hx_json_chars_next(struct hx_json_chars *chars)
{
    if (chars->at == chars->end)
        return -1;
    unsigned char lead = *chars->at++;
    if (lead == '\\')
        return escape_next(chars);
    if (lead < 0x80)
        return lead;
    int more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
    int32_t code = lead & (0x3F >> more);
    hx_assert(chars->end - chars->at >= more);
    for (; more > 0; more--)
        code = (code << 6) | (*chars->at++ & 0x3F);
    return code;
}

unsigned hx_json_utf8_encode(int32_t code, char *ret_bytes)
{
    if (code < 0x80) {
        ret_bytes[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        ret_bytes[0] = (char)(0xC0 | (code >> 6));
        ret_bytes[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        ret_bytes[0] = (char)(0xE0 | (code >> 12));
        ret_bytes[1] = (char)(0x80 | ((code >> 6) & 0x3F));
        ret_bytes[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    ret_bytes[0] = (char)(0xF0 | (code >> 18));
    ret_bytes[1] = (char)(0x80 | ((code >> 12) & 0x3F));
    ret_bytes[2] = (char)(0x80 | ((code >> 6) & 0x3F));
    ret_bytes[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}

/* Maps code points to numbers that sort as their UTF-16 units do: everything above U+FFFF is
 * written with surrogates and therefore sorts below U+E000. */
static int32_t utf16_rank(int32_t code)
{
    if (code < 0xD800)
        return code;
    if (code < 0xE000)
        return 0xD800 + ((code - 0xD800) << 10); /* a lone surrogate; exact order is immaterial */
    if (code <= 0xFFFF)
        return code + 0x200000;
    return 0xD800 + (code - 0x10000);
}

static int chars_compare(struct hx_span a, struct hx_span b)
{
    struct hx_json_chars left = hx_json_chars(a);
    struct hx_json_chars right = hx_json_chars(b);
    for (;;) {
        int32_t x = hx_json_chars_next(&left);
        int32_t y = hx_json_chars_next(&right);
        if (x != y) {
            int32_t x_rank = utf16_rank(x);
            int32_t y_rank = utf16_rank(y);
            if (x_rank != y_rank)
                return x_rank < y_rank ? -1 : 1;
            return x < y ? -1 : 1;
        }
        if (x < 0)
            return 0;
    }
}

int hx_json_text_compare(struct hx_span a, struct hx_span b)
{
    const unsigned char *left = (const unsigned char *)a.ptr;
    const unsigned char *right = (const unsigned char *)b.ptr;
    size_t len = a.len < b.len ? a.len : b.len;
    size_t i = 0;
    while (i < len && left[i] == right[i] && left[i] != '\\')
        i++;
    if (i == len || (left[i] != right[i] && left[i] != '\\' && right[i] != '\\')) {
        /* No escape so far on either side, so the first differing byte decides. */
        if (i == len)
            return a.len == b.len ? 0 : a.len < b.len ? -1 : 1;
        unsigned char x = left[i];
        unsigned char y = right[i];
        if (x >= 0xEE && y >= 0xEE && (x >= 0xF0) != (y >= 0xF0))
            return x >= 0xF0 ? -1 : 1;
        return x < y ? -1 : 1;
    }
    /* Step back to the start of a character before decoding the rest. */
    while (i > 0 && (left[i] & 0xC0) == 0x80)
        i--;
    return chars_compare(hx_span(a.ptr + i, a.len - i), hx_span(b.ptr + i, b.len - i));
}

bool hx_json_text_eq(struct hx_span content, struct hx_span plain)
{
    if (content.len == 0 || memchr(content.ptr, '\\', content.len) == NULL)
        return hx_span_eq(content, plain);
    struct hx_json_chars chars = hx_json_chars(content);
    size_t at = 0;
    for (int32_t code = hx_json_chars_next(&chars); code >= 0; code = hx_json_chars_next(&chars)) {
        char bytes[4];
        unsigned len = hx_json_utf8_encode(code, bytes);
        if (plain.len - at < len || memcmp(plain.ptr + at, bytes, len) != 0)
            return false;
        at += len;
    }
    return at == plain.len;
}

int hx_json_text_decode(struct hx_span content, struct hx_arena *arena, struct hx_span *ret_text)
{
    if (content.len == 0 || memchr(content.ptr, '\\', content.len) == NULL) {
        *ret_text = content;
        return 0;
    }
    /* No escape is shorter than the bytes that it stands for. */
    char *text = hx_arena_alloc(arena, content.len);
    if (text == NULL)
        return HX_RAISE(HX_E_NOMEM, "string of %zu bytes", content.len);
    struct hx_json_chars chars = hx_json_chars(content);
    size_t len = 0;
    for (int32_t code = hx_json_chars_next(&chars); code >= 0; code = hx_json_chars_next(&chars)) {
        if (code >= 0xD800 && code <= 0xDFFF)
            return HX_JSON_TEXT_LONE_SURROGATE;
        len += hx_json_utf8_encode(code, text + len);
    }
    *ret_text = hx_span(text, len);
    return 0;
}

static void quote_control(struct hx_buf *buf, unsigned char byte)
{
    static const char short_escapes[] = "btn\0fr"; /* for 0x08 to 0x0D; 0x0B has none */
    char escape[6] = {
        '\\', 'u', '0', '0', (char)('0' + (byte >> 4)), "0123456789abcdef"[byte & 15]};
    if (byte == '"' || byte == '\\') {
        escape[1] = (char)byte;
        (void)hx_buf_append(buf, escape, 2); /* the buffer remembers a failure */
    } else if (byte >= 0x08 && byte <= 0x0D && short_escapes[byte - 0x08] != '\0') {
        escape[1] = short_escapes[byte - 0x08];
        (void)hx_buf_append(buf, escape, 2);
    } else {
        (void)hx_buf_append(buf, escape, 6);
    }
}

void hx_json_text_quote(struct hx_buf *buf, struct hx_span text)
{
    const unsigned char *at = (const unsigned char *)text.ptr;
    const unsigned char *end = at + text.len;
    (void)hx_buf_append_char(buf, '"');
    while (at < end) {
        const unsigned char *stop = hx_json_plain_end(at, end);
        (void)hx_buf_append(buf, at, (size_t)(stop - at));
        at = stop;
        if (at == end)
            break;
        if (*at < 0x80) {
            quote_control(buf, *at++);
            continue;
        }
        unsigned len = hx_json_utf8_len(at, end);
        if (len == 0) {
            (void)hx_buf_append(buf, "\xEF\xBF\xBD", 3);
            at++;
        } else {
            (void)hx_buf_append(buf, at, len);
            at += len;
        }
    }
    (void)hx_buf_append_char(buf, '"');
}
