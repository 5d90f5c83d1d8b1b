/* SPDX-License-Identifier: MIT */
/*
 * The socket of a neighbour, and the one message that goes through it.
 */
#ifndef HX_ADAPTER_NEIGHBOUR_UNIX_SOCKET_H
#define HX_ADAPTER_NEIGHBOUR_UNIX_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/id.h"

enum hx_neighbour_message_type {
    HX_NEIGHBOUR_SAYS_ASK = 1,
    HX_NEIGHBOUR_SAYS_ANSWER,
    HX_NEIGHBOUR_SAYS_WATCH,
    HX_NEIGHBOUR_SAYS_CHANGED,
    HX_NEIGHBOUR_SAYS_STOP
};

struct hx_neighbour_message {
    enum hx_neighbour_message_type type;
    bool is_live;      /* ANSWER */
    uint64_t sequence; /* ASK, and its ANSWER */
    struct hx_id from;
    struct hx_id operation;
};

struct hx_neighbour_socket {
    int dir_fd;
    int fd;
    struct hx_id self;
};

int hx_neighbour_socket_open(struct hx_neighbour_socket *own, const char *dir,
                             const struct hx_id *self) HX_MUST_CHECK;
void hx_neighbour_socket_close(struct hx_neighbour_socket *own);

enum {
    HX_NEIGHBOUR_BUSY = 1, /* its queue is full, or memory is short */
    HX_NEIGHBOUR_DEAD = 2  /* nobody has the socket open */
};

/* 0 or one of the above. */
int hx_neighbour_socket_send(const struct hx_neighbour_socket *own, const struct hx_id *to,
                             const struct hx_neighbour_message *message) HX_MUST_CHECK;

enum {
    HX_NEIGHBOUR_EMPTY = 1,  /* nothing waits */
    HX_NEIGHBOUR_GARBAGE = 2 /* something that no neighbour says */
};

/* 0 or one of the above. Never waits. */
int hx_neighbour_socket_receive(const struct hx_neighbour_socket *own,
                                struct hx_neighbour_message *ret_message) HX_MUST_CHECK;

#endif
