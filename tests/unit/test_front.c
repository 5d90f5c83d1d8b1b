/* SPDX-License-Identifier: MIT */
/*
 * The two processes of `hapax run`, seen by the client that starts the one and may kill it. The
 * keeper here echoes lines; the program is its own front.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/clock_os/clock_os.h"
#include "adapter/stdio_front/stdio_front.h"
#include "app/front.h"
#include "process_kit.h"

extern char **environ;

enum { STATUS_END_OF_INPUT = 7, STATUS_FRONT_GONE = 8, LIMIT_MS = 5000 };

/* --- in the keeper --- */

struct echo {
    struct hx_downstream *down;
    uint64_t tag;
    int status; /* -1 = goes on */
};

static void touch(const char *name)
{
    char path[256];
    int fd;

    (void)snprintf(path, sizeof path, "%s/%s", getenv("HX_TEST_DIR"), name);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        (void)close(fd);
}

static void echo_event(struct echo *echo, struct hx_peer_event *event)
{
    switch ((int)event->type) {
    case HX_PEER_MESSAGE:
        echo->down->ops->send(echo->down, &event->line, &(struct hx_sending){.tag = ++echo->tag});
        break;
    case HX_PEER_END_OF_INPUT:
        echo->status = STATUS_END_OF_INPUT;
        break;
    case HX_PEER_FRONT_GONE:
        echo->down->ops->close(echo->down);
        hx_keeper_drop_stderr();
        touch("front-gone");
        echo->status = STATUS_FRONT_GONE;
        break;
    default:
        break;
    }
}

static int keeper_main(const struct hx_keeper_fds *fds, void *arg)
{
    struct hx_stdio_front_options options = hx_stdio_front_defaults();
    struct echo echo = {.status = -1};
    struct hx_loop *loop = hx_loop_new(&(struct hx_loop_clock){.now = hx_clock_os_mono});
    struct hx_list inbox;
    struct hx_list *node;

    (void)arg;
    hx_list_init(&inbox);
    options.in_fd = fds->in_fd;
    options.out_fd = fds->out_fd;
    options.life_fd = fds->life_fd;
    echo.down = hx_stdio_front_new(loop, &inbox, &options);
    while (echo.status < 0 || echo.down->ops->queued_bytes(echo.down) > 0) {
        if (hx_loop_run_once(loop, -1) != 0)
            break;
        while ((node = hx_list_first(&inbox)) != NULL) {
            struct hx_peer_event *event = hx_container_of(node, struct hx_peer_event, node);
            echo_event(&echo, event);
            hx_peer_event_free(event);
        }
    }
    while ((node = hx_list_first(&inbox)) != NULL)
        hx_peer_event_free(hx_container_of(node, struct hx_peer_event, node));
    hx_stdio_front_free(echo.down);
    hx_loop_free(loop);
    return echo.status;
}

/* --- the client --- */

struct client {
    struct process_kit kit;
    pid_t front;
    int to_front;
    int from_front;
    int error_from_front;
};

static void make_pair(bool is_socket, int *ret_reader, int *ret_writer)
{
    int ends[2];

    if (is_socket)
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    else
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    *ret_reader = ends[0];
    *ret_writer = ends[1];
}

/* `extra_fd` is inherited by the front as 9; -1 = none. */
static void client_start(struct client *client, bool is_socket, int extra_fd)
{
    static char program[] = "/proc/self/exe";
    static char word[] = "front";
    char *const argv[] = {program, word, NULL};
    posix_spawn_file_actions_t actions;
    int theirs[3];

    process_kit_init(&client->kit);
    (void)setenv("HX_TEST_DIR", client->kit.dir, 1);
    make_pair(is_socket, &theirs[0], &client->to_front);
    make_pair(is_socket, &client->from_front, &theirs[1]);
    make_pair(is_socket, &client->error_from_front, &theirs[2]);
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(posix_spawn_file_actions_adddup2(&actions, theirs[i], i), 0);
    if (extra_fd >= 0)
        assert_int_equal(posix_spawn_file_actions_adddup2(&actions, extra_fd, 9), 0);
    assert_int_equal(posix_spawn(&client->front, program, &actions, NULL, argv, environ), 0);
    (void)posix_spawn_file_actions_destroy(&actions);
    for (int i = 0; i < 3; i++)
        (void)close(theirs[i]);
}

static void client_end(struct client *client)
{
    (void)close(client->to_front);
    (void)close(client->from_front);
    (void)close(client->error_from_front);
    process_kit_fini(&client->kit);
}

