/* SPDX-License-Identifier: MIT */
/*
 * What a client is told, read and judged at the moment when the gateway says it: by then it must be
 * durable, true, and the first answer to that request.
 */
#include "sim/sim.h"

#include <stdlib.h>

static struct sim_call *call_of(struct sim *sim, uint32_t session, uint32_t id, bool is_text_id)
{
    for (uint32_t i = sim->call_count; i >= 1; i--) {
        struct sim_call *call = sim_call_get(sim, i);
        if (call->session == session && call->id == id && call->is_text_id == is_text_id)
            return call;
    }
    return NULL;
}

static void read_id(const struct hx_rpc_id *id, struct sim_answer *answer)
{
    char text[32];
    snprintf(text, sizeof(text), "%.*s", HX_SPAN_FMT(id->raw));
    answer->is_text_id = text[0] == '"';
    answer->id = (uint32_t)strtoul(answer->is_text_id ? text + 2 : text, NULL, 10);
}

static bool read_flag(const struct hx_json_tape *tape, uint32_t object, const char *name)
{
    bool value = false;
    uint32_t at = hx_json_member(tape, object, hx_span_cstr(name));
    return at != HX_JSON_NONE && hx_json_bool(tape, at, &value) && value;
}

static void read_operation(const struct hx_json_tape *tape, uint32_t object,
                           struct sim_answer *answer)
{
    uint32_t id = hx_json_member(tape, object, HX_SPAN_LIT("id"));
    uint32_t code = hx_json_member(tape, object, HX_SPAN_LIT("code"));
    if (id != HX_JSON_NONE)
        answer->has_operation = hx_id_parse(hx_json_content(tape, id), &answer->operation);
    if (code != HX_JSON_NONE) {
        answer->has_code = true;
        snprintf(answer->code, sizeof(answer->code), "%.*s",
                 HX_SPAN_FMT(hx_json_content(tape, code)));
    }
    answer->is_replayed = read_flag(tape, object, "replayed");
    answer->is_joined = read_flag(tape, object, "joined");
}

static uint32_t read_run(const struct hx_json_tape *tape, uint32_t object)
{
    int64_t run = 0;
    uint32_t at = hx_json_member(tape, object, HX_SPAN_LIT("run"));
    if (at == HX_JSON_NONE || !hx_json_int64(tape, at, &run))
        return 0;
    return (uint32_t)run;
}

bool sim_answer_read(struct sim *sim, uint32_t session, const struct hx_rpc_msg *msg,
                     struct sim_answer *ret_answer)
{
    const struct hx_json_tape *tape = &sim->tape;
    struct sim_answer answer = {0};
    if (msg->id.type != HX_RPC_ID_INTEGER && msg->id.type != HX_RPC_ID_STRING)
        return false;
    read_id(&msg->id, &answer);
    const struct sim_call *call = call_of(sim, session, answer.id, answer.is_text_id);
    answer.call = call != NULL ? call->number : 0;
    if (msg->kind == HX_RPC_RESULT) {
        uint32_t meta = hx_json_member(tape, msg->result_token, HX_SPAN_LIT("_meta"));
        uint32_t ours = hx_json_member(tape, meta, HX_SPAN_LIT("dev.hapax/operation"));
        answer.run = read_run(tape, msg->result_token);
        read_operation(tape, ours, &answer);
    } else {
        uint32_t data = hx_json_member(tape, msg->error_token, HX_SPAN_LIT("data"));
        uint32_t ours = hx_json_member(tape, data, HX_SPAN_LIT("dev.hapax/operation"));
        answer.run = read_run(tape, data);
        read_operation(tape, ours, &answer);
        uint32_t code = hx_json_member(tape, data, HX_SPAN_LIT("code"));
        if (answer.run == 0 && !answer.has_code) {
            answer.has_code = true;
            snprintf(answer.code, sizeof(answer.code), "%.*s",
                     code != HX_JSON_NONE ? (int)hx_json_content(tape, code).len : 7,
                     code != HX_JSON_NONE ? hx_json_content(tape, code).ptr : "REFUSED");
        }
    }
    *ret_answer = answer;
    return true;
}

/* ---- byte for byte ---- */

static bool starts_with(struct hx_span text, struct hx_span start)
{
    return hx_span_starts_with(text, start);
}

