/* SPDX-License-Identifier: MIT */
/*
 * The clients: what they say, what is written to them and when, and the ways they leave.
 */
#include "tests/fuzz/world/world.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/internal.h"

static struct world_door *door_of(struct hx_downstream *downstream)
{
    return hx_container_of(downstream, struct world_door, downstream);
}

static struct hx_peer_event *append(struct world_door *door, enum hx_peer_event_type type,
                                    uint64_t tag, uint64_t exchange, struct hx_span line)
{
    hx_assert(door->world->gateway != NULL); /* or nobody takes it from the inbox */
    struct hx_peer_event *event = hx_peer_event_new(type, 0);
    event->downstream = &door->downstream;
    event->tag = tag;
    event->exchange = exchange;
    if (!hx_span_is_absent(line))
        hx_assert(hx_buf_append_span(&event->line, line) == 0);
    hx_list_append(&door->world->downstream_inbox, &event->node);
    return event;
}

static bool is_there(const struct world_door *door)
{
    return !door->is_closed && !door->is_over && door->world->gateway != NULL;
}

/* ---- what it is owed ---- */

struct world_request *world_request_find(struct world_door *door, const struct hx_rpc_id *id)
{
    struct world_request *found = NULL;
    struct hx_buf key;
    hx_buf_init(&key, HX_RPC_ID_MAX + 16);
    hx_rpc_id_key(id, &key);
    hx_list_for_each (at, &door->requests) {
        struct world_request *request = hx_container_of(at, struct world_request, node);
        if (hx_span_eq(hx_buf_span(&request->id_key), hx_buf_span(&key)))
            found = request;
    }
    hx_buf_fini(&key);
    return found;
}

struct world_request *world_request_at(struct world_door *door, unsigned n)
{
    for (struct hx_list *at = door->requests.prev; at != &door->requests; at = at->prev) {
        if (n-- == 0)
            return hx_container_of(at, struct world_request, node);
    }
    return NULL;
}

static struct world_request *request_arrives(struct world_door *door, const struct hx_rpc_id *id,
                                             struct hx_span line, uint64_t exchange)
{
    struct world_request *request = world_request_find(door, id);
    if (request == NULL) {
        request = hx_new(struct world_request);
        hx_buf_init(&request->id_key, HX_RPC_ID_MAX + 16);
        hx_rpc_id_key(id, &request->id_key);
        hx_buf_init(&request->line, WORLD_TEXT_MAX);
        if (id->raw.len < sizeof request->raw_id)
            memcpy(request->raw_id, id->raw.ptr, id->raw.len);
        hx_list_append(&door->requests, &request->node);
        door->request_count++;
    }
    hx_buf_reset(&request->line);
    hx_assert(hx_buf_append_span(&request->line, line) == 0);
    request->arrivals++;
    request->exchange = exchange;
    return request;
}

static bool is_guarded(struct world *world, const struct hx_rpc_msg *msg)
{
    struct hx_mcp_call call;
    if (!hx_span_eq_cstr(msg->method, "tools/call"))
        return false;
    hx_assert(hx_mcp_call_read(&world->tape, msg, &world->arena, &call) == 0);
    return call.name.state == HX_MCP_TEXT_GIVEN && call.name.text.len > 0 &&
           call.name.text.ptr[0] != 'o' &&
           !hx_span_starts_with(call.name.text, HX_SPAN_LIT("hapax_"));
}

static void note_cancel(struct world_door *door, const struct hx_rpc_msg *msg)
{
    struct world *world = door->world;
    struct hx_mcp_cancelled cancelled;
    if (hx_mcp_method_parse(msg->method) != HX_MCP_CANCELLED)
        return;
    hx_assert(hx_mcp_cancelled_read(&world->tape, msg, &world->arena, &cancelled) == 0);
    if (cancelled.request_id.type == HX_RPC_ID_NONE)
        return;
    struct world_request *request = world_request_find(door, &cancelled.request_id);
    if (request == NULL)
        return;
    request->is_cancelled = true;
    request->was_open_at_cancel |= request->answers == 0 && !request->is_initialize;
}

