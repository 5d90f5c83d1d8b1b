/* SPDX-License-Identifier: MIT */
/*
 * The gateway itself, and what the files of the engine share. Internal to engine/.
 *
 * The objects are in session.h (the client's side), call.h (a guarded call on its way to an
 * operation), work.h (operations) and link.h (the server's side).
 */
#ifndef HX_ENGINE_INTERNAL_H
#define HX_ENGINE_INTERNAL_H

#include "base/alloc.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/digest.h"
#include "base/fault.h"
#include "base/list.h"
#include "base/map.h"
#include "core/key.h"
#include "core/policy.h"
#include "core/recover.h"
#include "core/repeat.h"
#include "core/words.h"
#include "engine/call.h"
#include "engine/gateway.h"
#include "engine/link.h"
#include "engine/publish.h"
#include "engine/session.h"
#include "engine/timers.h"
#include "engine/work.h"
#include "wire/jsonrpc.h"
#include "wire/mcp.h"
#include "wire/rewrite.h"
#include "json/fingerprint.h"
#include "json/writer.h"

struct hx_verb;

enum { HX_KEYS_MET = 1024 };

#define HX_GATEWAY_MAGIC 0x67617465u

struct hx_gateway {
    uint32_t magic;
    struct hx_gateway_options options;
    struct hx_gateway_ports ports;
    struct hx_now now;
    struct hx_timers timers;

    /* Scratch of one message. */
    struct hx_hasher *hasher;
    struct hx_fingerprinter fingerprinter;
    struct hx_json_tape tape;    /* the message in hand */
    struct hx_json_tape scratch; /* a part of it, read to another depth */
    struct hx_json_limits limits;
    struct hx_json_limits part_limits;
    struct hx_rewrite rewrite;
    struct hx_arena arena;

    /* Who is served, and by whom. */
    struct hx_list servers;  /* struct hx_server */
    uint32_t retired_count;  /* of those */
    struct hx_list sessions; /* struct hx_session */
    struct hx_list links;    /* struct hx_link */
    struct hx_list stirred;  /* struct hx_link.stir_node */
    struct hx_list over;     /* struct hx_session: to be freed when nothing speaks of them */
    uint64_t map_secret[2];
    char token_secret[17];           /* of the progress tokens that we mint */
    char self_text[HX_ID_TEXT_SIZE]; /* our owner token */
    bool is_draining;
    bool is_stopping;
    struct hx_timer drain_limit;
    struct hx_timer leave_limit;
    bool must_leave;
    struct hx_timer sweep;

    /* What became of answers. */
    struct hx_list deliveries; /* struct hx_delivery_note, oldest first */
    struct hx_map deliveries_by_tag;
    uint32_t delivery_count;
    uint32_t losses_open; /* notes of a loss that the ledger has not taken yet */
    uint32_t batch_answer_count;
    uint64_t next_tag;

    /* Operations. */
    struct hx_map works_by_id;
    struct hx_list works;
    struct hx_list ready;
    struct hx_map gates;
    uint64_t keys_met[HX_KEYS_MET]; /* heads of identities; a guess, see replay.c */
    uint32_t store_open;            /* requests under way */
    struct hx_list lazy;            /* struct hx_store_request that may wait for the next commit */
    uint64_t lazy_count;
    struct hx_timer lazy_limit;
    struct hx_list tickets;      /* store.c: whom they are for */
    struct hx_list quiet_failed; /* struct hx_store_request: to be tried again */
    uint32_t quiet_failed_count;
    struct hx_timer quiet_again;
    struct hx_map questions; /* to neighbours, by ticket */
    struct hx_list verbs;    /* struct hx_verb: decisions under way */
    uint64_t next_ticket;
    int64_t scan_after[2];
    uint32_t probe_count;     /* operations that are looked after by probes */
    uint32_t scheduled_count; /* works with is_scheduled */
    int64_t
        sought_after; /* a handle was sought of the rows up to this one, in this round of sweeps */
    uint32_t sweeps;  /* of this round */
    uint64_t counters[HX_COUNTER_COUNT];
    struct hx_publisher publisher;
};

