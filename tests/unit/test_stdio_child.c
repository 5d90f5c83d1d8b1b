/* SPDX-License-Identifier: MIT */
/*
 * Child processes that behave and that do not. The program is its own reaper.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/stdio_child/stdio_child.h"
#include "adapter/stdio_child/transport.h"
#include "app/reaper.h"
#include "base/alloc.h"
#include "process_kit.h"

struct fixture {
    struct process_kit kit;
    struct hx_stdio_child_options options;
    const char *argv[8];
    struct hx_upstream *up;
};

static void fixture_init(struct fixture *fixture, const char *way, const char *argument)
{
    process_kit_init(&fixture->kit);
    fixture->options = hx_stdio_child_defaults();
    fixture->argv[0] = getenv("HX_STUB_CHILD");
    fixture->argv[1] = way;
    fixture->argv[2] = argument;
    fixture->argv[3] = NULL;
    fixture->options.argv = (char *const *)(uintptr_t)fixture->argv;
    fixture->options.transport_dir = fixture->kit.dir;
    fixture->options.term_grace_ms = 100;
    fixture->options.kill_grace_ms = 200;
    fixture->up = NULL;
}

static void fixture_start(struct fixture *fixture)
{
    fixture->up = hx_stdio_child_new(fixture->kit.loop, &fixture->kit.inbox, &fixture->options);
    fixture->up->ops->start(fixture->up, 1);
    hx_peer_event_free(process_kit_take(&fixture->kit, HX_PEER_STARTED));
}

static void fixture_fini(struct fixture *fixture)
{
    fixture->up = hx_stdio_child_free(fixture->up);
    process_kit_fini(&fixture->kit);
}

static void send_text(struct fixture *fixture, const char *text, uint64_t tag)
{
    struct hx_buf line = process_kit_line(text);

    fixture->up->ops->send(fixture->up, &line, tag);
    hx_buf_fini(&line);
}

static void send_filled(struct fixture *fixture, size_t len, uint64_t tag)
{
    struct hx_buf line = process_kit_filled_line(len);

    fixture->up->ops->send(fixture->up, &line, tag);
    hx_buf_fini(&line);
}

/* Stops it and returns the status that CLOSED tells. */
static int take_closed(struct fixture *fixture)
{
    struct hx_peer_event *event = process_kit_take(&fixture->kit, HX_PEER_CLOSED);
    int status = event->status;

    assert_int_equal(event->generation, 1);
    hx_peer_event_free(event);
    return status;
}

static int stop(struct fixture *fixture)
{
    fixture->up->ops->stop(fixture->up);
    return take_closed(fixture);
}

static int64_t now_ms(const struct fixture *fixture)
{
    return hx_loop_now(fixture->kit.loop).ms;
}

/* As another keeper would read it from the transport's file. */
static pid_t leader_pid(const struct fixture *fixture)
{
    char path[256];
    long pid = 0;
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", fixture->kit.dir,
                   fixture->up->ops->transport_name(fixture->up));
    file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld", &pid), 1);
    (void)fclose(file);
    return (pid_t)pid;
}

static void test_lines_go_there_and_back(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_init(&fixture, "echo", NULL);
    fixture_start(&fixture);
    send_text(&fixture, "one", 1);
    process_kit_expect_tag(&fixture.kit, HX_PEER_FIRST_BYTE, 1);
    process_kit_expect_tag(&fixture.kit, HX_PEER_WRITTEN, 1);
    process_kit_expect_line(&fixture.kit, HX_PEER_MESSAGE, "one");
    send_text(&fixture, "two", 2);
    process_kit_expect_line(&fixture.kit, HX_PEER_MESSAGE, "two");
    assert_int_equal(stop(&fixture), 0);
    fixture_fini(&fixture);
}

