/* SPDX-License-Identifier: MIT */
/*
 * What "really cut" means: the call had left, its effect has been counted (or it is cut early on
 * purpose), and nobody has read an answer to it. An answer that lies unread in a pipe or a socket
 * does not matter to a client that was killed or had lost patience. It does where the *server* is
 * killed: an answer that it gave before was given, so its pipe is read to the end first, and an
 * answer in it means that the trial came too late.
 */
#include "app/audit_cut.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/audit_stage.h"
#include "app/audit_trial.h"
#include "app/offspring.h"

enum {
    PATIENCE_MS = 1000,
    EARLY_LEAST_MS = 200, /* an answer that comes sooner cannot be cut early */
    SIGNAL_MS = 20000,
    KILL_MS = 5000
};

/* ---- the first call, and its end ---- */

/* In a process of its own: calls, tells through the pipe that the call has left, and reads nothing
 * any more until it is killed. */
static _Noreturn void be_client(struct hx_audit_stage *stage, int told_fd, pid_t parent)
{
    char word = 'n';
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(1);
    if (hx_audit_connect(stage) && hx_audit_call(stage, 1, 1))
        word = stage->client.answers[1].is_there ? 'a' : 's';
    if (write(told_fd, &word, 1) == 1)
        for (;;)
            pause();
    _exit(1);
}

/* 0 when it could not be staged. */
static pid_t start_client(struct hx_audit_stage *stage)
{
    int fds[2];
    char word = 'n';
    pid_t self = getpid();
    if (pipe2(fds, O_CLOEXEC) != 0)
        return hx_audit_fail(stage, "no pipe could be made");
    pid_t pid = fork();
    if (pid == 0)
        be_client(stage, fds[1], self);
    close(fds[1]);
    struct pollfd told = {fds[0], POLLIN, 0};
    if (pid < 0 || poll(&told, 1, SIGNAL_MS) != 1 || read(fds[0], &word, 1) != 1)
        word = 'n';
    close(fds[0]);
    stage->sent = hx_mcp_now();
    stage->seen->calls += word != 'n'; /* counted in the other process */
    if (word == 's')
        return pid;
    if (pid > 0)
        (void)kill(pid, SIGKILL);
    hx_audit_fail(stage, word == 'a' ? "the first call was answered before it could be cut"
                                     : "the client that was to be killed could not make its call");
    return 0;
}

static bool wait_for_moment(struct hx_audit_stage *stage, const struct hx_audit_trial *trial)
{
    struct hx_audit_seen *seen = stage->seen;
    int64_t answer_ms = stage->plan->facts.answer_ms;
    if (trial->moment == HX_AUDIT_EARLY) {
        poll(NULL, 0, (int)(answer_ms / 4)); /* into the middle of the call */
    } else if (!hx_audit_look_for(stage, 1)) {
        return false;
    }
    seen->must_have_acted = trial->moment != HX_AUDIT_EARLY;
    seen->effects_at_cut = seen->effects;
    int64_t age_ms = hx_mono_since_ms(hx_mcp_now(), stage->sent);
    if (trial->moment == HX_AUDIT_LATE && age_ms < PATIENCE_MS)
        poll(NULL, 0, (int)(PATIENCE_MS - age_ms)); /* a client's patience */
    return true;
}

static bool refuse_answered(struct hx_audit_stage *stage, unsigned id)
{
    return !hx_audit_is_answered(stage, id) ||
           hx_audit_fail(stage, "the tool is too fast to be interrupted: its answer was there "
                                "first");
}

/* Nothing is read between the call and its cut, but a turn of the loop may have read on. */
static bool refuse_read(struct hx_audit_stage *stage, unsigned id)
{
    return !stage->client.answers[id].is_there ||
           hx_audit_fail(stage, "the tool is too fast to be interrupted: its answer was read "
                                "first");
}

