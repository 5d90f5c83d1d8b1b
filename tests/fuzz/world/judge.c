/* SPDX-License-Identifier: MIT */
/*
 * What must be true of every history, whatever anybody says:
 *
 *  - Nothing leaves before its row says, durably, that it is sent; an attempt is sent once; and
 *    where the contract does not allow another, only after every earlier one was proved to have
 *    done nothing.
 *  - What a client gets is one message on one line, under the id of a request of its own, and not
 *    more often than it asked; an outcome only when it is durable.
 *  - Rows are whole, fences never fall, final states stay.
 *  - When faults stop, everybody who still waits is answered, and no operation stays running.
 */
#include "tests/fuzz/world/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/store_memory/ledger.h"
#include "engine/internal.h"
#include "sim/sim.h"

void world_fail(struct world *world, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "broken: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    if (world->gateway != NULL)
        sim_look_dump(world->gateway, stderr);
    abort();
}

/* ---- rows ---- */

void world_judge_rows(struct world *world)
{
    const struct hx_record *row;
    for (size_t i = 0; (row = hx_memory_ledger_row(world->ledger, i)) != NULL; i++) {
        if (i >= WORLD_ROWS_MAX)
            return;
        struct world_shadow *shadow = &world->shadows[i];
        bool is_new = i >= world->row_count;
        const char *flaw = hx_record_flaw(row);
        if (flaw != NULL)
            world_fail(world, "a row: %s", flaw);
        if (!is_new && row->fence < shadow->fence)
            world_fail(world, "a fence fell");
        if (!is_new && !hx_id_eq(&row->effect_key, &shadow->effect_key))
            world_fail(world, "an operation has another effect key");
        if (!is_new && hx_op_state_is_final(shadow->state) && row->state != shadow->state &&
            row->state != HX_OP_EXPIRED)
            world_fail(world, "an operation left the final state %s for %s",
                       hx_op_state_name(shadow->state), hx_op_state_name(row->state));
        if (!is_new && shadow->state == HX_OP_SUCCEEDED &&
            !hx_digest_eq(&shadow->outcome, &row->outcome.digest))
            world_fail(world, "the outcome of an operation changed");
        if (is_new)
            world->row_count = i + 1;
        *shadow =
            (struct world_shadow){row->state, row->fence, row->effect_key, row->outcome.digest};
    }
}

static const struct hx_record *find_row(struct world *world, const struct hx_id *operation)
{
    const struct hx_record *row;
    for (size_t i = 0; (row = hx_memory_ledger_row(world->ledger, i)) != NULL; i++) {
        if (hx_id_eq(&row->id, operation))
            return row;
    }
    return NULL;
}

static bool is_spooled(const struct world *world, const struct hx_id *operation)
{
    hx_list_for_each (at, &world->ledger->spool) {
        if (hx_id_eq(&hx_container_of(at, struct hx_memory_spooled, node)->record.id, operation))
            return true;
    }
    return false;
}

/* ---- to the server ---- */

static bool may_be_sent_again(const struct hx_record *row)
{
    return row->contract.tool_class == HX_CLASS_IDEMPOTENT ||
           row->contract.tool_class == HX_CLASS_KEYED || row->contract.retries_after_proof;
}

