/* SPDX-License-Identifier: MIT */
/*
 * One client and one server of the real engine, whose lines are the test's: what either says, and
 * what it was told last. The handshake with the server is answered here.
 *
 *     talk_kit_init(&talk, &options);
 *     talk_kit_begin(&talk);
 *     talk_kit_says(&talk, "{\"jsonrpc\":...");    // the client; then everything comes to rest
 *     talk_kit_asks(&talk, "\"tools/call\"");      // this is in the last request to the server
 *     talk_kit_answers(&talk, "\"result\":{}");    // the server, to that request
 *     talk_kit_hears(&talk, "\"result\"");         // this is in the last line to the client
 *     talk_kit_end(&talk);                         // killed; begin again: the next process
 *     talk_kit_fini(&talk);
 */
#ifndef HX_TESTS_TALK_KIT_H
#define HX_TESTS_TALK_KIT_H

#include "engine_kit.h"

enum { TALK_KIT_TEXT_MAX = 4096 };

struct talk_kit_options {
    /* Of every tool. */
    struct hx_tool_rules rules;
    const char *revision;  /* NULL: 2025-11-25. Borrowed. */
    const char *name;      /* of the server; NULL: s. Borrowed. */
    const char *principal; /* NULL: 1000. Borrowed. */
    int64_t target;        /* of the server */
    bool is_child;         /* the server is a process of ours, not somewhere else */
    bool is_run;           /* `hapax run`: the process has this one client and ends with it */
    /* What client and server say of themselves, as JSON; NULL: nothing. Borrowed. */
    const char *client_capabilities;
    const char *server_capabilities;
    /* The tools that the server lists, as a JSON array. Borrowed. */
    const char *tools;
};

struct talk_kit {
    struct engine_kit engine;
    struct talk_kit_options options;
    struct hx_list downstream_inbox; /* struct hx_peer_event */
    struct hx_server *server;        /* of the process that runs */
    struct hx_upstream upstream;
    struct hx_downstream downstream;
    uint32_t generation;
    bool is_mute;   /* the server answers no handshake; set it between */
    unsigned calls; /* tools/call that reached the server: effects */
    /* The last request to the server, and what it went under; empty once it is answered. */
    char asked[TALK_KIT_TEXT_MAX];
    uint64_t tag;
    /* The last request whose exchange was dropped, and that was told to give way; 0 = none. */
    uint64_t dropped;
    uint64_t gave_way;
    /* The last stream that was taken up: under this tag; 0 = none. */
    uint64_t taken_up;
    char told[TALK_KIT_TEXT_MAX];             /* the last line to the client */
    bool is_deaf;                             /* no line reaches the client */
    unsigned settled[HX_SETTLING_UNREAD + 1]; /* exchanges that got no line */
};

void talk_kit_init(struct talk_kit *talk, const struct talk_kit_options *options);
void talk_kit_fini(struct talk_kit *talk);

/* A process on the ledger, and a client that has listed the tools. */
void talk_kit_begin(struct talk_kit *talk);
void talk_kit_end(struct talk_kit *talk);

/* Time passes, and what is due is done. */
void talk_kit_waits(struct talk_kit *talk, int64_t ms);

void talk_kit_says(struct talk_kit *talk, const char *line);
/* On an exchange, as over HTTP. */
void talk_kit_says_on(struct talk_kit *talk, uint64_t exchange, const char *line);
/* `member`: "result": or "error": with its value. */
void talk_kit_answers(struct talk_kit *talk, const char *member);
/* What else the server's side can tell. It is not taken yet: set its other members, then turn. */
struct hx_peer_event *talk_kit_from_server(struct talk_kit *talk, enum hx_peer_event_type type,
                                           uint64_t tag, const char *text);

void talk_kit_asks(const struct talk_kit *talk, const char *part);
/* Empties `told`. */
void talk_kit_hears(struct talk_kit *talk, const char *part);

#endif
