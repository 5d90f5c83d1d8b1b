/* SPDX-License-Identifier: MIT */
/*
 * Nothing here is simulated: processes are started and killed, and effects are lines that the
 * server has synced to a file. Each failure is made at the worst moment, after the effect and
 * before the answer; a scene waits for the line to appear, never for time to pass, and says so when
 * the moment was missed.
 */
#include "app/demo_scene.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/mcp_client.h"
#include "app/offspring.h"
#include "base/fault.h"

#define STEP_MS 12000 /* no step of any scene takes so long unless something is broken */
#define EXIT_MS 8000  /* what may be left of a run after its clients are gone */
#define CHARGES_BYTES_MAX 32768
#define KEYED_CALLS 50

struct hx_demo_stage {
    struct hx_demo_run *run;
    const struct hx_demo_paths *paths;
    char charges[600]; /* the file that the server writes */
    char errors[600];
    struct hx_mcp_client client; /* the latest */
};

/* --- parts that scenes are made of --------------------------------------- */

static bool fail(struct hx_demo_stage *stage, const char *format, ...) HX_PRINTF(2, 3);
static bool fail(struct hx_demo_stage *stage, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(stage->run->problem, sizeof(stage->run->problem), format, args);
    va_end(args);
    return false;
}

static struct hx_mono soon(void)
{
    return hx_mono_after(hx_mcp_now(), STEP_MS);
}

