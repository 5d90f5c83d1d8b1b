/* SPDX-License-Identifier: MIT */
/*
 * Client applications: what they send, how long they wait, how they give up, and what they do with
 * an answer.
 */
#include "sim/sim.h"

#include <stdlib.h>

static void retry_later(struct sim *sim, struct sim_intent *intent, int64_t delay_ms);

/* ---- the way to the gateway ---- */

bool sim_call_is_overtaken(struct sim *sim, const struct sim_call *call)
{
    const struct sim_intent *intent = sim_intent_get(sim, call->intent);
    return call->state == SIM_CALL_CANCELLED && call->arrivals > 0 && intent->key[0] == '\0';
}

void sim_call_arrives(struct sim *sim, struct sim_life *life, struct sim_call *call, bool is_cancel)
{
    if (is_cancel)
        call->is_cancel_near = life->has_cancel_near = true;
    else
        call->arrivals++;
    if (!is_cancel)
        call->arrived_at = sim->now;
    /* A request that its transport repeats after it was told "nothing was sent" is a new one. */
    struct sim_intent *intent = sim_intent_get(sim, call->intent);
    if (!is_cancel && call->arrivals > 1 && call->answers > 0 && intent->key[0] == '\0')
        intent->allowed_more++;
    if (life->is_paused)
        sim_host_silence(sim, life->number);
}

/* `call` may be NULL. */
static void post(struct sim *sim, struct sim_host *host, uint32_t life, struct hx_span line,
                 const struct sim_call *call, bool is_cancel)
{
    if (host->port == 0) {
        struct sim_event *event = sim_pipe_post(sim, life, line);
        event->b = call != NULL ? call->number : 0;
        event->tag = is_cancel;
        return;
    }
    struct sim_exchange *exchange = sim_web_post(sim, host, line, 0);
    if (exchange == NULL || call == NULL)
        return;
    if (!sim->is_calm && sim_chance(&sim->shape, sim->weather.cut / 2))
        sim_web_cut_later(sim, exchange, sim_between(&sim->shape, 1, 4000));
    exchange->call = call->number;
    exchange->is_cancel = is_cancel;
    if (!is_cancel)
        sim_call_get(sim, call->number)->exchange = exchange->number;
}

void sim_host_send(struct sim *sim, struct sim_host *host, struct hx_span line)
{
    post(sim, host, host->life, line, NULL, false);
}

/* ---- a call's way through its client ---- */

/* An answer that was written and will not be read, of which the keeper cannot learn: the client
 * gave up without a word, or the keeper is dead, or it takes no message any more because it was
 * asked to end. It counts as delivered; named limits of keyless calls. */
static void allow_unread_one(struct sim *sim, struct sim_call *call)
{
    struct sim_intent *intent = sim_intent_get(sim, call->intent);
    bool is_open = call->state == SIM_CALL_OPEN || call->state == SIM_CALL_ANSWERED;
    const struct sim_life *life = sim_life_find(sim, call->life);
    bool is_deaf =
        life != NULL && call->state == SIM_CALL_CANCELLED && hx_gateway_is_draining(life->gateway);
    bool can_learn = life != NULL && !life->is_paused && !is_deaf &&
                     call->state != SIM_CALL_ABANDONED && !sim_look_has_unsaved(life->gateway);
    if (is_open || can_learn || call->answers == 0 || call->is_allowed || intent->key[0] != '\0')
        return;
    call->is_allowed = true;
    intent->allowed_more++;
}

/* An operation counts as delivered when one of its waiters has his answer, and of one who gave up
 * without a word it is believed that he has. */
static void allow_unread(struct sim *sim, struct sim_call *call)
{
    struct sim_intent *intent = sim_intent_get(sim, call->intent);
    allow_unread_one(sim, call);
    if (sim->hosts[call->host].port == 0 || call->answers == 0 || intent->key[0] != '\0')
        return;
    for (uint32_t i = 1; i <= sim->call_count; i++) {
        struct sim_call *other = sim_call_get(sim, i);
        if (other->intent != call->intent || other->state != SIM_CALL_ABANDONED ||
            other->answers == 0 || other->is_allowed)
            continue;
        other->is_allowed = true;
        intent->allowed_more++;
    }
}

void sim_host_silence(struct sim *sim, uint32_t life)
{
    for (uint32_t i = 1; i <= sim->call_count; i++) {
        const struct sim_call *call = sim_call_get(sim, i);
        if (call->life == life)
            sim_intent_get(sim, call->intent)->was_disturbed = true;
    }
}

