/* SPDX-License-Identifier: MIT */
/*
 * The rung of the ladder that looks: a read-only tool of the same server is called, on the core's
 * schedule, and its answer is held against the operator's rule (probe_rule.c). What is found is an
 * outcome; what is not found proves nothing, until the core says that it does. The operation's own
 * request is never sent here.
 */
#include "engine/internal.h"

#include <stdio.h>

#include "json/pointer.h"

/* Operations of which one process looks after at the same time; others wait for their turn. */
enum { PROBES_MAX = 256, TEXT_MAX = 1 << 20, SOON_MS = 1000, ANSWER_MS = 60 * 1000 };

static const struct hx_probe *probe_of(const struct hx_work *work)
{
    const struct hx_probe *probe = &work->tool->rules.probe;
    return hx_span_is_absent(probe->tool) ? NULL : probe;
}

bool hx_probe_is_possible(const struct hx_work *work)
{
    /* The tools of another server would tell of another world. */
    return hx_server_named(work->gateway, work->op.durable.server) != NULL &&
           probe_of(work) != NULL && work->op.durable.state == HX_OP_UNKNOWN &&
           !work->op.durable.is_superseded && !work->gateway->is_draining;
}

/* What was not found before an attempt was sent says nothing of that one. Somebody else may have
 * sent it. */
static void leave_earlier(struct hx_work *work)
{
    uint32_t number = work->op.durable.attempt.number;
    if (work->probed == number)
        return;
    work->probed = number;
    work->probe_tries = 0;
    work->negatives = (struct hx_negatives){0};
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
    leave_earlier(work);
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
    route->work = NULL;
    work->probe_route = NULL;
    hx_route_quiet(route);
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

static void note(struct hx_work *work, const char *what)
{
    struct hx_buf text;
    struct hx_json_writer writer;
    hx_buf_init(&text, HX_STORE_NOTE_MAX);
    hx_json_writer_init(&writer, &text);
    hx_json_open_object(&writer);
    hx_json_add_wall(&writer, "at", work->gateway->now.wall);
    hx_json_add_cstr(&writer, "what", "evidence");
    hx_json_add_cstr(&writer, "step", what);
    hx_json_add_string(&writer, "probe", probe_of(work)->tool);
    hx_json_close_object(&writer);
    if (hx_buf_ok(&text))
        hx_store_note(work->gateway, &work->op.durable.id, hx_buf_span(&text));
    hx_buf_fini(&text);
}

static void send_probe(struct hx_work *work, struct hx_link *link)
{
    struct hx_route *route = hx_route_new(link, HX_ROUTE_PROBE);
    struct hx_buf line;
    char id[24];
    hx_route_id_text(route, id);
    hx_buf_init(&line, work->gateway->options.message_max);
    if (hx_probe_rule_write(work, id, &line)) {
        route->work = work;
        work->probe_route = route;
        work->was_provable =
            hx_absence_is_provable(&work->op.durable, &work->facts, &work->gateway->now);
        hx_link_send(link, &line, route->id);
        hx_timer_arm(&work->gateway->timers, &work->probe,
                     hx_mono_after(work->gateway->now.mono, ANSWER_MS));
    } else {
        hx_route_free(route);
        note(work, "probe cannot be written: a place has no value, or there is no memory");
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
    struct hx_link *link = hx_schedule_link(work);
    bool is_greeted = link != NULL && link->hello.initialize.len > 0;
    if (link != NULL && hx_link_want(link) && is_greeted) {
        leave_earlier(work);
        work->probe_tries++;
        send_probe(work, link);
    } else {
        /* The server is being started: soon. */
        hx_timer_arm(&gateway->timers, &work->probe, hx_mono_after(gateway->now.mono, SOON_MS));
    }
}

/* ---- its answer ---- */

/* The result that is told: what the probe saw, as text, since what a tool promises in its schema
 * cannot be made up. */
static int write_found(const struct hx_work *work, struct hx_span seen, struct hx_buf *line)
{
    struct hx_buf text;
    struct hx_json_writer writer;
    hx_buf_init(&text, TEXT_MAX);
    (void)hx_buf_printf(&text,
                        "This call happened; its own result was lost. What %.*s shows of it: %.*s",
                        HX_SPAN_FMT(probe_of(work)->tool), HX_SPAN_FMT(seen));
    hx_json_writer_init(&writer, line);
    (void)hx_buf_append_cstr(line, "{\"content\":[{\"type\":\"text\",\"text\":");
    hx_json_put_string(&writer, hx_buf_span(&text));
    (void)hx_buf_append_cstr(line, "}]}");
    bool is_whole = hx_buf_ok(&text) && hx_buf_ok(line);
    hx_buf_fini(&text);
    return is_whole ? 0 : HX_E_NOMEM;
}

static void take_found(struct hx_work *work, struct hx_json_tape *tape)
{
    const struct hx_probe *probe = probe_of(work);
    uint32_t at =
        hx_span_is_absent(probe->result) ? 0 : hx_json_pointer_find(tape, 0, probe->result);
    struct hx_span seen = hx_json_raw(tape, at == HX_JSON_NONE ? 0 : at);
    struct hx_buf line;
    hx_buf_init(&line, 2 * (size_t)TEXT_MAX);
    if (write_found(work, seen, &line) < 0) {
        /* That it was found is what counts. */
        hx_buf_reset(&line);
        (void)write_found(work, HX_SPAN_LIT("more than can be shown here"), &line);
    }
    note(work, "probe found it");
    hx_probe_end(work);
    hx_outcome_reconstructed(work, &line);
    hx_buf_fini(&line);
}

static void take_negative(struct hx_work *work)
{
    bool counts = work->was_provable && work->probed == work->op.durable.attempt.number;
    bool is_enough = hx_recover_add_negative(&work->negatives, counts, work->gateway->now.mono);
    note(work, counts ? "probe found nothing" : "probe found nothing; too early to count");
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
    struct hx_json_tape *tape = &route->link->gateway->scratch;
    struct hx_work *work = hx_route_take(route).work;
    if (work == NULL || work->search != HX_SEARCH_PROBING)
        return;
    enum hx_holds holds = hx_probe_rule_judge(work, msg);
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
