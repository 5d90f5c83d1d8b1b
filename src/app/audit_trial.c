/* SPDX-License-Identifier: MIT */
#include "app/audit_trial.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "app/audit_cut.h"
#include "app/audit_first.h"
#include "app/audit_stage.h"
#include "app/offspring.h"

enum { AT_ONCE = 8, EXIT_MS = 8000 };

/* ---- one key, and two intents ---- */

static void say_how_many(struct hx_audit_stage *stage, unsigned first_id, unsigned count)
{
    const struct hx_mcp_answer *answers = stage->client.answers;
    unsigned done = 0;
    unsigned same = 0;
    for (unsigned i = first_id; i < first_id + count; i++) {
        done += answers[i].is_there && !answers[i].is_error;
        same += answers[i].is_there && strcmp(answers[i].text, answers[first_id].text) == 0;
    }
    if (done == count)
        snprintf(stage->seen->words, sizeof(stage->seen->words), "%s",
                 same == count ? "all the same result" : "results, not all the same");
    else
        snprintf(stage->seen->words, sizeof(stage->seen->words), "%u results, %u errors", done,
                 count - done);
}

/* Each answer is read before the next call. */
static bool call_and_listen(struct hx_audit_stage *stage, unsigned id)
{
    if (!hx_audit_call(stage, id, 1))
        return false;
    hx_audit_listen(stage, id);
    return stage->seen->told != HX_AUDIT_TOLD_NOTHING ||
           hx_audit_fail(stage, "a call got no answer: %.100s", stage->seen->words);
}

static bool listen_to_all(struct hx_audit_stage *stage, unsigned first_id, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        hx_audit_listen(stage, first_id + i);
        if (stage->seen->told == HX_AUDIT_TOLD_NOTHING)
            return hx_audit_fail(stage, "call %u of %u got no answer: %.80s", i + 1, count,
                                 stage->seen->words);
    }
    say_how_many(stage, first_id, count);
    return true;
}

static bool play_key_in_turn(struct hx_audit_stage *stage, const struct hx_audit_trial *trial)
{
    (void)trial;
    char first[HX_MCP_TEXT_MAX];
    if (!hx_audit_connect(stage) || !call_and_listen(stage, 1))
        return false;
    snprintf(first, sizeof(first), "%s", stage->client.answers[1].text);
    if (!call_and_listen(stage, 2) || !hx_audit_connect(stage) || !call_and_listen(stage, 1))
        return false;
    if (stage->seen->told == HX_AUDIT_TOLD_DONE)
        snprintf(stage->seen->words, sizeof(stage->seen->words), "%s",
                 strcmp(first, stage->client.answers[1].text) == 0 ? "the first answer again"
                                                                   : "another answer");
    return true;
}

static bool play_at_once(struct hx_audit_stage *stage, const struct hx_audit_trial *trial)
{
    unsigned count = trial->kind == HX_AUDIT_KEYS ? AT_ONCE : 2;
    return hx_audit_connect(stage) && hx_audit_call(stage, 1, count) &&
           listen_to_all(stage, 1, count);
}

static bool play_conflict(struct hx_audit_stage *stage, const struct hx_audit_trial *trial)
{
    (void)trial;
    if (!hx_audit_connect(stage) || !call_and_listen(stage, 1))
        return false;
    if (stage->seen->told != HX_AUDIT_TOLD_DONE)
        return hx_audit_fail(stage, "the first call got no result: %.100s", stage->seen->words);
    hx_audit_other_arguments(stage);
    return call_and_listen(stage, 2);
}

static bool play_in_turn(struct hx_audit_stage *stage, const struct hx_audit_trial *trial)
{
    if (!hx_audit_connect(stage) || !call_and_listen(stage, 1))
        return false;
    if (trial->has_key)
        stage->key = stage->keys[1];
    if (!call_and_listen(stage, 2))
        return false;
    say_how_many(stage, 1, 2);
    return true;
}

/* ---- the table ---- */

/* A retry after a cut, without a key and with one. */
#define CUT(name, title, cut, moment, where)                                                       \
    {name, title, HX_AUDIT_CUT, cut, moment, where, false, 1, hx_audit_play_cut},                  \
    {                                                                                              \
        name "+key", title " (key)", HX_AUDIT_CUT, cut, moment, where, true, 1, hx_audit_play_cut  \
    }
/* Nothing is cut. */
#define UNCUT(name, title, kind, has_key, wanted, play)                                            \
    {                                                                                              \
        name, title, kind, HX_AUDIT_CUT_NONE, HX_AUDIT_ACTED, HX_AUDIT_ANYWHERE, has_key, wanted,  \
            play                                                                                   \
    }

