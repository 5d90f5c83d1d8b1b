/* SPDX-License-Identifier: MIT */
/*
 * A guarded call, and how it finds its operation. Internal to engine/.
 *
 *   call  a request that is a guarded tools/call: it waits for an operation
 *   gate  calls of one twin digest, decided one after the other
 */
#ifndef HX_ENGINE_CALL_H
#define HX_ENGINE_CALL_H

#include "base/arena.h"
#include "base/list.h"
#include "base/map.h"
#include "core/record.h"
#include "core/words.h"
#include "engine/session.h"

struct hx_tool;

enum hx_call_stage {
    HX_CALL_GATED,    /* behind another call of the same twin digest */
    HX_CALL_FINDING,  /* the ledger is being asked */
    HX_CALL_ASKING,   /* neighbours are being asked about live waiters */
    HX_CALL_ADOPTING, /* the adoption is being written */
    HX_CALL_STARTING, /* new, and the upstream is not ready yet */
    HX_CALL_WAITING   /* with its work */
};

/* An equal operation that the ledger named, while the call is being decided. */
struct hx_candidate {
    struct hx_record *record; /* in the find request's arena */
    enum hx_owner_fact owner_fact;
    bool is_sender_gone;
    bool is_epoch_current;
    bool has_live_waiter;
    bool is_same_line;
    int64_t waited_ms;
};

struct hx_call {
    struct hx_session *session;
    struct hx_request *request;
    struct hx_tool *tool;
    enum hx_call_stage stage;
    struct hx_list node; /* work->calls, gate->waiting or link->waiting_calls */
    struct hx_work *work;
    struct hx_gate *gate;
    struct hx_now arrived;
    struct hx_arena arena; /* decoded texts below, and the record template's */

    /* What it says. Raw slices are of request->message. */
    struct hx_span arguments; /* absent when there were none */
    struct hx_span progress_token;
    struct hx_id retry_of;   /* nil = none */
    struct hx_record wanted; /* identity, twin, fingerprint and the rest of a new row */
    struct hx_digest follow; /* identity to look under when `is_following` */
    struct hx_id follow_id;  /* or that operation, whatever it is called by now; nil = none */
    bool is_following;
    bool is_named;           /* without a key: the operation that `retry_of` names is followed */
    struct hx_id overlapped; /* the equal operation whose waiter had, when this call came, waited
                                silently for long enough, or whose answer was lost without the
                                ledger knowing; by its id, since a key may be given to it */
    bool has_overlapped;
    bool follows_overlapped; /* which may have come to nothing */
    struct hx_id gone_to;    /* the operation that it was taken to */
    bool has_gone;
    char own_key[HX_ID_TEXT_SIZE]; /* of a call that brought none */
    bool is_unread;                /* there was no memory to read it */
    bool is_result_unread; /* its result is kept, and could not be had when it was to be told */
    bool is_param_key;     /* the key came as params.idempotencyKey */
    bool needs_approval;   /* of a person, before it runs */

    /* While it is decided. */
    struct hx_store_request *ticket; /* under way for it, or NULL */
    struct hx_store_request *found;  /* kept until decided */
    struct hx_candidate *candidates; /* in found->arena */
    uint32_t candidate_count;
    uint32_t questions_open;
    const struct hx_candidate *adopted;
    const struct hx_candidate *suspected; /* its client is asked about */
    int64_t twin_seen;
    bool was_unseen;      /* its claim was tried without looking first */
    bool has_looked;      /* the ledger has been asked since */
    bool is_from_gap;     /* its key may have been used before the ledger was restored */
    bool is_peeking;      /* only a final row of its key is looked for, before the gate */
    bool was_started;     /* it has waited for the server once */
    bool must_find_again; /* a row exists; when the server is there, look again */

    /* How it got its work. */
    bool has_waited_enough;   /* the row is being read, and then it is told what that says */
    bool is_joined;           /* the operation was open and somebody else's */
    bool is_replayed;         /* the operation was finished when it came */
    bool is_transport_repeat; /* its request id was used before, for the same call */
    bool is_adopted;          /* keyless: taken for a repeat */
    struct hx_wall work_began;
    struct hx_timer wait;  /* join_wait */
    struct hx_timer slow;  /* it takes so long that its client may lose its stream */
    struct hx_span stream; /* the name of that; absent = there is none */
    struct hx_ask *ask;    /* its client is being asked whether it is meant */
    bool is_meant;         /* a person has said so */
    bool is_fresh_key_counted;
    bool is_resumed; /* its client came back for the answer */
    struct hx_gateway *gateway;
};

/* A question to a neighbour, about one candidate of one call. */
struct hx_question {
    struct hx_map_node node;
    uint64_t ticket;
    struct hx_call *call; /* NULL when it has left */
    uint32_t candidate;
};

/* Calls of one twin digest are decided one after the other. */
struct hx_gate {
    struct hx_map_node node;
    struct hx_digest twin;
    struct hx_call *inside;
    struct hx_list waiting;
};

