/* SPDX-License-Identifier: MIT */
/*
 * The tool server: behind pipes, where its bytes are cut into lines, or over HTTP, where each
 * request is an exchange that ends in an answer, a refusal or nothing.
 */
#include "tests/fuzz/world/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static struct world_way *way_of(struct hx_upstream *upstream)
{
    return hx_container_of(upstream, struct world_way, upstream);
}

static struct hx_peer_event *append(struct world_way *way, enum hx_peer_event_type type,
                                    uint32_t generation, uint64_t tag, struct hx_span line)
{
    hx_assert(way->world->gateway != NULL); /* or nobody takes it from the inbox */
    struct hx_peer_event *event = hx_peer_event_new(type, generation);
    event->upstream = &way->upstream;
    event->tag = tag;
    if (!hx_span_is_absent(line))
        hx_assert(hx_buf_append_span(&event->line, line) == 0);
    hx_list_append(&way->world->upstream_inbox, &event->node);
    return event;
}

static void fate(struct world_way *way, enum hx_peer_event_type type, uint64_t tag)
{
    if (tag != 0)
        (void)append(way, type, way->generation, tag, HX_SPAN_NONE);
}

void world_owed_free(struct world_owed *owed)
{
    hx_list_unlink(&owed->node);
    hx_free(owed);
}

struct world_owed *world_owed_at(struct world_way *way, unsigned n)
{
    for (struct hx_list *at = way->owed.prev; at != &way->owed; at = at->prev) {
        if (n-- == 0)
            return hx_container_of(at, struct world_owed, node);
    }
    return NULL;
}

struct world_way *world_way_at(struct world *world, unsigned n)
{
    struct world_way *last = NULL;
    hx_list_for_each (at, &world->ways) {
        last = hx_container_of(at, struct world_way, node);
        if (n-- == 0)
            break;
    }
    return last;
}

static bool is_alive(const struct world_way *way)
{
    return way->state == WORLD_WAY_RUNNING || way->state == WORLD_WAY_ENDING;
}

/* ---- what it says ---- */

/* Over HTTP: is it the answer to what is owed here? */
static bool is_answer_to(struct world *world, const struct world_owed *owed, struct hx_span line)
{
    struct hx_rpc_msg msg;
    struct hx_rpc_id id = hx_rpc_id_parse(hx_span_cstr(owed->raw_id));
    hx_assert(hx_rpc_read(&world->tape, line, &world->limits, &world->arena, &msg) == 0);
    return (msg.kind == HX_RPC_RESULT || msg.kind == HX_RPC_ERROR) && hx_rpc_id_eq(&msg.id, &id);
}

static void say_on(struct world_way *way, struct world_owed *owed, struct hx_span line)
{
    struct world *world = way->world;
    struct hx_rpc_msg msg;
    if (line.len > WORLD_MESSAGE_MAX) {
        struct hx_peer_event *event =
            append(way, HX_PEER_OVERSIZE, owed->generation, owed->tag, hx_span_cstr(owed->raw_id));
        event->size = line.len;
        event->has_result = true;
        event->is_answer = true;
        memset(event->digest_hex, '0', sizeof event->digest_hex - 1);
        world_owed_free(owed);
        return;
    }
    hx_assert(hx_rpc_read(&world->tape, line, &world->limits, &world->arena, &msg) == 0);
    if (msg.kind == HX_RPC_INVALID) {
        world_server_lose(way, owed, 2);
        return;
    }
    bool is_answer = is_answer_to(world, owed, line);
    append(way, HX_PEER_MESSAGE, owed->generation, owed->tag, line)->is_answer = is_answer;
    world_judge_server(way, line);
}

