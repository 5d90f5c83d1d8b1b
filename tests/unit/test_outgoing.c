/* SPDX-License-Identifier: MIT */
/* Messages leave whole and in order however little is taken at a time, each with its exact fate. */
#include "tests/kit/text_kit.h"

#include <errno.h>

#include "loop/outgoing.h"

struct sink {
    struct hx_buf taken;
    struct hx_buf fates;
    size_t at_once;  /* bytes taken by one write */
    size_t budget;   /* bytes taken in all; then blocked */
    bool is_endless; /* takes everything at once and remembers nothing */
};

static ssize_t take(void *arg, const struct iovec *parts, size_t count)
{
    struct sink *sink = arg;
    size_t left = sink->at_once < sink->budget ? sink->at_once : sink->budget;
    size_t taken = 0;

    for (size_t i = 0; i < count; i++) {
        size_t len = sink->is_endless || parts[i].iov_len < left ? parts[i].iov_len : left;
        assert_true(parts[i].iov_len > 0);
        if (!sink->is_endless) {
            assert_int_equal(hx_buf_append(&sink->taken, parts[i].iov_base, len), 0);
            left -= len;
            sink->budget -= len;
        }
        taken += len;
    }
    errno = EAGAIN;
    return taken > 0 ? (ssize_t)taken : -1;
}

static void fate(void *arg, uint64_t tag, enum hx_outgoing_fate fate)
{
    static const char *const words[] = {"first", "written", "unsent", "cut"};
    struct sink *sink = arg;

    (void)hx_buf_printf(&sink->fates, "%s %llu, ", words[fate], (unsigned long long)tag);
}

static struct hx_buf text(const char *content)
{
    struct hx_buf buf;

    hx_buf_init(&buf, 64);
    assert_int_equal(hx_buf_append_cstr(&buf, content), 0);
    return buf;
}

static void begin(struct hx_outgoing *out, struct sink *sink)
{
    *sink = (struct sink){0};
    hx_buf_init(&sink->taken, 1 << 16);
    hx_buf_init(&sink->fates, 1 << 16);
    hx_outgoing_init(out, true, fate, sink);
    out->write = take;
    out->write_arg = sink;
}

static void end(struct hx_outgoing *out, struct sink *sink)
{
    hx_outgoing_fini(out);
    hx_buf_fini(&sink->taken);
    hx_buf_fini(&sink->fates);
}

static void add_three(struct hx_outgoing *out)
{
    struct hx_buf prefix = text("head ");
    struct hx_buf body = text("body");
    struct hx_buf line = text("line");

    hx_outgoing_add_parts(out, &prefix, &body, HX_SPAN_LIT(" tail|"), 1);
    hx_outgoing_add(out, &line, 2);
    hx_outgoing_add_parts(out, NULL, NULL, HX_SPAN_LIT("suffix"), 3);
    assert_int_equal(prefix.len + body.len + line.len, 0);
}

static const char all[] = "head body tail|line\nsuffix";

static void any_number_of_bytes_at_a_time(void **state)
{
    (void)state;
    for (size_t at_once = 1; at_once < sizeof all; at_once++) {
        struct hx_outgoing out;
        struct sink sink;

        begin(&out, &sink);
        add_three(&out);
        assert_int_equal(out.queued_bytes, sizeof all - 1);
        assert_int_equal(hx_outgoing_write(&out, -1), HX_OUTGOING_BLOCKED);
        sink.at_once = at_once;
        sink.budget = sizeof all;
        assert_int_equal(hx_outgoing_write(&out, -1), 0);
        assert_span_equal(hx_buf_span(&sink.taken), all);
        assert_span_equal(hx_buf_span(&sink.fates),
                          "first 1, written 1, first 2, written 2, first 3, written 3, ");
        assert_int_equal(out.queued_bytes, 0);
        end(&out, &sink);
    }
}

static void what_is_left_gets_its_fate(void **state)
{
    static const struct {
        size_t taken;
        const char *fates;
    } cases[] = {
        {0, "unsent 1, unsent 2, unsent 3, "},
        {1, "first 1, cut 1, unsent 2, unsent 3, "},
        {14, "first 1, cut 1, unsent 2, unsent 3, "},
        {15, "first 1, written 1, unsent 2, unsent 3, "},
        {19, "first 1, written 1, first 2, cut 2, unsent 3, "},
        {20, "first 1, written 1, first 2, written 2, unsent 3, "},
        {25, "first 1, written 1, first 2, written 2, first 3, cut 3, "},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hx_outgoing out;
        struct sink sink;

        begin(&out, &sink);
        add_three(&out);
        sink.at_once = 1;
        sink.budget = cases[i].taken;
        assert_int_equal(hx_outgoing_write(&out, -1), HX_OUTGOING_BLOCKED);
        assert_false(out.is_share_used);
        hx_outgoing_abandon(&out);
        assert_span_equal(hx_buf_span(&sink.fates), cases[i].fates);
        assert_true(hx_outgoing_is_empty(&out));
        assert_int_equal(out.queued_bytes, 0);
        end(&out, &sink);
    }
}

static void one_turn_has_its_share(void **state)
{
    struct hx_outgoing out;
    struct sink sink;

    (void)state;
    begin(&out, &sink);
    sink.is_endless = true;
    for (uint64_t tag = 1; tag <= 64; tag++) {
        struct hx_buf body;
        hx_buf_init(&body, 1 << 20);
        assert_int_equal(hx_buf_reserve(&body, 100000), 0);
        memset(body.data, 'x', 100000);
        body.len = 100000;
        hx_outgoing_add_parts(&out, NULL, &body, hx_span("", 0), tag);
    }
    /* Blocked, though more would be taken: whoever waits for an edge must know. */
    assert_int_equal(hx_outgoing_write(&out, -1), HX_OUTGOING_BLOCKED);
    assert_true(out.is_share_used);
    while (hx_outgoing_write(&out, -1) == HX_OUTGOING_BLOCKED)
        assert_true(out.is_share_used);
    assert_int_equal(out.written_bytes, 6400000);
    assert_false(out.is_share_used);
    end(&out, &sink);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_bytes_at_a_time),
        cmocka_unit_test(what_is_left_gets_its_fate),
        cmocka_unit_test(one_turn_has_its_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
