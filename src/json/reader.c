/* SPDX-License-Identifier: MIT */
#include "json/reader.h"

#include "base/alloc.h"
#include "base/fault.h"
#include "json/scalar.h"
#include "json/scan.h"
#include "json/text.h"

enum expect { EXPECT_VALUE, EXPECT_VALUE_OR_END, EXPECT_NAME, EXPECT_NAME_OR_END, EXPECT_AFTER };

/* Up to this many members each new name is compared with those before it; a larger object is sorted
 * once when it closes. Both sides are bounded, so no choice of names is slow. */
enum { MEMBERS_COMPARED_MAX = 16 };

struct reader {
    struct hx_json_cursor cursor;
    const unsigned char *start;
    struct hx_json_tape *tape;
    uint32_t tokens_max;
    uint32_t depth_max;
    uint32_t elements_max;
    uint32_t record_depth_max;
    uint32_t record_depth_saved; /* while inside an array that gave up its elements, else 0 */
    uint32_t depth;              /* open containers */
    uint32_t open; /* innermost recorded open container; its `next` holds the one around it */
    uint8_t kinds[HX_JSON_DEPTH_LIMIT / 8]; /* one bit per open container: 1 = object */
};

static int refuse(struct reader *reader, enum hx_json_outcome outcome, const char *reason)
{
    reader->cursor.reason = reason;
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

static void note_flags(struct reader *reader, uint8_t flags)
{
    reader->tape->has_lone_surrogates |= (flags & HX_JSON_HAS_LONE_SURROGATE) != 0;
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

/* The token of a scalar or name that ends at reader->cursor.at. */
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
        .len = (uint32_t)(reader->cursor.at - start),
        .next = tape->count + 1,
        .type = (uint8_t)type,
        .flags = flags,
    };
    tape->count++;
    return 0;
}