static void note_message(struct world_door *door, struct hx_span line, uint64_t exchange,
                         bool is_element)
{
    struct world *world = door->world;
    struct hx_rpc_msg msg;
    hx_assert(hx_rpc_read(&world->tape, line, &world->limits, &world->arena, &msg) == 0);
    if (msg.kind == HX_RPC_NOTIFICATION)
        note_cancel(door, &msg);
    if (msg.kind == HX_RPC_REQUEST) {
        bool is_of_ledger = is_guarded(world, &msg);
        struct world_request *request = request_arrives(door, &msg.id, line, exchange);
        request->is_guarded |= is_of_ledger;
        request->is_initialize |= hx_span_eq_cstr(msg.method, "initialize");
    }
    if (msg.kind == HX_RPC_INVALID && (msg.fault != HX_RPC_EMPTY || exchange != 0 || is_element)) {
        bool has_id = msg.id.type == HX_RPC_ID_INTEGER || msg.id.type == HX_RPC_ID_STRING;
        if (has_id)
            (void)request_arrives(door, &msg.id, line, exchange);
        else
            door->faults_owed++;
    }
    if (msg.kind != HX_RPC_BATCH)
        return;
    if (is_element || !door->session->era->may_batch) {
        door->faults_owed++;
        return;
    }
    struct hx_span elements[64];
    size_t count = 0;
    hx_json_for_each(at, &world->tape, msg.root)
    {
        hx_assert(count < 64); /* see may_be_said */
        elements[count++] = hx_json_raw(&world->tape, at);
    }
    for (size_t i = 0; i < count; i++)
        note_message(door, elements[i], exchange, true);
}

static void note_oversize(struct world_door *door, const struct hx_line *line)
{
    struct hx_rpc_id id = hx_rpc_id_parse(line->text);
    if (!line->skim.has_method && (line->skim.has_result || line->skim.has_error))
        return;
    if (id.type == HX_RPC_ID_INTEGER || id.type == HX_RPC_ID_STRING)
        (void)request_arrives(door, &id, HX_SPAN_LIT(""), 0);
    else
        door->faults_owed++;
}

/* So that the lists here stay short; it says nothing of what the gateway must be able to take. */
static bool may_be_said(const struct world_door *door, struct hx_span line)
{
    unsigned commas = 0;
    for (size_t i = 0; i < line.len; i++)
        commas += line.ptr[i] == ',';
    return door->request_count < WORLD_REQUESTS_MAX && (commas < 32 || line.ptr[0] != '[');
}

/* ---- what it says ---- */

static void say_line(struct world_door *door, const struct hx_line *line)
{
    struct world *world = door->world;
    if (line->kind != HX_LINE_OVERSIZE) {
        if (!may_be_said(door, line->text))
            return;
        note_message(door, line->text, 0, false);
        (void)append(door, HX_PEER_MESSAGE, 0, 0, line->text);
    } else {
        note_oversize(door, line);
        struct hx_peer_event *event = append(door, HX_PEER_OVERSIZE, 0, 0, line->text);
        event->size = line->size;
        event->has_method = line->skim.has_method;
        event->has_result = line->skim.has_result;
        event->has_error = line->skim.has_error;
    }
    hx_arena_reset(&world->arena);
    world_settle(world);
}

static void say_post(struct world_door *door, struct hx_span bytes)
{
    struct world *world = door->world;
    while (bytes.len > 0 && bytes.ptr[bytes.len - 1] == '\n')
        bytes.len--;
    if (bytes.len > WORLD_MESSAGE_MAX || !may_be_said(door, bytes))
        return;
    struct world_exchange *exchange = hx_new(struct world_exchange);
    exchange->number = ++world->exchange_count;
    snprintf(exchange->name, sizeof exchange->name, "s%llu", (unsigned long long)exchange->number);
    hx_list_append(&door->exchanges, &exchange->node);
    note_message(door, bytes, exchange->number, false);
    (void)append(door, HX_PEER_MESSAGE, 0, exchange->number, bytes);
    hx_arena_reset(&world->arena);
    world_settle(world);
}

