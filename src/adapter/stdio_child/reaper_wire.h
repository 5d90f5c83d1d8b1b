/* SPDX-License-Identifier: MIT */
/*
 * What a keeper and its reaper say to each other. Both are the same binary, so there is no version.
 *
 * The reaper is started as `hapax reaper LOCK KILL_GRACE_MS PRIVILEGES -- CMD ARG...`: LOCK is a
 * path or
 * "-", PRIVILEGES is "keep" or "drop". Its descriptors 0, 1 and 2 are those of the command.
 */
#ifndef HX_ADAPTER_STDIO_CHILD_REAPER_WIRE_H
#define HX_ADAPTER_STDIO_CHILD_REAPER_WIRE_H

#include <stdint.h>

enum {
    HX_REAPER_CONTROL_FD = 3, /* commands in; its end means that the keeper is gone */
    HX_REAPER_REPORT_FD = 4,  /* reports out */
    HX_REAPER_FIRST_FREE_FD = 5
};

/* One byte each. */
enum hx_reaper_command {
    HX_REAPER_TERM = 'T', /* TERM now, KILL after the grace period */
    HX_REAPER_END = 'E',  /* the leader is gone: TERM now, KILL soon */
    HX_REAPER_KILL = 'K'  /* KILL now */
};

enum hx_reaper_report_type {
    HX_REAPER_STARTED = 1,   /* value: pid of the leader, which is also its process group */
    HX_REAPER_NOT_STARTED,   /* value: errno */
    HX_REAPER_LEADER_EXITED, /* value: wait status */
    HX_REAPER_ALL_GONE       /* the leader and every descendant are gone and reaped */
};

/* Written at once, so it never arrives in parts. */
struct hx_reaper_report {
    uint32_t type;
    int32_t value;
};

#endif
