/* SPDX-License-Identifier: MIT */
/*
 * `hapax ops resolve`, `cancel`, `approve` and `deny`: a person decides, and is told honestly what
 * came of it.
 */
#include "app/ops.h"

#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "adapter/neighbour_unix/socket.h"
#include "app/decide.h"
#include "app/ops_advice.h"
#include "app/ops_outcome.h"
#include "app/ops_text.h"
#include "app/verdict.h"
#include "base/fault.h"
#include "core/key.h"

static void name_operator(char *ret_who, size_t size)
{
    const struct passwd *user = getpwuid(getuid());
    snprintf(ret_who, size, "operator uid %lu%s%.64s%s", (unsigned long)getuid(), user ? " (" : "",
             user ? user->pw_name : "", user ? ")" : "");
}

/* --- by key --- */

static bool note_seen(void *context, const struct hx_store_found *found)
{
    (void)found;
    *(bool *)context = true;
    return false;
}

/* A cancel that comes before its call matches by name alone, so a slip in the name would cancel
 * nothing, and nobody would notice. */
static int warn_of_unknown_name(struct hx_ops *ops)
{
    bool is_seen = false;
    struct hx_inspect_filter filter = {.server = ops->options.server, .limit = 1};
    if (hx_inspect_list(ops->inspect, &filter, note_seen, &is_seen, NULL) < 0)
        return hx_ops_fault(ops, HX_EXIT_FAILED);
    if (!is_seen)
        fprintf(
            stderr,
            "hapax ops cancel: note: this ledger has no call of a server named '%s' yet. Its name "
            "is what --name of hapax run says; 'hapax ops list' shows those known.\n",
            ops->options.server);
    return 0;
}

static struct hx_record wanted_by_key(const struct hx_ops *ops)
{
    struct hx_record record = {
        .tenant = HX_SPAN_LIT("local"),
        .principal = hx_span_cstr(ops->principal),
        .server = hx_span_cstr(ops->options.server),
        .tool = hx_span_cstr(ops->options.tool),
        .key = hx_span_cstr(ops->options.key),
        .key_source = HX_KEY_META,
    };
    struct hx_hasher *hasher = hx_hasher_new();
    hx_decision_name_call(&record, hasher, ops->options.is_key_principal_scoped);
    hx_hasher_free(hasher);
    return record;
}

/* --- what is said --- */

struct last_decision {
    struct hx_buf *words;
};

static bool note_decision(void *context, const struct hx_history_line *line)
{
    struct last_decision *last = context;
    if (hx_ops_is_decision(line)) {
        char at[HX_TIME_TEXT_SIZE];
        hx_buf_reset(last->words);
        hx_ops_history_words(line, last->words);
        hx_ops_moment(line->at, at);
        (void)hx_buf_printf(last->words, " at %s", at);
    }
    return true;
}

/* Who decided before; nothing, when that cannot be read. In a new inspection: the store that
 * decided is closed, and what was decided stands, whatever becomes of this second look. */
static void read_last_decision(struct hx_ops *ops, int64_t row, struct hx_buf *ret_words)
{
    struct last_decision last = {ret_words};
    if (hx_inspect_open(&ops->store_options, &ops->inspect) < 0)
        return;
    if (hx_inspect_history(ops->inspect, row, note_decision, &last) < 0)
        hx_buf_reset(ret_words);
    hx_ops_close(ops);
}

/* Why a decision changed nothing. */
static void explain_refusal(struct hx_ops *ops, const struct hx_verdict *verdict,
                            struct hx_buf *ret_words)
{
    const struct hx_store_found *found = verdict->found;
    const struct hx_record *record = &found->record;
    bool is_waiting = record->state == HX_OP_UNKNOWN && !record->is_superseded &&
                      ops->options.decision == HX_EV_RESOLVE_ABSENT;
    if (is_waiting && hx_ops_absence_doubt(found, &ops->now, ret_words)) {
        (void)hx_buf_append_cstr(ret_words,
                                 ". If you know that it did not happen and will not, add --force");
        return;
    }
    struct hx_buf who;
    hx_buf_init(&who, 4096);
    if (hx_record_was_decided(record))
        read_last_decision(ops, found->rowid, &who);
    if (hx_record_was_decided(record) || verdict->is_overtaken)
        (void)hx_buf_printf(ret_words, "somebody decided first%s%.*s%s. ", who.len > 0 ? " (" : "",
                            HX_SPAN_FMT(hx_buf_span(&who)), who.len > 0 ? ")" : "");
    (void)hx_buf_printf(ret_words, "the operation is %s: %s", hx_op_state_name(record->state),
                        hx_ops_state_sentence(found));
    hx_buf_fini(&who);
}

static int say(struct hx_ops *ops, const struct hx_verdict *verdict, struct hx_buf *ret_words)
{
    if (verdict->answer != HX_ANSWER_NOT_APPLIED)
        return hx_verdict_say(ops->options.decision, verdict, ret_words) ? HX_EXIT_DONE
                                                                         : HX_EXIT_FAILED;
    (void)hx_buf_append_cstr(ret_words, "not applied: ");
    if (verdict->found != NULL)
        explain_refusal(ops, verdict, ret_words);
    return HX_EXIT_FAILED;
}

static int print_json(struct hx_ops *ops, const struct hx_verdict *verdict, struct hx_span words,
                      int status)
{
    struct hx_json_writer writer;
    struct hx_buf buf;
    hx_buf_init(&buf, 1024 * 1024);
    hx_json_writer_init(&writer, &buf);
    hx_verdict_put(&writer, ops->options.decision, verdict, words, &ops->now);
    bool is_printed = hx_ops_print_json(ops->out, &buf);
    hx_buf_fini(&buf);
    return is_printed ? status : hx_ops_fault(ops, HX_EXIT_FAILED);
}

