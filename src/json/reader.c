/* SPDX-License-Identifier: MIT */
#include "json/reader.h"

#include "base/alloc.h"
#include "base/fault.h"
#include "json/scan.h"
#include "json/text.h"

enum expect { EXPECT_VALUE, EXPECT_VALUE_OR_END, EXPECT_NAME, EXPECT_NAME_OR_END, EXPECT_AFTER };

/* Up to this many members each new name is compared with those before it; a larger object is sorted
 * once when it closes. Both sides are bounded, so no choice of names is slow. */
enum { MEMBERS_COMPARED_MAX = 16 };

struct reader {
    const unsigned char *start;
    const unsigned char *at;
    const unsigned char *end;
    struct hx_json_tape *tape;
    uint32_t tokens_max;
    uint32_t depth_max;
    uint32_t record_depth_max;
    uint32_t depth; /* open containers */
    uint32_t open;  /* innermost recorded open container; its `next` holds the one around it */
    uint8_t kinds[HX_JSON_DEPTH_LIMIT / 8]; /* one bit per open container: 1 = object */
};

static int refuse(struct reader *reader, enum hx_json_outcome outcome, const char *reason)
{
    reader->tape->error_offset = (size_t)(reader->at - reader->start);
    reader->tape->error_reason = reason;
    return (int)outcome;
}

static bool is_in_object(const struct reader *reader)
{
    uint32_t level = reader->depth - 1;
    return reader->depth > 0 && (reader->kinds[level / 8] & (1u << (level % 8))) != 0;
}

/* Is a value that starts now recorded? */
static bool is_recording(const struct reader *reader)
{
    return reader->depth < reader->record_depth_max;
}

static int tape_grow(struct reader *reader)
{
    struct hx_json_tape *tape = reader->tape;
    if (tape->count >= reader->tokens_max)
        return refuse(reader, HX_JSON_TOO_MANY, "too many values");
    uint32_t capacity = tape->capacity ? tape->capacity * 2 : 64;
    struct hx_json_token *tokens = hx_realloc(tape->tokens, capacity * sizeof(*tokens));
    if (tokens == NULL)
        return HX_RAISE(HX_E_NOMEM, "JSON tape of %u tokens", (unsigned)capacity);
    tape->tokens = tokens;
    tape->capacity = capacity;
    return 0;
}

/* The token of a scalar or name that ends at reader->at. */
static int push(struct reader *reader, enum hx_json_type type, const unsigned char *start,
                uint8_t flags)
{
    struct hx_json_tape *tape = reader->tape;
    if (tape->count == tape->capacity || tape->count >= reader->tokens_max) {
        int rc = tape_grow(reader);
        if (rc != 0)
            return rc;
    }
    tape->tokens[tape->count] = (struct hx_json_token){
        .offset = (uint32_t)(start - reader->start),
        .len = (uint32_t)(reader->at - start),
        .next = tape->count + 1,
        .type = (uint8_t)type,
        .flags = flags,
    };
    tape->count++;
    return 0;
}

/* Reads four hex digits behind "\u"; -1 when they are not. */
static int32_t scan_hex4(struct reader *reader)
{
    int32_t value = 0;
    if (reader->end - reader->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        unsigned char c = *reader->at;
        int32_t nibble = hx_json_is_digit(c)    ? c - '0'
                         : c >= 'a' && c <= 'f' ? c - 'a' + 10
                         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                : -1;
        if (nibble < 0)
            return -1;
        value = value * 16 + nibble;
        reader->at++;
    }
    return value;
}

/* reader->at stands behind the backslash. */
static int scan_escape(struct reader *reader, uint8_t *flags)
{
    *flags |= HX_JSON_HAS_ESCAPES;
    if (reader->at == reader->end)
        return refuse(reader, HX_JSON_BAD_SYNTAX, "string not ended");
    unsigned char kind = *reader->at;
    if (kind != 'u') {
        if (kind == '\0' || strchr("\"\\/bfnrt", kind) == NULL)
            return refuse(reader, HX_JSON_BAD_SYNTAX, "unknown escape");
        reader->at++;
        return 0;
    }
    reader->at++;
    int32_t code = scan_hex4(reader);
    if (code < 0)
        return refuse(reader, HX_JSON_BAD_SYNTAX, "\\u needs four hex digits");
    if (code < 0xD800 || code > 0xDFFF)
        return 0;
    const unsigned char *after = reader->at;
    if (code <= 0xDBFF && reader->end - after >= 6 && after[0] == '\\' && after[1] == 'u') {
        reader->at += 2;
        int32_t low = scan_hex4(reader);
        if (low >= 0xDC00 && low <= 0xDFFF)
            return 0;
        reader->at = after; /* whatever follows is judged on its own */
    }
    *flags |= HX_JSON_HAS_LONE_SURROGATE;
    reader->tape->has_lone_surrogates = true;
    return 0;
}

