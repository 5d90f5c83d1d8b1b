/* SPDX-License-Identifier: MIT */
/*
 * What comes of a call: events for the core about an attempt that ends, and about one that is
 * unknown.
 */
#include "base/alloc.h"
#include "base/fault.h"
#include "core/policy.h"
#include "core/repeat.h"
#include "lib/internal.h"
#include "json/writer.h"

static int check_call(const struct hapax_call *call, struct hapax_error *error)
{
    if (call == NULL || call->magic != HX_LIB_CALL_MAGIC)
        return hx_lib_fail(error, HAPAX_E_MISUSE, "This is no call.");
    return hx_lib_check(call->hapax, error);
}

static int enter(const struct hapax_call *call, struct hapax_error *error)
{
    int rc = check_call(call, error);
    return rc < 0 ? rc : hx_lib_enter(call->hapax, error);
}

static bool has_attempt(const struct hapax_call *call)
{
    return call->op.phase == HX_PHASE_SENDING || call->op.phase == HX_PHASE_AWAITING;
}

/* Ready for an event about an attempt of ours. */
static int enter_running(struct hapax_call *call, struct hapax_conn *conn,
                         struct hapax_error *error)
{
    int rc = enter(call, error);
    if (rc == 0)
        rc = hx_lib_enlist(call, conn, error);
    if (rc == 0 && !has_attempt(call))
        rc = hx_lib_fail(error, HAPAX_E_STATE,
                         "The call does not run: it was not claimed, or is over already.");
    return rc;
}

/* The same event may be handed in again after a write that certainly did not happen. */
static struct hx_lib_result try_event(struct hapax_call *call, struct hx_event event)
{
    struct hx_op before = call->op;
    call->op.waiters = 0;
    struct hx_lib_result result = hx_lib_drive(call, event);
    if (result.has_failed && !result.is_spooled)
        call->op = before;
    return result;
}

static int fail_write(struct hapax_error *error)
{
    return hx_lib_fail_fault(error, HAPAX_E_LEDGER);
}

static int taken_over(const struct hapax_call *call, struct hapax_error *error)
{
    return hx_lib_fail(error, HAPAX_E_STATE,
                       "Not recorded: the operation is not in your hands any more; it is %s.",
                       hx_op_state_name(call->op.durable.state));
}

/* Out of the way of those who look for open operations. */
static void cool(struct hapax_call *call)
{
    struct hx_now now = hx_lib_now(call->hapax);
    struct hx_record told = call->op.durable;
    told.sent_count = 1; /* whoever recorded the outcome knows it */
    if (!hx_repeat_is_cold(&told, &now))
        return;
    struct hx_store_request *touch = hx_store_request_new(HX_STORE_TOUCH, NULL);
    touch->record.id = call->op.durable.id;
    touch->touch.cool = true;
    hx_lib_run_later(call->hapax, call->conn, touch);
}

/* Hashes and copies the bytes, which must outlive a write that is tried again. Of one that did not
 * come to be recorded nothing is borrowed any more: the next try takes its place, however often. */
static int make_outcome(struct hapax_call *call, const void *bytes, size_t size, int is_error,
                        struct hx_outcome *ret_outcome, struct hapax_error *error)
{
    if (bytes == NULL && size > 0)
        return hx_lib_fail(error, HAPAX_E_MISUSE, "The outcome has a size but no bytes.");
    struct hx_span given = hx_span(bytes != NULL ? bytes : "", size);
    struct hx_outcome outcome = {
        .kind = HX_OUTCOME_RESULT, .is_error = is_error != 0, .size = size, .bytes = given};
    struct hx_hasher *hasher = hx_hasher_new();
    hx_hasher_begin(hasher);
    hx_hasher_add(hasher, given);
    outcome.digest = hx_hasher_end(hasher);
    hx_hasher_free(hasher);
    outcome.place = size <= HX_STORE_INLINE_MAX ? HX_OUTCOME_INLINE : HX_OUTCOME_BLOB;
    if (size > HX_LIB_OUTCOME_MAX) {
        outcome.place = HX_OUTCOME_GONE;
        outcome.bytes = HX_SPAN_NONE;
    } else {
        hx_arena_reset(&call->outcome);
        outcome.bytes = hx_arena_dup(&call->outcome, given);
        if (hx_span_is_absent(outcome.bytes))
            return hx_lib_fail_memory(error);
    }
    *ret_outcome = outcome;
    return 0;
}

int hapax_finish(struct hapax_call *call, struct hapax_conn *conn, const void *outcome,
                 size_t outcome_size, int is_error, struct hapax_error *ret_error)
{
    int rc = enter_running(call, conn, ret_error);
    if (rc < 0)
        return rc;
    struct hx_event event = hx_lib_event(call, HX_EV_REPLY);
    rc = make_outcome(call, outcome, outcome_size, is_error, &event.outcome, ret_error);
    if (rc < 0)
        return rc;
    struct hx_lib_result result = try_event(call, event);
    call->is_spooled = result.is_spooled;
    if (result.is_spooled)
        return 0;
    if (result.has_failed)
        return fail_write(ret_error);
    if (call->op.durable.state != HX_OP_SUCCEEDED)
        return taken_over(call, ret_error);
    cool(call);
    return 0;
}

