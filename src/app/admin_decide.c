/* SPDX-License-Identifier: MIT */
/*
 * POST: decisions about one operation, a cancel by key, and evidence by effect key.
 *
 * A decision may be posted again: what is so already is answered with 200 and is_applied false. A
 * different one is answered with 409, and told that somebody decided first.
 */
#include <stdio.h>

#include "app/admin_state.h"
#include "app/ops_advice.h"
#include "app/ops_outcome.h"
#include "app/verdict.h"
#include "core/key.h"

enum { ROWS_AT_ONCE = 256, WORDS_MAX = 64 * 1024 };

static void refuse(struct admin_ask *ask, uint32_t status, const char *code, const char *sentence)
{
    admin_refuse(ask->admin, ask->exchange, status, code, sentence);
    admin_ask_free(ask);
}

/* ---- what came of it ---- */

/* What was to be decided is so: by the same decision, posted before or by somebody else. */
static bool is_so(enum hx_event_type decision, const struct hx_record *record)
{
    switch (decision) {
    case HX_EV_APPROVE:
        return record->is_approved;
    case HX_EV_DENY:
        return record->state == HX_OP_CANCELLED && record->reason == HX_REASON_DENIED;
    case HX_EV_RESOLVE_HAPPENED:
        return record->state == HX_OP_SUCCEEDED;
    case HX_EV_EVIDENCE:
        return record->state == HX_OP_SUCCEEDED || record->is_disputed;
    case HX_EV_RESOLVE_ABSENT:
        return record->state == HX_OP_FAILED;
    case HX_EV_ABSENCE_PROVED:
        return record->state == HX_OP_FAILED || record->state == HX_OP_CANCELLED;
    case HX_EV_RESOLVE_AGAIN:
        return record->is_superseded;
    default:
        return false;
    }
}

static void say_not_applied(const struct admin_ask *ask, const struct hx_verdict *verdict,
                            struct hx_buf *words)
{
    struct hx_now now = hx_clock_now(ask->admin->options.clock);
    const struct hx_store_found *found = verdict->found;
    bool is_of_absence =
        ask->decision == HX_EV_RESOLVE_ABSENT || ask->decision == HX_EV_ABSENCE_PROVED;
    bool is_open =
        found != NULL && found->record.state == HX_OP_UNKNOWN && !found->record.is_superseded;
    (void)hx_buf_append_cstr(words, "not applied: ");
    if (is_of_absence && is_open && hx_ops_absence_doubt(found, &now, words))
        return;
    if (verdict->is_overtaken || (found != NULL && hx_record_was_decided(&found->record)))
        (void)hx_buf_append_cstr(words, "somebody decided first. ");
    if (found != NULL)
        (void)hx_buf_printf(words, "the operation is %s: %s", hx_op_state_name(found->record.state),
                            hx_ops_state_sentence(found));
}

static uint32_t status_of(const struct admin_ask *ask, const struct hx_verdict *verdict,
                          bool is_as_wanted)
{
    if (verdict->answer == HX_ANSWER_LEDGER_UNAVAILABLE)
        return 503;
    bool is_already = verdict->answer == HX_ANSWER_NOT_APPLIED && verdict->found != NULL &&
                      is_so(ask->decision, &verdict->found->record);
    return is_as_wanted || is_already ? 200 : 409;
}

static void decided(void *context, const struct hx_verdict *verdict)
{
    struct admin_ask *ask = context;
    struct hx_now now = hx_clock_now(ask->admin->options.clock);
    struct hx_json_writer writer;
    struct hx_buf words;
    bool is_as_wanted = false;
    if (verdict->is_absent) {
        refuse(ask, 404, "NOT_FOUND", "The ledger has no operation of this id.");
        return;
    }
    hx_buf_init(&words, WORDS_MAX);
    if (verdict->answer == HX_ANSWER_NOT_APPLIED)
        say_not_applied(ask, verdict, &words);
    else
        is_as_wanted = hx_verdict_say(ask->decision, verdict, &words);
    hx_json_writer_init(&writer, &ask->json);
    hx_verdict_put(&writer, ask->decision, verdict, hx_buf_span(&words), &now);
    hx_buf_fini(&words);
    admin_answer(ask->admin, ask->exchange, status_of(ask, verdict, is_as_wanted), &ask->json);
    admin_ask_free(ask);
}

