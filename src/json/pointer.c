/* SPDX-License-Identifier: MIT */
#include "json/pointer.h"

#include "json/scan.h"
#include "json/text.h"

bool hx_json_pointer_is_valid(struct hx_span pointer)
{
    if (pointer.len == 0)
        return true;
    if (pointer.ptr[0] != '/')
        return false;
    for (size_t i = 0; i < pointer.len; i++) {
        if (pointer.ptr[i] != '~')
            continue;
        if (i + 1 == pointer.len || (pointer.ptr[i + 1] != '0' && pointer.ptr[i + 1] != '1'))
            return false;
    }
    return true;
}

bool hx_json_pointer_next(struct hx_span *pointer, struct hx_span *ret_raw)
{
    if (pointer->len == 0 || pointer->ptr[0] != '/')
        return false;
    size_t end = 1;
    while (end < pointer->len && pointer->ptr[end] != '/')
        end++;
    *ret_raw = hx_span(pointer->ptr + 1, end - 1);
    *pointer = hx_span(pointer->ptr + end, pointer->len - end);
    return true;
}

/* The byte that `raw` says at `*at`, with ~0 and ~1 resolved. */
static char token_byte(struct hx_span raw, size_t *at)
{
    char byte = raw.ptr[(*at)++];
    if (byte != '~' || *at == raw.len)
        return byte;
    return raw.ptr[(*at)++] == '1' ? '/' : '~';
}

bool hx_json_pointer_token_eq(struct hx_span raw_token, struct hx_span name_content)
{
    struct hx_json_chars chars = hx_json_chars(name_content);
    size_t at = 0;
    for (int32_t code = hx_json_chars_next(&chars); code >= 0; code = hx_json_chars_next(&chars)) {
        char bytes[4];
        unsigned len = hx_json_utf8_encode(code, bytes);
        for (unsigned i = 0; i < len; i++) {
            if (at == raw_token.len || token_byte(raw_token, &at) != bytes[i])
                return false;
        }
    }
    return at == raw_token.len;
}

static uint32_t find_member(const struct hx_json_tape *tape, uint32_t object, struct hx_span raw)
{
    hx_json_for_each(name, tape, object)
    {
        if (hx_json_pointer_token_eq(raw, hx_json_content(tape, name)))
            return name + 1;
    }
    return HX_JSON_NONE;
}

static uint32_t find_element(const struct hx_json_tape *tape, uint32_t array, struct hx_span raw)
{
    if (raw.len == 0 || raw.len > 10 || (raw.len > 1 && raw.ptr[0] == '0'))
        return HX_JSON_NONE;
    uint64_t wanted = 0;
    for (size_t i = 0; i < raw.len; i++) {
        if (!hx_json_is_digit((unsigned char)raw.ptr[i]))
            return HX_JSON_NONE;
        wanted = wanted * 10 + (uint64_t)(raw.ptr[i] - '0');
    }
    if (wanted >= hx_json_at(tape, array)->count)
        return HX_JSON_NONE;
    uint64_t index = 0;
    hx_json_for_each(element, tape, array)
    {
        if (index++ == wanted)
            return element;
    }
    return HX_JSON_NONE;
}

uint32_t hx_json_pointer_find(const struct hx_json_tape *tape, uint32_t root,
                              struct hx_span pointer)
{
    if (!hx_json_pointer_is_valid(pointer))
        return HX_JSON_NONE;
    uint32_t at = root;
    struct hx_span raw;
    while (at != HX_JSON_NONE && hx_json_pointer_next(&pointer, &raw)) {
        if (hx_json_is(tape, at, HX_JSON_OBJECT))
            at = find_member(tape, at, raw);
        else if (hx_json_is(tape, at, HX_JSON_ARRAY))
            at = find_element(tape, at, raw);
        else
            at = HX_JSON_NONE;
    }
    return at;
}
