/* SPDX-License-Identifier: MIT */
/*
 * The program as a person meets it: what it says to mistakes, its exit status, and that a demo that
 * is interrupted leaves nothing behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "app/offspring.h"
#include "json/reader.h"

static const char *hapax_path; /* from the command line */
static const char *server_path;

struct outcome {
    int status;
    char text[65536]; /* standard output, then standard error */
};

static pid_t start(const char *const *words, int *ret_fd)
{
    char *argv[12] = {(char *)(uintptr_t)hapax_path};
    int fds[2];
    for (size_t i = 0; words[i]; i++)
        argv[i + 1] = (char *)(uintptr_t)words[i];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fds[1], STDOUT_FILENO);
        dup2(fds[1], STDERR_FILENO);
        execv(argv[0], argv);
        _exit(127);
    }
    assert_true(pid > 0);
    close(fds[1]);
    *ret_fd = fds[0];
    return pid;
}

static void run(const char *const *words, struct outcome *ret_outcome)
{
    size_t len = 0;
    int fd;
    int status;
    pid_t pid = start(words, &fd);
    for (;;) {
        ssize_t got = read(fd, ret_outcome->text + len, sizeof(ret_outcome->text) - 1 - len);
        if (got <= 0)
            break;
        len += (size_t)got;
    }
    ret_outcome->text[len] = '\0';
    close(fd);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    ret_outcome->status = WEXITSTATUS(status);
}

static void says_what_to_do_next(void **state)
{
    static const struct {
        const char *words[5];
        int status;
        const char *says;
    } rows[] = {
        {{NULL}, 2, "hapax run -- "},
        {{"--help"}, 0, "hapax run -- "},
        {{"--version"}, 0, "hapax "},
        {{"rnu"}, 2, "did you mean 'hapax run'?"},
        {{"xyzzy"}, 2, "hapax --help"},
        {{"--vresion"}, 2, "did you mean 'hapax --version'?"},
        {{"help", "run"}, 0, "Usage: hapax run"},
        {{"help", "rnu"}, 2, "did you mean 'hapax run'?"},
        {{"run", "--help"}, 0, "--repeat-window TIME *"},
        {{"run"}, 2, "hapax run -- npx"},
        {{"run", "--timeout", "5", "x"}, 2, "hapax run: --timeout: '5' is not possible"},
        {{"run", "--show-settings"}, 0, "orphan_timeout       = 15m  (default)"},
        {{"run", "--log-file", "/nonexistent/x", "y"},
         2,
         "cannot open the log file /nonexistent/x"},
        {{"run", "https://x/mcp", "more"}, 2, "nothing may follow the URL"},
        {{"ops"}, 2, "hapax ops list"},
        {{"ops", "--help"}, 0, "Usage: hapax ops COMMAND"},
        {{"help", "ops"}, 0, "Usage: hapax ops COMMAND"},
        {{"ops", "lsit"}, 2, "did you mean 'list'?"},
        {{"ops", "list", "--ledger", "/nonexistent"},
         4,
         "there is no ledger at /nonexistent/ledger.db"},
        {{"serve", "--help"}, 0, "hapax serve -- npx"},
        {{"serve", "--listen", "x", "y"}, 2, "hapax serve: --listen: 'x' is not possible"},
        {{"check", "--help"}, 0, "Usage: hapax check"},
        {{"check", "/nonexistent"}, 2, "hapax check: /nonexistent: No such file"},
        {{"token", "--help"}, 0, "Usage: hapax token"},
        {{"token", "--nam"}, 2, "did you mean '--name'?\n"},
        {{"run", "ftp://x"}, 2, "hapax run: url must begin with http"},
        {{"serve", "ftp://x"}, 2, "hapax serve: url must begin with http"},
        {{"call", "ftp://x", "y"}, 2, "hapax call: url must begin with http"},
        {{"call", "y"}, 2, "hapax call https://crm.example/mcp charge '{}'\n"},
        {{"demo", "--help"}, 0, "Usage: hapax demo"},
        {{"demo", "--jsno"}, 2, "did you mean '--json'?"},
        {{"demo", "--only", "timeuot"}, 2, "did you mean 'timeout'?"},
        {{"demo", "--server", "/nonexistent"}, 1, "cannot run '/nonexistent'"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct outcome outcome;
        run(rows[i].words, &outcome);
        const char *first = rows[i].words[0] ? rows[i].words[0] : "";
        if (outcome.status != rows[i].status)
            fail_msg("hapax %s: exit %d, expected %d", first, outcome.status, rows[i].status);
        if (!strstr(outcome.text, rows[i].says))
            fail_msg("hapax %s said: %s\nwithout: %s", first, outcome.text, rows[i].says);
    }
}

static void the_demo_speaks_json(void **state)
{
    const char *words[] = {"demo",        "--json",   "--bare",    "--only",
                           "two-in-turn", "--server", server_path, NULL};
    struct outcome outcome;
    struct hx_json_tape tape;
    const struct hx_json_limits limits = HX_JSON_LIMITS_DEFAULT;
    int64_t kept = 0;
    (void)state;
    run(words, &outcome);
    assert_int_equal(outcome.status, 0);
    hx_json_tape_init(&tape);
    assert_int_equal(hx_json_read(&tape, hx_span_cstr(outcome.text), &limits), 0);
    assert_true(hx_json_int64(&tape, hx_json_member(&tape, 0, HX_SPAN_LIT("kept")), &kept));
    assert_int_equal(kept, 1);
    hx_json_tape_fini(&tape);
}

/* Interrupted in the middle, the demo ends what it started and removes its files. */
static void an_interrupted_demo_leaves_nothing(void **state)
{
    char directory[] = "hapax-test-program-XXXXXX";
    char *absolute;
    const char *words[] = {"demo", "--bare", "--server", server_path, NULL};
    char text[4096];
    int fd;
    int status;
    (void)state;
    assert_non_null(mkdtemp(directory));
    absolute = realpath(directory, NULL);
    assert_non_null(absolute);
    assert_int_equal(setenv("TMPDIR", absolute, 1), 0);
    assert_true(hx_offspring_adopt());
    pid_t pid = start(words, &fd);
    /* Its first progress line tells that the servers run; the slower scenes still do. */
    ssize_t len = 0;
    text[0] = '\0';
    while (!strstr(text, "charges")) {
        ssize_t got = read(fd, text + len, sizeof(text) - 1 - (size_t)len);
        assert_true(got > 0);
        len += got;
        text[len] = '\0';
    }
    assert_int_equal(kill(pid, SIGINT), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    close(fd);
    /* Whatever it had left would have become our child. */
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    /* Only an empty directory can be removed so. */
    assert_int_equal(rmdir(absolute), 0);
    free(absolute);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_what_to_do_next),
        cmocka_unit_test(the_demo_speaks_json),
        cmocka_unit_test(an_interrupted_demo_leaves_nothing),
    };
    if (argc != 3) {
        fputs("usage: test_program HAPAX SERVER\n", stderr);
        return 2;
    }
    hapax_path = argv[1];
    server_path = argv[2];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