static void begin(struct admin_ask *ask, const struct hx_decision_target *target)
{
    char who[HX_ADMIN_NAME_MAX + 16];
    const struct hx_decision decision = {.type = ask->decision,
                                         .is_forced = ask->is_forced,
                                         .outcome = ask->outcome,
                                         .words = ask->words};
    snprintf(who, sizeof(who), "admin %s", ask->who);
    if (hx_gateway_decide(ask->admin->options.gateway, target, &decision, hx_span_cstr(who),
                          decided, ask) == NULL)
        refuse(ask, 503, "LEDGER_UNAVAILABLE", "There is no memory for this; nothing was decided.");
}

/* ---- what is posted ---- */

/* False: it was answered, and the ask is gone. */
static bool read_note(struct admin_ask *ask)
{
    ask->words = admin_text(ask, "note");
    if (hx_span_is_absent(ask->words) && !hx_span_is_absent(admin_raw(ask, "note"))) {
        refuse(ask, 400, "INVALID", "note: it must be a text.");
        return false;
    }
    if (ask->words.len <= HX_STORE_NOTE_MAX / 4)
        return true;
    refuse(ask, 400, "INVALID", "The note is too long: the history keeps about 500 bytes.");
    return false;
}

static bool read_result(struct admin_ask *ask, struct hx_span otherwise)
{
    char sentence[300];
    struct hx_span given = admin_raw(ask, "result");
    const char *flaw =
        hx_ops_outcome(hx_span_is_absent(given) ? otherwise : given, &ask->arena, &ask->outcome);
    if (flaw == NULL)
        return true;
    snprintf(sentence, sizeof(sentence), "result: %s.", flaw);
    refuse(ask, 400, "INVALID", sentence);
    return false;
}

static bool read_decision(struct hx_span word, enum hx_event_type *ret_type)
{
    static const enum hx_event_type types[] = {
        HX_EV_RESOLVE_HAPPENED, HX_EV_RESOLVE_ABSENT, HX_EV_RESOLVE_AGAIN,
        HX_EV_APPROVE,          HX_EV_DENY,           HX_EV_CANCEL};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (hx_span_eq_cstr(word, hx_decision_name(types[i]))) {
            *ret_type = types[i];
            return true;
        }
    }
    return false;
}

void admin_decide(struct admin_ask *ask, const struct hx_id *id)
{
    struct hx_decision_target target = {.id = *id};
    if (!read_decision(admin_text(ask, "decision"), &ask->decision)) {
        refuse(ask, 400, "INVALID",
               "\"decision\" must be happened, absent, again, approve, deny or cancel.");
        return;
    }
    ask->is_forced = admin_flag(ask, "force");
    if (ask->is_forced && ask->decision != HX_EV_RESOLVE_ABSENT) {
        refuse(ask, 400, "INVALID", "\"force\" goes with absent only.");
        return;
    }
    if (!read_note(ask))
        return;
    if (ask->decision == HX_EV_RESOLVE_HAPPENED && !read_result(ask, HX_SPAN_NONE))
        return;
    begin(ask, &target);
}

/* They may be kept for long, for a call that never comes. */
static bool is_name_too_long(const struct hx_record *wanted)
{
    enum { NAME_MAX_BYTES = 1024 };
    return wanted->tenant.len > NAME_MAX_BYTES || wanted->principal.len > NAME_MAX_BYTES ||
           wanted->server.len > NAME_MAX_BYTES || wanted->tool.len > NAME_MAX_BYTES;
}