static void expect_bytes(int fd, const char *bytes)
{
    char got[64] = "";
    size_t len = 0;

    while (len < strlen(bytes)) {
        struct pollfd at = {.fd = fd, .events = POLLIN};
        ssize_t part;
        assert_int_equal(poll(&at, 1, LIMIT_MS), 1);
        part = read(fd, got + len, sizeof got - 1 - len);
        assert_true(part > 0);
        len += (size_t)part;
    }
    assert_string_equal(got, bytes);
}

static void expect_end(int fd, int limit_ms)
{
    struct pollfd at = {.fd = fd, .events = POLLIN};
    char byte;

    assert_int_equal(poll(&at, 1, limit_ms), 1);
    assert_int_equal(read(fd, &byte, 1), 0);
}

static void ping(const struct client *client)
{
    assert_int_equal(write(client->to_front, "ping\n", 5), 5);
    expect_bytes(client->from_front, "ping\n");
}

static int wait_status(const struct client *client)
{
    int status;

    assert_int_equal(waitpid(client->front, &status, 0), client->front);
    return status;
}

static void answers_then_ends(bool is_socket)
{
    struct client client;
    int status;

    client_start(&client, is_socket, -1);
    ping(&client);
    assert_int_equal(write(client.to_front, "last\n", 5), 5);
    if (is_socket)
        assert_int_equal(shutdown(client.to_front, SHUT_WR), 0);
    else
        assert_int_equal(close(client.to_front), 0);
    expect_bytes(client.from_front, "last\n");
    status = wait_status(&client);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), STATUS_END_OF_INPUT);
    /* The pipes ended before the process did. */
    expect_end(client.from_front, 0);
    expect_end(client.error_from_front, 0);
    client.to_front = is_socket ? client.to_front : open("/dev/null", O_RDONLY | O_CLOEXEC);
    client_end(&client);
}

static void test_answers_then_the_keepers_status(void **state)
{
    (void)state;
    answers_then_ends(false);
    answers_then_ends(true);
}

static void front_gets(int signal_number, bool is_socket)
{
    struct client client;
    char path[256];

    client_start(&client, is_socket, -1);
    ping(&client);
    assert_int_equal(kill(client.front, signal_number), 0);
    expect_end(client.from_front, LIMIT_MS);
    expect_end(client.error_from_front, LIMIT_MS);
    assert_int_equal(WTERMSIG(wait_status(&client)), signal_number);
    process_kit_none_left(&client.kit, LIMIT_MS);
    (void)snprintf(path, sizeof path, "%s/front-gone", client.kit.dir);
    assert_int_equal(access(path, F_OK), 0);
    client_end(&client);
}

static void test_a_front_that_dies_shows_at_once(void **state)
{
    (void)state;
    front_gets(SIGKILL, false);
    front_gets(SIGKILL, true);
    front_gets(SIGTERM, false);
    front_gets(SIGINT, false);
    front_gets(SIGHUP, false);
}

struct stat_line {
    long parent;
    long group;
    long session;
};

static struct stat_line stat_of(pid_t pid)
{
    struct stat_line line = {0, 0, 0};
    char path[64];
    char text[512];
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    file = fopen(path, "re");
    if (file == NULL)
        return line; /* just gone */
    assert_non_null(fgets(text, sizeof text, file));
    (void)fclose(file);
    assert_int_equal(sscanf(strrchr(text, ')') + 1, " %*c %ld %ld %ld", &line.parent, &line.group,
                            &line.session),
                     3);
    return line;
}

/* The other process with our mark. */
static pid_t keeper_of(const struct client *client)
{
    pid_t found[4];

    /* The one between them may take a moment to go. */
    while (process_kit_list(&client->kit, found, 4) != 2)
        (void)poll(NULL, 0, 1);
    return found[0] == client->front ? found[1] : found[0];
}

static void test_a_killed_keeper_ends_the_front(void **state)
{
    struct client client;
    int status;

    (void)state;
    client_start(&client, false, -1);
    ping(&client);
    assert_int_equal(kill(keeper_of(&client), SIGKILL), 0);
    expect_end(client.from_front, LIMIT_MS);
    status = wait_status(&client);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), HX_FRONT_KEEPER_LOST);
    client_end(&client);
}

