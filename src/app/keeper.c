/* SPDX-License-Identifier: MIT */
/*
 * `hapax run`: the keeper, which owns the client's pipes, the ledger and the server's process, and
 * ties them to a gateway.
 *
 * It ends when the gateway has nothing left to do: after the client's orderly end of input, or,
 * when the process that the client started is gone, after the work in hand has reached its outcome.
 */
#include <errno.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapter/neighbour_unix/neighbour_unix.h"
#include "adapter/stdio_front/stdio_front.h"
#include "app/admin.h"
#include "app/announce.h"
#include "app/commands.h"
#include "app/config.h"
#include "app/drain.h"
#include "app/ending.h"
#include "app/front.h"
#include "app/ledger_home.h"
#include "app/log.h"
#include "app/rules.h"
#include "app/server_name.h"
#include "app/settings_show.h"
#include "app/upstream.h"
#include "engine/gateway.h"
#include "loop/fd_state.h"
#include "loop/loop.h"

struct keeper {
    const struct hx_settings *settings;
    char **command;
    struct hx_clock_os clock;
    struct hx_loop *loop;
    struct hx_ledger_home home;
    struct hx_upstream_place place;
    struct hx_upstream *upstream;
    struct hx_downstream *downstream;
    struct hx_gateway *gateway;
    struct hx_admin *admin; /* NULL = no admin API */
    struct hx_courier *courier;
    struct hx_drain drain;
    struct hx_list upstream_inbox;
    struct hx_list downstream_inbox;
    struct hx_ending ending;
    char server_name[HX_SERVER_NAME_SIZE];
    char principal[32];
    bool has_dropped_stderr;
};

static void rules_for(void *context, struct hx_span tool, struct hx_tool_rules *ret_rules)
{
    struct keeper *keeper = context;
    hx_rules_for_tool(keeper->settings, tool, ret_rules);
}

/* The server's words go to the client's standard error as long as somebody reads it. A full pipe
 * must not stop us, so what does not fit is dropped. */
static void relay(void *context, struct hx_span text)
{
    struct keeper *keeper = context;
    char line[4096];
    if (keeper->has_dropped_stderr || (hx_fd_state(STDERR_FILENO, POLLOUT) & POLLOUT) == 0)
        return;
    size_t len = text.len < sizeof(line) - 1 ? text.len : sizeof(line) - 1;
    memcpy(line, text.ptr, len);
    line[len] = '\n';
    /* Nobody is owed these bytes; a short write loses them like a full pipe would. */
    if (write(STDERR_FILENO, line, len + 1) < 0)
        return;
}

static bool is_predecessor_draining(void *context)
{
    struct keeper *keeper = context;
    struct hx_id self = keeper->home.store->ops->owner(keeper->home.store);
    return hx_drain_count_others(keeper->home.transport_dir, keeper->server_name, &self) > 0;
}

static void stop_neighbour(void *context, const struct hx_id *who)
{
    struct keeper *keeper = context;
    if (keeper->home.neighbours != NULL)
        hx_neighbour_unix_stop(keeper->home.neighbours, who);
}

static struct hx_gateway_options gateway_options(struct keeper *keeper)
{
    const struct hx_settings *settings = keeper->settings;
    struct hx_gateway_options options = {
        .issue_secret = hx_ledger_home_secret(&keeper->home),
        .logs_arguments = settings->log_arguments,
        .redact = &keeper->home.redaction.names,
        .ops_options = hx_buf_span(&keeper->home.ops_options),
        .ends_with_client = true,
        .message_max = (size_t)settings->message_max,
        .orphan_timeout_ms = settings->tool.orphan_timeout,
        .waiters_max = 256,
        .requests_max = 16384,
        .request_bytes_max = (uint64_t)256 * 1024 * 1024,
        .queue_max = 1024 * 1024,
        .tell_max = (enum hx_tell)hx_settings_log_options(settings).level,
        .tell = hx_tell_log,
        .context = keeper,
    };
    hx_announce_options(settings, &options);
    return options;
}

/* One was made at the start, so that what is wrong with it is said at once. */
static struct hx_upstream *give_upstream(void *context)
{
    struct keeper *keeper = context;
    return keeper->upstream;
}

static void keep_upstream(void *context, struct hx_upstream *upstream)
{
    (void)context; /* freed at the end */
    (void)upstream;
}

static struct hx_server_options server_options(struct keeper *keeper)
{
    struct hx_server_options options =
        hx_upstream_server_options(keeper->settings, keeper->server_name);
    options.is_remote = hx_is_url(keeper->command[0]);
    options.target = hx_server_target(keeper->command, NULL, NULL);
    options.rules_for = rules_for;
    options.is_predecessor_draining = is_predecessor_draining;
    options.relay = relay;
    options.make_upstream = give_upstream;
    options.free_upstream = keep_upstream;
    options.context = keeper;
    return options;
}

static bool make_peers(struct keeper *keeper, const struct hx_keeper_fds *fds)
{
    bool is_remote = hx_is_url(keeper->command[0]);
    keeper->place = (struct hx_upstream_place){
        .command = is_remote ? NULL : keeper->command,
        .url = is_remote ? keeper->command[0] : NULL,
        /* Without a ledger there is no place for the lock, and nobody who would ask for it. */
        .transport_dir = keeper->home.has_ledger ? keeper->home.transport_dir : NULL,
        .settings = keeper->settings,
    };
    keeper->upstream = hx_upstream_make(keeper->loop, &keeper->upstream_inbox, &keeper->place);
    if (keeper->upstream == NULL) {
        fprintf(stderr, "hapax run: %s.\n", hx_fault_last()->text);
        return false;
    }
    if (hx_announce_open(keeper->loop, keeper->settings, &keeper->courier) < 0) {
        fprintf(stderr, "hapax run: outbox: %s.\n", hx_fault_last()->text);
        return false;
    }
    struct hx_stdio_front_options front = hx_stdio_front_defaults();
    front.in_fd = fds->in_fd;
    front.out_fd = fds->out_fd;
    front.life_fd = fds->life_fd;
    front.message_max_bytes = (size_t)keeper->settings->message_max;
    keeper->downstream = hx_stdio_front_new(keeper->loop, &keeper->downstream_inbox, &front);
    return true;
}

