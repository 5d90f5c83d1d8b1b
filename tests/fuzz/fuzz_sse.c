/* SPDX-License-Identifier: MIT */
/*
 * Event streams under arbitrary bytes: however they are cut, the same events come out, and they are
 * those of a second reader below, which does what the standard says on the whole text, line by
 * line. Events written by us are read as they were.
 */
#include "tests/fuzz/fuzz.h"
#include "wire/sse.h"

enum { DATA_MAX = 48 };

static void log_event(struct hx_hasher *log, struct hx_span data, struct hx_span type,
                      struct hx_span id, const struct hx_digest *oversize)
{
    hx_hasher_add_field(log, type);
    hx_hasher_add_field(log, id);
    if (oversize != NULL)
        hx_hasher_add(log, hx_span((const char *)oversize->bytes, HX_DIGEST_SIZE));
    else
        hx_hasher_add_field(log, data);
}

static struct hx_digest run(struct hx_span bytes, struct fuzz_dice *dice, uint32_t piece_max,
                            struct hx_hasher *log, struct hx_hasher *digests)
{
    struct hx_sse_reader reader;
    struct hx_sse_event event;

    hx_sse_reader_init(&reader, DATA_MAX, digests);
    hx_hasher_begin(log);
    for (size_t at = 0; at < bytes.len;) {
        size_t len = bytes.len - at;
        if (dice != NULL) {
            size_t piece = 1 + fuzz_roll(dice, piece_max);
            len = piece < len ? piece : len;
        }
        struct hx_span input = hx_span(bytes.ptr + at, len);
        while (hx_sse_next(&reader, &input, &event)) {
            hx_assert(event.is_oversize == (event.size > DATA_MAX));
            hx_assert(event.is_oversize || event.data.len == event.size);
            log_event(log, event.data, event.type, event.id,
                      event.is_oversize ? &event.digest : NULL);
        }
        hx_assert(input.len == 0);
        at += len;
    }
    hx_hasher_add_field(log, hx_sse_last_id(&reader));
    hx_hasher_add(log, hx_span((const char *)&reader.retry_ms, sizeof reader.retry_ms));
    hx_sse_reader_fini(&reader);
    return hx_hasher_end(log);
}

/* --- the second reader --- */

struct plain {
    struct hx_buf data; /* with the LF behind each line, as in the standard */
    struct hx_span type;
    struct hx_span id;
    int64_t retry_ms;
};

static void plain_field(struct plain *plain, struct hx_span name, struct hx_span value)
{
    if (hx_span_eq_cstr(name, "data")) {
        hx_assert(hx_buf_append_span(&plain->data, value) == 0);
        hx_assert(hx_buf_append_char(&plain->data, '\n') == 0);
    } else if (hx_span_eq_cstr(name, "event")) {
        plain->type = value.len > HX_SSE_TYPE_MAX ? HX_SPAN_LIT("") : value;
    } else if (hx_span_eq_cstr(name, "id")) {
        if (value.len <= HX_SSE_ID_MAX && memchr(value.ptr, '\0', value.len) == NULL)
            plain->id = value;
    } else if (hx_span_eq_cstr(name, "retry") && value.len > 0) {
        int64_t sum = 0;
        for (size_t i = 0; i < value.len; i++) {
            if (value.ptr[i] < '0' || value.ptr[i] > '9')
                return;
            sum = sum * 10 + (value.ptr[i] - '0');
            sum = sum > 1 << 30 ? 1 << 30 : sum;
        }
        plain->retry_ms = sum;
    }
}

static void plain_line(struct plain *plain, struct hx_span line, struct hx_hasher *log,
                       struct hx_hasher *digests)
{
    const char *colon = line.len > 0 ? memchr(line.ptr, ':', line.len) : NULL;
    size_t name_len = colon != NULL ? (size_t)(colon - line.ptr) : line.len;
    size_t from = colon != NULL ? name_len + 1 : name_len;

