/* SPDX-License-Identifier: MIT */
#include "wire/sse.h"

#include "base/alloc.h"
#include "base/fault.h"

/* A buffer that one long event has grown beyond this is given back. */
enum { DATA_KEPT = 64 * 1024 };

enum kind { OTHER, DATA, TYPE, ID, RETRY };
enum place { NAME, COLON, VALUE }; /* COLON: one space may follow it */

static const char byte_order_mark[] = "\xef\xbb\xbf";
enum { BOM_LEN = 3 };

void hx_sse_reader_init(struct hx_sse_reader *reader, size_t data_max, struct hx_hasher *hasher)
{
    hx_assert(data_max > 0);
    *reader = (struct hx_sse_reader){.data_max = data_max, .hasher = hasher, .retry_ms = -1};
    hx_buf_init(&reader->data, data_max);
    hx_buf_init(&reader->type, HX_SSE_TYPE_MAX);
    hx_buf_init(&reader->id_coming, HX_SSE_ID_MAX);
    hx_buf_init(&reader->id, HX_SSE_ID_MAX);
}

void hx_sse_reader_fini(struct hx_sse_reader *reader)
{
    if (reader == NULL)
        return;
    hx_buf_fini(&reader->data);
    hx_buf_fini(&reader->type);
    hx_buf_fini(&reader->id_coming);
    hx_buf_fini(&reader->id);
    reader->skim = hx_free(reader->skim);
}

struct hx_span hx_sse_last_id(const struct hx_sse_reader *reader)
{
    return hx_buf_span(&reader->id);
}

/* --- data --- */

static void skip_data(struct hx_sse_reader *reader, struct hx_span bytes)
{
    hx_skim_add(reader->skim, bytes);
    if (reader->hasher != NULL)
        hx_hasher_add(reader->hasher, bytes);
}

static void skip_begin(struct hx_sse_reader *reader)
{
    if (reader->skim == NULL)
        reader->skim = hx_new(struct hx_skim);
    hx_skim_begin(reader->skim);
    if (reader->hasher != NULL)
        hx_hasher_begin(reader->hasher);
    reader->is_oversize = true;
    skip_data(reader, hx_buf_span(&reader->data));
    hx_buf_fini(&reader->data);
}

static void add_data(struct hx_sse_reader *reader, struct hx_span bytes)
{
    if (bytes.len == 0)
        return;
    reader->size += bytes.len;
    if (!reader->is_oversize &&
        (reader->size > reader->data_max || hx_buf_append_span(&reader->data, bytes) < 0))
        skip_begin(reader);
    else if (!reader->is_oversize)
        return;
    skip_data(reader, bytes);
}

/* --- fields --- */

static enum kind kind_of(struct hx_span name)
{
    static const struct {
        const char *name;
        enum kind kind;
    } kinds[] = {{"data", DATA}, {"event", TYPE}, {"id", ID}, {"retry", RETRY}};

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (hx_span_eq_cstr(name, kinds[i].name))
            return kinds[i].kind;
    }
    return OTHER;
}

/* The name is whole; its value, maybe empty, comes now. */
static void field_begin(struct hx_sse_reader *reader)
{
    /* A comment has no name; a longer name than any known was cut, and so is none of them. */
    reader->kind = (uint8_t)kind_of(hx_span(reader->field, reader->field_len));
    reader->is_value_bad = false;
    switch ((enum kind)reader->kind) {
    case OTHER:
        break;
    case DATA:
        if (reader->has_data)
            add_data(reader, HX_SPAN_LIT("\n"));
        reader->has_data = true;
        break;
    case TYPE:
        hx_buf_reset(&reader->type);
        break;
    case ID:
        hx_buf_reset(&reader->id_coming);
        break;
    case RETRY:
        reader->retry_coming_ms = -1;
        break;
    }
}