/* Kills, then reads to the end what the killed ones had said. */
static bool kill_server(struct hx_audit_stage *stage, enum hx_audit_cut cut)
{
    pid_t pid = stage->client.pid;
    if (cut == HX_AUDIT_CUT_BEHIND && !refuse_answered(stage, 1))
        return false;
    if (cut == HX_AUDIT_CUT_SERVER && kill(pid, SIGKILL) != 0)
        return hx_audit_fail(stage, "the server's process could not be killed");
    if (cut == HX_AUDIT_CUT_TREE &&
        hx_offspring_kill_all(hx_mono_after(hx_mcp_now(), KILL_MS)) == 0)
        return hx_audit_fail(stage, "the server's processes could not be killed");
    if (cut == HX_AUDIT_CUT_BEHIND && hx_offspring_kill_leaves(pid) == 0) {
        stage->seen->does_not_apply = true;
        return hx_audit_fail(stage, "the server is one process; nothing stands behind it");
    }
    if (cut == HX_AUDIT_CUT_BEHIND)
        return true;
    /* Something that lives on may hold the pipe; then its end cannot be waited for. */
    (void)hx_mcp_client_wait_closed(&stage->client, hx_mono_after(hx_mcp_now(), KILL_MS / 5));
    return refuse_answered(stage, 1);
}

static bool cut(struct hx_audit_stage *stage, const struct hx_audit_trial *trial, pid_t client)
{
    switch (trial->cut) {
    case HX_AUDIT_CUT_NONE:
        return true;
    case HX_AUDIT_CUT_CANCEL:
        return refuse_read(stage, 1) && hx_audit_cancel(stage, 1);
    case HX_AUDIT_CUT_SILENT:
        return refuse_answered(stage, 1);
    case HX_AUDIT_CUT_CONNECTION:
        if (!refuse_read(stage, 1))
            return false;
        hx_mcp_client_give_up(&stage->client, 1);
        return true;
    case HX_AUDIT_CUT_CLIENT:
        return (kill(client, SIGKILL) == 0 && waitpid(client, NULL, 0) == client) ||
               hx_audit_fail(stage, "the client could not be killed");
    case HX_AUDIT_CUT_SERVER:
    case HX_AUDIT_CUT_TREE:
    case HX_AUDIT_CUT_BEHIND:
        return kill_server(stage, trial->cut);
    }
    return false;
}

/* ---- the retry ---- */

/* Through the connection that is left, or a new one. */
static bool repeat(struct hx_audit_stage *stage, const struct hx_audit_trial *trial)
{
    bool has_connection = trial->cut == HX_AUDIT_CUT_CANCEL || trial->cut == HX_AUDIT_CUT_SILENT ||
                          trial->cut == HX_AUDIT_CUT_CONNECTION;
    if (trial->cut == HX_AUDIT_CUT_BEHIND) {
        /* Its caller still listens, and repeats only what he is not told to be done. */
        hx_audit_listen(stage, 1);
        if (stage->seen->told == HX_AUDIT_TOLD_DONE)
            return hx_audit_fail(stage, "the first call got its result all the same");
        has_connection = !stage->client.is_closed;
    }
    if (!has_connection && !hx_audit_connect(stage))
        return false;
    unsigned id = has_connection ? 2 : 1;
    if (!hx_audit_call(stage, id, 1))
        return false;
    hx_audit_listen(stage, id);
    return true;
}

bool hx_audit_play_cut(struct hx_audit_stage *stage, const struct hx_audit_trial *trial)
{
    pid_t client = 0;
    int64_t answer_ms = stage->plan->facts.answer_ms;
    if (trial->moment == HX_AUDIT_EARLY && answer_ms < EARLY_LEAST_MS)
        return hx_audit_fail(stage,
                             "the tool answers after %lld ms, which is too fast to be "
                             "interrupted before that",
                             (long long)answer_ms);
    if (trial->cut == HX_AUDIT_CUT_CLIENT)
        client = start_client(stage);
    else if (!hx_audit_connect(stage) || !hx_audit_call(stage, 1, 1))
        return false;
    if (stage->seen->problem[0] || !wait_for_moment(stage, trial) || !cut(stage, trial, client))
        return false;
    stage->seen->was_cut = true;
    return repeat(stage, trial);
}
