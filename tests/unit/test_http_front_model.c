/* SPDX-License-Identifier: MIT */
/*
 * The front between a web port and an engine that are both played, at random and against a clock of
 * the test's own, with clients that leave in every state and come back or do not.
 *
 * Played with: what the engine was told at last of each message must be the truth about what the
 * client has; each message has one fate; nothing is done with an exchange that is over; and a
 * client that always comes back gets its answer, once.
 *
 *     test_http_front_model [SEED]     one history, again
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "adapter/http_front/http_front.h"
#include "base/alloc.h"

enum {
    EXCHANGES_MAX = 4096,
    MESSAGES_MAX = 8192,
    CALLS_MAX = 1024,
    QUEUE_MAX = 64,
    STEPS = 1500,
    SEEDS = 120,
    KEEP_MS = 5000,
    AFTER_MS = 100
};

enum web_state { WEB_NONE, WEB_WAITING, WEB_STREAMING, WEB_ENDED, WEB_GONE };

/* One thing that the front wrote: an event, or a whole answer. */
struct item {
    uint64_t tag;
    unsigned message; /* 0 = priming, or a refusal */
    bool is_taken;    /* by the kernel */
    char id[64];
};

struct exchange {
    enum web_state state;
    struct item items[QUEUE_MAX];
    unsigned item_count;
    unsigned taken_count;
    unsigned read_count;
    unsigned call; /* whose client is here */
    uint32_t status;
    bool is_stream;
    bool is_left;      /* the connection is over */
    bool is_abandoned; /* the client has lost it, and we do not know yet */
    bool is_get;
};

/* A message of the engine, told apart by a number in its text. */
struct message {
    unsigned fates; /* WRITTEN, NOT_SENT, CUT; a second WRITTEN only after TAKEN_BACK */
    bool is_read;   /* a client has it */
    bool is_believed;
    bool is_over; /* NOT_SENT or CUT */
    bool is_answer;
};

/* A request of a client, over all the connections that it takes. */
struct call {
    uint64_t exchange; /* as the engine knows it; 0 = not yet */
    uint64_t web;      /* where the client is; 0 = nowhere */
    char last_id[64];
    unsigned answers; /* that the client has read */
    bool is_faithful; /* comes back always, and in time */
    bool is_answered;
    bool is_gone; /* EXCHANGE_GONE */
    bool is_lost; /* the client cannot come back, or does not */
    bool has_abandoned;
    int64_t answered_at;
    int64_t back_at;
};

static struct {
    uint64_t random;
    int64_t now_ms;
    struct hx_loop *loop;
    struct hx_web web;
    struct hx_list web_inbox;
    struct hx_list peers;
    struct hx_list fronts;
    struct hx_http_front *front;
    struct hx_downstream *session;
    char session_id[65];
    struct exchange exchanges[EXCHANGES_MAX];
    unsigned exchange_count;
    struct message messages[MESSAGES_MAX];
    unsigned message_count;
    struct call calls[CALLS_MAX];
    unsigned call_count;
} world;

static uint64_t roll(uint64_t below)
{
    world.random ^= world.random << 13;
    world.random ^= world.random >> 7;
    world.random ^= world.random << 17;
    return (world.random >> 11) % below;
}

static bool chance(unsigned percent)
{
    return roll(100) < percent;
}

static struct hx_mono model_now(void *arg)
{
    (void)arg;
    return (struct hx_mono){world.now_ms};
}

static void fill(struct hx_rand *rand, uint8_t *ret_bytes, size_t len)
{
    (void)rand;
    for (size_t i = 0; i < len; i++)
        ret_bytes[i] = (uint8_t)roll(256);
}

/* --- the web --- */

static struct exchange *exchange_of(uint64_t number)
{
    assert_in_range(number, 1, world.exchange_count);
    return &world.exchanges[number - 1];
}

static void web_tell(enum hx_web_event_type type, uint64_t tag)
{
    struct hx_web_event *event;

    if (tag == 0)
        return;
    event = hx_web_event_new(type);
    event->tag = tag;
    hx_list_append(&world.web_inbox, &event->node);
}

