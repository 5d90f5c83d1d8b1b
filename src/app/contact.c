/* SPDX-License-Identifier: MIT */
#include "app/contact.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "adapter/clock_os/clock_os.h"
#include "app/rules.h"
#include "app/upstream.h"
#include "base/alloc.h"
#include "base/fault.h"
#include "wire/jsonrpc.h"

enum { CONTACT_ARENA_MAX = 64 << 20, TOOLS_MAX = 64 * 1024, INITIALIZE_ID = 1 };

/* One server in the course of being asked. */
struct talk {
    struct hx_contact *contact;
    struct hx_upstream_place place;
    struct hx_upstream *upstream; /* NULL: it could not even be made */
    struct hx_loop_timer *timer;
    struct hx_contact_tool **tools_end;
    uint64_t asked; /* id, and tag, of the request that is open */
    bool has_tools; /* it says so */
    bool is_stopping;
    bool is_over; /* nothing of it runs any more */
};

struct round {
    struct hx_loop *loop;
    struct hx_list inbox;
    struct talk *talks;
    size_t count;
    struct hx_json_tape tape;
    struct hx_json_tape parts;
    struct hx_json_limits limits;
    struct hx_json_limits part_limits;
};

static void stop(struct talk *talk)
{
    hx_loop_timer_clear(talk->timer);
    if (!talk->is_stopping)
        talk->upstream->ops->stop(talk->upstream);
    talk->is_stopping = true;
}

/* The first reason stands. */
HX_PRINTF(2, 3) static void fail(struct talk *talk, const char *format, ...)
{
    char *why = talk->contact->why;
    va_list args;
    if (talk->is_stopping || why[0] != '\0')
        return;
    va_start(args, format);
    vsnprintf(why, sizeof(talk->contact->why), format, args);
    va_end(args);
    size_t len = strlen(why);
    while (len > 0 && strchr(" .\n", why[len - 1]) != NULL)
        why[--len] = '\0';
    for (char *at = why; *at != '\0'; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = ' ';
    }
    if (talk->upstream != NULL)
        stop(talk);
}

/* --- what we say --- */

static void send_line(struct talk *talk, struct hx_buf *line, uint64_t tag)
{
    if (hx_buf_ok(line))
        talk->upstream->ops->send(talk->upstream, line, tag);
    else
        fail(talk, "there is no memory for a message to it");
    hx_buf_fini(line);
}

static void expect(struct talk *talk, uint64_t id)
{
    talk->asked = id;
    hx_loop_timer_set(talk->timer, talk->contact->upstream->settings.start_timeout);
}

static void greet(struct talk *talk)
{
    struct hx_buf line;
    hx_buf_init(&line, 1024);
    (void)hx_buf_printf(&line,
                        "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"initialize\",\"params\":{"
                        "\"protocolVersion\":\"%.*s\",\"capabilities\":{},\"clientInfo\":{"
                        "\"name\":\"hapax\",\"version\":\"" HX_VERSION "\"}}}",
                        INITIALIZE_ID, HX_SPAN_FMT(hx_mcp_facts(HX_MCP_2025_11_25)->name));
    expect(talk, INITIALIZE_ID);
    send_line(talk, &line, INITIALIZE_ID);
}

/* `cursor` is raw JSON text with its quotes, or absent for the first page. */
static void ask_tools(struct talk *talk, struct hx_span cursor)
{
    struct hx_buf line;
    uint64_t id = talk->asked + 1;
    hx_buf_init(&line, cursor.len + 256);
    (void)hx_buf_printf(&line, "{\"jsonrpc\":\"2.0\",\"id\":%llu,\"method\":\"tools/list\"",
                        (unsigned long long)id);
    if (!hx_span_is_absent(cursor))
        (void)hx_buf_printf(&line, ",\"params\":{\"cursor\":%.*s}", HX_SPAN_FMT(cursor));
    (void)hx_buf_append_char(&line, '}');
    expect(talk, id);
    send_line(talk, &line, id);
}

