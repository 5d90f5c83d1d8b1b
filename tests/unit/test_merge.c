/* SPDX-License-Identifier: MIT */
/*
 * Many servers as one. What a conversation shows is in merge.stories; here is what it cannot show:
 * fates, streams, limits, ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "merge_kit.h"
#include "story.h"
#include "wire/mcp.h"

static const char *const two[] = {"files=files_", "web=web_", NULL};
static struct story_book book;

static void run(struct merge_kit *kit, const char *name, const char *script)
{
    int line = merge_kit_run(kit, script);
    if (line != 0)
        print_error("in \"%s\"\n", name);
    assert_int_equal(line, 0);
}

static void test_stories(void **state)
{
    size_t count = 0;

    (void)state;
    for (const struct story *story = book.first; story != NULL; story = story->next) {
        struct merge_kit kit;
        merge_kit_init(&kit, true, two, NULL);
        run(&kit, story->name, story->script);
        merge_kit_fini(&kit);
        count++;
    }
    assert_true(count > 30);
}

/* A session in which both servers can do everything. */
static void begin(struct merge_kit *kit, bool has_exchanges, const struct hx_merge_options *options,
                  const char *version)
{
    char script[256];

    merge_kit_init(kit, has_exchanges, two, options);
    snprintf(script, sizeof script, "begun %s", version);
    char *lines = story_expand(&book, script);
    run(kit, script, lines);
    hx_free(lines);
    for (size_t i = 0; i < 2; i++)
        memset(kit->legs[i].fates, 0, sizeof kit->legs[i].fates);
}

static void client_says(struct merge_kit *kit, uint64_t exchange, const char *text)
{
    merge_kit_client(kit, HX_PEER_MESSAGE, exchange, 0, text);
}

static void drop_words(struct hx_list *words)
{
    struct merge_kit_word *word;
    while ((word = merge_kit_take(words)) != NULL)
        merge_kit_word_free(word);
}

static void drop_all(struct merge_kit *kit)
{
    drop_words(&kit->said);
    for (size_t i = 0; i < kit->leg_count; i++)
        drop_words(&kit->legs[i].got);
}

/* The exchange of the newest open request of a server. */
static uint64_t open_exchange(struct merge_kit *kit, size_t leg)
{
    struct hx_list *node = hx_list_last(&kit->legs[leg].open);
    return node != NULL ? hx_container_of(node, struct merge_kit_word, node)->exchange : 0;
}

static void assert_fates(const struct merge_kit *kit, size_t leg, uint64_t written,
                         uint64_t not_sent, uint64_t cut, uint64_t taken_back)
{
    const uint64_t *fates = kit->legs[leg].fates;
    assert_int_equal(fates[0], written);
    assert_int_equal(fates[1], not_sent);
    assert_int_equal(fates[2], cut);
    assert_int_equal(fates[3], taken_back);
}

#define CALL(id, name)                                                                             \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"" name    \
    "\"}}"
#define DONE(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"result\":{}}"
#define LIST "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/list\"}"

static void test_fates_find_back(void **state)
{
    static const enum hx_peer_event_type fates[] = {HX_PEER_WRITTEN, HX_PEER_TAKEN_BACK};
    struct merge_kit kit;

    (void)state;
    begin(&kit, true, NULL, "2025-06-18");
    client_says(&kit, 3, CALL("7", "web_x"));
    uint64_t tag = kit.next_tag;
    merge_kit_answer(&kit, 1, open_exchange(&kit, 1), HX_SENDING_ANSWER, DONE("7"));
    assert_fates(&kit, 1, 0, 0, 0, 0);
    for (size_t i = 0; i < 2; i++)
        merge_kit_client(&kit, fates[i], 0, kit.last_outer_tag, "");
    assert_fates(&kit, 1, 1, 0, 0, 1);
    assert_fates(&kit, 0, 0, 0, 0, 0);
    assert_int_equal(kit.legs[1].last_fate_tag, tag);
    /* That its session is over says nothing of whether it was read. */
    merge_kit_over(&kit, 1);
    for (size_t i = 0; i < 2; i++)
        merge_kit_client(&kit, fates[i], 0, kit.last_outer_tag, "");
    assert_int_equal(kit.last_tag_later, tag);
    drop_all(&kit);
    merge_kit_fini(&kit);
}

static void test_what_goes_nowhere_is_not_sent(void **state)
{
    struct merge_kit kit;

    (void)state;
    begin(&kit, true, NULL, "2025-06-18");
    merge_kit_answer(&kit, 0, 12345, HX_SENDING_ANSWER, DONE("7"));
    assert_fates(&kit, 0, 0, 1, 0, 0);
    client_says(&kit, 3, CALL("7", "web_x"));
    uint64_t exchange = open_exchange(&kit, 1);
    merge_kit_answer(&kit, 0, exchange, HX_SENDING_ANSWER, DONE("7")); /* another server's */
    assert_fates(&kit, 0, 0, 2, 0, 0);
    merge_kit_client(&kit, HX_PEER_ENDED, 0, 0, "");
    merge_kit_answer(&kit, 1, exchange, HX_SENDING_ANSWER, DONE("7"));
    merge_kit_answer(&kit, 1, 0, HX_SENDING_ASIDE, "{\"jsonrpc\":\"2.0\",\"method\":\"x\"}");
    assert_fates(&kit, 1, 0, 2, 0, 0);
    assert_null(merge_kit_take(&kit.said));
    drop_all(&kit);
    merge_kit_fini(&kit);
}

