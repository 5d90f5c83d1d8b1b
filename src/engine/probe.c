/* SPDX-License-Identifier: MIT */
/*
 * The rung of the ladder that looks: a read-only tool of the same server is called, on the core's
 * schedule, and its answer is held against the operator's rule. What is found is an outcome; what
 * is not found proves nothing, until the core says that it does. The operation's own request is
 * never sent here.
 */
#include "engine/internal.h"

#include <stdio.h>

#include "json/pointer.h"
#include "json/template.h"

/* Operations of which one process looks after at the same time; others wait for their turn. */
enum { PROBES_MAX = 256, TEXT_MAX = 1 << 20, SOON_MS = 1000, ANSWER_MS = 60 * 1000 };

static const struct hx_probe *probe_of(const struct hx_work *work)
{
    const struct hx_probe *probe = &work->tool->rules.probe;
    return hx_span_is_absent(probe->tool) ? NULL : probe;
}

bool hx_probe_is_possible(const struct hx_work *work)
{
    return probe_of(work) != NULL && work->op.durable.state == HX_OP_UNKNOWN &&
           !work->op.durable.is_superseded && !work->gateway->is_draining;
}

static void plan(struct hx_work *work)
{
    struct hx_gateway *gateway = work->gateway;
    int64_t delay_ms = hx_recover_probe_delay_ms(work->probe_tries, &work->negatives);
    hx_timer_arm(&gateway->timers, &work->probe, hx_mono_after(gateway->now.mono, delay_ms));
}

bool hx_probe_begin(struct hx_work *work)
{
    if (!hx_probe_is_possible(work) || work->gateway->probe_count >= PROBES_MAX)
        return false;
    work->gateway->probe_count++;
    work->search = HX_SEARCH_PROBING;
    plan(work);
    return true;
}

/* A probe that is under way is not listened to any more: it only reads, so nothing is lost. */
static void drop_probe(struct hx_work *work)
{
    struct hx_route *route = work->probe_route;
    if (route == NULL)
        return;
    struct hx_link *link = route->link;
    uint64_t tag = route->id;
    if (hx_link_has_exchanges(link)) {
        hx_route_free(route);
        link->upstream->ops->drop(link->upstream, tag);
        hx_link_stir(link);
        return;
    }
    route->kind = HX_ROUTE_QUIET;
    route->work = NULL;
    work->probe_route = NULL;
}

void hx_probe_end(struct hx_work *work)
{
    if (work->search != HX_SEARCH_PROBING)
        return;
    drop_probe(work);
    hx_assert(work->probe_route == NULL);
    work->search = HX_SEARCH_OVER;
    work->gateway->probe_count--;
    hx_timer_disarm(&work->gateway->timers, &work->probe);
}

/* ---- the call ---- */

struct places {
    const struct hx_record *record;
    struct hx_json_tape *tape; /* the call's arguments */
    struct hx_arena *arena;
    bool has_arguments;
    char text[HX_ID_TEXT_SIZE + 2];
    struct hx_buf key; /* as JSON */
};

static struct hx_span quoted_id(struct places *places, const struct hx_id *id)
{
    char text[HX_ID_TEXT_SIZE];
    hx_id_format(id, text);
    int len = snprintf(places->text, sizeof(places->text), "\"%s\"", text);
    return hx_span(places->text, (size_t)len);
}

static struct hx_span place_value(void *context, struct hx_span name)
{
    struct places *places = context;
    if (hx_span_eq_cstr(name, "effect_key"))
        return quoted_id(places, &places->record->effect_key);
    if (hx_span_eq_cstr(name, "operation"))
        return quoted_id(places, &places->record->id);
    if (hx_span_eq_cstr(name, "key"))
        return places->key.len > 0 ? hx_buf_span(&places->key) : HX_SPAN_NONE;
    bool is_pointer = name.len == 0 || name.ptr[0] == '/';
    if (!is_pointer || !places->has_arguments)
        return HX_SPAN_NONE;
    return hx_json_raw(places->tape, hx_json_pointer_find(places->tape, 0, name));
}

/* The same in plain characters: a result's text is read, and its escapes are not those of the
 * arguments. */
