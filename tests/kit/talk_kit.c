/* SPDX-License-Identifier: MIT */
#include "talk_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* ---- the server ---- */

struct hx_peer_event *talk_kit_from_server(struct talk_kit *talk, enum hx_peer_event_type type,
                                           uint64_t tag, const char *text)
{
    struct hx_peer_event *event = hx_peer_event_new(type, talk->generation);
    event->upstream = &talk->upstream;
    event->tag = tag;
    assert_int_equal(hx_buf_append_cstr(&event->line, text), 0);
    hx_list_append(&talk->engine.upstream_inbox, &event->node);
    return event;
}

void talk_kit_answers(struct talk_kit *talk, const char *member)
{
    char line[TALK_KIT_TEXT_MAX];
    snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",\"id\":%u,%s}", (unsigned)talk->tag, member);
    talk->asked[0] = '\0';
    talk_kit_from_server(talk, HX_PEER_MESSAGE, talk->tag, line)->is_answer = true;
    engine_kit_turn(&talk->engine);
}

static struct talk_kit *talk_of(struct hx_upstream *upstream)
{
    return hx_container_of(upstream, struct talk_kit, upstream);
}

static void up_start(struct hx_upstream *upstream, uint32_t generation)
{
    talk_of(upstream)->generation = generation;
    talk_kit_from_server(talk_of(upstream), HX_PEER_STARTED, 0, "");
}

static const char *or_nothing(const char *capabilities)
{
    return capabilities != NULL ? capabilities : "{}";
}

static const char *revision_of(const struct talk_kit *talk)
{
    return talk->options.revision != NULL ? talk->options.revision : "2025-11-25";
}

static void greet(struct talk_kit *talk, uint64_t tag)
{
    char hello[TALK_KIT_TEXT_MAX];
    snprintf(hello, sizeof hello,
             "{\"jsonrpc\":\"2.0\",\"id\":%u,\"result\":{\"protocolVersion\":\"%s\","
             "\"capabilities\":%s}}",
             (unsigned)tag, revision_of(talk), or_nothing(talk->options.server_capabilities));
    talk_kit_from_server(talk, HX_PEER_MESSAGE, tag, hello)->is_answer = true;
}

static void up_send(struct hx_upstream *upstream, struct hx_buf *line, uint64_t tag)
{
    struct talk_kit *talk = talk_of(upstream);
    char text[TALK_KIT_TEXT_MAX];
    snprintf(text, sizeof text, "%.*s", (int)line->len, line->data);
    hx_buf_reset(line);
    if (tag != 0) {
        talk_kit_from_server(talk, HX_PEER_FIRST_BYTE, tag, "");
        talk_kit_from_server(talk, HX_PEER_WRITTEN, tag, "");
    }
    if (strstr(text, "\"initialize\"") != NULL && !talk->is_mute) {
        greet(talk, tag);
        return;
    }
    talk->calls += strstr(text, "\"tools/call\"") != NULL;
    memcpy(talk->asked, text, sizeof text);
    talk->tag = tag;
}

static void up_stop(struct hx_upstream *upstream)
{
    talk_kit_from_server(talk_of(upstream), HX_PEER_CLOSED, 0, "");
}

static void up_drop(struct hx_upstream *upstream, uint64_t tag)
{
    talk_of(upstream)->dropped = tag;
}

static void up_give_way(struct hx_upstream *upstream, uint64_t tag)
{
    talk_of(upstream)->gave_way = tag;
}

static void up_resume(struct hx_upstream *upstream, struct hx_span text, uint64_t tag)
{
    (void)text;
    talk_of(upstream)->taken_up = tag;
}

static const struct hx_upstream_ops up_ops = {.start = up_start,
                                              .send = up_send,
                                              .stop = up_stop,
                                              .kill = up_stop,
                                              .hold = engine_kit_upstream_hold,
                                              .drop = up_drop,
                                              .give_way = up_give_way,
                                              .resume = up_resume,
                                              .transport_name = engine_kit_upstream_name};

/* One that is a process of ours: nothing of it is dropped by itself. */
static const struct hx_upstream_ops child_ops = {.start = up_start,
                                                 .send = up_send,
                                                 .stop = up_stop,
                                                 .kill = up_stop,
                                                 .hold = engine_kit_upstream_hold,
                                                 .transport_name = engine_kit_upstream_name};

/* ---- the client ---- */

void talk_kit_says(struct talk_kit *talk, const char *line)
{
    talk_kit_says_on(talk, 0, line);
}

void talk_kit_says_on(struct talk_kit *talk, uint64_t exchange, const char *line)
{
    struct hx_peer_event *event = hx_peer_event_new(HX_PEER_MESSAGE, 0);
    event->downstream = &talk->downstream;
    event->exchange = exchange;
    assert_int_equal(hx_buf_append_cstr(&event->line, line), 0);
    hx_list_append(&talk->downstream_inbox, &event->node);
    engine_kit_turn(&talk->engine);
}