void admin_cancel(struct admin_ask *ask)
{
    struct hx_record wanted = {
        .tenant = admin_text(ask, "tenant"),
        .principal = admin_text(ask, "principal"),
        .server = admin_text(ask, "server"),
        .tool = admin_text(ask, "tool"),
        .key = admin_text(ask, "key"),
        .key_source = HX_KEY_META,
    };
    bool is_scoped = hx_span_eq_cstr(admin_text(ask, "key_scope"), "principal");
    if (hx_span_is_absent(wanted.tenant) || hx_span_is_absent(wanted.principal) ||
        hx_span_is_absent(wanted.server) || hx_span_is_absent(wanted.tool) ||
        hx_span_is_absent(wanted.key)) {
        refuse(ask, 400, "INVALID",
               "A call that may not have come yet is named by tenant, principal, server, tool and "
               "key; key_scope is tenant unless it says principal.");
        return;
    }
    const char *flaw = hx_key_flaw(wanted.key);
    if (is_name_too_long(&wanted))
        flaw = "Tenant, principal, server and tool may have 1024 bytes each.";
    if (flaw != NULL) {
        refuse(ask, 400, "INVALID", flaw);
        return;
    }
    if (!read_note(ask))
        return;
    hx_decision_name_call(&wanted, ask->admin->hasher, is_scoped);
    const struct hx_decision_target target = {.wanted = &wanted};
    ask->decision = HX_EV_CANCEL;
    begin(ask, &target);
}

/* ---- evidence ---- */

static void rows_found(void *context, const struct hx_store_request *found);

/* Effect keys have no index: rows are looked through in pages. First those that have not ended
 * (ABSENT), which are few and are what most evidence is about; then, since what ends meanwhile must
 * not be missed, those that evidence may contradict or confirm. */
static enum hx_op_state state_after(enum hx_op_state state)
{
    switch (state) {
    case HX_OP_ABSENT:
        return HX_OP_FAILED;
    case HX_OP_FAILED:
        return HX_OP_CANCELLED;
    case HX_OP_CANCELLED:
        return HX_OP_SUCCEEDED;
    default:
        return HX_OP_STATE_COUNT;
    }
}

static void look_for_key(struct admin_ask *ask, int64_t after)
{
    struct hx_store_request *find = hx_store_request_new(HX_STORE_FIND, NULL);
    find->scan = true;
    find->scan_state = ask->state;
    find->scan_after = after;
    find->scan_limit = ROWS_AT_ONCE;
    (void)hx_gateway_look(ask->admin->options.gateway, find, rows_found, ask);
}

static void rows_found(void *context, const struct hx_store_request *found)
{
    struct admin_ask *ask = context;
    if (found->result != HX_STORE_DONE) {
        refuse(ask, 503, "LEDGER_UNAVAILABLE", found->error);
        return;
    }
    for (uint32_t i = 0; i < found->record_count; i++) {
        const struct hx_record *record = &found->records[i].record;
        if (hx_id_eq(&record->effect_key, &ask->effect_key)) {
            const struct hx_decision_target target = {.id = record->id};
            begin(ask, &target);
            return;
        }
    }
    if (found->ret_scan_next == 0)
        ask->state = state_after(ask->state);
    if (ask->state != HX_OP_STATE_COUNT)
        look_for_key(ask, found->ret_scan_next);
    else
        refuse(ask, 404, "NOT_FOUND",
               "No operation has this effect key; what became of an expired one is not known.");
}

void admin_evidence(struct admin_ask *ask)
{
    bool happened = false;
    const struct hx_json_tape *tape = &ask->admin->tape;
    uint32_t at = hx_json_member(tape, 0, HX_SPAN_LIT("happened"));
    struct hx_span key = admin_text(ask, "effect_key");
    if (hx_span_is_absent(key) || !hx_id_parse(key, &ask->effect_key) || at == HX_JSON_NONE ||
        !hx_json_bool(tape, at, &happened)) {
        refuse(ask, 400, "INVALID",
               "Evidence is \"effect_key\", as the tool got it, and \"happened\": true or false; "
               "with true perhaps \"result\".");
        return;
    }
    if (!read_note(ask))
        return;
    ask->decision = happened ? HX_EV_EVIDENCE : HX_EV_ABSENCE_PROVED;
    if (happened && !read_result(ask, HX_SPAN_LIT("\"It is known from elsewhere that this call "
                                                  "happened. Its own result was lost.\"")))
        return;
    ask->state = HX_OP_ABSENT;
    look_for_key(ask, 0);
}