void sim_host_allow_unread(struct sim *sim, uint32_t life)
{
    for (uint32_t i = 1; i <= sim->call_count; i++) {
        struct sim_call *call = sim_call_get(sim, i);
        if (call->life != life)
            continue;
        allow_unread(sim, call);
        /* Whether its answer was delivered may not have been written down yet. */
        sim_intent_get(sim, call->intent)->was_disturbed = true;
    }
}

void sim_call_cancel_lost(struct sim *sim, struct sim_call *call)
{
    if (call->state != SIM_CALL_CANCELLED)
        return;
    sim_trace(sim, "the cancel of call %u is lost", call->number);
    call->state = SIM_CALL_ABANDONED;
    allow_unread(sim, call);
}

static uint32_t open_calls(struct sim *sim, uint32_t intent)
{
    uint32_t count = 0;
    for (uint32_t i = 1; i <= sim->call_count; i++) {
        const struct sim_call *call = sim_call_get(sim, i);
        count += call->intent == intent && call->state == SIM_CALL_OPEN && !call->is_conflict;
    }
    return count;
}

void sim_host_cancel(struct sim *sim, struct sim_call *call)
{
    char id[24], text[256];
    snprintf(id, sizeof(id), call->is_text_id ? "\"c%u\"" : "%u", call->id);
    snprintf(text, sizeof(text),
             "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
             "\"requestId\":%s,\"reason\":\"%s\"}}",
             id, sim_chance(&sim->luck, 700) ? "Request timed out" : "user pressed Esc");
    struct sim_host *host = &sim->hosts[call->host];
    if (host->port != 0 && host->session != call->session) {
        sim_call_lost(sim, call);
        return;
    }
    call->state = SIM_CALL_CANCELLED;
    sim_trace(sim, "host %u cancels call %u", call->host, call->number);
    allow_unread(sim, call);
    post(sim, host, call->life, hx_span_cstr(text), call, true);
}

static void give_up(struct sim *sim, struct sim_intent *intent)
{
    if (intent->state == SIM_INTENT_OPEN && open_calls(sim, intent->number) == 0) {
        sim_trace(sim, "host %u leaves intent %u", intent->host, intent->number);
        intent->state = SIM_INTENT_LEFT;
    }
}

static void again(struct sim *sim, struct sim_intent *intent, int64_t low_ms, int64_t high_ms);

/* It gives the call up by closing the connection that the answer would come on. */
static void drop_connection(struct sim *sim, struct sim_call *call)
{
    uint32_t number = call->number;
    call->is_adrift = false;
    sim_web_drop(sim, call);
    call = sim_call_get(sim, number);
    if (call->state == SIM_CALL_OPEN)
        sim_call_lost(sim, call);
}

void sim_call_lost(struct sim *sim, struct sim_call *call)
{
    struct sim_intent *intent = sim_intent_get(sim, call->intent);
    call->state = SIM_CALL_LOST;
    call->is_adrift = false;
    allow_unread(sim, call);
    if (call->is_conflict)
        return;
    intent->was_disturbed = true;
    again(sim, intent, 0, 2500);
}

static void on_patience(struct sim *sim, struct sim_event *event)
{
    struct sim_call *call = sim_call_get(sim, event->b);
    struct sim_intent *intent = sim_intent_get(sim, call->intent);
    struct sim_host *host = &sim->hosts[call->host];
    if (call->state != SIM_CALL_OPEN)
        return;
    intent->was_disturbed = true;
    if (host->port != 0 && host->has_vanished)
        return;
    if (host->port == 0 && !sim->is_calm && sim_chance(&sim->luck, sim->weather.front_kill)) {
        sim_host_hang_up(sim, host, (enum sim_hang_up)sim_below(&sim->luck, 2));
        return;
    }
    bool is_connected = host->port == 0 || sim_call_is_heard(sim, call);
    if (host->port != 0 && (!is_connected || sim_chance(&sim->luck, 400))) {
        /* Most clients over HTTP just drop the connection. */
        drop_connection(sim, call);
        return;
    }
    if (intent->give_up != SIM_SILENT) {
        sim_host_cancel(sim, call);
        if (call->state == SIM_CALL_LOST)
            return;
    } else {
        call->state = SIM_CALL_ABANDONED;
        sim_trace(sim, "host %u gives call %u up silently", call->host, call->number);
        allow_unread(sim, call);
    }
    if (intent->retries_left > 0) {
        intent->retries_left--;
        retry_later(sim, intent, sim_between(&sim->luck, 0, 2500));
    } else {
        give_up(sim, intent);
    }
}