int hapax_refuse(struct hapax_call *call, struct hapax_conn *conn, int64_t retry_after_ms,
                 struct hapax_error *ret_error)
{
    int rc = enter_running(call, conn, ret_error);
    if (rc < 0)
        return rc;
    if (retry_after_ms < -1)
        return hx_lib_fail(ret_error, HAPAX_E_MISUSE, "retry_after_ms is -1 or a time.");
    bool is_final = retry_after_ms < 0;
    struct hx_event event =
        hx_lib_event(call, is_final ? HX_EV_REFUSED_FINAL : HX_EV_REFUSED_TRANSIENT);
    event.not_before_ms = is_final ? 0 : retry_after_ms;
    /* An earlier attempt may have acted: the core would send again at once, where the caller is to
     * be asked first. He is, when the key comes again. */
    event.facts.is_same_target = false;
    struct hx_lib_result result = try_event(call, event);
    if (result.has_failed)
        return fail_write(ret_error);
    if (has_attempt(call) || call->op.durable.state == HX_OP_RUNNING)
        return taken_over(call, ret_error);
    cool(call);
    return 0;
}

int hapax_give_back(struct hapax_call *call, struct hapax_conn *conn, struct hapax_error *ret_error)
{
    int rc = enter_running(call, conn, ret_error);
    if (rc < 0)
        return rc;
    struct hx_lib_result result = try_event(call, hx_lib_event(call, HX_EV_NOT_SENT));
    if (result.has_failed)
        return fail_write(ret_error);
    return call->op.durable.state == HX_OP_RUNNING ? taken_over(call, ret_error) : 0;
}

int hapax_lost(struct hapax_call *call, struct hapax_conn *conn, struct hapax_error *ret_error)
{
    int rc = enter_running(call, conn, ret_error);
    if (rc < 0)
        return rc;
    struct hx_event event = hx_lib_event(call, HX_EV_LOST);
    event.reason = HX_REASON_TRANSPORT_LOST;
    event.facts.is_same_target = false; /* nobody is here to do it again now */
    struct hx_lib_result result = try_event(call, event);
    if (result.has_failed)
        return fail_write(ret_error);
    return call->op.durable.state == HX_OP_RUNNING ? taken_over(call, ret_error) : 0;
}

void hapax_call_free(struct hapax_call *call)
{
    if (call == NULL || check_call(call, NULL) < 0)
        return;
    bool is_open = call->conn == NULL || hx_guest_is_open(call->conn->guest);
    if (has_attempt(call) && !call->is_void && is_open)
        (void)hapax_lost(call, call->conn, NULL); /* else whoever finds it left behind decides */
    hx_lib_call_drop(call);
}

/* ---- receipts ---- */

static bool is_printable(struct hx_span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < 0x20 || text.ptr[i] > 0x7e)
            return false;
    }
    return text.len > 0 && text.len <= HX_LIB_RECEIPT_MAX;
}

static struct hx_span receipt_note(struct hx_store_request *request, struct hx_span receipt)
{
    struct hx_buf note;
    struct hx_json_writer writer;
    hx_buf_init(&note, HX_STORE_NOTE_MAX);
    hx_json_writer_init(&writer, &note);
    hx_json_open_object(&writer);
    hx_json_put_name(&writer, "what");
    hx_json_put_cstr(&writer, "receipt");
    hx_json_put_name(&writer, "receipt");
    hx_json_put_string(&writer, receipt);
    hx_json_close_object(&writer);
    struct hx_span kept =
        hx_buf_ok(&note) ? hx_arena_dup(&request->arena, hx_buf_span(&note)) : HX_SPAN_NONE;
    hx_buf_fini(&note);
    return kept;
}

int hapax_receipt(struct hapax_call *call, struct hapax_conn *conn, const char *receipt,
                  struct hapax_error *ret_error)
{
    int rc = enter_running(call, conn, ret_error);
    struct hx_span text = hx_span_cstr(receipt);
    if (rc == 0 && !is_printable(text))
        rc = hx_lib_fail(ret_error, HAPAX_E_MISUSE,
                         "A receipt is 1 to 1,024 bytes of printable ASCII.");
    if (rc < 0)
        return rc;
    struct hx_store_request *put = hx_store_request_new(HX_STORE_RESUME_PUT, NULL);
    put->resume.op = call->op.durable.id;
    put->resume.attempt = call->op.durable.attempt.number;
    put->resume.text = text;
    hx_lib_run(call->hapax, conn, put);
    enum hx_store_result result = put->result;
    hx_store_request_free(put);
    if (result == HX_STORE_NOT_DONE)
        return fail_write(ret_error);
    if (result == HX_STORE_STALE)
        return hx_lib_fail(ret_error, HAPAX_E_STATE, "Not noted: a later attempt is under way.");
    struct hx_store_request *note = hx_store_request_new(HX_STORE_NOTE, NULL);
    note->record.id = call->op.durable.id;
    note->note = receipt_note(note, text);
    /* For people; the receipt itself is kept already. */
    if (!hx_span_is_absent(note->note))
        hx_lib_run(call->hapax, conn, note);
    hx_store_request_free(note);
    return 0;
}

