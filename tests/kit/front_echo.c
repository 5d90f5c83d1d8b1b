/* SPDX-License-Identifier: MIT */
/*
 * An MCP server of one file on top of the front, for trying out clients by hand and from scripts:
 * no gateway, no ledger, and a handful of tools that show what a transport must bear.
 *
 *     front-echo [PORT]         prints "http://127.0.0.1:PORT/mcp" and serves until killed
 *
 * Tools: `echo` answers at once, `notify` sends three log messages first, `slow` takes 1.5 s and
 * tells its progress, `cut` loses its connection twice before its answer, `changed` says that the
 * list of tools has changed. Sessions of an earlier process are believed; what such a one was asked
 * is answered with "recovered".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/clock_os/clock_os.h"
#include "adapter/http_front/http_front.h"
#include "adapter/http_server/http_server.h"
#include "base/alloc.h"
#include "wire/mcp.h"

enum { LINE_MAX_BYTES = 1 << 20, LATER_MAX = 256, STEP_MS = 300 };

/* What a tool does later. */
struct later {
    struct hx_loop_timer *timer;
    struct hx_downstream *downstream;
    uint64_t exchange;
    char id[64];
    char token[64];
    char tool[32];
    unsigned step;
};

static struct {
    struct hx_loop *loop;
    struct hx_web *web;
    struct hx_http_front *front;
    struct hx_list web_inbox;
    struct hx_list peers;
    struct hx_list fronts;
    struct hx_json_tape tape;
    struct hx_json_tape second_tape;
    struct hx_arena arena;
    uint64_t last_tag;
    uint64_t last_web_exchange; /* of the latest POST or GET, for `cut` */
} echo;

static const struct hx_json_limits limits = {.depth_max = 64,
                                             .record_depth_max = HX_RPC_RECORD_DEPTH,
                                             .tokens_max = 1 << 16,
                                             .text_max = 1 << 20};

static void say(struct hx_downstream *downstream, enum hx_sending_kind kind, uint64_t exchange,
                const char *text)
{
    struct hx_sending sending = {.tag = ++echo.last_tag, .exchange = exchange, .kind = kind};
    struct hx_buf line;

    hx_buf_init(&line, LINE_MAX_BYTES);
    (void)hx_buf_append_cstr(&line, text);
    downstream->ops->send(downstream, &line, &sending);
    hx_buf_fini(&line);
}

static void answer(struct hx_downstream *downstream, uint64_t exchange, const char *id,
                   const char *result)
{
    char text[2048];

    (void)snprintf(text, sizeof text, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}", id, result);
    say(downstream, HX_SENDING_ANSWER, exchange, text);
}

static void answer_text(struct hx_downstream *downstream, uint64_t exchange, const char *id,
                        const char *words)
{
    char text[512];

    (void)snprintf(text, sizeof text, "{\"content\":[{\"type\":\"text\",\"text\":\"%s\"}]}", words);
    answer(downstream, exchange, id, text);
}

static void progress(struct hx_downstream *downstream, uint64_t exchange, const char *token,
                     unsigned step)
{
    char text[256];

    if (*token == '\0')
        return;
    (void)snprintf(text, sizeof text,
                   "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":"
                   "{\"progressToken\":%s,\"progress\":%u,\"total\":5}}",
                   token, step);
    say(downstream, HX_SENDING_ASIDE, exchange, text);
}

static void step(void *arg)
{
    struct later *later = arg;
    bool is_cutting = strcmp(later->tool, "cut") == 0;

    later->step++;
    if (later->step < 5) {
        progress(later->downstream, later->exchange, later->token, later->step);
        hx_loop_timer_set(later->timer, STEP_MS);
    } else {
        answer_text(later->downstream, later->exchange, later->id,
                    is_cutting ? "survived" : "took its time");
        hx_loop_timer_free(later->timer);
        hx_free(later);
        return;
    }
    if (is_cutting && later->step % 2 == 0)
        echo.web->ops->cut(echo.web, echo.last_web_exchange);
}

static void start_later(struct hx_downstream *downstream, uint64_t exchange, struct hx_span id,
                        struct hx_span token, const char *tool)
{
    struct later *later = hx_new(struct later);

    later->downstream = downstream;
    later->exchange = exchange;
    (void)snprintf(later->id, sizeof later->id, "%.*s", HX_SPAN_FMT(id));
    (void)snprintf(later->token, sizeof later->token, "%.*s", HX_SPAN_FMT(token));
    (void)snprintf(later->tool, sizeof later->tool, "%s", tool);
    later->timer = hx_loop_timer_new(echo.loop, step, later);
    hx_loop_timer_set(later->timer, 0);
}

