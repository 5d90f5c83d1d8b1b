/* SPDX-License-Identifier: MIT */
/*
 * What `hapax serve` says about requests before any MCP: who may come, where the endpoints are, and
 * the paths for operators.
 */
#include <stdio.h>
#include <string.h>

#include "app/serve_state.h"
#include "base/fault.h"

/* The token behind "Bearer "; absent when there is none. */
static struct hx_span bearer_of(struct hx_span authorization)
{
    const struct hx_span scheme = HX_SPAN_LIT("bearer ");
    if (hx_span_is_absent(authorization) || authorization.len <= scheme.len ||
        !hx_span_eq_nocase(hx_span(authorization.ptr, scheme.len), scheme))
        return HX_SPAN_NONE;
    struct hx_span token = hx_span(authorization.ptr + scheme.len, authorization.len - scheme.len);
    while (token.len > 0 && token.ptr[0] == ' ') {
        token.ptr++;
        token.len--;
    }
    return token;
}

bool serve_authenticate(void *context, struct hx_span authorization, bool is_local,
                        struct hx_http_caller *ret_caller)
{
    struct serve *serve = context;
    (void)is_local; /* whoever comes by a Unix socket needs a token too, where there are any */
    if (serve->config->token_count == 0) {
        *ret_caller = (struct hx_http_caller){.tenant = HX_SPAN_LIT(HX_TENANT_DEFAULT),
                                              .principal = hx_span_cstr(serve->principal)};
        return true;
    }
    struct hx_span token = bearer_of(authorization);
    const struct hx_config_token *found =
        hx_span_is_absent(token) ? NULL : hx_tokens_find(serve->config, token);
    if (found == NULL)
        return false;
    const struct serve_holder *holder = serve->holder_of[found - serve->config->tokens];
    *ret_caller = (struct hx_http_caller){.tenant = hx_span_cstr(holder->tenant),
                                          .principal = hx_span_cstr(holder->principal),
                                          .context = holder};
    return true;
}

bool serve_may_use(const struct serve_holder *holder, const struct hx_config_upstream *upstream)
{
    return holder == NULL ||
           (holder->token != NULL && hx_token_opens(holder->token, upstream->name));
}

/* All servers together. The one server of a command line has no prefix, so there is nothing to
 * merge. */
static int find_root(const struct serve *serve, const struct hx_http_caller *caller)
{
    const struct hx_config *config = serve->config;
    bool is_plain = config->upstream_count == 1 && config->upstreams[0].prefix[0] == '\0';
    for (size_t i = 0; i < config->upstream_count; i++) {
        if (serve_may_use(caller->context, &config->upstreams[i]))
            return is_plain ? (int)serve->served[0]->endpoint : (int)SERVE_MERGED;
    }
    return -1;
}

int serve_find_endpoint(void *context, struct hx_span path, const struct hx_http_caller *caller)
{
    const struct serve *serve = context;
    const struct hx_config *config = serve->config;
    const struct hx_span root = HX_SPAN_LIT("/mcp");
    if (!hx_span_starts_with(path, root))
        return -1;
    struct hx_span name = hx_span(path.ptr + root.len, path.len - root.len);
    if (name.len > 0 && name.ptr[name.len - 1] == '/')
        name.len--;
    if (name.len == 0)
        return find_root(serve, caller);
    if (name.ptr[0] != '/')
        return -1;
    for (size_t i = 0; i < config->upstream_count; i++) {
        if (hx_span_eq_cstr(hx_span(name.ptr + 1, name.len - 1), config->upstreams[i].name))
            return serve_may_use(caller->context, &config->upstreams[i])
                       ? (int)serve->served[i]->endpoint
                       : -1;
    }
    return -1;
}

