/* SPDX-License-Identifier: MIT */
/*
 * The example server, spoken to over pipes: every demo and end-to-end test rests on what it does.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "app/mcp_client.h"

#define STEP_MS 20000 /* only a broken server takes so long */

static const char *server_path; /* from the command line */

struct fixture {
    char directory[64];
    char charges[96];
    char errors[96];
    struct hx_mcp_client client;
};

static void start(struct fixture *fixture, const char *option)
{
    const char *words[] = {server_path, "--ledger", fixture->charges, option, NULL};
    char *argv[5] = {NULL};
    for (size_t i = 0; words[i]; i++)
        argv[i] = (char *)(uintptr_t)words[i];
    assert_int_equal(hx_mcp_client_start(&fixture->client, argv, fixture->errors), 0);
}

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    snprintf(fixture->directory, sizeof(fixture->directory), "hapax-test-server-XXXXXX");
    if (!mkdtemp(fixture->directory))
        return -1;
    snprintf(fixture->charges, sizeof(fixture->charges), "%s/charges", fixture->directory);
    snprintf(fixture->errors, sizeof(fixture->errors), "%s/stderr", fixture->directory);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    unlink(fixture->charges);
    unlink(fixture->errors);
    rmdir(fixture->directory);
    free(fixture);
    return 0;
}

/* Closes the server's input and expects it to end by itself, well. */
static void stop(struct fixture *fixture)
{
    int status;
    pid_t pid = fixture->client.pid;
    hx_mcp_client_stop(&fixture->client);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void say(struct fixture *fixture, const char *line)
{
    assert_true(hx_mcp_client_send(&fixture->client, hx_span_cstr(line)));
}

static const struct hx_mcp_answer *answer_of(struct fixture *fixture, unsigned id)
{
    if (!hx_mcp_client_wait(&fixture->client, id, hx_mono_after(hx_mcp_now(), STEP_MS)))
        fail_msg("no answer to request %u", id);
    return &fixture->client.answers[id];
}

static int count_charges(const struct fixture *fixture)
{
    FILE *in = fopen(fixture->charges, "r");
    int count = 0;
    if (!in)
        return 0;
    for (int byte = fgetc(in); byte != EOF; byte = fgetc(in))
        count += byte == '\n';
    fclose(in);
    return count;
}

static void answers_and_refuses(void **state)
{
    struct fixture *fixture = *state;
    start(fixture, NULL);
    assert_true(hx_mcp_client_handshake(&fixture->client, hx_mono_after(hx_mcp_now(), STEP_MS)));
    say(fixture, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{"
                 "\"name\":\"charge\",\"arguments\":{\"amount\":5,\"note\":\"a\"}}}\n");
    assert_non_null(strstr(answer_of(fixture, 1)->text, "charged, receipt "));
    say(fixture, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{"
                 "\"name\":\"charge\",\"arguments\":{\"amount\":\"5\"}}}\n");
    assert_true(answer_of(fixture, 2)->is_error);
    say(fixture, "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":{"
                 "\"name\":\"balance\"}}\n");
    assert_string_equal(answer_of(fixture, 3)->text, "1 charges");
    say(fixture, "[{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"ping\"},"
                 "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"nonsense\"}]\n");
    assert_false(answer_of(fixture, 4)->is_error);
    assert_string_equal(answer_of(fixture, 5)->text, "this method is not known here");
    say(fixture, "\n{\"jsonrpc\":\"2.0\"\r\nnoise\n{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":"
                 "\"tools/call\",\"params\":{\"name\":\"echo\",\"arguments\":{\"n\":1.0}}}\r\n");
    assert_string_equal(answer_of(fixture, 6)->text, "{\\\"n\\\":1.0}");
    assert_int_equal(count_charges(fixture), 1);
    stop(fixture);
}

/* The charge is on disk long before it is answered, and others are answered meanwhile. */
static void a_slow_charge_blocks_nobody(void **state)
{
    struct fixture *fixture = *state;
    start(fixture, NULL);
    say(fixture, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{"
                 "\"name\":\"charge\",\"arguments\":{\"amount\":5,\"sleep_ms\":600000}}}\n"
                 "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{"
                 "\"name\":\"charge\",\"arguments\":{\"amount\":6,\"sleep_ms\":0}}}\n"
                 "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\"}\n");
    (void)answer_of(fixture, 2);
    (void)answer_of(fixture, 3);
    assert_false(fixture->client.answers[1].is_there);
    assert_int_equal(count_charges(fixture), 2);
    kill(fixture->client.pid, SIGKILL);
    hx_mcp_client_stop(&fixture->client);
    assert_int_equal(waitpid(fixture->client.pid, NULL, 0), fixture->client.pid);
}

/* By default a cancel changes nothing, as with most servers; at end of input work is finished. */
static void cancels_and_the_end_of_input(void **state)
{
    static const char call[] =
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{"
        "\"name\":\"charge\",\"arguments\":{\"amount\":5,\"sleep_ms\":50}}}\n"
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
        "\"requestId\":1}}\n"
        /* The last line lacks its newline, and is a request all the same. */
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}";
    static const char *const options[] = {NULL, "--honour-cancel"};
    struct fixture *fixture = *state;
    for (int i = 0; i < 2; i++) {
        start(fixture, options[i]);
        say(fixture, call);
        close(fixture->client.in_fd);
        fixture->client.in_fd = -1;
        assert_true(
            hx_mcp_client_wait_closed(&fixture->client, hx_mono_after(hx_mcp_now(), STEP_MS)));
        assert_true(fixture->client.answers[2].is_there);
        assert_int_equal(fixture->client.answers[1].is_there, i == 0);
        assert_int_equal(count_charges(fixture), i + 1);
        stop(fixture);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(answers_and_refuses, setup, teardown),
        cmocka_unit_test_setup_teardown(a_slow_charge_blocks_nobody, setup, teardown),
        cmocka_unit_test_setup_teardown(cancels_and_the_end_of_input, setup, teardown),
    };
    if (argc != 2) {
        fputs("usage: test_example_server SERVER\n", stderr);
        return 2;
    }
    server_path = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
