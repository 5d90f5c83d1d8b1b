/* SPDX-License-Identifier: MIT */
/*
 * What is said of a message to a child, while each system call fails once: ours, and those of the
 * reaper. The child notes every byte that it reads.
 *
 * The one lie that must not be: "not sent" of a message of which the child has read a byte. It
 * would be sent again.
 */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/stdio_child/stdio_child.h"
#include "app/reaper.h"
#include "nth.h"
#include "process_kit.h"

enum {
    MESSAGES = 3,
    LONG_LINE = 100000, /* more than a pipe holds */
    WAIT_MS = 5000,
    FAILURES_MAX = 2000
};

struct told {
    unsigned first_byte, written, not_sent, cut;
};

struct world {
    struct process_kit kit;
    struct hx_stdio_child_options options;
    const char *argv[4];
    char notes[64];
    struct hx_upstream *up;
    struct told told[MESSAGES + 1];
    bool is_started, is_closed;
    unsigned answers;
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

static void take_events(struct world *world)
{
    struct hx_list *node;

    while ((node = hx_list_take_first(&world->kit.inbox)) != NULL) {
        struct hx_peer_event *event = hx_container_of(node, struct hx_peer_event, node);
        struct told *told = &world->told[event->tag <= MESSAGES ? event->tag : 0];
        told->first_byte += event->type == HX_PEER_FIRST_BYTE;
        told->written += event->type == HX_PEER_WRITTEN;
        told->not_sent += event->type == HX_PEER_NOT_SENT;
        told->cut += event->type == HX_PEER_CUT;
        world->answers += event->type == HX_PEER_MESSAGE;
        world->is_started |= event->type == HX_PEER_STARTED;
        world->is_closed |= event->type == HX_PEER_CLOSED;
        hx_peer_event_free(event);
    }
}

/* False when `limit_ms` are over first. */
static bool runs_until(struct world *world, bool (*is_true)(const struct world *world))
{
    struct hx_mono limit = hx_mono_after(hx_loop_now(world->kit.loop), WAIT_MS);

    for (take_events(world); !is_true(world); take_events(world)) {
        if (hx_mono_reached(hx_loop_now(world->kit.loop), limit))
            return false;
        (void)!hx_loop_run_once(world->kit.loop, 20); /* its failure is one of those tried */
    }
    return true;
}

static bool is_up_or_gone(const struct world *world)
{
    return world->is_started || world->is_closed;
}

static bool is_answered_or_gone(const struct world *world)
{
    return world->answers == MESSAGES || world->is_closed;
}

static bool is_gone(const struct world *world)
{
    return world->is_closed;
}

/* Message `tag` is a line of one letter. */
static struct hx_buf message_of(unsigned tag)
{
    struct hx_buf line = process_kit_filled_line(tag == 2 ? LONG_LINE : 10);