/* clang-format off */
static const struct hx_audit_trial trials[] = {
    UNCUT("answered", "one call, answered", HX_AUDIT_FIRST, false, 1, hx_audit_play_first),
    CUT("cancel", "timeout, cancel, retry",
        HX_AUDIT_CUT_CANCEL, HX_AUDIT_ACTED, HX_AUDIT_ANYWHERE),
    CUT("early", "early timeout, cancel, retry",
        HX_AUDIT_CUT_CANCEL, HX_AUDIT_EARLY, HX_AUDIT_ANYWHERE),
    CUT("silent", "timeout, no cancel, retry",
        HX_AUDIT_CUT_SILENT, HX_AUDIT_LATE, HX_AUDIT_ANYWHERE),
    CUT("connection-cut", "connection cut, retry in its session",
        HX_AUDIT_CUT_CONNECTION, HX_AUDIT_ACTED, HX_AUDIT_HTTP),
    CUT("client-killed", "client killed, retry of a new one",
        HX_AUDIT_CUT_CLIENT, HX_AUDIT_ACTED, HX_AUDIT_ANYWHERE),
    CUT("server-killed", "server killed, retry",
        HX_AUDIT_CUT_SERVER, HX_AUDIT_ACTED, HX_AUDIT_STDIO),
    CUT("tree-killed", "server and all behind it killed, retry",
        HX_AUDIT_CUT_TREE, HX_AUDIT_ACTED, HX_AUDIT_STDIO),
    CUT("behind-killed", "what is behind it killed, retry",
        HX_AUDIT_CUT_BEHIND, HX_AUDIT_ACTED, HX_AUDIT_STDIO),
    UNCUT("key-in-turn", "one key: again, and after a reconnect", HX_AUDIT_KEYS, true, 1,
          play_key_in_turn),
    UNCUT("key-at-once", "one key, 8 calls at once", HX_AUDIT_KEYS, true, 1, play_at_once),
    UNCUT("key-conflict", "one key, other arguments", HX_AUDIT_CONFLICT, true, 1, play_conflict),
    UNCUT("two-keys", "two meant, each its key", HX_AUDIT_MEANT, true, 2, play_in_turn),
    UNCUT("two-in-turn", "two meant, in turn", HX_AUDIT_MEANT, false, 2, play_in_turn),
    UNCUT("two-at-once", "two meant, at once", HX_AUDIT_MEANT, false, 2, play_at_once),
};
/* clang-format on */

_Static_assert(sizeof(trials) / sizeof(trials[0]) <= HX_AUDIT_TRIALS_MAX, "each has a place");

size_t hx_audit_trial_count(void)
{
    return sizeof(trials) / sizeof(trials[0]);
}

const struct hx_audit_trial *hx_audit_trial(size_t index)
{
    hx_assert(index < hx_audit_trial_count());
    return &trials[index];
}

const char *hx_audit_trial_refusal(const struct hx_audit_trial *trial,
                                   const struct hx_audit_plan *plan)
{
    if (trial->has_key && !plan->has_key)
        return "the server advertises no idempotency; --key PLACE says where it takes a key";
    if (trial->where == HX_AUDIT_STDIO && plan->command == NULL)
        return "a server at a URL cannot be killed from here";
    if (trial->where == HX_AUDIT_HTTP && plan->url == NULL)
        return "a pipe has no connection beside its process";
    if (trial->kind == HX_AUDIT_MEANT && plan->is_idempotent)
        return "two equal calls of an idempotent tool are one";
    return NULL;
}

void hx_audit_trial_play(const struct hx_audit_plan *plan, struct hx_audit_seen *seen)
{
    struct hx_audit_stage *stage = &(struct hx_audit_stage){.plan = plan, .seen = seen};
    const struct hx_audit_trial *trial = hx_audit_trial(seen->trial);
    struct hx_mono start = hx_mcp_now();
    seen->wanted = trial->wanted;
    signal(SIGPIPE, SIG_IGN); /* writing to a killed server is part of the play */
    if (!hx_offspring_adopt()) {
        hx_audit_fail(stage, "orphans cannot be adopted");
    } else if (hx_audit_begin(stage)) {
        stage->key = trial->has_key ? stage->keys[0] : NULL;
        (void)trial->play(stage, trial); /* what went wrong stands in seen->problem */
        /* Also of a trial that went wrong: an effect too many is told in any case. */
        char problem[HX_AUDIT_WORDS_MAX];
        memcpy(problem, seen->problem, sizeof(problem));
        if (seen->calls > 0)
            (void)hx_audit_settle(stage);
        if (problem[0])
            memcpy(seen->problem, problem, sizeof(problem));
    }
    hx_mcp_client_stop(&stage->client);
    seen->left_behind = hx_offspring_end(hx_mono_after(hx_mcp_now(), EXIT_MS));
    seen->elapsed_ms = hx_mono_since_ms(hx_mcp_now(), start);
}