static void test_the_keeper_is_out_of_the_clients_reach(void **state)
{
    struct client client;
    struct stat_line front;
    struct stat_line keeper;
    char path[64];
    char target[64] = "";

    (void)state;
    client_start(&client, false, -1);
    ping(&client);
    front = stat_of(client.front);
    keeper = stat_of(keeper_of(&client));
    assert_int_not_equal(keeper.parent, client.front);
    assert_int_not_equal(keeper.group, front.group);
    assert_int_not_equal(keeper.session, front.session);
    for (int fd = 0; fd < 3; fd++) {
        (void)snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)client.front, fd);
        memset(target, 0, sizeof target);
        assert_true(readlink(path, target, sizeof target - 1) > 0);
        assert_string_equal(target, "/dev/null");
    }
    assert_int_equal(kill(client.front, SIGKILL), 0);
    (void)wait_status(&client);
    client_end(&client);
}

static void test_what_the_client_left_open_is_closed(void **state)
{
    struct client client;
    int reader;
    int writer;

    (void)state;
    make_pair(false, &reader, &writer);
    client_start(&client, false, writer);
    (void)close(writer);
    ping(&client);
    expect_end(reader, LIMIT_MS);
    (void)close(reader);
    assert_int_equal(kill(client.front, SIGKILL), 0);
    (void)wait_status(&client);
    client_end(&client);
}

/* Becomes PID 1 of a new namespace with the front in it. Exits 77 where that is not allowed. */
static int be_namespace(void)
{
    int status;
    pid_t init;

    if (unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0)
        return 77;
    init = fork();
    if (init == 0) {
        char *const argv[] = {(char[]){"hapax"}, (char[]){"front"}, NULL};
        (void)execv("/proc/self/exe", argv);
        _exit(1);
    }
    (void)close(STDIN_FILENO);
    (void)close(STDOUT_FILENO);
    (void)close(STDERR_FILENO);
    if (waitpid(init, &status, 0) != init)
        return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static void test_as_pid_1_the_front_ends_last(void **state)
{
    struct client client;
    pid_t namespace_pid;
    pid_t init = 0;
    pid_t found[8];
    size_t count;
    int status;
    int to_keeper[2];
    int from_keeper[2];

    (void)state;
    process_kit_init(&client.kit);
    (void)setenv("HX_TEST_DIR", client.kit.dir, 1);
    assert_int_equal(pipe2(to_keeper, O_CLOEXEC), 0);
    assert_int_equal(pipe2(from_keeper, O_CLOEXEC), 0);
    namespace_pid = fork();
    if (namespace_pid == 0) {
        (void)dup2(to_keeper[0], STDIN_FILENO);
        (void)dup2(from_keeper[1], STDOUT_FILENO);
        _exit(be_namespace());
    }
    (void)close(to_keeper[0]);
    (void)close(from_keeper[1]);
    client.to_front = to_keeper[1];
    client.from_front = from_keeper[0];
    client.error_from_front = -1;
    (void)!write(client.to_front, "ping\n", 5);
    struct pollfd at = {.fd = client.from_front, .events = POLLIN};
    assert_int_equal(poll(&at, 1, LIMIT_MS), 1);
    if ((at.revents & POLLIN) != 0) {
        expect_bytes(client.from_front, "ping\n");
        count = process_kit_list(&client.kit, found, 8);
        for (size_t i = 0; i < count; i++)
            if (stat_of(found[i]).parent == namespace_pid)
                init = found[i];
        assert_int_not_equal(init, 0);
        assert_int_equal(kill(init, SIGTERM), 0);
        expect_end(client.from_front, LIMIT_MS);
    }
    assert_int_equal(waitpid(namespace_pid, &status, 0), namespace_pid);
    (void)close(client.to_front);
    (void)close(client.from_front);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) != 77)
        assert_int_equal(WEXITSTATUS(status), STATUS_FRONT_GONE);
    status = WEXITSTATUS(status);
    process_kit_fini(&client.kit);
    if (status == 77)
        skip();
}

int main(int argc, char **argv)
{
    /* Who runs the tests in the background or behind nohup hands down ignored signals. */
    static const int numbers[] = {SIGHUP, SIGINT, SIGTERM};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        (void)signal(numbers[i], SIG_DFL);

    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_then_the_keepers_status),
        cmocka_unit_test(test_a_front_that_dies_shows_at_once),
        cmocka_unit_test(test_a_killed_keeper_ends_the_front),
        cmocka_unit_test(test_the_keeper_is_out_of_the_clients_reach),
        cmocka_unit_test(test_what_the_client_left_open_is_closed),
        cmocka_unit_test(test_as_pid_1_the_front_ends_last),
    };

    if (argc > 1 && strcmp(argv[1], "front") == 0)
        return hx_front_run(keeper_main, NULL);
    return cmocka_run_group_tests_name("front", tests, NULL, NULL);
}
