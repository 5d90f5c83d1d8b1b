/* SPDX-License-Identifier: MIT */
#include "wire/skim.h"

#include "json/scan.h"
#include "json/text.h"

enum state {
    BEFORE,      /* nothing but white space so far */
    NAME_OR_END, /* depth 1, behind the brace or a comma */
    NAME,        /* inside a name at depth 1 */
    COLON,       /* behind that name */
    VALUE,       /* depth 1, behind the colon */
    SCALAR,      /* inside a number or literal at depth 1 */
    STRING,      /* inside a string at depth 1 */
    AFTER,       /* depth 1, behind a value */
    NESTED,      /* inside a container, depth above 1 */
    ENDED        /* behind the closing brace */
};

void hx_skim_begin(struct hx_skim *skim)
{
    memset(skim, 0, offsetof(struct hx_skim, name)); /* the arrays have lengths of their own */
    skim->state = BEFORE;
}

static void keep_id(struct hx_skim *skim, unsigned char byte)
{
    if (!skim->is_id)
        return;
    if (skim->id_len == HX_SKIM_ID_MAX)
        skim->is_id_bad = true;
    else
        skim->id[skim->id_len++] = (char)byte;
}

/* Depth 1, at the first byte of a value. */
static void value_begin(struct hx_skim *skim, unsigned char byte)
{
    if (skim->is_id) {
        skim->ids_seen += skim->ids_seen < 2;
        skim->id_len = 0;
    }
    if (byte == '{' || byte == '[') {
        skim->is_id_bad |= skim->is_id;
        skim->is_id = false;
        skim->depth++;
        skim->state = NESTED;
        return;
    }
    keep_id(skim, byte);
    skim->state = byte == '"' ? STRING : SCALAR;
}

/* A name at depth 1 is complete, content in skim->name. */
static void name_end(struct hx_skim *skim)
{
    skim->state = COLON;
    skim->is_id = false;
    if (skim->name_len > HX_SKIM_NAME_MAX)
        return; /* none of ours is that long, unless spelled with escapes that nobody writes */
    struct hx_span name = hx_span(skim->name, skim->name_len);
    if (memchr(name.ptr, '\\', name.len) != NULL) {
        /* The escapes were never checked, so they are not decoded. Only a peer that hides its
         * members writes them so; its message gets an answer without an id. */
        skim->is_odd = true;
        return;
    }
    skim->is_id = hx_span_eq(name, HX_SPAN_LIT("id"));
    skim->seen.has_method |= hx_span_eq(name, HX_SPAN_LIT("method"));
    skim->seen.has_result |= hx_span_eq(name, HX_SPAN_LIT("result"));
    skim->seen.has_error |= hx_span_eq(name, HX_SPAN_LIT("error"));
}

/* One byte inside any string. Returns true when it was the closing quote. */
static bool string_byte(struct hx_skim *skim, unsigned char byte)
{
    if (skim->is_escaped) {
        skim->is_escaped = false;
        return false;
    }
    skim->is_escaped = byte == '\\';
    return byte == '"';
}

static void name_byte(struct hx_skim *skim, unsigned char byte)
{
    if (string_byte(skim, byte)) {
        name_end(skim);
    } else if (skim->name_len < HX_SKIM_NAME_MAX) {
        skim->name[skim->name_len++] = (char)byte;
    } else {
        skim->name_len = HX_SKIM_NAME_MAX + 1;
    }
}

static void nested_byte(struct hx_skim *skim, unsigned char byte)
{
    if (skim->is_in_string) {
        skim->is_in_string = !string_byte(skim, byte);
    } else if (byte == '"') {
        skim->is_in_string = true;
    } else if (byte == '{' || byte == '[') {
        skim->is_broken |= skim->depth == UINT32_MAX;
        skim->depth++;
    } else if (byte == '}' || byte == ']') {
        skim->depth--;
        if (skim->depth == 1)
            skim->state = AFTER;
    }
}

static void after_byte(struct hx_skim *skim, unsigned char byte)
{
    if (byte == ',')
        skim->state = NAME_OR_END;
    else if (byte == '}')
        skim->state = ENDED;
    else if (!hx_json_is_space(byte))
        skim->is_broken = true;
}

static void add_byte(struct hx_skim *skim, unsigned char byte)
{
    bool is_space = hx_json_is_space(byte);
    switch ((enum state)skim->state) {
    case BEFORE:
        skim->is_broken |= !is_space && byte != '{';
        if (byte == '{')
            skim->state = NAME_OR_END;
        break;
    case NAME_OR_END:
        skim->is_broken |= !is_space && byte != '"' && byte != '}';
        skim->name_len = 0;
        if (byte == '"')
            skim->state = NAME;
        else if (byte == '}')
            skim->state = ENDED;
        break;
    case NAME:
        name_byte(skim, byte);
        break;
    case COLON:
        skim->is_broken |= !is_space && byte != ':';
        if (byte == ':')
            skim->state = VALUE;
        break;
    case VALUE:
        if (!is_space) {
            skim->depth = 1;
            value_begin(skim, byte);
        }
        break;
    case SCALAR:
        if (is_space || byte == ',' || byte == '}') {
            skim->is_id = false;
            after_byte(skim, byte);
            if (is_space)
                skim->state = AFTER;
        } else {
            keep_id(skim, byte);
        }
        break;
    case STRING:
        keep_id(skim, byte);
        if (string_byte(skim, byte)) {
            skim->is_id = false;
            skim->state = AFTER;
        }
        break;
    case AFTER:
        after_byte(skim, byte);
        break;
    case NESTED:
        nested_byte(skim, byte);
        break;
    case ENDED:
        skim->is_broken |= !is_space;
        break;
    }
}

void hx_skim_add(struct hx_skim *skim, struct hx_span bytes)
{
    const unsigned char *at = (const unsigned char *)bytes.ptr;
    const unsigned char *end = at + bytes.len;
    while (at < end && !skim->is_broken) {
        bool is_long_string =
            skim->state == NESTED ? skim->is_in_string : skim->state == STRING && !skim->is_id;
        if (is_long_string && !skim->is_escaped) {
            at = hx_json_plain_end(at, end);
            if (at == end)
                return;
        }
        add_byte(skim, *at++);
    }
}

struct hx_skim_result hx_skim_end(const struct hx_skim *skim)
{
    struct hx_skim_result result = skim->seen;
    result.is_object = skim->state == ENDED && !skim->is_broken;
    result.has_id = result.is_object && skim->ids_seen == 1 && !skim->is_id_bad && !skim->is_odd;
    return result;
}

struct hx_span hx_skim_id(const struct hx_skim *skim)
{
    return hx_skim_end(skim).has_id ? hx_span(skim->id, skim->id_len) : HX_SPAN_NONE;
}