/* Somebody else's key: even the same call with it is refused. */
static bool is_strange(const struct sim *sim, const struct sim_call *call)
{
    const struct sim_host *owner = &sim->hosts[sim->intents[call->intent - 1].host];
    return strcmp(sim->hosts[call->host].principal, owner->principal) != 0;
}

static void write_call(struct sim *sim, const struct sim_call *call,
                       const struct sim_intent *intent, struct hx_buf *line)
{
    const char *key = intent->key;
    (void)hx_buf_printf(line, "{\"jsonrpc\":\"2.0\",\"id\":");
    (void)hx_buf_printf(line, call->is_text_id ? "\"c%u\"" : "%u", call->id);
    (void)hx_buf_printf(line,
                        ",\"method\":\"tools/call\",\"params\":{\"name\":\"%s\",\"arguments\":{"
                        "\"amount\":%u%s,\"memo\":\"caf\\u00e9\"",
                        sim_tool_names[intent->tool], intent->group,
                        call->is_conflict && !is_strange(sim, call) ? ".5"
                        : (call->number & 1) != 0                   ? ".0"
                                                                    : "");
    sim_memory_pad(sim, line);
    (void)hx_buf_printf(line, "},\"_meta\":{\"sim\":%u", call->number);
    if (sim_chance(&sim->luck, 300))
        (void)hx_buf_printf(line, ",\"progressToken\":\"p%u\"", call->number);
    if (key[0] != '\0' && !intent->is_param_key)
        (void)hx_buf_printf(line, ",\"dev.hapax/idempotencyKey\":\"%s\"", key);
    (void)hx_buf_append_cstr(line, "}");
    if (key[0] != '\0' && intent->is_param_key)
        (void)hx_buf_printf(line, ",\"idempotencyKey\":\"%s\"", key);
    (void)hx_buf_append_cstr(line, "}}");
}

static void post_batch(struct sim *sim, struct sim_host *host)
{
    struct sim_exchange *exchange = sim_web_post(sim, host, hx_buf_span(&host->batch), 0);
    if (exchange == NULL)
        return;
    exchange->is_batch = true;
    for (uint32_t i = 1; i <= sim->call_count; i++) {
        struct sim_call *call = sim_call_get(sim, i);
        if (call->session == host->session && call->exchange == 0)
            call->exchange = exchange->number;
    }
}

static void on_batch(struct sim *sim, struct sim_event *event)
{
    struct sim_host *host = &sim->hosts[event->a];
    if (host->batch.len == 0)
        return;
    (void)hx_buf_append_char(&host->batch, ']');
    if (host->life != 0 && host->port != 0)
        post_batch(sim, host);
    else if (host->life != 0)
        sim_host_send(sim, host, hx_buf_span(&host->batch));
    hx_buf_reset(&host->batch);
}

/* Calls of a batch arrive together; whether the array arrives is not followed for each of them. */
static void add_to_batch(struct sim *sim, struct sim_host *host, struct sim_call *call,
                         struct hx_span line)
{
    if (host->batch.len == 0)
        sim_after(sim, 5, on_batch)->a = host->number;
    else
        sim_mark(sim, SIM_BATCH);
    (void)hx_buf_append_char(&host->batch, host->batch.len == 0 ? '[' : ',');
    (void)hx_buf_append_span(&host->batch, line);
    call->arrivals = 1;
}

static bool may_batch(const struct sim_host *host)
{
    return host->revision != NULL && hx_span_eq_cstr(hx_span_cstr(host->revision), "2025-03-26");
}

/* Something between the two sends it again. */
static void repeat(struct sim *sim, struct sim_host *host, const struct sim_call *call,
                   struct hx_span line)
{
    int64_t delay_ms = sim_between(&sim->luck, 0, 900);
    if (host->port != 0) {
        struct sim_exchange *exchange = sim_web_post(sim, host, line, delay_ms);
        if (exchange != NULL)
            exchange->call = call->number;
        return;
    }
    sim_pipe_repeat(sim, host->life, line, delay_ms)->b = call->number;
}

