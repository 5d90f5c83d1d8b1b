/* SPDX-License-Identifier: MIT */
/*
 * Neighbours on one ledger: questions, wake-ups, and neighbours that are dead, silent or mad.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/neighbour_unix/neighbour_unix.h"
#include "process_kit.h"

static const struct hx_id id_a = {{0xaa, 1}};
static const struct hx_id id_b = {{0xbb, 2}};
static const struct hx_id id_c = {{0xcc, 3}};
static const struct hx_id op_1 = {{1}};
static const struct hx_id op_2 = {{2}};

struct fixture {
    struct process_kit kit;
    struct hx_list inbox_a;
    struct hx_list inbox_b;
    struct hx_neighbourhood *a;
    struct hx_neighbourhood *b;
};

static struct hx_neighbourhood *open_in(struct process_kit *kit, const char *dir,
                                        const struct hx_id *self, struct hx_list *inbox)
{
    struct hx_neighbour_unix_options options = {.dir = dir, .self = *self};

    options.answer_timeout_ms = 250;
    return hx_neighbour_unix_new(kit->loop, inbox, &options);
}

static void fixture_init(struct fixture *fixture)
{
    process_kit_init(&fixture->kit);
    hx_list_init(&fixture->inbox_a);
    hx_list_init(&fixture->inbox_b);
    fixture->a = open_in(&fixture->kit, fixture->kit.dir, &id_a, &fixture->inbox_a);
    fixture->b = open_in(&fixture->kit, fixture->kit.dir, &id_b, &fixture->inbox_b);
    assert_non_null(fixture->a);
    assert_non_null(fixture->b);
}

static void fixture_fini(struct fixture *fixture)
{
    assert_true(hx_list_is_empty(&fixture->inbox_a));
    assert_true(hx_list_is_empty(&fixture->inbox_b));
    hx_neighbour_unix_free(fixture->a);
    hx_neighbour_unix_free(fixture->b);
    process_kit_fini(&fixture->kit); /* the directory is empty but for what a test left */
}

static bool has_event(void *arg)
{
    return !hx_list_is_empty(arg);
}

/* Takes the next event, which must be of this type. */
static struct hx_neighbour_event take(struct fixture *fixture, struct hx_list *inbox,
                                      enum hx_neighbour_event_type type)
{
    struct hx_neighbour_event *event;
    struct hx_neighbour_event copy;

    process_kit_until(&fixture->kit, has_event, inbox, "a neighbour's event");
    event = hx_container_of(hx_list_first(inbox), struct hx_neighbour_event, node);
    assert_int_equal(event->type, type);
    copy = *event;
    hx_neighbour_event_free(event);
    return copy;
}

static void expect_answer(struct fixture *fixture, uint64_t ticket, bool is_live)
{
    struct hx_neighbour_event event = take(fixture, &fixture->inbox_a, HX_NEIGHBOUR_ANSWER);

    assert_int_equal(event.ticket, ticket);
    assert_int_equal(event.is_live, is_live);
}

static void test_a_question_is_answered(void **state)
{
    struct fixture fixture;
    struct hx_neighbour_event asked;

    (void)state;
    fixture_init(&fixture);
    for (unsigned i = 0; i < 2; i++) {
        fixture.a->ops->ask(fixture.a, &id_b, &op_1, 40 + i);
        asked = take(&fixture, &fixture.inbox_b, HX_NEIGHBOUR_ASKED);
        assert_true(hx_id_eq(&asked.operation, &op_1));
        fixture.b->ops->reply(fixture.b, asked.ticket, i == 0);
        expect_answer(&fixture, 40 + i, i == 0);
    }
    fixture_fini(&fixture);
}

static void test_silence_means_not_live(void **state)
{
    struct fixture fixture;
    struct hx_mono before;

    (void)state;
    fixture_init(&fixture);
    before = hx_loop_now(fixture.kit.loop);
    fixture.a->ops->ask(fixture.a, &id_b, &op_1, 1);
    expect_answer(&fixture, 1, false);
    assert_true(hx_mono_since_ms(hx_loop_now(fixture.kit.loop), before) >= 250);
    /* Asked again while nobody replied, it is one question still. */
    (void)take(&fixture, &fixture.inbox_b, HX_NEIGHBOUR_ASKED);
    fixture_fini(&fixture);
}