static void copy_word(char *to, size_t size, const char *text, const char *before)
{
    const char *at = strstr(text, before);

    *to = '\0';
    if (at != NULL)
        (void)snprintf(to, size, "%.*s", (int)strcspn(at + strlen(before), "\n"),
                       at + strlen(before));
}

static void put(struct exchange *exchange, struct hx_buf *bytes, uint64_t tag)
{
    struct item *item;
    const char *at;

    assert_true(exchange->item_count < QUEUE_MAX);
    item = &exchange->items[exchange->item_count++];
    assert_int_equal(hx_buf_append_char(bytes, '\0'), 0);
    *item = (struct item){.tag = tag};
    copy_word(item->id, sizeof item->id, bytes->data, "id: ");
    at = strstr(bytes->data, "\"m\":");
    item->message = at != NULL ? (unsigned)strtoul(at + 4, NULL, 10) : 0;
    hx_buf_fini(bytes);
}

static void op_answer(struct hx_web *web, uint64_t number, const struct hx_web_answer *answer,
                      struct hx_buf *body, uint64_t tag)
{
    struct exchange *exchange = exchange_of(number);
    struct hx_buf nothing;

    (void)web;
    if (exchange->state == WEB_GONE) {
        web_tell(HX_WEB_NOT_SENT, tag);
        if (body != NULL)
            hx_buf_fini(body);
        return;
    }
    assert_int_equal(exchange->state, WEB_WAITING);
    exchange->state = WEB_ENDED;
    exchange->status = answer->status;
    for (uint32_t i = 0; i < answer->header_count; i++) {
        if (hx_span_eq_cstr(answer->headers[i].name, "Mcp-Session-Id"))
            memcpy(world.session_id, answer->headers[i].value.ptr, 64);
    }
    hx_buf_init(&nothing, 100);
    put(exchange, body != NULL ? body : &nothing, tag);
}

static void op_stream_begin(struct hx_web *web, uint64_t number, const struct hx_web_answer *answer)
{
    struct exchange *exchange = exchange_of(number);

    (void)web;
    if (exchange->state == WEB_GONE)
        return;
    assert_int_equal(exchange->state, WEB_WAITING);
    assert_int_equal(answer->status, 200);
    exchange->state = WEB_STREAMING;
    exchange->is_stream = true;
    exchange->status = 200;
}

static void op_stream_event(struct hx_web *web, uint64_t number, struct hx_buf *bytes, uint64_t tag)
{
    struct exchange *exchange = exchange_of(number);

    (void)web;
    assert_true(bytes->len > 0);
    if (exchange->state == WEB_GONE) {
        web_tell(HX_WEB_NOT_SENT, tag);
        hx_buf_fini(bytes);
        return;
    }
    assert_int_equal(exchange->state, WEB_STREAMING);
    put(exchange, bytes, tag);
}

static void op_stream_end(struct hx_web *web, uint64_t number)
{
    struct exchange *exchange = exchange_of(number);

    (void)web;
    if (exchange->state == WEB_GONE)
        return;
    assert_int_equal(exchange->state, WEB_STREAMING);
    exchange->state = WEB_ENDED;
}

static uint64_t op_queued_bytes(struct hx_web *web, uint64_t number)
{
    (void)web;
    return exchange_of(number)->item_count - exchange_of(number)->taken_count;
}

/* The connection ends: fates of what was not written, then what was not read, then CLIENT_GONE. */
static void web_leave(uint64_t number)
{
    struct exchange *exchange = exchange_of(number);
    bool is_told = exchange->state == WEB_WAITING || exchange->state == WEB_STREAMING;

    for (unsigned i = exchange->taken_count; i < exchange->item_count; i++)
        web_tell(i == exchange->taken_count && chance(50) ? HX_WEB_CUT : HX_WEB_NOT_SENT,
                 exchange->items[i].tag);
    for (unsigned i = exchange->read_count; i < exchange->taken_count; i++)
        web_tell(HX_WEB_TAKEN_BACK, exchange->items[i].tag);
    exchange->is_left = true;
    exchange->state = WEB_GONE;
    if (is_told) {
        struct hx_web_event *event = hx_web_event_new(HX_WEB_CLIENT_GONE);
        event->exchange = number;
        hx_list_append(&world.web_inbox, &event->node);
    }
}

