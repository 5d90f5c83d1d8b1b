/* SPDX-License-Identifier: MIT */
/*
 * A downstream that is the client's pair of pipes: requests come in through one descriptor, answers
 * go out through the other.
 *
 *     struct hx_stdio_front_options options = hx_stdio_front_defaults();
 *     options.in_fd = fds->in_fd;
 *     options.out_fd = fds->out_fd;
 *     options.life_fd = fds->life_fd;   // -1: nobody's life is watched
 *     struct hx_downstream *down = hx_stdio_front_new(loop, &inbox, &options);
 *     ... MESSAGE ... END_OF_INPUT ...
 *     down->ops->send(down, &line, 7);  // WRITTEN 7; perhaps TAKEN_BACK 7 later
 *     hx_stdio_front_free(down);
 *
 * What is worth knowing beyond port/peer.h:
 *
 * - A last line without its newline is delivered as a MESSAGE, then END_OF_INPUT.
 * - The order at the end is: the fates of what was not written, TAKEN_BACK for what was not read,
 *   then READER_GONE. On FRONT_GONE the program calls close().
 * - For a pipe TAKEN_BACK is exact: the kernel still tells how many bytes nobody read. For a socket
 *   the kernel says only *that* something was not read, so a message counts as read once a look at
 *   the socket's queue has shown it; the looks come 1, 2, 4 ... 64 ms after a write. A terminal or
 *   a file takes nothing back.
 * - What goes to a file or terminal is written as it is. Nothing is promised about who reads it.
 */
#ifndef HX_ADAPTER_STDIO_FRONT_H
#define HX_ADAPTER_STDIO_FRONT_H

#include <stddef.h>

#include "loop/loop.h"
#include "port/peer.h"

struct hx_stdio_front_options {
    int in_fd;   /* taken: closed by the adapter */
    int out_fd;  /* taken */
    int life_fd; /* taken; its end means that the front is dead */
    size_t message_max_bytes;
};

struct hx_stdio_front_options hx_stdio_front_defaults(void);

struct hx_downstream *hx_stdio_front_new(struct hx_loop *loop, struct hx_list *inbox,
                                         const struct hx_stdio_front_options *options);
/* Closes what is open; tells no fates. Accepts NULL. */
struct hx_downstream *hx_stdio_front_free(struct hx_downstream *downstream);

#endif
