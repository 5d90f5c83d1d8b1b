/* SPDX-License-Identifier: MIT */
/*
 * What became of an answer: over pipes and over socket pairs, as the different clients make them.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/stdio_front/stdio_front.h"
#include "process_kit.h"

enum way { PIPES, SOCKETS, ONE_SOCKET };

struct fixture {
    struct process_kit kit;
    struct hx_downstream *down;
    int to_us;   /* the client's ends; -1 = closed */
    int from_us; /* may be the same as to_us */
    int life;
};

static void make_pair(enum way way, int *ret_reader, int *ret_writer)
{
    int ends[2];

    if (way == PIPES)
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    else
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    *ret_reader = ends[0];
    *ret_writer = ends[1];
}

static void fixture_init(struct fixture *fixture, enum way way)
{
    struct hx_stdio_front_options options = hx_stdio_front_defaults();

    process_kit_init(&fixture->kit);
    make_pair(way, &options.in_fd, &fixture->to_us);
    if (way == ONE_SOCKET) {
        fixture->from_us = fixture->to_us;
        options.out_fd = fcntl(options.in_fd, F_DUPFD_CLOEXEC, 0);
    } else {
        make_pair(way, &fixture->from_us, &options.out_fd);
    }
    make_pair(PIPES, &options.life_fd, &fixture->life);
    options.message_max_bytes = 1 << 20;
    fixture->down = hx_stdio_front_new(fixture->kit.loop, &fixture->kit.inbox, &options);
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        assert_int_equal(close(*fd), 0);
    *fd = -1;
}

static void fixture_fini(struct fixture *fixture)
{
    fixture->down = hx_stdio_front_free(fixture->down);
    if (fixture->from_us == fixture->to_us)
        fixture->from_us = -1;
    close_fd(&fixture->to_us);
    close_fd(&fixture->from_us);
    close_fd(&fixture->life);
    process_kit_fini(&fixture->kit);
}

static void client_says(const struct fixture *fixture, const char *bytes)
{
    assert_int_equal(write(fixture->to_us, bytes, strlen(bytes)), strlen(bytes));
}

static void client_reads(const struct fixture *fixture, size_t len)
{
    char bytes[1 << 16];

    while (len > 0) {
        ssize_t got = read(fixture->from_us, bytes, len < sizeof bytes ? len : sizeof bytes);
        assert_true(got > 0);
        len -= (size_t)got;
    }
}

/* The client stops reading: for good, as when it is killed. */
static void client_leaves(struct fixture *fixture)
{
    if (fixture->from_us == fixture->to_us)
        fixture->to_us = -1;
    close_fd(&fixture->from_us);
}

static void answer(struct fixture *fixture, size_t len, uint64_t tag)
{
    struct hx_buf line = process_kit_filled_line(len);

    fixture->down->ops->send(fixture->down, &line, &(struct hx_sending){.tag = tag});
    hx_buf_fini(&line);
}

static void expect_tag(struct fixture *fixture, enum hx_peer_event_type type, uint64_t tag)
{
    process_kit_expect_tag(&fixture->kit, type, tag);
}

static void expect_none(const struct fixture *fixture, enum hx_peer_event_type type)
{
    assert_false(process_kit_has(&fixture->kit, type));
}

static void for_each_way(void (*test)(enum way way))
{
    test(PIPES);
    test(SOCKETS);
    test(ONE_SOCKET);
}