static void client_left(uint64_t number);

static bool op_is_alive(struct hx_web *web, uint64_t number)
{
    (void)web;
    return exchange_of(number)->state == WEB_WAITING || exchange_of(number)->state == WEB_STREAMING;
}

static void op_cut(struct hx_web *web, uint64_t number)
{
    (void)web;
    if (exchange_of(number)->state != WEB_GONE) {
        web_leave(number);
        client_left(number);
    }
}

static const struct hx_web_ops web_ops = {
    .answer = op_answer,
    .stream_begin = op_stream_begin,
    .stream_event = op_stream_event,
    .stream_end = op_stream_end,
    .queued_bytes = op_queued_bytes,
    .is_alive = op_is_alive,
    .cut = op_cut,
};

/* --- clients --- */

static void add_header(struct hx_web_request *request, const char *name, const char *value)
{
    request->headers[request->header_count++] =
        (struct hx_web_header){hx_span_cstr(name), hx_span_cstr(value)};
}

/* `call`: its number, 0 = a GET that listens. */
static uint64_t request(const char *method, unsigned call, const char *last_id, const char *body)
{
    struct hx_web_event *event = hx_web_event_new(HX_WEB_REQUEST);
    struct hx_web_request *request = hx_web_request_new(1000, 1000);

    assert_true(world.exchange_count < EXCHANGES_MAX);
    world.exchanges[world.exchange_count++] = (struct exchange){
        .state = WEB_WAITING, .call = call, .is_get = call == 0 && strcmp(method, "GET") == 0};
    request->method = hx_span_cstr(method);
    request->path = HX_SPAN_LIT("/mcp");
    request->host = HX_SPAN_LIT("localhost");
    request->headers = hx_new_bytes(8 * sizeof *request->headers);
    add_header(request, "Content-Type", "application/json");
    add_header(request, "MCP-Protocol-Version", chance(50) ? "2025-11-25" : "2025-06-18");
    if (world.session_id[0] != '\0')
        add_header(request, "Mcp-Session-Id", world.session_id);
    if (last_id != NULL && *last_id != '\0')
        add_header(request, "Last-Event-ID", last_id);
    (void)hx_buf_append_cstr(&request->body, body);
    event->exchange = world.exchange_count;
    event->request = request;
    hx_list_append(&world.web_inbox, &event->node);
    return event->exchange;
}

/* What it does when its connection is gone. */
static void client_left(uint64_t number)
{
    struct exchange *exchange = exchange_of(number);
    struct call *call = &world.calls[exchange->call];

    if (exchange->call == 0 || call->web != number)
        return;
    call->web = 0;
    if (call->answers > 0)
        return;
    /* Who was as slow as that to read his answer has come back too late. */
    if (call->is_answered && world.now_ms - call->answered_at > KEEP_MS / 2)
        call->is_faithful = false;
    if (call->last_id[0] == '\0' || (!call->is_faithful && chance(40)))
        call->is_lost = true;
    else
        call->back_at = world.now_ms + (int64_t)roll(call->is_faithful ? KEEP_MS / 8 : 2 * KEEP_MS);
}

static void client_read(uint64_t number)
{
    struct exchange *exchange = exchange_of(number);
    struct call *call = &world.calls[exchange->call];
    struct item *item;

    if (exchange->is_left || exchange->is_abandoned ||
        exchange->read_count == exchange->taken_count)
        return;
    item = &exchange->items[exchange->read_count++];
    if (item->message != 0) {
        struct message *message = &world.messages[item->message];
        assert_false(message->is_read);
        message->is_read = true;
        if (exchange->call != 0)
            call->answers += message->is_answer;
    }
    if (exchange->call != 0 && item->id[0] != '\0')
        memcpy(call->last_id, item->id, sizeof call->last_id);
}

