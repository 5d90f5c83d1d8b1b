/* SPDX-License-Identifier: MIT */
/*
 * What a decision came to, in words for whoever made it.
 */
#include <string.h>

#include "engine/decide.h"
#include "json/writer.h"

bool hx_record_was_decided(const struct hx_record *record)
{
    switch (record->reason) {
    case HX_REASON_RESOLVED_BY_PERSON:
    case HX_REASON_SUPERSEDED:
    case HX_REASON_APPROVED:
    case HX_REASON_DENIED:
    case HX_REASON_CANCELLED_BY_CALLER:
    case HX_REASON_CANCELLED_BY_OPERATOR:
        return true;
    default:
        return false;
    }
}

static void say_done(enum hx_event_type decision, const struct hx_verdict *verdict,
                     struct hx_buf *ret_words)
{
    char successor[HX_ID_TEXT_SIZE] = "";
    const struct hx_store_found *found = verdict->found;
    if (found != NULL && !hx_id_is_nil(&found->record.successor))
        hx_id_format(&found->record.successor, successor);
    switch (decision) {
    case HX_EV_RESOLVE_HAPPENED:
        (void)hx_buf_append_cstr(ret_words, "it happened. Repeats of the call get that answer and "
                                            "run nothing");
        return;
    case HX_EV_RESOLVE_ABSENT:
        (void)hx_buf_append_cstr(ret_words,
                                 "it did not happen, and this call will not run any more");
        return;
    case HX_EV_RESOLVE_AGAIN:
        (void)hx_buf_printf(ret_words,
                            "do it again: the next repeat of the call runs it, once, as "
                            "operation %s",
                            successor);
        return;
    case HX_EV_APPROVE:
        (void)hx_buf_append_cstr(ret_words, "approved. The next repeat of the call runs it");
        return;
    case HX_EV_DENY:
        (void)hx_buf_append_cstr(ret_words, "denied. It never runs");
        return;
    case HX_EV_EVIDENCE:
        (void)hx_buf_append_cstr(ret_words, found != NULL && found->record.is_disputed
                                                ? "it contradicts what is recorded. The record "
                                                  "stands and is marked as disputed: a person "
                                                  "must look"
                                                : "it happened. Repeats of the call get that "
                                                  "answer and run nothing");
        return;
    case HX_EV_ABSENCE_PROVED:
        (void)hx_buf_append_cstr(ret_words, "it is proved that it did not happen");
        return;
    default:
        (void)hx_buf_printf(ret_words, "cancelled. %s",
                            verdict->state_before == HX_OP_ABSENT
                                ? "The call has not arrived yet; it will be refused when it does"
                                : "Nothing was sent, and nothing will be");
        return;
    }
}

/* For CANCEL of something that has ended. */
static bool say_ended(const struct hx_verdict *verdict, struct hx_buf *ret_words)
{
    switch (verdict->answer) {
    case HX_ANSWER_CANCELLED:
        (void)hx_buf_append_cstr(ret_words, "it is cancelled already");
        return true;
    case HX_ANSWER_FAILED:
        (void)hx_buf_printf(ret_words, "there is nothing to cancel: %s, and nothing will",
                            verdict->found != NULL &&
                                    hx_record_is_persons_word(&verdict->found->record)
                                ? "a person decided that it did not happen"
                                : "it is proven that nothing happened");
        return true;
    case HX_ANSWER_KEY_EXPIRED:
        (void)hx_buf_append_cstr(ret_words,
                                 "it is too late to cancel: the operation is too old, and "
                                 "what became of it is not recorded any more");
        return false;
    case HX_ANSWER_KEY_CONFLICT:
        (void)hx_buf_append_cstr(ret_words, "this key belongs to somebody else's call");
        return false;
    default:
        (void)hx_buf_append_cstr(ret_words, "it is too late to cancel: it has already happened");
        return false;
    }
}

/* The ledger's own sentence may have its full stop; ours gets one when it is printed. */
static void say_unavailable(const struct hx_verdict *verdict, struct hx_buf *ret_words)
{
    size_t len = strlen(verdict->error);
    if (len > 0 && verdict->error[len - 1] == '.')
        len--;
    const char *what = verdict->is_in_doubt
                           ? "it is not known whether this was written; look with hapax ops show"
                           : "not applied, nothing was written";
    (void)hx_buf_printf(ret_words, "%s: %.*s", what, (int)len, verdict->error);
}