/* The tool's own members, as it wrote them; `content` may end with one block of ours on a keyless
 * repeat, `_meta` holds one member of ours. */
static void check_bytes(struct sim *sim, const struct sim_run *run, const struct hx_rpc_msg *msg,
                        bool may_have_note)
{
    struct hx_json_tape *stored = &sim->tape2;
    struct hx_span own = hx_buf_span(&run->result);
    if (msg->kind == HX_RPC_ERROR) {
        if (!hx_span_eq(msg->error, own))
            sim_fail(sim, "an error changed on its way: %.*s", HX_SPAN_FMT(msg->error));
        return;
    }
    if (hx_json_read(stored, own, &sim->limits) != 0)
        sim_fail(sim, "the simulator's own result cannot be read");
    hx_json_for_each(at, stored, 0)
    {
        struct hx_span name = hx_json_content(stored, at);
        struct hx_span value = hx_json_raw(stored, at + 1);
        struct hx_span told =
            hx_json_raw(&sim->tape, hx_json_member(&sim->tape, msg->result_token, name));
        bool is_content = hx_span_eq_cstr(name, "content");
        if (hx_span_eq_cstr(name, "_meta"))
            value.len -= 1; /* ours stands behind the others */
        if (is_content && may_have_note && told.len > value.len)
            value.len -= 2; /* the closing bracket and the blank before it */
        bool is_same = hx_span_eq_cstr(name, "_meta") || told.len > value.len
                           ? starts_with(told, value)
                           : hx_span_eq(told, value);
        if (!is_same || (is_content && !may_have_note && told.len != value.len))
            sim_fail(sim, "member %.*s of a result changed on its way: %.*s", HX_SPAN_FMT(name),
                     HX_SPAN_FMT(msg->raw));
    }
}

/* ---- true ---- */

static bool was_ever_sent(struct sim *sim, const struct hx_id *operation)
{
    for (uint32_t i = 1; i <= sim->run_count; i++) {
        if (hx_id_eq(&sim_run_get(sim, i)->operation, operation))
            return true;
    }
    return false;
}

static bool has_acted(struct sim *sim, const struct hx_id *operation)
{
    for (uint32_t i = 1; i <= sim->run_count; i++) {
        const struct sim_run *run = sim_run_get(sim, i);
        if (run->has_acted && hx_id_eq(&run->operation, operation))
            return true;
    }
    return false;
}

/* May a caller of `intent` be given what a call of `other` did? Only if that one's answer was
 * lost, or its caller had waited long on the same connection. */
static void check_adoption(struct sim *sim, const struct sim_call *call,
                           const struct sim_intent *intent, const struct sim_run *run)
{
    uint32_t creator = sim_creator(sim, &run->operation);
    const struct sim_call *first = sim_call_get(sim, creator != 0 ? creator : run->call);
    const struct sim_intent *other = sim_intent_get(sim, first->intent);
    if (other == intent)
        return;
    if (intent->group != other->group || intent->tool != other->tool)
        sim_fail(sim, "call %u was told the result of another call, %u", call->number,
                 first->number);
    /* A key may have taken over what he began without one. */
    for (uint32_t i = 1; i <= sim->run_count; i++) {
        const struct sim_run *earlier = sim_run_get(sim, i);
        if (hx_id_eq(&earlier->operation, &run->operation) &&
            sim_call_get(sim, earlier->call)->intent == intent->number)
            return;
    }
    if (other->key[0] != '\0' && call->sent_at < first->sent_at)
        return;
    if (other->key[0] != '\0' && intent->key[0] != '\0')
        sim_fail(sim, "call %u was told the result of key %s", call->number, other->key);
    if (intent->tool == SIM_NOTE && intent->key[0] == '\0')
        sim_fail(sim, "calls that are separate by rule were joined");
    bool has_waited = first->session == call->session && call->arrived_at - first->sent_at >= 490;
    bool may_be_taken = other->was_disturbed || first->was_turned_away || has_waited;
    if (!may_be_taken && intent->tool != SIM_MAIL)
        sim_fail(sim, "a wanted call, %u, was swallowed by call %u, which lost nothing",
                 call->number, first->number);
}