void world_client_line(struct world_door *door, struct hx_span bytes)
{
    struct hx_line line;
    if (door->world->is_web) {
        if (is_there(door))
            say_post(door, bytes);
        return;
    }
    while (is_there(door) && !door->is_input_over && hx_lines_next(&door->lines, &bytes, &line))
        say_line(door, &line);
}

void world_client_answer(struct world_door *door, struct world_question *question, unsigned form)
{
    static const char *const forms[] = {
        "\"result\":{\"action\":\"decline\"}",
        "\"result\":{\"action\":\"accept\",\"content\":{\"decision\":\"happened\"}}",
        "\"result\":{\"action\":\"accept\",\"content\":{\"decision\":\"again\"}}",
        "\"result\":{\"action\":\"accept\",\"content\":{\"decision\":\"approve\"}}",
        "\"result\":{\"action\":\"accept\",\"content\":{\"decision\":\"deny\"}}",
        "\"result\":{\"action\":\"accept\",\"content\":{\"decision\":\"stored\"}}",
        "\"result\":{\"action\":\"accept\",\"content\":{\"decision\":\"leave\"}}",
        "\"result\":{\"action\":\"cancel\"}",
        "\"error\":{\"code\":-32601,\"message\":\"no\"}",
        "\"result\":{}"};
    char text[256];
    snprintf(text, sizeof text, "{\"jsonrpc\":\"2.0\",\"id\":%s,%s}\n", question->raw_id,
             forms[form % (sizeof forms / sizeof forms[0])]);
    size_t len = strlen(text);
    hx_list_unlink(&question->node);
    hx_free(question);
    world_mangle(door->world, text, &len);
    world_client_line(door, hx_span(text, len));
}

/* ---- what is written to it ---- */

struct world_exchange *world_exchange_find(struct world_door *door, uint64_t number)
{
    hx_list_for_each (at, &door->exchanges) {
        struct world_exchange *exchange = hx_container_of(at, struct world_exchange, node);
        if (exchange->number == number)
            return exchange;
    }
    return NULL;
}

static void unread_free(struct world_unread *unread)
{
    hx_list_unlink(&unread->node);
    hx_free(unread);
}

/* Only the newest few may still lie in the pipe. */
static void forget_read(struct world_door *door)
{
    enum { UNREAD_MAX = 8 };
    unsigned count = 0;
    hx_list_for_each (at, &door->unread)
        count += hx_container_of(at, struct world_unread, node)->is_written;
    hx_list_for_each_safe (at, &door->unread) {
        struct world_unread *unread = hx_container_of(at, struct world_unread, node);
        if (unread->is_written && count-- > UNREAD_MAX)
            unread_free(unread);
    }
}

static void fate(struct world_door *door, enum hx_peer_event_type type, uint64_t tag)
{
    if (tag != 0)
        (void)append(door, type, tag, 0, HX_SPAN_NONE);
}

static void send_line(struct hx_downstream *downstream, struct hx_buf *line,
                      const struct hx_sending *sending)
{
    struct world_door *door = door_of(downstream);
    struct world *world = door->world;
    struct world_exchange *exchange =
        sending->exchange != 0 ? world_exchange_find(door, sending->exchange) : NULL;
    bool is_aside = sending->kind == HX_SENDING_ASIDE;
    bool is_lost = exchange != NULL ? exchange->state == WORLD_EXCHANGE_GONE : false;
    if (world->is_freeing) {
        hx_buf_reset(line);
        return;
    }
    if (world->is_web && !is_aside && exchange == NULL)
        world_fail(world, "an answer goes to an exchange that never was");
    if (door->is_closed || is_lost) {
        fate(door, HX_PEER_NOT_SENT, sending->tag);
        hx_buf_reset(line);
        return;
    }
    if (exchange != NULL && !is_aside) {
        if (exchange->state != WORLD_EXCHANGE_OPEN)
            world_fail(world, "an exchange is answered twice");
        exchange->state = WORLD_EXCHANGE_ENDED;
    }
    world_judge_answer(door, hx_buf_span(line), sending);
    hx_buf_reset(line);
    struct world_unread *unread = hx_new(struct world_unread);
    unread->tag = sending->tag;
    unread->exchange = sending->exchange;
    hx_list_append(&door->unread, &unread->node);
    if (!world->is_front_slow)
        world_client_write(door);
}

