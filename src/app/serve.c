/* SPDX-License-Identifier: MIT */
/*
 * The process of `hapax serve`: made, turned, drained, released.
 */
#include "app/serve.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "adapter/http_server/http_server.h"
#include "app/announce.h"
#include "app/commands.h"
#include "app/front.h"
#include "app/log.h"
#include "app/serve_state.h"
#include "base/alloc.h"
#include "base/fault.h"

enum { TRIM_MS = 15 * 1000, DRAIN_MS = 30 * 1000, RENEW_LOOK_MS = 200 };

/* What holds for all of them must hold for the most demanding one. */
static size_t message_max(const struct hx_config *config)
{
    int64_t most = config->limits.body_max;
    for (size_t i = 0; i < config->upstream_count; i++) {
        if (config->upstreams[i].settings.message_max > most)
            most = config->upstreams[i].settings.message_max;
    }
    return (size_t)most;
}

static int64_t orphan_timeout_ms(const struct hx_config *config)
{
    int64_t most = 0;
    for (size_t i = 0; i < config->upstream_count; i++) {
        if (config->upstreams[i].settings.tool.orphan_timeout > most)
            most = config->upstreams[i].settings.tool.orphan_timeout;
    }
    return most;
}

static void make_gateway(struct serve *serve)
{
    const struct hx_config *config = serve->config;
    struct hx_gateway_options options = {
        .issue_secret = hx_ledger_home_secret(&serve->home),
        .logs_arguments = config->global.log_arguments,
        .redact = &serve->home.redaction.names,
        .ops_options = hx_buf_span(&serve->home.ops_options),
        .message_max = message_max(config),
        .orphan_timeout_ms = orphan_timeout_ms(config),
        .waiters_max = 256,
        .requests_max = 1024,
        .request_bytes_max = (uint64_t)config->limits.bodies_max,
        .queue_max = (uint64_t)config->limits.queue_max / 2,
        .tell_max = (enum hx_tell)hx_settings_log_options(&config->global).level,
        .tell = hx_tell_log,
        .session_over = serve_session_over,
        .context = serve,
    };
    hx_announce_options(&config->global, &options);
    const struct hx_gateway_ports ports = {
        .clock = &serve->clock.clock,
        .rand = hx_rand_os(),
        .store = serve->home.store,
        .upstream_inbox = &serve->upstream_inbox,
        .downstream_inbox = &serve->peer_inbox,
        .neighbours = serve->home.neighbours,
        .courier = serve->courier,
    };
    serve->gateway = hx_gateway_new(&options, &ports);
}

/* ---- where clients come ---- */

static int listen_at(struct serve *serve, const struct hx_config_listen *listen)
{
    const char *scheme = serve->config->tls_cert_file != NULL ? "https" : "http";
    uint16_t port = 0;
    if (listen->path != NULL) {
        if (hx_http_server_listen_unix(serve->web, listen->path) != 0)
            return 1;
        fprintf(stderr, "hapax serve: listening at unix:%s\n", listen->path);
        return 0;
    }
    if (hx_http_server_listen_tcp(serve->web, listen->host, listen->port, &port) != 0)
        return 1;
    bool is_v6 = strchr(listen->host, ':') != NULL;
    fprintf(stderr, "hapax serve: listening at %s://%s%s%s:%u/mcp\n", scheme, is_v6 ? "[" : "",
            listen->host, is_v6 ? "]" : "", port);
    return 0;
}

/* With room for `more`; ended by NULL. The caller frees the array. */
static const char **strings_of(const struct hx_text_list *list, size_t more)
{
    const char **strings = hx_new_bytes((list->count + more + 1) * sizeof(*strings));
    for (size_t i = 0; i < list->count; i++)
        strings[i] = list->items[i].ptr;
    strings[list->count] = NULL;
    return strings;
}

/* The operator has named the addresses that we listen at, unless that is any. To a browser that one
 * is this host by another name, which pages of others may use. */
static const char **hosts_of(const struct hx_config *config)
{
    const char **hosts = strings_of(&config->allowed_hosts, config->listen_count);
    size_t count = config->allowed_hosts.count;
    for (size_t i = 0; i < config->listen_count; i++) {
        const char *host = config->listens[i].host;
        if (config->listens[i].path == NULL && strcmp(host, "0.0.0.0") != 0 &&
            strcmp(host, "::") != 0)
            hosts[count++] = host;
    }
    hosts[count] = NULL;
    return hosts;
}