/* An answer that became a part of a list has done its part. */
static void test_what_is_used_here_is_written(void **state)
{
    struct merge_kit kit;

    (void)state;
    begin(&kit, true, NULL, "2025-06-18");
    client_says(&kit, 3, LIST);
    for (size_t i = 0; i < 2; i++) {
        merge_kit_answer(&kit, i, open_exchange(&kit, i), HX_SENDING_ANSWER,
                         "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{\"tools\":[]}}");
        assert_fates(&kit, i, 1, 0, 0, 0);
    }
    drop_all(&kit);
    merge_kit_fini(&kit);
}

static void test_an_array_has_one_fate(void **state)
{
    struct merge_kit kit;

    (void)state;
    begin(&kit, true, NULL, "2025-03-26");
    client_says(&kit, 3, "[" CALL("7", "web_x") "," CALL("8", "files_x") "]");
    merge_kit_answer(&kit, 0, open_exchange(&kit, 0), HX_SENDING_ANSWER, DONE("8"));
    merge_kit_answer(&kit, 1, open_exchange(&kit, 1), HX_SENDING_ANSWER, DONE("7"));
    merge_kit_client(&kit, HX_PEER_WRITTEN, 0, kit.last_outer_tag, "");
    merge_kit_client(&kit, HX_PEER_TAKEN_BACK, 0, kit.last_outer_tag, "");
    for (size_t i = 0; i < 2; i++)
        assert_fates(&kit, i, 1, 0, 0, 1);
    uint64_t tags[2];
    assert_int_equal(hx_merge_tags_of(kit.merge, kit.last_outer_tag, tags, 2), 2);
    assert_int_equal(tags[0] + 1, tags[1]);
    drop_all(&kit);
    merge_kit_fini(&kit);
}

/* Nobody waits for an array: what of it was there is not sent, the rest is told to its server. */
static void test_an_array_that_nobody_waits_for(void **state)
{
    struct merge_kit kit;

    (void)state;
    begin(&kit, true, NULL, "2025-03-26");
    client_says(&kit, 3, "[" CALL("7", "web_x") "," CALL("8", "files_x") "]");
    merge_kit_answer(&kit, 0, open_exchange(&kit, 0), HX_SENDING_ANSWER, DONE("8"));
    assert_false(hx_merge_leg(kit.merge, 0)->ops->is_reader_alive(hx_merge_leg(kit.merge, 0), 2));
    merge_kit_client(&kit, HX_PEER_EXCHANGE_GONE, 3, 0, "");
    assert_fates(&kit, 0, 0, 1, 0, 0);
    assert_int_equal(open_exchange(&kit, 1), 0);
    drop_words(&kit.legs[0].got);
    drop_words(&kit.legs[1].got);
    assert_null(merge_kit_take(&kit.said));
    merge_kit_fini(&kit);
}

static void test_looks_at_the_client(void **state)
{
    struct merge_kit kit;

    (void)state;
    begin(&kit, true, NULL, "2025-03-26");
    struct hx_downstream *leg = hx_merge_leg(kit.merge, 1);
    assert_int_equal(leg->ops->queued_bytes(leg), 17);
    client_says(&kit, 7, CALL("7", "web_x"));
    uint64_t exchange = open_exchange(&kit, 1);
    assert_true(leg->ops->is_reader_alive(leg, exchange));
    assert_false(
        hx_merge_leg(kit.merge, 0)->ops->is_reader_alive(hx_merge_leg(kit.merge, 0), exchange));
    assert_true(hx_span_eq_cstr(leg->ops->stream_name(leg, exchange), "stream-7"));
    leg->ops->stream_kept(leg, exchange);
    client_says(&kit, 99, CALL("8", "web_x")); /* whose connection is cut */
    assert_false(leg->ops->is_reader_alive(leg, open_exchange(&kit, 1)));
    assert_true(hx_span_is_absent(leg->ops->stream_name(leg, open_exchange(&kit, 1))));
    client_says(&kit, 7, "[" CALL("9", "web_x") "]");
    assert_true(hx_span_is_absent(leg->ops->stream_name(leg, open_exchange(&kit, 1))));
    drop_all(&kit);
    merge_kit_fini(&kit);
}