static void add_retry(struct hx_sse_reader *reader, struct hx_span bytes)
{
    enum { RETRY_MAX_MS = 1 << 30 }; /* twelve days: beyond it there is no difference */

    for (size_t i = 0; i < bytes.len; i++) {
        if (bytes.ptr[i] < '0' || bytes.ptr[i] > '9') {
            reader->is_value_bad = true;
            return;
        }
        if (reader->retry_coming_ms < 0)
            reader->retry_coming_ms = 0;
        reader->retry_coming_ms = reader->retry_coming_ms * 10 + (bytes.ptr[i] - '0');
        if (reader->retry_coming_ms > RETRY_MAX_MS)
            reader->retry_coming_ms = RETRY_MAX_MS;
    }
}

static void field_add(struct hx_sse_reader *reader, struct hx_span bytes)
{
    switch ((enum kind)reader->kind) {
    case OTHER:
        break;
    case DATA:
        add_data(reader, bytes);
        break;
    case TYPE:
        (void)hx_buf_append_span(&reader->type, bytes); /* a failed one counts as "" */
        break;
    case ID:
        if (memchr(bytes.ptr, '\0', bytes.len) != NULL ||
            reader->id_coming.len + bytes.len > HX_SSE_ID_MAX ||
            hx_buf_append_span(&reader->id_coming, bytes) < 0)
            reader->is_value_bad = true;
        break;
    case RETRY:
        add_retry(reader, bytes);
        break;
    }
}

static void field_end(struct hx_sse_reader *reader)
{
    if (reader->is_value_bad)
        return;
    if (reader->kind == ID) {
        struct hx_buf old = reader->id;
        reader->id = reader->id_coming;
        reader->id_coming = old;
    } else if (reader->kind == RETRY && reader->retry_coming_ms >= 0) {
        reader->retry_ms = reader->retry_coming_ms;
    }
}

/* --- lines and events --- */

static void forget_taken(struct hx_sse_reader *reader)
{
    if (!reader->is_taken)
        return;
    if (reader->data.capacity > DATA_KEPT)
        hx_buf_fini(&reader->data);
    hx_buf_reset(&reader->data);
    hx_buf_reset(&reader->type);
    reader->size = 0;
    reader->has_data = false;
    reader->is_oversize = false;
    reader->is_taken = false;
}

static void event_take(struct hx_sse_reader *reader, struct hx_sse_event *ret_event)
{
    *ret_event = (struct hx_sse_event){
        .data = hx_buf_span(&reader->data),
        .type = hx_buf_ok(&reader->type) ? hx_buf_span(&reader->type) : hx_span("", 0),
        .id = hx_buf_span(&reader->id),
        .size = reader->size,
        .is_oversize = reader->is_oversize,
    };
    if (reader->is_oversize) {
        ret_event->skim = hx_skim_end(reader->skim);
        ret_event->data = hx_skim_id(reader->skim);
        if (reader->hasher != NULL)
            ret_event->digest = hx_hasher_end(reader->hasher);
    }
}

/* A line ended. True when it was an empty one that ends an event with data. */
static bool line_end(struct hx_sse_reader *reader, struct hx_sse_event *ret_event)
{
    bool is_empty = reader->place == NAME && reader->field_len == 0;

    if (!is_empty) {
        if (reader->place == NAME)
            field_begin(reader);
        field_end(reader);
    }
    reader->place = NAME;
    reader->field_len = 0;
    if (!is_empty)
        return false;
    reader->is_taken = true; /* without data: its type is forgotten too */
    if (!reader->has_data)
        return false;
    event_take(reader, ret_event);
    return true;
}

/* Bytes of one line, not empty, without its end. */
static void line_add(struct hx_sse_reader *reader, struct hx_span bytes)
{
    size_t at = 0;

    while (reader->place == NAME && at < bytes.len) {
        char byte = bytes.ptr[at++];
        if (byte == ':') {
            field_begin(reader);
            reader->place = COLON;
        } else if (reader->field_len < HX_SSE_FIELD_MAX) {
            reader->field[reader->field_len++] = byte;
        }
    }
    if (at < bytes.len && reader->place == COLON) {
        at += bytes.ptr[at] == ' ';
        reader->place = VALUE;
    }
    if (at < bytes.len)
        field_add(reader, hx_span(bytes.ptr + at, bytes.len - at));
}