static void requests_and_answers(enum way way)
{
    struct fixture fixture;

    fixture_init(&fixture, way);
    client_says(&fixture, "one\ntw");
    process_kit_expect_line(&fixture.kit, HX_PEER_MESSAGE, "one");
    client_says(&fixture, "o\nlast");
    process_kit_expect_line(&fixture.kit, HX_PEER_MESSAGE, "two");
    answer(&fixture, 99, 1);
    expect_tag(&fixture, HX_PEER_WRITTEN, 1);
    client_reads(&fixture, 100);
    assert_true(fixture.down->ops->is_reader_alive(fixture.down, 0));
    if (way == PIPES)
        close_fd(&fixture.to_us);
    else
        assert_int_equal(shutdown(fixture.to_us, SHUT_WR), 0);
    process_kit_expect_line(&fixture.kit, HX_PEER_MESSAGE, "last");
    hx_peer_event_free(process_kit_take(&fixture.kit, HX_PEER_END_OF_INPUT));
    /* The end of the requests is not the end of the reader. */
    assert_true(fixture.down->ops->is_reader_alive(fixture.down, 0));
    answer(&fixture, 9, 2);
    expect_tag(&fixture, HX_PEER_WRITTEN, 2);
    client_reads(&fixture, 10);
    expect_none(&fixture, HX_PEER_READER_GONE);
    fixture_fini(&fixture);
}

static void test_requests_and_answers(void **state)
{
    (void)state;
    for_each_way(requests_and_answers);
}

static void reader_leaves_in_silence(enum way way)
{
    struct fixture fixture;
    struct hx_mono before;

    fixture_init(&fixture, way);
    client_leaves(&fixture);
    assert_false(fixture.down->ops->is_reader_alive(fixture.down, 0));
    hx_peer_event_free(process_kit_take(&fixture.kit, HX_PEER_READER_GONE));
    answer(&fixture, 10, 1);
    expect_tag(&fixture, HX_PEER_NOT_SENT, 1);
    if (way == ONE_SOCKET)
        hx_peer_event_free(process_kit_take(&fixture.kit, HX_PEER_END_OF_INPUT));
    /* And then there is nothing to do. */
    before = hx_loop_now(fixture.kit.loop);
    assert_int_equal(hx_loop_run_once(fixture.kit.loop, 20), 0);
    assert_true(hx_mono_since_ms(hx_loop_now(fixture.kit.loop), before) >= 20);
    fixture_fini(&fixture);
}

static void test_a_reader_that_leaves_is_noticed_with_nothing_to_write(void **state)
{
    (void)state;
    for_each_way(reader_leaves_in_silence);
}

static void everything_was_read(enum way way)
{
    struct fixture fixture;

    fixture_init(&fixture, way);
    answer(&fixture, 100, 1);
    answer(&fixture, 200, 2);
    client_reads(&fixture, 302);
    client_leaves(&fixture);
    hx_peer_event_free(process_kit_take(&fixture.kit, HX_PEER_READER_GONE));
    expect_none(&fixture, HX_PEER_TAKEN_BACK);
    fixture_fini(&fixture);
}

static void test_what_was_read_is_not_taken_back(void **state)
{
    (void)state;
    for_each_way(everything_was_read);
}

static void nothing_was_read(enum way way)
{
    struct fixture fixture;

    fixture_init(&fixture, way);
    answer(&fixture, 100, 1);
    answer(&fixture, 200, 2);
    expect_tag(&fixture, HX_PEER_WRITTEN, 1);
    expect_tag(&fixture, HX_PEER_WRITTEN, 2);
    client_leaves(&fixture);
    expect_tag(&fixture, HX_PEER_TAKEN_BACK, 1);
    expect_tag(&fixture, HX_PEER_TAKEN_BACK, 2);
    hx_peer_event_free(process_kit_take(&fixture.kit, HX_PEER_READER_GONE));
    fixture_fini(&fixture);
}

static void test_what_was_not_read_is_taken_back(void **state)
{
    (void)state;
    for_each_way(nothing_was_read);
}

/* As when a script that became us has said something, or says more behind our back. */
static void test_words_of_others_in_the_pipe_are_no_proof(void **state)
{
    struct fixture fixture;
    char path[32];
    char words[1000] = {0};
    int other_fd;

    (void)state;
    fixture_init(&fixture, PIPES);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fixture.from_us);
    other_fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(write(other_fd, words, sizeof words), sizeof words);
    answer(&fixture, 100, 1);
    expect_tag(&fixture, HX_PEER_WRITTEN, 1);
    close_fd(&other_fd);
    client_leaves(&fixture);
    expect_tag(&fixture, HX_PEER_TAKEN_BACK, 1);
    hx_peer_event_free(process_kit_take(&fixture.kit, HX_PEER_READER_GONE));
    fixture_fini(&fixture);
}