static void test_it_starts_again_under_another_name(void **state)
{
    struct fixture fixture;
    char first[HX_TRANSPORT_NAME_SIZE];

    (void)state;
    fixture_init(&fixture, "echo", NULL);
    fixture_start(&fixture);
    (void)snprintf(first, sizeof first, "%s", fixture.up->ops->transport_name(fixture.up));
    assert_int_equal(hx_transport_probe(fixture.kit.dir, first), HX_TRANSPORT_ALIVE);
    assert_int_equal(stop(&fixture), 0);
    assert_int_equal(hx_transport_probe(fixture.kit.dir, first), HX_TRANSPORT_GONE);
    fixture.up->ops->start(fixture.up, 1);
    hx_peer_event_free(process_kit_take(&fixture.kit, HX_PEER_STARTED));
    assert_string_not_equal(first, fixture.up->ops->transport_name(fixture.up));
    assert_int_equal(stop(&fixture), 0);
    fixture_fini(&fixture);
}

static void test_what_cannot_be_started_says_why(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_init(&fixture, "echo", NULL);
    fixture.argv[0] = "/nonexistent/program";
    fixture.up = hx_stdio_child_new(fixture.kit.loop, &fixture.kit.inbox, &fixture.options);
    fixture.up->ops->start(fixture.up, 1);
    send_text(&fixture, "early", 9);
    process_kit_expect_tag(&fixture.kit, HX_PEER_NOT_SENT, 9);
    assert_int_equal(take_closed(&fixture), -ENOENT);
    assert_false(process_kit_has(&fixture.kit, HX_PEER_STARTED));
    fixture_fini(&fixture);
}

static void test_the_last_words_of_a_dead_child_are_kept(void **state)
{
    struct fixture fixture;
    struct hx_peer_event *event;

    (void)state;
    fixture_init(&fixture, "exit", "7");
    fixture_start(&fixture);
    event = process_kit_take(&fixture.kit, HX_PEER_CLOSED);
    assert_true(WIFEXITED(event->status));
    assert_int_equal(WEXITSTATUS(event->status), 7);
    assert_true(hx_span_eq_cstr(hx_buf_span(&event->stderr_tail), "stub: cannot start\n"));
    hx_peer_event_free(event);
    process_kit_expect_line(&fixture.kit, HX_PEER_STDERR, "stub: cannot start");
    fixture_fini(&fixture);
}

/* The end of the output and the report race to the keeper; the order that it tells must not. */
static void test_started_comes_first_however_short_the_life(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_init(&fixture, "banner", NULL);
    fixture.argv[0] = "sh";
    fixture.argv[1] = "-c";
    fixture.argv[2] = "echo words; exit 3";
    fixture.up = hx_stdio_child_new(fixture.kit.loop, &fixture.kit.inbox, &fixture.options);
    for (unsigned i = 0; i < 30; i++) {
        fixture.up->ops->start(fixture.up, 1);
        assert_int_equal(WEXITSTATUS(take_closed(&fixture)), 3);
        struct hx_peer_event *event =
            hx_container_of(hx_list_first(&fixture.kit.inbox), struct hx_peer_event, node);
        assert_int_equal(event->type, HX_PEER_STARTED);
        hx_peer_event_free(event);
        process_kit_expect_line(&fixture.kit, HX_PEER_MESSAGE, "words");
    }
    fixture_fini(&fixture);
}

static void test_a_killed_child_is_told_at_once(void **state)
{
    struct fixture fixture;
    pid_t pid;
    int64_t before_ms;

    (void)state;
    fixture_init(&fixture, "linger", NULL);
    fixture_start(&fixture);
    send_text(&fixture, "in flight", 1);
    process_kit_expect_line(&fixture.kit, HX_PEER_MESSAGE, "in flight");
    pid = leader_pid(&fixture);
    before_ms = now_ms(&fixture);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(take_closed(&fixture), SIGKILL);
    assert_true(now_ms(&fixture) - before_ms < 5000);
    fixture_fini(&fixture);
}

static void test_a_child_that_ignores_the_end_of_its_input_gets_term(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_init(&fixture, "linger", NULL);
    fixture_start(&fixture);
    assert_int_equal(stop(&fixture), SIGTERM);
    fixture_fini(&fixture);
}

static void test_a_child_that_ignores_term_gets_kill(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_init(&fixture, "stubborn", NULL);
    fixture_start(&fixture);
    send_text(&fixture, "ready", 1); /* then it ignores TERM already */
    process_kit_expect_line(&fixture.kit, HX_PEER_MESSAGE, "ready");
    assert_int_equal(stop(&fixture), SIGKILL);
    fixture_fini(&fixture);
}