void sim_host_call(struct sim *sim, struct sim_host *host, struct sim_intent *intent,
                   bool is_conflict)
{
    struct hx_buf line;
    struct sim_call *call = sim_call_add(sim);
    call->intent = intent->number;
    call->host = host->number;
    call->life = host->life;
    call->session = host->session;
    call->id = host->next_id++;
    call->is_text_id = sim_chance(&sim->luck, 200);
    call->is_conflict = is_conflict;
    call->sent_at = call->arrived_at = sim->now;
    call->state = SIM_CALL_OPEN;
    hx_buf_init(&line, 1 << 20);
    write_call(sim, call, intent, &line);
    sim_trace(sim, "host %u sends call %u of intent %u (%s %u%s%s) to life %u, id %u", host->number,
              call->number, intent->number, sim_tool_names[intent->tool], intent->group,
              intent->key[0] != '\0' ? " key " : "", intent->key, host->life, call->id);
    if (may_batch(host) && sim_chance(&sim->luck, sim->weather.batch)) {
        add_to_batch(sim, host, call, hx_buf_span(&line));
    } else {
        post(sim, host, host->life, hx_buf_span(&line), call, false);
        if (!sim->is_calm && !is_conflict && intent->tool != SIM_LOOK &&
            sim_chance(&sim->luck, sim->weather.double_send)) {
            sim_mark(sim, SIM_TRANSPORT_REPEAT);
            sim_trace(sim, "host %u sends call %u twice", host->number, call->number);
            repeat(sim, host, call, hx_buf_span(&line));
        }
    }
    hx_buf_fini(&line);
    /* Nobody waits for ever. */
    const int64_t long_patience_ms = 20 * 60 * 1000;
    if (!is_conflict)
        sim_after(sim, intent->give_up != SIM_WAIT_ON ? intent->patience_ms : long_patience_ms,
                  on_patience)
            ->b = call->number;
}

/* ---- intents ---- */

/* A keeper that was paused reads the call and its silent repeat in one go, and cannot know that the
 * first one had waited. */
static void allow_pause(struct sim *sim, const struct sim_host *host, struct sim_intent *intent)
{
    const struct sim_life *life = sim_life_find(sim, host->life);
    for (uint32_t i = 1; life != NULL && i <= sim->call_count; i++) {
        const struct sim_call *call = sim_call_get(sim, i);
        bool was_paused = life->is_paused || life->resumed_at + 600 >= call->sent_at;
        if (call->intent == intent->number && call->life == life->number && was_paused &&
            call->state == SIM_CALL_ABANDONED && call->answers == 0) {
            intent->allowed_more++;
            return;
        }
    }
}

/* Another session of the same principal goes on with it. */
static struct sim_host *move(struct sim *sim, struct sim_intent *intent)
{
    struct sim_host *host = &sim->hosts[intent->host];
    struct sim_host *other = &sim->hosts[1 + sim_below(&sim->shape, sim->host_count)];
    bool is_equal =
        other->port != 0 && host->port != 0 && strcmp(other->principal, host->principal) == 0;
    if (!is_equal || other->life == 0 || !other->is_ready || other->has_vanished ||
        !(host->has_vanished || sim_chance(&sim->shape, sim->weather.move)))
        return host;
    for (uint32_t i = 1; intent->key[0] == '\0' && i <= sim->call_count; i++) {
        const struct sim_call *call = sim_call_get(sim, i);
        if (call->intent == intent->number && call->state == SIM_CALL_ABANDONED)
            return host; /* that it was given up is seen on its own session alone */
    }
    intent->host = other->number;
    return other;
}

/* Another worker of the same application has the same key in hand. */
static struct sim_host *intent_twin(struct sim *sim, const struct sim_intent *intent)
{
    const struct sim_host *host = &sim->hosts[intent->host];
    if (sim->is_calm || host->port == 0 || intent->key[0] == '\0' ||
        !sim_chance(&sim->shape, sim->weather.move / 2))
        return NULL;
    struct sim_host *other = &sim->hosts[1 + sim_below(&sim->shape, sim->host_count)];
    bool is_there = other != host && other->port != 0 && other->life != 0 && other->is_ready;
    return is_there && strcmp(other->principal, host->principal) == 0 ? other : NULL;
}

