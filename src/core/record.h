/* SPDX-License-Identifier: MIT */
/*
 * The durable record of one operation: what a row of the ledger says. The core computes the next
 * record from the present one; the store writes it whole, guarded by the fence.
 *
 * Spans in a record are borrowed from whoever loaded or made it (a store request's arena, the
 * operation's own arena) and live as long as that does.
 */
#ifndef HX_CORE_RECORD_H
#define HX_CORE_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/id.h"
#include "base/span.h"
#include "base/time.h"
#include "core/contract.h"

enum hx_op_state {
#define HX_OP_STATE(NAME, text, is_final, facts) HX_OP_##NAME,
#include "core/op.def"
    HX_OP_STATE_COUNT
};

enum hx_attempt_state {
    HX_ATTEMPT_NONE,
    HX_ATTEMPT_OPEN,      /* may have acted */
    HX_ATTEMPT_ASKED,     /* a round ended wanting input; may have acted */
    HX_ATTEMPT_CONFIRMED, /* an outcome came back */
    HX_ATTEMPT_REFUSED,   /* the tool proved that it did not act */
    HX_ATTEMPT_DEAD       /* not one byte left */
};

#define HX_TRANSPORT_NAME_MAX 96

/* One dispatch of the operation to the tool. The record holds the newest one in full; what the
 * earlier ones mean for the rules is in the counts below; the store's history lines tell the
 * rest. */
struct hx_attempt {
    uint32_t number; /* from 1; 0 = there was none */
    enum hx_attempt_state state;
    bool is_marked;           /* the sent mark: written before the first byte */
    struct hx_now claimed_at; /* its boot is the store's crash epoch of the claim */
    struct hx_now marked_at;
    char transport[HX_TRANSPORT_NAME_MAX]; /* names the child or connection, NUL-terminated */
};

/* How many earlier attempts stand in each state that matters. Dead ones matter to no rule. */
struct hx_attempt_counts {
    uint16_t open;
    uint16_t asked;
    uint16_t confirmed;
    uint16_t refused;
};

enum hx_outcome_kind {
    HX_OUTCOME_NONE,
    HX_OUTCOME_RESULT, /* the raw bytes of a JSON-RPC `result` */
    HX_OUTCOME_ERROR   /* the raw bytes of a JSON-RPC `error` */
};

enum hx_outcome_place {
    HX_OUTCOME_INLINE, /* `bytes` */
    HX_OUTCOME_BLOB,   /* a synced file named after the operation's id */
    HX_OUTCOME_GONE    /* too large to keep, or taken by retention: digest and size only */
};

struct hx_outcome {
    enum hx_outcome_kind kind;
    enum hx_outcome_place place;
    bool is_error;         /* a result with isError, or an error */
    bool is_reconstructed; /* made from evidence, not the tool's own bytes */
    uint64_t size;         /* of the whole, in bytes */
    struct hx_digest digest;
    struct hx_span bytes; /* INLINE only */
};

enum hx_key_source {
    HX_KEY_NONE, /* keyless: the key is an internal random one */
    HX_KEY_META,
    HX_KEY_PARAMS, /* params.idempotencyKey */
    HX_KEY_HEADER,
    HX_KEY_ARGUMENT, /* key_argument */
    HX_KEY_INJECTED  /* inject_key */
};

enum hx_delivery {
    HX_DELIVERY_NOT_READY,
    HX_DELIVERY_PENDING,
    HX_DELIVERY_SENT,
    HX_DELIVERY_LOST,
    HX_DELIVERY_ACKNOWLEDGED
};

enum hx_effect_state { HX_EFFECT_NONE, HX_EFFECT_INTENDED, HX_EFFECT_CONFIRMED, HX_EFFECT_ABSENT };

/* Why the record is in its state: the last transition in one word, for people. */
enum hx_reason {
    HX_REASON_NONE,
    HX_REASON_CLAIMED,
    HX_REASON_TAKEN_OVER,
    HX_REASON_SENT_AGAIN,
    HX_REASON_ANSWERED,
    HX_REASON_REFUSED_BY_TOOL,
    HX_REASON_NOT_SENT,
    HX_REASON_NO_WAITER_LEFT,
    HX_REASON_TRANSPORT_LOST,
    HX_REASON_TIMED_OUT,
    HX_REASON_CANCEL_UNANSWERED,
    HX_REASON_UNREADABLE_REPLY,
    HX_REASON_OWNER_DIED,
    HX_REASON_DRAIN_STOPPED,
    HX_REASON_CANCELLED_BY_CALLER,
    HX_REASON_CANCELLED_BY_OPERATOR,
    HX_REASON_APPROVED,
    HX_REASON_DENIED,
    HX_REASON_APPROVAL_EXPIRED,
    HX_REASON_EVIDENCE,
    HX_REASON_ABSENCE_PROVED,
    HX_REASON_RESOLVED_BY_PERSON,
    HX_REASON_SUPERSEDED,
    HX_REASON_SUCCESSOR,
    HX_REASON_RESTORED_COPY,
    HX_REASON_ROUND_EXPIRED,
    HX_REASON_RETENTION,
    HX_REASON_INNER_UNKNOWN, /* the upstream is a gateway too, and says that it does not know */
    HX_REASON_COUNT
};