static void say_initialized(struct talk *talk)
{
    struct hx_buf line;
    hx_buf_init(&line, 128);
    (void)hx_buf_append_cstr(&line,
                             "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    send_line(talk, &line, 0);
}

/* A server may wait for the answer to what it asks before it answers us. */
static void answer_server(struct talk *talk, const struct hx_rpc_msg *msg)
{
    struct hx_buf line;
    bool is_ping = hx_mcp_method_parse(msg->method) == HX_MCP_PING;
    hx_buf_init(&line, HX_RPC_ID_MAX + 256);
    (void)hx_buf_printf(&line, "{\"jsonrpc\":\"2.0\",\"id\":%.*s,%s}", HX_SPAN_FMT(msg->id.raw),
                        is_ping ? "\"result\":{}"
                                : "\"error\":{\"code\":-32601,\"message\":\"'hapax check' only "
                                  "reads the list of tools.\"}");
    send_line(talk, &line, 0);
}

/* --- what it says --- */

/* A copy with an end, and without what could move a cursor. */
static const char *keep(struct talk *talk, struct hx_span text)
{
    char *copy = hx_arena_alloc(&talk->contact->arena, text.len + 1);
    if (copy == NULL)
        return "";
    for (size_t i = 0; i < text.len; i++) {
        bool is_control = (unsigned char)text.ptr[i] < ' ' || text.ptr[i] == 0x7f;
        copy[i] = text.ptr[i];
        if (is_control)
            copy[i] = '?';
    }
    copy[text.len] = '\0';
    return copy;
}

static void take_welcome(struct round *round, struct talk *talk, const struct hx_rpc_msg *msg)
{
    struct hx_contact *contact = talk->contact;
    struct hx_mcp_initialize_result result;
    if (hx_mcp_initialize_result_read(&round->parts, msg->result, &round->part_limits,
                                      &contact->arena, &result) < 0) {
        fail(talk, "its answer to initialize cannot be held in memory");
        return;
    }
    if (result.revision == HX_MCP_UNKNOWN || !hx_mcp_facts(result.revision)->has_handshake) {
        fail(talk, "it speaks protocol version '%.40s', which Hapax does not know",
             result.protocol_version.state == HX_MCP_TEXT_GIVEN
                 ? keep(talk, result.protocol_version.text)
                 : "");
        return;
    }
    contact->revision = keep(talk, hx_mcp_facts(result.revision)->name);
    if (result.server_name.state == HX_MCP_TEXT_GIVEN) {
        char who[200];
        int len = snprintf(who, sizeof(who), "%.*s %.*s", HX_SPAN_FMT(result.server_name.text),
                           HX_SPAN_FMT(result.server_version.text));
        bool is_cut = len < 0 || (size_t)len >= sizeof(who);
        contact->server = keep(talk, hx_span(who, is_cut ? sizeof(who) - 1 : (size_t)len));
    }
    contact->has_idempotency = result.has_idempotency;
    talk->has_tools = result.has_tools;
    say_initialized(talk);
    ask_tools(talk, HX_SPAN_NONE); /* also where they are not announced: some forget to */
}

static void add_tool(struct talk *talk, const struct hx_mcp_tool *listed)
{
    struct hx_contact *contact = talk->contact;
    const struct hx_settings *settings = &contact->upstream->settings;
    struct hx_contact_tool *tool = hx_arena_alloc(&contact->arena, sizeof(*tool));
    struct hx_tool_rules rules;
    if (tool == NULL)
        return;
    *tool = (struct hx_contact_tool){
        .name = keep(talk, listed->name),
        .read_only = listed->read_only,
        .idempotent = listed->idempotent,
        .settings = hx_settings_for_tool(settings, listed->name),
    };
    if (!hx_span_is_absent(listed->input_schema))
        tool->input_schema = hx_arena_dup(&contact->arena, listed->input_schema);
    hx_rules_for_tool(settings, listed->name, &rules);
    tool->class =
        hx_rules_class(&rules, hx_upstream_hints(settings), tool->read_only, tool->idempotent);
    tool->is_class_hinted = !rules.is_class_declared && tool->class != rules.contract.tool_class;
    *talk->tools_end = tool;
    talk->tools_end = &tool->next;
    contact->tool_count++;
}

static void take_tools(struct round *round, struct talk *talk, const struct hx_rpc_msg *msg)
{
    struct hx_contact *contact = talk->contact;
    struct hx_mcp_tools tools;
    struct hx_mcp_tool listed;
    if (hx_mcp_tools_read(&round->parts, msg->result, &round->part_limits, &contact->arena,
                          &tools) < 0) {
        fail(talk, "its list of tools cannot be held in memory");
        return;
    }
    size_t before = contact->tool_count;
    while (contact->tool_count < TOOLS_MAX &&
           hx_mcp_tools_next(&tools, &contact->arena, &listed) == 1)
        add_tool(talk, &listed);
    uint32_t cursor =
        hx_json_member_of(&round->parts, 0, HX_SPAN_LIT("nextCursor"), HX_JSON_STRING);
    if (cursor == HX_JSON_NONE)
        stop(talk);
    else if (contact->tool_count == before)
        fail(talk, "its list of tools has a page without tools, and goes on");
    else if (contact->tool_count >= TOOLS_MAX)
        fail(talk, "it lists more than %d tools", TOOLS_MAX);
    else
        ask_tools(talk, hx_json_raw(&round->parts, cursor));
}

static void take_answer(struct round *round, struct talk *talk, const struct hx_rpc_msg *msg)
{
    const char *question = talk->asked == INITIALIZE_ID ? "initialize" : "tools/list";
    struct hx_mcp_error error;
    hx_loop_timer_clear(talk->timer);
    if (msg->kind == HX_RPC_ERROR) {
        bool is_read = hx_mcp_error_read(&round->tape, msg, &talk->contact->arena, &error) == 0;
        struct hx_span said =
            is_read && error.message.state == HX_MCP_TEXT_GIVEN ? error.message.text : HX_SPAN_NONE;
        if (talk->asked != INITIALIZE_ID && !talk->has_tools)
            stop(talk); /* as it said: there are none */
        else
            fail(talk, "it answers %s with an error: %.*s", question,
                 said.len > 200 ? 200 : (int)said.len, said.ptr);
    } else if (talk->asked == INITIALIZE_ID) {
        take_welcome(round, talk, msg);
    } else {
        take_tools(round, talk, msg);
    }
}

static void take_message(struct round *round, struct talk *talk, struct hx_span line)
{
    struct hx_rpc_msg msg;
    char id[24];
    if (talk->is_stopping ||
        hx_rpc_read(&round->tape, line, &round->limits, &talk->contact->arena, &msg) < 0)
        return;
    if (msg.kind == HX_RPC_REQUEST) {
        answer_server(talk, &msg);
        return;
    }
    snprintf(id, sizeof(id), "%llu", (unsigned long long)talk->asked);
    struct hx_rpc_id asked = hx_rpc_id_parse(hx_span_cstr(id));
    bool is_answer =
        (msg.kind == HX_RPC_RESULT || msg.kind == HX_RPC_ERROR) && hx_rpc_id_eq(&msg.id, &asked);
    if (is_answer)
        take_answer(round, talk, &msg);
}

/* --- what becomes of it --- */

static void take_closed(struct talk *talk, const struct hx_peer_event *event)
{
    char reason[96];
    struct hx_span words = hx_buf_span(&event->stderr_tail);
    int shown = words.len > 300 ? 300 : (int)words.len;
    const char *last = words.ptr + words.len - shown;
    if (event->status < 0)
        fail(talk, "it could not be started: %s",
             strerror_r(-event->status, reason, sizeof(reason)));
    else if ((event->status & 0x7f) != 0)
        fail(talk, "it was ended by signal %d%s%.*s", event->status & 0x7f,
             shown > 0 ? "; its last words: " : "", shown, last);
    else
        fail(talk, "it ended with exit status %d%s%.*s", event->status >> 8 & 0xff,
             shown > 0 ? "; its last words: " : "", shown, last);
    hx_loop_timer_clear(talk->timer);
    talk->is_over = true;
}

static void take_loss(struct talk *talk, const struct hx_peer_event *event)
{
    struct hx_span said = hx_buf_span(&event->line);
    int shown = said.len > 300 ? 300 : (int)said.len;
    if (event->tag == 0 || event->tag != talk->asked)
        return;
    if (event->status != 0)
        fail(talk, "it answers with HTTP status %d%s%.*s", event->status, shown > 0 ? ": " : "",
             shown, said.ptr);
    else
        fail(talk, "it could not be reached%s%.*s", shown > 0 ? ": " : "", shown, said.ptr);
}

static void take(struct round *round, struct hx_peer_event *event)
{
    struct talk *talk = event->upstream->owner;
    switch (event->type) {
    case HX_PEER_STARTED:
        if (!talk->is_stopping)
            greet(talk);
        return;
    case HX_PEER_MESSAGE:
        take_message(round, talk, hx_buf_span(&event->line));
        return;
    case HX_PEER_OVERSIZE:
        fail(talk, "it sends a message over message_max");
        return;
    case HX_PEER_CLOSED:
        take_closed(talk, event);
        return;
    case HX_PEER_NOT_SENT:
    case HX_PEER_CUT:
        /* Of a program, CLOSED follows and knows more. */
        if (talk->place.url != NULL)
            take_loss(talk, event);
        return;
    case HX_PEER_ANSWER_LOST:
    case HX_PEER_REJECTED:
        take_loss(talk, event);
        return;
    case HX_PEER_STALLED:
        fail(talk, "it does not read its input");
        return;
    case HX_PEER_STDERR:
        fprintf(stderr, "[%s] %.*s\n", talk->contact->upstream->name,
                HX_SPAN_FMT(hx_buf_span(&event->line)));
        return;
    case HX_PEER_WRITTEN:
    case HX_PEER_FIRST_BYTE:
    case HX_PEER_SESSION_LOST:
    case HX_PEER_RESUME_POINT:
    case HX_PEER_END_OF_INPUT:
    case HX_PEER_TAKEN_BACK:
    case HX_PEER_READER_GONE:
    case HX_PEER_FRONT_GONE:
    case HX_PEER_ENDED:
    case HX_PEER_EXCHANGE_GONE:
    case HX_PEER_RESUME:
        return;
    }
}

static void on_mute(void *arg)
{
    struct talk *talk = arg;
    fail(talk, "it did not answer %s within start_timeout (%lld s)",
         talk->asked == INITIALIZE_ID ? "initialize" : "tools/list",
         (long long)(talk->contact->upstream->settings.start_timeout / 1000));
}

/* --- all of them at once --- */

static void begin(struct round *round, struct talk *talk, struct hx_contact *contact,
                  const struct hx_config_upstream *upstream)
{
    contact->upstream = upstream;
    hx_arena_init(&contact->arena, CONTACT_ARENA_MAX);
    talk->contact = contact;
    talk->tools_end = &contact->tools;
    talk->place = (struct hx_upstream_place){.command = upstream->command,
                                             .env = upstream->env,
                                             .cwd = upstream->cwd,
                                             .url = upstream->url,
                                             .headers = upstream->headers,
                                             .settings = &upstream->settings};
    talk->timer = hx_loop_timer_new(round->loop, on_mute, talk);
    talk->upstream = hx_upstream_make(round->loop, &round->inbox, &talk->place);
    if (talk->upstream == NULL) {
        fail(talk, "%s", hx_fault_last()->text);
        talk->is_over = true;
        return;
    }
    talk->upstream->owner = talk;
    talk->upstream->ops->start(talk->upstream, 1);
}

static bool is_over(const struct round *round)
{
    for (size_t i = 0; i < round->count; i++) {
        if (!round->talks[i].is_over)
            return false;
    }
    return true;
}

static void run(struct round *round)
{
    while (!is_over(round)) {
        struct hx_list *node;
        while ((node = hx_list_first(&round->inbox)) != NULL) {
            struct hx_peer_event *event = hx_container_of(node, struct hx_peer_event, node);
            hx_list_unlink(node);
            take(round, event);
            hx_peer_event_free(event);
        }
        if (!is_over(round) && hx_loop_run_once(round->loop, -1) < 0)
            return;
    }
}

static void finish(struct round *round)
{
    for (size_t i = 0; i < round->count; i++) {
        struct talk *talk = &round->talks[i];
        if (!talk->is_over)
            fail(talk, "this process could not wait for it: %s", hx_fault_last()->text);
        hx_upstream_release(&talk->place, talk->upstream);
        hx_loop_timer_free(talk->timer);
    }
    hx_list_for_each_safe (node, &round->inbox) {
        hx_list_unlink(node);
        hx_peer_event_free(hx_container_of(node, struct hx_peer_event, node));
    }
    hx_json_tape_fini(&round->tape);
    hx_json_tape_fini(&round->parts);
    hx_free(round->talks);
    hx_loop_free(round->loop);
}

struct hx_contact *hx_contacts_new(const struct hx_config *config, struct hx_complaint *complaint)
{
    struct round round = {.count = config->upstream_count, .part_limits = HX_JSON_LIMITS_DEFAULT};
    round.loop = hx_loop_new(&(struct hx_loop_clock){hx_clock_os_mono, NULL});
    if (round.loop == NULL) {
        (void)hx_complain(complaint, "%s", hx_fault_last()->text);
        return NULL;
    }
    round.limits = round.part_limits;
    round.limits.record_depth_max = HX_RPC_RECORD_DEPTH;
    round.limits.elements_max = HX_RPC_ELEMENTS_MAX;
    hx_list_init(&round.inbox);
    hx_json_tape_init(&round.tape);
    hx_json_tape_init(&round.parts);
    struct hx_contact *contacts = hx_new_bytes(round.count * sizeof(*contacts));
    round.talks = hx_new_bytes(round.count * sizeof(*round.talks));
    memset(contacts, 0, round.count * sizeof(*contacts));
    memset(round.talks, 0, round.count * sizeof(*round.talks));
    for (size_t i = 0; i < round.count; i++)
        begin(&round, &round.talks[i], &contacts[i], &config->upstreams[i]);
    run(&round);
    finish(&round);
    return contacts;
}

void hx_contacts_free(struct hx_contact *contacts, size_t count)
{
    for (size_t i = 0; contacts != NULL && i < count; i++)
        hx_arena_fini(&contacts[i].arena);
    hx_free(contacts);
}