    if (line.len > 0) {
        from += colon != NULL && from < line.len && line.ptr[from] == ' ';
        plain_field(plain, hx_span(line.ptr, name_len), hx_span(line.ptr + from, line.len - from));
        return;
    }
    if (plain->data.len > 0) {
        struct hx_span data = hx_span(plain->data.data, plain->data.len - 1);
        struct hx_digest digest;
        hx_hasher_begin(digests);
        hx_hasher_add(digests, data);
        digest = hx_hasher_end(digests);
        log_event(log, data, plain->type, plain->id, data.len > DATA_MAX ? &digest : NULL);
    }
    hx_buf_reset(&plain->data);
    plain->type = HX_SPAN_LIT("");
}

static struct hx_digest run_plain(struct hx_span bytes, struct hx_hasher *log,
                                  struct hx_hasher *digests)
{
    struct plain plain = {.type = HX_SPAN_LIT(""), .id = HX_SPAN_LIT(""), .retry_ms = -1};
    size_t start = hx_span_starts_with(bytes, HX_SPAN_LIT("\xef\xbb\xbf")) ? 3 : 0;

    hx_buf_init(&plain.data, 1 << 24);
    hx_hasher_begin(log);
    for (size_t at = start; at < bytes.len; at++) {
        if (bytes.ptr[at] != '\r' && bytes.ptr[at] != '\n')
            continue;
        plain_line(&plain, hx_span(bytes.ptr + start, at - start), log, digests);
        if (bytes.ptr[at] == '\r' && at + 1 < bytes.len && bytes.ptr[at + 1] == '\n')
            at++;
        start = at + 1;
    }
    hx_hasher_add_field(log, plain.id);
    hx_hasher_add(log, hx_span((const char *)&plain.retry_ms, sizeof plain.retry_ms));
    hx_buf_fini(&plain.data);
    return hx_hasher_end(log);
}

static void check_written(struct hx_span data)
{
    struct hx_sse_fields fields = {.id = HX_SPAN_LIT("7"), .data = data, .retry_ms = -1};
    struct hx_sse_reader reader;
    struct hx_sse_event event;
    struct hx_buf out;
    struct hx_buf expected;

    hx_buf_init(&out, 1 << 24);
    hx_buf_init(&expected, 1 << 24);
    for (size_t i = 0; i < data.len; i++) {
        if (data.ptr[i] == '\r' && i + 1 < data.len && data.ptr[i + 1] == '\n')
            continue;
        (void)hx_buf_append_char(&expected, data.ptr[i] == '\r' ? '\n' : data.ptr[i]);
    }
    hx_sse_write_event(&out, &fields);
    hx_assert(hx_buf_ok(&out));
    struct hx_span input = hx_buf_span(&out);
    hx_sse_reader_init(&reader, 1 << 24, NULL);
    hx_assert(hx_sse_next(&reader, &input, &event));
    hx_assert(input.len == 0);
    hx_assert(hx_span_eq(event.data, hx_buf_span(&expected)));
    hx_sse_reader_fini(&reader);
    hx_buf_fini(&out);
    hx_buf_fini(&expected);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hx_span bytes = hx_span((const char *)data, size);
    struct fuzz_dice dice = fuzz_dice(data, size);
    struct hx_hasher *log = hx_hasher_new();
    struct hx_hasher *digests = hx_hasher_new();
    struct hx_digest whole = run_plain(bytes, log, digests);
    struct hx_digest other = run(bytes, NULL, 0, log, digests);

    hx_assert(hx_digest_eq(&whole, &other));
    static const uint32_t pieces_max[] = {1, 3, 100};
    for (size_t i = 0; i < 3; i++) {
        other = run(bytes, &dice, pieces_max[i], log, digests);
        hx_assert(hx_digest_eq(&whole, &other));
    }
    check_written(bytes);
    hx_hasher_free(digests);
    hx_hasher_free(log);
    return 0;
}
