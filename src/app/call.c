/* SPDX-License-Identifier: MIT */
/*
 * The process of `hapax call`: a gateway with one client, which is a part of it, and a ledger of
 * its own. Everything about sending again, asking and being unknown is what the engine does for any
 * client; here the call is written down, begun, and its answer shown.
 *
 * Like `hapax run` it is two processes (front.h), so that whoever is killed while he waits has
 * killed nothing: the keeper goes on to the outcome, and --resume finds it. When the wait is over
 * the front ends and the keeper goes on in the same way.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "adapter/call_front/call_front.h"
#include "adapter/store_sqlite/files.h"
#include "app/call_intent.h"
#include "app/call_options.h"
#include "app/call_report.h"
#include "app/commands.h"
#include "app/ending.h"
#include "app/front.h"
#include "app/ledger_home.h"
#include "app/log.h"
#include "app/rules.h"
#include "app/server_name.h"
#include "app/settings_show.h"
#include "app/upstream.h"
#include "base/crash.h"
#include "base/shell.h"
#include "engine/gateway.h"
#include "loop/fd_state.h"
#include "loop/loop.h"
#include "json/fingerprint.h"

enum { INTENT_ARENA_MAX = 600 << 20 };

struct call {
    const struct hx_call_options *options;
    const struct hx_settings *settings;
    const struct hx_call_intent *intent;
    const char *ledger;
    struct hx_call_intent known; /* what was written down first, under the same key */
    struct hx_call_hold hold;
    bool is_fresh;
    bool is_told;
    struct hx_clock_os clock;
    struct hx_loop *loop;
    struct hx_ledger_home home;
    struct hx_upstream_place place;
    struct hx_upstream *upstream;
    struct hx_downstream *downstream;
    struct hx_gateway *gateway;
    struct hx_list upstream_inbox;
    struct hx_list downstream_inbox;
    struct hx_ending ending;
    struct hx_arena intent_arena;
    struct hx_buf ops_options;
    char principal[32];
    FILE *out;
    int out_fd;
    int status;
    bool has_let_go;
};

/* ---- what the engine asks ---- */

static void rules_for(void *context, struct hx_span tool, struct hx_tool_rules *ret_rules)
{
    struct call *call = context;
    hx_rules_for_tool(call->settings, tool, ret_rules);
    /* Without them nobody could go on with it. */
    ret_rules->has_stored_arguments = true;
}

static void relay(void *context, struct hx_span text)
{
    const struct call *call = context;
    if (!call->has_let_go && (hx_fd_state(STDERR_FILENO, POLLOUT) & POLLOUT) != 0)
        fprintf(stderr, "%.*s\n", HX_SPAN_FMT(text));
}

static bool is_predecessor_draining(void *context)
{
    (void)context; /* each call has its own process of the server */
    return false;
}

static struct hx_upstream *give_upstream(void *context)
{
    return ((struct call *)context)->upstream;
}

static void keep_upstream(void *context, struct hx_upstream *upstream)
{
    (void)context; /* freed at the end */
    (void)upstream;
}

/* ---- written down ---- */

static bool is_same_call(const struct hx_call_intent *one, const struct hx_call_intent *other)
{
    const struct hx_json_limits limits = HX_JSON_LIMITS_DEFAULT;
    struct hx_fingerprinter fingerprinter;
    struct hx_digest a, b;
    hx_fingerprinter_init(&fingerprinter);
    bool is_same = hx_fingerprint(&fingerprinter, one->arguments, &limits, NULL, &a, NULL) == 0 &&
                   hx_fingerprint(&fingerprinter, other->arguments, &limits, NULL, &b, NULL) == 0 &&
                   hx_digest_eq(&a, &b);
    hx_fingerprinter_fini(&fingerprinter);
    return is_same;
}

static struct hx_call_name name_of(const struct call *call)
{
    struct hx_call_intents intents;
    hx_call_intents_init(&intents, call->ledger);
    return (struct hx_call_name){
        .key = call->intent->key,
        .server = call->intent->server,
        .tool = call->intent->tool,
        .is_shared = hx_call_intents_share(&intents, call->intent->key),
    };
}

/* Its file cannot be taken away, so a later process would run it: no word of "nothing will". */
static int tell_it_stays(const struct call *call)
{
    struct hx_buf resume, give_up;
    hx_buf_init(&resume, 16 * 1024);
    hx_buf_init(&give_up, 16 * 1024);
    struct hx_call_name name = name_of(call);
    hx_call_open_command(&resume, "--resume", &name, call->ops_options.data);
    hx_call_open_command(&give_up, "--give-up", &name, call->ops_options.data);
    fprintf(stderr,
            "hapax call: nothing was sent, but the call stays written down (%s). To do it: %.*s; "
            "not to do it: %.*s\n",
            hx_fault_last()->text, HX_SPAN_FMT(hx_buf_span(&resume)),
            HX_SPAN_FMT(hx_buf_span(&give_up)));
    hx_buf_fini(&resume);
    hx_buf_fini(&give_up);
    return HX_CALL_EXIT_STILL_RUNNING;
}