static void say_in_doubt(const struct hx_verdict *verdict, struct hx_buf *ret_words)
{
    (void)hx_buf_append_cstr(ret_words,
                             verdict->found == NULL
                                 ? "in doubt: the ledger was restored from an older copy, which "
                                   "does not know this key, so its call may have run"
                                 : "in doubt: the call was sent, so it may have happened. That a "
                                   "cancel was requested is noted");
}

static void say_not_applied(const struct hx_verdict *verdict, struct hx_buf *ret_words)
{
    (void)hx_buf_append_cstr(ret_words, "not applied: ");
    if (verdict->is_overtaken ||
        (verdict->found != NULL && hx_record_was_decided(&verdict->found->record)))
        (void)hx_buf_append_cstr(ret_words, "somebody decided first. ");
    if (verdict->found != NULL && verdict->found->record.reason == HX_REASON_APPROVAL_EXPIRED)
        (void)hx_buf_append_cstr(ret_words, "nobody decided within 24 hours, so it never runs. ");
    if (verdict->found == NULL)
        (void)hx_buf_append_cstr(ret_words, "the operation could not be read again");
    else
        (void)hx_buf_printf(ret_words, "the operation is %s",
                            hx_op_state_name(verdict->found->record.state));
}

bool hx_verdict_say(enum hx_event_type decision, const struct hx_verdict *verdict,
                    struct hx_buf *ret_words)
{
    switch (verdict->answer) {
    case HX_ANSWER_DONE:
        say_done(decision, verdict, ret_words);
        return true;
    case HX_ANSWER_CANCEL_IN_DOUBT:
        say_in_doubt(verdict, ret_words);
        return false;
    case HX_ANSWER_NOT_APPLIED:
        say_not_applied(verdict, ret_words);
        return false;
    case HX_ANSWER_LEDGER_UNAVAILABLE:
        say_unavailable(verdict, ret_words);
        return false;
    default:
        return say_ended(verdict, ret_words);
    }
}

const char *hx_decision_name(enum hx_event_type type)
{
    switch (type) {
    case HX_EV_RESOLVE_HAPPENED:
        return "happened";
    case HX_EV_RESOLVE_ABSENT:
        return "absent";
    case HX_EV_RESOLVE_AGAIN:
        return "again";
    case HX_EV_CANCEL:
        return "cancel";
    case HX_EV_APPROVE:
        return "approve";
    case HX_EV_DENY:
        return "deny";
    default:
        return hx_event_name(type);
    }
}

bool hx_decision_line_write(const struct hx_decision_line *line, struct hx_buf *ret_note)
{
    struct hx_json_writer writer;
    hx_json_writer_init(&writer, ret_note);
    hx_json_open_object(&writer);
    hx_json_add_wall(&writer, "at", line->at);
    hx_json_add_cstr(&writer, "what", "decision");
    hx_json_add_cstr(&writer, "who", line->who);
    hx_json_add_cstr(&writer, "decision", line->decision);
    if (line->answer != NULL)
        hx_json_add_cstr(&writer, "answer", line->answer);
    if (line->is_forced) {
        hx_json_put_name(&writer, "forced");
        hx_json_put_bool(&writer, true);
    }
    if (!hx_span_is_absent(line->words))
        hx_json_add_string(&writer, "note", line->words);
    hx_json_close_object(&writer);
    return hx_buf_ok(ret_note);
}

bool hx_decision_note(const struct hx_decider *decider, const struct hx_decision *decision,
                      const struct hx_verdict *verdict, struct hx_buf *ret_note)
{
    const struct hx_decision_line line = {.at = hx_clock_now(decider->clock).wall,
                                          .who = decider->who,
                                          .decision = hx_decision_name(decision->type),
                                          .answer = hx_answer_name(verdict->answer),
                                          .words = decision->words,
                                          .is_forced = decision->is_forced};
    return hx_decision_line_write(&line, ret_note);
}