    memset(line.data, 'a' + (int)tag, line.len);
    return line;
}

static bool has_read(const struct world *world, unsigned tag)
{
    FILE *in = fopen(world->notes, "re");
    bool is_read = false;
    int byte;

    while (in != NULL && (byte = fgetc(in)) != EOF)
        is_read |= byte == 'a' + (int)tag;
    if (in != NULL)
        (void)fclose(in);
    return is_read;
}

static void judge(const struct world *world, const char *failed)
{
    for (unsigned tag = 1; tag <= MESSAGES; tag++) {
        const struct told *told = &world->told[tag];
        bool is_read = has_read(world, tag);
        if (told->written + told->not_sent + told->cut != 1)
            fail_msg("%s: message %u has %u fates", failed, tag,
                     told->written + told->not_sent + told->cut);
        if (told->not_sent > 0 && (is_read || told->first_byte > 0))
            fail_msg("%s: message %u was read, and is told to be not sent", failed, tag);
        if (told->not_sent == 0 && told->first_byte != 1)
            fail_msg("%s: %u first bytes of message %u", failed, told->first_byte, tag);
    }
}

/* What failed, by its name and errno: "" when nothing did. The reaper writes it to `log`. */
static const char *failed_call(const char *log, char ret_failed[64])
{
    FILE *in = log[0] != '\0' ? fopen(log, "re") : NULL;

    (void)snprintf(ret_failed, 64, "%s", nth_fired());
    if (in != NULL) {
        if (fgets(ret_failed, 64, in) == NULL)
            ret_failed[0] = '\0';
        (void)fclose(in);
    }
    return ret_failed;
}

/* One life of a child with the `number`-th call failing, here or in the reaper. Returns whether it
 * came to that here. */
static bool live_with(unsigned long number, bool is_in_reaper)
{
    struct world world = {0};
    size_t fds = count_fds();
    char text[32], log[64] = "", failed[64] = "";

    (void)snprintf(text, sizeof text, "%lu", number);
    process_kit_init(&world.kit);
    (void)snprintf(world.notes, sizeof world.notes, "%s/notes", world.kit.dir);
    world.argv[0] = getenv("HX_STUB_CHILD");
    world.argv[1] = "notes";
    world.argv[2] = world.notes;
    world.options = hx_stdio_child_defaults();
    world.options.argv = (char *const *)(uintptr_t)world.argv;
    world.options.transport_dir = world.kit.dir;
    world.options.term_grace_ms = 100;
    world.options.kill_grace_ms = 200;
    if (is_in_reaper) {
        assert_int_equal(setenv("HX_NTH_ARM", text, 1), 0);
        (void)snprintf(log, sizeof log, "%s/failed", world.kit.dir);
        assert_int_equal(setenv("HX_NTH_LOG", log, 1), 0);
    } else {
        nth_arm(number);
    }
    world.up = hx_stdio_child_new(world.kit.loop, &world.kit.inbox, &world.options);
    world.up->ops->start(world.up, 1);
    if (!runs_until(&world, is_up_or_gone))
        fail_msg("call %lu (%s): neither started nor closed", number, failed_call(log, failed));
    for (unsigned tag = 1; tag <= MESSAGES; tag++) {
        struct hx_buf line = message_of(tag);
        world.up->ops->send(world.up, &line, tag);
        hx_buf_fini(&line);
    }
    /* A message that is cut leaves the child without an end of line, and without an answer. */
    (void)runs_until(&world, is_answered_or_gone);
    world.up->ops->stop(world.up);
    if (!world.is_closed && !runs_until(&world, is_gone))
        fail_msg("call %lu (%s): not closed", number, failed_call(log, failed));
    nth_disarm();
    (void)unsetenv("HX_NTH_ARM");
    (void)unsetenv("HX_NTH_LOG");
    world.up = hx_stdio_child_free(world.up);
    (void)failed_call(log, failed);
    judge(&world, failed);
    process_kit_fini(&world.kit);
    if (count_fds() != fds)
        fail_msg("%s: %zu descriptors are left of %zu", failed, count_fds(), fds);
    return failed[0] != '\0';
}

static void test_whatever_fails_no_message_that_left_is_not_sent(void **state)
{
    unsigned long number = 1;

    (void)state;
    while (live_with(number, false)) {
        number++;
        assert_true(number < FAILURES_MAX);
    }
    assert_true(number > 50);
}

static void test_whatever_fails_in_the_reaper_nothing_is_left(void **state)
{
    unsigned long number = 1;

    (void)state;
    while (live_with(number, true)) {
        number++;
        assert_true(number < FAILURES_MAX);
    }
    assert_true(number > 20);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whatever_fails_no_message_that_left_is_not_sent),
        cmocka_unit_test(test_whatever_fails_in_the_reaper_nothing_is_left),
    };

    if (argc > 1 && strcmp(argv[1], "reaper") == 0)
        return hx_cmd_reaper(argc - 1, argv + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
