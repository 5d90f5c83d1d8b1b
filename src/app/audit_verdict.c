/* SPDX-License-Identifier: MIT */
/*
 * The order of the questions is the rule: an effect too many is a broken promise whatever else went
 * wrong in the trial, and "kept" is said last, of what was really done.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "app/audit.h"

static enum hx_audit_verdict say(enum hx_audit_verdict verdict, char *ret_reason,
                                 const char *format, ...) HX_PRINTF(3, 4);
static enum hx_audit_verdict say(enum hx_audit_verdict verdict, char *ret_reason,
                                 const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(ret_reason, HX_AUDIT_WORDS_MAX, format, args);
    va_end(args);
    return verdict;
}

static bool is_lied_to(const struct hx_audit_seen *seen)
{
    return (seen->told == HX_AUDIT_TOLD_ABSENT && seen->effects >= seen->wanted) ||
           (seen->told == HX_AUDIT_TOLD_DONE && seen->effects < seen->wanted);
}

/* The trial ran to its end. */
static enum hx_audit_verdict judge_staged(enum hx_audit_kind kind, const struct hx_audit_seen *seen,
                                          char *ret_reason)
{
    if (kind == HX_AUDIT_CONFLICT && seen->told == HX_AUDIT_TOLD_DONE)
        return say(HX_AUDIT_BROKEN, ret_reason,
                   "the second call was told that it is done; its arguments never ran");
    if (kind == HX_AUDIT_MEANT && seen->effects < seen->wanted)
        return say(HX_AUDIT_BROKEN, ret_reason,
                   "two calls that were meant became %" PRId64
                   " (if equal calls are one for this tool, say --idempotent)",
                   seen->effects);
    if (kind != HX_AUDIT_CONFLICT && is_lied_to(seen))
        return say(HX_AUDIT_BROKEN, ret_reason,
                   seen->told == HX_AUDIT_TOLD_DONE
                       ? "the caller was told that it is done, and it is not"
                       : "the caller was told that nothing happened, and it did");
    if (seen->effects < seen->wanted)
        return say(HX_AUDIT_NOT_SHOWN, ret_reason, "the tool did not act");
    if (seen->told == HX_AUDIT_TOLD_NOTHING)
        return say(HX_AUDIT_NOT_SHOWN, ret_reason, "the last caller got no answer: %s",
                   seen->words);
    return say(HX_AUDIT_KEPT, ret_reason, "%s", "");
}

enum hx_audit_verdict hx_audit_judge(enum hx_audit_kind kind, const struct hx_audit_seen *seen,
                                     char ret_reason[HX_AUDIT_WORDS_MAX])
{
    if (seen->does_not_apply || !seen->is_counted)
        return say(HX_AUDIT_NOT_SHOWN, ret_reason, "%s",
                   seen->problem[0] ? seen->problem : "the effects were not counted");
    /* Nothing disturbed the first call: what is wrong with its number is wrong with the command. */
    if (kind == HX_AUDIT_FIRST && seen->problem[0])
        return say(HX_AUDIT_NOT_SHOWN, ret_reason, "%s", seen->problem);
    if (kind == HX_AUDIT_FIRST && seen->effects != seen->wanted)
        return say(HX_AUDIT_NOT_SHOWN, ret_reason,
                   "one call raised the number that --count prints by %" PRId64 ", not by 1",
                   seen->effects);
    if (seen->effects > seen->wanted)
        return say(HX_AUDIT_BROKEN, ret_reason,
                   "acted %" PRId64 " times where %" PRId64 " was wanted", seen->effects,
                   seen->wanted);
    if (seen->problem[0])
        return say(HX_AUDIT_NOT_SHOWN, ret_reason, "%s", seen->problem);
    if (kind == HX_AUDIT_CUT && !seen->was_cut)
        return say(HX_AUDIT_NOT_SHOWN, ret_reason,
                   "the first call was answered before it could be cut");
    if (kind == HX_AUDIT_CUT && seen->must_have_acted && seen->effects_at_cut < 1)
        return say(HX_AUDIT_NOT_SHOWN, ret_reason,
                   "the tool had not acted yet when its answer was cut");
    return judge_staged(kind, seen, ret_reason);
}

const char *hx_audit_verdict_text(enum hx_audit_verdict verdict)
{
    switch (verdict) {
    case HX_AUDIT_KEPT:
        return "kept";
    case HX_AUDIT_BROKEN:
        return "broken";
    case HX_AUDIT_NOT_SHOWN:
        return "not shown";
    }
    return "";
}

int hx_audit_exit_status(const struct hx_audit_sum *sum, bool is_strict)
{
    if (sum->broken > 0)
        return HX_AUDIT_EXIT_BROKEN;
    /* One call that was answered is no evidence, so its own "kept" must not be the only one. */
    if (sum->missed > 0 || sum->kept < 2 || (is_strict && sum->inapplicable > 0))
        return HX_AUDIT_EXIT_NOT_SHOWN;
    return HX_AUDIT_EXIT_KEPT;
}