static void test_a_grandchild_in_its_own_session_goes_too(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_init(&fixture, "brood", NULL);
    fixture_start(&fixture);
    send_text(&fixture, "one", 1);
    process_kit_expect_line(&fixture.kit, HX_PEER_MESSAGE, "one");
    /* The leader ends by itself; the grandchild keeps its output open and ignores TERM. */
    assert_int_equal(stop(&fixture), 0);
    assert_int_equal(process_kit_count(&fixture.kit), 0);
    fixture_fini(&fixture);
}

static void test_a_shell_between_makes_no_difference(void **state)
{
    struct fixture fixture;
    char command[512];

    (void)state;
    fixture_init(&fixture, "linger", NULL);
    (void)snprintf(command, sizeof command, "%s stubborn; true", fixture.argv[0]);
    fixture.argv[0] = "sh";
    fixture.argv[1] = "-c";
    fixture.argv[2] = command;
    fixture_start(&fixture);
    send_text(&fixture, "through the shell", 1);
    process_kit_expect_line(&fixture.kit, HX_PEER_MESSAGE, "through the shell");
    (void)stop(&fixture);
    assert_int_equal(process_kit_count(&fixture.kit), 0);
    fixture_fini(&fixture);
}

static void test_a_child_may_write_before_it_reads(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_init(&fixture, "banner", NULL);
    fixture_start(&fixture);
    process_kit_expect_line(&fixture.kit, HX_PEER_MESSAGE, "banner");
    send_text(&fixture, "one", 1);
    process_kit_expect_line(&fixture.kit, HX_PEER_MESSAGE, "one");
    assert_int_equal(stop(&fixture), 0);
    fixture_fini(&fixture);
}

static void test_a_child_that_reads_nothing_stalls_once(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_init(&fixture, "deaf", NULL);
    fixture.options.stall_timeout_ms = 50;
    fixture_start(&fixture);
    send_filled(&fixture, 100000, 1);
    send_text(&fixture, "behind it", 2);
    process_kit_expect_tag(&fixture.kit, HX_PEER_FIRST_BYTE, 1);
    process_kit_expect_tag(&fixture.kit, HX_PEER_STALLED, 1);
    fixture.up->ops->kill(fixture.up);
    process_kit_expect_tag(&fixture.kit, HX_PEER_CUT, 1);
    process_kit_expect_tag(&fixture.kit, HX_PEER_NOT_SENT, 2);
    assert_int_equal(take_closed(&fixture), SIGKILL);
    assert_false(process_kit_has(&fixture.kit, HX_PEER_STALLED));
    fixture_fini(&fixture);
}

static void test_a_stall_may_end(void **state)
{
    struct fixture fixture;
    struct hx_peer_event *event;

    (void)state;
    fixture_init(&fixture, "echo", NULL);
    fixture.options.stall_timeout_ms = 50;
    fixture_start(&fixture);
    assert_int_equal(kill(leader_pid(&fixture), SIGSTOP), 0);
    send_filled(&fixture, 100000, 1);
    process_kit_expect_tag(&fixture.kit, HX_PEER_STALLED, 1);
    assert_false(process_kit_has(&fixture.kit, HX_PEER_WRITTEN));
    assert_int_equal(kill(leader_pid(&fixture), SIGCONT), 0);
    process_kit_expect_tag(&fixture.kit, HX_PEER_WRITTEN, 1);
    event = process_kit_take(&fixture.kit, HX_PEER_MESSAGE);
    assert_int_equal(event->line.len, 100000);
    hx_peer_event_free(event);
    assert_int_equal(stop(&fixture), 0);
    fixture_fini(&fixture);
}

static void test_more_than_a_pipe_holds_goes_both_ways(void **state)
{
    enum { SIZE = 3 << 20 };
    struct fixture fixture;
    struct hx_peer_event *event;

    (void)state;
    fixture_init(&fixture, "echo", NULL);
    fixture_start(&fixture);
    for (uint64_t tag = 1; tag <= 3; tag++)
        send_filled(&fixture, SIZE, tag);
    for (uint64_t tag = 1; tag <= 3; tag++) {
        process_kit_expect_tag(&fixture.kit, HX_PEER_FIRST_BYTE, tag);
        process_kit_expect_tag(&fixture.kit, HX_PEER_WRITTEN, tag);
        event = process_kit_take(&fixture.kit, HX_PEER_MESSAGE);
        assert_int_equal(event->line.len, SIZE);
        hx_peer_event_free(event);
    }
    assert_int_equal(stop(&fixture), 0);
    fixture_fini(&fixture);
}