static void test_pipes_have_no_exchanges(void **state)
{
    struct merge_kit kit;

    (void)state;
    merge_kit_init(&kit, false, two, NULL);
    struct hx_downstream *leg = hx_merge_leg(kit.merge, 0);
    client_says(&kit, 0, CALL("7", "files_x"));
    client_says(&kit, 0, CALL("8", "files_x"));
    assert_true(leg->ops->is_reader_alive(leg, open_exchange(&kit, 0)));
    assert_true(hx_span_is_absent(leg->ops->stream_name(leg, open_exchange(&kit, 0))));
    leg->ops->settle(leg, open_exchange(&kit, 0), HX_SETTLING_TAKEN);
    leg->ops->close(leg);
    assert_true(kit.is_closed);
    assert_null(merge_kit_take(&kit.said));
    drop_all(&kit);
    merge_kit_fini(&kit);
}

static void test_ends(void **state)
{
    static const enum hx_peer_event_type ends[] = {HX_PEER_END_OF_INPUT, HX_PEER_READER_GONE,
                                                   HX_PEER_FRONT_GONE, HX_PEER_ENDED};
    (void)state;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        struct merge_kit kit;
        begin(&kit, true, NULL, "2025-06-18");
        merge_kit_client(&kit, ends[i], 0, 0, "");
        for (size_t k = 0; k < 2; k++) {
            struct merge_kit_word *word = merge_kit_take(&kit.legs[k].got);
            assert_non_null(word);
            assert_int_equal(word->type, ends[i]);
            merge_kit_word_free(word);
        }
        assert_false(hx_merge_is_over(kit.merge));
        merge_kit_over(&kit, 0);
        assert_false(hx_merge_is_over(kit.merge));
        merge_kit_over(&kit, 1);
        assert_true(hx_merge_is_over(kit.merge));
        drop_all(&kit);
        merge_kit_fini(&kit);
    }
}

static struct hx_peer_event *client_event(struct merge_kit *kit, enum hx_peer_event_type type,
                                          const char *text)
{
    struct hx_peer_event *event = hx_peer_event_new(type, 0);
    event->downstream = &kit->outer;
    event->exchange = 3;
    assert_int_equal(hx_buf_append_cstr(&event->line, text), 0);
    return event;
}

/* The newest event of a leg, as the engine would see it. */
static const struct hx_peer_event *last_event(struct merge_kit *kit)
{
    return hx_container_of(hx_list_last(&kit->leg_inbox), struct hx_peer_event, node);
}

static void test_the_key_header_travels(void **state)
{
    static const struct {
        const char *text;
        uint32_t count;
    } bodies[] = {{CALL("7", "web_x"), 1},
                  {"[" CALL("8", "web_x") "]", 1},
                  {"[" CALL("9", "web_x") "," CALL("10", "web_x") "]", 2}};
    struct merge_kit kit;

    (void)state;
    begin(&kit, true, NULL, "2025-03-26");
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        struct hx_peer_event *event = client_event(&kit, HX_PEER_MESSAGE, bodies[i].text);
        event->key_count = 1;
        assert_int_equal(hx_buf_append_cstr(&event->key, "k-1"), 0);
        hx_merge_event(kit.merge, event);
        hx_peer_event_free(event);
        const struct hx_peer_event *seen = last_event(&kit);
        assert_int_equal(seen->key_count, bodies[i].count);
        assert_true(hx_span_eq_cstr(hx_buf_span(&seen->key), "k-1"));
        merge_kit_collect(&kit);
        drop_all(&kit);
    }
    merge_kit_fini(&kit);
}

static void test_oversize(void **state)
{
    struct merge_kit kit;
    struct merge_kit_word *word;

    (void)state;
    begin(&kit, true, NULL, "2025-06-18");
    struct hx_peer_event *event = client_event(&kit, HX_PEER_OVERSIZE, "7");
    event->has_method = true;
    event->size = 999;
    hx_merge_event(kit.merge, event);
    hx_peer_event_free(event);
    word = merge_kit_take(&kit.said);
    assert_int_equal(word->kind, MERGE_KIT_FAULT);
    assert_string_equal(
        word->text, "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32600,\"message\":"
                    "\"The message has 999 bytes, more than message_max allows or than there is "
                    "memory for; nothing was sent.\",\"data\":" HX_MCP_OWN_ERROR(
                        "REQUEST_INVALID", "true", "true") "}}");
    merge_kit_word_free(word);

    merge_kit_answer(&kit, 1, 0, HX_SENDING_ASIDE,
                     "{\"jsonrpc\":\"2.0\",\"id\":\"hx-9\",\"method\":\"roots/list\"}");
    event = client_event(&kit, HX_PEER_OVERSIZE, "\"hx-9\"");
    event->has_result = true;
    hx_merge_event(kit.merge, event);
    hx_peer_event_free(event);
    assert_ptr_equal(last_event(&kit)->downstream, hx_merge_leg(kit.merge, 1));
    assert_int_equal(last_event(&kit)->type, HX_PEER_OVERSIZE);
    assert_true(last_event(&kit)->has_result);
    merge_kit_collect(&kit);
    drop_all(&kit);
    merge_kit_fini(&kit);
}