static struct hx_span place_text(void *context, struct hx_span name)
{
    struct places *places = context;
    struct hx_span plain = place_value(context, name);
    if (hx_span_is_absent(plain))
        return plain;
    if (hx_span_eq_cstr(name, "key"))
        return places->record->key;
    if (hx_span_eq_cstr(name, "effect_key") || hx_span_eq_cstr(name, "operation"))
        return hx_span(plain.ptr + 1, plain.len - 2);
    uint32_t at = hx_json_pointer_find(places->tape, 0, name);
    if (hx_json_is(places->tape, at, HX_JSON_OBJECT) || hx_json_is(places->tape, at, HX_JSON_ARRAY))
        return HX_SPAN_NONE; /* how a text would show it, nobody knows */
    if (hx_json_is(places->tape, at, HX_JSON_STRING) &&
        hx_json_string(places->tape, at, places->arena, &plain) != 0)
        return HX_SPAN_NONE;
    return plain;
}

static void places_init(struct places *places, struct hx_work *work)
{
    struct hx_gateway *gateway = work->gateway;
    const struct hx_record *record = &work->op.durable;
    struct hx_json_writer writer;
    *places =
        (struct places){.record = record, .tape = &gateway->scratch, .arena = &gateway->arena};
    places->has_arguments =
        !hx_span_is_absent(record->arguments) &&
        hx_json_read(&gateway->scratch, record->arguments, &gateway->part_limits) == 0;
    hx_buf_init(&places->key, 8 * 1024);
    hx_json_writer_init(&writer, &places->key);
    if (record->key_source != HX_KEY_NONE) /* else it is one of ours, which nobody has seen */
        hx_json_put_string(&writer, record->key);
}

static bool write_probe(struct hx_work *work, const struct hx_probe *probe, const char *id,
                        struct hx_buf *line)
{
    struct hx_json_writer writer;
    struct places places;
    hx_json_writer_init(&writer, line);
    (void)hx_buf_printf(line,
                        "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"tools/call\",\"params\":{"
                        "\"name\":",
                        id);
    hx_json_put_string(&writer, probe->tool);
    (void)hx_buf_append_cstr(line, ",\"arguments\":");
    places_init(&places, work);
    size_t begin = line->len;
    bool is_filled = hx_json_template_fill(line, probe->arguments,
                                           &(struct hx_json_places){place_value, &places});
    hx_buf_fini(&places.key);
    /* A place outside of quotes may have made something else of it. */
    struct hx_gateway *gateway = work->gateway;
    is_filled = is_filled && hx_buf_ok(line) &&
                hx_json_read(&gateway->scratch, hx_span(line->data + begin, line->len - begin),
                             &gateway->part_limits) == 0 &&
                hx_json_is(&gateway->scratch, 0, HX_JSON_OBJECT);
    (void)hx_buf_append_cstr(line, "}}");
    return is_filled && hx_buf_ok(line);
}

static void note(struct hx_work *work, const char *what)
{
    struct hx_buf text;
    char when[HX_TIME_TEXT_SIZE];
    const struct hx_probe *probe = probe_of(work);
    struct hx_json_writer writer;
    hx_wall_format(work->gateway->now.wall, when);
    hx_buf_init(&text, HX_STORE_NOTE_MAX);
    hx_json_writer_init(&writer, &text);
    hx_json_open_object(&writer);
    hx_json_put_name(&writer, "at");
    hx_json_put_cstr(&writer, when);
    hx_json_put_name(&writer, "what");
    hx_json_put_cstr(&writer, "evidence");
    hx_json_put_name(&writer, "step");
    hx_json_put_cstr(&writer, what);
    hx_json_put_name(&writer, "probe");
    hx_json_put_string(&writer, probe->tool);
    hx_json_close_object(&writer);
    if (hx_buf_ok(&text))
        hx_store_note(work->gateway, &work->op.durable.id, hx_buf_span(&text));
    hx_buf_fini(&text);
}

/* Somebody's who waits for it, else one of our own. */
static struct hx_link *link_for(struct hx_work *work)
{
    struct hx_list *first = hx_list_first(&work->calls);
    struct hx_server *server = hx_server_find(work->gateway, work->op.durable.server);
    if (first != NULL)
        return hx_container_of(first, struct hx_call, node)->session->link;
    if (server->house != NULL)
        return server->house;
    struct hx_link *link = hx_link_shared(server, HX_SPAN_LIT("hapax: probes"));
    if (link != NULL)
        hx_link_linger(link); /* a process of its own does not outlive the probes for long */
    return link;
}