static void end_by_stop(struct hx_upstream *upstream)
{
    upstream->ops->stop(upstream);
}

static void end_by_kill(struct hx_upstream *upstream)
{
    upstream->ops->kill(upstream);
}

static void ended_while_starting(void (*end)(struct hx_upstream *upstream))
{
    struct fixture fixture;

    fixture_init(&fixture, "stubborn", NULL);
    fixture.up = hx_stdio_child_new(fixture.kit.loop, &fixture.kit.inbox, &fixture.options);
    fixture.up->ops->start(fixture.up, 1);
    end(fixture.up);
    (void)take_closed(&fixture);
    fixture_fini(&fixture);
}

static void test_it_may_be_ended_while_it_starts(void **state)
{
    (void)state;
    ended_while_starting(end_by_stop);
    ended_while_starting(end_by_kill);
}

static void test_forgotten_it_ends_all_the_same(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_init(&fixture, "stubborn", NULL);
    fixture_start(&fixture);
    fixture.up = hx_stdio_child_free(fixture.up);
    fixture_fini(&fixture);
}

static void test_the_end_of_its_output_is_the_end(void **state)
{
    struct fixture fixture;
    int64_t before_ms;

    (void)state;
    fixture_init(&fixture, "closes-output", NULL);
    fixture_start(&fixture);
    before_ms = now_ms(&fixture);
    send_text(&fixture, "one", 1);
    process_kit_expect_line(&fixture.kit, HX_PEER_MESSAGE, "one");
    assert_int_equal(take_closed(&fixture), SIGTERM);
    assert_true(now_ms(&fixture) - before_ms < 5000);
    fixture_fini(&fixture);
}

static void test_a_closed_input_leaves_its_answers(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_init(&fixture, "closes-input", NULL);
    fixture_start(&fixture);
    process_kit_expect_line(&fixture.kit, HX_PEER_MESSAGE, "closed");
    send_text(&fixture, "one", 1);
    process_kit_expect_tag(&fixture.kit, HX_PEER_NOT_SENT, 1);
    assert_int_equal(kill(leader_pid(&fixture), SIGUSR1), 0);
    process_kit_expect_line(&fixture.kit, HX_PEER_MESSAGE, "late");
    assert_int_equal(take_closed(&fixture), 0);
    fixture_fini(&fixture);
}

static void test_lines_of_any_size_arrive_whole(void **state)
{
    static const size_t sizes[] = {65535, 65536, 65537, 1 << 20, 5 << 20};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct fixture fixture;
        struct hx_peer_event *event;
        char size[24];

        (void)snprintf(size, sizeof size, "%zu", sizes[i]);
        fixture_init(&fixture, "giant", size);
        fixture_start(&fixture);
        send_text(&fixture, "go", 1);
        event = process_kit_take(&fixture.kit, HX_PEER_MESSAGE);
        assert_int_equal(event->line.len, sizes[i]);
        hx_peer_event_free(event);
        assert_int_equal(stop(&fixture), 0);
        fixture_fini(&fixture);
    }
}

static void test_a_line_over_the_maximum_is_skipped(void **state)
{
    struct fixture fixture;
    struct hx_peer_event *event;
    char text[1200];

    (void)state;
    fixture_init(&fixture, "echo", NULL);
    fixture.options.message_max_bytes = 1000;
    fixture_start(&fixture);
    send_filled(&fixture, 5000, 1);
    event = process_kit_take(&fixture.kit, HX_PEER_OVERSIZE);
    assert_int_equal(event->size, 5000);
    assert_int_equal(event->line.len, 0);
    assert_int_equal(strlen(event->digest_hex), 64);
    hx_peer_event_free(event);
    (void)snprintf(text, sizeof text, "{\"result\":{\"x\":\"%01000d\"},\"id\":\"a7\"}", 0);
    send_text(&fixture, text, 3);
    event = process_kit_take(&fixture.kit, HX_PEER_OVERSIZE);
    assert_true(hx_span_eq_cstr(hx_buf_span(&event->line), "\"a7\""));
    assert_true(event->has_result);
    assert_false(event->has_method);
    assert_false(event->is_refused);
    hx_peer_event_free(event);
    send_text(&fixture, "next", 2);
    process_kit_expect_line(&fixture.kit, HX_PEER_MESSAGE, "next");
    assert_int_equal(stop(&fixture), 0);
    fixture_fini(&fixture);
}

