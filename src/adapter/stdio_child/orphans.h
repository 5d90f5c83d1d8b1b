/* SPDX-License-Identifier: MIT */
/*
 * What a killed reaper leaves behind. Its children become ours at that moment, those that left the
 * group and the session too, and what they leave becomes ours in turn. Nobody but us can reap a
 * child of ours, so its pid is its own until we do: only children are ever signalled.
 *
 * Of a child of the keeper it must be told whether it came from there:
 *
 * - One in the session of the dead reaper did: no such session is given away while one is in it.
 * - Where nothing but reapers of ours can be a child of this process, everything else that is one
 *   came from a dead reaper.
 * - Where others can (we are the init of a container, or had children before our first server, of
 *   a shell that became us), only the session counts, and who left that lives on.
 *
 * All of it for one thread.
 */
#ifndef HX_ADAPTER_STDIO_CHILD_ORPHANS_H
#define HX_ADAPTER_STDIO_CHILD_ORPHANS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/list.h"

/* One reaper of ours. */
struct hx_reaper_watch {
    struct hx_list node; /* while it is not reaped itself */
    pid_t pid;
};

/* Before the first reaper is started. Makes the process adopt what a reaper leaves. */
void hx_orphans_prepare(void);
/* A reaper was started. */
void hx_orphans_watch(struct hx_reaper_watch *watch, pid_t reaper);
/* It has ended: reaps it, and does not wait for that. */
void hx_orphans_reap(struct hx_reaper_watch *watch);
/* The memory of the watch goes. */
void hx_orphans_unwatch(struct hx_reaper_watch *watch);
/* Ends what the reaper, which is reaped, left to us, and reaps what has ended. True while some of
 * it may be left; then it is called again. */
bool hx_orphans_end(const struct hx_reaper_watch *watch);

#endif
