/* SPDX-License-Identifier: MIT */
/*
 * MCP's front on a real server, with clients made of bare sockets and a test that plays the engine:
 * it takes the events and calls the operations itself.
 */
#ifndef HX_TESTS_FRONT_KIT_H
#define HX_TESTS_FRONT_KIT_H

#include "adapter/http_front/http_front.h"
#include "web_kit.h"

struct front_kit {
    struct web_kit web;
    struct hx_list peers; /* inboxes */
    struct hx_list fronts;
    struct hx_clock clock;
    struct hx_rand rand;
    struct hx_http_front_options options;
    struct hx_http_front *front;
    struct hx_downstream *session; /* the last one that began or was adopted */
    char id[80];                   /* its id, from the answer to initialize */
    struct hx_buf got;             /* by front_kit_get and its like */
};

/* `change` may alter the options before the front is made. */
void front_kit_init(struct front_kit *kit, void (*change)(struct hx_http_front_options *options));
/* Asserts that no event is left, except WRITTEN. */
void front_kit_fini(struct front_kit *kit);

/* Waits for the next of this type; others before it stay. The test owns it. */
struct hx_peer_event *front_kit_take(struct front_kit *kit, enum hx_peer_event_type type);
struct hx_http_front_event *front_kit_take_front(struct front_kit *kit,
                                                 enum hx_http_front_event_type type);
bool front_kit_has(const struct front_kit *kit, enum hx_peer_event_type type);
void front_kit_expect_tag(struct front_kit *kit, enum hx_peer_event_type type, uint64_t tag);
void front_kit_expect_gone(struct front_kit *kit, uint64_t exchange);
/* Takes a MESSAGE, compares its line unless NULL, and gives its exchange. */
uint64_t front_kit_message(struct front_kit *kit, const char *line);
/* Turns until nothing is left to be taken, without waiting for anything. */
void front_kit_settle(struct front_kit *kit);

/* The engine's side, on kit->session. */
void front_kit_send(struct front_kit *kit, enum hx_sending_kind kind, uint64_t exchange,
                    const char *line, uint64_t tag);

/* The clients' side. A whole handshake: kit->session and kit->id are set. */
void front_kit_begin(struct front_kit *kit);
/* Opens a connection and sends a POST, GET or DELETE with the usual headers and the session's id.
 * `more`: further header lines, each with its CRLF. */
int front_kit_post(struct front_kit *kit, const char *more, const char *body);
int front_kit_get(struct front_kit *kit, const char *more);
int front_kit_delete(struct front_kit *kit);
void front_kit_post_on(struct front_kit *kit, int fd, const char *more, const char *body);
/* Reads into kit->got, which is emptied first, until `needle`. */
void front_kit_read(struct front_kit *kit, int fd, const char *needle);
/* The id of the last event in kit->got, into `ret_id`, of 128 bytes. */
void front_kit_last_id(const struct front_kit *kit, char *ret_id);

#endif