static void on_retry(struct sim *sim, struct sim_event *event)
{
    struct sim_intent *intent = sim_intent_get(sim, event->b);
    struct sim_host *host = &sim->hosts[intent->host];
    if (intent->state != SIM_INTENT_OPEN || open_calls(sim, intent->number) > 0)
        return;
    host = move(sim, intent);
    if (host->has_vanished) {
        intent->retries_left = 0;
        give_up(sim, intent);
        return;
    }
    if (host->life == 0 || !host->is_ready) {
        retry_later(sim, intent, 200);
        return;
    }
    allow_pause(sim, host, intent);
    for (uint32_t i = 1; i <= sim->call_count; i++) {
        struct sim_call *call = sim_call_get(sim, i);
        if (call->intent == intent->number && call->is_limit_pending) {
            call->is_limit_pending = false; /* he was not: refused, or lost in his turn */
            intent->allowed_more++;
        }
        if (call->intent == intent->number &&
            (call->life != host->life || call->session != host->session) &&
            sim_life_find(sim, call->life) != NULL)
            allow_unread(sim, call);
    }
    sim_host_call(sim, host, intent, false);
    struct sim_host *twin = intent_twin(sim, intent);
    if (twin != NULL)
        sim_host_call(sim, twin, sim_intent_get(sim, event->b), false);
}

static void retry_later(struct sim *sim, struct sim_intent *intent, int64_t delay_ms)
{
    sim_after(sim, delay_ms, on_retry)->b = intent->number;
}

void sim_host_begin(struct sim *sim, struct sim_intent *intent)
{
    intent->state = SIM_INTENT_OPEN;
    intent->began = sim->now;
    retry_later(sim, intent, 0);
}

/* ---- answers ---- */

static void settled(struct sim *sim, struct sim_intent *intent, const char *how)
{
    if (intent->state != SIM_INTENT_OPEN)
        return;
    intent->state = SIM_INTENT_DONE;
    sim_trace(sim, "intent %u: %s", intent->number, how);
    if (intent->key[0] != '\0' && sim_chance(&sim->luck, sim->weather.conflict))
        sim_refused_probe(sim, intent);
}

static void again(struct sim *sim, struct sim_intent *intent, int64_t low_ms, int64_t high_ms)
{
    if (intent->retries_left == 0) {
        give_up(sim, intent);
        return;
    }
    intent->retries_left--;
    retry_later(sim, intent, sim_between(&sim->luck, low_ms, high_ms));
}

static void take_answer(struct sim *sim, struct sim_call *call, const struct sim_answer *answer)
{
    struct sim_intent *intent = sim_intent_get(sim, call->intent);
    if (call->state != SIM_CALL_OPEN) {
        sim_mark(sim, SIM_LATE_ANSWER);
        return;
    }
    call->state = SIM_CALL_ANSWERED;
    if (call->is_conflict)
        return;
    const char *code = answer->code;
    if (!answer->has_code)
        settled(sim, intent, "done");
    else if (strcmp(code, "BUSY") == 0)
        again(sim, intent, 2000, 4000);
    else if (strcmp(code, "OUTCOME_UNKNOWN") == 0)
        again(sim, intent, 10000, 12000);
    else if (strcmp(code, "UPSTREAM_UNAVAILABLE") == 0 || strcmp(code, "LEDGER_UNAVAILABLE") == 0)
        again(sim, intent, 500, 5000);
    else
        settled(sim, intent, code);
}

static void take_initialized(struct sim *sim, struct sim_host *host, bool is_result)
{
    host->initialize_id = 0;
    if (!is_result) {
        /* Real clients give up; ours begins again. */
        if (host->port != 0)
            sim_web_end(sim, host);
        else
            sim_host_hang_up(sim, host, SIM_KILL_FRONT);
        return;
    }
    host->has_session = host->port != 0;
    sim_host_send(sim, host,
                  HX_SPAN_LIT("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"));
    host->is_ready = true;
    if (host->port != 0)
        sim_web_greeted(sim, host);
}