static void check_outcome(struct sim *sim, struct sim_call *call, struct sim_intent *intent,
                          const struct sim_answer *answer, const struct hx_rpc_msg *msg)
{
    struct hx_id operation = answer->operation;
    struct sim_run *run = answer->run != 0 ? sim_run_get(sim, answer->run) : NULL;
    if (run != NULL && !answer->has_operation)
        operation = run->operation;
    if (run != NULL && !hx_id_eq(&run->operation, &operation))
        sim_fail(sim, "call %u was told run %u, which belongs to another operation", call->number,
                 run->number);
    const struct hx_record *row = sim_row(sim, &operation);
    const struct hx_record *spooled = sim_spooled(sim, &operation);
    if (row == NULL)
        sim_fail(sim, "call %u was told about operation %s, which is not in the ledger",
                 call->number, sim_short_id(&operation));
    if (!hx_span_eq_cstr(row->principal, sim->hosts[call->host].principal))
        sim_fail(sim, "call %u was told about operation %s of another principal", call->number,
                 sim_short_id(&operation));
    if (row->state != HX_OP_SUCCEEDED && spooled == NULL)
        sim_fail(sim, "call %u was told an outcome that is not durable (row %s)", call->number,
                 hx_op_state_name(row->state));
    if (row->state != HX_OP_SUCCEEDED)
        sim_mark(sim, SIM_SPOOLED);
    if (run == NULL) {
        if (!row->outcome.is_reconstructed)
            sim_fail(sim, "call %u was told an outcome that no run gave", call->number);
        return;
    }
    check_adoption(sim, call, intent, run);
    bool may_have_note = intent->key[0] == '\0' && (answer->is_replayed || answer->is_joined);
    check_bytes(sim, run, msg, may_have_note);
    if (intent->key[0] != '\0' && intent->was_told_success && intent->told_run != run->number &&
        !intent->is_person_decided)
        sim_fail(sim, "key %s was told run %u before and run %u now", intent->key, intent->told_run,
                 run->number);
    if (intent->key[0] != '\0' && intent->was_told_failed)
        sim_fail(sim, "key %s was told FAILED before and an outcome now", intent->key);
    if (!intent->was_told_success)
        intent->told_at = sim->now;
    intent->was_told_success = true;
    intent->told_operation = operation;
    intent->told_run = run->number;
}

/* Another process got hold of it when the ledger's word was on its way to this one, or stood in its
 * inbox while it was paused. */
static bool is_beside(struct sim *sim, const struct sim_call *call, const struct sim_run *run)
{
    const int64_t ledger_ms = sim->options.is_scripted ? 100 : 6000;
    const int64_t moment_ms = 50;
    const struct sim_process *process = sim_process_find(sim, run->process);
    const struct sim_life *life = sim_life_find(sim, call->life);
    bool is_own = process != NULL && process->life == call->life;
    bool was_paused = life != NULL && sim->now - life->resumed_at <= moment_ms;
    return !is_own && (sim->now - run->began <= ledger_ms || was_paused);
}

