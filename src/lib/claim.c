/* SPDX-License-Identifier: MIT */
/*
 * Claiming: from a key and its arguments to the operation that they name, and what the core says
 * to a caller who arrives there.
 */
#include <stdio.h>

#include "base/fault.h"
#include "core/key.h"
#include "core/restored.h"
#include "lib/internal.h"
#include "json/fingerprint.h"

/* So often may a row change between our look and our write before we say busy. */
enum { ROUNDS_MAX = 32, POLL_MS = 100, NAME_MAX_BYTES = 1024, ARGUMENTS_MAX = 16 * 1024 * 1024 };

void hapax_contract_init(struct hapax_contract *contract)
{
    struct hx_contract defaults = hx_contract_default();
    *contract = (struct hapax_contract){
        .size = sizeof(*contract),
        .tool_class = HAPAX_OPAQUE,
        .attempts_max = defaults.attempts_max,
        .timeout_ms = defaults.timeout_ms,
        .dedupe_horizon_ms = HAPAX_UNDECLARED_MS,
        .in_flight_bound_ms = HAPAX_UNDECLARED_MS,
        .visibility_lag_ms = defaults.visibility_lag_ms,
        .payload_retention_ms = defaults.payload_retention_ms,
        .row_retention_ms = defaults.row_retention_ms,
    };
}

void hapax_request_init(struct hapax_request *request)
{
    *request = (struct hapax_request){.size = sizeof(*request)};
}

static bool is_time(int64_t ms)
{
    return ms >= HAPAX_UNDECLARED_MS;
}

static const char *contract_flaw(const struct hapax_contract *contract)
{
    if (contract->size < sizeof(*contract))
        return "The contract has no size: begin with hapax_contract_init.";
    if (contract->tool_class < HAPAX_OPAQUE || contract->tool_class > HAPAX_PROBEABLE)
        return "The contract's tool_class is none.";
    if (contract->attempts_max == 0)
        return "The contract allows no attempt.";
    if (contract->attempts_max > UINT16_MAX) /* struct hx_record counts the earlier ones so far */
        return "The contract allows more than 65535 attempts.";
    if (contract->timeout_ms < 0 || contract->visibility_lag_ms < 0 ||
        contract->payload_retention_ms < 0 || contract->row_retention_ms < 0 ||
        !is_time(contract->dedupe_horizon_ms) || !is_time(contract->in_flight_bound_ms))
        return "A time of the contract is negative.";
    return NULL;
}

static struct hx_contract read_contract(const struct hapax_contract *from)
{
    static const enum hx_tool_class classes[] = {
        [HAPAX_OPAQUE] = HX_CLASS_OPAQUE,
        [HAPAX_IDEMPOTENT] = HX_CLASS_IDEMPOTENT,
        [HAPAX_KEYED] = HX_CLASS_KEYED,
        [HAPAX_PROBEABLE] = HX_CLASS_PROBEABLE,
    };
    struct hx_contract contract = hx_contract_default();
    contract.repeat = HX_REPEAT_REQUIRE_KEY;
    if (from == NULL)
        return contract;
    contract.tool_class = classes[from->tool_class];
    contract.has_probe = from->tool_class == HAPAX_PROBEABLE;
    contract.attempts_max = from->attempts_max;
    contract.timeout_ms = from->timeout_ms;
    contract.dedupe_horizon_ms = from->dedupe_horizon_ms;
    contract.in_flight_bound_ms = from->in_flight_bound_ms;
    contract.visibility_lag_ms = from->visibility_lag_ms;
    contract.payload_retention_ms = from->payload_retention_ms;
    contract.row_retention_ms = from->row_retention_ms;
    return contract;
}

