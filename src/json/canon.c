/* SPDX-License-Identifier: MIT */
#include "json/canon.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "json/number.h"
#include "json/pointer.h"
#include "json/text.h"

enum { BLOCK_SIZE = 1024, PLACES_MAX = 21 /* of ECMAScript's Number::toString */ };

struct hx_canon_frame {
    uint32_t container;
    uint32_t at;        /* array: next element; object: next position in `order` */
    uint32_t order_end; /* object: where its names end in `order` */
    bool has_written;
};

struct run {
    struct hx_canon *canon;
    const struct hx_json_tape *tape;
    hx_canon_sink *sink;
    void *context;
    size_t *ret_offset;
    size_t block_len;
    uint32_t depth;
    uint32_t ignored_count;
    uint32_t ignored[HX_CANON_IGNORE_MAX]; /* token indexes of values */
    char block[BLOCK_SIZE];
};

void hx_canon_init(struct hx_canon *canon)
{
    *canon = (struct hx_canon){0};
}

void hx_canon_fini(struct hx_canon *canon)
{
    if (canon == NULL)
        return;
    hx_free(canon->frames);
    hx_free(canon->order);
    hx_canon_init(canon);
}

static int refuse(struct run *run, enum hx_canon_outcome outcome, uint32_t index)
{
    if (run->ret_offset != NULL)
        *run->ret_offset = hx_json_at(run->tape, index)->offset;
    return (int)outcome;
}

static void flush(struct run *run)
{
    if (run->block_len > 0)
        run->sink(run->context, hx_span(run->block, run->block_len));
    run->block_len = 0;
}

static void put(struct run *run, struct hx_span bytes)
{
    if (bytes.len > BLOCK_SIZE - run->block_len) {
        flush(run);
        if (bytes.len >= BLOCK_SIZE) {
            run->sink(run->context, bytes);
            return;
        }
    }
    if (bytes.len > 0)
        memcpy(run->block + run->block_len, bytes.ptr, bytes.len);
    run->block_len += bytes.len;
}

static void put_char(struct run *run, char byte)
{
    put(run, hx_span(&byte, 1));
}

static void put_code(struct run *run, int32_t code)
{
    static const char short_escapes[] = "btn\0fr"; /* for 0x08 to 0x0D; 0x0B has none */
    char bytes[8];
    unsigned len;
    if (code >= 0x20 && code != '"' && code != '\\') {
        len = hx_json_utf8_encode(code, bytes);
    } else {
        bytes[0] = '\\';
        len = 2;
        if (code >= 0x20)
            bytes[1] = (char)code;
        else if (code >= 0x08 && code <= 0x0D && short_escapes[code - 0x08] != '\0')
            bytes[1] = short_escapes[code - 0x08];
        else
            len = (unsigned)snprintf(bytes, sizeof(bytes), "\\u%04x", (unsigned)code);
    }
    put(run, hx_span(bytes, len));
}

static int put_string(struct run *run, uint32_t index)
{
    const struct hx_json_token *token = hx_json_at(run->tape, index);
    if ((token->flags & HX_JSON_HAS_LONE_SURROGATE) != 0)
        return refuse(run, HX_CANON_LONE_SURROGATE, index);
    if ((token->flags & HX_JSON_HAS_ESCAPES) == 0) {
        put(run, hx_json_raw(run->tape, index)); /* what needs no escape has none already */
        return 0;
    }
    put_char(run, '"');
    struct hx_json_chars chars = hx_json_chars(hx_json_content(run->tape, index));
    for (int32_t code = hx_json_chars_next(&chars); code >= 0; code = hx_json_chars_next(&chars))
        put_code(run, code);
    put_char(run, '"');
    return 0;
}