void world_client_write(struct world_door *door)
{
    hx_list_for_each (at, &door->unread) {
        struct world_unread *unread = hx_container_of(at, struct world_unread, node);
        if (!unread->is_written)
            fate(door, HX_PEER_WRITTEN, unread->tag);
        unread->is_written = true;
    }
    forget_read(door);
}

static uint64_t queued_bytes(struct hx_downstream *downstream)
{
    const uint64_t each = 4096;
    uint64_t bytes = 0;
    hx_list_for_each (at, &door_of(downstream)->unread) {
        if (!hx_container_of(at, struct world_unread, node)->is_written)
            bytes += each;
    }
    return bytes;
}

static bool is_reader_alive(struct hx_downstream *downstream, uint64_t number)
{
    struct world_door *door = door_of(downstream);
    const struct world_exchange *exchange = world_exchange_find(door, number);
    if (door->is_closed)
        return false;
    return number == 0 || (exchange != NULL && exchange->state != WORLD_EXCHANGE_GONE);
}

static void hold(struct hx_downstream *downstream, bool is_held)
{
    (void)downstream;
    (void)is_held;
}

/* Of what was written but not read, the reader's end takes it back. */
static void end_unread(struct world_door *door, bool is_taken_back, uint64_t exchange)
{
    hx_list_for_each_safe (at, &door->unread) {
        struct world_unread *unread = hx_container_of(at, struct world_unread, node);
        if (exchange != 0 && unread->exchange != exchange)
            continue;
        if (!unread->is_written)
            fate(door, HX_PEER_NOT_SENT, unread->tag);
        else if (is_taken_back)
            fate(door, HX_PEER_TAKEN_BACK, unread->tag);
        unread_free(unread);
    }
}

static void forget_unread(struct world_door *door)
{
    hx_list_for_each_safe (at, &door->unread)
        unread_free(hx_container_of(at, struct world_unread, node));
}

static void close_both(struct hx_downstream *downstream)
{
    struct world_door *door = door_of(downstream);
    if (door->is_closed || door->world->is_freeing)
        return;
    end_unread(door, false, 0);
    door->is_closed = true;
}

static void settle(struct hx_downstream *downstream, uint64_t number, enum hx_settling settling)
{
    struct world_door *door = door_of(downstream);
    struct world_exchange *exchange = world_exchange_find(door, number);
    if (door->world->is_freeing)
        return;
    if (exchange == NULL)
        world_fail(door->world, "an exchange is settled that never was");
    if (exchange->state == WORLD_EXCHANGE_GONE)
        return;
    if (exchange->state != WORLD_EXCHANGE_OPEN)
        world_fail(door->world, "an exchange is settled after its end");
    exchange->state = WORLD_EXCHANGE_ENDED;
    if (settling == HX_SETTLING_UNREAD) {
        if (!door->is_closed)
            world_fail(door->world, "a message is left unread in a session that has not ended");
        return;
    }
    hx_list_for_each (at, &door->requests) {
        struct world_request *request = hx_container_of(at, struct world_request, node);
        bool is_owed = request->exchange == number && request->answers == 0;
        if (is_owed && !request->is_cancelled && request->arrivals == 1)
            world_fail(door->world, "request %s gets no answer: its exchange was settled",
                       request->raw_id);
    }
}

static struct hx_span stream_name(struct hx_downstream *downstream, uint64_t number)
{
    const struct world_exchange *exchange = world_exchange_find(door_of(downstream), number);
    return exchange != NULL ? hx_span_cstr(exchange->name) : HX_SPAN_NONE;
}

static void stream_kept(struct hx_downstream *downstream, uint64_t number)
{
    if (world_exchange_find(door_of(downstream), number) == NULL)
        world_fail(door_of(downstream)->world, "a stream is kept that never was");
}

static const struct hx_downstream_ops pipe_ops = {
    .send = send_line,
    .queued_bytes = queued_bytes,
    .is_reader_alive = is_reader_alive,
    .hold = hold,
    .close = close_both,
};

