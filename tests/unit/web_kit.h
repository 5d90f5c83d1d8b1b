/* SPDX-License-Identifier: MIT */
/*
 * A server on loopback, its inbox, and clients made of bare sockets, all on one loop: while a
 * client waits for bytes, the server runs.
 */
#ifndef HX_TESTS_WEB_KIT_H
#define HX_TESTS_WEB_KIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "adapter/http_server/http_server.h"
#include "process_kit.h"

struct web_kit {
    struct process_kit process;
    struct hx_list inbox;
    struct hx_web *web;
    struct hx_http_server_options options;
    uint16_t port;
    bool is_echoing; /* answer every request with what it said, tag = its number */
    uint64_t requests;
    void (*on_turn)(void *arg); /* after each turn of the loop; NULL = nothing */
    void *on_turn_arg;
};

/* Short limits; `change` may alter them before the server is made. */
void web_kit_init(struct web_kit *kit, void (*change)(struct hx_http_server_options *options));
/* Asserts that no event is left untaken, except WRITTEN. */
void web_kit_fini(struct web_kit *kit);
/* One turn; with is_echoing it also answers. */
void web_kit_turn(struct web_kit *kit);
/* Waits for the next event of this type; others before it stay. The test owns it. */
struct hx_web_event *web_kit_take(struct web_kit *kit, enum hx_web_event_type type);
bool web_kit_has(const struct web_kit *kit, enum hx_web_event_type type);
void web_kit_expect_tag(struct web_kit *kit, enum hx_web_event_type type, uint64_t tag);
void web_kit_expect_gone(struct web_kit *kit, uint64_t exchange, enum hx_web_gone gone);
/* Takes a REQUEST for this path and gives its exchange. */
uint64_t web_kit_request(struct web_kit *kit, const char *path);
void web_kit_answer(struct web_kit *kit, uint64_t exchange, uint32_t status, const char *body,
                    uint64_t tag);
void web_kit_stream(struct web_kit *kit, uint64_t exchange);
void web_kit_event(struct web_kit *kit, uint64_t exchange, const char *text, uint64_t tag);
/* Waits until the server has so many connections. */
void web_kit_connections(struct web_kit *kit, uint32_t count);

int web_client(struct web_kit *kit);
void web_send(struct web_kit *kit, int fd, const char *bytes, size_t len);
void web_send_text(struct web_kit *kit, int fd, const char *text);
/* Appends what comes until `needle` stands in `got`; NULL: until the end. True unless that is a
 * reset. */
bool web_read(struct web_kit *kit, int fd, struct hx_buf *got, const char *needle);
/* Sends, reads to the end and compares the start of what came. Closes. */
void web_expect(struct web_kit *kit, const char *request, const char *answer_start);
void web_reset(int fd); /* closes with a reset */

#endif