/* reader->at stands on the opening quote; afterwards behind the closing one. */
static int scan_string(struct reader *reader, uint8_t *ret_flags)
{
    uint8_t flags = 0;
    reader->at++;
    for (;;) {
        reader->at = hx_json_plain_end(reader->at, reader->end);
        if (reader->at == reader->end)
            return refuse(reader, HX_JSON_BAD_SYNTAX, "string not ended");
        unsigned char c = *reader->at;
        if (c == '"')
            break;
        if (c == '\\') {
            reader->at++;
            int rc = scan_escape(reader, &flags);
            if (rc != 0)
                return rc;
        } else if (c < 0x20) {
            return refuse(reader, HX_JSON_BAD_SYNTAX, "control character in a string");
        } else {
            unsigned len = hx_json_utf8_len(reader->at, reader->end);
            if (len == 0)
                return refuse(reader, HX_JSON_BAD_UTF8, "bytes are not UTF-8");
            reader->at += len;
        }
    }
    reader->at++;
    *ret_flags = flags;
    return 0;
}

static bool scan_digits(struct reader *reader)
{
    const unsigned char *start = reader->at;
    while (reader->at < reader->end && hx_json_is_digit(*reader->at))
        reader->at++;
    return reader->at > start;
}

static int scan_number(struct reader *reader)
{
    if (*reader->at == '-')
        reader->at++;
    const unsigned char *first = reader->at;
    if (!scan_digits(reader))
        return refuse(reader, HX_JSON_BAD_SYNTAX, "digit expected");
    if (*first == '0' && reader->at - first > 1) {
        reader->at = first;
        return refuse(reader, HX_JSON_BAD_SYNTAX, "number with a leading zero");
    }
    if (reader->at < reader->end && *reader->at == '.') {
        reader->at++;
        if (!scan_digits(reader))
            return refuse(reader, HX_JSON_BAD_SYNTAX, "digit expected after the decimal point");
    }
    if (reader->at < reader->end && (*reader->at | 0x20) == 'e') {
        reader->at++;
        if (reader->at < reader->end && (*reader->at == '+' || *reader->at == '-'))
            reader->at++;
        if (!scan_digits(reader))
            return refuse(reader, HX_JSON_BAD_SYNTAX, "digit expected in the exponent");
    }
    return 0;
}

static int scan_literal(struct reader *reader, struct hx_span word)
{
    if ((size_t)(reader->end - reader->at) < word.len ||
        memcmp(reader->at, word.ptr, word.len) != 0)
        return refuse(reader, HX_JSON_BAD_SYNTAX, "value expected");
    reader->at += word.len;
    return 0;
}

static int open_container(struct reader *reader, bool is_object)
{
    if (reader->depth >= reader->depth_max)
        return refuse(reader, HX_JSON_TOO_DEEP, "nested too deeply");
    const unsigned char *start = reader->at++;
    if (is_recording(reader)) {
        int rc = push(reader, is_object ? HX_JSON_OBJECT : HX_JSON_ARRAY, start, 0);
        if (rc != 0)
            return rc;
        uint32_t index = reader->tape->count - 1;
        reader->tape->tokens[index].next = reader->open;
        reader->open = index;
    }
    uint8_t bit = (uint8_t)(1u << (reader->depth % 8));
    uint8_t *kinds = &reader->kinds[reader->depth / 8];
    *kinds = (uint8_t)(is_object ? *kinds | bit : *kinds & ~bit);
    reader->depth++;
    return 0;
}

