/* SPDX-License-Identifier: MIT */
/*
 * What a claim tells its caller.
 */
#include <stdio.h>

#include "base/fault.h"
#include "base/shell.h"
#include "lib/internal.h"

enum { RETRY_AFTER_MS = 1000 };

static const struct {
    enum hx_answer answer;
    const char *sentence;
    bool is_new_key_allowed;
} sentences[] = {
#define HX_ANSWER(NAME, shape, code, same_key, new_key, status, sentence)                          \
    {HX_ANSWER_##NAME, sentence, new_key},
#include "tables/errors.def"
};

static size_t sentence_of(enum hx_answer answer)
{
    const size_t count = sizeof(sentences) / sizeof(sentences[0]);
    size_t i = 0;
    while (i < count && sentences[i].answer != answer)
        i++;
    hx_assert(i < count);
    return i;
}

static enum hapax_verdict verdict_of(enum hx_answer answer)
{
    switch (answer) {
    case HX_ANSWER_OUTCOME:
        return HAPAX_REPLAY;
    case HX_ANSWER_RESULT_UNAVAILABLE:
        return HAPAX_GONE;
    case HX_ANSWER_BUSY:
        return HAPAX_BUSY;
    case HX_ANSWER_OUTCOME_UNKNOWN:
        return HAPAX_UNKNOWN;
    case HX_ANSWER_KEY_CONFLICT:
        return HAPAX_CONFLICT;
    case HX_ANSWER_KEY_EXPIRED:
        return HAPAX_EXPIRED;
    default:
        return HAPAX_REFUSED;
    }
}

/* A request that is kept with the call, since it owns what it found. */
static struct hx_store_request *ask(struct hapax_call *call, enum hx_store_kind kind)
{
    struct hx_store_request *request = hx_store_request_new(kind, NULL);
    request->record.id = call->op.durable.id;
    request->resume.op = call->op.durable.id; /* of a RESUME_GET; nothing to the other */
    hx_lib_run(call->hapax, call->conn, request);
    hx_list_append(&call->held, &request->node);
    return request;
}

static int load_payload(struct hapax_call *call, struct hapax_error *error)
{
    const struct hx_outcome *outcome = &call->op.durable.outcome;
    call->payload = outcome->bytes;
    if (outcome->place == HX_OUTCOME_INLINE && !hx_span_is_absent(outcome->bytes))
        return 0;
    const struct hx_store_request *request = ask(call, HX_STORE_PAYLOAD);
    if (request->result == HX_STORE_NOT_DONE)
        return hx_lib_fail_fault(error, HAPAX_E_LEDGER);
    call->payload = request->payload;
    if (hx_span_is_absent(call->payload))
        return hx_lib_answer(call, HX_ANSWER_RESULT_UNAVAILABLE, error);
    return 0;
}

static void load_receipt(struct hapax_call *call)
{
    const struct hx_store_request *request = ask(call, HX_STORE_RESUME_GET);
    call->receipt = request->result == HX_STORE_DONE ? request->resume.text : HX_SPAN_NONE;
}

static void name_operation(struct hapax_call *call)
{
    const struct hx_record *record = &call->op.durable;
    hx_id_format(&record->id, call->id);
    hx_id_format(&record->effect_key, call->effect_key);
}

void hx_lib_answer_run(struct hapax_call *call)
{
    call->verdict = HAPAX_RUN;
    call->op.waiters = 0; /* nobody waits behind this call: what follows is asked for by a claim */
    name_operation(call);
    if (call->op.durable.attempt.number > 1)
        load_receipt(call);
}

static void name_owner(struct hapax_call *call)
{
    const struct hx_record *record = &call->op.durable;
    if (hx_id_is_nil(&record->owner) || record->state != HX_OP_RUNNING)
        return;
    hx_id_format(&record->owner, call->owner);
    call->owner_pid = hx_store_sqlite_owner_pid(call->hapax->store, &record->owner);
}

int hx_lib_answer(struct hapax_call *call, enum hx_answer answer, struct hapax_error *error)
{
    if (answer == HX_ANSWER_LEDGER_UNAVAILABLE)
        return hx_lib_fail_fault(error, HAPAX_E_LEDGER);
    call->answer = answer;
    call->verdict = verdict_of(answer);
    call->id[0] = '\0';
    if (call->has_record)
        name_operation(call);
    if (call->verdict == HAPAX_BUSY)
        name_owner(call);
    if (call->verdict == HAPAX_UNKNOWN)
        load_receipt(call);
    if (call->verdict == HAPAX_REPLAY)
        return load_payload(call, error);
    hx_buf_reset(&call->text);
    (void)hx_buf_append_cstr(&call->text, sentences[sentence_of(answer)].sentence);
    if (!hx_span_is_absent(call->flaw))
        (void)hx_buf_printf(&call->text, " %.*s", HX_SPAN_FMT(call->flaw));
    if (call->verdict == HAPAX_UNKNOWN) {
        (void)hx_buf_printf(&call->text, " hapax ops resolve %s happened|absent|again --ledger ",
                            call->id);
        (void)hx_shell_word(&call->text, hx_span_cstr(call->hapax->path));
    }
    (void)hx_buf_append_char(&call->text, '\0');
    return 0;
}

static unsigned may(const struct hapax_call *call)
{
    struct hx_now now = hx_lib_now(call->hapax);
    struct hx_rungs rungs = hx_recover_rungs(&call->op.durable, &call->facts, &now, false);
    unsigned may = 0;
    if (rungs.is_allowed[HX_RUNG_EVIDENCE])
        may |= HAPAX_MAY_FIND;
    if (rungs.is_allowed[HX_RUNG_EVIDENCE] &&
        call->op.durable.contract.in_flight_bound_ms != HX_UNDECLARED_MS)
        may |= HAPAX_MAY_ABSENT;
    if (rungs.is_allowed[HX_RUNG_PERSON])
        may |= HAPAX_MAY_ASK;
    return may;
}

static int64_t retry_after_ms(const struct hapax_call *call)
{
    const struct hx_now *due = &call->op.durable.not_before;
    struct hx_now now = hx_lib_now(call->hapax);
    int64_t wait_ms = hx_mono_since_ms(due->mono, now.mono);
    bool is_timed = call->op.durable.state == HX_OP_READY && due->wall.ms != 0 &&
                    hx_boot_eq(&due->boot, &now.boot) && wait_ms > 0;
    return is_timed ? wait_ms : RETRY_AFTER_MS;
}

void hapax_call_info(const struct hapax_call *call, struct hapax_info *ret_info)
{
    hx_check(call, HX_LIB_CALL_MAGIC);
    bool is_told = call->verdict != HAPAX_RUN && call->verdict != HAPAX_REPLAY;
    struct hapax_info info = {
        .size = ret_info->size,
        .verdict = (int)call->verdict,
        .code = is_told ? hx_answer_name(call->answer) : "",
        .text = is_told && hx_buf_ok(&call->text) ? hx_buf_span(&call->text).ptr : "",
        .id = call->id,
        .effect_key = call->effect_key,
        .receipt = call->receipt.ptr,
    };
    if (is_told)
        info.is_new_key_allowed = sentences[sentence_of(call->answer)].is_new_key_allowed;
    switch (call->verdict) {
    case HAPAX_RUN:
        info.attempt = call->op.durable.attempt.number;
        break;
    case HAPAX_REPLAY:
        info.outcome = call->payload.ptr;
        info.outcome_size = call->payload.len;
        info.is_error = call->op.durable.outcome.is_error;
        info.is_reconstructed = call->op.durable.outcome.is_reconstructed;
        break;
    case HAPAX_BUSY:
        info.owner = call->owner;
        info.owner_pid = call->owner_pid;
        info.retry_after_ms = retry_after_ms(call);
        break;
    case HAPAX_UNKNOWN:
        info.may = may(call);
        break;
    default:
        break;
    }
    size_t size = ret_info->size < sizeof(info) ? ret_info->size : sizeof(info);
    memcpy(ret_info, &info, size);
}
