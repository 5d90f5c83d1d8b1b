/* SPDX-License-Identifier: MIT */
/*
 * Our own questions to a person, by elicitation to a client that waits: may this call run, what
 * became of it, is it meant at all? He answers by a word out of a list. Whatever else a client says
 * (it declines, it cannot, it answers something of its own) leaves the question open: a program
 * that declines everything must not decide anything.
 */
#include "engine/internal.h"

#include <stdio.h>

#include "engine/decide.h"

enum { ANSWER_WAIT_MS = 15 * 60 * 1000, LOOK_MS = 1000, SHOWN_MAX = 4096, WHO_SIZE = 300 };

/* ---- whom ---- */

static bool can_ask(const struct hx_session *session)
{
    return session->has_client && session->client.can_elicit_form && !session->is_gone &&
           !session->is_input_over && session->era->has_elicitation &&
           !session->options.server->options.never_asks_client;
}

/* The first of those who wait whose client can ask a person; NULL = none can. */
static struct hx_call *find_asker(struct hx_work *work)
{
    hx_list_for_each (node, &work->calls) {
        struct hx_call *call = hx_container_of(node, struct hx_call, node);
        if (can_ask(call->session))
            return call;
    }
    return NULL;
}

/* ---- the questions ---- */

static const char outcome_choices[] =
    "\"title\":\"What happened\",\"enum\":[\"happened\",\"again\",\"leave\"],\"enumNames\":["
    "\"It happened\",\"It did not happen: do it again\",\"Leave it open\"]";
static const char approval_choices[] =
    "\"title\":\"May this run?\",\"enum\":[\"approve\",\"deny\",\"leave\"],\"enumNames\":["
    "\"Yes, run it once\",\"No, never\",\"Decide later\"]";
static const char repeat_choices[] =
    "\"title\":\"Is a second one "
    "wanted?\",\"enum\":[\"again\",\"stored\",\"leave\"],\"enumNames\":["
    "\"Yes, do it again\",\"No, give the stored answer\",\"Refuse it\"]";
static const char fresh_key_choices[] =
    "\"title\":\"Run this one too?\",\"enum\":[\"again\",\"leave\"],\"enumNames\":["
    "\"Yes, run it too\",\"Refuse it\"]";

static void write_outcome_question(struct hx_buf *text, const struct hx_record *record)
{
    char id[HX_ID_TEXT_SIZE], when[HX_TIME_TEXT_SIZE];
    hx_id_format(&record->id, id);
    hx_wall_format(record->attempt.marked_at.wall, when);
    (void)hx_buf_printf(
        text,
        "The call of the tool \"%.*s\" was sent at %s and no answer came back, so it "
        "may or may not have happened (operation %s). What do you know?",
        HX_SPAN_FMT(record->tool), when, id);
}

/* Long arguments are shown by their beginning, and secrets not at all; the digest is of all of
 * them. */
static void write_arguments(struct hx_buf *text, const struct hx_redact_names *redact,
                            const struct hx_record *record)
{
    char digest[HX_DIGEST_HEX_SIZE];
    struct hx_buf redacted;
    hx_buf_init(&redacted, SIZE_MAX / 2);
    struct hx_span shown = hx_redact_shown(redact, record->arguments, &redacted);
    bool is_cut = shown.len > SHOWN_MAX;
    hx_digest_hex(&record->fingerprint, digest);
    if (is_cut) {
        shown.len = SHOWN_MAX;
        while (shown.len > 0 && ((unsigned char)shown.ptr[shown.len] & 0xc0) == 0x80)
            shown.len--; /* not in the middle of a character */
    }
    (void)hx_buf_printf(text, "Arguments%s: %.*s\nDigest of the arguments: sha256:%.16s",
                        is_cut ? " (beginning)" : "",
                        HX_SPAN_FMT(hx_span_is_absent(shown) ? HX_SPAN_LIT("none") : shown),
                        digest);
    hx_buf_fini(&redacted);
}

static void write_approval_question(struct hx_buf *text, const struct hx_redact_names *redact,
                                    const struct hx_record *record)
{
    char id[HX_ID_TEXT_SIZE];
    hx_id_format(&record->id, id);
    (void)hx_buf_printf(text,
                        "The tool \"%.*s\" of the server \"%.*s\" is to be called, as %.*s. It may "
                        "change something that cannot be taken back, so it runs only when a person "
                        "allows it (operation %s).\n",
                        HX_SPAN_FMT(record->tool), HX_SPAN_FMT(record->server),
                        HX_SPAN_FMT(record->principal), id);
    write_arguments(text, redact, record);
}