static void nothing_was_read_when_it_is_closed(enum way way)
{
    struct fixture fixture;

    fixture_init(&fixture, way);
    answer(&fixture, 100, 1);
    expect_tag(&fixture, HX_PEER_WRITTEN, 1);
    fixture.down->ops->close(fixture.down);
    expect_tag(&fixture, HX_PEER_TAKEN_BACK, 1);
    fixture_fini(&fixture);
}

/* Its reader lives, and may throw the pipe away without having read it. */
static void test_what_is_unread_when_it_is_closed_is_taken_back(void **state)
{
    (void)state;
    for_each_way(nothing_was_read_when_it_is_closed);
}

static void a_silent_client_is_waited_for(enum way way)
{
    struct fixture fixture;

    fixture_init(&fixture, way);
    answer(&fixture, 100, 1);
    if (way == ONE_SOCKET)
        assert_int_equal(shutdown(fixture.to_us, SHUT_WR), 0);
    else
        close_fd(&fixture.to_us);
    hx_peer_event_free(process_kit_take(&fixture.kit, HX_PEER_END_OF_INPUT));
    assert_true(fixture.down->ops->queued_bytes(fixture.down) > 0);
    client_reads(&fixture, 101);
    while (fixture.down->ops->queued_bytes(fixture.down) > 0)
        assert_true(hx_loop_run_once(fixture.kit.loop, 10) >= 0);
    expect_none(&fixture, HX_PEER_TAKEN_BACK);
    answer(&fixture, 100, 2);
    assert_true(fixture.down->ops->queued_bytes(fixture.down) > 0);
    expect_tag(&fixture, HX_PEER_TAKEN_BACK, 2);
    assert_int_equal(fixture.down->ops->queued_bytes(fixture.down), 0);
    fixture_fini(&fixture);
}

/* Who has said everything may still read, or may not: he is given a second, and then it is told. */
static void test_a_silent_client_is_waited_for(void **state)
{
    (void)state;
    for_each_way(a_silent_client_is_waited_for);
}

static void test_half_a_message_read_is_not_read(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_init(&fixture, PIPES);
    answer(&fixture, 99, 1);
    answer(&fixture, 99, 2);
    answer(&fixture, 99, 3);
    client_reads(&fixture, 199); /* all but the newline of the second */
    client_leaves(&fixture);
    expect_tag(&fixture, HX_PEER_TAKEN_BACK, 2);
    expect_tag(&fixture, HX_PEER_TAKEN_BACK, 3);
    hx_peer_event_free(process_kit_take(&fixture.kit, HX_PEER_READER_GONE));
    expect_none(&fixture, HX_PEER_TAKEN_BACK);
    fixture_fini(&fixture);
}

struct quiet {
    struct hx_loop *loop;
    struct hx_mono until;
};

static bool is_time_over(void *arg)
{
    const struct quiet *quiet = arg;

    return hx_mono_reached(hx_loop_now(quiet->loop), quiet->until);
}

static void early_read_late_unread(enum way way)
{
    struct fixture fixture;
    struct quiet quiet;

    fixture_init(&fixture, way);
    answer(&fixture, 100, 1);
    client_reads(&fixture, 101);
    /* Time for one look at the queue of a socket. */
    quiet = (struct quiet){fixture.kit.loop, hx_mono_after(hx_loop_now(fixture.kit.loop), 20)};
    process_kit_until(&fixture.kit, is_time_over, &quiet, "20 ms");
    answer(&fixture, 100, 2);
    client_leaves(&fixture);
    expect_tag(&fixture, HX_PEER_TAKEN_BACK, 2);
    hx_peer_event_free(process_kit_take(&fixture.kit, HX_PEER_READER_GONE));
    expect_none(&fixture, HX_PEER_TAKEN_BACK);
    fixture_fini(&fixture);
}