/* Before the caller hears that nothing was sent: he may do it again under a new key. Returns the
 * exit status that is true then. */
static int forget_unsent(struct call *call, int status)
{
    if (!call->is_fresh || hx_call_intent_remove(&call->hold))
        return status;
    return tell_it_stays(call);
}

/* 0, or the exit status after having said why. */
static int write_down(struct call *call)
{
    struct hx_call_intents intents;
    hx_call_intents_init(&intents, call->ledger);
    int rc = hx_directory_make(call->ledger);
    if (rc == 0)
        rc = hx_call_intent_keep(&intents, call->intent, &call->intent_arena, &call->hold,
                                 &call->known);
    if (rc < 0) {
        fprintf(stderr, "hapax call: nothing was sent: %s.\n", hx_fault_last()->text);
        return HX_CALL_EXIT_NO_LEDGER;
    }
    if (rc == HX_CALL_INTENT_STAYS)
        return tell_it_stays(call);
    call->is_fresh = rc == 0;
    if (call->is_fresh)
        return 0;
    if (!is_same_call(call->intent, &call->known)) {
        fprintf(stderr, "hapax call: nothing was sent: the key belongs to a call with other "
                        "arguments that is still open.\n");
        return HX_CALL_EXIT_NOT_HAPPENED;
    }
    return 0;
}

static void tell_key(const struct call *call)
{
    struct hx_buf command;
    if (call->options->action != HX_CALL_NEW || call->options->key != NULL)
        return;
    hx_buf_init(&command, 16 * 1024);
    struct hx_call_name name = name_of(call);
    hx_call_open_command(&command, "--resume", &name, call->ops_options.data);
    fprintf(stderr, "hapax call: the key is %.*s; if this is cut off: %.*s\n",
            HX_SPAN_FMT(call->intent->key), HX_SPAN_FMT(hx_buf_span(&command)));
    hx_buf_fini(&command);
}

/* ---- shown ---- */

/* Whoever reads our output must see that it is over; the work goes on without him. */
static void let_go_of_reader(struct call *call)
{
    if (call->has_let_go)
        return;
    call->has_let_go = true;
    (void)fclose(call->out);
    call->out = NULL;
    hx_log_drop_stderr();
    hx_keeper_drop_stderr();
}

/* Of what is not shown the answer is asked for again; "nothing was sent" is true all the same. */
static void tell_unshown(struct call *call, bool is_unsent)
{
    fprintf(stderr, "hapax call: the answer could not be written%s.\n",
            is_unsent ? "" : "; it is kept");
    if (!is_unsent)
        call->status = HX_CALL_EXIT_STILL_RUNNING;
}

static void show(struct call *call, const struct hx_call_answer *answer)
{
    bool is_unsent = hx_call_is_unsent(answer);
    struct hx_call_told told = {
        .answer = answer,
        .name = name_of(call),
        .status = hx_call_exit_status(answer),
        .ops_options = call->ops_options.data,
        .is_json = call->options->is_json,
    };
    call->is_told = true;
    HX_CRASH_POINT("call-answer-unshown");
    if (is_unsent)
        told.status = forget_unsent(call, told.status);
    call->status = told.status;
    bool was_shown = hx_call_report(&told, call->out, stderr);
    HX_CRASH_POINT("call-answer-shown");
    /* One that stays is asked for again, and gets the same answer. */
    if (was_shown && call->hold.fd >= 0 && hx_call_is_settled(answer, call->is_fresh))
        (void)hx_call_intent_remove(&call->hold);
    if (!was_shown)
        tell_unshown(call, is_unsent);
    hx_call_front_leave(call->downstream, was_shown);
    let_go_of_reader(call);
    /* What is left is to end the server, or to go on without anybody who waits. */
    if (answer->kind == HX_CALL_WAIT_OVER)
        hx_keeper_let_go(call->status);
    hx_gateway_drain(call->gateway);
}

static void tell_interrupted(struct call *call)
{
    struct hx_buf command;
    if (call->is_told)
        return;
    hx_buf_init(&command, 16 * 1024);
    struct hx_call_name name = name_of(call);
    hx_call_open_command(&command, "--resume", &name, call->ops_options.data);
    fprintf(stderr, "hapax call: interrupted; what was begun goes on. Its answer: %.*s\n",
            HX_SPAN_FMT(hx_buf_span(&command)));
    hx_buf_fini(&command);
    call->is_told = true;
    call->status = HX_CALL_EXIT_STILL_RUNNING;
}