static int order_reserve(struct hx_json_tape *tape, uint32_t count)
{
    if (count <= tape->order_capacity)
        return 0;
    uint32_t *order = hx_realloc(tape->order, count * sizeof(*order));
    if (order == NULL)
        return HX_RAISE(HX_E_NOMEM, "order of %u names", (unsigned)count);
    tape->order = order;
    tape->order_capacity = count;
    return 0;
}

/* A large object closes: sort its names once and see whether neighbours agree. */
static int check_members(struct reader *reader, uint32_t object)
{
    struct hx_json_tape *tape = reader->tape;
    uint32_t count = tape->tokens[object].count;
    int rc = order_reserve(tape, count);
    if (rc < 0)
        return HX_TRACE(rc);
    uint32_t name = object + 1;
    for (uint32_t i = 0; i < count; i++) {
        tape->order[i] = name;
        name = tape->tokens[name + 1].next;
    }
    if (hx_json_names_sort(tape, tape->order, count)) {
        tape->tokens[object].flags |= HX_JSON_HAS_DUPLICATES;
        tape->has_duplicates = true;
    }
    return 0;
}

static int close_container(struct reader *reader)
{
    reader->at++;
    if (reader->depth <= reader->record_depth_max) {
        uint32_t index = reader->open;
        struct hx_json_token *token = &reader->tape->tokens[index];
        reader->open = token->next;
        token->next = reader->tape->count;
        token->len = (uint32_t)(reader->at - reader->start) - token->offset;
        bool has_children_here = reader->depth < reader->record_depth_max;
        if (!has_children_here && token->count > 0) {
            token->flags |= HX_JSON_IS_OPAQUE;
        } else if (token->type == HX_JSON_OBJECT && token->count > MEMBERS_COMPARED_MAX) {
            int rc = check_members(reader, index);
            if (rc < 0)
                return HX_TRACE(rc);
        }
    }
    reader->depth--;
    return 0;
}

/* The name just pushed against the few that stand before it in the same object. */
static void check_name(struct reader *reader)
{
    struct hx_json_tape *tape = reader->tape;
    uint32_t added = tape->count - 1;
    struct hx_json_token *object = &tape->tokens[reader->open];
    if (object->count > MEMBERS_COMPARED_MAX)
        return;
    struct hx_span content = hx_json_content(tape, added);
    uint32_t name = reader->open + 1;
    for (uint32_t i = 1; i < object->count; i++) {
        const struct hx_json_token *other = &tape->tokens[name];
        bool is_spelled = ((other->flags | tape->tokens[added].flags) & HX_JSON_HAS_ESCAPES) != 0;
        if (is_spelled ? hx_json_text_compare(hx_json_content(tape, name), content) == 0
                       : hx_span_eq(hx_json_content(tape, name), content)) {
            object->flags |= HX_JSON_HAS_DUPLICATES;
            tape->has_duplicates = true;
        }
        name = tape->tokens[name + 1].next;
    }
}

static int read_name(struct reader *reader)
{
    if (*reader->at != '"')
        return refuse(reader, HX_JSON_BAD_SYNTAX, "member name expected");
    const unsigned char *start = reader->at;
    uint8_t flags;
    int rc = scan_string(reader, &flags);
    if (rc != 0)
        return rc;
    if (reader->depth <= reader->record_depth_max)
        reader->tape->tokens[reader->open].count++;
    if (is_recording(reader)) {
        rc = push(reader, HX_JSON_NAME, start, flags);
        if (rc != 0)
            return rc;
        check_name(reader);
    }
    while (reader->at < reader->end && hx_json_is_space(*reader->at))
        reader->at++;
    if (reader->at == reader->end || *reader->at != ':')
        return refuse(reader, HX_JSON_BAD_SYNTAX, "colon expected");
    reader->at++;
    return 0;
}

/* Scalars; the caller handles containers. */
static int read_scalar(struct reader *reader)
{
    const unsigned char *start = reader->at;
    enum hx_json_type type;
    uint8_t flags = 0;
    int rc;

    switch (*start) {
    case '"':
        type = HX_JSON_STRING;
        rc = scan_string(reader, &flags);
        break;
    case 't':
        type = HX_JSON_TRUE;
        rc = scan_literal(reader, HX_SPAN_LIT("true"));
        break;
    case 'f':
        type = HX_JSON_FALSE;
        rc = scan_literal(reader, HX_SPAN_LIT("false"));
        break;
    case 'n':
        type = HX_JSON_NULL;
        rc = scan_literal(reader, HX_SPAN_LIT("null"));
        break;
    default:
        type = HX_JSON_NUMBER;
        if (*start != '-' && !hx_json_is_digit(*start))
            return refuse(reader, HX_JSON_BAD_SYNTAX, "value expected");
        rc = scan_number(reader);
        break;
    }
    if (rc != 0 || !is_recording(reader))
        return rc;
    return push(reader, type, start, flags);
}