int world_judge_send(struct world_way *way, uint64_t tag)
{
    struct world *world = way->world;
    struct hx_id operation;
    uint32_t attempt;
    if (!sim_look_route(&way->upstream, tag, &operation, &attempt) ||
        world->send_count == WORLD_SENDS_MAX)
        return -1;
    const struct hx_link *link = way->upstream.owner;
    const struct hx_record *row = find_row(world, &operation);
    if (row == NULL)
        world_fail(world, "a call leaves, and the ledger knows nothing of it");
    if (row->state != HX_OP_RUNNING || !hx_id_eq(&row->owner, &world->owner) ||
        row->attempt.number != attempt || !row->attempt.is_marked)
        world_fail(world, "a call leaves as attempt %u, and its row says %s, attempt %u, %smarked",
                   attempt, hx_op_state_name(row->state), row->attempt.number,
                   row->attempt.is_marked ? "" : "not ");
    /* Another gateway behind this one is asked again under the same key, as often as need be. */
    for (unsigned i = 0; i < world->send_count && !link->has_operations; i++) {
        const struct world_send *earlier = &world->sends[i];
        if (!hx_id_eq(&earlier->operation, &operation))
            continue;
        if (earlier->attempt == attempt)
            world_fail(world, "attempt %u is sent twice", attempt);
        bool may_have_acted = earlier->has_left && !earlier->is_refused && !earlier->is_asked;
        if (may_have_acted && !may_be_sent_again(row))
            world_fail(world,
                       "a call of class %s is sent as attempt %u, and attempt %u may have "
                       "acted",
                       hx_tool_class_name(row->contract.tool_class), attempt, earlier->attempt);
    }
    world->sends[world->send_count] =
        (struct world_send){.operation = operation, .attempt = attempt};
    return (int)world->send_count++;
}

static void take_proof(struct world *world, struct world_owed *owed, const struct hx_rpc_msg *msg)
{
    struct hx_mcp_error error;
    if (owed->send < 0)
        return;
    struct world_send *send = &world->sends[owed->send];
    if (msg->kind == HX_RPC_RESULT) {
        send->is_asked = hx_mcp_call_result_read(&world->tape, msg).is_input_required;
        return;
    }
    hx_assert(hx_mcp_error_read(&world->tape, msg, &world->arena, &error) == 0);
    send->is_refused =
        error.has_code && (error.code == -32010 || error.code == -32011 || error.code == -32042);
}

static void judge_one(struct world_way *way, const struct hx_rpc_msg *msg)
{
    if (msg->kind != HX_RPC_RESULT && msg->kind != HX_RPC_ERROR)
        return;
    hx_list_for_each_safe (at, &way->owed) {
        struct world_owed *owed = hx_container_of(at, struct world_owed, node);
        struct hx_rpc_id id = hx_rpc_id_parse(hx_span_cstr(owed->raw_id));
        if (!hx_rpc_id_eq(&id, &msg->id))
            continue;
        take_proof(way->world, owed, msg);
        world_owed_free(owed);
        return;
    }
}

void world_judge_server(struct world_way *way, struct hx_span line)
{
    struct world *world = way->world;
    struct hx_rpc_msg msg, element;
    hx_assert(hx_rpc_read(&world->tape, line, &world->limits, &world->arena, &msg) == 0);
    if (msg.kind == HX_RPC_BATCH) {
        hx_json_for_each(at, &world->tape, msg.root)
        {
            hx_assert(hx_rpc_classify(&world->tape, at, &world->arena, &element) == 0);
            judge_one(way, &element);
        }
    } else {
        judge_one(way, &msg);
    }
    hx_arena_reset(&world->arena);
}

/* ---- to a client ---- */

static bool is_durable(const struct world *world, const struct hx_record *row)
{
    return row->state == HX_OP_SUCCEEDED || is_spooled(world, &row->id);
}

/* Of a tool's own error nothing tells whose it is, so any row may have it. */
static void judge_error(struct world *world, const struct hx_rpc_msg *msg)
{
    const struct hx_json_tape *tape = &world->tape;
    struct hx_mcp_error error;
    uint32_t data = hx_json_member(tape, msg->error_token, HX_SPAN_LIT("data"));
    hx_assert(hx_mcp_error_read(tape, msg, &world->arena, &error) == 0);
    if (hx_json_member(tape, data, HX_SPAN_LIT("retry_safe")) != HX_JSON_NONE ||
        error.code == -32042 || error.code == HX_RPC_INVALID_REQUEST || error.code == 1503)
        return; /* ours; or one that is no outcome */
    const struct hx_record *row;
    for (size_t i = 0; (row = hx_memory_ledger_row(world->ledger, i)) != NULL; i++) {
        if (is_durable(world, row))
            return;
    }
    world_fail(world, "an error is passed on, and no outcome is durable: %.*s",
               HX_SPAN_FMT(msg->error));
}

