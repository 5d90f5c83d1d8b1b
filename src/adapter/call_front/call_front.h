/* SPDX-License-Identifier: MIT */
/*
 * A downstream without a peer: the one client of `hapax call`, inside the process. It shakes hands,
 * makes one tool call under one key, and takes the answer.
 *
 *     struct hx_downstream *down = hx_call_front_new(loop, &inbox, &options);
 *     ... turns of the gateway, until ...
 *     const struct hx_call_answer *answer = hx_call_front_answer(down);
 *     ... it is shown ...
 *     hx_call_front_leave(down, was_shown);   // its fate; then the gateway drains
 *
 * "Busy" is asked again until the wait is over; "unavailable", which says that nothing was sent,
 * only when the caller said how long he waits. An error that does not say whose it is (the tool's,
 * or a refusal of ours) is looked up in the ledger, and so is what stands there when the wait is
 * over. Nothing here ever decides to run a tool: the key is the same each time, and the gateway
 * behind it knows it.
 */
#ifndef HX_ADAPTER_CALL_FRONT_H
#define HX_ADAPTER_CALL_FRONT_H

#include "base/buf.h"
#include "base/time.h"
#include "loop/loop.h"
#include "port/peer.h"
#include "port/rand.h"

struct hx_call_front_options {
    struct hx_rand *rand;
    struct hx_span tool;      /* texts are borrowed as long as the downstream */
    struct hx_span arguments; /* a JSON object */
    struct hx_span key;
    struct hx_wall first_sent;
    const char *version; /* of this program, for the handshake */
    int64_t wait_ms;     /* -1: for ever */
    bool asks_unavailable_again;
    int life_fd; /* taken; its end means that the front is dead. -1: nobody's life is watched */
};

enum hx_call_answer_kind {
    HX_CALL_RESULT,   /* the tool's own, or ours with a code */
    HX_CALL_ERROR,    /* a JSON-RPC error */
    HX_CALL_WAIT_OVER /* no answer in time; the rest is what the ledger says by now */
};

/* Spans point into `line` and `arena`, which live as long as the downstream. Absent: not told. */
struct hx_call_answer {
    enum hx_call_answer_kind kind;
    bool is_error;      /* isError, or an error */
    bool is_ours;       /* not the tool's: `code` says what */
    bool has_row;       /* the ledger knows the operation */
    bool is_row_untold; /* the ledger did not say whether it does */
    bool is_replayed;
    struct hx_span result;  /* raw */
    struct hx_span error;   /* raw */
    struct hx_span message; /* of the error */
    struct hx_span code;
    /* Of an error without our envelope: ours where the ledger has no row, since then it is of a
     * call that was passed through or refused; else a word of the tool's. */
    struct hx_span named_code;
    struct hx_span operation;
    struct hx_span execution;
    struct hx_span effect;
};

struct hx_downstream *hx_call_front_new(struct hx_loop *loop, struct hx_list *inbox,
                                        const struct hx_call_front_options *options);
/* Accepts NULL. */
struct hx_downstream *hx_call_front_free(struct hx_downstream *downstream);

/* NULL until there is one. */
const struct hx_call_answer *hx_call_front_answer(struct hx_downstream *downstream);
bool hx_call_front_is_life_over(struct hx_downstream *downstream);
/* Once, after the answer. */
void hx_call_front_leave(struct hx_downstream *downstream, bool was_shown);

#endif