/* A line that would be short enough, whose start could not be kept, is none too long. */
static void test_a_line_without_memory_is_refused(void **state)
{
    static char text[400000];
    struct fixture fixture;
    struct hx_peer_event *event = NULL;
    unsigned refused = 0;
    bool is_refused = true;

    (void)state;
    fixture_init(&fixture, "echo", NULL);
    fixture_start(&fixture);
    (void)snprintf(text, sizeof text, "{\"result\":{\"x\":\"%0390000d\"},\"id\":7}", 0);
    for (unsigned n = 1; is_refused; n++) {
        send_text(&fixture, text, n);
        hx_alloc_fail_large_at(n);
        while (event == NULL) {
            assert_int_equal(hx_loop_run_once(fixture.kit.loop, 50), 0);
            hx_list_for_each (node, &fixture.kit.inbox) {
                struct hx_peer_event *at = hx_container_of(node, struct hx_peer_event, node);
                if (at->type == HX_PEER_OVERSIZE || at->type == HX_PEER_MESSAGE)
                    event = at;
            }
        }
        is_refused = hx_alloc_fail_left() == 0;
        hx_alloc_fail_at(0);
        hx_list_unlink(&event->node);
        if (event->type == HX_PEER_OVERSIZE) {
            assert_true(event->has_result);
            assert_true(event->is_refused);
            refused++;
        }
        event = hx_peer_event_free(event);
    }
    assert_true(refused > 0);
    assert_int_equal(stop(&fixture), 0);
    fixture_fini(&fixture);
}

static void test_one_byte_at_a_time_is_a_line(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_init(&fixture, "drip", NULL);
    fixture_start(&fixture);
    send_text(&fixture, "\xc3\xa4\xe2\x82\xac\xf0\x9f\x99\x82", 1);
    process_kit_expect_line(&fixture.kit, HX_PEER_MESSAGE, "\xc3\xa4\xe2\x82\xac\xf0\x9f\x99\x82");
    assert_int_equal(stop(&fixture), 0);
    fixture_fini(&fixture);
}

static void test_a_last_line_without_newline_is_delivered_before_closed(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_init(&fixture, "unended", NULL);
    fixture_start(&fixture);
    send_text(&fixture, "whole answer", 1);
    assert_int_equal(take_closed(&fixture), 0);
    assert_true(process_kit_has(&fixture.kit, HX_PEER_MESSAGE));
    process_kit_expect_line(&fixture.kit, HX_PEER_MESSAGE, "whole answer");
    fixture_fini(&fixture);
}

static void test_a_hundred_lines_at_once_do_not_mix(void **state)
{
    struct fixture fixture;
    char text[32];

    (void)state;
    fixture_init(&fixture, "echo", NULL);
    fixture_start(&fixture);
    for (unsigned i = 0; i < 100; i++) {
        (void)snprintf(text, sizeof text, "line %u", i);
        send_text(&fixture, text, i);
    }
    for (unsigned i = 0; i < 100; i++) {
        (void)snprintf(text, sizeof text, "line %u", i);
        process_kit_expect_tag(&fixture.kit, HX_PEER_WRITTEN, i);
        process_kit_expect_line(&fixture.kit, HX_PEER_MESSAGE, text);
    }
    assert_int_equal(stop(&fixture), 0);
    fixture_fini(&fixture);
}

static void test_the_child_has_three_descriptors(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_init(&fixture, "descriptors", NULL);
    fixture_start(&fixture);
    process_kit_expect_line(&fixture.kit, HX_PEER_MESSAGE, "0 1 2 ");
    assert_int_equal(stop(&fixture), 0);
    fixture_fini(&fixture);
}