static void write_repeat_question(struct hx_buf *text, const struct hx_record *twin)
{
    char id[HX_ID_TEXT_SIZE], when[HX_TIME_TEXT_SIZE];
    hx_id_format(&twin->id, id);
    hx_wall_format(twin->settled.wall, when);
    (void)hx_buf_printf(
        text,
        "The same call of the tool \"%.*s\" was answered at %s (operation %s). Is a "
        "second one really wanted?",
        HX_SPAN_FMT(twin->tool), when, id);
}

static void write_fresh_key_question(struct hx_buf *text, const struct hx_record *twin)
{
    char id[HX_ID_TEXT_SIZE];
    hx_id_format(&twin->id, id);
    (void)hx_buf_printf(text,
                        "The same call of the tool \"%.*s\" was made under another key, and is %s "
                        "(operation %s): it may have happened, or may still. Shall this one run "
                        "too?",
                        HX_SPAN_FMT(twin->tool), hx_op_state_name(twin->state), id);
}

/* False: there is no memory for it, and nobody is asked. */
static bool send_question(struct hx_ask *ask, const struct hx_buf *text, const char *choices,
                          uint64_t exchange)
{
    struct hx_gateway *gateway = ask->session->gateway;
    struct hx_buf line;
    struct hx_json_writer writer;
    hx_buf_init(&line, gateway->options.message_max);
    hx_json_writer_init(&writer, &line);
    (void)hx_buf_append_cstr(&line, "{\"jsonrpc\":\"2.0\",\"id\":");
    (void)hx_buf_append_cstr(&line, ask->id_text);
    (void)hx_buf_append_cstr(&line, ",\"method\":\"elicitation/create\",\"params\":{\"message\":");
    hx_json_put_string(&writer, hx_buf_span(text));
    (void)hx_buf_printf(&line,
                        ",\"requestedSchema\":{\"type\":\"object\",\"properties\":{\"decision\":{"
                        "\"type\":\"string\",%s}},\"required\":[\"decision\"]}}}",
                        choices);
    bool is_sent = hx_buf_ok(text) && hx_send_ask(ask, &line, exchange);
    hx_buf_fini(&line);
    if (!is_sent)
        hx_ask_withdraw(ask);
    return is_sent;
}

/* ---- about an operation ---- */

/* A person may be away for long, and may answer even then. His client's call ends before. */
static void wait_for_person(struct hx_work *work)
{
    struct hx_gateway *gateway = work->gateway;
    hx_list_for_each (node, &work->calls)
        hx_timer_arm_sooner(&gateway->timers, &hx_container_of(node, struct hx_call, node)->wait,
                            hx_mono_after(gateway->now.mono, ANSWER_WAIT_MS));
}

static bool ask_about(struct hx_work *work, enum hx_ask_kind kind)
{
    struct hx_call *asker = work->was_asked ? NULL : find_asker(work);
    struct hx_buf text;
    if (work->ask == NULL && asker == NULL)
        return false;
    wait_for_person(work);
    if (work->ask != NULL)
        return true;
    struct hx_ask *ask = hx_ask_new(asker->session, kind);
    ask->work = work;
    ask->seen_attempt = work->op.durable.attempt.number;
    work->ask = ask;
    hx_buf_init(&text, (size_t)16 * 1024);
    if (kind == HX_ASK_OUTCOME)
        write_outcome_question(&text, &work->op.durable);
    else
        write_approval_question(&text, work->gateway->options.redact, &work->op.durable);
    bool is_asked =
        send_question(ask, &text, kind == HX_ASK_OUTCOME ? outcome_choices : approval_choices,
                      asker->request->exchange);
    hx_buf_fini(&text);
    return is_asked;
}

bool hx_ask_outcome(struct hx_work *work)
{
    return ask_about(work, HX_ASK_OUTCOME);
}