/* answer.c: what a call is told. Each ends the call and its request. */
void hx_call_answer(struct hx_call *call, enum hx_answer answer, const struct hx_record *record);
/* There is no memory to go on with it; it has sent nothing, and may come again. */
void hx_call_no_memory(struct hx_call *call);
/* A refusal before any operation: `detail` is one more sentence, or NULL. */
void hx_call_refuse(struct hx_call *call, enum hx_answer answer, const char *detail);
/* The JSON-RPC code under which an answer of ours goes. */
int64_t hx_answer_code(enum hx_answer answer);

/* Whether stored bytes can stand in a message: JSON without a line end. What a tool answered is; a
 * program of libhapax may have finished with anything. */
bool hx_outcome_is_message_text(struct hx_gateway *gateway, struct hx_span bytes);
/* Passes a raw JSON-RPC error on as the answer. */
void hx_call_answer_error(struct hx_call *call, struct hx_span error);

/* replay.c: the short way to a replay. Peeks when the key was met before; true when it does. */
bool hx_replay_peek(struct hx_call *call);
/* False: what was peeked for is not there. */
bool hx_replay_is_found(struct hx_call *call, const struct hx_store_request *found);

/* intake.c: how a call finds its operation. */
/* `open`: the call under its id that it repeats and cannot be answered in place of; NULL: none. */
void hx_intake(struct hx_request *request, const struct hx_mcp_call *parsed, struct hx_tool *tool,
               const struct hx_call *open);
/* A call that follows the operation of this record. Ends it when that cannot be. */
void hx_intake_resume(struct hx_request *request, const struct hx_record *record);
/* Its client may come back for the answer, when the ledger knows where it belongs. Again when the
 * answer is to go another way. */
void hx_intake_name_stream(struct hx_call *call);
void hx_intake_again(struct hx_call *call);
void hx_intake_find(struct hx_call *call);
void hx_intake_begin_new(struct hx_call *call);
void hx_intake_go_to_row(struct hx_call *call, const struct hx_candidate *candidate);
/* Takes the request. */
void hx_intake_found(struct hx_call *call, struct hx_store_request *found);
void hx_intake_upstream_ready(struct hx_call *call);
void hx_intake_upstream_failed(struct hx_call *call);
/* Takes the call out of wherever it waits and frees it with its request. */
void hx_call_forget(struct hx_call *call);

/* transport_repeat.c: a call without a key under the id of another one. */
void hx_transport_repeat_of_answered(struct hx_call *call);
/* It waits for the operation of `open`, which is known when that has left the gate. */
void hx_transport_repeat_of_open(struct hx_call *call, const struct hx_call *open);
/* Those who repeat this call behind it in the gate wait for the operation that it has come to. */
void hx_transport_repeat_tell(const struct hx_call *call, const struct hx_id *operation);

/* gate.c: one decision at a time for calls that may be each other's repeats. */
void hx_gate_enter(struct hx_call *call);
void hx_gate_leave(struct hx_call *call);

/* intake_read.c: what it says of itself. The first two return NULL, or what is wrong. */
const char *hx_intake_read_key(struct hx_call *call, const struct hx_mcp_call *parsed);
const char *hx_intake_read_times(struct hx_call *call, const struct hx_mcp_call *parsed);
/* What hx_fingerprint returns. */
int hx_intake_read_fingerprint(struct hx_call *call);
void hx_intake_fill_wanted(struct hx_call *call);
/* No operation is known under its key: may one begin? False: it was refused. */
bool hx_intake_is_key_acceptable(struct hx_call *call);
/* For the operator's log. */
void hx_intake_tell_arguments(struct hx_call *call);

/* issue.c: keys that we hand out. */
bool hx_issue_key(const struct hx_session *session, struct hx_buf *ret_key);
/* It was handed out by us, or by another process on this ledger, to this caller. */
bool hx_issue_is_ours(const struct hx_session *session, struct hx_span key);
/* It was, and too long ago to begin anything with it. */
bool hx_issue_is_over(const struct hx_session *session, struct hx_span key);

/* twins.c: equal operations. */
void hx_intake_ask_neighbours(struct hx_call *call);
void hx_intake_neighbour(struct hx_gateway *gateway, uint64_t ticket, bool is_live);
/* Takes the request. */
void hx_intake_adopted(struct hx_call *call, struct hx_store_request *done);
/* What a person said about it. */
void hx_intake_is_meant(struct hx_call *call);
void hx_intake_is_repeat(struct hx_call *call);
void hx_intake_is_not_meant(struct hx_call *call);
/* Notes the equal operation whose waiter this call may be the silent repeat of. */
void hx_intake_note_overlap(struct hx_call *call);
/* The same for calls that came while this one was still being decided. */
void hx_intake_tell_overlap(const struct hx_call *call, struct hx_gate *gate);

#endif