static void turn_until_done(struct call *call)
{
    while (!hx_gateway_is_done(call->gateway)) {
        int64_t wait_ms = hx_gateway_turn(call->gateway);
        const struct hx_call_answer *answer = hx_call_front_answer(call->downstream);
        if (hx_gateway_is_draining(call->gateway)) {
            tell_interrupted(call);
            let_go_of_reader(call);
        } else if (answer != NULL && !call->is_told) {
            show(call, answer);
            wait_ms = 0;
        }
        if (hx_gateway_is_done(call->gateway) || hx_loop_run_once(call->loop, wait_ms) < 0)
            return;
    }
}

/* ---- the way out ---- */

/* A pipe that others have set not to block is waited for, as one that blocks would be; what does
 * not fit would be lost, each time it is asked for. */
static ssize_t write_out(void *cookie, const char *bytes, size_t len)
{
    const int fd = *(const int *)cookie;
    size_t done = 0;
    while (done < len) {
        ssize_t put = write(fd, bytes + done, len - done);
        struct pollfd room = {.fd = fd, .events = POLLOUT};
        if (put >= 0)
            done += (size_t)put;
        else if (errno == EAGAIN)
            (void)poll(&room, 1, -1); /* interrupted or not, the write tells */
        else if (errno != EINTR)
            return 0; /* for this kind of stream that is the error */
    }
    return (ssize_t)len;
}

static int close_out(void *cookie)
{
    return close(*(const int *)cookie);
}

/* ---- made and released ---- */

static bool make_peers(struct call *call, int life_fd)
{
    const struct hx_call_options *options = call->options;
    /* What was meant first is what is said each time. */
    const struct hx_call_intent *said = call->is_fresh ? call->intent : &call->known;
    call->place = (struct hx_upstream_place){
        .command = options->command,
        .env = options->env,
        .cwd = options->cwd,
        .url = options->url,
        .headers = options->headers,
        .transport_dir = call->home.has_ledger ? call->home.transport_dir : NULL,
        .settings = call->settings,
    };
    const struct hx_call_front_options front = {
        .rand = hx_rand_os(),
        .tool = said->tool,
        .arguments = said->arguments,
        .key = said->key,
        .first_sent = said->first_sent,
        .version = HX_VERSION,
        .wait_ms = options->wait_ms,
        /* A ledger that could not be opened is not opened again by this process. */
        .asks_unavailable_again = options->is_wait_given && call->home.has_ledger,
        .life_fd = life_fd,
    };
    call->downstream = hx_call_front_new(call->loop, &call->downstream_inbox, &front);
    call->upstream = hx_upstream_make(call->loop, &call->upstream_inbox, &call->place);
    if (call->upstream != NULL)
        return true;
    fprintf(stderr, "hapax call: nothing was sent: %s.\n", hx_fault_last()->text);
    return false;
}

/* A person at a shell reads what became of his call; how it came to that is for a log. */
static enum hx_tell tell_max(const struct call *call)
{
    const struct hx_settings *given = &call->options->given;
    bool is_wanted =
        hx_setting_set_has(&given->declared, HX_SETTING_log_level) || given->log_file != NULL;
    return is_wanted ? (enum hx_tell)hx_settings_log_options(given).level : HX_TELL_ERROR;
}

static void make_gateway(struct call *call)
{
    const struct hx_settings *settings = call->settings;
    struct hx_gateway_options options = {
        .ops_options = hx_buf_span(&call->ops_options),
        .redact = &call->home.redaction.names,
        .ends_with_client = true,
        .message_max = (size_t)settings->message_max,
        .orphan_timeout_ms = settings->tool.orphan_timeout,
        .waiters_max = 256,
        .requests_max = 64,
        .request_bytes_max = (uint64_t)512 * 1024 * 1024,
        .queue_max = 1024 * 1024,
        .tell_max = tell_max(call),
        .tell = hx_tell_log,
        .context = call,
    };
    struct hx_gateway_ports ports = {
        .clock = &call->clock.clock,
        .rand = hx_rand_os(),
        .store = call->home.store,
        .upstream_inbox = &call->upstream_inbox,
        .downstream_inbox = &call->downstream_inbox,
        .neighbours = call->home.neighbours,
    };
    call->gateway = hx_gateway_new(&options, &ports);
    struct hx_server_options server =
        hx_upstream_server_options(settings, call->intent->server.ptr);
    server.is_remote = call->options->url != NULL;
    server.target =
        hx_server_target(call->options->command, call->options->cwd, call->options->url);
    server.rules_for = rules_for;
    server.is_predecessor_draining = is_predecessor_draining;
    server.relay = relay;
    server.make_upstream = give_upstream;
    server.free_upstream = keep_upstream;
    server.context = call;
    struct hx_session_options client = {
        .server = hx_server_new(call->gateway, &server),
        .downstream = call->downstream,
        .tenant = HX_SPAN_LIT("local"),
        .principal = hx_span_cstr(call->principal),
        /* So the handshake is the gateway's own: it is made again with each connection, and nothing
         * is sent to a server that was not greeted. */
        .share = HX_SPAN_LIT("call"),
    };
    (void)hx_session_new(call->gateway, &client);
    hx_ending_init(&call->ending, call->loop, &call->gateway);
}