/* A person who can look at the books: says what happened, or leaves it open. */
static void answer_person(struct sim *sim, struct sim_host *host, const struct hx_rpc_msg *msg)
{
    char text[512], id[96];
    snprintf(id, sizeof(id), "%.*s", HX_SPAN_FMT(msg->id.raw));
    struct hx_span params = msg->params;
    struct hx_id operation = {{0}};
    static const char marker[] = "(operation ";
    for (size_t i = 0; i + sizeof(marker) + HX_ID_TEXT_SIZE < params.len; i++) {
        if (memcmp(params.ptr + i, marker, sizeof(marker) - 1) == 0)
            (void)hx_id_parse(hx_span(params.ptr + i + sizeof(marker) - 1, HX_ID_TEXT_SIZE - 1),
                              &operation);
    }
    bool has_acted = false, may_act = false;
    for (uint32_t i = 1; i <= sim->run_count; i++) {
        const struct sim_run *run = sim_run_get(sim, i);
        if (!hx_id_eq(&run->operation, &operation))
            continue;
        const struct sim_process *process = sim_process_find(sim, run->process);
        has_acted |= run->has_acted;
        may_act |= !run->has_acted && process != NULL && !process->is_dead && !run->is_cancelled;
    }
    const char *decision = "leave";
    if (has_acted)
        decision = "happened";
    else if (!may_act && sim_chance(&sim->luck, 500))
        decision = "again";
    if (sim->person_says != NULL)
        decision = sim->person_says;
    if (strcmp(decision, "leave") != 0)
        sim_mark(sim, SIM_PERSON);
    snprintf(text, sizeof(text),
             "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"action\":\"accept\",\"content\":{"
             "\"decision\":\"%s\"}}}",
             id, decision);
    sim_trace(sim, "a person at host %u says %s about operation %s", host->number, decision,
              sim_short_id(&operation));
    sim_host_send(sim, host, hx_span_cstr(text));
}

static void take_request(struct sim *sim, struct sim_host *host, const struct hx_rpc_msg *msg);

static void on_late_request(struct sim *sim, struct sim_event *event)
{
    struct sim_host *host = &sim->hosts[event->b];
    struct hx_rpc_msg msg;
    if (host->life != event->a)
        return;
    if (hx_rpc_read(&sim->tape, hx_buf_span(&event->line), &sim->limits, &sim->arena, &msg) == 0)
        take_request(sim, host, &msg);
}

static void take_request(struct sim *sim, struct sim_host *host, const struct hx_rpc_msg *msg)
{
    char text[256];
    if (sim->is_person_away)
        return;
    if (!sim->options.is_scripted && sim_chance(&sim->luck, 200)) {
        /* Nobody is at the desk. */
        struct sim_event *event =
            sim_after(sim, sim_between(&sim->luck, 1000, 600000), on_late_request);
        event->a = host->life;
        event->b = host->number;
        (void)hx_buf_append_span(&event->line, msg->raw);
        return;
    }
    if (hx_span_eq_cstr(msg->method, "elicitation/create")) {
        answer_person(sim, host, msg);
        return;
    }
    snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":%.*s,\"result\":{}}",
             HX_SPAN_FMT(msg->id.raw));
    sim_host_send(sim, host, hx_span_cstr(text));
}

static void take_one(struct sim *sim, struct sim_host *host, uint32_t session, struct hx_span line)
{
    struct hx_rpc_msg msg;
    if (hx_rpc_read(&sim->tape, line, &sim->limits, &sim->arena, &msg) != 0)
        sim_fail(sim, "out of memory");
    if (msg.kind == HX_RPC_REQUEST) {
        take_request(sim, host, &msg);
        return;
    }
    if (msg.kind != HX_RPC_RESULT && msg.kind != HX_RPC_ERROR)
        return;
    struct sim_answer answer;
    if (!sim_answer_read(sim, session, &msg, &answer))
        sim_fail(sim, "an answer cannot be read: %.*s", HX_SPAN_FMT(line));
    if (answer.call != 0)
        take_answer(sim, sim_call_get(sim, answer.call), &answer);
    else if (host->initialize_id != 0 && answer.id == host->initialize_id)
        take_initialized(sim, host, msg.kind == HX_RPC_RESULT);
}

void sim_host_take(struct sim *sim, struct sim_host *host, uint32_t session, struct hx_span line)
{
    struct hx_rpc_msg msg;
    if (hx_rpc_read(&sim->tape, line, &sim->limits, &sim->arena, &msg) != 0)
        sim_fail(sim, "out of memory");
    if (msg.kind != HX_RPC_BATCH) {
        take_one(sim, host, session, line);
        return;
    }
    struct hx_span elements[64];
    size_t count = 0;
    hx_json_for_each(at, &sim->tape, msg.root)
    {
        if (count < 64)
            elements[count++] = hx_json_raw(&sim->tape, at);
    }
    for (size_t i = 0; i < count; i++)
        take_one(sim, host, session, elements[i]);
}