static void kernel_take(uint64_t number)
{
    struct exchange *exchange = exchange_of(number);

    if (exchange->is_left || exchange->taken_count == exchange->item_count)
        return;
    exchange->items[exchange->taken_count].is_taken = true;
    web_tell(HX_WEB_WRITTEN, exchange->items[exchange->taken_count++].tag);
}

/* Its network is gone: no end of the connection reaches us, and the kernel takes what we write. */
static void client_abandon(uint64_t number)
{
    struct exchange *exchange = exchange_of(number);

    if (exchange->call == 0 || world.calls[exchange->call].web != number)
        return;
    exchange->is_abandoned = true;
    world.calls[exchange->call].has_abandoned = true;
    client_left(number);
}

static void client_begin(void)
{
    struct call *call;
    char body[64];

    assert_true(world.call_count + 1 < CALLS_MAX);
    call = &world.calls[++world.call_count];
    *call = (struct call){.is_faithful = chance(50)};
    (void)snprintf(body, sizeof body, "{\"call\":%u}", world.call_count);
    call->web = request("POST", world.call_count, NULL, body);
}

static void clients_come_back(void)
{
    for (unsigned i = 1; i <= world.call_count; i++) {
        struct call *call = &world.calls[i];
        if (call->back_at == 0 || world.now_ms < call->back_at)
            continue;
        call->back_at = 0;
        call->web = request("GET", i, call->last_id, "");
    }
}

/* --- the engine --- */

static uint64_t engine_send(enum hx_sending_kind kind, uint64_t exchange)
{
    struct hx_sending sending = {.kind = kind, .exchange = exchange};
    struct message *message;
    struct hx_buf line;

    assert_true(world.message_count + 1 < MESSAGES_MAX);
    sending.tag = ++world.message_count;
    message = &world.messages[sending.tag];
    *message = (struct message){.is_answer = kind == HX_SENDING_ANSWER};
    hx_buf_init(&line, 1000);
    (void)hx_buf_printf(&line, "{\"method\":\"x\",\"m\":%llu}", (unsigned long long)sending.tag);
    world.session->ops->send(world.session, &line, &sending);
    assert_int_equal(line.len, 0);
    hx_buf_fini(&line);
    return sending.tag;
}

static struct call *call_of(uint64_t exchange)
{
    for (unsigned i = 1; i <= world.call_count; i++) {
        if (world.calls[i].exchange == exchange)
            return &world.calls[i];
    }
    fail_msg("exchange %llu is nobody's", (unsigned long long)exchange);
    return NULL;
}

static void take_fate(enum hx_peer_event_type type, struct message *message)
{
    if (type == HX_PEER_TAKEN_BACK) {
        assert_true(message->is_believed);
        message->is_believed = false;
        return;
    }
    assert_false(message->is_believed);
    assert_false(message->is_over);
    message->fates++;
    if (type == HX_PEER_WRITTEN) {
        message->is_believed = true;
    } else {
        assert_int_equal(message->fates, 1);
        message->is_over = true;
    }
}

static void take_peer(struct hx_peer_event *event)
{
    struct call *call;

    switch (event->type) {
    case HX_PEER_MESSAGE:
        assert_int_equal(hx_buf_append_char(&event->line, '\0'), 0);
        call = &world.calls[strtoul(strchr(event->line.data, ':') + 1, NULL, 10)];
        assert_int_equal(call->exchange, 0);
        call->exchange = event->exchange;
        if (chance(30)) {
            (void)world.session->ops->stream_name(world.session, event->exchange);
            if (chance(70))
                world.session->ops->stream_kept(world.session, event->exchange);
        }
        break;
    case HX_PEER_RESUME:
        /* Kept too short: this engine has no ledger. */
        world.session->ops->settle(world.session, event->exchange, HX_SETTLING_NO_STREAM);
        break;
    case HX_PEER_EXCHANGE_GONE:
        call = call_of(event->exchange);
        assert_false(call->is_answered);
        assert_false(call->is_gone);
        assert_false(call->is_faithful && call->last_id[0] != '\0');
        call->is_gone = true;
        break;
    case HX_PEER_WRITTEN:
    case HX_PEER_NOT_SENT:
    case HX_PEER_CUT:
    case HX_PEER_TAKEN_BACK:
        assert_in_range(event->tag, 1, world.message_count);
        take_fate(event->type, &world.messages[event->tag]);
        break;
    default:
        fail_msg("event %d", (int)event->type);
    }
    hx_peer_event_free(event);
}