static void answer(struct serve *serve, uint64_t exchange, uint32_t status, struct hx_buf *body)
{
    const struct hx_web_header headers[] = {
        {HX_SPAN_LIT("Content-Type"), HX_SPAN_LIT("text/plain; charset=utf-8")},
        {HX_SPAN_LIT("Cache-Control"), HX_SPAN_LIT("no-store")},
        {HX_SPAN_LIT("WWW-Authenticate"), HX_SPAN_LIT("Bearer")}, /* of a 401 only */
    };
    const struct hx_web_answer head = {
        .status = status, .headers = headers, .header_count = status == 401 ? 3 : 2};
    serve->web->ops->answer(serve->web, exchange, &head, body, 0);
}

/* 200, or how the request for /metrics is refused. A token that opens some servers only must not
 * learn the names of the others, so being a caller is not enough. */
static uint32_t judge_metrics(const struct hx_config *config, const struct hx_http_caller *caller)
{
    const struct serve_holder *holder = caller->context;
    const struct hx_config_token *token = holder != NULL ? holder->token : NULL;
    if (config->metrics == HX_METRICS_OFF)
        return 404;
    if (config->metrics == HX_METRICS_OPEN || config->token_count == 0)
        return 200;
    if (token == NULL)
        return 401;
    return token->may_read_metrics ? 200 : 403;
}

/* One server that is away leaves the others to be served; without any there is nothing to do. */
static bool is_any_reachable(const struct serve *serve)
{
    for (size_t i = 0; i < serve->config->upstream_count; i++)
        if (!hx_server_health(serve->served[i]->server).is_unreachable)
            return true;
    return false;
}

/* Why not is for operators only: it may name files of this machine. */
static void write_ready(struct serve *serve, bool is_operator, struct hx_buf *body,
                        uint32_t *ret_status)
{
    const struct hx_store *store = serve->home.store;
    const char *refusal = store->ops->refusal(serve->home.store);
    if (refusal == NULL && serve->is_draining)
        refusal = "draining";
    if (refusal == NULL && !is_any_reachable(serve))
        refusal = "no upstream can be started or reached";
    *ret_status = refusal != NULL ? 503 : 200;
    if (refusal != NULL && !is_operator)
        refusal = "not ready";
    (void)hx_buf_printf(body, "%s\n", refusal != NULL ? refusal : "ready");
}

static void write_metric(struct hx_buf *body, const char *name, const char *type, const char *help,
                         uint64_t value)
{
    (void)hx_buf_printf(body, "# HELP hapax_%s %s\n# TYPE hapax_%s %s\nhapax_%s %llu\n", name, help,
                        name, type, name, (unsigned long long)value);
}

static void write_outbox(struct serve *serve, struct hx_buf *body)
{
    struct hx_outbox_counts counts = hx_gateway_outbox_counts(serve->gateway);
    if (!counts.is_wanted)
        return;
    write_metric(body, "outbox_delivered_total", "counter", "Events that the receiver took.",
                 counts.delivered);
    write_metric(body, "outbox_failed_total", "counter", "Tries to deliver that came to nothing.",
                 counts.failed);
    write_metric(body, "outbox_parked_total", "counter", "Events given up until a person looks.",
                 counts.parked);
    write_metric(body, "outbox_is_publisher", "gauge",
                 "1 while this process is the one that "
                 "publishes for the ledger.",
                 counts.is_publisher);
    if (!counts.is_publisher)
        return; /* it does not count them */
    write_metric(body, "outbox_waiting", "gauge", "Events that wait to be delivered.",
                 counts.waiting_pending);
    write_metric(body, "outbox_parked", "gauge", "Events that are parked.", counts.waiting_parked);
}

