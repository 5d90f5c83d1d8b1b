/* SPDX-License-Identifier: MIT */
/*
 * The three standard streams of one child process: what goes in, with a fate for each message, and
 * what comes out, as events. Knows nothing of processes.
 */
#ifndef HX_ADAPTER_STDIO_CHILD_STREAMS_H
#define HX_ADAPTER_STDIO_CHILD_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "adapter/stdio_child/stderr_log.h"
#include "loop/loop.h"
#include "loop/outgoing.h"
#include "port/peer.h"
#include "wire/lines.h"

struct hx_child_streams {
    struct hx_loop *loop;
    struct hx_upstream *upstream; /* whose events these are */
    uint32_t generation;          /* of the events */
    int input_fd;                 /* -1 = closed; our ends, none of which blocks */
    int output_fd;
    int error_fd;
    struct hx_loop_fd *input_watch;
    struct hx_loop_fd *output_watch;
    struct hx_loop_fd *error_watch;
    struct hx_loop_timer *stall_timer;
    int64_t stall_timeout_ms;
    uint64_t stalled_tag;
    bool is_stalled; /* stalled_tag was reported */
    struct hx_outgoing outgoing;
    struct hx_lines lines;
    struct hx_hasher *hasher;
    struct hx_stderr_log log;
    void (*output_ended)(void *arg); /* called once for each opening, not from the last drain */
    void *arg;
};

struct hx_child_streams_options {
    struct hx_upstream *upstream;
    size_t message_max_bytes;
    int64_t stall_timeout_ms;
    void (*output_ended)(void *arg);
    void *arg;
};

void hx_child_streams_init(struct hx_child_streams *streams, struct hx_loop *loop,
                           const struct hx_child_streams_options *options);
/* Closes what is open and tells no fates. */
void hx_child_streams_fini(struct hx_child_streams *streams);
/* Takes the descriptors. Standard error is read from now on, output only when wanted. */
void hx_child_streams_open(struct hx_child_streams *streams, uint32_t generation, int input_fd,
                           int output_fd, int error_fd);
void hx_child_streams_want_output(struct hx_child_streams *streams, bool is_wanted);
/* Takes the content of `line`. NOT_SENT at once when the input is closed. */
void hx_child_streams_send(struct hx_child_streams *streams, struct hx_buf *line, uint64_t tag);
/* The child sees the end of its input, and what did not leave has its fate. */
void hx_child_streams_close_input(struct hx_child_streams *streams);
/* Every writer is dead: reads what the pipes still hold, and closes everything. */
void hx_child_streams_finish(struct hx_child_streams *streams);

struct hx_peer_event *hx_child_streams_append(struct hx_child_streams *streams,
                                              enum hx_peer_event_type type, uint64_t tag);

#endif