/* What a list of `item`s, answered by both servers, comes to under `options`. */
static char *listed(const struct hx_merge_options *options, const char *result)
{
    char text[512];
    struct merge_kit kit;

    begin(&kit, true, options, "2025-06-18");
    client_says(&kit, 3, LIST);
    snprintf(text, sizeof text, "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":%s}", result);
    for (size_t i = 0; i < 2; i++) {
        while (open_exchange(&kit, i) != 0) {
            uint64_t exchange = open_exchange(&kit, i);
            merge_kit_word_free(
                hx_container_of(hx_list_last(&kit.legs[i].open), struct merge_kit_word, node));
            merge_kit_answer(&kit, i, exchange, HX_SENDING_ANSWER, text);
        }
    }
    struct merge_kit_word *word = merge_kit_take(&kit.said);
    assert_non_null(word);
    char *copy = hx_strdup(word->text);
    merge_kit_word_free(word);
    assert_null(merge_kit_take(&kit.said));
    drop_all(&kit);
    merge_kit_fini(&kit);
    return copy;
}

static void test_lists_are_bounded(void **state)
{
    const struct {
        uint32_t items_max;
        size_t message_max_bytes;
        const char *result;
        const char *part;
    } cases[] = {
        {2, 1 << 20, "{\"tools\":[{\"name\":\"a\"}]}", "files_a"},
        {1, 1 << 20, "{\"tools\":[{\"name\":\"a\"}]}", "has more than 1 entries"},
        {9, 1 << 11, "{\"tools\":[{\"name\":\"a\"}]}", "web_a"},
        {999, 1 << 11, "{\"tools\":[{\"name\":\"a\"}],\"nextCursor\":\"again\"}", "too many pages"},
        {2, 1 << 20, "{\"tools\":[{\"name\":\"a\"}],\"nextCursor\":\"again\"}",
         "has more than 2 entries"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hx_merge_options options = hx_merge_defaults();
        options.items_max = cases[i].items_max;
        options.message_max_bytes = cases[i].message_max_bytes;
        options.pages_max = 20;
        char *answer = listed(&options, cases[i].result);
        if (i == 3)
            assert_non_null(strstr(answer, "\"code\":1502")); /* no part is left */
        else if (strstr(answer, cases[i].part) == NULL)
            fail_msg("%s: %s", cases[i].part, answer);
        hx_free(answer);
    }
}

static void test_requests_are_bounded(void **state)
{
    struct hx_merge_options options = hx_merge_defaults();
    struct merge_kit kit;

    (void)state;
    options.requests_max = 1;
    begin(&kit, true, &options, "2025-06-18");
    client_says(&kit, 3, CALL("7", "web_x"));
    assert_null(merge_kit_take(&kit.said));
    client_says(&kit, 4, CALL("8", "web_x"));
    struct merge_kit_word *word = merge_kit_take(&kit.said);
    assert_non_null(word);
    assert_int_equal(word->exchange, 4);
    assert_non_null(strstr(word->text, "\"id\":8,\"error\":{\"code\":1503"));
    merge_kit_word_free(word);
    drop_all(&kit);
    merge_kit_fini(&kit);
}

/* --- want of memory --- */

enum { MANY = 5000 };

/* A message whose tokens, or with `is_long` whose bytes, are more than small memory holds. */
static char *heavy(const char *start, bool is_long, const char *end)
{
    struct hx_buf text;

    hx_buf_init(&text, 1 << 20);
    assert_int_equal(hx_buf_append_cstr(&text, start), 0);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(hx_buf_append_cstr(&text, is_long ? "\\u00e9\\u00e9" : "0,"), 0);
    assert_int_equal(hx_buf_append_cstr(&text, end), 0);
    char *copy = hx_span_strdup(hx_buf_span(&text));
    hx_buf_fini(&text);
    return copy;
}

#define UNREAD                                                                                     \
    "\"error\":{\"code\":1503,\"message\":\"There is no memory for this message; nothing was "     \
    "sent. "                                                                                       \
    "Repeat it as it is.\",\"data\":" HX_MCP_OWN_ERROR("LEDGER_UNAVAILABLE", "true", "false") "}}"

/* A gateway in front knows our words by data.code alone, and takes any other error for what the
 * tool said. */
static void test_what_was_not_sent_is_said_in_our_word(void **state)
{
    static const struct {
        const char *revision; /* NULL: it is the first message */
        const char *start;
        bool is_long;
        const char *end;
        const char *answer;
    } rows[] = {
        {"2025-06-18",
         "{\"id\":7,\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":"
         "{\"name\":\"web_x\",\"arguments\":[",
         false, "0]}}", "{\"jsonrpc\":\"2.0\",\"id\":7," UNREAD},
        {"2025-06-18",
         "{\"id\":7,\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":"
         "{\"name\":\"web_x\",\"arguments\":{\"a\":\"",
         true, "\"}}}", "{\"jsonrpc\":\"2.0\",\"id\":7," UNREAD},
        {"2025-06-18",
         "{\"id\":7,\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":"
         "{\"name\":\"web_",
         true, "\"}}", "{\"jsonrpc\":\"2.0\",\"id\":7," UNREAD},
        {"2025-06-18",
         "{\"id\":7,\"jsonrpc\":\"2.0\",\"method\":\"resources/read\",\"params\":"
         "{\"uri\":\"u:",
         true, "\"}}", "{\"jsonrpc\":\"2.0\",\"id\":7," UNREAD},
        {"2025-03-26",
         "[{\"id\":7,\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":"
         "{\"name\":\"web_x\",\"arguments\":{\"a\":\"",
         true, "\"}}}]", "[{\"jsonrpc\":\"2.0\",\"id\":7," UNREAD "]"},
        {NULL,
         "{\"id\":7,\"jsonrpc\":\"2.0\",\"method\":\"initialize\",\"params\":"
         "{\"protocolVersion\":\"",
         true, "\"}}", "{\"jsonrpc\":\"2.0\",\"id\":7," UNREAD},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *text = heavy(rows[i].start, rows[i].is_long, rows[i].end);
        bool is_through = false;
        unsigned told = 0;
        for (unsigned long n = 1; !is_through; n++) {
            struct merge_kit kit;
            if (rows[i].revision != NULL)
                begin(&kit, true, NULL, rows[i].revision);
            else
                merge_kit_init(&kit, true, two, NULL);
            struct hx_peer_event *event = client_event(&kit, HX_PEER_MESSAGE, text);
            hx_alloc_fail_large_at(n);
            hx_merge_event(kit.merge, event);
            is_through = hx_alloc_fail_left() > 0;
            hx_alloc_fail_at(0);
            hx_peer_event_free(event);
            merge_kit_collect(&kit);
            struct merge_kit_word *word = merge_kit_take(&kit.said);
            if (word != NULL && word->kind != MERGE_KIT_SETTLED) {
                if (strcmp(word->text, rows[i].answer) != 0)
                    fail_msg("row %zu, memory %lu: %s", i, n, word->text);
                told++;
            }
            if (word != NULL)
                merge_kit_word_free(word);
            drop_all(&kit);
            merge_kit_fini(&kit);
        }
        if (told == 0)
            fail_msg("row %zu was never refused", i);
        hx_free(text);
    }
}

/* What some of them were not told must be said again. */
static void test_who_could_not_be_told_is_no_success(void **state)
{
    char *text = heavy("{\"id\":7,\"jsonrpc\":\"2.0\",\"method\":\"logging/setLevel\",\"params\":"
                       "{\"level\":\"info\",\"x\":\"",
                       true, "\"}}");
    bool is_through = false;
    unsigned told[3] = {0}; /* by how many of the two had it */

    (void)state;
    for (unsigned long n = 1; !is_through; n++) {
        struct merge_kit kit;
        size_t had = 0;
        begin(&kit, true, NULL, "2025-06-18");
        struct hx_peer_event *event = client_event(&kit, HX_PEER_MESSAGE, text);
        hx_alloc_fail_large_at(n);
        hx_merge_event(kit.merge, event);
        is_through = hx_alloc_fail_left() > 0;
        hx_alloc_fail_at(0);
        hx_peer_event_free(event);
        merge_kit_collect(&kit);
        for (size_t i = 0; i < 2; i++) {
            uint64_t exchange = open_exchange(&kit, i);
            had += exchange != 0;
            if (exchange != 0)
                merge_kit_answer(&kit, i, exchange, HX_SENDING_ANSWER, DONE("7"));
        }
        struct merge_kit_word *word = merge_kit_take(&kit.said);
        assert_non_null(word);
        bool is_success = strcmp(word->text, DONE("7")) == 0;
        if (is_success != (had == 2))
            fail_msg("memory %lu, %zu of 2 were told: %s", n, had, word->text);
        if (had == 1)
            assert_string_equal(
                word->text, "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":1502,\"message\":"
                            "\"There is no memory to ask all servers that this concerns. Repeat "
                            "it as it is.\",\"data\":" HX_MCP_OWN_ERROR("UPSTREAM_UNAVAILABLE",
                                                                        "true", "false") "}}");
        merge_kit_word_free(word);
        told[had]++;
        drop_all(&kit);
        merge_kit_fini(&kit);
    }
    assert_true(told[1] > 0 && told[2] > 0);
    hx_free(text);
}

#define UNKNOWN_TEXT                                                                               \
    "There is no memory for this answer, or it is longer than a message may be. The call may "     \
    "have been sent: it may or may not have happened. Do not call again under a new key and do "   \
    "not report it as failed. Repeat exactly the same call, with the same key if you sent one, "   \
    "to learn what came of it."
#define UNKNOWN                                                                                    \
    "{\"code\":\"OUTCOME_UNKNOWN\",\"replayed\":false,\"joined\":false,\"new_key_allowed\":false}"

/* An array that cannot be written: what is short stays as it is, and each id gets a word. */
static void test_an_array_without_memory(void **state)
{
    static const char *const words[] = {
        "{\"jsonrpc\":\"2.0\",\"id\":8,\"result\":{\"content\":[{\"type\":\"text\",\"text\":"
        "\"" UNKNOWN_TEXT "\"}],\"isError\":true,\"_meta\":{\"dev.hapax/operation\":" UNKNOWN "}}}",
        "{\"jsonrpc\":\"2.0\",\"id\":9,\"error\":{\"code\":-32603,\"message\":\"" UNKNOWN_TEXT
        "\",\"data\":{\"code\":\"OUTCOME_UNKNOWN\",\"type\":\"idempotency_outcome_unknown\","
        "\"retry_safe\":true,\"dev.hapax/operation\":" UNKNOWN "}}}",
        "{\"jsonrpc\":\"2.0\",\"id\":\"r\",\"error\":{\"code\":-32603,\"message\":\"There is no "
        "memory for this answer, or it is longer than a message may be. The request may be "
        "repeated.\",\"data\":" HX_MCP_OWN_ERROR("NO_ANSWER", "true", "true") "}}",
        DONE("7"),
    };
    char *large[] = {heavy("{\"jsonrpc\":\"2.0\",\"id\":8,\"result\":{\"x\":\"", true, "\"}}"),
                     heavy("{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{\"x\":\"", true, "\"}}"),
                     heavy("{\"jsonrpc\":\"2.0\",\"id\":\"r\",\"result\":{\"x\":\"", true, "\"}}")};
    struct merge_kit kit;

    (void)state;
    begin(&kit, true, NULL, "2025-03-26");
    client_says(
        &kit, 3,
        "[" CALL("8", "web_x") ",{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/call\","
                               "\"params\":{\"name\":\"web_x\",\"idempotencyKey\":\"k\"}},{"
                               "\"jsonrpc\":\"2.0\","
                               "\"id\":\"r\",\"method\":\"prompts/"
                               "get\",\"params\":{\"name\":\"web_x\"}}," CALL("7", "files_x") "]");
    for (size_t i = 3; i > 0; i--) {
        uint64_t exchange = open_exchange(&kit, 1);
        merge_kit_word_free(
            hx_container_of(hx_list_last(&kit.legs[1].open), struct merge_kit_word, node));
        merge_kit_answer(&kit, 1, exchange, HX_SENDING_ANSWER, large[i - 1]);
    }
    hx_alloc_fail_large_at(1);
    merge_kit_answer(&kit, 0, open_exchange(&kit, 0), HX_SENDING_ANSWER, DONE("7"));
    assert_int_equal(hx_alloc_fail_left(), 0);
    struct merge_kit_word *word = merge_kit_take(&kit.said);
    assert_non_null(word);
    assert_int_equal(word->exchange, 3);
    assert_int_equal(word->text[0], '[');
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strstr(word->text, words[i]) == NULL)
            fail_msg("%s\nis not in\n%s", words[i], word->text);
    }
    assert_null(merge_kit_take(&kit.said));
    merge_kit_word_free(word);
    assert_fates(&kit, 1, 0, 3, 0, 0);
    merge_kit_client(&kit, HX_PEER_WRITTEN, 0, kit.last_outer_tag, "");
    assert_fates(&kit, 0, 1, 0, 0, 0);
    assert_fates(&kit, 1, 0, 3, 0, 0);
    for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++)
        hx_free(large[i]);
    drop_all(&kit);
    merge_kit_fini(&kit);
}