static void say_line(struct world_way *way, const struct hx_line *line)
{
    struct hx_peer_event *event;
    if (line->kind != HX_LINE_OVERSIZE) {
        (void)append(way, HX_PEER_MESSAGE, way->generation, 0, line->text);
        world_judge_server(way, line->text);
        return;
    }
    event = append(way, HX_PEER_OVERSIZE, way->generation, 0, line->text);
    event->size = line->size;
    event->has_method = line->skim.has_method;
    event->has_result = line->skim.has_result;
    event->has_error = line->skim.has_error;
    hx_digest_hex(&line->digest, event->digest_hex);
    struct hx_rpc_id id = hx_rpc_id_parse(line->text);
    hx_list_for_each_safe (at, &way->owed) {
        struct world_owed *owed = hx_container_of(at, struct world_owed, node);
        struct hx_rpc_id its = hx_rpc_id_parse(hx_span_cstr(owed->raw_id));
        if (!line->skim.has_method && hx_rpc_id_eq(&id, &its))
            world_owed_free(owed);
    }
}

void world_server_line(struct world_way *way, struct hx_span bytes)
{
    struct hx_line line;
    struct world_owed *owed = world_owed_at(way, 0);
    if (!is_alive(way))
        return;
    if (way->world->is_remote) {
        while (bytes.len > 0 && bytes.ptr[bytes.len - 1] == '\n')
            bytes.len--;
        if (owed != NULL)
            say_on(way, owed, bytes);
        return;
    }
    while (hx_lines_next(&way->lines, &bytes, &line))
        say_line(way, &line);
}

/* What a tool answers. */
static void put_outcome(struct hx_buf *out, struct world *world, unsigned form)
{
    unsigned run = ++world->run_count;
    switch (form) {
    case 1:
        (void)hx_buf_printf(out, "\"result\":{\"content\":[],\"isError\":true,\"run\":%u}", run);
        return;
    case 2:
        (void)hx_buf_printf(out, "\"error\":{\"code\":-32050,\"message\":\"broke %u\"}", run);
        return;
    case 3:
        (void)hx_buf_append_cstr(out, "\"error\":{\"code\":-32010,\"message\":\"nothing done\"}");
        return;
    case 4:
        (void)hx_buf_append_cstr(out, "\"error\":{\"code\":-32011,\"message\":\"later\"}");
        return;
    case 5:
        (void)hx_buf_append_cstr(out, "\"result\":{\"task\":{\"taskId\":\"t\",\"status\":"
                                      "\"working\",\"pollInterval\":100}}");
        return;
    case 6:
        (void)hx_buf_append_cstr(out, "\"error\":{\"code\":-32042,\"message\":\"open\",\"data\":{"
                                      "\"elicitations\":[]}}");
        return;
    case 8:
        (void)hx_buf_append_cstr(out, "\"result\":{\"resultType\":\"input_required\","
                                      "\"inputRequests\":{},\"requestState\":\"x\"}");
        return;
    case 9:
        (void)hx_buf_append_cstr(out, "\"result\":{\"content\":[],\"isError\":true,\"_meta\":{"
                                      "\"dev.hapax/operation\":{\"code\":\"BUSY\",\"id\":\"x\"}}}");
        return;
    case 10:
    case 11: {
        int len = form == 10 ? WORLD_RESULT_MAX : WORLD_MESSAGE_MAX;
        (void)hx_buf_printf(out, "\"result\":{\"content\":[],\"run\":%u,\"pad\":\"%*s\"}", run, len,
                            "");
        return;
    }
    case 12:
        (void)hx_buf_printf(out, "\"result\":{\"content\":[],\"run\":%u}", run);
        return;
    default:
        (void)hx_buf_printf(
            out, "\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"done\"}],\"run\":%u}",
            run);
    }
}