/* A line of /proc/PID/status as a hexadecimal number. */
static unsigned long long status_line(pid_t pid, const char *name)
{
    char path[64];
    char text[256];
    unsigned long long value = ULLONG_MAX;
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(text, sizeof text, file) != NULL)
        if (strncmp(text, name, strlen(name)) == 0)
            value = strtoull(text + strlen(name) + 1, NULL, 16);
    (void)fclose(file);
    return value;
}

static void privileges(bool may_gain)
{
    struct fixture fixture;

    fixture_init(&fixture, "echo", NULL);
    fixture.options.allow_new_privs = may_gain;
    fixture_start(&fixture);
    assert_int_equal(status_line(leader_pid(&fixture), "NoNewPrivs"), may_gain ? 0 : 1);
    assert_int_equal(status_line(leader_pid(&fixture), "SigBlk"), 0);
    /* The C library keeps 32 and 33 for itself and leaves them ignored. */
    assert_int_equal(status_line(leader_pid(&fixture), "SigIgn") & ~(3ULL << 31), 0);
    assert_int_equal(getpgid(leader_pid(&fixture)), leader_pid(&fixture));
    assert_int_equal(stop(&fixture), 0);
    fixture_fini(&fixture);
}

static void test_the_child_starts_clean(void **state)
{
    (void)state;
    privileges(false);
    privileges(true);
}

static void test_fifty_restarts_leave_one_child(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_init(&fixture, "echo", NULL);
    fixture.up = hx_stdio_child_new(fixture.kit.loop, &fixture.kit.inbox, &fixture.options);
    for (unsigned i = 0; i < 50; i++) {
        fixture.up->ops->start(fixture.up, 1);
        hx_peer_event_free(process_kit_take(&fixture.kit, HX_PEER_STARTED));
        assert_int_equal(process_kit_count(&fixture.kit), 2); /* it and its reaper */
        assert_int_equal(stop(&fixture), 0);
        assert_int_equal(process_kit_count(&fixture.kit), 0);
    }
    fixture_fini(&fixture);
}

static void test_a_dead_child_leaves_the_loop_at_rest(void **state)
{
    struct fixture fixture;
    const int64_t turn_ms = 30;
    bool is_at_rest = false;

    (void)state;
    fixture_init(&fixture, "exit", "1");
    fixture_start(&fixture);
    (void)take_closed(&fixture);
    /* What was still on its way may end a turn or two; a descriptor left ready ends every one. */
    for (int i = 0; i < 10 && !is_at_rest; i++) {
        int64_t before_ms = now_ms(&fixture);
        assert_int_equal(hx_loop_run_once(fixture.kit.loop, (int)turn_ms), 0);
        is_at_rest = now_ms(&fixture) - before_ms >= turn_ms;
    }
    assert_true(is_at_rest);
    fixture_fini(&fixture);
}

static void test_nothing_is_read_while_held(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_init(&fixture, "echo", NULL);
    fixture_start(&fixture);
    fixture.up->ops->hold(fixture.up, true);
    send_text(&fixture, "one", 1);
    process_kit_expect_tag(&fixture.kit, HX_PEER_WRITTEN, 1);
    assert_int_equal(hx_loop_run_once(fixture.kit.loop, 50), 0);
    assert_false(process_kit_has(&fixture.kit, HX_PEER_MESSAGE));
    fixture.up->ops->hold(fixture.up, false);
    process_kit_expect_line(&fixture.kit, HX_PEER_MESSAGE, "one");
    assert_int_equal(stop(&fixture), 0);
    fixture_fini(&fixture);
}

/* What a keeper is, as far as its child can tell: started, then killed. */
static pid_t fork_keeper(struct fixture *fixture)
{
    int ready[2];
    char byte;
    pid_t keeper;

    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    keeper = fork();
    if (keeper == 0) {
        (void)close(ready[0]);
        fixture->up = hx_stdio_child_new(fixture->kit.loop, &fixture->kit.inbox, &fixture->options);
        fixture->up->ops->start(fixture->up, 1);
        hx_peer_event_free(process_kit_take(&fixture->kit, HX_PEER_STARTED));
        send_text(fixture, "one", 1);
        hx_peer_event_free(process_kit_take(&fixture->kit, HX_PEER_MESSAGE));
        (void)!write(ready[1], "r", 1);
        for (;;)
            (void)pause();
    }
    (void)close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    (void)close(ready[0]);
    return keeper;
}

