/* SPDX-License-Identifier: MIT */
/*
 * The client's part, step by step:
 *
 *   GREETING ──► CALLING ──► final answer ───────────────────────────► ANSWERED ──► left
 *                 │    ▲     error without an envelope, wait over           ▲
 *            busy ▼    │                    └──► LOOKING (operations/get) ──┘
 *               PAUSING
 *
 * An `initialize` that failed is no reason not to call: what the ledger has of the key is better
 * than "unavailable".
 */
#include "adapter/call_front/call_front.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "adapter/call_front/call_answer.h"
#include "base/alloc.h"
#include "loop/fd_state.h"
#include "wire/mcp.h"
#include "json/writer.h"

enum { MESSAGE_MAX = 256 << 20, ARENA_MAX = 16 << 20, TOKENS_MAX = 1 << 20, DEPTH_MAX = 128 };
enum { BACKOFF_BASE_MS = 200, BACKOFF_CAP_MS = 30 * 1000 };

enum stage { GREETING, CALLING, PAUSING, LOOKING, ANSWERED, LEFT };

struct call_front {
    struct hx_downstream downstream;
    struct hx_call_front_options options;
    enum stage stage;
    uint64_t next_id;
    uint64_t greeting_id;
    uint64_t call_id;
    uint64_t look_id;
    unsigned tries; /* answered "unavailable" in a row */
    struct hx_loop_timer *wait_timer;
    struct hx_loop_timer *again_timer;
    struct hx_loop_fd *life_watch;
    struct hx_call_reader reader;
    struct hx_arena arena;
    struct hx_call_answer answer;
    struct hx_buf line;  /* of the answer */
    uint64_t answer_tag; /* 0: its fate was told */
    bool is_life_over;
    bool is_closed;
};

static struct call_front *front_of(struct hx_downstream *downstream)
{
    return hx_container_of(downstream, struct call_front, downstream);
}

static struct hx_peer_event *append(struct call_front *front, enum hx_peer_event_type type,
                                    uint64_t tag)
{
    struct hx_peer_event *event = hx_peer_event_new(type, 0);
    event->tag = tag;
    event->downstream = &front->downstream;
    hx_list_append(front->downstream.inbox, &event->node);
    return event;
}

/* Takes the line. */
static void say(struct call_front *front, struct hx_buf *line)
{
    struct hx_peer_event *event = append(front, HX_PEER_MESSAGE, 0);
    hx_assert(hx_buf_ok(line));
    hx_buf_fini(&event->line);
    event->line = *line;
    hx_buf_init(line, line->len_max);
}

/* ---- what it says ---- */

static void greet(struct call_front *front)
{
    struct hx_buf line;
    hx_buf_init(&line, 4096);
    front->greeting_id = ++front->next_id;
    (void)hx_buf_printf(&line,
                        "{\"jsonrpc\":\"2.0\",\"id\":%llu,\"method\":\"initialize\",\"params\":{"
                        "\"protocolVersion\":\"%.*s\",\"capabilities\":{},\"clientInfo\":{"
                        "\"name\":\"hapax-call\",\"version\":\"%s\"}}}",
                        (unsigned long long)front->greeting_id,
                        HX_SPAN_FMT(hx_mcp_facts(HX_MCP_2025_11_25)->name), front->options.version);
    say(front, &line);
}

static void call(struct call_front *front)
{
    const struct hx_call_front_options *options = &front->options;
    struct hx_buf line;
    struct hx_json_writer writer;
    char first_sent[HX_TIME_TEXT_SIZE];
    hx_wall_format(options->first_sent, first_sent);
    hx_buf_init(&line, MESSAGE_MAX);
    hx_json_writer_init(&writer, &line);
    front->call_id = ++front->next_id;
    front->stage = CALLING;
    (void)hx_buf_printf(&line, "{\"jsonrpc\":\"2.0\",\"id\":%llu,\"method\":\"tools/call\",",
                        (unsigned long long)front->call_id);
    (void)hx_buf_append_cstr(&line, "\"params\":{\"name\":");
    hx_json_put_string(&writer, options->tool);
    (void)hx_buf_append_cstr(&line, ",\"arguments\":");
    (void)hx_buf_append_span(&line, options->arguments);
    (void)hx_buf_append_cstr(&line, ",\"_meta\":{\"" HX_MCP_META_KEY "\":");
    writer.needs_comma = false;
    hx_json_put_string(&writer, options->key);
    (void)hx_buf_printf(&line, ",\"" HX_MCP_META_FIRST_SENT "\":\"%s\"}}}", first_sent);
    say(front, &line);
}