static void put_member(struct hx_buf *out, struct world *world, enum world_method method,
                       unsigned form)
{
    static const char *const hellos[] = {
        "\"tools\":{}", "\"tools\":{},\"tasks\":{\"requests\":{\"tools\":{\"call\":{}}}}",
        "\"extensions\":{\"dev.hapax/operations\":{}}"};
    static const char *const revisions[] = {"2025-11-25", "2025-06-18", "2025-03-26"};
    static const char *const states[] = {"completed", "working", "failed", "cancelled",
                                         "input_required"};
    if (form == 7 || (form == 8 && method != WORLD_CALL)) {
        (void)hx_buf_printf(out, "\"error\":{\"code\":-32601,\"message\":\"no\"}");
        return;
    }
    switch (method) {
    case WORLD_INITIALIZE:
        (void)hx_buf_printf(out,
                            "\"result\":{\"protocolVersion\":\"%s\",\"capabilities\":{%s},"
                            "\"serverInfo\":{\"name\":\"f\",\"version\":\"1\"}}",
                            revisions[form / 3 % 3], hellos[form % 3]);
        return;
    case WORLD_LIST:
        (void)hx_buf_append_cstr(
            out, "\"result\":{\"tools\":[{\"name\":\"pay\",\"inputSchema\":{\"type\":\"object\"},"
                 "\"execution\":{\"taskSupport\":\"optional\"}},{\"name\":\"note\",\"inputSchema\":"
                 "{\"type\":\"object\",\"properties\":{}},\"annotations\":{\"readOnlyHint\":true}}"
                 "]}");
        return;
    case WORLD_TASK_GET:
        (void)hx_buf_printf(out,
                            "\"result\":{\"taskId\":\"t\",\"status\":\"%s\",\"pollInterval\":100}",
                            states[form % 5]);
        return;
    case WORLD_CALL:
    case WORLD_TASK_RESULT:
        put_outcome(out, world, form);
        return;
    case WORLD_OTHER:
        (void)hx_buf_append_cstr(out, "\"result\":{}");
        return;
    }
}

void world_server_answer(struct world_way *way, struct world_owed *owed, unsigned form)
{
    struct world *world = way->world;
    struct hx_buf text;
    hx_buf_init(&text, WORLD_TEXT_MAX);
    if (is_alive(way)) {
        (void)hx_buf_printf(&text, "{\"jsonrpc\":\"2.0\",\"id\":%s,", owed->raw_id);
        put_member(&text, world, owed->method, form);
        (void)hx_buf_append_cstr(&text, "}\n");
        hx_assert(hx_buf_ok(&text));
        world_mangle(world, text.data, &text.len);
    }
    struct hx_span all = hx_buf_span(&text);
    if (all.len > 0 && world->is_remote) {
        while (all.len > 0 && all.ptr[all.len - 1] == '\n')
            all.len--;
        say_on(way, owed, all);
    } else if (all.len > 0) {
        world_server_line(way, all);
    }
    hx_buf_fini(&text);
}

void world_server_lose(struct world_way *way, struct world_owed *owed, unsigned form)
{
    static const enum hx_peer_loss losses[] = {HX_PEER_LOSS_CONNECTION, HX_PEER_LOSS_STATUS,
                                               HX_PEER_LOSS_UNREADABLE, HX_PEER_LOSS_NO_ANSWER};
    static const int statuses[] = {404, 429, 401, 403};
    struct world *world = way->world;
    uint32_t generation = owed->generation;
    bool is_in_session = owed->method != WORLD_INITIALIZE;
    if (!world->is_remote)
        return;
    if (form % 8 == 4 && !is_in_session)
        form = 1; /* of no session can be said that it is gone */
    if (form % 8 < 4) {
        struct hx_peer_event *event =
            append(way, HX_PEER_ANSWER_LOST, owed->generation, owed->tag, HX_SPAN_NONE);
        event->loss = losses[form % 4];
        event->status = event->loss == HX_PEER_LOSS_STATUS ? 503 : 0;
    } else {
        append(way, HX_PEER_REJECTED, owed->generation, owed->tag, HX_SPAN_NONE)->status =
            statuses[form % 4];
        if (owed->send >= 0)
            world->sends[owed->send].is_refused = true;
    }
    world_owed_free(owed);
    if (form % 8 == 4 && generation == way->generation)
        world_server_forget_session(way);
}