/* Digits [from, to) of the two runs of a decimal. */
static void put_digits(struct run *run, const struct hx_json_decimal *decimal, size_t from,
                       size_t to)
{
    size_t split = decimal->whole.len;
    if (from < split) {
        size_t end = to < split ? to : split;
        put(run, hx_span(decimal->whole.ptr + from, end - from));
        from = end;
    }
    if (from < to)
        put(run, hx_span(decimal->fraction.ptr + (from - split), to - from));
}

static void put_zeros(struct run *run, size_t count)
{
    static const char zeros[PLACES_MAX] = "000000000000000000000";
    hx_assert(count <= PLACES_MAX);
    put(run, hx_span(zeros, count));
}

static int put_number(struct run *run, uint32_t index)
{
    struct hx_json_decimal decimal;
    if (!hx_json_decimal_parse(hx_json_raw(run->tape, index), &decimal))
        return refuse(run, HX_CANON_NUMBER_RANGE, index);
    size_t count = hx_json_decimal_digits(&decimal);
    int64_t point = decimal.point;
    if (count == 0) {
        put_char(run, '0');
        return 0;
    }
    if (decimal.is_negative)
        put_char(run, '-');
    if (point > 0 && point <= PLACES_MAX) {
        size_t whole = (size_t)point;
        put_digits(run, &decimal, 0, count < whole ? count : whole);
        if (whole >= count) {
            put_zeros(run, whole - count);
        } else {
            put_char(run, '.');
            put_digits(run, &decimal, whole, count);
        }
    } else if (point > -6 && point <= 0) {
        put(run, HX_SPAN_LIT("0."));
        put_zeros(run, (size_t)-point);
        put_digits(run, &decimal, 0, count);
    } else {
        char exponent[32];
        put_digits(run, &decimal, 0, 1);
        if (count > 1) {
            put_char(run, '.');
            put_digits(run, &decimal, 1, count);
        }
        int len = snprintf(exponent, sizeof(exponent), "e%+lld", (long long)(point - 1));
        put(run, hx_span(exponent, (size_t)len));
    }
    return 0;
}

/* Grows one of the scratch arrays to hold at least `count` items. */
static int reserve(void **array, uint32_t *capacity, size_t count, size_t item_size)
{
    if (count <= *capacity)
        return 0;
    size_t wanted = *capacity ? (size_t)*capacity * 2 : 32;
    if (wanted < count)
        wanted = count;
    void *memory = hx_realloc(*array, wanted * item_size);
    if (memory == NULL)
        return HX_RAISE(HX_E_NOMEM, "canonical form: %zu items", wanted);
    *array = memory;
    *capacity = (uint32_t)wanted;
    return 0;
}

static bool is_ignored(const struct run *run, uint32_t value)
{
    for (uint32_t i = 0; i < run->ignored_count; i++) {
        if (run->ignored[i] == value)
            return true;
    }
    return false;
}

/* Puts the names of `object` behind those of the objects around it, in canonical order. */
static int order_names(struct run *run, uint32_t object, struct hx_canon_frame *frame)
{
    struct hx_canon *canon = run->canon;
    uint32_t count = hx_json_at(run->tape, object)->count;
    frame->at = frame->order_end = canon->order_count;
    if (count == 0)
        return 0;
    void *order = canon->order;
    int rc = reserve(&order, &canon->order_capacity, (size_t)canon->order_count + count,
                     sizeof(*canon->order));
    canon->order = order;
    if (rc < 0)
        return HX_TRACE(rc);
    hx_json_for_each(name, run->tape, object) canon->order[canon->order_count++] = name;
    frame->order_end = canon->order_count;
    if (hx_json_names_sort(run->tape, canon->order + frame->at, count))
        return refuse(run, HX_CANON_DUPLICATE_NAME, object);
    return 0;
}