int hapax_delivered(struct hapax_call *call, int is_delivered, struct hapax_error *ret_error)
{
    int rc = enter(call, ret_error);
    if (rc < 0)
        return rc;
    if (!call->has_record || call->is_void || call->conn != NULL)
        return hx_lib_fail(ret_error, HAPAX_E_STATE,
                           "There is no operation whose answer could be delivered, or its "
                           "transaction is still open.");
    struct hx_store_request *touch = hx_store_request_new(HX_STORE_TOUCH, NULL);
    touch->record.id = call->op.durable.id;
    touch->touch.add_sent = is_delivered ? 1 : 0;
    touch->touch.add_lost = is_delivered ? 0 : 1;
    hx_lib_run(call->hapax, NULL, touch);
    rc = touch->result == HX_STORE_NOT_DONE ? fail_write(ret_error) : 0;
    hx_store_request_free(touch);
    return rc;
}

/* ---- unknown ones ---- */

static int enter_unknown(struct hapax_call *call, struct hapax_conn *conn,
                         struct hapax_error *error)
{
    int rc = enter(call, error);
    if (rc == 0)
        rc = hx_lib_enlist(call, conn, error);
    if (rc == 0 && (call->verdict != HAPAX_UNKNOWN || call->op.phase != HX_PHASE_IDLE))
        rc = hx_lib_fail(error, HAPAX_E_STATE, "The call was not claimed as an unknown one.");
    return rc;
}

int hapax_happened(struct hapax_call *call, struct hapax_conn *conn, const void *outcome,
                   size_t outcome_size, int is_error, struct hapax_error *ret_error)
{
    int rc = enter_unknown(call, conn, ret_error);
    if (rc < 0)
        return rc;
    struct hx_event event = hx_lib_event(call, HX_EV_EVIDENCE);
    rc = make_outcome(call, outcome, outcome_size, is_error, &event.outcome, ret_error);
    if (rc < 0)
        return rc;
    event.outcome.is_reconstructed = true;
    struct hx_digest digest = event.outcome.digest;
    struct hx_lib_result result = try_event(call, event);
    if (result.has_failed)
        return fail_write(ret_error);
    const struct hx_record *record = &call->op.durable;
    if (record->state != HX_OP_SUCCEEDED || !hx_digest_eq(&record->outcome.digest, &digest))
        return taken_over(call, ret_error);
    cool(call);
    return 0;
}

/* The row as it is now. */
static int reload(struct hapax_call *call, struct hapax_error *error)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_FIND, NULL);
    request->find_id = true;
    request->record.id = call->op.durable.id;
    hx_lib_run(call->hapax, call->conn, request);
    hx_list_append(&call->held, &request->node);
    if (request->result != HX_STORE_DONE)
        return fail_write(error);
    if (request->record_count == 0 || hx_record_flaw(&request->records[0].record) != NULL)
        return hx_lib_fail(error, HAPAX_E_STATE, "The operation is not in the ledger any more.");
    hx_op_init_loaded(&call->op, &request->records[0].record);
    call->facts = hx_lib_facts(call, &request->records[0]);
    return 0;
}

int hapax_absent(struct hapax_call *call, struct hapax_conn *conn, struct hapax_error *ret_error)
{
    int rc = enter_unknown(call, conn, ret_error);
    if (rc == 0)
        rc = reload(call, ret_error);
    if (rc < 0)
        return rc;
    struct hx_event event = hx_lib_event(call, HX_EV_ABSENCE_PROVED);
    const struct hx_record *record = &call->op.durable;
    if (record->state != HX_OP_UNKNOWN)
        return taken_over(call, ret_error);
    if (record->contract.in_flight_bound_ms == HX_UNDECLARED_MS)
        return hx_lib_fail(
            ret_error, HAPAX_E_STATE,
            "Absence cannot be proved: the contract declares no in_flight_bound_ms.");
    bool is_provable = hx_absence_is_provable(record, &event.facts, &event.now);
    if (!hx_recover_add_negative(&call->negatives, is_provable, event.now.mono))
        return hx_lib_fail(ret_error, HAPAX_E_STATE,
                           "Absence is not proved yet (%u of %d looks counted): look again ten "
                           "seconds later.",
                           (unsigned)call->negatives.count, HX_NEGATIVES_NEEDED);
    struct hx_lib_result result = try_event(call, event);
    if (result.has_failed)
        return fail_write(ret_error);
    if (!result.is_answered || result.answer != HX_ANSWER_DONE)
        return taken_over(call, ret_error);
    return 0;
}