static void check_code(struct sim *sim, struct sim_call *call, struct sim_intent *intent,
                       const struct sim_answer *answer)
{
    const char *code = answer->code;
    const struct hx_record *row = answer->has_operation ? sim_row(sim, &answer->operation) : NULL;
    bool is_keyed = intent->key[0] != '\0';
    /* Two sessions may ask side by side. */
    bool was_told_before = intent->was_told_success && call->sent_at >= intent->told_at;
    bool says_nothing_sent = false;
    struct hx_now now = hx_clock_now(&sim->clock);
    if (strcmp(code, "KEY_CONFLICT") == 0 && !call->is_conflict)
        sim_fail(sim, "call %u was refused as a conflict", call->number);
    if (answer->has_operation && row == NULL && strcmp(code, "LEDGER_UNAVAILABLE") != 0 &&
        strcmp(code, "UPSTREAM_UNAVAILABLE") != 0)
        sim_fail(sim, "call %u was told %s about operation %s, which is not in the ledger",
                 call->number, code, sim_short_id(&answer->operation));
    if (strcmp(code, "FAILED") == 0 || strcmp(code, "CANCELLED") == 0) {
        sim_mark(sim, SIM_FAILED);
        if (row == NULL || (row->state != HX_OP_FAILED && row->state != HX_OP_CANCELLED))
            sim_fail(sim, "call %u was told %s, and the row says %s", call->number, code,
                     row != NULL ? hx_op_state_name(row->state) : "nothing");
        if (has_acted(sim, &answer->operation))
            sim_fail(sim, "call %u was told %s, and it happened", call->number, code);
        if (is_keyed && intent->was_told_success)
            sim_fail(sim, "key %s was told an outcome before and %s now", intent->key, code);
        intent->was_told_failed = true;
        says_nothing_sent = true;
    } else if (strcmp(code, "OUTCOME_UNKNOWN") == 0) {
        sim_mark(sim, SIM_UNKNOWN);
        bool may_have_acted = row->attempt.state == HX_ATTEMPT_OPEN ||
                              row->attempt.state == HX_ATTEMPT_ASKED ||
                              row->attempt.state == HX_ATTEMPT_CONFIRMED || row->earlier.open > 0 ||
                              row->reason == HX_REASON_RESTORED_COPY;
        if (!may_have_acted)
            sim_fail(sim, "call %u was told OUTCOME_UNKNOWN, and nothing was sent", call->number);
        if (is_keyed && was_told_before)
            sim_fail(sim, "key %s was told an outcome before and OUTCOME_UNKNOWN now", intent->key);
    } else if (strcmp(code, "BUSY") == 0) {
        sim_mark(sim, SIM_BUSY);
        if (is_keyed && was_told_before)
            sim_fail(sim, "key %s was told an outcome before and BUSY now", intent->key);
    } else if (strcmp(code, "UPSTREAM_UNAVAILABLE") == 0) {
        sim_mark(sim, SIM_NO_SERVER);
        says_nothing_sent = call->was_turned_away = true;
        for (uint32_t i = 1; answer->has_operation && i <= sim->run_count; i++) {
            const struct sim_run *run = sim_run_get(sim, i);
            if (hx_id_eq(&run->operation, &answer->operation) && !run->is_refusal &&
                !is_beside(sim, call, run))
                sim_fail(sim, "call %u was told that nothing was sent, and run %u had it",
                         call->number, run->number);
        }
    } else if (strcmp(code, "LEDGER_UNAVAILABLE") == 0) {
        sim_mark(sim, SIM_NO_LEDGER);
        says_nothing_sent = call->was_turned_away = true;
        for (uint32_t i = 1; i <= sim->run_count; i++) {
            const struct sim_run *run = sim_run_get(sim, i);
            if (run->call == call->number && !run->is_refusal && call->arrivals == 1 &&
                !intent->is_person_decided)
                sim_fail(sim, "call %u was told that it sent nothing, and run %u is its own",
                         call->number, run->number);
        }
    } else if (strcmp(code, "RESULT_UNAVAILABLE") == 0) {
        if (row->state != HX_OP_SUCCEEDED && sim_spooled(sim, &answer->operation) == NULL)
            sim_fail(sim, "call %u was told RESULT_UNAVAILABLE, and the row says %s", call->number,
                     hx_op_state_name(row->state));
    } else {
        says_nothing_sent = true;
    }
    if (!says_nothing_sent && answer->has_operation && !was_ever_sent(sim, &answer->operation) &&
        row->state == HX_OP_UNKNOWN && row->earlier.open == 0 && !row->attempt.is_marked &&
        hx_boot_eq(&row->attempt.claimed_at.boot, &now.boot))
        sim_trace(sim, "unknown without a mark: operation %s", sim_short_id(&answer->operation));
    /* Who was told to come back is owed the answer, and whoever comes may be he. */
    if (!says_nothing_sent)
        intent->was_disturbed = true;
    intent->may_have_been_sent |= !says_nothing_sent;
}

/* A late answer on a living connection counts as delivered, although its caller has given up
 * without a word: the one limit that the contract names. A later repeat is a new operation. */
static void allow_named_limit(struct sim *sim, struct sim_call *call, struct sim_intent *intent,
                              const struct sim_answer *answer)
{
    static const char *const promises[] = {"BUSY", "OUTCOME_UNKNOWN", "LEDGER_UNAVAILABLE",
                                           "UPSTREAM_UNAVAILABLE"};
    for (size_t i = 0; answer->has_code && i < 4; i++) {
        if (strcmp(answer->code, promises[i]) == 0)
            return;
    }
    if (call->state != SIM_CALL_ABANDONED || intent->key[0] != '\0')
        return;
    for (uint32_t i = 1; i <= sim->call_count; i++) {
        const struct sim_call *other = sim_call_get(sim, i);
        if (other->intent == intent->number && other->state == SIM_CALL_OPEN &&
            other->arrivals > 0 && other->answers == 0 && other->session == call->session) {
            call->is_limit_pending = true; /* he has come back, and will be told as well */
            return;
        }
    }
    intent->allowed_more++;
}