static const struct hx_downstream_ops web_ops = {
    .send = send_line,
    .queued_bytes = queued_bytes,
    .is_reader_alive = is_reader_alive,
    .hold = hold,
    .close = close_both,
    .settle = settle,
    .stream_name = stream_name,
    .stream_kept = stream_kept,
};

/* ---- coming and going ---- */

static struct hx_digest session_key(const struct world *world, unsigned number)
{
    struct hx_digest key = {{0}};
    if (world->is_web)
        memcpy(key.bytes, &number, sizeof number);
    return key;
}

static struct world_door *door_new(struct world *world, unsigned number,
                                   const struct hx_store_session *kept)
{
    struct world_door *door = hx_new(struct world_door);
    door->world = world;
    door->number = number;
    door->downstream = (struct hx_downstream){.ops = world->is_web ? &web_ops : &pipe_ops,
                                              .inbox = &world->downstream_inbox};
    hx_lines_init(&door->lines, WORLD_MESSAGE_MAX, world->hasher);
    hx_list_init(&door->requests);
    hx_list_init(&door->unread);
    hx_list_init(&door->exchanges);
    hx_list_init(&door->questions);
    hx_list_append(&world->doors, &door->node);
    /* Every third one is somebody else. */
    const struct hx_session_options options = {
        .server = world->server,
        .downstream = &door->downstream,
        .tenant = HX_SPAN_LIT("local"),
        .principal = door->number % 3 == 0 ? HX_SPAN_LIT("2000") : HX_SPAN_LIT("1000"),
        .key = session_key(world, door->number),
        .endpoint = world->is_web ? HX_SPAN_LIT("bank") : HX_SPAN_NONE,
        .share = world->is_shared ? HX_SPAN_LIT("*") : HX_SPAN_NONE,
        .initialize = kept != NULL ? kept->initialize : HX_SPAN_NONE,
        .revision = kept != NULL ? kept->revision : HX_SPAN_NONE,
    };
    door->session = hx_session_new(world->gateway, &options);
    hx_assert(door->session != NULL);
    world->wake_at = world->now_ms;
    return door;
}

struct world_door *world_door_new(struct world *world)
{
    return door_new(world, ++world->door_count, NULL);
}

static void on_found(void *context, uint64_t ticket, enum hx_store_result result,
                     const struct hx_store_session *found)
{
    struct world *world = context;
    struct world_door *door = NULL;
    hx_list_for_each (at, &world->doors) {
        if (hx_container_of(at, struct world_door, node)->number == ticket)
            door = hx_container_of(at, struct world_door, node);
    }
    if (result != HX_STORE_DONE || door == NULL || !door->was_cut || !door->is_over ||
        hx_gateway_is_draining(world->gateway))
        return;
    struct world_door *again = door_new(world, door->number, found);
    hx_list_splice(&again->requests, &door->requests);
    again->request_count = door->request_count;
    hx_list_splice(&again->exchanges, &door->exchanges);
    hx_list_for_each (at, &again->requests) {
        struct world_request *request = hx_container_of(at, struct world_request, node);
        request->is_let_go |= request->answers < request->arrivals;
    }
    hx_list_for_each (at, &again->exchanges)
        hx_container_of(at, struct world_exchange, node)->state = WORLD_EXCHANGE_GONE;
    world_door_free(door);
    world->door = again;
}

void world_client_return(struct world_door *door)
{
    struct world *world = door->world;
    struct hx_digest key = session_key(world, door->number);
    if (!world->is_web || !door->was_cut || world->gateway == NULL)
        return;
    hx_gateway_find_session(world->gateway, &key, on_found, world, door->number);
    world->wake_at = world->now_ms;
}

void world_door_free(struct world_door *door)
{
    hx_list_for_each_safe (at, &door->requests) {
        struct world_request *request = hx_container_of(at, struct world_request, node);
        hx_list_unlink(at);
        hx_buf_fini(&request->id_key);
        hx_buf_fini(&request->line);
        hx_free(request);
    }
    forget_unread(door);
    hx_list_for_each_safe (at, &door->exchanges) {
        hx_list_unlink(at);
        hx_free(hx_container_of(at, struct world_exchange, node));
    }
    hx_list_for_each_safe (at, &door->questions) {
        hx_list_unlink(at);
        hx_free(hx_container_of(at, struct world_question, node));
    }
    hx_lines_fini(&door->lines);
    hx_list_unlink(&door->node);
    hx_free(door);
}

