/* SPDX-License-Identifier: MIT */
/*
 * What is said of a message to a server over HTTP, while each system call of ours fails once. The
 * server counts what it executes.
 *
 * The lies that must not be: "not sent" or "rejected" of a call that was executed, and a call that
 * was executed twice.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http_fixture.h"
#include "nth.h"
#include "sanitized.h"

enum {
    FAILURES_MAX = 3000,
    CALLS_OF_A_LIFE =
        3, /* over a new connection, over a used one, and one that needs many writes */
    PAD = 300000,
    WAIT_MS = 5000
};

struct told {
    char failed[64];
    char end; /* of the call: answered, lost, rejected, not sent; ? = not yet */
    unsigned fates;
};

static size_t count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    size_t count = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL)
        count++;
    (void)closedir(dir);
    return count;
}

static void take_events(struct http_fixture *fixture, struct told *told, unsigned first_id,
                        bool *ret_is_started, bool *ret_is_closed)
{
    struct hx_list *node;

    while ((node = hx_list_take_first(&fixture->kit.inbox)) != NULL) {
        struct hx_peer_event *event = hx_container_of(node, struct hx_peer_event, node);
        bool is_call = event->tag >= first_id && event->tag < first_id + CALLS_OF_A_LIFE;
        struct told unused = {0}, *at = is_call ? &told[event->tag] : &unused;
        *ret_is_started |= event->type == HX_PEER_STARTED;
        *ret_is_closed |= event->type == HX_PEER_CLOSED;
        at->fates += event->type == HX_PEER_WRITTEN || event->type == HX_PEER_NOT_SENT ||
                     event->type == HX_PEER_CUT;
        if (event->type == HX_PEER_MESSAGE && event->is_answer)
            at->end = 'a';
        else if (event->type == HX_PEER_ANSWER_LOST)
            at->end = 'l';
        else if (event->type == HX_PEER_REJECTED)
            at->end = 'r';
        else if (event->type == HX_PEER_NOT_SENT)
            at->end = 'n';
        hx_peer_event_free(event);
    }
}

static void send_call(struct http_fixture *fixture, unsigned id, size_t pad)
{
    struct hx_buf text;

    hx_buf_init(&text, PAD + 1000);
    assert_int_equal(hx_buf_printf(&text,
                                   "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/call\","
                                   "\"params\":{\"name\":\"t\",\"arguments\":{\"pad\":\"",
                                   id),
                     0);
    for (size_t i = 0; i < pad; i++)
        assert_int_equal(hx_buf_append_char(&text, 'p'), 0);
    assert_int_equal(hx_buf_append_cstr(&text, "\"}}}"), 0);
    fixture->up->ops->send(fixture->up, &text, id);
    hx_buf_fini(&text);
}

/* The life of one client with the `number`-th call failing. */
static bool live_with(struct http_fixture *fixture, unsigned long number, struct told *told)
{
    unsigned first_id = (unsigned)(number - 1) * CALLS_OF_A_LIFE + 1;
    bool is_started = false, is_closed = false;
    size_t fds = count_fds();

    nth_arm(number);
    if (hx_http_client_new(fixture->kit.loop, &fixture->kit.inbox, &fixture->options,
                           &fixture->up) != 0) {
        nth_disarm();
        return true; /* there is no client, so nothing is sent */
    }
    fixture->up->ops->start(fixture->up, 1);
    for (unsigned id = first_id; id < first_id + CALLS_OF_A_LIFE; id++) {
        struct hx_mono limit = hx_mono_after(hx_loop_now(fixture->kit.loop), WAIT_MS);
        told[id].end = '?';
        send_call(fixture, id, id == first_id + 2 ? PAD : 1);
        while (told[id].end == '?') {
            if (hx_mono_reached(hx_loop_now(fixture->kit.loop), limit))
                fail_msg("call %lu (%s): message %u has no end", number, nth_fired(), id);
            (void)!hx_loop_run_once(fixture->kit.loop, 20); /* its failure is one of those tried */
            take_events(fixture, told, first_id, &is_started, &is_closed);
        }
        (void)snprintf(told[id].failed, sizeof told[id].failed, "%s", nth_fired());
    }
    fixture->up->ops->stop(fixture->up);
    struct hx_mono limit = hx_mono_after(hx_loop_now(fixture->kit.loop), WAIT_MS);
    while (!is_closed) {
        if (hx_mono_reached(hx_loop_now(fixture->kit.loop), limit))
            fail_msg("call %lu (%s): not closed", number, nth_fired());
        (void)!hx_loop_run_once(fixture->kit.loop, 20);
        take_events(fixture, told, first_id, &is_started, &is_closed);
    }
    nth_disarm();
    fixture->up = hx_http_client_free(fixture->up);
    if (count_fds() != fds)
        fail_msg("call %lu (%s): %zu descriptors are left of %zu", number, nth_fired(), count_fds(),
                 fds);
    return nth_fired()[0] != '\0';
}

static void test_whatever_fails_nothing_executed_is_not_sent(void **state)
{
    struct told *told;
    struct http_fixture fixture;
    unsigned long number = 1;
    unsigned ends[256] = {0};

    (void)state;
    if (KIT_HAS_ASAN)
        skip(); /* its own calls are in the way of ours */
    told = calloc(FAILURES_MAX * CALLS_OF_A_LIFE + 2, sizeof *told);
    assert_non_null(told);
    http_fixture_init_script(&fixture, "{}");
    while (live_with(&fixture, number, told)) {
        number++;
        assert_true(number < FAILURES_MAX);
    }
    http_fixture_end_server(&fixture);
    for (unsigned id = 1; id <= number * CALLS_OF_A_LIFE; id++) {
        const struct told *call = &told[id];
        size_t effects = http_kit_effects(&fixture.kit, id);
        bool is_done_never = call->end == '\0' || call->end == 'n' || call->end == 'r';
        ends[(unsigned char)call->end]++;
        if (effects > 1 || (is_done_never && effects != 0) || (call->end == 'a' && effects != 1))
            fail_msg("%s: call %u ended as %c, and was executed %zu times", call->failed, id,
                     call->end, effects);
        if (call->end != '\0' && call->fates != 1)
            fail_msg("%s: call %u has %u fates", call->failed, id, call->fates);
    }
    print_message("%lu failures: %u answered, %u lost, %u not sent\n", number - 1, ends['a'],
                  ends['l'], ends['n']);
    /* Both must have been there, or this shows little. */
    assert_true(ends['a'] > 0 && ends['l'] > 0);
    free(told);
    http_fixture_fini(&fixture);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whatever_fails_nothing_executed_is_not_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