struct hx_record {
    /* What never changes once the row exists (INV-9, INV-13). */
    struct hx_id id;
    struct hx_span tenant;
    struct hx_span principal;
    struct hx_span server;
    struct hx_span tool;
    struct hx_span key; /* the caller's bytes; for a keyless call the internal one */
    enum hx_key_source key_source;
    uint32_t generation;          /* counts successors of one key, from 0 */
    struct hx_digest identity;    /* over tenant, server, tool, key (and principal by key_scope) */
    struct hx_digest twin;        /* over tenant, principal, server, tool, fingerprint */
    struct hx_digest fingerprint; /* canonical arguments */
    struct hx_id effect_key;      /* one for ever */
    struct hx_wall first_sent;    /* the key's own time; 0 = it has none */
    struct hx_now created;
    struct hx_span arguments;    /* as they were sent; absent when not kept */
    struct hx_contract contract; /* snapshot */

    /* What transitions change. */
    enum hx_op_state state;
    enum hx_reason reason;
    uint64_t fence;
    struct hx_id owner; /* token of the process that runs it; nil = nobody */
    struct hx_boot owner_boot;
    struct hx_attempt attempt;
    struct hx_attempt_counts earlier;
    uint32_t sends;           /* attempts that were sent or may have been, ever */
    struct hx_now first_mark; /* of any attempt; wall 0 = never marked */
    struct hx_now not_before; /* READY: earliest next attempt; wall 0 = now */
    struct hx_now settled;    /* when the present outcome or unknown arose; wall 0 = not yet */
    struct hx_now updated;
    struct hx_outcome outcome;
    struct hx_id successor; /* nil = none */
    struct hx_id predecessor;
    bool is_tombstone; /* a cancel that came before its call: matches any arguments */
    bool is_approved;
    bool is_disputed;
    bool is_superseded;

    /* Flags and counters that others may set without owning the row; they only grow, and a
     * whole-record write never lowers them. */
    bool is_cancel_requested;
    bool is_told_pending; /* a caller was told BUSY, OUTCOME_UNKNOWN or APPROVAL_REQUIRED */
    bool is_acknowledged;
    bool needs_human;
    uint32_t repeats;    /* calls after the first */
    uint32_t sent_count; /* waiters whose answer was written and not taken back */
    uint32_t lost_count; /* waiters whose answer was lost */
    uint32_t adoptions;  /* keyless repeats that adopted it */
    struct hx_id holder; /* token of the process where the last adopting or first waiter waits */
};

const char *hx_op_state_name(enum hx_op_state state);
bool hx_op_state_parse(struct hx_span text, enum hx_op_state *ret_state);
bool hx_op_state_is_final(enum hx_op_state state);
/* May a row in state `from` be written in state `to`? The store asks this too, so that not even a
 * writer who is wrong about the fence can change a final state (I4). */
bool hx_op_may_become(enum hx_op_state from, enum hx_op_state to);
const char *hx_attempt_state_name(enum hx_attempt_state state);
const char *hx_reason_name(enum hx_reason reason);
const char *hx_delivery_name(enum hx_delivery delivery);
const char *hx_effect_state_name(enum hx_effect_state effect);
const char *hx_key_source_name(enum hx_key_source source);

/* The effect axis: a function of the attempts and the execution, never set by hand (INV-15). */
enum hx_effect_state hx_record_effect(const struct hx_record *record);
/* The delivery axis: the best of the waiters' (INV-17). */
enum hx_delivery hx_record_delivery(const struct hx_record *record);

/* Identity and twin digests, bound with length prefixes. `principal` takes part in the identity
 * only when `is_principal_scoped`. */
struct hx_digest hx_record_identity(struct hx_hasher *hasher, const struct hx_record *record,
                                    bool is_principal_scoped);
struct hx_digest hx_record_twin(struct hx_hasher *hasher, const struct hx_record *record);

/* Checks the facts that must hold in the record's state (INV-25). Returns NULL, or a sentence that
 * says which one does not. For bytes read from a ledger; our own records are asserted to pass. */
const char *hx_record_flaw(const struct hx_record *record);

/* It ended by what a person said, which nothing may prove. */
static inline bool hx_record_is_persons_word(const struct hx_record *record)
{
    return record->reason == HX_REASON_RESOLVED_BY_PERSON;
}

#endif