void world_doors_cut(struct world *world)
{
    hx_list_for_each (at, &world->doors) {
        struct world_door *door = hx_container_of(at, struct world_door, node);
        door->was_cut |= !door->is_closed;
        door->is_closed = door->is_over = true;
        forget_unread(door); /* its tags were the dead gateway's: the next knows nothing of them */
    }
}

void world_client_leave(struct world_door *door, unsigned how)
{
    struct hx_line line;
    if (!is_there(door))
        return;
    if (door->world->is_web && how % 2 == 0) {
        hx_session_end(door->session);
        door->is_closed = true;
    } else if (door->world->is_web) {
        (void)append(door, HX_PEER_ENDED, 0, 0, HX_SPAN_NONE);
        door->is_closed = true;
    } else if (how == 0 || how == 3) {
        if (!door->is_input_over && hx_lines_end(&door->lines, &line))
            say_line(door, &line);
        if (!door->is_input_over && is_there(door))
            (void)append(door, HX_PEER_END_OF_INPUT, 0, 0, HX_SPAN_NONE);
        door->is_input_over = true;
    }
    if (!door->world->is_web && how != 0 && is_there(door)) {
        end_unread(door, how == 3, 0);
        door->is_closed = true;
        (void)append(door, how == 2 ? HX_PEER_FRONT_GONE : HX_PEER_READER_GONE, 0, 0, HX_SPAN_NONE);
    }
    door->world->wake_at = door->world->now_ms;
}

/* Nobody comes back for it. */
void world_client_cut(struct world_door *door, struct world_exchange *exchange)
{
    bool was_open = exchange->state == WORLD_EXCHANGE_OPEN;
    if (!is_there(door) || exchange->state == WORLD_EXCHANGE_GONE)
        return;
    end_unread(door, true, exchange->number);
    exchange->state = WORLD_EXCHANGE_GONE;
    hx_list_for_each (at, &door->requests) {
        struct world_request *request = hx_container_of(at, struct world_request, node);
        request->is_let_go |= request->exchange == exchange->number;
    }
    if (was_open)
        (void)append(door, HX_PEER_EXCHANGE_GONE, 0, exchange->number, HX_SPAN_NONE);
}

void world_client_resume(struct world_door *door, const char *name)
{
    struct world *world = door->world;
    if (!is_there(door) || !world->is_web)
        return;
    struct world_exchange *exchange = hx_new(struct world_exchange);
    exchange->number = ++world->exchange_count;
    snprintf(exchange->name, sizeof exchange->name, "%s", name);
    hx_list_append(&door->exchanges, &exchange->node);
    /* Its request may be answered once more, or nobody knows of it. */
    hx_list_for_each (at, &door->exchanges) {
        const struct world_exchange *before = hx_container_of(at, struct world_exchange, node);
        hx_list_for_each (of, &door->requests) {
            struct world_request *request = hx_container_of(of, struct world_request, node);
            if (request->exchange == before->number && strcmp(before->name, name) == 0) {
                request->arrivals++;
                request->is_let_go = true;
            }
        }
    }
    (void)append(door, HX_PEER_RESUME, 0, exchange->number, hx_span_cstr(name));
}

void world_session_over(void *context, struct hx_downstream *downstream, bool is_ended)
{
    struct world *world = context;
    struct world_door *door = door_of(downstream);
    (void)is_ended;
    door->is_over = true;
    door->is_closed = true;
    door->session = NULL;
    forget_unread(door);
    /* What was just said of it concerns nobody. */
    hx_list_for_each_safe (at, &world->downstream_inbox) {
        struct hx_peer_event *event = hx_container_of(at, struct hx_peer_event, node);
        if (event->downstream != downstream)
            continue;
        hx_list_unlink(at);
        hx_peer_event_free(event);
    }
}