static void call(struct hx_downstream *downstream, uint64_t exchange, const struct hx_rpc_msg *msg)
{
    struct hx_mcp_call call;
    char id[64];

    (void)snprintf(id, sizeof id, "%.*s", HX_SPAN_FMT(msg->id.raw));
    if (hx_mcp_call_read(&echo.tape, msg, &echo.arena, &call) < 0)
        return;
    if (hx_span_eq_cstr(call.name.text, "notify")) {
        for (unsigned i = 0; i < 3; i++)
            say(downstream, HX_SENDING_ASIDE, exchange,
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":"
                "{\"level\":\"info\",\"data\":\"hello\"}}");
        answer_text(downstream, exchange, id, "notified");
    } else if (hx_span_eq_cstr(call.name.text, "changed")) {
        say(downstream, HX_SENDING_ASIDE, 0,
            "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}");
        answer_text(downstream, exchange, id, "said so");
    } else if (hx_span_eq_cstr(call.name.text, "slow")) {
        start_later(downstream, exchange, msg->id.raw, call.progress_token, "slow");
    } else if (hx_span_eq_cstr(call.name.text, "cut")) {
        start_later(downstream, exchange, msg->id.raw, call.progress_token, "cut");
    } else {
        answer_text(downstream, exchange, id, "echo");
    }
}

static void begin(struct hx_downstream *downstream, uint64_t exchange, const struct hx_rpc_msg *msg,
                  const char *id)
{
    struct hx_mcp_initialize initialize;
    struct hx_span revision = HX_SPAN_LIT("2025-11-25");
    char text[512];

    if (hx_mcp_initialize_read(&echo.second_tape, msg->params, &limits, &echo.arena, &initialize) ==
            0 &&
        initialize.revision != HX_MCP_UNKNOWN)
        revision = hx_mcp_facts(initialize.revision)->name;
    (void)snprintf(text, sizeof text,
                   "{\"protocolVersion\":\"%.*s\",\"capabilities\":{\"tools\":{\"listChanged\":"
                   "true},\"logging\":{}},\"serverInfo\":{\"name\":\"echo\",\"version\":\"1\"}}",
                   HX_SPAN_FMT(revision));
    answer(downstream, exchange, id, text);
}

static void list(struct hx_downstream *downstream, uint64_t exchange, const char *id)
{
    static const char *const names[] = {"echo", "notify", "slow", "cut", "changed"};
    char text[1024] = "{\"tools\":[";

    for (unsigned i = 0; i < 5; i++) {
        size_t len = strlen(text);
        (void)snprintf(text + len, sizeof text - len,
                       "%s{\"name\":\"%s\",\"inputSchema\":{\"type\":\"object\"}}",
                       i > 0 ? "," : "", names[i]);
    }
    (void)snprintf(text + strlen(text), sizeof text - strlen(text), "]}");
    answer(downstream, exchange, id, text);
}

static void message(struct hx_downstream *downstream, uint64_t exchange, struct hx_span line)
{
    struct hx_rpc_msg msg;
    char id[64];

    hx_arena_reset(&echo.arena);
    if (hx_rpc_read(&echo.tape, line, &limits, &echo.arena, &msg) < 0)
        return;
    (void)snprintf(id, sizeof id, "%.*s", HX_SPAN_FMT(msg.id.raw));
    if (msg.kind == HX_RPC_INVALID || msg.kind == HX_RPC_BATCH) {
        say(downstream, HX_SENDING_FAULT, exchange,
            "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"no\"}}");
        return;
    }
    if (msg.kind != HX_RPC_REQUEST) {
        downstream->ops->settle(downstream, exchange, HX_SETTLING_TAKEN);
        return;
    }
    switch (hx_mcp_method_parse(msg.method)) {
    case HX_MCP_INITIALIZE:
        begin(downstream, exchange, &msg, id);
        break;
    case HX_MCP_TOOLS_LIST:
        list(downstream, exchange, id);
        break;
    case HX_MCP_TOOLS_CALL:
        call(downstream, exchange, &msg);
        break;
    default:
        answer(downstream, exchange, id, "{}");
    }
}

/* --- the loop --- */