static const char *request_flaw(const struct hapax_request *request)
{
    if (request == NULL || request->size < sizeof(*request))
        return "The request has no size: begin with hapax_request_init.";
    if (request->tool == NULL || request->tool[0] == '\0' || strlen(request->tool) > NAME_MAX_BYTES)
        return "The request names no tool, or one of more than 1,024 bytes.";
    if (request->principal != NULL && strlen(request->principal) > NAME_MAX_BYTES)
        return "The principal is longer than 1,024 bytes.";
    if (request->arguments_size > ARGUMENTS_MAX)
        return "The arguments are larger than 16 MiB.";
    if (request->wait_ms < 0 || request->first_sent_ms < 0)
        return "A time of the request is negative.";
    return request->contract != NULL ? contract_flaw(request->contract) : NULL;
}

static int read_fingerprint(struct hapax_call *call, const struct hapax_request *request,
                            struct hx_record *record, struct hapax_error *error)
{
    struct hx_fingerprinter fingerprinter;
    struct hx_json_limits limits = HX_JSON_LIMITS_DEFAULT;
    struct hx_span arguments = request->arguments != NULL
                                   ? hx_span(request->arguments, request->arguments_size)
                                   : HX_SPAN_NONE;
    hx_fingerprinter_init(&fingerprinter);
    int rc = hx_fingerprint(&fingerprinter, arguments, &limits, NULL, &record->fingerprint, NULL);
    hx_fingerprinter_fini(&fingerprinter);
    if (rc == 0)
        return 0;
    if (rc < 0)
        return hx_lib_fail_memory(error);
    return hx_lib_fail(error, HAPAX_E_MISUSE, "The arguments: %s", hx_fingerprint_outcome_text(rc));
}

/* Absent: no memory. */
static struct hx_span keep(struct hapax_call *call, const char *text)
{
    return hx_arena_dup(&call->arena, hx_span_cstr(text != NULL ? text : ""));
}

/* What the row will say if there is none. */
static int fill_record(struct hapax_call *call, const struct hapax_request *request,
                       struct hx_record *record, struct hapax_error *error)
{
    struct hapax *hapax = call->hapax;
    *record = (struct hx_record){
        .id = hx_lib_mint(hapax),
        .effect_key = hx_lib_mint(hapax),
        .tenant = keep(call, hapax->tenant),
        .server = keep(call, hapax->server),
        .principal = keep(call, request->principal),
        .tool = keep(call, request->tool),
        .key = keep(call, request->key),
        .key_source = HX_KEY_META,
        .first_sent = {request->first_sent_ms},
        .created = hx_lib_now(hapax),
        .contract = read_contract(request->contract),
        .holder = hapax->owner,
    };
    record->updated = record->created;
    if (hx_span_is_absent(record->tenant) || hx_span_is_absent(record->server) ||
        hx_span_is_absent(record->principal) || hx_span_is_absent(record->tool) ||
        hx_span_is_absent(record->key))
        return hx_lib_fail_memory(error);
    struct hx_key_time time = hx_key_time(record->key, record->first_sent);
    record->first_sent = time.first_sent;
    int rc = read_fingerprint(call, request, record, error);
    if (rc < 0)
        return rc;
    struct hx_hasher *hasher = hx_hasher_new();
    record->identity = hx_record_identity(hasher, record, false);
    record->twin = hx_record_twin(hasher, record);
    hx_hasher_free(hasher);
    return 0;
}

static bool is_refused(struct hapax *hapax, struct hapax_error *error)
{
    pthread_mutex_lock(&hapax->mutex);
    const char *refusal = hapax->store->ops->refusal(hapax->store);
    if (refusal != NULL)
        (void)hx_lib_fail(error, HAPAX_E_LEDGER, "%s", refusal);
    pthread_mutex_unlock(&hapax->mutex);
    return refusal != NULL;
}