/* The charges so far, as text; returns their number. */
static int read_charges(const struct hx_demo_stage *stage, char *ret_text)
{
    int fd = open(stage->charges, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? 0 : read(fd, ret_text, CHARGES_BYTES_MAX - 1);
    int count = 0;
    if (fd >= 0)
        close(fd);
    ret_text[len > 0 ? len : 0] = '\0';
    for (const char *at = ret_text; *at; at++)
        count += *at == '\n';
    return count;
}

static int count_charges(const struct hx_demo_stage *stage)
{
    char text[CHARGES_BYTES_MAX];
    return read_charges(stage, text);
}

static bool wait_for_charges(struct hx_demo_stage *stage, int count)
{
    struct hx_mono deadline = soon();
    while (count_charges(stage) < count) {
        if (hx_mono_reached(hx_mcp_now(), deadline))
            return fail(stage, "the server did not charge within %d s", STEP_MS / 1000);
        poll(NULL, 0, 5); /* the file is looked at again */
    }
    return true;
}

/* The process that did the first charge, out of the line it wrote. */
static pid_t charging_pid(const struct hx_demo_stage *stage)
{
    char text[CHARGES_BYTES_MAX];
    int pid = 0;
    if (read_charges(stage, text) < 1 || sscanf(text, "{\"pid\":%d", &pid) != 1)
        return 0;
    return pid;
}

/* Starts the server for a client, the way the client's configuration would. */
static bool start_client(struct hx_demo_stage *stage)
{
    char delay[16];
    char ledger[600];
    const struct hx_demo_scene *scene = hx_demo_scene(stage->run->scene);
    const struct hx_demo_paths *paths = stage->paths;
    const char *words[] = {paths->hapax, "run", "--name",      "demo",     "--ledger",
                           ledger,       "--",  paths->server, "--ledger", stage->charges,
                           "--delay-ms", delay, NULL};
    char *argv[sizeof(words) / sizeof(words[0])] = {NULL};
    size_t skipped = stage->run->is_guarded ? 0 : 7;
    snprintf(delay, sizeof(delay), "%d", scene->delay_ms);
    snprintf(ledger, sizeof(ledger), "%s/ledger", paths->directory);
    for (size_t i = skipped; words[i]; i++)
        argv[i - skipped] = (char *)(uintptr_t)words[i]; /* exec does not write to them */
    if (hx_mcp_client_start(&stage->client, argv, stage->errors) != 0)
        return fail(stage, "%s", hx_fault_last()->text);
    if (!hx_mcp_client_handshake(&stage->client, soon()))
        return fail(stage, "no answer to initialize from %s",
                    stage->run->is_guarded ? "hapax run" : "the server");
    return true;
}

/* Writes `count` equal calls with rising ids in one piece; `key` may be NULL. */
static bool send_calls(struct hx_demo_stage *stage, unsigned first_id, int count, int amount,
                       const char *key)
{
    struct hx_buf calls;
    hx_buf_init(&calls, CHARGES_BYTES_MAX);
    for (int i = 0; i < count; i++) {
        hx_buf_printf(&calls,
                      "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/call\",\"params\":{"
                      "\"name\":\"charge\",\"arguments\":{\"amount\":%d,\"currency\":\"EUR\"}",
                      first_id + (unsigned)i, amount);
        if (key)
            hx_buf_printf(&calls, ",\"_meta\":{\"dev.hapax/idempotencyKey\":\"%s\"}", key);
        hx_buf_append_cstr(&calls, "}}\n");
    }
    bool is_sent = hx_buf_ok(&calls) && hx_mcp_client_send(&stage->client, hx_buf_span(&calls));
    hx_buf_fini(&calls);
    stage->run->calls += count;
    return is_sent || fail(stage, "the server went away before the call was sent");
}

static bool send_call(struct hx_demo_stage *stage, unsigned id)
{
    return send_calls(stage, id, 1, 5, NULL);
}

static const char *receipt_in(const char *text)
{
    const char *receipt = strstr(text, "receipt ");
    return receipt ? receipt + strlen("receipt ") : NULL;
}

/* Compares what the caller was told with what the server wrote down. */
static enum hx_demo_told classify(const struct hx_demo_stage *stage,
                                  const struct hx_mcp_answer *answer)
{
    char charges[CHARGES_BYTES_MAX];
    char first[64] = "";
    (void)read_charges(stage, charges);
    if (!answer->is_there)
        return HX_TOLD_NOTHING;
    if (answer->is_error && strcmp(answer->code, "OUTCOME_UNKNOWN") == 0)
        return HX_TOLD_UNKNOWN;
    if (answer->is_error && strcmp(answer->code, "idempotency_key_conflict") == 0)
        return HX_TOLD_CONFLICT;
    const char *receipt = receipt_in(answer->text);
    if (answer->is_error || !receipt ||
        sscanf(charges, "{\"pid\":%*d,\"receipt\":\"%63[0-9-]\"", first) != 1)
        return HX_TOLD_OTHER;
    return strcmp(receipt, first) == 0 ? HX_TOLD_FIRST : HX_TOLD_NEW;
}

static bool take_answer(struct hx_demo_stage *stage, unsigned id)
{
    if (!hx_mcp_client_wait(&stage->client, id, soon()))
        return fail(stage,
                    stage->client.is_closed ? "the connection closed instead of an answer"
                                            : "no answer within %d s",
                    STEP_MS / 1000);
    stage->run->told = classify(stage, &stage->client.answers[id]);
    if (stage->run->told == HX_TOLD_OTHER)
        return fail(stage, "unexpected answer: %.60s %.120s", stage->client.answers[id].code,
                    stage->client.answers[id].text);
    return true;
}

/* The first attempt must still be without an answer when the failure strikes. */
static bool is_unanswered(struct hx_demo_stage *stage, unsigned id)
{
    return !stage->client.answers[id].is_there || fail(stage, "the answer came before the failure");
}

/* One call, and its effect is on disk. */
static bool begin(struct hx_demo_stage *stage)
{
    return start_client(stage) && send_call(stage, 1) && wait_for_charges(stage, 1);
}

/* Leaves the broken connection, starts a new process, repeats the call. */
static bool repeat_through_new_process(struct hx_demo_stage *stage)
{
    if (!hx_mcp_client_wait_closed(&stage->client, soon()))
        return fail(stage, "the connection did not close");
    if (!is_unanswered(stage, 1))
        return false;
    hx_mcp_client_stop(&stage->client);
    return start_client(stage) && send_call(stage, 1) && take_answer(stage, 1);
}

/* --- the scenes ---------------------------------------------------------- */

static bool play_timeout(struct hx_demo_stage *stage)
{
    static const char cancel[] =
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1,"
        "\"reason\":\"McpError: MCP error -32001: Request timed out\"}}\n";
    return begin(stage) && is_unanswered(stage, 1) &&
           hx_mcp_client_send(&stage->client, HX_SPAN_LIT(cancel)) && send_call(stage, 2) &&
           take_answer(stage, 2);
}

static bool play_front_killed(struct hx_demo_stage *stage)
{
    /* Bare, the process that the client started is the server itself. */
    if (!begin(stage))
        return false;
    const char *exe = stage->run->is_guarded ? stage->paths->hapax : stage->paths->server;
    if (!hx_offspring_kill(stage->client.pid, exe))
        return fail(stage, "the process that the client started could not be killed");
    return repeat_through_new_process(stage);
}

static bool play_server_killed(struct hx_demo_stage *stage)
{
    if (!begin(stage))
        return false;
    pid_t pid = charging_pid(stage);
    if (stage->run->is_guarded && pid == stage->client.pid)
        return fail(stage, "hapax run became the server itself");
    if (!hx_offspring_kill(pid, stage->paths->server))
        return fail(stage, "the server that charged could not be killed");
    if (!stage->run->is_guarded)
        return repeat_through_new_process(stage);
    /* The client still has its connection, is told, and repeats the call all the same. */
    if (!take_answer(stage, 1))
        return false;
    if (stage->run->told != HX_TOLD_UNKNOWN)
        return fail(stage, "the waiting caller was not told that the outcome is unknown");
    return send_call(stage, 2) && take_answer(stage, 2);
}

static bool play_keeper_killed(struct hx_demo_stage *stage)
{
    if (!begin(stage))
        return false;
    pid_t keeper = hx_offspring_pipe_reader(stage->client.in_fd, stage->client.pid);
    if (keeper == 0)
        return fail(stage, "no keeper holds the client's pipe");
    if (!hx_offspring_kill(keeper, stage->paths->hapax))
        return fail(stage, "the keeper could not be killed");
    return repeat_through_new_process(stage);
}

static bool play_client_killed(struct hx_demo_stage *stage)
{
    pid_t client = fork();
    if (client == 0) {
        if (start_client(stage) && send_call(stage, 1))
            (void)hx_mcp_client_wait(&stage->client, 1, soon()); /* killed before that */
        _exit(0);
    }
    stage->run->calls++; /* the one counted in the other process */
    if (client < 0)
        return fail(stage, "cannot start a process");
    if (!wait_for_charges(stage, 1))
        return false;
    int status = 0;
    if (kill(client, SIGKILL) != 0 || waitpid(client, &status, 0) != client || !WIFSIGNALED(status))
        return fail(stage, "the client ended before it could be killed");
    return start_client(stage) && send_call(stage, 1) && take_answer(stage, 1);
}

/* Are all answers results, and are their texts all equal or all different? */
static bool take_many(struct hx_demo_stage *stage, unsigned first_id, unsigned count)
{
    unsigned equal = 0;
    for (unsigned i = 0; i < count; i++) {
        if (!take_answer(stage, first_id + i))
            return false;
        for (unsigned j = 0; j < i; j++)
            equal += strcmp(stage->client.answers[first_id + i].text,
                            stage->client.answers[first_id + j].text) == 0;
    }
    if (equal != 0 && equal != count * (count - 1) / 2)
        return fail(stage, "some of the answers are equal and some are not");
    stage->run->told = equal ? HX_TOLD_ALL_SAME : HX_TOLD_EACH_OWN;
    return true;
}

static bool play_fifty_keyed(struct hx_demo_stage *stage)
{
    return start_client(stage) && send_calls(stage, 1, KEYED_CALLS, 5, "order-4711-charge") &&
           take_many(stage, 1, KEYED_CALLS);
}

static bool play_key_conflict(struct hx_demo_stage *stage)
{
    if (!start_client(stage) || !send_calls(stage, 1, 1, 5, "order-4711-charge") ||
        !take_answer(stage, 1))
        return false;
    if (stage->run->told != HX_TOLD_FIRST)
        return fail(stage, "the first call did not get its result");
    return send_calls(stage, 2, 1, 6, "order-4711-charge") && take_answer(stage, 2);
}

static bool play_two_in_turn(struct hx_demo_stage *stage)
{
    if (!start_client(stage) || !send_call(stage, 1) || !take_answer(stage, 1))
        return false;
    return send_call(stage, 2) && take_many(stage, 1, 2);
}

static bool play_two_at_once(struct hx_demo_stage *stage)
{
    return start_client(stage) && send_calls(stage, 1, 2, 5, NULL) && take_many(stage, 1, 2);
}

static const struct hx_demo_scene scenes[] = {
    {"timeout", "client timeout, retry", 2, 1, HX_TOLD_FIRST, 1500, play_timeout},
    {"front-killed", "started process killed", 2, 1, HX_TOLD_FIRST, 1500, play_front_killed},
    {"server-killed", "server killed", 2, 1, HX_TOLD_UNKNOWN, 1500, play_server_killed},
    {"keeper-killed", "keeper of Hapax killed", -1, 1, HX_TOLD_UNKNOWN, 1500, play_keeper_killed},
    {"client-killed", "client killed, restarted", 2, 1, HX_TOLD_FIRST, 1500, play_client_killed},
    {"fifty-keyed", "50 equal calls, one key", KEYED_CALLS, 1, HX_TOLD_ALL_SAME, 300,
     play_fifty_keyed},
    {"key-conflict", "key with other arguments", 2, 1, HX_TOLD_CONFLICT, 0, play_key_conflict},
    {"two-in-turn", "two meant, in turn", 2, 2, HX_TOLD_EACH_OWN, 0, play_two_in_turn},
    {"two-at-once", "two meant, at once", 2, 2, HX_TOLD_EACH_OWN, 300, play_two_at_once},
};

_Static_assert(KEYED_CALLS + 1 < HX_MCP_ANSWERS_MAX, "every call has a place for its answer");

size_t hx_demo_scene_count(void)
{
    return sizeof(scenes) / sizeof(scenes[0]);
}

const struct hx_demo_scene *hx_demo_scene(size_t index)
{
    hx_assert(index < hx_demo_scene_count());
    return &scenes[index];
}

const char *hx_demo_told_text(enum hx_demo_told told)
{
    switch (told) {
    case HX_TOLD_NOTHING:
        return "nothing";
    case HX_TOLD_FIRST:
        return "the first call's result";
    case HX_TOLD_NEW:
        return "a second charge's result";
    case HX_TOLD_EACH_OWN:
        return "each its own result";
    case HX_TOLD_ALL_SAME:
        return "all the same result";
    case HX_TOLD_UNKNOWN:
        return "unknown, do not repeat";
    case HX_TOLD_CONFLICT:
        return "key conflict";
    case HX_TOLD_OTHER:
        return "something else";
    }
    return "";
}

void hx_demo_scene_play(struct hx_demo_run *run, const struct hx_demo_paths *paths)
{
    struct hx_demo_stage *stage = &(struct hx_demo_stage){.run = run, .paths = paths};
    struct hx_mono start = hx_mcp_now();
    snprintf(stage->charges, sizeof(stage->charges), "%s/charges", paths->directory);
    snprintf(stage->errors, sizeof(stage->errors), "%s/stderr", paths->directory);
    signal(SIGPIPE, SIG_IGN); /* writing to a killed server is part of the play */
    stage->client.in_fd = -1;
    stage->client.out_fd = -1;
    if (!hx_offspring_adopt() || mkdir(paths->directory, 0700) != 0)
        fail(stage, "cannot prepare %.150s: %s", paths->directory, strerror(errno));
    else
        (void)scenes[run->scene].play(stage); /* what went wrong stands in run->problem */
    hx_mcp_client_stop(&stage->client);
    run->left_behind = hx_offspring_end(hx_mono_after(hx_mcp_now(), EXIT_MS));
    run->effects = count_charges(stage);
    run->elapsed_ms = hx_mono_since_ms(hx_mcp_now(), start);
}