static int open_container(struct run *run, uint32_t index)
{
    struct hx_canon *canon = run->canon;
    const struct hx_json_token *token = hx_json_at(run->tape, index);
    if ((token->flags & HX_JSON_IS_OPAQUE) != 0)
        return refuse(run, HX_CANON_OPAQUE, index);
    void *frames = canon->frames;
    int rc =
        reserve(&frames, &canon->frame_capacity, (size_t)run->depth + 1, sizeof(*canon->frames));
    canon->frames = frames;
    if (rc < 0)
        return HX_TRACE(rc);
    struct hx_canon_frame *frame = &canon->frames[run->depth];
    *frame = (struct hx_canon_frame){.container = index};
    if (token->type == HX_JSON_OBJECT) {
        rc = order_names(run, index, frame);
        if (rc != 0)
            return rc;
        put_char(run, '{');
    } else {
        frame->at = hx_json_first(run->tape, index);
        put_char(run, '[');
    }
    run->depth++;
    return 0;
}

static int put_value(struct run *run, uint32_t index)
{
    switch ((enum hx_json_type)hx_json_at(run->tape, index)->type) {
    case HX_JSON_NULL:
    case HX_JSON_FALSE:
    case HX_JSON_TRUE:
        put(run, hx_json_raw(run->tape, index));
        return 0;
    case HX_JSON_NUMBER:
        return put_number(run, index);
    case HX_JSON_STRING:
    case HX_JSON_NAME:
        return put_string(run, index);
    case HX_JSON_ARRAY:
    case HX_JSON_OBJECT:
        return open_container(run, index);
    }
    return 0;
}

/* The next child of the innermost container that is not ignored: a NAME, an element, or NONE. */
static uint32_t next_child(struct run *run, struct hx_canon_frame *frame)
{
    bool is_object = hx_json_is(run->tape, frame->container, HX_JSON_OBJECT);
    for (;;) {
        uint32_t child;
        if (is_object) {
            if (frame->at == frame->order_end)
                return HX_JSON_NONE;
            child = run->canon->order[frame->at++];
        } else {
            child = frame->at;
            if (child == HX_JSON_NONE)
                return HX_JSON_NONE;
            frame->at = hx_json_next(run->tape, frame->container, child);
        }
        if (!is_ignored(run, is_object ? child + 1 : child))
            return child;
    }
}

static int step(struct run *run)
{
    struct hx_canon_frame *frame = &run->canon->frames[run->depth - 1];
    bool is_object = hx_json_is(run->tape, frame->container, HX_JSON_OBJECT);
    uint32_t child = next_child(run, frame);
    if (child == HX_JSON_NONE) {
        if (is_object)
            run->canon->order_count -= hx_json_at(run->tape, frame->container)->count;
        put_char(run, is_object ? '}' : ']');
        run->depth--;
        return 0;
    }
    if (frame->has_written)
        put_char(run, ',');
    frame->has_written = true;
    if (is_object) {
        int rc = put_string(run, child);
        if (rc != 0)
            return rc;
        put_char(run, ':');
        child++;
    }
    return put_value(run, child);
}

int hx_canon_write(struct hx_canon *canon, const struct hx_json_tape *tape, uint32_t index,
                   const struct hx_canon_ignore *ignore, hx_canon_sink *sink, void *context,
                   size_t *ret_offset)
{
    struct run run;
    run.canon = canon;
    run.tape = tape;
    run.sink = sink;
    run.context = context;
    run.ret_offset = ret_offset;
    run.block_len = 0;
    run.depth = 0;
    run.ignored_count = 0;
    canon->order_count = 0;

    size_t pointer_count = ignore ? ignore->count : 0;
    hx_assert(pointer_count <= HX_CANON_IGNORE_MAX);
    for (size_t i = 0; i < pointer_count; i++) {
        uint32_t value = hx_json_pointer_find(tape, index, ignore->pointers[i]);
        if (value != HX_JSON_NONE)
            run.ignored[run.ignored_count++] = value;
    }
    int rc = put_value(&run, index);
    while (rc == 0 && run.depth > 0)
        rc = step(&run);
    if (rc != 0)
        return rc;
    flush(&run);
    return 0;
}