static int report(struct hx_ops *ops, const struct hx_verdict *verdict)
{
    struct hx_buf words;
    char id[HX_ID_TEXT_SIZE];
    hx_buf_init(&words, 64 * 1024);
    hx_id_format(&verdict->id, id);
    int status = say(ops, verdict, &words);
    if (ops->options.is_json)
        status = print_json(ops, verdict, hx_buf_span(&words), status);
    else if (status == HX_EXIT_DONE)
        fprintf(ops->out, "%s: %.*s.\n", id, HX_SPAN_FMT(hx_buf_span(&words)));
    else
        (void)hx_ops_fail(ops, status, "%s: %.*s", id, HX_SPAN_FMT(hx_buf_span(&words)));
    if (verdict->is_note_lost)
        fputs("hapax ops: note: who decided this could not be written into the history.\n", stderr);
    hx_buf_fini(&words);
    return status;
}

/* --- the command --- */

static void tell_keeper(struct hx_neighbour_socket *own, const struct hx_id *keeper,
                        const struct hx_id *operation)
{
    struct hx_neighbour_message message = {
        .type = HX_NEIGHBOUR_SAYS_CHANGED, .from = own->self, .operation = *operation};
    if (!hx_id_is_nil(keeper) && !hx_id_eq(keeper, &own->self))
        (void)!hx_neighbour_socket_send(own, keeper, &message); /* he may be gone, or polls */
}

/* Those who work on the operation or wait for it look at it now instead of at their next poll. Only
 * a courtesy: without it they see the same, later. */
static void tell_keepers(const struct hx_ops *ops, const struct hx_decider *decider,
                         const struct hx_verdict *verdict)
{
    struct hx_neighbour_socket own;
    struct hx_id self = decider->store->ops->owner(decider->store);
    if (verdict->found == NULL || hx_neighbour_socket_open(&own, ops->transport_dir, &self) < 0)
        return;
    tell_keeper(&own, &verdict->owner_before, &verdict->id);
    if (!hx_id_eq(&verdict->found->record.holder, &verdict->owner_before))
        tell_keeper(&own, &verdict->found->record.holder, &verdict->id);
    hx_neighbour_socket_close(&own);
}

/* What can be wrong with the words is told before anything is decided. */
static int check_words(struct hx_ops *ops, const struct hx_decider *decider,
                       const struct hx_decision *decision)
{
    struct hx_buf note;
    struct hx_verdict verdict = {.answer = HX_ANSWER_CANCEL_IN_DOUBT}; /* the longest */
    hx_buf_init(&note, HX_STORE_NOTE_MAX);
    bool is_short = hx_decision_note(decider, decision, &verdict, &note);
    hx_buf_fini(&note);
    return is_short ? 0
                    : hx_ops_fail(ops, HX_EXIT_USAGE,
                                  "--note is too long; the history keeps about "
                                  "%d bytes",
                                  HX_STORE_NOTE_MAX - 256);
}

static int decide_by(struct hx_ops *ops, const struct hx_decision *decision, const struct hx_id *id,
                     struct hx_decider *decider)
{
    struct hx_verdict verdict;
    hx_ops_close(ops); /* two connections of one process would be in each other's way */
    if (hx_store_sqlite_open(&ops->store_options, &decider->store) < 0)
        return hx_ops_fault(ops, HX_EXIT_NO_LEDGER);
    int rc = 0;
    if (id != NULL) {
        rc = hx_decide(decider, id, decision, &verdict);
    } else {
        struct hx_record wanted = wanted_by_key(ops);
        rc = hx_decide_cancel(decider, &wanted, decision, &verdict);
    }
    if (rc == 0)
        tell_keepers(ops, decider, &verdict);
    decider->store->ops->close(decider->store);
    if (rc == HX_DECIDE_ABSENT)
        return hx_ops_fail(ops, HX_EXIT_ABSENT,
                           "the operation is gone; retention took it just now");
    int status = report(ops, &verdict);
    hx_verdict_fini(&verdict);
    return status;
}

int hx_ops_decide(struct hx_ops *ops)
{
    char who[128];
    struct hx_store_found found;
    name_operator(who, sizeof(who));
    struct hx_decider decider = {.clock = &ops->clock.clock, .rand = hx_rand_os(), .who = who};
    struct hx_decision decision = {
        .type = ops->options.decision,
        .is_forced = ops->options.is_forced,
        .words = hx_span_cstr(ops->options.note),
    };
    int status = check_words(ops, &decider, &decision);
    if (status != 0)
        return status;
    if (decision.type == HX_EV_RESOLVE_HAPPENED) {
        const char *flaw =
            hx_ops_outcome(hx_span_cstr(ops->options.result), &ops->arena, &decision.outcome);
        if (flaw != NULL)
            return hx_ops_fail(ops, HX_EXIT_USAGE, "--result: %s", flaw);
    }
    if (ops->options.id == NULL) {
        const char *flaw = hx_key_flaw(hx_span_cstr(ops->options.key));
        if (flaw != NULL)
            return hx_ops_fail(ops, HX_EXIT_USAGE, "--key: %s", flaw);
        status = warn_of_unknown_name(ops);
        return status != 0 ? status : decide_by(ops, &decision, NULL, &decider);
    }
    status = hx_ops_find(ops, &found);
    return status != 0 ? status : decide_by(ops, &decision, &found.record.id, &decider);
}