static void test_a_late_reply_is_dropped(void **state)
{
    struct fixture fixture;
    struct hx_neighbour_event asked;

    (void)state;
    fixture_init(&fixture);
    fixture.a->ops->ask(fixture.a, &id_b, &op_1, 1);
    expect_answer(&fixture, 1, false);
    asked = take(&fixture, &fixture.inbox_b, HX_NEIGHBOUR_ASKED);
    fixture.b->ops->reply(fixture.b, asked.ticket, true);
    fixture.b->ops->reply(fixture.b, asked.ticket, true);
    assert_int_equal(hx_loop_run_once(fixture.kit.loop, 20), 0);
    fixture_fini(&fixture);
}

static void test_more_questions_than_the_kernel_queues(void **state)
{
    enum { COUNT = 100 };
    struct fixture fixture;
    bool is_answered[COUNT] = {false};

    (void)state;
    fixture_init(&fixture);
    for (unsigned i = 0; i < COUNT; i++)
        fixture.a->ops->ask(fixture.a, &id_b, &op_1, i);
    for (unsigned answers = 0; answers < COUNT;) {
        struct hx_list *node;
        assert_int_equal(hx_loop_run_once(fixture.kit.loop, 50), 0);
        while ((node = hx_list_first(&fixture.inbox_b)) != NULL) {
            struct hx_neighbour_event *event =
                hx_container_of(node, struct hx_neighbour_event, node);
            fixture.b->ops->reply(fixture.b, event->ticket, true);
            hx_neighbour_event_free(event);
        }
        while ((node = hx_list_first(&fixture.inbox_a)) != NULL) {
            struct hx_neighbour_event *event =
                hx_container_of(node, struct hx_neighbour_event, node);
            assert_int_equal(event->type, HX_NEIGHBOUR_ANSWER);
            assert_false(is_answered[event->ticket]);
            is_answered[event->ticket] = true;
            answers++;
            hx_neighbour_event_free(event);
        }
    }
    fixture_fini(&fixture);
}

static void test_a_watcher_hears_of_a_change(void **state)
{
    struct fixture fixture;
    struct hx_neighbour_event event;

    (void)state;
    fixture_init(&fixture);
    fixture.a->ops->watch(fixture.a, &id_b, &op_1);
    fixture.a->ops->watch(fixture.a, &id_b, &op_1); /* harmless */
    assert_int_equal(hx_loop_run_once(fixture.kit.loop, 1000), 0);
    fixture.b->ops->changed(fixture.b, &op_2);
    fixture.b->ops->changed(fixture.b, &op_1);
    event = take(&fixture, &fixture.inbox_a, HX_NEIGHBOUR_CHANGED);
    assert_true(hx_id_eq(&event.operation, &op_1));
    fixture.b->ops->changed(fixture.b, &op_1);
    event = take(&fixture, &fixture.inbox_a, HX_NEIGHBOUR_CHANGED);
    assert_true(hx_id_eq(&event.operation, &op_1));
    fixture_fini(&fixture);
}

static void test_a_drainer_is_told_to_stop(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_init(&fixture);
    hx_neighbour_unix_stop(fixture.a, &id_b);
    (void)take(&fixture, &fixture.inbox_b, HX_NEIGHBOUR_STOP);
    fixture_fini(&fixture);
}

static void socket_path(const struct fixture *fixture, const struct hx_id *id, char *ret_path,
                        size_t size)
{
    char text[HX_ID_TEXT_SIZE];

    hx_id_format(id, text);
    (void)snprintf(ret_path, size, "%s/neighbour-%s", fixture->kit.dir, text);
}