static void test_only_the_late_answer_is_taken_back(void **state)
{
    (void)state;
    for_each_way(early_read_late_unread);
}

static void reader_leaves_midway(enum way way)
{
    struct fixture fixture;

    fixture_init(&fixture, way);
    answer(&fixture, 10, 1);
    answer(&fixture, 1 << 20, 2);
    answer(&fixture, 10, 3);
    expect_tag(&fixture, HX_PEER_WRITTEN, 1);
    assert_true(fixture.down->ops->queued_bytes(fixture.down) > 11);
    client_leaves(&fixture);
    expect_tag(&fixture, HX_PEER_CUT, 2);
    expect_tag(&fixture, HX_PEER_NOT_SENT, 3);
    expect_tag(&fixture, HX_PEER_TAKEN_BACK, 1);
    hx_peer_event_free(process_kit_take(&fixture.kit, HX_PEER_READER_GONE));
    assert_int_equal(fixture.down->ops->queued_bytes(fixture.down), 0);
    fixture_fini(&fixture);
}

static void test_a_reader_that_leaves_midway_cuts_the_message(void **state)
{
    (void)state;
    for_each_way(reader_leaves_midway);
}

static bool has_all_written(struct fixture *fixture)
{
    char bytes[30000];

    /* A slow reader: a little at each turn. */
    if (fixture->down->ops->queued_bytes(fixture->down) == 0)
        return true;
    return read(fixture->from_us, bytes, sizeof bytes) <= 0;
}

static void slow_reader(enum way way)
{
    struct fixture fixture;

    fixture_init(&fixture, way);
    answer(&fixture, 1 << 20, 1);
    answer(&fixture, 300000, 2);
    for (unsigned turns = 0; !has_all_written(&fixture); turns++) {
        assert_true(turns < 10000);
        assert_int_equal(hx_loop_run_once(fixture.kit.loop, 0), 0);
    }
    expect_tag(&fixture, HX_PEER_WRITTEN, 1);
    expect_tag(&fixture, HX_PEER_WRITTEN, 2);
    expect_none(&fixture, HX_PEER_READER_GONE);
    fixture_fini(&fixture);
}

static void test_a_slow_reader_gets_everything(void **state)
{
    (void)state;
    for_each_way(slow_reader);
}

static void test_a_dead_front_is_no_reader(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_init(&fixture, PIPES);
    assert_true(fixture.down->ops->is_reader_alive(fixture.down, 0));
    close_fd(&fixture.life);
    /* Asked at this moment, before any event was seen. */
    assert_false(fixture.down->ops->is_reader_alive(fixture.down, 0));
    hx_peer_event_free(process_kit_take(&fixture.kit, HX_PEER_FRONT_GONE));
    assert_false(fixture.down->ops->is_reader_alive(fixture.down, 0));
    fixture_fini(&fixture);
}

static void close_shows(enum way way)
{
    struct fixture fixture;
    char byte;

    fixture_init(&fixture, way);
    fixture.down->ops->close(fixture.down);
    assert_int_equal(read(fixture.from_us, &byte, 1), 0);
    answer(&fixture, 10, 1);
    expect_tag(&fixture, HX_PEER_NOT_SENT, 1);
    fixture_fini(&fixture);
}

static void test_close_shows_the_client_the_end(void **state)
{
    (void)state;
    for_each_way(close_shows);
}

static void test_nothing_is_read_while_held(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_init(&fixture, PIPES);
    fixture.down->ops->hold(fixture.down, true);
    client_says(&fixture, "one\n");
    assert_int_equal(hx_loop_run_once(fixture.kit.loop, 20), 0);
    expect_none(&fixture, HX_PEER_MESSAGE);
    fixture.down->ops->hold(fixture.down, false);
    process_kit_expect_line(&fixture.kit, HX_PEER_MESSAGE, "one");
    fixture_fini(&fixture);
}

