/* SPDX-License-Identifier: MIT */
/*
 * Messages on their way out through one descriptor, in order, each with a fate of its own.
 *
 * Whether a request can have acted is decided by what the kernel took of it, so this is told
 * exactly and per message: the first byte, the last byte, nothing at all, or something in between.
 */
#ifndef HX_LOOP_OUTGOING_H
#define HX_LOOP_OUTGOING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/assert.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/span.h"

enum hx_outgoing_fate {
    HX_OUTGOING_FIRST_BYTE, /* at least one byte was taken; a final fate follows */
    HX_OUTGOING_WRITTEN,    /* all of it, newline included */
    HX_OUTGOING_NOT_SENT,   /* not one byte */
    HX_OUTGOING_CUT         /* some, or all but the newline */
};

struct hx_outgoing {
    struct hx_list messages; /* oldest first; only the first can be half written */
    uint64_t queued_bytes;   /* newlines included */
    uint64_t written_bytes;  /* since init */
    bool is_socket;
    bool is_share_used; /* BLOCKED was returned for that alone: the kernel would take more */
    int broken_errno;   /* why BROKEN was returned */
    /* Instead of the kernel, when set: writes like writev(), with EAGAIN, and never blocks. The
     * same bytes are offered again until they are taken, perhaps with more behind them. */
    ssize_t (*write)(void *arg, const struct iovec *parts, size_t count);
    void *write_arg;
    void (*fate)(void *arg, uint64_t tag, enum hx_outgoing_fate fate);
    void *arg;
};

enum {
    HX_OUTGOING_BLOCKED =
        1, /* the kernel takes no more now, or enough for one turn: wait for WRITE */
    HX_OUTGOING_BROKEN = 2 /* nobody reads: abandon */
};

/* `fate` must not change the queue. */
void hx_outgoing_init(struct hx_outgoing *out, bool is_socket,
                      void (*fate)(void *arg, uint64_t tag, enum hx_outgoing_fate fate), void *arg);
/* Frees what is left without telling a fate; abandon first when somebody waits for one. */
void hx_outgoing_fini(struct hx_outgoing *out);
/* Takes the content of `line`, which is empty afterwards; a newline is added. */
void hx_outgoing_add(struct hx_outgoing *out, struct hx_buf *line, uint64_t tag);
/* A message of three parts: takes the content of `prefix` and `body`, each of which may be NULL;
 * `suffix` lives as long as the queue. Not empty altogether. */
void hx_outgoing_add_parts(struct hx_outgoing *out, struct hx_buf *prefix, struct hx_buf *body,
                           struct hx_span suffix, uint64_t tag);
/* 0 when everything is written, else one of the two above. `fd` must not block, unless it is a
 * socket (which is never waited for). */
int hx_outgoing_write(struct hx_outgoing *out, int fd) HX_MUST_CHECK;
/* Every message gets NOT_SENT or CUT. */
void hx_outgoing_abandon(struct hx_outgoing *out);
bool hx_outgoing_is_empty(const struct hx_outgoing *out);
/* True when the first message is half written; then *ret_tag names it. */
bool hx_outgoing_is_cut_now(const struct hx_outgoing *out, uint64_t *ret_tag);

#endif
