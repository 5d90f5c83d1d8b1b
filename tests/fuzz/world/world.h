/* SPDX-License-Identifier: MIT */
/*
 * A whole session for the fuzzers: the real gateway with the ledger in memory and a clock that
 * stands still until it is moved, between a client and a tool server that say what an input tells
 * them to.
 *
 * An input is a text of commands, one letter each with a fixed number of characters behind it; raw
 * bytes reach to the end of the line. So a corpus can be read, and any change to it is an input
 * again: script.c has the list. When it is used up the faults stop: the server answers what it
 * owes, the client what it is asked, time passes, and everything must come to rest.
 *
 *   door      one client at the gateway: pipes, or a session over HTTP whose messages are exchanges
 *   request   one request of a client, as long as it is owed an answer, and after
 *   way       one of the gateway's ways to the server: a child, or a session over HTTP
 *   owed      one request that the server got and has not answered
 *   shadow    what the checks remember of one row of the ledger
 *
 * judge.c holds what must be true. Nothing in here is random; the same input gives the same
 * history.
 */
#ifndef HX_FUZZ_WORLD_H
#define HX_FUZZ_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "adapter/store_memory/store_memory.h"
#include "base/buf.h"
#include "base/list.h"
#include "engine/gateway.h"
#include "wire/jsonrpc.h"
#include "wire/lines.h"
#include "json/reader.h"

enum {
    WORLD_MESSAGE_MAX = 4096,
    WORLD_TEXT_MAX = 6144, /* of one message that is made here */
    WORLD_RESULT_MAX = 512,
    WORLD_REQUESTS_MAX = 48, /* of one door; more are not sent */
    WORLD_DOORS_MAX = 6,     /* in one history */
    WORLD_LIVES_MAX = 4,
    WORLD_ROWS_MAX = 128,
    WORLD_SENDS_MAX = 256
};

/* ---- the client's side ---- */

struct world_request {
    struct hx_list node; /* door->requests */
    struct hx_buf id_key;
    char raw_id[64]; /* empty = too long to be named again */
    struct hx_buf line;
    unsigned arrivals;
    unsigned answers;
    uint64_t exchange; /* the latest; 0 = pipes */
    bool is_initialize;
    bool is_guarded; /* a tools/call that the ledger knows of */
    bool is_cancelled;
    bool was_open_at_cancel; /* so that nothing may be answered any more */
    bool is_let_go;          /* its exchange is gone, or it stood in a batch that may be refused */
};

/* A line to the client that is not written yet, or not read. */
struct world_unread {
    struct hx_list node;
    uint64_t tag;
    uint64_t exchange;
    bool is_written;
};

enum world_exchange_state { WORLD_EXCHANGE_OPEN, WORLD_EXCHANGE_ENDED, WORLD_EXCHANGE_GONE };

struct world_exchange {
    struct hx_list node; /* door->exchanges */
    uint64_t number;
    enum world_exchange_state state;
    char name[24];
};

/* What the gateway asked of a client. */
struct world_question {
    struct hx_list node;
    char raw_id[64];
};

struct world_door {
    struct hx_list node; /* world->doors */
    struct world *world;
    unsigned number; /* from 1 */
    struct hx_downstream downstream;
    struct hx_session *session;
    struct hx_lines lines; /* pipes: what of a line has come */
    struct hx_list requests;
    unsigned request_count;
    struct hx_list unread;
    struct hx_list exchanges;
    struct hx_list questions;
    unsigned faults_owed; /* answers without an id that may come */
    bool is_input_over;
    bool is_closed; /* nothing is read any more */
    bool is_over;   /* the gateway has freed its session */
    bool was_cut;   /* with its gateway */
};

/* ---- the server's side ---- */

enum world_method {
    WORLD_INITIALIZE,
    WORLD_CALL,
    WORLD_LIST,
    WORLD_TASK_GET,
    WORLD_TASK_RESULT,
    WORLD_OTHER
};

struct world_owed {
    struct hx_list node; /* way->owed */
    uint64_t tag;
    uint32_t generation;
    char raw_id[24];
    char token[80]; /* of progress; empty = none */
    enum world_method method;
    int send; /* index of the send that it is, or -1 */
};

enum world_way_state { WORLD_WAY_DOWN, WORLD_WAY_STARTING, WORLD_WAY_RUNNING, WORLD_WAY_ENDING };

struct world_way {
    struct hx_list node; /* world->ways */
    struct world *world;
    struct hx_upstream upstream;
    enum world_way_state state;
    uint32_t generation;
    char name[24];
    struct hx_lines lines;
    struct hx_list owed;
    bool is_input_closed;
    bool is_stalled;
    bool is_lost; /* over HTTP: the server has forgotten the session */
    uint64_t stalled_tag;
    struct hx_list queued; /* struct world_unread: behind the line that is half out */
};

/* One time that a guarded call was handed to a way. */
struct world_send {
    struct hx_id operation;
    uint32_t attempt;
    bool has_left;   /* one byte of it at least */
    bool is_refused; /* the server proved that it did nothing */
    bool is_asked;   /* the round ended wanting input */
};

/* ---- all of it ---- */

struct world_shadow {
    enum hx_op_state state;
    uint64_t fence;
    struct hx_id effect_key;
    struct hx_digest outcome;
};