static void engine_act(void)
{
    unsigned at = world.call_count > 0 ? 1 + (unsigned)roll(world.call_count) : 0;
    struct call *call = &world.calls[at];

    if (at == 0 || call->exchange == 0 || call->is_answered || call->is_gone) {
        if (chance(20))
            (void)engine_send(HX_SENDING_ASIDE, 0);
    } else if (chance(40)) {
        call->is_answered = true;
        call->answered_at = world.now_ms;
        (void)engine_send(HX_SENDING_ANSWER, call->exchange);
    } else if (chance(50)) {
        (void)engine_send(HX_SENDING_ASIDE, call->exchange);
    } else if (!call->has_abandoned) {
        struct exchange *exchange = call->web != 0 ? exchange_of(call->web) : NULL;
        bool is_here = exchange != NULL && !exchange->is_left;
        /* What was asked for may not have come there yet. */
        if (!is_here)
            assert_false(world.session->ops->is_reader_alive(world.session, call->exchange));
    }
}

/* --- a history --- */

static void turn(void)
{
    struct hx_list *node;

    assert_int_equal(hx_loop_run_once(world.loop, 0), 0);
    while (hx_http_front_turn(world.front)) {
    }
    while ((node = hx_list_take_first(&world.peers)) != NULL)
        take_peer(hx_container_of(node, struct hx_peer_event, node));
}

static bool authenticate(void *context, struct hx_span authorization, bool is_local,
                         struct hx_http_caller *ret_caller)
{
    (void)context;
    (void)authorization;
    (void)is_local;
    ret_caller->tenant = ret_caller->principal = HX_SPAN_LIT("x");
    return true;
}

static int find_endpoint(void *context, struct hx_span path, const struct hx_http_caller *caller)
{
    (void)context;
    (void)path;
    (void)caller;
    return 0;
}

static struct hx_rand model_rand = {.fill = fill};