/* A key that the ledger does not know: may it be a new one? */
static bool is_acceptable(struct hapax_call *call, struct hapax_conn *conn,
                          const struct hx_record *record, bool *ret_is_from_gap,
                          enum hx_answer *ret_answer)
{
    struct hapax *hapax = call->hapax;
    struct hx_key_time time = hx_key_time(record->key, record->first_sent);
    struct hx_wall now = hx_lib_now(hapax).wall;
    pthread_mutex_lock(&hapax->mutex);
    struct hx_wall low_water =
        conn != NULL ? hx_guest_low_water(conn->guest) : hapax->store->ops->low_water(hapax->store);
    struct hx_gap gap =
        conn != NULL ? hx_guest_gap(conn->guest) : hapax->store->ops->gap(hapax->store);
    pthread_mutex_unlock(&hapax->mutex);
    switch (hx_key_age(time, now, low_water)) {
    case HX_KEY_AGE_GOOD:
        *ret_is_from_gap = hx_gap_covers_key(&gap, time);
        return true;
    case HX_KEY_AGE_EXPIRED:
        *ret_answer = HX_ANSWER_KEY_EXPIRED;
        return false;
    case HX_KEY_AGE_FUTURE:
        call->flaw = HX_SPAN_LIT("The key's time lies more than five minutes ahead of ours.");
        *ret_answer = HX_ANSWER_KEY_INVALID;
        return false;
    }
    return false;
}

static void count_repeat(struct hapax_call *call, struct hapax_conn *conn)
{
    struct hx_store_request *touch = hx_store_request_new(HX_STORE_TOUCH, NULL);
    touch->record.id = call->op.durable.id;
    touch->touch.add_repeats = 1;
    hx_lib_run_later(call->hapax, conn, touch);
}

/* The row of this key, or none, into call->op. 1: `ret_answer` is the answer already. */
static int look(struct hapax_call *call, struct hapax_conn *conn, const struct hx_record *wanted,
                bool *ret_is_from_gap, enum hx_answer *ret_answer, struct hapax_error *error)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_FIND, NULL);
    request->find_identity = true;
    request->record.identity = wanted->identity;
    hx_lib_run(call->hapax, conn, request);
    hx_list_append(&call->held, &request->node);
    if (request->result != HX_STORE_DONE)
        return hx_lib_fail_fault(error, HAPAX_E_LEDGER);
    if (request->record_count == 0) {
        call->facts = (struct hx_facts){.is_epoch_current = true, .is_same_target = true};
        hx_op_init_absent(&call->op, wanted);
        return is_acceptable(call, conn, wanted, ret_is_from_gap, ret_answer) ? 0 : 1;
    }
    const struct hx_record *record = &request->records[0].record;
    const char *flaw = hx_record_flaw(record);
    if (flaw != NULL)
        return hx_lib_fail(error, HAPAX_E_LEDGER,
                           "The row of this key is damaged (%s): run hapax ops verify.", flaw);
    /* INV-10, INV-23: before anything else. */
    bool is_same = record->is_tombstone || hx_digest_eq(&record->fingerprint, &wanted->fingerprint);
    if (!is_same || !hx_span_eq(record->principal, wanted->principal)) {
        *ret_answer = HX_ANSWER_KEY_CONFLICT;
        return 1;
    }
    if (record->is_superseded) {
        /* It is the newest of its key, so the row of its successor is gone. */
        *ret_answer = HX_ANSWER_KEY_EXPIRED;
        return 1;
    }
    hx_op_init_loaded(&call->op, record);
    call->facts = hx_lib_facts(call, &request->records[0]);
    call->has_record = true;
    if (hx_op_state_is_final(record->state))
        hx_lib_lay_ghost(call->hapax, &record->id);
    return 0;
}

/* One look and what the core says to it. 0 and the answer, 1: look again, or negative. */
static int arrive(struct hapax_call *call, struct hapax_conn *conn, const struct hx_record *wanted,
                  bool is_first, struct hapax_error *error)
{
    enum hx_answer answer = HX_ANSWER_BUSY;
    bool is_from_gap = false;
    int rc = look(call, conn, wanted, &is_from_gap, &answer, error);
    if (rc < 0)
        return rc;
    if (rc == 1) {
        call->has_record = false;
        return hx_lib_answer(call, answer, error);
    }
    rc = hx_lib_enlist(call, conn, error);
    if (rc < 0)
        return rc;
    if (call->has_record && is_first)
        count_repeat(call, conn);
    struct hx_event event = hx_lib_event(call, HX_EV_CALL);
    event.is_from_gap = is_from_gap;
    call->op.waiters = 1;
    call->was_claimed_here = conn != NULL;
    struct hx_lib_result result = hx_lib_drive(call, event);
    if (conn != NULL && result.has_failed)
        return hx_lib_fail_fault(error, HAPAX_E_LEDGER);
    if (result.must_follow)
        return 1;
    call->has_record = call->op.durable.state != HX_OP_ABSENT;
    if (result.runs) {
        hx_lib_answer_run(call);
        return 0;
    }
    if (!result.is_answered)
        result = hx_lib_drive(call, hx_lib_event(call, HX_EV_WAIT_OVER));
    hx_assert(result.is_answered);
    call->op.waiters = 0;
    return hx_lib_answer(call, result.answer, error);
}

