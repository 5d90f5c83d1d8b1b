/* SPDX-License-Identifier: MIT */
/*
 * Many servers as one: the endpoint /mcp of `hapax serve`. One client speaks to an *outer*
 * downstream; behind it stands one inner downstream per server, a *leg*. Whoever knows sessions of
 * one client with one server (the engine) is given the legs and never sees the merge.
 *
 *     options.leg_inbox = the gateway's downstream inbox;
 *     options.outer_inbox = &merge_inbox;                 one list for all merges
 *     struct hx_merge *merge = hx_merge_new(&options, outer, legs, count);
 *     for each i: hx_session_new(gateway, {.server = ..., .downstream = hx_merge_leg(merge, i)});
 *                 where that is NULL: hx_merge_leg_over(merge, hx_merge_leg(merge, i));
 *     each turn:  hx_merge_take(&merge_inbox);            before the gateway's turn
 *     session_over of a leg:  hx_merge_leg_over(merge, leg);
 *     when hx_merge_is_over(merge): forget the outer downstream, hx_merge_free(merge)
 *
 * hx_merge_new turns the outer's events to `outer_inbox`; those that wait in its old inbox move.
 *
 * What the client sees:
 *
 *  - initialize goes to every server. The version that is agreed on is the oldest that one of them
 *    chose; what a server that chose a newer one has to say fits into it, since batches, the only
 *    thing that a revision took away, are cut up here. A server that chose a newer one than the
 *    client asked for is left out, unless all did. A server that cannot be started, or takes longer
 *    than `start_wait_ms`, is left out; the instructions say so, and when it comes, its lists
 *    "have changed". Asking for a list, or for something of it, tries a missing server again.
 *  - Tools and prompts have the server's prefix before their names. No prefix is the beginning of
 *    another, so a name says whose it is. A name that the prefix makes longer than 64 bytes, which
 *    is what clients take, ends in ten digits of its digest instead: the same ones at all times.
 *  - Lists come whole, as one page: servers in the order of `legs`, each in its own order. Servers
 *    that did not answer are named in `_meta["dev.hapax/leftOut"]`. A list that is too large is an
 *    error that says so.
 *  - Resources keep their URIs. One that several servers list is the first one's, and is listed
 *    once. One that nobody lists belongs to the template with the longest text before its first
 *    variable; if there is none, the servers are asked in order until one has it. A subscription to
 *    one of those goes to all.
 *  - Requests that no server can be found for: -32602 for a name, -32601 for a method. What MCP
 *    does not define goes to the server if there is only one. hapax/operations/... goes to the
 *    server that its tool or its `server` names, with the tool's own name; by an id alone all are
 *    asked; else it goes to the first. Tasks of servers are not offered here. Notifications that
 *    name no server go to all.
 *  - Arguments and results keep their bytes; of a message, only the name is replaced.
 *
 * Threads: everything here belongs to the loop thread.
 */
#ifndef HX_ADAPTER_MERGE_H
#define HX_ADAPTER_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loop/loop.h"
#include "port/peer.h"
#include "port/rand.h"

enum { HX_MERGE_LEGS_MAX = 1024 };

struct hx_merge_options {
    struct hx_list *leg_inbox;   /* where events of legs go */
    struct hx_list *outer_inbox; /* where events of the outer downstream are to come from */
    struct hx_rand *rand;
    struct hx_loop *loop;   /* NULL: a slow server is waited for without a limit */
    struct hx_span version; /* of this program; borrowed for as long as the merge */
    int64_t start_wait_ms;
    int64_t list_wait_ms; /* for the lists of all servers; who is silent is left out */
    size_t message_max_bytes;
    uint32_t requests_max;    /* open at a time */
    size_t request_bytes_max; /* of their messages, while they are kept here */
    uint32_t items_max;       /* of a merged list; its bytes are bounded by message_max_bytes */
    uint32_t pages_max;       /* of one server's list */
    uint32_t known_max;       /* URIs and shortened names that are remembered */
    /* A server is left out of an answer. `reason` is a sentence. May be NULL. */
    void (*left_out)(void *context, struct hx_span server, struct hx_span reason);
    void *context;
};

/* Everything but inboxes, rand and loop. */
struct hx_merge_options hx_merge_defaults(void);

struct hx_merge_leg_options {
    struct hx_span name;   /* of the server, for people */
    struct hx_span prefix; /* of its names: letters, digits, _ . - */
};

struct hx_merge;

/* Copies what it is given. No prefix may be the beginning of another one (hx_config_check). */
struct hx_merge *hx_merge_new(const struct hx_merge_options *options, struct hx_downstream *outer,
                              const struct hx_merge_leg_options *legs, size_t count);
/* Nobody may use the legs any more. Accepts NULL; returns NULL. */
struct hx_merge *hx_merge_free(struct hx_merge *merge);

struct hx_downstream *hx_merge_leg(struct hx_merge *merge, size_t index);
struct hx_downstream *hx_merge_outer(struct hx_merge *merge);
/* The merge that this leg belongs to; NULL: it is no leg. */
struct hx_merge *hx_merge_of_leg(struct hx_downstream *downstream);

/* For a client that goes on with a session of an earlier process, whose legs know what its
 * handshake was (hx_session_options.initialize). `revision` is what the ledger kept of it. */
void hx_merge_resume(struct hx_merge *merge, struct hx_span revision);

/* Takes one event of the outer downstream; the event stays the caller's. */
void hx_merge_event(struct hx_merge *merge, struct hx_peer_event *event);
/* Hands all events of `outer_inbox` to their merges and frees them. True when there were any. */
bool hx_merge_take(struct hx_list *outer_inbox);

/* The leg is used by nobody any more, or never was: no event of it is written from now on. */
void hx_merge_leg_over(struct hx_merge *merge, struct hx_downstream *leg);
/* What the legs' sessions call the message that the outer downstream knows by `tag`: one, several
 * (an array), or none. Returns how many. */
size_t hx_merge_tags_of(const struct hx_merge *merge, uint64_t tag, uint64_t *ret_tags, size_t max);
/* True when that was said of all legs. */
bool hx_merge_is_over(const struct hx_merge *merge);

#endif