void world_server_aside(struct world_way *way, unsigned form)
{
    static const char *const forms[] = {
        "\"id\":\"q\",\"method\":\"sampling/createMessage\",\"params\":{\"messages\":[]}",
        "\"id\":7,\"method\":\"elicitation/create\",\"params\":{\"message\":\"m\"}",
        "\"id\":1,\"method\":\"roots/list\"",
        "\"id\":\"p\",\"method\":\"ping\"",
        "\"method\":\"notifications/tools/list_changed\"",
        "\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":1}",
        "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":\"q\"}",
        "\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"pay\"}"};
    struct world_owed *owed = world_owed_at(way, 0);
    char text[256];
    if (form % 9 == 8)
        snprintf(text, sizeof text,
                 "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{"
                 "\"progressToken\":%s,\"progress\":1}}\n",
                 owed != NULL && owed->token[0] != '\0' ? owed->token : "1");
    else
        snprintf(text, sizeof text, "{\"jsonrpc\":\"2.0\",%s}\n", forms[form % 9]);
    size_t len = strlen(text);
    world_mangle(way->world, text, &len);
    world_server_line(way, hx_span(text, len));
}

/* ---- what it hears ---- */

static enum world_method method_of(struct hx_span name)
{
    static const struct {
        const char *name;
        enum world_method method;
    } methods[] = {{"initialize", WORLD_INITIALIZE},
                   {"tools/call", WORLD_CALL},
                   {"tools/list", WORLD_LIST},
                   {"tasks/get", WORLD_TASK_GET},
                   {"tasks/result", WORLD_TASK_RESULT}};
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        if (hx_span_eq_cstr(name, methods[i].name))
            return methods[i].method;
    }
    return WORLD_OTHER;
}

static void hear(struct world_way *way, struct hx_span line, uint64_t tag, int send)
{
    struct world *world = way->world;
    struct hx_rpc_msg msg;
    hx_assert(hx_rpc_read(&world->tape, line, &world->limits, &world->arena, &msg) == 0);
    if (msg.kind == HX_RPC_INVALID || memchr(line.ptr, '\n', line.len) != NULL)
        world_fail(world, "the server is told what is no message: %.*s", HX_SPAN_FMT(line));
    if (msg.kind != HX_RPC_REQUEST || (world->is_remote && tag == 0))
        return;
    struct world_owed *owed = hx_new(struct world_owed);
    owed->tag = tag;
    owed->generation = way->generation;
    owed->method = method_of(msg.method);
    owed->send = send;
    hx_assert(msg.id.raw.len < sizeof owed->raw_id); /* the ids are the gateway's own */
    memcpy(owed->raw_id, msg.id.raw.ptr, msg.id.raw.len);
    uint32_t meta = hx_json_member(&world->tape, msg.params_token, HX_SPAN_LIT("_meta"));
    uint32_t token = hx_json_member(&world->tape, meta, HX_SPAN_LIT("progressToken"));
    struct hx_span raw = token != HX_JSON_NONE ? hx_json_raw(&world->tape, token) : HX_SPAN_NONE;
    if (raw.len < sizeof owed->token && raw.len > 0)
        memcpy(owed->token, raw.ptr, raw.len);
    hx_list_append(&way->owed, &owed->node);
}

static void send_line(struct hx_upstream *upstream, struct hx_buf *line, uint64_t tag)
{
    struct world_way *way = way_of(upstream);
    struct world *world = way->world;
    if (world->is_freeing) {
        hx_buf_reset(line);
        return;
    }
    int send = tag != 0 ? world_judge_send(way, tag) : -1;
    bool is_open = way->state == WORLD_WAY_RUNNING && !way->is_input_closed && !way->is_lost;
    bool is_refused = world->is_remote && world->not_sent > 0;
    world->not_sent -= is_refused;
    if (!is_open || is_refused) {
        fate(way, HX_PEER_NOT_SENT, tag);
    } else if (way->is_stalled && way->stalled_tag != 0) {
        struct world_unread *queued = hx_new(struct world_unread);
        queued->tag = tag;
        hx_list_append(&way->queued, &queued->node);
    } else if (way->is_stalled && tag != 0) {
        way->stalled_tag = tag;
        fate(way, HX_PEER_FIRST_BYTE, tag);
        if (send >= 0)
            world->sends[send].has_left = true;
    } else {
        fate(way, HX_PEER_FIRST_BYTE, tag);
        fate(way, HX_PEER_WRITTEN, tag);
        if (send >= 0)
            world->sends[send].has_left = true;
        hear(way, hx_buf_span(line), tag, send);
    }
    hx_buf_reset(line);
}