static void turn_until_done(struct keeper *keeper)
{
    while (!hx_gateway_is_done(keeper->gateway)) {
        bool had_any = hx_admin_turn(keeper->admin);
        int64_t wait_ms = hx_gateway_turn(keeper->gateway);
        if (hx_gateway_is_draining(keeper->gateway) && !keeper->has_dropped_stderr) {
            hx_log_drop_stderr();
            hx_keeper_drop_stderr();
            keeper->has_dropped_stderr = true;
            hx_admin_drain(keeper->admin); /* whoever comes next may want its place */
            struct hx_id owner = keeper->home.store->ops->owner(keeper->home.store);
            hx_drain_begin(&keeper->drain, keeper->home.transport_dir, keeper->server_name, &owner,
                           (unsigned)keeper->settings->drain_max, stop_neighbour, keeper);
        }
        if (hx_gateway_is_done(keeper->gateway))
            return;
        if (hx_loop_run_once(keeper->loop, had_any ? 0 : wait_ms) < 0)
            return;
    }
}

static void release(struct keeper *keeper)
{
    hx_gateway_free(keeper->gateway);
    hx_admin_free(keeper->admin);
    hx_announce_close(keeper->courier);
    hx_ending_fini(&keeper->ending);
    hx_stdio_front_free(keeper->downstream);
    hx_upstream_release(&keeper->place, keeper->upstream);
    hx_drain_end(&keeper->drain);
    hx_ledger_home_close(&keeper->home);
    hx_loop_free(keeper->loop);
    hx_log_close();
}

/* Another keeper may hold the place: the calls of this one matter more than its admin API. */
static void open_admin(struct keeper *keeper)
{
    const struct hx_admin_options options = {.loop = keeper->loop,
                                             .gateway = keeper->gateway,
                                             .clock = &keeper->clock.clock,
                                             .settings = keeper->settings,
                                             .ledger = keeper->home.path,
                                             .command = "run"};
    if (hx_admin_open(&options, &keeper->admin) != 0)
        fprintf(stderr, "hapax run: admin_listen: %s. The admin API is not offered here.\n",
                hx_fault_last()->text);
}

static int keeper_main(const struct hx_keeper_fds *fds, void *arg)
{
    struct keeper *keeper = arg;
    struct hx_log_options log = hx_settings_log_options(keeper->settings);
    /* A file that may not grow is a full disk: an error to report, not a death. */
    signal(SIGXFSZ, SIG_IGN);
    hx_clock_os_init(&keeper->clock);
    hx_list_init(&keeper->upstream_inbox);
    hx_list_init(&keeper->downstream_inbox);
    hx_drain_init(&keeper->drain);
    if (hx_log_open(&log) < 0)
        fprintf(stderr, "hapax run: the log cannot be opened: %s.\n", hx_fault_last()->text);
    snprintf(keeper->principal, sizeof(keeper->principal), "%lu", (unsigned long)getuid());
    hx_server_name(keeper->settings->name, "run", keeper->command, keeper->server_name);
    keeper->loop = hx_loop_new(&(struct hx_loop_clock){hx_clock_os_mono, NULL});
    if (keeper->loop == NULL) {
        fprintf(stderr, "hapax run: %s.\n", hx_fault_last()->text);
        return HX_EXIT_FAILED;
    }
    hx_ledger_home_open(&keeper->home, &keeper->clock, keeper->loop, "run", 0);
    if (!make_peers(keeper, fds)) {
        release(keeper);
        return HX_EXIT_FAILED;
    }
    hx_ending_init(&keeper->ending, keeper->loop, &keeper->gateway);
    struct hx_gateway_options options = gateway_options(keeper);
    struct hx_gateway_ports ports = {
        .clock = &keeper->clock.clock,
        .rand = hx_rand_os(),
        .store = keeper->home.store,
        .upstream_inbox = &keeper->upstream_inbox,
        .downstream_inbox = &keeper->downstream_inbox,
        .neighbours = keeper->home.neighbours,
        .courier = keeper->courier,
    };
    keeper->gateway = hx_gateway_new(&options, &ports);
    struct hx_server_options server = server_options(keeper);
    struct hx_session_options client = {
        .server = hx_server_new(keeper->gateway, &server),
        .downstream = keeper->downstream,
        .tenant = HX_SPAN_LIT("local"),
        .principal = hx_span_cstr(keeper->principal),
    };
    struct hx_session *session = hx_session_new(keeper->gateway, &client);
    open_admin(keeper);
    turn_until_done(keeper);
    bool was_served = hx_session_had_server(session);
    release(keeper);
    return was_served ? HX_EXIT_DONE : HX_EXIT_FAILED;
}

int hx_run(const struct hx_settings *settings, char **command)
{
    static struct keeper keeper; /* the keeper's for the life of its process */
    struct hx_complaint complaint;
    keeper.settings = settings;
    keeper.command = command;
    if (hx_ledger_home_find(&keeper.home, settings, &complaint) != 0) {
        fprintf(stderr, "hapax run: %s%s\n", complaint.text, hx_sentence_end(complaint.text));
        return HX_EXIT_FAILED;
    }
    return hx_front_run(keeper_main, &keeper);
}