static void keeper_killed(const char *way, bool is_in_shell)
{
    struct fixture fixture;
    pid_t keeper;
    char command[512];

    fixture_init(&fixture, way, NULL);
    if (is_in_shell) {
        (void)snprintf(command, sizeof command, "%s %s; true", fixture.argv[0], way);
        fixture.argv[0] = "sh";
        fixture.argv[1] = "-c";
        fixture.argv[2] = command;
    }
    keeper = fork_keeper(&fixture);
    assert_true(process_kit_count(&fixture.kit) >= 2);
    (void)kill(keeper, SIGKILL);
    assert_int_equal(waitpid(keeper, NULL, 0), keeper);
    process_kit_none_left(&fixture.kit, 5000);
    fixture_fini(&fixture);
}

static void test_a_killed_keeper_takes_its_tree_along(void **state)
{
    (void)state;
    keeper_killed("linger", false);
    keeper_killed("linger", true);
    keeper_killed("stubborn", false);
    keeper_killed("stubborn", true);
    keeper_killed("brood", false);
    keeper_killed("brood", true);
}

static pid_t reaper_of(const struct fixture *fixture)
{
    pid_t reaper = process_kit_find(&fixture->kit, "reaper");

    assert_int_not_equal(reaper, 0);
    return reaper;
}

static void test_a_killed_reaper_takes_the_group_along(void **state)
{
    struct fixture fixture;
    char name[HX_TRANSPORT_NAME_SIZE];

    (void)state;
    fixture_init(&fixture, "stubborn", NULL);
    fixture_start(&fixture);
    (void)snprintf(name, sizeof name, "%s", fixture.up->ops->transport_name(fixture.up));
    assert_int_equal(kill(reaper_of(&fixture), SIGKILL), 0);
    (void)take_closed(&fixture);
    /* We reaped its orphan, and not only the test. */
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(hx_transport_probe(fixture.kit.dir, name), HX_TRANSPORT_GONE);
    fixture_fini(&fixture);
}