/* store.c: submitting, and where completions go. */
void hx_store_end(struct hx_gateway *gateway);
struct hx_store_request *hx_store_make(struct hx_gateway *gateway, enum hx_store_kind kind);
/* One that was not handed over. */
void hx_store_drop(struct hx_store_request *request);
void hx_store_submit_for_work(struct hx_work *work, struct hx_store_request *request);
void hx_store_submit_for_call(struct hx_call *call, struct hx_store_request *request);
/* Not behind what was put off. */
void hx_store_submit_peek(struct hx_call *call, struct hx_store_request *request);
void hx_store_init(struct hx_gateway *gateway);
/* Hands over what was put off. */
void hx_store_submit_lazy(struct hx_gateway *gateway);
/* Nobody waits for it, and it may wait for the next commit. */
void hx_store_submit_quiet(struct hx_gateway *gateway, struct hx_store_request *request);
/* Nobody waits for it, and it must not wait either. */
void hx_store_submit_now(struct hx_gateway *gateway, struct hx_store_request *request);
void hx_store_submit_for_note(struct hx_gateway *gateway, struct hx_delivery_note *note,
                              struct hx_store_request *request);
/* Tries again, in a while, what the ledger did not take. */
void hx_store_try_again(struct hx_gateway *gateway);
void hx_store_forget_call(struct hx_call *call);
/* A question that is itself answered from the ledger. */
void hx_store_submit_for_request(struct hx_request *request, struct hx_store_request *store);
void hx_store_forget_request(struct hx_request *request);
/* A request that the engine did not make itself. */
void hx_store_submit_for_verb(struct hx_gateway *gateway, struct hx_verb *verb,
                              struct hx_store_request *request);
/* For what the ledger keeps of a session: see kept.c. */
void hx_store_submit_kept(struct hx_session *session, uint64_t exchange,
                          struct hx_store_request *request);
/* The session outlives it. */
void hx_store_submit_end(struct hx_session *session, struct hx_store_request *request);
void hx_store_submit_find_session(struct hx_gateway *gateway, struct hx_store_request *request,
                                  hx_session_found *found, void *context, uint64_t ticket);
void hx_store_forget_session(struct hx_session *session);
/* About events; see hx_publish_stored. */
void hx_store_submit_outbox(struct hx_gateway *gateway, struct hx_store_request *request,
                            void *flight);
void hx_store_submit_sweep(struct hx_gateway *gateway, struct hx_store_request *request);
/* Takes a finished request and hands its result on. */
void hx_store_take_one(struct hx_gateway *gateway, struct hx_store_request *done);
void hx_store_note(struct hx_gateway *gateway, const struct hx_id *operation, struct hx_span note);

/* verb.c: decisions of those who do not run the operation. */
void hx_verb_taken(struct hx_verb *verb, struct hx_store_request *done);
void hx_verbs_end(struct hx_gateway *gateway);
/* Nobody wants to hear any more what comes of it; it is carried out all the same. */
void hx_verb_forget(struct hx_verb *verb);

/* sweep.c: what nobody asks for. */
void hx_sweep_begin(struct hx_gateway *gateway);
void hx_sweep_found(struct hx_gateway *gateway, struct hx_store_request *found);

/* gateway.c: it will end when its work is done. */
bool hx_gateway_is_leaving(const struct hx_gateway *gateway);
/* One event for the operator, as "name=value" pairs; a fresh id; a fresh secret. */
void hx_tell(struct hx_gateway *gateway, enum hx_tell tell, const char *event, const char *format,
             ...) HX_PRINTF(4, 5);
void hx_mint_id(struct hx_gateway *gateway, struct hx_id *ret_id);
void hx_mint_secret(struct hx_gateway *gateway, char ret_text[17]);

#endif
