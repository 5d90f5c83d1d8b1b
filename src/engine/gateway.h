/* SPDX-License-Identifier: MIT */
/*
 * The gateway: it carries out what the core decides, through the ports it was given. It opens
 * nothing itself and waits for nothing; the program (or the simulator) calls hx_gateway_turn
 * whenever something arrived or a deadline passed.
 *
 *     gateway   one process's hold on one ledger: the operations in hand, whoever asked for them
 *     server    one tool server by its name, with the operator's rules for its tools
 *     session   one client, talking to one server
 *     link      (inside) one connection to a server: a process, or a session over HTTP
 *
 * Operations belong to the gateway, so equal calls of two sessions meet in memory; a session that
 * ends leaves its operations running.
 *
 * One turn: take what the peers said, step, hand the batch to the store, take what it finished,
 * step, answer, fire timers. What leaves does so after what it depends on is durable.
 *
 * Threads: one. Ownership: the ports are borrowed and must outlive the gateway. A downstream must
 * live until session_over was called for it.
 */
#ifndef HX_ENGINE_GATEWAY_H
#define HX_ENGINE_GATEWAY_H

#include "core/op.h"
#include "engine/decide.h"
#include "engine/rules.h"
#include "port/clock.h"
#include "port/courier.h"
#include "port/neighbour.h"
#include "port/peer.h"
#include "port/rand.h"
#include "port/store.h"

struct hx_gateway;
struct hx_server;
struct hx_session;
struct hx_verb;

struct hx_gateway_ports {
    struct hx_clock *clock;
    struct hx_rand *rand;
    struct hx_store *store;
    struct hx_list *upstream_inbox;      /* of every upstream that make_upstream returns */
    struct hx_list *downstream_inbox;    /* of every session's downstream */
    struct hx_neighbourhood *neighbours; /* NULL: nobody else on this ledger can be asked */
    struct hx_courier *courier;          /* NULL: this process publishes no events */
};

struct hx_gateway *hx_gateway_new(const struct hx_gateway_options *options,
                                  const struct hx_gateway_ports *ports);
/* Frees its servers and sessions too. */
struct hx_gateway *hx_gateway_free(struct hx_gateway *gateway);

/* The first server of a gateway also settles what the ledger holds of servers that are not here. */
struct hx_server *hx_server_new(struct hx_gateway *gateway,
                                const struct hx_server_options *options);
/* No session may begin with it any more; another one of the same name may be there already. What
 * is under way over its links comes to its end there, everything else goes on by the rules of the
 * other one. It is freed in some turn after the last of its sessions was ended, and `over` tells
 * so. */
void hx_server_retire(struct hx_server *server);

struct hx_session_options {
    struct hx_server *server;
    struct hx_downstream *downstream;
    struct hx_span tenant; /* texts are borrowed as long as the session */
    struct hx_span principal;
    /* Under which the ledger keeps the session, so that a restart does not lose it; zero: not. */
    struct hx_digest key;
    struct hx_span endpoint; /* kept beside it, for whoever looks it up */
    /* What its client sees before the names of our tools; absent: nothing. */
    struct hx_span names_prefix;
    /* Sessions of one server that share this text share one connection to it, whose handshake is
     * ours; absent: it has a connection of its own, and the client's handshake passes through. */
    struct hx_span share;
    /* Of a session that was found in the ledger, borrowed during the call; else absent. */
    struct hx_span initialize;
    struct hx_span revision;
};

/* NULL when there is no upstream to be had: hx_fault_last() says why. */
struct hx_session *hx_session_new(struct hx_gateway *gateway,
                                  const struct hx_session_options *options);
/* Nobody can be answered on it any more. Its operations go on; session_over follows in some later
 * turn. What the ledger keeps of it stays, unless the client itself ended it. */
void hx_session_end(struct hx_session *session);

/* Looks for a session that another process may have kept. `found` is called once, in some turn:
 * with the session and DONE; with NULL and STALE when there is none; with NULL and NOT_DONE when
 * the ledger cannot say. */
typedef void hx_session_found(void *context, uint64_t ticket, enum hx_store_result result,
                              const struct hx_store_session *found);
void hx_gateway_find_session(struct hx_gateway *gateway, const struct hx_digest *key,
                             hx_session_found *found, void *context, uint64_t ticket);

/* Handles everything that is there. Returns the milliseconds until it wants to be called again at
 * the latest (-1 = not before something arrives). */
int64_t hx_gateway_turn(struct hx_gateway *gateway);

/* Takes no new calls, gives the clients their end of file, finishes what is in hand. */
void hx_gateway_drain(struct hx_gateway *gateway);
/* Ends the drain: what is still in hand becomes unknown. */
void hx_gateway_stop(struct hx_gateway *gateway);
/* True when nothing is left to do: every server is gone and every write is done. */
bool hx_gateway_is_done(const struct hx_gateway *gateway);
bool hx_gateway_is_draining(const struct hx_gateway *gateway);

/* Decides about an operation of the ledger, whether it is in hand here or not; copies everything.
 * `decided` is called once, in some turn, unless the gateway is freed before; the verdict is the
 * gateway's. Nothing is run by it. */
typedef void hx_gateway_decided(void *context, const struct hx_verdict *verdict);
struct hx_verb *hx_gateway_decide(struct hx_gateway *gateway,
                                  const struct hx_decision_target *target,
                                  const struct hx_decision *decision, struct hx_span who,
                                  hx_gateway_decided *decided, void *context);

/* Asks the ledger for rows, by id or by scan, which `request` says; takes it. `read` is called
 * once, in some turn, unless the gateway is freed before, and the request is the gateway's. */
typedef void hx_gateway_read(void *context, const struct hx_store_request *found);
void hx_gateway_look(struct hx_gateway *gateway, struct hx_store_request *request,
                     hx_gateway_read *read, void *context);

/* Does somebody still wait here for this operation, and could he read an answer right now? */
bool hx_gateway_has_live_waiter(struct hx_gateway *gateway, const struct hx_id *operation);

/* False when the client shook hands and the server never said anything that was a message. */
bool hx_session_had_server(const struct hx_session *session);

/* What operators ask of a server. */
struct hx_server_health {
    bool is_unreachable; /* the last try to start or reach it came to nothing, a short while ago */
    uint64_t noise;      /* lines that were no messages */
};
struct hx_server_health hx_server_health(const struct hx_server *server);

/* What this process did about the outbox. */
struct hx_outbox_counts {
    bool is_wanted; /* it has a courier */
    bool is_publisher;
    uint64_t delivered;
    uint64_t failed; /* tries that came to nothing */
    uint64_t parked;
    uint64_t waiting_pending; /* in the ledger, counted now and then by the one that publishes */
    uint64_t waiting_parked;
};
struct hx_outbox_counts hx_gateway_outbox_counts(const struct hx_gateway *gateway);

uint64_t hx_gateway_counter(const struct hx_gateway *gateway, enum hx_counter counter);

#endif