bool hx_ask_approval(struct hx_work *work)
{
    /* Whoever cannot see what it is cannot allow it. */
    bool is_seen = !hx_span_is_absent(work->op.durable.arguments);
    if (!is_seen && work->tool->rules.has_stored_arguments)
        is_seen = true; /* there were none */
    if (!is_seen || !ask_about(work, HX_ASK_APPROVAL))
        return false;
    /* An operator may decide meanwhile, in another process. */
    hx_timer_arm_sooner(&work->gateway->timers, &work->poll,
                        hx_mono_after(work->gateway->now.mono, LOOK_MS));
    return true;
}

/* ---- about a call that has none yet ---- */

bool hx_ask_about_repeat(struct hx_call *call, enum hx_ask_kind kind,
                         const struct hx_candidate *twin)
{
    struct hx_gateway *gateway = call->gateway;
    struct hx_buf text;
    if (!can_ask(call->session))
        return false;
    struct hx_ask *ask = hx_ask_new(call->session, kind);
    ask->call = call;
    call->ask = ask;
    hx_buf_init(&text, (size_t)16 * 1024);
    if (kind == HX_ASK_REPEAT)
        write_repeat_question(&text, twin->record);
    else
        write_fresh_key_question(&text, twin->record);
    bool is_asked =
        send_question(ask, &text, kind == HX_ASK_REPEAT ? repeat_choices : fresh_key_choices,
                      call->request->exchange);
    hx_buf_fini(&text);
    if (is_asked)
        hx_timer_arm(&gateway->timers, &call->wait,
                     hx_mono_after(gateway->now.mono, ANSWER_WAIT_MS));
    return is_asked;
}

/* ---- answers ---- */

/* The word in result.content.decision of an accepted form; absent for everything else. */
static struct hx_span decision_of(struct hx_gateway *gateway, const struct hx_rpc_msg *msg)
{
    struct hx_json_tape *tape = &gateway->scratch;
    struct hx_span decision;
    if (msg->kind != HX_RPC_RESULT || hx_json_read(tape, msg->result, &gateway->part_limits) != 0)
        return HX_SPAN_NONE;
    uint32_t action = hx_json_member(tape, 0, HX_SPAN_LIT("action"));
    uint32_t content = hx_json_member(tape, 0, HX_SPAN_LIT("content"));
    uint32_t value = hx_json_member(tape, content, HX_SPAN_LIT("decision"));
    if (action == HX_JSON_NONE || !hx_json_is_text(tape, action, HX_SPAN_LIT("accept")) ||
        !hx_json_is(tape, value, HX_JSON_STRING) ||
        hx_json_string(tape, value, &gateway->arena, &decision) != 0)
        return HX_SPAN_NONE;
    return decision;
}

static void name_person(const struct hx_session *session, char ret_who[WHO_SIZE])
{
    snprintf(ret_who, WHO_SIZE, "caller %.*s, by elicitation",
             HX_SPAN_FMT(session->options.principal));
}

/* `answer`: NULL when it was not about the operation itself. */
static void note_decision(struct hx_gateway *gateway, const struct hx_id *operation,
                          const char *who, const char *decision, const char *answer)
{
    const struct hx_decision_line line = {
        .at = gateway->now.wall, .who = who, .decision = decision, .answer = answer};
    struct hx_buf note;
    hx_buf_init(&note, HX_STORE_NOTE_MAX);
    if (hx_decision_line_write(&line, &note))
        hx_store_note(gateway, operation, hx_buf_span(&note));
    hx_buf_fini(&note);
}

/* The history is told when the core has said whether it counts: somebody else may have been faster,
 * and then it was not this person who decided. */
static void decide(struct hx_work *work, const struct hx_session *session, struct hx_event event)
{
    char who[WHO_SIZE];
    name_person(session, who);
    hx_free(work->decider);
    work->decider = hx_strdup(who);
    work->decision = event.type;
    hx_work_step(work, &event, NULL);
}

void hx_person_decided(struct hx_work *work, const struct hx_event *event, enum hx_answer answer)
{
    /* A verb that needs a write is answered when that has ended. */
    bool is_of_write = event->type == HX_EV_STORED || event->type == HX_EV_STALE ||
                       event->type == HX_EV_STORE_FAILED;
    enum hx_event_type verb = is_of_write ? work->verb.type : event->type;
    if (work->decider == NULL || verb != work->decision)
        return;
    char id[HX_ID_TEXT_SIZE];
    const struct hx_id *operation = &work->op.durable.id;
    hx_id_format(operation, id);
    hx_tell(work->gateway, HX_TELL_INFO, "decision", "operation=%s decision=%s answer=%s", id,
            hx_decision_name(verb), hx_answer_name(answer));
    note_decision(work->gateway, operation, work->decider, hx_decision_name(verb),
                  hx_answer_name(answer));
    work->decider = hx_free(work->decider);
}