static int open_container(struct reader *reader, bool is_object)
{
    if (reader->depth >= reader->depth_max)
        return refuse(reader, HX_JSON_TOO_DEEP, "nested too deeply");
    const unsigned char *start = reader->cursor.at++;
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

/* The innermost array has too many elements: its children leave the tape, and no more are recorded
 * until it closes. */
static void give_up_elements(struct reader *reader)
{
    reader->tape->count = reader->open + 1;
    reader->record_depth_saved = reader->record_depth_max;
    reader->record_depth_max = reader->depth;
}

static int close_container(struct reader *reader)
{
    reader->cursor.at++;
    if (reader->depth <= reader->record_depth_max) {
        uint32_t index = reader->open;
        struct hx_json_token *token = &reader->tape->tokens[index];
        reader->open = token->next;
        token->next = reader->tape->count;
        token->len = (uint32_t)(reader->cursor.at - reader->start) - token->offset;
        bool has_children_here = reader->depth < reader->record_depth_max;
        if (!has_children_here && token->count > 0) {
            token->flags |= HX_JSON_IS_OPAQUE;
        } else if (token->type == HX_JSON_OBJECT && token->count > MEMBERS_COMPARED_MAX) {
            int rc = check_members(reader, index);
            if (rc < 0)
                return HX_TRACE(rc);
        }
        if (!has_children_here && reader->record_depth_saved != 0) {
            reader->record_depth_max = reader->record_depth_saved;
            reader->record_depth_saved = 0;
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
    if (*reader->cursor.at != '"')
        return refuse(reader, HX_JSON_BAD_SYNTAX, "member name expected");
    const unsigned char *start = reader->cursor.at;
    uint8_t flags;
    int rc = hx_json_scan_string(&reader->cursor, &flags);
    if (rc != 0)
        return rc;
    note_flags(reader, flags);
    if (reader->depth <= reader->record_depth_max)
        reader->tape->tokens[reader->open].count++;
    if (is_recording(reader)) {
        rc = push(reader, HX_JSON_NAME, start, flags);
        if (rc != 0)
            return rc;
        check_name(reader);
    }
    while (reader->cursor.at < reader->cursor.end && hx_json_is_space(*reader->cursor.at))
        reader->cursor.at++;
    if (reader->cursor.at == reader->cursor.end || *reader->cursor.at != ':')
        return refuse(reader, HX_JSON_BAD_SYNTAX, "colon expected");
    reader->cursor.at++;
    return 0;
}

/* Scalars; the caller handles containers. */
static int read_scalar(struct reader *reader)
{
    const unsigned char *start = reader->cursor.at;
    enum hx_json_type type;
    uint8_t flags = 0;
    int rc;

    switch (*start) {
    case '"':
        type = HX_JSON_STRING;
        rc = hx_json_scan_string(&reader->cursor, &flags);
        break;
    case 't':
        type = HX_JSON_TRUE;
        rc = hx_json_scan_word(&reader->cursor, HX_SPAN_LIT("true"));
        break;
    case 'f':
        type = HX_JSON_FALSE;
        rc = hx_json_scan_word(&reader->cursor, HX_SPAN_LIT("false"));
        break;
    case 'n':
        type = HX_JSON_NULL;
        rc = hx_json_scan_word(&reader->cursor, HX_SPAN_LIT("null"));
        break;
    default:
        type = HX_JSON_NUMBER;
        if (*start != '-' && !hx_json_is_digit(*start))
            return refuse(reader, HX_JSON_BAD_SYNTAX, "value expected");
        rc = hx_json_scan_number(&reader->cursor);
        break;
    }
    if (rc == 0)
        note_flags(reader, flags);
    if (rc != 0 || !is_recording(reader))
        return rc;
    return push(reader, type, start, flags);
}

static int read_value(struct reader *reader, enum expect *expect)
{
    unsigned char c = *reader->cursor.at;
    /* An element is counted by its container; a member was counted with its name. */
    if (reader->depth > 0 && reader->depth <= reader->record_depth_max && !is_in_object(reader)) {
        uint32_t count = ++reader->tape->tokens[reader->open].count;
        if (count > reader->elements_max && is_recording(reader))
            give_up_elements(reader);
    }
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
    if (*reader->cursor.at == ',') {
        reader->cursor.at++;
        *expect = is_object ? EXPECT_NAME : EXPECT_VALUE;
        return 0;
    }
    if (*reader->cursor.at != (is_object ? '}' : ']'))
        return refuse(reader, HX_JSON_BAD_SYNTAX, "comma or end expected");
    *expect = EXPECT_AFTER;
    return close_container(reader);
}

static int read_step(struct reader *reader, enum expect *expect)
{
    switch (*expect) {
    case EXPECT_VALUE_OR_END:
    case EXPECT_NAME_OR_END:
        if (*reader->cursor.at == (*expect == EXPECT_NAME_OR_END ? '}' : ']')) {
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
        while (reader->cursor.at < reader->cursor.end && hx_json_is_space(*reader->cursor.at))
            reader->cursor.at++;
        bool is_complete = expect == EXPECT_AFTER && reader->depth == 0;
        if (reader->cursor.at == reader->cursor.end)
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
        .cursor = {.at = (const unsigned char *)text.ptr,
                   .end = (const unsigned char *)text.ptr + text.len},
        .start = (const unsigned char *)text.ptr,
        .tape = tape,
        .tokens_max = limits->tokens_max,
        .depth_max = limits->depth_max,
        .elements_max = limits->elements_max ? limits->elements_max : UINT32_MAX,
        .record_depth_max = limits->record_depth_max ? limits->record_depth_max : UINT32_MAX,
        .open = HX_JSON_NONE,
    };
    tape->text = text;
    tape->count = 0;
    tape->has_duplicates = false;
    tape->has_lone_surrogates = false;
    tape->error_offset = 0;
    tape->error_reason = NULL;

    int rc = text.len > limits->text_max || text.len >= UINT32_MAX
                 ? refuse(&reader, HX_JSON_TOO_LONG, "text too long")
                 : read_text(&reader);
    if (rc != 0) {
        tape->error_offset = (size_t)(reader.cursor.at - reader.start);
        tape->error_reason = reader.cursor.reason;
        tape->count = 0;
        return rc;
    }
    hx_assert(reader.open == HX_JSON_NONE);
    hx_assert(tape->count > 0);
    return 0;
}