static void note_left_out(void *context, struct hx_span server, struct hx_span reason)
{
    snprintf(context, 256, "%.*s: %.*s", HX_SPAN_FMT(server), HX_SPAN_FMT(reason));
}

static void test_who_is_left_out_is_told(void **state)
{
    struct hx_merge_options options = hx_merge_defaults();
    char told[256] = "";
    struct merge_kit kit;

    (void)state;
    options.left_out = note_left_out;
    options.context = told;
    begin(&kit, true, &options, "2025-06-18");
    assert_string_equal(told, "");
    client_says(&kit, 3, LIST);
    merge_kit_answer(&kit, 1, open_exchange(&kit, 1), HX_SENDING_ANSWER,
                     "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":5,\"message\":\"why\"}}");
    assert_string_equal(told, "web: why");
    drop_all(&kit);
    merge_kit_fini(&kit);
}

/* Pressure of one server's session is that of the client. */
static void test_holds_while_any_leg_holds(void **state)
{
    struct merge_kit kit;

    (void)state;
    begin(&kit, true, NULL, "2025-06-18");
    struct hx_downstream *first = hx_merge_leg(kit.merge, 0);
    struct hx_downstream *second = hx_merge_leg(kit.merge, 1);
    first->ops->hold(first, true);
    second->ops->hold(second, true);
    assert_true(kit.is_held);
    first->ops->hold(first, false);
    assert_true(kit.is_held);
    second->ops->hold(second, false);
    assert_false(kit.is_held);
    assert_int_equal(kit.hold_count, 2);
    merge_kit_fini(&kit);
}