static int read_value(struct reader *reader, enum expect *expect)
{
    unsigned char c = *reader->at;
    /* An element is counted by its container; a member was counted with its name. */
    if (reader->depth > 0 && reader->depth <= reader->record_depth_max && !is_in_object(reader))
        reader->tape->tokens[reader->open].count++;
    if (c == '{' || c == '[') {
        *expect = c == '{' ? EXPECT_NAME_OR_END : EXPECT_VALUE_OR_END;
        return open_container(reader, c == '{');
    }
    *expect = EXPECT_AFTER;
    return read_scalar(reader);
}

/* Behind a complete value inside a container. */
static int read_after(struct reader *reader, enum expect *expect)
{
    bool is_object = is_in_object(reader);
    if (*reader->at == ',') {
        reader->at++;
        *expect = is_object ? EXPECT_NAME : EXPECT_VALUE;
        return 0;
    }
    if (*reader->at != (is_object ? '}' : ']'))
        return refuse(reader, HX_JSON_BAD_SYNTAX, "comma or end expected");
    *expect = EXPECT_AFTER;
    return close_container(reader);
}

static int read_step(struct reader *reader, enum expect *expect)
{
    switch (*expect) {
    case EXPECT_VALUE_OR_END:
    case EXPECT_NAME_OR_END:
        if (*reader->at == (*expect == EXPECT_NAME_OR_END ? '}' : ']')) {
            *expect = EXPECT_AFTER;
            return close_container(reader);
        }
        *expect = *expect == EXPECT_NAME_OR_END ? EXPECT_NAME : EXPECT_VALUE;
        return 0;
    case EXPECT_NAME:
        *expect = EXPECT_VALUE;
        return read_name(reader);
    case EXPECT_VALUE:
        return read_value(reader, expect);
    case EXPECT_AFTER:
        return read_after(reader, expect);
    }
    return 0;
}

static int read_text(struct reader *reader)
{
    enum expect expect = EXPECT_VALUE;
    for (;;) {
        while (reader->at < reader->end && hx_json_is_space(*reader->at))
            reader->at++;
        bool is_complete = expect == EXPECT_AFTER && reader->depth == 0;
        if (reader->at == reader->end)
            return is_complete ? 0 : refuse(reader, HX_JSON_BAD_SYNTAX, "text ends too early");
        if (is_complete)
            return refuse(reader, HX_JSON_BAD_SYNTAX, "bytes after the value");
        int rc = read_step(reader, &expect);
        if (rc != 0)
            return rc;
    }
}

int hx_json_read(struct hx_json_tape *tape, struct hx_span text,
                 const struct hx_json_limits *limits)
{
    hx_assert(limits->depth_max > 0);
    hx_assert(limits->depth_max <= HX_JSON_DEPTH_LIMIT);

    struct reader reader = {
        .start = (const unsigned char *)text.ptr,
        .at = (const unsigned char *)text.ptr,
        .end = (const unsigned char *)text.ptr + text.len,
        .tape = tape,
        .tokens_max = limits->tokens_max,
        .depth_max = limits->depth_max,
        .record_depth_max = limits->record_depth_max ? limits->record_depth_max : UINT32_MAX,
        .open = HX_JSON_NONE,
    };
    tape->text = text;
    tape->count = 0;
    tape->has_duplicates = false;
    tape->has_lone_surrogates = false;
    tape->error_offset = 0;
    tape->error_reason = NULL;

    if (text.len > limits->text_max || text.len >= UINT32_MAX)
        return refuse(&reader, HX_JSON_TOO_LONG, "text too long");
    int rc = read_text(&reader);
    if (rc != 0) {
        tape->count = 0;
        return rc;
    }
    hx_assert(reader.open == HX_JSON_NONE);
    hx_assert(tape->count > 0);
    return 0;
}