static void send_with(struct hx_upstream *upstream, struct hx_buf *line, struct hx_span headers,
                      uint64_t tag)
{
    (void)headers;
    send_line(upstream, line, tag);
}

static void drop(struct hx_upstream *upstream, uint64_t tag)
{
    struct world_way *way = way_of(upstream);
    hx_list_for_each_safe (at, &way->owed) {
        struct world_owed *owed = hx_container_of(at, struct world_owed, node);
        if (owed->tag == tag)
            world_owed_free(owed);
    }
}

/* The text is the id of then. */
static void resume(struct hx_upstream *upstream, struct hx_span text, uint64_t tag)
{
    struct world_way *way = way_of(upstream);
    if (way->world->is_freeing)
        return;
    struct world_owed *owed = hx_new(struct world_owed);
    owed->tag = tag;
    owed->generation = way->generation;
    owed->method = WORLD_CALL;
    owed->send = -1;
    hx_assert(text.len > 0 && text.len < sizeof owed->raw_id);
    memcpy(owed->raw_id, text.ptr, text.len);
    hx_list_append(&way->owed, &owed->node);
}

void world_server_point(struct world_way *way, const struct world_owed *owed)
{
    if (way->world->is_remote)
        (void)append(way, HX_PEER_RESUME_POINT, owed->generation, owed->tag,
                     hx_span_cstr(owed->raw_id));
}

/* ---- its life ---- */

static void free_queued(struct world_way *way)
{
    hx_list_for_each_safe (at, &way->queued) {
        hx_list_unlink(at);
        hx_free(hx_container_of(at, struct world_unread, node));
    }
}

static void start(struct hx_upstream *upstream, uint32_t generation)
{
    struct world_way *way = way_of(upstream);
    struct world *world = way->world;
    if (world->is_freeing)
        return;
    if (way->state != WORLD_WAY_DOWN && !world->is_remote)
        world_fail(world, "a server is started while one is there");
    way->generation = generation;
    way->state = WORLD_WAY_RUNNING;
    way->is_input_closed = way->is_stalled = way->is_lost = false;
    way->stalled_tag = 0;
    snprintf(way->name, sizeof way->name, "%u-%u-%u", world->life, world->way_count, generation);
    if (world->bad_starts > 0) {
        world->bad_starts--;
        world_server_die(way, 512);
        return;
    }
    (void)append(way, HX_PEER_STARTED, generation, 0, HX_SPAN_NONE);
}

void world_server_die(struct world_way *way, int status)
{
    struct hx_line line;
    if (way->state == WORLD_WAY_DOWN)
        return;
    if (way->stalled_tag != 0)
        fate(way, HX_PEER_CUT, way->stalled_tag);
    hx_list_for_each (at, &way->queued)
        fate(way, HX_PEER_NOT_SENT, hx_container_of(at, struct world_unread, node)->tag);
    free_queued(way);
    if (!way->world->is_remote && hx_lines_end(&way->lines, &line))
        say_line(way, &line);
    hx_list_for_each_safe (at, &way->owed) {
        struct world_owed *owed = hx_container_of(at, struct world_owed, node);
        if (way->world->is_remote)
            append(way, HX_PEER_ANSWER_LOST, owed->generation, owed->tag, HX_SPAN_NONE)->loss =
                HX_PEER_LOSS_STOPPED;
        world_owed_free(owed);
    }
    append(way, HX_PEER_CLOSED, way->generation, 0, HX_SPAN_NONE)->status = status;
    hx_memory_ledger_transport_gone(way->world->ledger, way->name);
    way->state = WORLD_WAY_DOWN;
    way->stalled_tag = 0;
}

void world_server_close_input(struct world_way *way)
{
    way->is_input_closed = !way->world->is_remote;
}