/* Their names need no escapes. */
static void write_upstreams(struct serve *serve, struct hx_buf *body)
{
    const size_t count = serve->config->upstream_count;
    (void)hx_buf_append_cstr(body,
                             "# HELP hapax_upstream_reachable 0 after a try to start or reach "
                             "it came to nothing.\n# TYPE hapax_upstream_reachable gauge\n");
    for (size_t i = 0; i < count; i++)
        (void)hx_buf_printf(body, "hapax_upstream_reachable{upstream=\"%s\"} %d\n",
                            serve->config->upstreams[i].name,
                            !hx_server_health(serve->served[i]->server).is_unreachable);
    (void)hx_buf_append_cstr(body, "# HELP hapax_upstream_noise_total Lines of it that were no "
                                   "messages.\n# TYPE hapax_upstream_noise_total counter\n");
    for (size_t i = 0; i < count; i++)
        (void)hx_buf_printf(body, "hapax_upstream_noise_total{upstream=\"%s\"} %llu\n",
                            serve->config->upstreams[i].name,
                            (unsigned long long)hx_server_health(serve->served[i]->server).noise);
}

static void write_metrics(struct serve *serve, struct hx_buf *body)
{
    static const struct {
        enum hx_counter counter;
        const char *name;
        const char *help;
    } rows[] = {
        {HX_COUNTER_REPLAYED, "replays_total", "Calls answered with a stored outcome."},
        {HX_COUNTER_JOINED, "joins_total", "Calls that joined one that was running."},
        {HX_COUNTER_RESEND, "resends_total",
         "Attempts after the first, where the contract allows."},
        {HX_COUNTER_BECAME_UNKNOWN, "unknown_total", "Operations whose outcome became unknown."},
        {HX_COUNTER_TAKEOVER, "takeovers_total", "Operations taken over from a dead process."},
        {HX_COUNTER_STALE_WRITE, "stale_writes_total", "Writes that an older owner was refused."},
        {HX_COUNTER_FRESH_KEY, "fresh_keys_total",
         "Calls with a key not seen before, equal to one under another key that is unresolved."},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        write_metric(body, rows[i].name, "counter", rows[i].help,
                     hx_gateway_counter(serve->gateway, rows[i].counter));
    struct hx_http_front_counts counts = hx_http_front_counts(serve->front);
    write_metric(body, "http_refused_total", "counter", "Requests answered with 4xx or 5xx.",
                 counts.refused);
    write_metric(body, "streams_resumed_total", "counter", "Streams that a client came back for.",
                 counts.resumed + counts.resumes_asked);
    write_metric(body, "notifications_dropped_total", "counter",
                 "Notifications that no client took in time.", counts.dropped_notifications);
    write_metric(body, "sessions", "gauge", "Sessions in memory.", counts.sessions);
    write_metric(body, "streams", "gauge", "Open event streams.", counts.streams);
    write_outbox(serve, body);
    write_upstreams(serve, body);
}

void serve_other(struct serve *serve, const struct hx_http_front_event *event)
{
    enum { BODY_MAX = 64 * 1024 };
    const struct hx_web_request *request = event->request;
    struct hx_buf body;
    uint32_t status = 200;
    uint32_t metrics_status = judge_metrics(serve->config, &event->caller);
    bool is_read =
        hx_span_eq_cstr(request->method, "GET") || hx_span_eq_cstr(request->method, "HEAD");
    hx_buf_init(&body, BODY_MAX);
    if (!is_read) {
        status = 405;
        (void)hx_buf_append_cstr(&body, "Only GET is answered here.\n");
    } else if (hx_span_eq_cstr(request->path, "/healthz")) {
        (void)hx_buf_append_cstr(&body, "ok\n");
    } else if (hx_span_eq_cstr(request->path, "/readyz")) {
        write_ready(serve, metrics_status == 200, &body, &status);
    } else if (hx_span_eq_cstr(request->path, "/metrics") && metrics_status == 200) {
        write_metrics(serve, &body);
    } else if (hx_span_eq_cstr(request->path, "/metrics") && metrics_status != 404) {
        status = metrics_status;
        (void)hx_buf_append_cstr(&body, "This is for a token with metrics: on.\n");
    } else {
        status = 404;
        (void)hx_buf_append_cstr(&body, "There is nothing here. MCP is at /mcp and /mcp/NAME.\n");
    }
    answer(serve, event->exchange, status, &body);
    hx_buf_fini(&body);
}
