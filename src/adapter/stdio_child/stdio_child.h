/* SPDX-License-Identifier: MIT */
/*
 * An upstream that is a child process and speaks lines over its standard input and output.
 *
 *     struct hx_list inbox;
 *     hx_list_init(&inbox);
 *     struct hx_stdio_child_options options = hx_stdio_child_defaults();
 *     options.argv = argv;
 *     options.transport_dir = ledger_dir;
 *     struct hx_upstream *up = hx_stdio_child_new(loop, &inbox, &options);
 *     up->ops->start(up, 1);        // STARTED or CLOSED
 *     up->ops->send(up, &line, 7);  // FIRST_BYTE 7, WRITTEN 7 ... MESSAGE
 *     up->ops->stop(up);            // CLOSED; then start(up, 2), or:
 *     hx_stdio_child_free(up);
 *
 * The command is not our child: a reaper of our own stands between (see app/reaper.h), so that the
 * whole tree goes when we are killed. The calling process becomes a subreaper, for the case that
 * the reaper is killed. What is worth knowing beyond port/peer.h:
 *
 * - A last line without its newline is delivered as a MESSAGE: a whole answer in it is evidence.
 * - NOT_SENT while the process runs means that it closed its input. Its answers still come; stop it
 *   when nothing is in flight.
 * - The exit of the leader, or the end of its output, is the end of the transport: what is left in
 * the pipe is read (250 ms at most), then everything that still runs is ended, then CLOSED is sent.
 * - STALLED is sent once for a message. If the process reads on after all, WRITTEN follows.
 */
#ifndef HX_ADAPTER_STDIO_CHILD_H
#define HX_ADAPTER_STDIO_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loop/loop.h"
#include "port/peer.h"

struct hx_stdio_child_options {
    char *const *argv;      /* NULL-terminated, borrowed as long as the child lives */
    const char *const *env; /* "NAME=value" on top of ours, ended by NULL; NULL: none. Borrowed */
    const char *cwd;        /* borrowed; NULL: ours */
    const char *transport_dir; /* borrowed; NULL: no transport name, nobody else can ask */
    const char *reaper_path;   /* the program that has the reaper; the default is ourselves */
    size_t message_max_bytes;
    int64_t term_grace_ms; /* between the end of its input and TERM */
    int64_t kill_grace_ms; /* between TERM and KILL */
    int64_t stall_timeout_ms;
    bool allow_new_privs; /* setuid programs work */
};

struct hx_stdio_child_options hx_stdio_child_defaults(void);

struct hx_upstream *hx_stdio_child_new(struct hx_loop *loop, struct hx_list *inbox,
                                       const struct hx_stdio_child_options *options);
/* Before CLOSED this leaves the ending to the reaper, and tells no fates. Accepts NULL. */
struct hx_upstream *hx_stdio_child_free(struct hx_upstream *upstream);

#endif