static void judge_result(struct world *world, const struct hx_rpc_msg *msg)
{
    const struct hx_json_tape *tape = &world->tape;
    uint32_t meta = hx_json_member(tape, msg->result_token, HX_SPAN_LIT("_meta"));
    uint32_t ours = hx_json_member(tape, meta, HX_SPAN_LIT("dev.hapax/operation"));
    uint32_t id = hx_json_member(tape, ours, HX_SPAN_LIT("id"));
    uint32_t code = hx_json_member(tape, ours, HX_SPAN_LIT("code"));
    struct hx_span word = code != HX_JSON_NONE ? hx_json_content(tape, code) : HX_SPAN_NONE;
    struct hx_id operation;
    if (ours == HX_JSON_NONE)
        world_fail(world, "a guarded call is answered without a word about its operation");
    bool has_id = id != HX_JSON_NONE && hx_id_parse(hx_json_content(tape, id), &operation);
    const struct hx_record *row = has_id ? find_row(world, &operation) : NULL;
    if (code == HX_JSON_NONE || hx_span_eq_cstr(word, "RESULT_UNAVAILABLE")) {
        if (row == NULL || !is_durable(world, row))
            world_fail(world, "an outcome is told that is not durable: %.*s",
                       HX_SPAN_FMT(msg->result));
    } else if (hx_span_eq_cstr(word, "FAILED") || hx_span_eq_cstr(word, "CANCELLED")) {
        if (row == NULL || (row->state != HX_OP_FAILED && row->state != HX_OP_CANCELLED))
            world_fail(world, "%.*s is told, and the row says %s", HX_SPAN_FMT(word),
                       row != NULL ? hx_op_state_name(row->state) : "nothing");
    } else if (hx_span_eq_cstr(word, "OUTCOME_UNKNOWN") && row == NULL) {
        world_fail(world, "an outcome is called unknown, and there is no row");
    }
}

static void take_question(struct world_door *door, const struct hx_rpc_msg *msg)
{
    struct world_question *question = hx_new(struct world_question);
    hx_assert(msg->id.raw.len < sizeof question->raw_id); /* the ids are the gateway's own */
    memcpy(question->raw_id, msg->id.raw.ptr, msg->id.raw.len);
    hx_list_append(&door->questions, &question->node);
}

static void judge_message(struct world_door *door, const struct hx_rpc_msg *msg,
                          const struct hx_sending *sending)
{
    struct world *world = door->world;
    if (msg->kind == HX_RPC_REQUEST)
        take_question(door, msg);
    if (msg->kind != HX_RPC_RESULT && msg->kind != HX_RPC_ERROR)
        return;
    if (msg->id.type == HX_RPC_ID_NONE || msg->id.type == HX_RPC_ID_NULL) {
        if (door->faults_owed == 0)
            world_fail(world, "an answer to nothing: %.*s", HX_SPAN_FMT(msg->raw));
        door->faults_owed--;
        return;
    }
    struct world_request *request = world_request_find(door, &msg->id);
    if (request == NULL)
        world_fail(world, "an answer to a request that was never made: %.*s",
                   HX_SPAN_FMT(msg->raw));
    request->answers++;
    if (request->answers > request->arrivals)
        world_fail(world, "request %s is answered %u times", request->raw_id, request->answers);
    if (request->is_cancelled && request->was_open_at_cancel && request->arrivals == 1)
        world_fail(world, "request %s is answered after its cancel", request->raw_id);
    if (world->is_web && request->arrivals == 1 && request->exchange != sending->exchange)
        world_fail(world, "request %s is answered on another exchange", request->raw_id);
    if (!request->is_guarded || request->arrivals > 1)
        return;
    if (msg->kind == HX_RPC_RESULT)
        judge_result(world, msg);
    else
        judge_error(world, msg);
}