/* Names are cut between characters, and never so that two of them meet. */
static void test_long_names(void **state)
{
    static const char *const tails[] = {"a", "b", "\u00e9", "\u00e9a"};
    char names[4][128];
    char list[1024];
    struct merge_kit kit;

    (void)state;
    begin(&kit, true, NULL, "2025-06-18");
    client_says(&kit, 3, LIST);
    int len = snprintf(list, sizeof list, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tools\":[");
    for (size_t i = 0; i < 4; i++) {
        snprintf(names[i], sizeof names[i], "%046d\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9%s", 0,
                 tails[i]);
        len += snprintf(list + len, sizeof list - (size_t)len, "%s{\"name\":\"%s\"}",
                        i > 0 ? "," : "", names[i]);
    }
    snprintf(list + len, sizeof list - (size_t)len, "]}}");
    merge_kit_answer(&kit, 0, open_exchange(&kit, 0), HX_SENDING_ANSWER, list);
    merge_kit_answer(&kit, 1, open_exchange(&kit, 1), HX_SENDING_ANSWER,
                     "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tools\":[]}}");
    struct merge_kit_word *word = merge_kit_take(&kit.said);
    const char *at = word->text;
    drop_all(&kit);
    for (size_t i = 0; i < 4; i++) {
        char name[128], call[256], expected[256];
        at = strstr(at, "\"files_");
        assert_non_null(at);
        size_t name_len = strcspn(at + 1, "\"");
        snprintf(name, sizeof name, "%.*s", (int)name_len, at + 1);
        assert_in_range(name_len, 61, 64);
        at += name_len;
        snprintf(call, sizeof call, CALL("%zu", "%.127s"), i + 10, name);
        client_says(&kit, 10 + i, call);
        snprintf(expected, sizeof expected, CALL("%zu", "%.127s"), i + 10, names[i]);
        struct merge_kit_word *got = merge_kit_take(&kit.legs[0].got);
        assert_non_null(got);
        assert_string_equal(got->text, expected);
        merge_kit_word_free(got);
    }
    merge_kit_word_free(word);
    merge_kit_fini(&kit);
}