static int open_web(struct serve *serve)
{
    const struct hx_config *config = serve->config;
    struct hx_http_server_options options = hx_limits_http_server(&config->limits);
    serve->web = hx_http_server_new(serve->loop, &serve->web_inbox, &options);
    if (config->tls_cert_file != NULL &&
        hx_http_server_use_tls(serve->web, config->tls_cert_file, config->tls_key_file) != 0)
        return 1;
    for (size_t i = 0; i < config->listen_count; i++) {
        if (listen_at(serve, &config->listens[i]) != 0)
            return 1;
    }
    struct hx_http_front_options front = hx_http_front_defaults();
    front.clock = &serve->clock.clock;
    front.rand = hx_rand_os();
    front.peer_inbox = &serve->peer_inbox;
    front.front_inbox = &serve->front_inbox;
    front.origins = serve->origins = strings_of(&config->allowed_origins, 0);
    front.hosts = serve->hosts = hosts_of(config);
    front.message_max_bytes = message_max(config);
    front.sessions_max = (uint32_t)config->limits.sessions;
    front.sessions_per_principal_max = (uint32_t)config->limits.sessions_per_principal;
    front.taken_back_within_ms = config->limits.taken_back_within;
    front.authenticate = serve_authenticate;
    front.find_endpoint = serve_find_endpoint;
    front.context = serve;
    serve->front = hx_http_front_new(serve->loop, serve->web, &front);
    return 0;
}

/* ---- its life ---- */

static void on_drain_due(void *arg)
{
    struct serve *serve = arg;
    hx_gateway_drain(serve->gateway);
}

static void on_signal(void *arg, int number)
{
    struct serve *serve = arg;
    (void)number;
    if (serve->term_count++ > 0) {
        hx_gateway_stop(serve->gateway);
        return;
    }
    serve->is_draining = true;
    hx_http_front_drain(serve->front);
    serve->web->ops->drain(serve->web);
    hx_admin_drain(serve->admin);
    hx_loop_timer_set(serve->drain_timer, DRAIN_MS);
}

static void on_renew_look(void *arg)
{
    struct serve *serve = arg;
    if (serve_renew_sessions(serve))
        hx_loop_timer_set(serve->renew_timer, RENEW_LOOK_MS);
}

static void on_hup(void *arg, int number)
{
    struct serve *serve = arg;
    (void)number;
    if (serve->is_draining)
        return;
    serve_reload(serve);
    on_renew_look(serve);
}

static void on_idle_look(void *arg)
{
    struct serve *serve = arg;
    hx_loop_timer_set(serve->idle_timer, serve_end_idle_sessions(serve));
}

/* What sessions and their connections gave back lies between what others keep. */
static void on_trim_due(void *arg)
{
    struct serve *serve = arg;
    hx_memory_trim();
    hx_loop_timer_set(serve->trim_timer, TRIM_MS);
}

/* When the last answer is out, what is left in hand is finished without anybody. */
static void go_on_draining(struct serve *serve)
{
    if (serve->is_draining && !hx_gateway_is_draining(serve->gateway) &&
        hx_http_front_is_drained(serve->front))
        hx_gateway_drain(serve->gateway);
}

static void turn_until_done(struct serve *serve)
{
    /* Bounded, so that busy clients cannot keep the loop from turning. */
    enum { ROUNDS_MAX = 8 };
    while (!hx_gateway_is_done(serve->gateway)) {
        int64_t wait_ms = 0;
        bool had_any = true;
        for (int round = 0; had_any && round < ROUNDS_MAX; round++) {
            had_any = hx_http_front_turn(serve->front);
            had_any |= serve_take_front(serve);
            had_any |= hx_admin_turn(serve->admin);
            had_any |= hx_merge_take(&serve->merge_inbox);
            had_any |= !hx_list_is_empty(&serve->peer_inbox);
            go_on_draining(serve);
            wait_ms = hx_gateway_turn(serve->gateway);
        }
        /* What these turns have finished is nothing to wait for. */
        if (hx_gateway_is_done(serve->gateway))
            return;
        if (hx_loop_run_once(serve->loop, had_any ? 0 : wait_ms) < 0)
            return;
    }
}

static void release(struct serve *serve)
{
    hx_gateway_free(serve->gateway);
    hx_admin_free(serve->admin);
    hx_announce_close(serve->courier);
    hx_http_front_free(serve->front);
    hx_http_server_free(serve->web);
    hx_free(serve->origins);
    hx_free(serve->hosts);
    serve_sessions_fini(serve);
    serve_free_upstreams(serve);
    hx_loop_signal_free(serve->term_watch);
    hx_loop_signal_free(serve->int_watch);
    hx_loop_signal_free(serve->hup_watch);
    hx_loop_timer_free(serve->idle_timer);
    hx_loop_timer_free(serve->trim_timer);
    hx_loop_timer_free(serve->drain_timer);
    hx_loop_timer_free(serve->renew_timer);
    hx_ledger_home_close(&serve->home);
    hx_loop_free(serve->loop);
    hx_log_close();
}