/* What only sessions over HTTP can have. */
static void mark_session(struct sim *sim, const struct sim_call *call,
                         const struct sim_answer *answer)
{
    const struct sim_exchange *exchange = sim_exchange_find(sim, call->exchange);
    if (call->is_conflict || answer->has_code || answer->run == 0)
        return;
    const struct sim_call *first = sim_call_get(sim, sim_run_get(sim, answer->run)->call);
    if (exchange != NULL && exchange->is_resume)
        sim_mark(sim, SIM_RESUMED);
    if (answer->is_joined && first->session != call->session && first->life == call->life)
        sim_mark(sim, SIM_CROSS_SESSION);
}

static void judge(const struct sim_door *door, const struct hx_rpc_msg *msg)
{
    const struct sim_life *life = door->life;
    struct sim *sim = life->sim;
    const struct sim_host *host = &sim->hosts[door->host];
    struct sim_answer answer;
    if (msg->kind != HX_RPC_RESULT && msg->kind != HX_RPC_ERROR)
        return;
    if (!sim_answer_read(sim, door->session, msg, &answer))
        sim_fail(sim, "life %u gave an answer without an id: %.*s", life->number,
                 HX_SPAN_FMT(msg->raw));
    if (answer.call == 0) {
        if (host->life == life->number && host->session == door->session &&
            answer.id != host->initialize_id)
            sim_fail(sim, "life %u answered a request that was never made: %.*s", life->number,
                     HX_SPAN_FMT(msg->raw));
        return;
    }
    struct sim_call *call = sim_call_get(sim, answer.call);
    struct sim_intent *intent = sim_intent_get(sim, call->intent);
    sim_trace(sim, "life %u tells call %u: %s run %u operation %s%s%s", life->number, call->number,
              answer.has_code ? answer.code : "outcome", answer.run,
              sim_short_id(&answer.operation), answer.is_replayed ? " replayed" : "",
              answer.is_joined ? " joined" : "");
    call->answers++;
    call->replays += answer.is_replayed;
    if (answer.has_operation)
        call->operation = answer.operation;
    if (call->answers > call->arrivals)
        sim_fail(sim, "call %u was answered more often than it was made", call->number);
    if (call->cancel_arrived && call->arrivals == 1)
        sim_fail(sim, "call %u was answered after its cancel", call->number);
    if (intent->tool == SIM_LOOK)
        return;
    if (call->is_conflict)
        sim_refused_check(sim, call, &answer);
    else if (answer.has_code)
        check_code(sim, call, intent, &answer);
    else
        check_outcome(sim, call, intent, &answer, msg);
    if (!answer.has_code)
        intent->may_have_been_sent = true;
    mark_session(sim, call, &answer);
    allow_named_limit(sim, call, intent, &answer);
}

void sim_answer_sent(struct sim_door *door, struct hx_span line)
{
    struct sim *sim = door->life->sim;
    struct hx_rpc_msg msg;
    struct hx_span elements[64];
    size_t count = 0;
    if (hx_rpc_read(&sim->tape, line, &sim->limits, &sim->arena, &msg) != 0)
        sim_fail(sim, "out of memory");
    if (msg.kind == HX_RPC_INVALID)
        sim_fail(sim, "life %u says nonsense: %.*s", door->life->number, HX_SPAN_FMT(line));
    if (msg.kind != HX_RPC_BATCH) {
        judge(door, &msg);
        return;
    }
    hx_json_for_each(at, &sim->tape, msg.root)
    {
        if (count < 64)
            elements[count++] = hx_json_raw(&sim->tape, at);
    }
    for (size_t i = 0; i < count; i++) {
        if (hx_rpc_read(&sim->tape, elements[i], &sim->limits, &sim->arena, &msg) == 0)
            judge(door, &msg);
    }
}