static void release(struct call *call)
{
    hx_gateway_free(call->gateway);
    hx_ending_fini(&call->ending);
    hx_call_front_free(call->downstream);
    hx_upstream_release(&call->place, call->upstream);
    hx_call_intent_release(&call->hold);
    hx_ledger_home_close(&call->home);
    hx_loop_free(call->loop);
    hx_arena_fini(&call->intent_arena);
    hx_buf_fini(&call->ops_options);
    if (call->out != NULL)
        (void)fclose(call->out);
    hx_log_close();
}

static int make_and_turn(struct call *call, int life_fd)
{
    struct hx_log_options log = hx_settings_log_options(&call->options->given);
    int status = write_down(call);
    if (status != 0) {
        (void)close(life_fd);
        return status;
    }
    tell_key(call);
    if (hx_log_open(&log) < 0)
        fprintf(stderr, "hapax call: the log cannot be opened: %s.\n", hx_fault_last()->text);
    call->loop = hx_loop_new(&(struct hx_loop_clock){hx_clock_os_mono, NULL});
    if (call->loop == NULL) {
        fprintf(stderr, "hapax call: nothing was sent: %s.\n", hx_fault_last()->text);
        (void)close(life_fd);
        return forget_unsent(call, HX_CALL_EXIT_NO_LEDGER);
    }
    hx_ledger_home_open(&call->home, &call->clock, call->loop, "call", 0);
    if (!make_peers(call, life_fd))
        return forget_unsent(call, HX_CALL_EXIT_NO_SERVER);
    make_gateway(call);
    call->status = HX_CALL_EXIT_STILL_RUNNING;
    turn_until_done(call);
    return call->status;
}

static int keeper_main(const struct hx_keeper_fds *fds, void *arg)
{
    struct call *call = arg;
    (void)close(fds->in_fd);
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    call->hold.fd = -1;
    call->out_fd = fds->out_fd;
    call->out = fopencookie(&call->out_fd, "w",
                            (cookie_io_functions_t){.write = write_out, .close = close_out});
    hx_clock_os_init(&call->clock);
    hx_list_init(&call->upstream_inbox);
    hx_list_init(&call->downstream_inbox);
    hx_arena_init(&call->intent_arena, INTENT_ARENA_MAX);
    snprintf(call->principal, sizeof(call->principal), "%lu", (unsigned long)getuid());
    hx_buf_init(&call->ops_options, 32 * 1024);
    (void)hx_buf_append_cstr(&call->ops_options, "--ledger ");
    (void)hx_shell_word(&call->ops_options, hx_span_cstr(call->ledger));
    (void)hx_buf_append_char(&call->ops_options, '\0');
    if (call->out == NULL || !hx_buf_ok(&call->ops_options)) {
        fputs("hapax call: nothing was sent: out of memory.\n", stderr);
        return HX_CALL_EXIT_NO_LEDGER;
    }
    call->ops_options.len--; /* the NUL stays behind it */
    int status = make_and_turn(call, fds->life_fd);
    release(call);
    return status;
}

int hx_call_run(const struct hx_call_options *options, const struct hx_call_intent *intent,
                const char *ledger)
{
    static struct call call; /* the keeper's for the life of its process */
    struct hx_settings place;
    struct hx_complaint complaint;
    call = (struct call){
        .options = options, .settings = options->settings, .intent = intent, .ledger = ledger};
    hx_settings_init(&place);
    int rc = hx_settings_set(&place, HX_SPAN_LIT("ledger"), hx_span_cstr(ledger), &complaint);
    if (rc == 0)
        rc = hx_ledger_home_find(&call.home, &place, &complaint);
    if (rc == 0)
        rc = hx_ledger_home_redact(&call.home, &options->given.redact, &complaint);
    if (rc == 0) /* of the file, if the target is named in one */
        rc = hx_ledger_home_redact(&call.home, &options->config.global.redact, &complaint);
    hx_settings_fini(&place);
    if (rc != 0) {
        fprintf(stderr, "hapax call: %s%s\n", complaint.text, hx_sentence_end(complaint.text));
        return HX_CALL_EXIT_NO_LEDGER;
    }
    return hx_front_run(keeper_main, &call);
}