void world_server_forget_session(struct world_way *way)
{
    if (!way->world->is_remote || way->state != WORLD_WAY_RUNNING || way->is_lost)
        return;
    way->is_lost = true;
    (void)append(way, HX_PEER_SESSION_LOST, way->generation, 0, HX_SPAN_NONE);
}

void world_server_stall(struct world_way *way, bool is_stalled)
{
    if (way->world->is_remote || way->state != WORLD_WAY_RUNNING)
        return;
    if (is_stalled && way->is_stalled && way->stalled_tag != 0)
        (void)append(way, HX_PEER_STALLED, way->generation, way->stalled_tag, HX_SPAN_NONE);
    way->is_stalled |= is_stalled;
    /* It reads on, and what it makes of half of what it got nobody knows: it ends. */
    if (!is_stalled && way->stalled_tag != 0)
        world_server_die(way, 256);
    if (!is_stalled)
        way->is_stalled = false;
}

static void stop(struct hx_upstream *upstream)
{
    struct world_way *way = way_of(upstream);
    if (way->state == WORLD_WAY_RUNNING && !way->world->is_freeing)
        way->state = WORLD_WAY_ENDING;
}

static void hold(struct hx_upstream *upstream, bool is_held)
{
    (void)upstream;
    (void)is_held;
}

static const char *transport_name(struct hx_upstream *upstream)
{
    return way_of(upstream)->world->is_remote ? "" : way_of(upstream)->name;
}

static const struct hx_upstream_ops child_ops = {.start = start,
                                                 .send = send_line,
                                                 .stop = stop,
                                                 .kill = stop,
                                                 .hold = hold,
                                                 .transport_name = transport_name};

static const struct hx_upstream_ops remote_ops = {.start = start,
                                                  .send = send_line,
                                                  .stop = stop,
                                                  .kill = stop,
                                                  .hold = hold,
                                                  .transport_name = transport_name,
                                                  .send_with = send_with,
                                                  .drop = drop,
                                                  .resume = resume};

struct hx_upstream *world_way_new(void *context)
{
    struct world *world = context;
    struct world_way *way = hx_new(struct world_way);
    way->world = world;
    world->way_count++;
    way->upstream = (struct hx_upstream){.ops = world->is_remote ? &remote_ops : &child_ops,
                                         .inbox = &world->upstream_inbox};
    hx_lines_init(&way->lines, WORLD_MESSAGE_MAX, world->hasher);
    hx_list_init(&way->owed);
    hx_list_init(&way->queued);
    hx_list_append(&world->ways, &way->node);
    return &way->upstream;
}

/* With its gateway, or because nobody needs it any more. */
void world_way_free(struct world_way *way)
{
    struct world *world = way->world;
    if (world->is_freeing)
        return; /* life_end */
    if (way->state != WORLD_WAY_DOWN)
        hx_memory_ledger_transport_gone(world->ledger, way->name);
    hx_list_for_each_safe (at, &way->owed)
        world_owed_free(hx_container_of(at, struct world_owed, node));
    free_queued(way);
    hx_lines_fini(&way->lines);
    hx_list_for_each_safe (at, &world->upstream_inbox) {
        struct hx_peer_event *event = hx_container_of(at, struct hx_peer_event, node);
        if (event->upstream != &way->upstream)
            continue;
        hx_list_unlink(at);
        hx_peer_event_free(event);
    }
    hx_list_unlink(&way->node);
    hx_free(way);
}

void world_server_answer_all(struct world *world)
{
    hx_list_for_each (at, &world->ways) {
        struct world_way *way = hx_container_of(at, struct world_way, node);
        struct world_owed *owed;
        while (is_alive(way) && (owed = world_owed_at(way, 0)) != NULL) {
            world_server_answer(way, owed, 0);
        }
    }
    hx_list_for_each (at, &world->doors) {
        struct world_door *door = hx_container_of(at, struct world_door, node);
        struct hx_list *first;
        while ((first = hx_list_first(&door->questions)) != NULL)
            world_client_answer(door, hx_container_of(first, struct world_question, node), 6);
    }
}