static void send_probe(struct hx_work *work, struct hx_link *link)
{
    struct hx_route *route = hx_route_new(link, HX_ROUTE_PROBE);
    struct hx_buf line;
    char id[24];
    hx_route_id_text(route, id);
    hx_buf_init(&line, work->gateway->options.message_max);
    if (write_probe(work, probe_of(work), id, &line)) {
        route->work = work;
        work->probe_route = route;
        work->was_provable =
            hx_absence_is_provable(&work->op.durable, &work->facts, &work->gateway->now);
        hx_link_send(link, &line, route->id);
        hx_timer_arm(&work->gateway->timers, &work->probe,
                     hx_mono_after(work->gateway->now.mono, ANSWER_MS));
    } else {
        hx_route_free(route);
        note(work, "probe cannot be written: a place has no value");
        plan(work);
    }
    hx_buf_fini(&line);
}

void hx_probe_due(struct hx_work *work)
{
    if (!hx_probe_is_possible(work)) {
        hx_probe_end(work);
        hx_work_look_again_later(work);
        return;
    }
    struct hx_gateway *gateway = work->gateway;
    if (work->probe_route != NULL) {
        drop_probe(work);
        note(work, "probe was not answered");
        plan(work);
        return;
    }
    struct hx_link *link = link_for(work);
    bool is_greeted = link != NULL && link->hello.initialize.len > 0;
    if (link != NULL && hx_link_want(link) && is_greeted) {
        work->probe_tries++;
        send_probe(work, link);
    } else {
        /* The server is being started: soon. */
        hx_timer_arm(&gateway->timers, &work->probe, hx_mono_after(gateway->now.mono, SOON_MS));
    }
}

/* ---- its answer ---- */

static enum hx_holds judge_text(struct hx_gateway *gateway, struct hx_json_tape *tape,
                                struct hx_span wanted)
{
    enum hx_holds holds = HX_HOLDS_NO;
    uint32_t content = hx_json_member_of(tape, 0, HX_SPAN_LIT("content"), HX_JSON_ARRAY);
    if (content == HX_JSON_NONE || wanted.len == 0)
        return HX_HOLDS_CANNOT_SAY; /* nothing stands in every text */
    hx_json_for_each(block, tape, content)
    {
        uint32_t text = hx_json_member_of(tape, block, HX_SPAN_LIT("text"), HX_JSON_STRING);
        struct hx_span plain;
        if (text == HX_JSON_NONE)
            continue;
        if (hx_json_string(tape, text, &gateway->arena, &plain) != 0)
            holds = HX_HOLDS_CANNOT_SAY;
        else if (hx_span_contains(plain, wanted))
            return HX_HOLDS_YES;
    }
    return holds;
}

static uint32_t count_elements(const struct hx_json_tape *tape, uint32_t at)
{
    uint32_t count = 0;
    hx_json_for_each(child, tape, at) count++;
    return count;
}

static enum hx_holds judge_count(struct hx_gateway *gateway, uint32_t count,
                                 enum hx_comparison comparison, struct hx_span value)
{
    struct hx_json_tape number;
    char text[16];
    snprintf(text, sizeof(text), "%u", count);
    hx_json_tape_init(&number);
    enum hx_holds holds = hx_json_read(&number, hx_span_cstr(text), &gateway->part_limits) == 0
                              ? hx_json_holds(&number, 0, comparison, value)
                              : HX_HOLDS_CANNOT_SAY;
    hx_json_tape_fini(&number);
    return holds;
}

/* What the answer is held against. */
static bool write_value(struct hx_work *work, struct hx_buf *out)
{
    const struct hx_probe *probe = probe_of(work);
    struct places places;
    places_init(&places, work);
    const struct hx_json_places json = {place_value, &places};
    const struct hx_json_places text = {place_text, &places};
    bool is_filled = probe->match == HX_PROBE_TEXT
                         ? hx_json_template_fill_text(out, probe->value, &text)
                         : hx_json_template_fill_value(out, probe->value, &json);
    hx_buf_fini(&places.key);
    bool is_composite = probe->match != HX_PROBE_TEXT && out->len > 0 &&
                        (out->data[0] == '{' || out->data[0] == '[');
    return is_filled && !is_composite; /* nothing is equal to an object, as texts are */
}

