/* SPDX-License-Identifier: MIT */
/*
 * A descriptor of our own, that does not block, for a stream that other processes share.
 */
#ifndef HX_ADAPTER_STDIO_FRONT_PRIVATE_FD_H
#define HX_ADAPTER_STDIO_FRONT_PRIVATE_FD_H

enum hx_fd_kind { HX_FD_PIPE, HX_FD_SOCKET, HX_FD_OTHER };

enum hx_fd_kind hx_fd_kind(int fd);

/* Takes `fd` and returns one to use in its place, close-on-exec. O_NONBLOCK belongs to the open
 * file and not to the descriptor, and a client's shell, or its terminal, may hold the same open
 * file; so pipes and terminals are opened anew. Sockets need no flag (see MSG_DONTWAIT), files
 * never block. */
int hx_private_fd(int fd);

#endif