/* Waits a while for the one who is at it, as long as the caller wants. True: look again. */
static bool wait_for_other(struct hapax_call *call, const struct hx_now *since, int64_t wait_ms)
{
    struct hx_now now = hx_lib_now(call->hapax);
    int64_t left_ms = wait_ms - hx_mono_since_ms(now.mono, since->mono);
    if (call->verdict != HAPAX_BUSY || left_ms <= 0)
        return false;
    hx_lib_wait(call->hapax, left_ms < POLL_MS ? left_ms : POLL_MS);
    return true;
}

/* The next look brings it all anew; what every look found would grow for as long as one waits. */
static void forget_look(struct hapax_call *call, const struct hx_record *wanted)
{
    call->has_record = false;
    hx_op_init_absent(&call->op, wanted);
    hx_lib_let_go(call);
}

static int claim(struct hapax_call *call, struct hapax_conn *conn,
                 const struct hapax_request *request, struct hapax_error *error)
{
    struct hx_record wanted;
    const char *flaw = request->key == NULL ? NULL : hx_key_flaw(hx_span_cstr(request->key));
    if (request->key == NULL || flaw != NULL) {
        call->flaw = hx_span_cstr(flaw);
        return hx_lib_answer(call, flaw != NULL ? HX_ANSWER_KEY_INVALID : HX_ANSWER_KEY_REQUIRED,
                             error);
    }
    int rc = fill_record(call, request, &wanted, error);
    if (rc < 0)
        return rc;
    if (is_refused(call->hapax, error))
        return HAPAX_E_LEDGER;
    struct hx_now since = hx_lib_now(call->hapax);
    int64_t wait_ms = conn != NULL ? 0 : request->wait_ms;
    bool is_first = true;
    for (int follows = 0; follows < ROUNDS_MAX;) {
        rc = arrive(call, conn, &wanted, is_first, error);
        if (rc < 0)
            return rc;
        is_first = false;
        if (rc == 1)
            follows++;
        else if (!wait_for_other(call, &since, wait_ms))
            return 0;
        else
            forget_look(call, &wanted);
    }
    return hx_lib_fail(error, HAPAX_E_LEDGER,
                       "The operation changes faster than it can be claimed: try again.");
}

int hapax_claim(struct hapax *hapax, struct hapax_conn *conn, const struct hapax_request *request,
                struct hapax_call **ret_call, struct hapax_error *ret_error)
{
    int rc = hx_lib_enter(hapax, ret_error);
    const char *flaw = rc < 0 ? NULL : request_flaw(request);
    if (flaw != NULL)
        rc = hx_lib_fail(ret_error, HAPAX_E_MISUSE, "%s", flaw);
    if (rc == 0 && conn != NULL &&
        (conn->magic != HX_LIB_CONN_MAGIC || conn->hapax != hapax ||
         !hx_guest_is_open(conn->guest)))
        rc = hx_lib_fail(ret_error, HAPAX_E_MISUSE,
                         "The connection has no open transaction of this ledger: hapax_begin comes "
                         "first.");
    if (rc < 0)
        return rc;
    struct hapax_call *call = hx_lib_call_new(hapax);
    rc = claim(call, conn, request, ret_error);
    if (rc < 0) {
        hx_lib_call_drop(call);
        return rc;
    }
    *ret_call = call;
    return (int)call->verdict;
}