static void take_front(struct hx_http_front_event *event)
{
    struct hx_web_answer nothing = {.status = 404};

    if (event->type == HX_HTTP_FRONT_SESSION_ASKED)
        (void)hx_http_front_adopt(echo.front, event->ticket, HX_SPAN_LIT("2025-11-25"));
    else if (event->type == HX_HTTP_FRONT_OTHER)
        echo.web->ops->answer(echo.web, event->exchange, &nothing, NULL, 0);
    hx_http_front_event_free(event);
}

static void take_peer(struct hx_peer_event *event)
{
    static const char *const names[] = {"MESSAGE", "OVERSIZE", "WRITTEN", "NOT_SENT", "CUT"};

    if (event->type == HX_PEER_MESSAGE)
        message(event->downstream, event->exchange, hx_buf_span(&event->line));
    else if (event->type == HX_PEER_RESUME)
        answer_text(event->downstream, event->exchange, "2", "recovered");
    else if (event->type == HX_PEER_ENDED)
        hx_http_front_forget(echo.front, event->downstream, true);
    (void)fprintf(stderr, "%s(%d) exchange %llu tag %llu %.*s\n",
                  event->type < 5 ? names[event->type] : "event", (int)event->type,
                  (unsigned long long)event->exchange, (unsigned long long)event->tag,
                  (int)event->line.len, event->line.len > 0 ? event->line.data : "");
    hx_peer_event_free(event);
}

static bool turn(void)
{
    struct hx_list *node;
    bool is_busy;

    hx_list_for_each (at, &echo.web_inbox) {
        struct hx_web_event *event = hx_container_of(at, struct hx_web_event, node);
        if (event->type == HX_WEB_REQUEST && event->request->body.len != 0 &&
            memmem(event->request->body.data, event->request->body.len, "\"cut\"", 5) != NULL)
            echo.last_web_exchange = event->exchange;
        else if (event->type == HX_WEB_REQUEST &&
                 !hx_span_is_absent(hx_web_request_find(event->request, "Last-Event-ID")))
            echo.last_web_exchange = event->exchange;
    }
    is_busy = hx_http_front_turn(echo.front);
    while ((node = hx_list_take_first(&echo.fronts)) != NULL)
        take_front(hx_container_of(node, struct hx_http_front_event, node));
    while ((node = hx_list_take_first(&echo.peers)) != NULL)
        take_peer(hx_container_of(node, struct hx_peer_event, node));
    return is_busy;
}

static bool everybody(void *context, struct hx_span authorization, bool is_local,
                      struct hx_http_caller *ret_caller)
{
    (void)context;
    (void)authorization;
    (void)is_local;
    ret_caller->tenant = HX_SPAN_LIT("echo");
    ret_caller->principal = HX_SPAN_LIT("anyone");
    return true;
}

static int one_endpoint(void *context, struct hx_span path, const struct hx_http_caller *caller)
{
    (void)context;
    (void)caller;
    return hx_span_eq_cstr(path, "/mcp") ? 0 : -1;
}

int main(int argc, char **argv)
{
    struct hx_loop_clock clock = {.now = hx_clock_os_mono};
    struct hx_http_server_options server = hx_http_server_defaults();
    struct hx_http_front_options options = hx_http_front_defaults();
    unsigned long wanted = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    uint16_t port = 0;

    echo.loop = hx_loop_new(&clock);
    if (echo.loop == NULL || wanted > 65535)
        return 1;
    hx_list_init(&echo.web_inbox);
    hx_list_init(&echo.peers);
    hx_list_init(&echo.fronts);
    hx_json_tape_init(&echo.tape);
    hx_json_tape_init(&echo.second_tape);
    hx_arena_init(&echo.arena, 1 << 20);
    echo.web = hx_http_server_new(echo.loop, &echo.web_inbox, &server);
    if (hx_http_server_listen_tcp(echo.web, "127.0.0.1", (uint16_t)wanted, &port) < 0)
        return 1;
    options.rand = hx_rand_os();
    options.peer_inbox = &echo.peers;
    options.front_inbox = &echo.fronts;
    options.authenticate = everybody;
    options.find_endpoint = one_endpoint;
    options.stream_after_ms = 200;
    options.retry_ms = 100;
    echo.front = hx_http_front_new(echo.loop, echo.web, &options);
    (void)printf("http://127.0.0.1:%u/mcp\n", (unsigned)port);
    (void)fflush(stdout);
    for (;;) {
        if (hx_loop_run_once(echo.loop, -1) < 0)
            return 1;
        while (turn()) {
        }
    }
}