static void test_requests_may_come_from_a_file_and_answers_go_to_one(void **state)
{
    struct hx_stdio_front_options options = hx_stdio_front_defaults();
    struct fixture fixture = {.to_us = -1, .from_us = -2, .life = -1};
    char path[128];

    (void)state;
    process_kit_init(&fixture.kit);
    (void)snprintf(path, sizeof path, "%s/requests", fixture.kit.dir);
    options.in_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(options.in_fd, "one\ntwo", 7), 7);
    assert_int_equal(lseek(options.in_fd, 0, SEEK_SET), 0);
    (void)snprintf(path, sizeof path, "%s/answers", fixture.kit.dir);
    options.out_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    fixture.down = hx_stdio_front_new(fixture.kit.loop, &fixture.kit.inbox, &options);
    process_kit_expect_line(&fixture.kit, HX_PEER_MESSAGE, "one");
    process_kit_expect_line(&fixture.kit, HX_PEER_MESSAGE, "two");
    hx_peer_event_free(process_kit_take(&fixture.kit, HX_PEER_END_OF_INPUT));
    answer(&fixture, 5, 1);
    expect_tag(&fixture, HX_PEER_WRITTEN, 1);
    assert_int_equal(lseek(options.out_fd, 0, SEEK_CUR), 6);
    /* Nothing to do must mean rest, not a spin. */
    struct hx_mono before = hx_loop_now(fixture.kit.loop);
    assert_int_equal(hx_loop_run_once(fixture.kit.loop, 20), 0);
    assert_true(hx_mono_since_ms(hx_loop_now(fixture.kit.loop), before) >= 20);
    fixture.from_us = -1;
    fixture_fini(&fixture);
}

static void test_the_clients_own_end_keeps_blocking(void **state)
{
    struct hx_stdio_front_options options = hx_stdio_front_defaults();
    struct fixture fixture = {.life = -1};
    int shared;

    (void)state;
    process_kit_init(&fixture.kit);
    make_pair(PIPES, &options.in_fd, &fixture.to_us);
    make_pair(PIPES, &fixture.from_us, &options.out_fd);
    shared = fcntl(options.out_fd, F_DUPFD_CLOEXEC, 0); /* as a shell would hold it */
    fixture.down = hx_stdio_front_new(fixture.kit.loop, &fixture.kit.inbox, &options);
    assert_int_equal(fcntl(shared, F_GETFL) & O_NONBLOCK, 0);
    close_fd(&shared);
    fixture_fini(&fixture);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_and_answers),
        cmocka_unit_test(test_a_reader_that_leaves_is_noticed_with_nothing_to_write),
        cmocka_unit_test(test_what_was_read_is_not_taken_back),
        cmocka_unit_test(test_what_was_not_read_is_taken_back),
        cmocka_unit_test(test_words_of_others_in_the_pipe_are_no_proof),
        cmocka_unit_test(test_what_is_unread_when_it_is_closed_is_taken_back),
        cmocka_unit_test(test_a_silent_client_is_waited_for),
        cmocka_unit_test(test_half_a_message_read_is_not_read),
        cmocka_unit_test(test_only_the_late_answer_is_taken_back),
        cmocka_unit_test(test_a_reader_that_leaves_midway_cuts_the_message),
        cmocka_unit_test(test_a_slow_reader_gets_everything),
        cmocka_unit_test(test_a_dead_front_is_no_reader),
        cmocka_unit_test(test_close_shows_the_client_the_end),
        cmocka_unit_test(test_nothing_is_read_while_held),
        cmocka_unit_test(test_requests_may_come_from_a_file_and_answers_go_to_one),
        cmocka_unit_test(test_the_clients_own_end_keeps_blocking),
    };

    return cmocka_run_group_tests_name("stdio_front", tests, NULL, NULL);
}