/* Left open: whoever waits is told what the state says. */
static void leave_open(struct hx_work *work)
{
    hx_work_look_again_later(work); /* the question may be all that kept it in memory */
    hx_list_for_each_safe (node, &work->calls) {
        struct hx_event event = hx_work_make_event(work, HX_EV_WAIT_OVER);
        hx_work_step(work, &event, hx_container_of(node, struct hx_call, node));
    }
}

static void decided_outcome(struct hx_work *work, const struct hx_session *session,
                            uint32_t seen_attempt, struct hx_span decision)
{
    struct hx_event event;
    if (hx_span_eq_cstr(decision, "happened")) {
        event = hx_work_make_event(work, HX_EV_RESOLVE_HAPPENED);
        event.outcome = hx_outcome_confirmed(work->gateway);
    } else if (hx_span_eq_cstr(decision, "again")) {
        event = hx_work_make_event(work, HX_EV_RESOLVE_AGAIN);
        event.seen_attempt = seen_attempt;
    } else {
        leave_open(work);
        return;
    }
    decide(work, session, event);
}

static void decided_approval(struct hx_work *work, const struct hx_session *session,
                             struct hx_span decision)
{
    bool is_allowed = hx_span_eq_cstr(decision, "approve");
    if (!is_allowed && !hx_span_eq_cstr(decision, "deny")) {
        leave_open(work);
        return;
    }
    struct hx_event event = hx_work_make_event(work, is_allowed ? HX_EV_APPROVE : HX_EV_DENY);
    if (!is_allowed)
        event.reason = HX_REASON_DENIED;
    decide(work, session, event);
}

static void decided_repeat(struct hx_call *call, enum hx_ask_kind kind, struct hx_span decision)
{
    bool is_meant = hx_span_eq_cstr(decision, "again");
    bool is_repeat = kind == HX_ASK_REPEAT && hx_span_eq_cstr(decision, "stored");
    char who[WHO_SIZE];
    hx_timer_disarm(&call->gateway->timers, &call->wait);
    name_person(call->session, who);
    if (is_meant || is_repeat)
        note_decision(call->gateway, &call->suspected->record->id, who,
                      is_meant ? "an equal call is meant" : "an equal call is a repeat", NULL);
    if (is_meant)
        hx_intake_is_meant(call);
    else if (is_repeat)
        hx_intake_is_repeat(call);
    else
        hx_intake_is_not_meant(call);
}

void hx_person_answered(struct hx_ask *ask, const struct hx_rpc_msg *msg)
{
    struct hx_session *session = ask->session;
    struct hx_work *work = ask->work;
    struct hx_call *call = ask->call;
    enum hx_ask_kind kind = ask->kind;
    uint32_t seen_attempt = ask->seen_attempt;
    struct hx_span decision = decision_of(session->gateway, msg);
    hx_ask_withdraw(ask);
    if (call != NULL) {
        decided_repeat(call, kind, decision);
        return;
    }
    if (work == NULL)
        return;
    work->was_asked = true;
    if (kind == HX_ASK_OUTCOME)
        decided_outcome(work, session, seen_attempt, decision);
    else
        decided_approval(work, session, decision);
}

void hx_person_unasked(struct hx_ask *ask)
{
    struct hx_session *session = ask->session;
    struct hx_buf line, params;
    hx_buf_init(&line, 1024);
    hx_buf_init(&params, 256);
    (void)hx_buf_printf(&params, "{\"requestId\":%s,\"reason\":\"decided otherwise\"}",
                        ask->id_text);
    if (hx_rewrite_build_request(&line, HX_SPAN_NONE, HX_SPAN_LIT("notifications/cancelled"),
                                 hx_buf_span(&params)) == 0)
        (void)hx_send_aside(session, &line, 0);
    hx_buf_fini(&line);
    hx_buf_fini(&params);
    hx_ask_withdraw(ask);
}