/* What was said before the merge was there is not lost. */
static void test_takes_over_what_waits(void **state)
{
    struct hx_merge_options options = hx_merge_defaults();
    const struct hx_merge_leg_options legs[] = {{HX_SPAN_LIT("a"), HX_SPAN_LIT("")}};
    struct merge_kit kit;
    struct hx_list before, after;

    (void)state;
    merge_kit_init(&kit, true, two, NULL);
    hx_merge_free(kit.merge);
    hx_list_init(&before);
    hx_list_init(&after);
    kit.outer.inbox = &before;
    struct hx_peer_event *event = client_event(&kit, HX_PEER_MESSAGE, CALL("7", "x"));
    hx_list_append(&before, &event->node);
    options.leg_inbox = &kit.leg_inbox;
    options.outer_inbox = &after;
    options.rand = &kit.rand;
    kit.merge = hx_merge_new(&options, &kit.outer, legs, 1);
    kit.leg_count = 1;
    assert_true(hx_list_is_empty(&before));
    assert_true(hx_merge_take(&after));
    assert_false(hx_merge_take(&after));
    run(&kit, "one server without a prefix", "");
    merge_kit_collect(&kit);
    run(&kit, "one server without a prefix", "0 < " CALL("7", "x"));
    assert_ptr_equal(hx_merge_of_leg(hx_merge_leg(kit.merge, 0)), kit.merge);
    assert_null(hx_merge_of_leg(&kit.outer));
    assert_ptr_equal(hx_merge_outer(kit.merge), &kit.outer);
    merge_kit_fini(&kit);
}

#define HELLO                                                                                      \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"     \
    "\"2025-06-18\"}}"
#define INITIALIZED "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"
#define WELCOME                                                                                    \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2025-06-18\","                \
    "\"capabilities\":{\"tools\":{},\"logging\":{}}}}"

/* A client that goes on with a session of an earlier process does not shake hands again. */
static void test_a_session_goes_on(void **state)
{
    struct merge_kit kit;

    (void)state;
    merge_kit_init(&kit, true, two, NULL);
    hx_merge_resume(kit.merge, HX_SPAN_LIT("2025-03-26"));
    run(&kit, "resumed",
        "c 3 [" CALL("7", "web_x") "]\n1 < " CALL("7", "x") "\n1 > " DONE("7") "\nk 3 [" DONE(
            "7") "]\nc 4 " LIST "\n0 < {~,\"id\":@1,\"method\":\"tools/list\",\"params\":{}}\n"
                 "1 < {~,\"id\":@2,\"method\":\"tools/list\",\"params\":{}}\n"
                 "0 > {~,\"id\":@1,\"error\":{\"code\":-32601,\"message\":\"no\"}}\n"
                 "1 > {~,\"id\":@2,\"error\":{\"code\":1502,\"message\":\"no\"}}\n"
                 "k 4 "
                 "{~,\"id\":5,\"result\":{\"tools\":[],\"_meta\":{\"dev.hapax/"
                 "leftOut\":[\"web\"]}}}");
    merge_kit_fini(&kit);
}

