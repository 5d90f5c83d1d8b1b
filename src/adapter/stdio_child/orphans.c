/* SPDX-License-Identifier: MIT */
#include "adapter/stdio_child/orphans.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adapter/stdio_child/process_table.h"
#include "base/assert.h"

/* Of the process, as its children are. */
static struct hx_list reapers = {&reapers, &reapers};
static bool has_others;

void hx_orphans_prepare(void)
{
    siginfo_t info;

    /* Fails on no kernel that we run on. */
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    if (hx_list_first(&reapers) != NULL)
        return;
    has_others = getpid() == 1 || waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 ||
                 errno != ECHILD;
}

void hx_orphans_watch(struct hx_reaper_watch *watch, pid_t reaper)
{
    *watch = (struct hx_reaper_watch){.pid = reaper};
    hx_list_append(&reapers, &watch->node);
}

void hx_orphans_unwatch(struct hx_reaper_watch *watch)
{
    if (watch->pid != 0)
        hx_list_unlink(&watch->node);
}

void hx_orphans_reap(struct hx_reaper_watch *watch)
{
    (void)waitpid(watch->pid, NULL, 0);
    hx_list_unlink(&watch->node);
}

static bool is_reaper(pid_t pid)
{
    hx_list_for_each (node, &reapers)
        if (hx_container_of(node, struct hx_reaper_watch, node)->pid == pid)
            return true;
    return false;
}

struct search {
    pid_t self;
    pid_t session;
    bool is_any_left;
};

static bool end_orphan(void *arg, const struct hx_process *process)
{
    struct search *search = arg;

    if (process->parent != search->self || is_reaper(process->pid) ||
        (has_others && process->session != search->session))
        return true;
    if (hx_process_is_running(process))
        (void)kill(process->pid, SIGKILL);
    /* What it leaves in turn is seen at the next look. */
    (void)waitpid(process->pid, NULL, WNOHANG);
    search->is_any_left = true;
    return true;
}

bool hx_orphans_end(const struct hx_reaper_watch *watch)
{
    struct search search = {.self = getpid(), .session = watch->pid};

    /* Where there is no such table, the group is all that can be ended. */
    if (hx_process_each(end_orphan, &search) != 0)
        return errno != ENOENT;
    return search.is_any_left;
}