void world_judge_answer(struct world_door *door, struct hx_span line,
                        const struct hx_sending *sending)
{
    struct world *world = door->world;
    struct hx_rpc_msg msg;
    struct hx_span elements[64];
    size_t count = 0;
    if (getenv("HX_FUZZ_TRACE") != NULL)
        fprintf(stderr, "client %u < %.*s\n", door->number, HX_SPAN_FMT(line));
    if (memchr(line.ptr, '\n', line.len) != NULL)
        world_fail(world, "an answer of two lines: %.*s", HX_SPAN_FMT(line));
    hx_assert(hx_rpc_read(&world->tape2, line, &world->limits, &world->arena, &msg) == 0);
    if (msg.kind == HX_RPC_INVALID)
        world_fail(world, "a client is told what is no message: %.*s", HX_SPAN_FMT(line));
    if (msg.kind == HX_RPC_BATCH) {
        hx_json_for_each(at, &world->tape2, msg.root)
        {
            hx_assert(count < 64);
            elements[count++] = hx_json_raw(&world->tape2, at);
        }
    } else {
        elements[count++] = line;
    }
    for (size_t i = 0; i < count; i++) {
        hx_assert(hx_rpc_read(&world->tape, elements[i], &world->limits, &world->arena, &msg) == 0);
        judge_message(door, &msg, sending);
    }
    hx_arena_reset(&world->arena);
}

/* ---- the end ---- */

void world_judge_door(struct world_door *door)
{
    struct world *world = door->world;
    if (door->is_closed)
        return;
    hx_list_for_each (at, &door->requests) {
        const struct world_request *request = hx_container_of(at, struct world_request, node);
        if (request->answers == 0 && !request->is_cancelled && !request->is_let_go)
            world_fail(world, "request %s of client %u is never answered", request->raw_id,
                       door->number);
    }
    if (door->faults_owed > 0)
        world_fail(world, "%u messages that were none are not answered", door->faults_owed);
    hx_list_for_each (at, &door->exchanges) {
        const struct world_exchange *exchange = hx_container_of(at, struct world_exchange, node);
        if (exchange->state == WORLD_EXCHANGE_OPEN)
            world_fail(world, "exchange %llu is never ended", (unsigned long long)exchange->number);
    }
}

void world_judge_end(struct world *world)
{
    const struct hx_record *row;
    hx_list_for_each (at, &world->doors)
        world_judge_door(hx_container_of(at, struct world_door, node));
    if (world->gateway == NULL)
        return;
    const char *why = sim_look_idle(world->gateway);
    for (int i = 0; why != NULL && i < 20 && world->gateway != NULL; i++) {
        world_pass(world, 137); /* a sweep may just be under way */
        why = world->gateway != NULL ? sim_look_idle(world->gateway) : NULL;
    }
    if (why != NULL)
        world_fail(world, "the gateway does not come to rest: %s", why);
    for (size_t i = 0; (row = hx_memory_ledger_row(world->ledger, i)) != NULL; i++) {
        if (row->state == HX_OP_RUNNING || row->state == HX_OP_ABSENT)
            world_fail(world, "an operation of tool %.*s is still %s", HX_SPAN_FMT(row->tool),
                       hx_op_state_name(row->state));
        if (row->state == HX_OP_UNKNOWN && !row->is_superseded && !row->needs_human &&
            hx_mono_since_ms(hx_clock_now(&world->clock).mono, row->settled.mono) > 17 * 60 * 1000)
            world_fail(world, "an operation of tool %.*s is unknown, and nobody is told so",
                       HX_SPAN_FMT(row->tool));
    }
}