static struct hx_span rest_of(struct hx_span span, size_t from)
{
    return hx_span(span.ptr + from, span.len - from);
}

/* Skips a mark at the start. What only began like one belongs to the first line. */
static void skip_mark(struct hx_sse_reader *reader, struct hx_span *input)
{
    while (reader->bom < BOM_LEN && input->len > 0) {
        if (input->ptr[0] != byte_order_mark[reader->bom]) {
            if (reader->bom > 0)
                line_add(reader, hx_span(byte_order_mark, reader->bom));
            reader->bom = BOM_LEN;
            return;
        }
        reader->bom++;
        *input = rest_of(*input, 1);
    }
}

/* In windows, or a stream of short lines with one kind of end would be looked through for the other
 * kind again and again. */
static size_t line_len(struct hx_span input)
{
    enum { WINDOW = 256 };

    for (size_t at = 0; at < input.len; at += WINDOW) {
        size_t window = input.len - at < WINDOW ? input.len - at : WINDOW;
        const char *lf = memchr(input.ptr + at, '\n', window);
        size_t len = lf != NULL ? (size_t)(lf - input.ptr) - at : window;
        const char *cr = memchr(input.ptr + at, '\r', len);
        if (cr != NULL)
            return (size_t)(cr - input.ptr);
        if (lf != NULL)
            return at + len;
    }
    return input.len;
}

bool hx_sse_next(struct hx_sse_reader *reader, struct hx_span *input,
                 struct hx_sse_event *ret_event)
{
    forget_taken(reader);
    skip_mark(reader, input);
    while (input->len > 0) {
        size_t len = line_len(*input);
        char end = len < input->len ? input->ptr[len] : '\0';

        if (len == 0 && end == '\n' && reader->was_cr) {
            reader->was_cr = false;
            *input = rest_of(*input, 1);
            continue;
        }
        reader->was_cr = end == '\r';
        if (len > 0) {
            line_add(reader, hx_span(input->ptr, len));
            bool is_cut = len == input->len;
            *input = rest_of(*input, len);
            if (is_cut)
                return false;
        }
        *input = rest_of(*input, 1);
        if (line_end(reader, ret_event))
            return true;
        forget_taken(reader);
    }
    return false;
}

/* --- the writer --- */

static bool has_none_of(struct hx_span text, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (text.len > 0 && memchr(text.ptr, bytes[i], text.len) != NULL)
            return false;
    }
    return true;
}

static void write_field(struct hx_buf *out, const char *name, struct hx_span value)
{
    (void)hx_buf_append_cstr(out, name);
    (void)hx_buf_append(out, ": ", 2);
    (void)hx_buf_append_span(out, value);
    (void)hx_buf_append_char(out, '\n');
}

void hx_sse_write_event(struct hx_buf *out, const struct hx_sse_fields *fields)
{
    struct hx_span data = fields->data;

    hx_assert(has_none_of(fields->id, "\r\n\0", 3));
    hx_assert(has_none_of(fields->type, "\r\n", 2));
    if (!hx_span_is_absent(fields->id))
        write_field(out, "id", fields->id);
    if (!hx_span_is_absent(fields->type))
        write_field(out, "event", fields->type);
    if (fields->retry_ms >= 0)
        (void)hx_buf_printf(out, "retry: %lld\n", (long long)fields->retry_ms);
    while (!hx_span_is_absent(data)) {
        size_t len = line_len(data);
        write_field(out, "data", hx_span(data.ptr, len));
        if (len == data.len)
            break;
        len += data.ptr[len] == '\r' && len + 1 < data.len && data.ptr[len + 1] == '\n' ? 2 : 1;
        data = rest_of(data, len);
    }
    (void)hx_buf_append_char(out, '\n');
}