/* `tape` holds the probe's result. */
static enum hx_holds judge(struct hx_work *work, struct hx_json_tape *tape, struct hx_span value)
{
    const struct hx_probe *probe = probe_of(work);
    if (probe->match == HX_PROBE_TEXT)
        return judge_text(work->gateway, tape, value);
    uint32_t at = hx_json_pointer_find(tape, 0, probe->pointer);
    if (probe->match == HX_PROBE_COUNT)
        return hx_json_is(tape, at, HX_JSON_ARRAY)
                   ? judge_count(work->gateway, count_elements(tape, at), probe->comparison, value)
                   : HX_HOLDS_CANNOT_SAY;
    /* A result without the value is one that nobody foresaw: neither a find nor a negative. */
    return at != HX_JSON_NONE ? hx_json_holds(tape, at, probe->comparison, value)
                              : HX_HOLDS_CANNOT_SAY;
}

/* The result that is told: what the probe saw, as text, since what a tool promises in its schema
 * cannot be made up. */
static void take_found(struct hx_work *work, struct hx_json_tape *tape)
{
    const struct hx_probe *probe = probe_of(work);
    uint32_t at =
        hx_span_is_absent(probe->result) ? 0 : hx_json_pointer_find(tape, 0, probe->result);
    struct hx_span seen = hx_json_raw(tape, at == HX_JSON_NONE ? 0 : at);
    struct hx_buf line, text;
    struct hx_json_writer writer;
    hx_buf_init(&line, 2 * (size_t)TEXT_MAX);
    hx_buf_init(&text, TEXT_MAX);
    (void)hx_buf_printf(&text,
                        "This call happened; its own result was lost. What %.*s shows of it: %.*s",
                        HX_SPAN_FMT(probe->tool), HX_SPAN_FMT(seen));
    hx_json_writer_init(&writer, &line);
    (void)hx_buf_append_cstr(&line, "{\"content\":[{\"type\":\"text\",\"text\":");
    hx_json_put_string(&writer, hx_buf_span(&text));
    (void)hx_buf_append_cstr(&line, "}]}");
    note(work, "probe found it");
    hx_probe_end(work);
    if (hx_buf_ok(&line))
        hx_outcome_reconstructed(work, &line);
    hx_buf_fini(&line);
    hx_buf_fini(&text);
}

static void take_negative(struct hx_work *work)
{
    bool is_enough =
        hx_recover_add_negative(&work->negatives, work->was_provable, work->gateway->now.mono);
    note(work,
         work->was_provable ? "probe found nothing" : "probe found nothing; too early to count");
    if (!is_enough) {
        plan(work);
        return;
    }
    hx_probe_end(work);
    struct hx_event event = hx_work_make_event(work, HX_EV_ABSENCE_PROVED);
    event.seen_attempt = work->op.durable.attempt.number;
    hx_work_step(work, &event, NULL);
}

void hx_probe_answered(struct hx_route *route, const struct hx_rpc_msg *msg)
{
    struct hx_gateway *gateway = route->link->gateway;
    struct hx_json_tape *tape = &gateway->scratch;
    struct hx_work *work = hx_route_take(route).work;
    if (work == NULL || work->search != HX_SEARCH_PROBING)
        return;
    struct hx_buf value;
    hx_buf_init(&value, 64 * 1024);
    bool is_filled = write_value(work, &value);
    bool is_answer = msg->kind == HX_RPC_RESULT &&
                     !hx_mcp_call_result_read(&gateway->tape, msg).is_error &&
                     hx_json_read(tape, msg->result, &gateway->part_limits) == 0;
    enum hx_holds holds =
        is_filled && is_answer ? judge(work, tape, hx_buf_span(&value)) : HX_HOLDS_CANNOT_SAY;
    hx_buf_fini(&value);
    if (!hx_probe_is_possible(work)) {
        hx_probe_end(work);
        hx_work_look_again_later(work);
    } else if (holds == HX_HOLDS_YES) {
        take_found(work, tape);
    } else if (holds == HX_HOLDS_NO) {
        take_negative(work);
    } else {
        note(work, "probe gave no answer that can be judged");
        plan(work);
    }
}

void hx_probe_failed(struct hx_work *work)
{
    plan(work);
}