static void down_send(struct hx_downstream *downstream, struct hx_buf *line,
                      const struct hx_sending *sending)
{
    struct talk_kit *talk = hx_container_of(downstream, struct talk_kit, downstream);
    struct hx_peer_event *event =
        hx_peer_event_new(talk->is_deaf ? HX_PEER_NOT_SENT : HX_PEER_WRITTEN, 0);
    snprintf(talk->told, sizeof talk->told, "%.*s", (int)line->len, line->data);
    hx_buf_reset(line);
    event->downstream = downstream;
    event->tag = sending->tag;
    hx_list_append(&talk->downstream_inbox, &event->node);
}

static uint64_t down_queued(struct hx_downstream *downstream)
{
    (void)downstream;
    return 0;
}

static bool down_alive(struct hx_downstream *downstream, uint64_t exchange)
{
    (void)downstream;
    (void)exchange;
    return true;
}

static void down_hold(struct hx_downstream *downstream, bool is_held)
{
    (void)downstream;
    (void)is_held;
}

static void down_close(struct hx_downstream *downstream)
{
    (void)downstream;
}

static void down_settle(struct hx_downstream *downstream, uint64_t exchange,
                        enum hx_settling settling)
{
    (void)exchange;
    hx_container_of(downstream, struct talk_kit, downstream)->settled[settling]++;
}

static const struct hx_downstream_ops down_ops = {.send = down_send,
                                                  .queued_bytes = down_queued,
                                                  .is_reader_alive = down_alive,
                                                  .hold = down_hold,
                                                  .close = down_close,
                                                  .settle = down_settle};

/* ---- both ---- */

static void rules_for(void *context, struct hx_span tool, struct hx_tool_rules *ret_rules)
{
    const struct talk_kit *talk = context;
    (void)tool;
    *ret_rules = talk->options.rules;
}

static struct hx_upstream *make_upstream(void *context)
{
    return &((struct talk_kit *)context)->upstream;
}

static void free_upstream(void *context, struct hx_upstream *upstream)
{
    (void)context;
    (void)upstream;
}

void talk_kit_init(struct talk_kit *talk, const struct talk_kit_options *options)
{
    *talk = (struct talk_kit){.options = *options};
    engine_kit_init(&talk->engine);
    hx_list_init(&talk->downstream_inbox);
    talk->upstream = (struct hx_upstream){.ops = options->is_child ? &child_ops : &up_ops,
                                          .inbox = &talk->engine.upstream_inbox};
    talk->downstream = (struct hx_downstream){.ops = &down_ops, .inbox = &talk->downstream_inbox};
}

void talk_kit_begin(struct talk_kit *talk)
{
    char line[TALK_KIT_TEXT_MAX];
    struct hx_gateway_options gateway = engine_kit_gateway_options();
    gateway.ends_with_client = talk->options.is_run;
    engine_kit_begin(&talk->engine, &talk->downstream_inbox, &gateway);
    struct hx_server_options server = engine_kit_server_options();
    server.name = hx_span_cstr(talk->options.name != NULL ? talk->options.name : "s");
    server.is_remote = !talk->options.is_child;
    server.target = talk->options.target;
    server.rules_for = rules_for;
    server.make_upstream = make_upstream;
    server.free_upstream = free_upstream;
    server.context = talk;
    talk->server = hx_server_new(talk->engine.gateway, &server);
    const char *principal = talk->options.principal;
    const struct hx_session_options session = {
        .server = talk->server,
        .downstream = &talk->downstream,
        .tenant = HX_SPAN_LIT("local"),
        .principal = hx_span_cstr(principal != NULL ? principal : "1000")};
    assert_non_null(hx_session_new(talk->engine.gateway, &session));
    snprintf(line, sizeof line,
             "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
             "\"protocolVersion\":\"%s\",\"capabilities\":%s,\"clientInfo\":{\"name\":"
             "\"t\",\"version\":\"1\"}}}",
             revision_of(talk), or_nothing(talk->options.client_capabilities));
    talk_kit_says(talk, line);
    talk_kit_says(talk, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    talk_kit_says(talk, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"}");
    snprintf(line, sizeof line, "\"result\":{\"tools\":%s}", talk->options.tools);
    talk_kit_answers(talk, line);
}

void talk_kit_end(struct talk_kit *talk)
{
    engine_kit_kill(&talk->engine);
    engine_kit_clear(&talk->downstream_inbox);
}

void talk_kit_fini(struct talk_kit *talk)
{
    talk_kit_end(talk);
    engine_kit_fini(&talk->engine);
}

void talk_kit_waits(struct talk_kit *talk, int64_t ms)
{
    engine_kit_pass(&talk->engine, ms);
    engine_kit_turn(&talk->engine);
}

void talk_kit_asks(const struct talk_kit *talk, const char *part)
{
    if (strstr(talk->asked, part) == NULL)
        fail_msg("the server was asked %s\n  not %s", talk->asked, part);
}

void talk_kit_hears(struct talk_kit *talk, const char *part)
{
    if (strstr(talk->told, part) == NULL)
        fail_msg("the client was told %s\n  not %s", talk->told, part);
    talk->told[0] = '\0';
}