/* Who left the group, the session and his parent is a child of the keeper then. */
static void test_a_killed_reaper_takes_along_who_left_the_session(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_init(&fixture, "brood", NULL);
    fixture_start(&fixture);
    send_text(&fixture, "one", 1);
    process_kit_expect_line(&fixture.kit, HX_PEER_MESSAGE, "one");
    assert_int_equal(kill(reaper_of(&fixture), SIGKILL), 0);
    (void)take_closed(&fixture);
    assert_int_equal(process_kit_count(&fixture.kit), 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    fixture_fini(&fixture);
}

static void test_a_killed_reaper_takes_no_other_one_along(void **state)
{
    struct fixture first;
    struct fixture second;

    (void)state;
    fixture_init(&first, "brood", NULL);
    fixture_start(&first);
    fixture_init(&second, "echo", NULL); /* its reaper began after the first one */
    fixture_start(&second);
    assert_int_equal(kill(reaper_of(&first), SIGKILL), 0);
    (void)take_closed(&first);
    send_text(&second, "still here", 1);
    process_kit_expect_line(&second.kit, HX_PEER_MESSAGE, "still here");
    assert_int_equal(stop(&second), 0);
    fixture_fini(&second);
    fixture_fini(&first);
}

/* As when a shell with children of its own became this process: what they leave is ours as well,
 * and began after our server did. */
static void test_a_killed_reaper_takes_no_stranger_along(void **state)
{
    struct fixture fixture;
    int until[2];
    pid_t strangers[2];

    (void)state;
    assert_int_equal(pipe2(until, O_CLOEXEC), 0);
    for (unsigned i = 0; i < 2; i++) {
        strangers[i] = fork();
        if (strangers[i] == 0) {
            char byte;
            (void)close(until[1]);
            _exit(read(until[0], &byte, 1) == 0 ? 0 : 1);
        }
        if (i == 0) {
            fixture_init(&fixture, "stubborn", NULL);
            fixture_start(&fixture);
        }
    }
    assert_int_equal(kill(reaper_of(&fixture), SIGKILL), 0);
    (void)take_closed(&fixture);
    (void)close(until[1]);
    (void)close(until[0]);
    for (unsigned i = 0; i < 2; i++) {
        int status;
        assert_int_equal(waitpid(strangers[i], &status, 0), strangers[i]);
        assert_int_equal(status, 0);
    }
    fixture_fini(&fixture);
}

static void test_a_transport_that_cannot_be_judged_is_unknown(void **state)
{
    struct process_kit kit;

    (void)state;
    process_kit_init(&kit);
    assert_int_equal(hx_transport_probe(kit.dir, ""), HX_TRANSPORT_GONE);
    assert_int_equal(hx_transport_probe(kit.dir, "transport-00"), HX_TRANSPORT_GONE);
    assert_int_equal(hx_transport_probe(kit.dir, "../x"), HX_TRANSPORT_UNKNOWN);
    assert_int_equal(hx_transport_probe("/nonexistent", "x"), HX_TRANSPORT_UNKNOWN);
    process_kit_fini(&kit);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_go_there_and_back),
        cmocka_unit_test(test_it_starts_again_under_another_name),
        cmocka_unit_test(test_what_cannot_be_started_says_why),
        cmocka_unit_test(test_the_last_words_of_a_dead_child_are_kept),
        cmocka_unit_test(test_started_comes_first_however_short_the_life),
        cmocka_unit_test(test_a_killed_child_is_told_at_once),
        cmocka_unit_test(test_a_child_that_ignores_the_end_of_its_input_gets_term),
        cmocka_unit_test(test_a_child_that_ignores_term_gets_kill),
        cmocka_unit_test(test_a_grandchild_in_its_own_session_goes_too),
        cmocka_unit_test(test_a_shell_between_makes_no_difference),
        cmocka_unit_test(test_a_child_may_write_before_it_reads),
        cmocka_unit_test(test_a_child_that_reads_nothing_stalls_once),
        cmocka_unit_test(test_a_stall_may_end),
        cmocka_unit_test(test_more_than_a_pipe_holds_goes_both_ways),
        cmocka_unit_test(test_it_may_be_ended_while_it_starts),
        cmocka_unit_test(test_forgotten_it_ends_all_the_same),
        cmocka_unit_test(test_the_end_of_its_output_is_the_end),
        cmocka_unit_test(test_a_closed_input_leaves_its_answers),
        cmocka_unit_test(test_lines_of_any_size_arrive_whole),
        cmocka_unit_test(test_a_line_over_the_maximum_is_skipped),
        cmocka_unit_test(test_a_line_without_memory_is_refused),
        cmocka_unit_test(test_one_byte_at_a_time_is_a_line),
        cmocka_unit_test(test_a_last_line_without_newline_is_delivered_before_closed),
        cmocka_unit_test(test_a_hundred_lines_at_once_do_not_mix),
        cmocka_unit_test(test_the_child_has_three_descriptors),
        cmocka_unit_test(test_the_child_starts_clean),
        cmocka_unit_test(test_fifty_restarts_leave_one_child),
        cmocka_unit_test(test_a_dead_child_leaves_the_loop_at_rest),
        cmocka_unit_test(test_nothing_is_read_while_held),
        cmocka_unit_test(test_a_killed_keeper_takes_its_tree_along),
        cmocka_unit_test(test_a_killed_reaper_takes_the_group_along),
        cmocka_unit_test(test_a_killed_reaper_takes_along_who_left_the_session),
        cmocka_unit_test(test_a_killed_reaper_takes_no_other_one_along),
        cmocka_unit_test(test_a_killed_reaper_takes_no_stranger_along),
        cmocka_unit_test(test_a_transport_that_cannot_be_judged_is_unknown),
    };

    if (argc > 1 && strcmp(argv[1], "reaper") == 0)
        return hx_cmd_reaper(argc - 1, argv + 1);
    return cmocka_run_group_tests_name("stdio_child", tests, NULL, NULL);
}
