/* SPDX-License-Identifier: MIT */
#include "json/template.h"

/* The place that begins at `at`: "${name}". Its whole length, or 0. */
static size_t find_place(struct hx_span text, size_t at, struct hx_span *ret_name)
{
    if (at + 2 >= text.len || text.ptr[at] != '$' || text.ptr[at + 1] != '{')
        return 0;
    for (size_t end = at + 2; end < text.len && text.ptr[end] != '"'; end++) {
        if (text.ptr[end] != '}')
            continue;
        *ret_name = hx_span(text.ptr + at + 2, end - at - 2);
        return end - at + 1;
    }
    return 0;
}

/* Without the quotes of a string; other values as they stand. */
static struct hx_span content_of(struct hx_span json)
{
    bool is_string = json.len >= 2 && json.ptr[0] == '"';
    return is_string ? hx_span(json.ptr + 1, json.len - 2) : json;
}

/* A string that is one place and nothing else. */
static size_t find_whole(struct hx_span text, size_t at, struct hx_span *ret_name)
{
    size_t len = text.ptr[at] == '"' ? find_place(text, at + 1, ret_name) : 0;
    size_t end = at + 1 + len;
    return len > 0 && end < text.len && text.ptr[end] == '"' ? len + 2 : 0;
}

static bool fill(struct hx_buf *out, struct hx_span text, bool is_json,
                 const struct hx_json_places *places)
{
    size_t at = 0;
    while (at < text.len) {
        struct hx_span name;
        size_t whole = is_json ? find_whole(text, at, &name) : 0;
        size_t len = whole > 0 ? whole : find_place(text, at, &name);
        if (len == 0) {
            (void)hx_buf_append_char(out, text.ptr[at++]); /* the buffer remembers a failure */
            continue;
        }
        struct hx_span json = places->value(places->context, name);
        if (hx_span_is_absent(json))
            return false;
        /* The quotes inside of these would end the text around them. */
        if (whole == 0 && is_json && json.len > 0 && (json.ptr[0] == '{' || json.ptr[0] == '['))
            return false;
        (void)hx_buf_append_span(out, whole > 0 || !is_json ? json : content_of(json));
        at += len;
    }
    return hx_buf_ok(out);
}

bool hx_json_template_fill(struct hx_buf *out, struct hx_span text,
                           const struct hx_json_places *places)
{
    return fill(out, text, true, places);
}

bool hx_json_template_fill_value(struct hx_buf *out, struct hx_span text,
                                 const struct hx_json_places *places)
{
    struct hx_span name;
    size_t len = text.len > 0 ? find_place(text, 0, &name) : 0;
    if (len == 0 || len != text.len)
        return fill(out, text, true, places);
    struct hx_span json = places->value(places->context, name);
    return !hx_span_is_absent(json) && hx_buf_append_span(out, json) == 0;
}

bool hx_json_template_fill_text(struct hx_buf *out, struct hx_span text,
                                const struct hx_json_places *places)
{
    return fill(out, text, false, places);
}