enum world_store_mode { WORLD_STORE_AT_ONCE, WORLD_STORE_HELD, WORLD_STORE_UNTOLD };

struct world {
    bool is_web;    /* clients over HTTP, several of them */
    bool is_remote; /* a server over HTTP */
    bool is_shared; /* sessions share one way */
    bool is_calm;
    bool is_freeing;
    bool is_settling;

    struct hx_clock clock;
    struct hx_rand rand;
    int64_t now_ms;
    uint64_t chance;

    struct hx_memory_ledger *ledger;
    struct hx_store store; /* in front of `disk` */
    struct hx_store *disk;
    enum world_store_mode store_mode;
    struct hx_list store_batch, store_held, store_done;
    struct hx_id owner;

    struct hx_gateway *gateway;
    struct hx_server *server;
    unsigned life;
    int64_t wake_at; /* -1 = not before something arrives */
    struct hx_list upstream_inbox, downstream_inbox;
    struct hx_list doors, ways;
    struct world_door *door; /* that commands are for */
    unsigned way;
    unsigned door_count;
    unsigned way_count;
    uint64_t exchange_count;
    unsigned id_count;
    unsigned run_count;

    /* What happens to the next thing of its kind. */
    unsigned bad_starts;
    unsigned not_sent;
    bool is_front_slow; /* lines stay unwritten */
    unsigned mangle_at, mangle_with;
    bool must_mangle;

    struct world_send sends[WORLD_SENDS_MAX];
    unsigned send_count;
    struct world_shadow shadows[WORLD_ROWS_MAX];
    size_t row_count;

    struct hx_json_tape tape, tape2;
    struct hx_json_limits limits;
    struct hx_arena arena;
    struct hx_hasher *hasher;
};

/* world.c */
void world_init(struct world *world);
void world_fini(struct world *world);
void world_life_begin(struct world *world);
/* SIGKILL, and another one in its place. */
void world_life_again(struct world *world);
/* Turns until nothing is left to do at this moment, and looks. */
void world_settle(struct world *world);
void world_pass(struct world *world, int64_t ms);
/* The faults stop, and everything comes to rest. */
void world_calm(struct world *world);
/* A message that is made here passes by, and may be changed on its way. */
void world_mangle(struct world *world, char *text, size_t *len);
/* Hands on what the ledger was given. */
void world_store_work(struct world *world);

/* server.c */
void world_way_free(struct world_way *way);
struct hx_upstream *world_way_new(void *world);
void world_server_line(struct world_way *way, struct hx_span bytes);
/* The server answers, in the way that `form` says. */
void world_server_answer(struct world_way *way, struct world_owed *owed, unsigned form);
/* A remote one does not; `form` says why. */
void world_server_lose(struct world_way *way, struct world_owed *owed, unsigned form);
void world_server_aside(struct world_way *way, unsigned form);
void world_server_die(struct world_way *way, int status);
void world_server_stall(struct world_way *way, bool is_stalled);
void world_server_close_input(struct world_way *way);
void world_server_forget_session(struct world_way *way);
void world_server_point(struct world_way *way, const struct world_owed *owed);
void world_server_answer_all(struct world *world);
void world_owed_free(struct world_owed *owed);
/* The n-th newest; NULL when there is none. */
struct world_owed *world_owed_at(struct world_way *way, unsigned n);
struct world_way *world_way_at(struct world *world, unsigned n);

/* client.c */
struct world_door *world_door_new(struct world *world);
void world_door_free(struct world_door *door);
void world_doors_cut(struct world *world);
void world_client_line(struct world_door *door, struct hx_span bytes);
struct world_request *world_request_at(struct world_door *door, unsigned n);
struct world_request *world_request_find(struct world_door *door, const struct hx_rpc_id *id);
struct world_exchange *world_exchange_find(struct world_door *door, uint64_t number);
/* Writes what was kept unwritten. */
void world_client_write(struct world_door *door);
/* 0 end of input, 1 its reader, 2 its front, 3 the reader with lines unread; over HTTP: it ends its
 * session, or is put away. */
void world_client_leave(struct world_door *door, unsigned how);
void world_client_cut(struct world_door *door, struct world_exchange *exchange);
void world_client_resume(struct world_door *door, const char *name);
/* Its session is looked up in the ledger, and goes on if it is there. */
void world_client_return(struct world_door *door);
void world_client_answer(struct world_door *door, struct world_question *question, unsigned form);
void world_session_over(void *context, struct hx_downstream *downstream, bool is_ended);

/* judge.c */
void world_judge_rows(struct world *world);
/* A guarded call is handed to a way. Returns its index, or -1 when it is none. */
int world_judge_send(struct world_way *way, uint64_t tag);
/* The server says a line; it may prove that it did nothing. */
void world_judge_server(struct world_way *way, struct hx_span line);
/* The gateway says a line to a client. */
void world_judge_answer(struct world_door *door, struct hx_span line,
                        const struct hx_sending *sending);
/* Nobody who still waits there is left without an answer. */
void world_judge_door(struct world_door *door);
void world_judge_end(struct world *world);
_Noreturn void world_fail(struct world *world, const char *format, ...) HX_PRINTF(2, 3);

/* script.c */
void world_play(struct world *world, const uint8_t *data, size_t size);

#endif