static void look(struct call_front *front)
{
    struct hx_buf line;
    struct hx_json_writer writer;
    hx_buf_init(&line, 1 << 20);
    hx_json_writer_init(&writer, &line);
    front->look_id = ++front->next_id;
    front->stage = LOOKING;
    (void)hx_buf_printf(&line,
                        "{\"jsonrpc\":\"2.0\",\"id\":%llu,\"method\":\"hapax/operations/get\","
                        "\"params\":",
                        (unsigned long long)front->look_id);
    hx_json_open_object(&writer);
    hx_json_put_name(&writer, "key");
    hx_json_put_string(&writer, front->options.key);
    hx_json_put_name(&writer, "tool");
    hx_json_put_string(&writer, front->options.tool);
    hx_json_close_object(&writer);
    (void)hx_buf_append_char(&line, '}');
    say(front, &line);
}

static void say_initialized(struct call_front *front)
{
    struct hx_buf line;
    hx_buf_init(&line, 4096);
    (void)hx_buf_append_cstr(&line,
                             "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    say(front, &line);
}

/* Nobody sits here who could be asked; a ping is answered. */
static void answer_server(struct call_front *front, const struct hx_rpc_msg *msg)
{
    struct hx_buf line;
    hx_buf_init(&line, HX_RPC_ID_MAX + 256);
    (void)hx_buf_printf(&line, "{\"jsonrpc\":\"2.0\",\"id\":%.*s,", HX_SPAN_FMT(msg->id.raw));
    if (hx_mcp_method_parse(msg->method) == HX_MCP_PING)
        (void)hx_buf_append_cstr(&line, "\"result\":{}}");
    else
        (void)hx_buf_append_cstr(&line, "\"error\":{\"code\":-32601,\"message\":\"This client "
                                        "makes one call and answers nothing.\"}}");
    say(front, &line);
}

/* ---- what it hears ---- */

static void finish(struct call_front *front)
{
    front->stage = ANSWERED;
    hx_loop_timer_clear(front->wait_timer);
    hx_loop_timer_clear(front->again_timer);
}

/* Full jitter, so that many clients of one server that comes back do not come at once. */
static int64_t backoff_ms(struct call_front *front)
{
    uint32_t random;
    int64_t bound = BACKOFF_BASE_MS;
    for (unsigned i = 0; i < front->tries && bound < BACKOFF_CAP_MS; i++)
        bound *= 2;
    front->tries++;
    if (bound > BACKOFF_CAP_MS)
        bound = BACKOFF_CAP_MS;
    hx_rand_fill(front->options.rand, (uint8_t *)&random, sizeof(random));
    return 1 + (int64_t)random % bound;
}

static bool is_unavailable(struct hx_span code)
{
    return hx_span_eq_cstr(code, "UPSTREAM_UNAVAILABLE") ||
           hx_span_eq_cstr(code, "LEDGER_UNAVAILABLE");
}

/* How long to wait before the same call is made again; 0: the answer is final. */
static int64_t pause_after(struct call_front *front, const struct hx_rpc_msg *msg,
                           const struct hx_call_answer *answer)
{
    if (hx_span_eq_cstr(answer->code, "BUSY")) {
        front->tries = 0;
        return hx_call_answer_retry_after_ms(&front->reader, msg);
    }
    if (is_unavailable(answer->code) && front->options.asks_unavailable_again)
        return backoff_ms(front);
    return 0;
}

/* Takes the line. */
static void keep(struct call_front *front, struct hx_buf *line, uint64_t tag)
{
    hx_buf_fini(&front->line);
    front->line = *line;
    hx_buf_init(line, line->len_max);
    front->answer_tag = tag;
}

static void called(struct call_front *front, const struct hx_rpc_msg *msg, struct hx_buf *line,
                   uint64_t tag)
{
    struct hx_call_answer answer;
    bool is_waiting = front->stage == CALLING;
    hx_call_answer_read(&front->reader, msg, &answer);
    int64_t pause_ms = pause_after(front, msg, &answer);
    if (pause_ms > 0) {
        append(front, HX_PEER_WRITTEN, tag);
        if (is_waiting) {
            front->stage = PAUSING;
            hx_loop_timer_set(front->again_timer, pause_ms);
        }
        return;
    }
    front->answer = answer;
    keep(front, line, tag);
    if (answer.is_error && !answer.is_ours && !answer.has_row)
        look(front);
    else
        finish(front);
}

static void take_response(struct call_front *front, const struct hx_rpc_msg *msg,
                          struct hx_buf *line, uint64_t tag)
{
    int64_t id = 0;
    uint32_t at = msg->id_token;
    bool is_ours = at != HX_JSON_NONE && hx_json_int64(&front->reader.tape, at, &id);
    if (is_ours && (uint64_t)id == front->call_id && front->stage < ANSWERED &&
        front->answer_tag == 0) {
        called(front, msg, line, tag);
        return;
    }
    append(front, HX_PEER_WRITTEN, tag);
    if (is_ours && (uint64_t)id == front->greeting_id && front->stage == GREETING) {
        if (msg->kind == HX_RPC_RESULT)
            say_initialized(front);
        call(front);
    } else if (is_ours && (uint64_t)id == front->look_id && front->stage == LOOKING) {
        hx_call_answer_add_row(&front->reader, msg, &front->answer);
        finish(front);
    }
}

static void hear(struct call_front *front, struct hx_buf *line, uint64_t tag)
{
    const struct hx_json_limits limits = {.depth_max = DEPTH_MAX,
                                          .record_depth_max = HX_RPC_RECORD_DEPTH,
                                          .tokens_max = TOKENS_MAX,
                                          .text_max = MESSAGE_MAX};
    struct hx_rpc_msg msg = {.kind = HX_RPC_INVALID};
    int rc = hx_rpc_read(&front->reader.tape, hx_buf_span(line), &limits, &front->arena, &msg);
    if (rc < 0)
        msg.kind = HX_RPC_INVALID;
    if (rc < 0 && front->stage == LOOKING) {
        /* No memory to read what the ledger says, and no other answer will come. */
        append(front, HX_PEER_WRITTEN, tag);
        front->answer.is_row_untold = true;
        finish(front);
        return;
    }
    switch (msg.kind) {
    case HX_RPC_RESULT:
    case HX_RPC_ERROR:
        take_response(front, &msg, line, tag);
        return;
    case HX_RPC_REQUEST:
        append(front, HX_PEER_WRITTEN, tag);
        answer_server(front, &msg);
        return;
    case HX_RPC_NOTIFICATION:
    case HX_RPC_BATCH:
    case HX_RPC_INVALID:
        append(front, HX_PEER_WRITTEN, tag);
        return;
    }
}

/* ---- time, and the front's life ---- */

static void wait_due(void *arg)
{
    struct call_front *front = arg;
    if (front->stage >= LOOKING)
        return;
    hx_loop_timer_clear(front->again_timer);
    front->answer = (struct hx_call_answer){.kind = HX_CALL_WAIT_OVER};
    look(front);
}

static void again_due(void *arg)
{
    struct call_front *front = arg;
    if (front->stage == PAUSING)
        call(front);
}

static void life_ready(void *arg, unsigned events)
{
    struct call_front *front = arg;
    char byte;
    ssize_t len = read(front->options.life_fd, &byte, 1);
    (void)events;
    if (len > 0 || (len < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    front->is_life_over = true;
    front->life_watch = hx_loop_fd_free(front->life_watch);
    (void)close(front->options.life_fd);
    front->options.life_fd = -1;
    append(front, HX_PEER_FRONT_GONE, 0);
}

/* ---- the port ---- */

static void send_line(struct hx_downstream *downstream, struct hx_buf *line,
                      const struct hx_sending *sending)
{
    struct call_front *front = front_of(downstream);
    if (front->is_closed)
        append(front, HX_PEER_NOT_SENT, sending->tag);
    else
        hear(front, line, sending->tag);
    hx_buf_fini(line);
}

static uint64_t queued_bytes(struct hx_downstream *downstream)
{
    (void)downstream;
    return 0;
}

static bool is_reader_alive(struct hx_downstream *downstream, uint64_t exchange)
{
    const struct call_front *front = front_of(downstream);
    int fd = front->options.life_fd;
    (void)exchange;
    if (front->is_closed || front->is_life_over || front->stage == LEFT)
        return false;
    return fd < 0 || (hx_fd_state(fd, 0) & (POLLERR | POLLHUP | POLLNVAL)) == 0;
}

static void hold(struct hx_downstream *downstream, bool is_held)
{
    (void)downstream; /* it has asked all it will ask */
    (void)is_held;
}

static void close_both(struct hx_downstream *downstream)
{
    struct call_front *front = front_of(downstream);
    front->is_closed = true;
    if (front->answer_tag != 0)
        append(front, HX_PEER_NOT_SENT, front->answer_tag);
    front->answer_tag = 0;
    hx_loop_timer_clear(front->wait_timer);
    hx_loop_timer_clear(front->again_timer);
}

static const struct hx_downstream_ops front_ops = {
    .send = send_line,
    .queued_bytes = queued_bytes,
    .is_reader_alive = is_reader_alive,
    .hold = hold,
    .close = close_both,
};

struct hx_downstream *hx_call_front_new(struct hx_loop *loop, struct hx_list *inbox,
                                        const struct hx_call_front_options *options)
{
    struct call_front *front = hx_new(struct call_front);
    front->downstream = (struct hx_downstream){.ops = &front_ops, .inbox = inbox};
    front->options = *options;
    hx_arena_init(&front->arena, ARENA_MAX);
    hx_json_tape_init(&front->reader.tape);
    front->reader.arena = &front->arena;
    hx_buf_init(&front->line, MESSAGE_MAX);
    front->wait_timer = hx_loop_timer_new(loop, wait_due, front);
    front->again_timer = hx_loop_timer_new(loop, again_due, front);
    if (options->wait_ms >= 0)
        hx_loop_timer_set(front->wait_timer, options->wait_ms);
    if (options->life_fd >= 0) {
        front->life_watch = hx_loop_fd_new(loop, options->life_fd, life_ready, front);
        hx_loop_fd_want(front->life_watch, HX_LOOP_READ);
    }
    greet(front);
    return &front->downstream;
}

struct hx_downstream *hx_call_front_free(struct hx_downstream *downstream)
{
    if (downstream == NULL)
        return NULL;
    struct call_front *front = front_of(downstream);
    hx_loop_timer_free(front->wait_timer);
    hx_loop_timer_free(front->again_timer);
    hx_loop_fd_free(front->life_watch);
    if (front->options.life_fd >= 0)
        (void)close(front->options.life_fd);
    hx_buf_fini(&front->line);
    hx_json_tape_fini(&front->reader.tape);
    hx_arena_fini(&front->arena);
    hx_free(front);
    return NULL;
}

const struct hx_call_answer *hx_call_front_answer(struct hx_downstream *downstream)
{
    const struct call_front *front = front_of(downstream);
    return front->stage >= ANSWERED ? &front->answer : NULL;
}

bool hx_call_front_is_life_over(struct hx_downstream *downstream)
{
    return front_of(downstream)->is_life_over;
}

void hx_call_front_leave(struct hx_downstream *downstream, bool was_shown)
{
    struct call_front *front = front_of(downstream);
    hx_assert(front->stage == ANSWERED);
    front->stage = LEFT;
    if (front->answer_tag != 0)
        append(front, was_shown ? HX_PEER_WRITTEN : HX_PEER_NOT_SENT, front->answer_tag);
    front->answer_tag = 0;
}