static void test_a_stream_is_taken_up(void **state)
{
    struct merge_kit kit;
    struct merge_kit_word *word;

    (void)state;
    begin(&kit, true, NULL, "2025-06-18");
    merge_kit_client(&kit, HX_PEER_RESUME, 8, 0, "stream-x");
    uint64_t exchange = open_exchange(&kit, 1);
    assert_true(exchange != 0 && open_exchange(&kit, 0) != 0);
    merge_kit_answer(&kit, 1, exchange, HX_SENDING_ANSWER, DONE("7"));
    word = merge_kit_take(&kit.said);
    assert_int_equal(word->exchange, 8);
    assert_string_equal(word->text, DONE("7"));
    merge_kit_word_free(word);
    assert_int_equal(open_exchange(&kit, 0), 0); /* it was told that nobody waits */
    drop_words(&kit.legs[1].open);

    merge_kit_client(&kit, HX_PEER_RESUME, 9, 0, "stream-y");
    for (size_t i = 0; i < 2; i++) {
        struct hx_downstream *leg = hx_merge_leg(kit.merge, i);
        assert_null(merge_kit_take(&kit.said));
        leg->ops->settle(leg, open_exchange(&kit, i), HX_SETTLING_NO_STREAM);
    }
    word = merge_kit_take(&kit.said);
    assert_int_equal(word->kind, MERGE_KIT_SETTLED);
    assert_int_equal(word->exchange, 9);
    merge_kit_word_free(word);
    drop_all(&kit);
    merge_kit_fini(&kit);
}

/* --- servers that take their time --- */

static struct hx_mono test_now(void *arg)
{
    return *(struct hx_mono *)arg;
}

static void test_a_slow_server_comes_later(void **state)
{
    struct hx_mono now = {.ms = 1000};
    struct hx_loop *loop = hx_loop_new(&(struct hx_loop_clock){.now = test_now, .arg = &now});
    struct hx_merge_options options = hx_merge_defaults();
    struct merge_kit kit;
    struct merge_kit_word *word;

    (void)state;
    assert_non_null(loop);
    options.loop = loop;
    options.start_wait_ms = 500;
    merge_kit_init(&kit, true, two, &options);
    run(&kit, "begun", "c 1 " HELLO "\n0 < " HELLO "\n1 < " HELLO "\n0 > " WELCOME);
    now.ms += 499;
    assert_int_equal(hx_loop_run_once(loop, 0), 0);
    assert_null(merge_kit_take(&kit.said));
    now.ms += 1;
    assert_int_equal(hx_loop_run_once(loop, 0), 0);
    word = merge_kit_take(&kit.said);
    assert_non_null(word);
    assert_non_null(strstr(word->text, "Server \\\"web\\\"\\nIt is not available now"));
    merge_kit_word_free(word);
    run(&kit, "late",
        "c 2 " INITIALIZED "\n0 < " INITIALIZED "\nk done 2\n"
        "c 3 {\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"logging/setLevel\"}\n"
        "0 < {\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"logging/setLevel\"}\n0 > " DONE(
            "4") "\nk 3 " DONE("4") "\n1 > " WELCOME "\n1 < " INITIALIZED "\n1 < "
                                    "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"logging/"
                                    "setLevel\"}\n"
                                    "k "
                                    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/"
                                    "list_changed\"}\n1 > " DONE("4") "\nc 5 " CALL(
                                        "7", "web_x") "\n1 < " CALL("7", "x"));
    merge_kit_fini(&kit);
    hx_loop_free(loop);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stories),
        cmocka_unit_test(test_fates_find_back),
        cmocka_unit_test(test_what_goes_nowhere_is_not_sent),
        cmocka_unit_test(test_what_is_used_here_is_written),
        cmocka_unit_test(test_an_array_has_one_fate),
        cmocka_unit_test(test_an_array_that_nobody_waits_for),
        cmocka_unit_test(test_looks_at_the_client),
        cmocka_unit_test(test_pipes_have_no_exchanges),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_the_key_header_travels),
        cmocka_unit_test(test_oversize),
        cmocka_unit_test(test_lists_are_bounded),
        cmocka_unit_test(test_requests_are_bounded),
        cmocka_unit_test(test_what_was_not_sent_is_said_in_our_word),
        cmocka_unit_test(test_who_could_not_be_told_is_no_success),
        cmocka_unit_test(test_an_array_without_memory),
        cmocka_unit_test(test_who_is_left_out_is_told),
        cmocka_unit_test(test_holds_while_any_leg_holds),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_takes_over_what_waits),
        cmocka_unit_test(test_a_session_goes_on),
        cmocka_unit_test(test_a_stream_is_taken_up),
        cmocka_unit_test(test_a_slow_server_comes_later),
    };
    if (argc != 2 || !story_book_read(&book, argv[1])) {
        fprintf(stderr, "usage: test_merge FILE.stories\n");
        return 2;
    }
    int failed = cmocka_run_group_tests_name("merge", tests, NULL, NULL);
    story_book_free(&book);
    return failed;
}