/* A terminal that hangs up means "end"; elsewhere the signal means "read your configuration". */
static void watch_signals(struct serve *serve)
{
    bool has_terminal = isatty(STDIN_FILENO) == 1;
    serve->term_watch = hx_loop_signal_new(serve->loop, SIGTERM, on_signal, serve);
    serve->int_watch = hx_loop_signal_new(serve->loop, SIGINT, on_signal, serve);
    serve->hup_watch =
        hx_loop_signal_new(serve->loop, SIGHUP, has_terminal ? on_signal : on_hup, serve);
    serve->idle_timer = hx_loop_timer_new(serve->loop, on_idle_look, serve);
    serve->drain_timer = hx_loop_timer_new(serve->loop, on_drain_due, serve);
    serve->renew_timer = hx_loop_timer_new(serve->loop, on_renew_look, serve);
    serve->trim_timer = hx_loop_timer_new(serve->loop, on_trim_due, serve);
    on_idle_look(serve);
    hx_loop_timer_set(serve->trim_timer, TRIM_MS);
}

static int serve_until_done(struct serve *serve)
{
    const struct hx_config *config = serve->config;
    watch_signals(serve); /* one that comes before we turn is taken then */
    hx_ledger_home_open(&serve->home, &serve->clock, serve->loop, "serve", 0);
    if (hx_announce_open(serve->loop, &config->global, &serve->courier) < 0) {
        fprintf(stderr, "hapax serve: outbox: %s.\n", hx_fault_last()->text);
        return HX_EXIT_FAILED;
    }
    make_gateway(serve);
    serve_take_config(serve, serve->source);
    if (open_web(serve) != 0) {
        fprintf(stderr, "hapax serve: %s.\n", hx_fault_last()->text);
        return HX_EXIT_FAILED;
    }
    const struct hx_admin_options admin = {.loop = serve->loop,
                                           .gateway = serve->gateway,
                                           .clock = &serve->clock.clock,
                                           .settings = &config->global,
                                           .ledger = serve->home.path,
                                           .command = "serve"};
    if (hx_admin_open(&admin, &serve->admin) != 0) {
        fprintf(stderr, "hapax serve: admin_listen: %s.\n", hx_fault_last()->text);
        return HX_EXIT_FAILED;
    }
    for (size_t i = 0; i < config->upstream_count; i++)
        fprintf(stderr, "hapax serve: /mcp/%s is %s\n", config->upstreams[i].name,
                config->upstreams[i].url ? config->upstreams[i].url
                                         : config->upstreams[i].command[0]);
    turn_until_done(serve);
    return HX_EXIT_DONE;
}

int hx_serve(const struct hx_config *config, int argc, char **argv)
{
    static struct serve serve; /* this process's, for its life */
    static struct serve_config first;
    struct hx_complaint complaint;
    struct hx_log_options log = hx_settings_log_options(&config->global);
    first = (struct serve_config){.config = config, .users = 2}; /* one for whom we borrow it of */
    serve.config = config;
    serve.source = &first;
    serve.argc = argc;
    serve.argv = argv;
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    hx_own_stderr();
    hx_clock_os_init(&serve.clock);
    hx_list_init(&serve.upstream_inbox);
    hx_list_init(&serve.peer_inbox);
    hx_list_init(&serve.front_inbox);
    hx_list_init(&serve.web_inbox);
    hx_list_init(&serve.merge_inbox);
    hx_list_init(&serve.all_served);
    hx_list_init(&serve.holders);
    serve_sessions_init(&serve);
    snprintf(serve.principal, sizeof(serve.principal), "%lu", (unsigned long)getuid());
    if (hx_ledger_home_find(&serve.home, &config->global, &complaint) != 0) {
        fprintf(stderr, "hapax serve: %s%s\n", complaint.text, hx_sentence_end(complaint.text));
        return HX_EXIT_FAILED;
    }
    if (hx_log_open(&log) < 0)
        fprintf(stderr, "hapax serve: the log cannot be opened: %s.\n", hx_fault_last()->text);
    serve.loop = hx_loop_new(&(struct hx_loop_clock){hx_clock_os_mono, NULL});
    if (serve.loop == NULL) {
        fprintf(stderr, "hapax serve: %s.\n", hx_fault_last()->text);
        return HX_EXIT_FAILED;
    }
    int status = serve_until_done(&serve);
    release(&serve);
    return status;
}