static void begin(uint64_t seed)
{
    struct hx_loop_clock clock = {.now = model_now};
    struct hx_http_front_options options = hx_http_front_defaults();
    struct hx_sending sending = {.kind = HX_SENDING_ANSWER};
    struct hx_http_front_event *event;
    struct hx_buf line;

    memset(&world, 0, sizeof world);
    world.random = seed * 0x9e3779b97f4a7c15u + 1;
    world.now_ms = 1000;
    world.loop = hx_loop_new(&clock);
    world.web = (struct hx_web){.ops = &web_ops, .inbox = &world.web_inbox};
    hx_list_init(&world.web_inbox);
    hx_list_init(&world.peers);
    hx_list_init(&world.fronts);
    options.rand = &model_rand;
    options.peer_inbox = &world.peers;
    options.front_inbox = &world.fronts;
    options.authenticate = authenticate;
    options.find_endpoint = find_endpoint;
    options.stream_after_ms = AFTER_MS;
    options.stream_keep_ms = KEEP_MS;
    options.queue_messages_max = 4;
    options.taken_back_within_ms = 3600 * 1000; /* these clients read as slowly as they like */
    world.front = hx_http_front_new(world.loop, &world.web, &options);
    (void)request("POST", 0, NULL, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}");
    assert_true(hx_http_front_turn(world.front));
    event = hx_container_of(hx_list_first(&world.fronts), struct hx_http_front_event, node);
    world.session = event->downstream;
    hx_http_front_event_free(event);
    hx_peer_event_free(hx_container_of(hx_list_first(&world.peers), struct hx_peer_event, node));
    hx_buf_init(&line, 1000);
    (void)hx_buf_append_cstr(&line, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
    sending.exchange = 1;
    world.session->ops->send(world.session, &line, &sending);
    hx_buf_fini(&line);
    exchange_of(1)->is_left = true;
    assert_int_equal(world.session_id[0] != '\0', 1);
}

static void step(bool is_ending)
{
    uint64_t recent = world.exchange_count < 24 ? world.exchange_count : 24;
    uint64_t number = world.exchange_count - roll(recent);
    struct exchange *exchange = exchange_of(number);

    world.now_ms += (int64_t)roll(chance(2) ? KEEP_MS / 4 : 20);
    switch (roll(8)) {
    case 0:
        if (!is_ending && world.call_count + 2 < CALLS_MAX)
            client_begin();
        break;
    case 1:
    case 2:
        engine_act();
        break;
    case 3:
    case 4:
        kernel_take(number);
        break;
    case 5:
    case 6:
        client_read(number);
        break;
    case 7:
        if (!is_ending && chance(20)) {
            (void)request("GET", 0, NULL, "");
        } else if (!is_ending && chance(20) && !exchange->is_left) {
            client_abandon(number);
        } else if (!is_ending && chance(40) && exchange->state != WEB_GONE && !exchange->is_left) {
            web_leave(number);
            client_left(number);
        }
        break;
    }
    clients_come_back();
    turn();
}

/* Everything is answered, taken and read, and whoever wants comes back. */
static void end(void)
{
    for (unsigned round = 0; round < 200; round++) {
        for (unsigned i = 1; i <= world.call_count; i++) {
            struct call *call = &world.calls[i];
            if (call->exchange != 0 && !call->is_answered && !call->is_gone) {
                call->is_answered = true;
                call->answered_at = world.now_ms;
                (void)engine_send(HX_SENDING_ANSWER, call->exchange);
            }
        }
        for (uint64_t number = 2; number <= world.exchange_count; number++) {
            for (unsigned i = 0; i < QUEUE_MAX; i++) {
                kernel_take(number);
                client_read(number);
            }
        }
        world.now_ms += KEEP_MS / 20;
        clients_come_back();
        turn();
    }
    /* Who is left has read all. */
    for (uint64_t number = 2; number <= world.exchange_count; number++) {
        if (!exchange_of(number)->is_left)
            web_leave(number);
    }
    turn();
    world.session->ops->close(world.session);
    turn();
}

static void check(uint64_t seed)
{
    for (unsigned i = 1; i <= world.message_count; i++) {
        const struct message *message = &world.messages[i];
        if (message->fates == 0 || message->is_believed != message->is_read)
            fail_msg("seed %llu: message %u has %u fates, is believed %d and read %d",
                     (unsigned long long)seed, i, message->fates, message->is_believed,
                     message->is_read);
    }
    for (unsigned i = 1; i <= world.call_count; i++) {
        const struct call *call = &world.calls[i];
        if (call->answers > 1 ||
            (call->answers == 0 && call->is_faithful && !call->is_lost && call->last_id[0] != '\0'))
            fail_msg("seed %llu: call %u has %u answers", (unsigned long long)seed, i,
                     call->answers);
        if (call->exchange != 0)
            assert_true(call->is_answered || call->is_gone);
    }
    assert_int_equal(hx_http_front_counts(world.front).streams, 0);
}

static uint64_t resumed_count;

static void history(uint64_t seed)
{
    begin(seed);
    for (unsigned i = 0; i < STEPS; i++)
        step(false);
    end();
    check(seed);
    resumed_count += hx_http_front_counts(world.front).resumed;
    world.front = hx_http_front_free(world.front);
    assert_true(hx_list_is_empty(&world.peers));
    world.loop = hx_loop_free(world.loop);
}

static uint64_t seed_asked;

static void what_is_told_is_the_truth(void **state)
{
    (void)state;
    if (seed_asked != 0) {
        history(seed_asked);
        return;
    }
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        history(seed);
    print_message("# %llu streams were taken up\n", (unsigned long long)resumed_count);
    assert_true(resumed_count > SEEDS);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_told_is_the_truth)};

    seed_asked = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