/* A neighbour that is killed: its socket stays, and nobody has it open. */
static void leave_stale_socket(struct fixture *fixture, const struct hx_id *id)
{
    pid_t pid = fork();

    if (pid == 0) {
        struct hx_list inbox;
        hx_list_init(&inbox);
        if (open_in(&fixture->kit, fixture->kit.dir, id, &inbox) == NULL)
            _exit(1);
        (void)kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_a_killed_neighbour_is_not_live_at_once(void **state)
{
    struct fixture fixture;
    struct hx_list inbox;
    struct hx_neighbourhood *c;
    char path[256];

    (void)state;
    fixture_init(&fixture);
    leave_stale_socket(&fixture, &id_c);
    socket_path(&fixture, &id_c, path, sizeof path);
    assert_int_equal(access(path, F_OK), 0);
    fixture.a->ops->ask(fixture.a, &id_c, &op_1, 1);
    assert_false(hx_list_is_empty(&fixture.inbox_a)); /* without a turn of the loop */
    expect_answer(&fixture, 1, false);
    /* Its successor under the same name finds the place free. */
    hx_list_init(&inbox);
    c = open_in(&fixture.kit, fixture.kit.dir, &id_c, &inbox);
    assert_non_null(c);
    hx_neighbour_unix_free(c);
    /* One that never was is as dead. */
    fixture.a->ops->ask(fixture.a, &id_c, &op_1, 2);
    expect_answer(&fixture, 2, false);
    fixture_fini(&fixture);
}

static void test_the_next_to_open_sweeps_stale_sockets(void **state)
{
    struct fixture fixture;
    struct hx_list inbox;
    struct hx_neighbourhood *other;
    char path[256];

    (void)state;
    fixture_init(&fixture);
    leave_stale_socket(&fixture, &id_c);
    hx_list_init(&inbox);
    other = open_in(&fixture.kit, fixture.kit.dir, &op_1, &inbox);
    assert_non_null(other);
    socket_path(&fixture, &id_c, path, sizeof path);
    assert_int_equal(access(path, F_OK), -1);
    /* The living ones stay. */
    socket_path(&fixture, &id_a, path, sizeof path);
    assert_int_equal(access(path, F_OK), 0);
    hx_neighbour_unix_free(other);
    fixture_fini(&fixture);
}

static void test_a_name_in_use_is_refused(void **state)
{
    struct fixture fixture;
    struct hx_list inbox;

    (void)state;
    fixture_init(&fixture);
    hx_list_init(&inbox);
    assert_null(open_in(&fixture.kit, fixture.kit.dir, &id_a, &inbox));
    fixture.b->ops->watch(fixture.b, &id_a, &op_1); /* the first one is unharmed */
    assert_int_equal(hx_loop_run_once(fixture.kit.loop, 1000), 0);
    fixture.a->ops->changed(fixture.a, &op_1);
    (void)take(&fixture, &fixture.inbox_b, HX_NEIGHBOUR_CHANGED);
    fixture_fini(&fixture);
}

static void test_garbage_is_dropped(void **state)
{
    struct fixture fixture;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char bytes[200];
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    (void)state;
    fixture_init(&fixture);
    socket_path(&fixture, &id_b, address.sun_path, sizeof address.sun_path);
    for (size_t len = 0; len <= sizeof bytes; len += 8) {
        memset(bytes, (int)len, sizeof bytes);
        if (len % 16 == 0)
            memcpy(bytes, "HXN1", 4);
        assert_int_equal(
            sendto(fd, bytes, len, 0, (const struct sockaddr *)&address, sizeof address), len);
        assert_int_equal(hx_loop_run_once(fixture.kit.loop, 1000), 0);
    }
    /* An answer to a question that nobody asked, and from somebody who was not asked. */
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, "HXN1\2\1", 6);
    assert_int_equal(sendto(fd, bytes, 48, 0, (const struct sockaddr *)&address, sizeof address),
                     48);
    assert_int_equal(hx_loop_run_once(fixture.kit.loop, 1000), 0);
    (void)close(fd);
    fixture_fini(&fixture);
}

static void test_the_path_may_be_long(void **state)
{
    struct fixture fixture;
    struct hx_list inbox;
    struct hx_neighbourhood *c;
    struct stat info;
    char dir[256];
    char path[512];

    (void)state;
    fixture_init(&fixture);
    (void)snprintf(dir, sizeof dir, "%s/%0180d", fixture.kit.dir, 0);
    assert_int_equal(mkdir(dir, 0700), 0);
    hx_list_init(&inbox);
    c = open_in(&fixture.kit, dir, &id_c, &inbox);
    assert_non_null(c);
    char text[HX_ID_TEXT_SIZE];
    hx_id_format(&id_c, text);
    (void)snprintf(path, sizeof path, "%s/neighbour-%s", dir, text);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    c->ops->ask(c, &id_c, &op_1, 1); /* itself */
    (void)take(&fixture, &inbox, HX_NEIGHBOUR_ASKED);
    hx_neighbour_unix_free(c);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(rmdir(dir), 0);
    fixture_fini(&fixture);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_question_is_answered),
        cmocka_unit_test(test_silence_means_not_live),
        cmocka_unit_test(test_a_late_reply_is_dropped),
        cmocka_unit_test(test_more_questions_than_the_kernel_queues),
        cmocka_unit_test(test_a_watcher_hears_of_a_change),
        cmocka_unit_test(test_a_drainer_is_told_to_stop),
        cmocka_unit_test(test_a_killed_neighbour_is_not_live_at_once),
        cmocka_unit_test(test_the_next_to_open_sweeps_stale_sockets),
        cmocka_unit_test(test_a_name_in_use_is_refused),
        cmocka_unit_test(test_garbage_is_dropped),
        cmocka_unit_test(test_the_path_may_be_long),
    };

    return cmocka_run_group_tests_name("neighbour_unix", tests, NULL, NULL);
}
