/* SPDX-License-Identifier: MIT */
/*
 * The ledger as the engine sees it: requests go in, completions come out, both on the loop thread.
 * Two adapters implement it (SQLite and memory) and one contract suite holds for both.
 *
 * A request belongs to the store from submit until it comes out of take_done; then it is the
 * caller's again and its results (records in `arena`) live until it is freed. Requests of one store
 * complete in the order of submission, except that a failing one may come earlier.
 *
 * What is promised:
 *  - DONE means durable (or, for kinds marked "not synced", visible to every process of this host
 *    and safe against the death of any process).
 *  - STALE means that the precondition did not hold and no row changed; `records` then holds what
 *    the ledger says now (none if there is no such row).
 *  - NOT_DONE means that nothing was written and nothing will be. A commit whose fate is unknown is
 *    read back by the store itself, by owner token and fence, until it knows: it never repeats a
 *    write on doubt, and it never reports NOT_DONE on doubt. While it cannot know it keeps the
 *    request, and every later one behind it.
 *
 * Hot rows are those that an equal call without a key may meet: every row that is not final, and
 * final ones until `cool`. Only hot rows are found by their twin digest.
 *
 * The outcome's bytes: up to HX_STORE_INLINE_MAX they stand in the row; more go to a blob, and the
 * row is read back with `place` BLOB and no bytes. A write whose outcome has no bytes and place
 * BLOB keeps the blob that is there; one with place GONE removes the bytes wherever they are.
 *
 * Loading also judges the owner: `owner_fact` is looked up at that moment, and entries that a dead
 * owner left in its spool are applied before its row is reported as owner-dead.
 */
#ifndef HX_PORT_STORE_H
#define HX_PORT_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/list.h"
#include "core/outbox.h"
#include "core/record.h"
#include "core/restored.h"

enum hx_store_kind {
    /* Reads. `records`: by identity the newest generation alone, then (if `twin` is asked) every
     * hot row of that twin digest in order of creation, at most HX_STORE_TWINS_MAX, the row already
     * given left out. By id: that row. By scan: rows of `scan_state` past `scan_after` (rowid), at
     * most `scan_limit`, with `ret_scan_next`; a page may hold fewer, or none, and still have a
     * next: it ends behind the row with which it comes to HX_STORE_SCAN_BYTES, so that rows with
     * large payloads can be paged through at all. */
    HX_STORE_FIND,
    /* Inserts `record` with its first attempt in one synced commit, provided that no row of the
     * same identity exists in this generation or a newer one (a row that became known under a key
     * may have come from a successor) and (if `twin_guard` is set) that no hot row of the same
     * twin digest is newer than `twin_seen`; else STALE, with the records that FIND by identity
     * (and twin, if guarded) would give. Room for the outcome is reserved in the spool first. */
    HX_STORE_INSERT,
    /* Replaces the changing part of the row `record.id`, provided that its fence equals
     * `expected_fence` and (if `require_unmarked`) that its present attempt carries no sent mark
     * and is of this epoch, so that none was lost; else STALE. With `second`, inserts that record
     * (a successor) in the same commit; its identity and generation taken = STALE, and the records
     * are `record`'s row, then that one. Synced. */
    HX_STORE_UPDATE,
    /* Sets the sent mark of attempt `record.attempt.number` with `record.attempt.marked_at`,
     * provided that the fence equals `expected_fence` and the attempt is the present one and
     * unmarked; else STALE. Also the row's `first_mark` if there was none. Not synced. */
    HX_STORE_MARK,
    /* Adds to counters and flags of row `record.id` without a fence: see struct hx_store_touch.
     * With `touch.expect_adoptions` it is a compare-and-set on `adoptions`; else STALE. Synced when
     * it gives a name or takes an answer back, else not. */
    HX_STORE_TOUCH,
    /* Appends the outcome in `record` (with expected_fence) to this process's synced spool. */
    HX_STORE_SPOOL,
    /* Appends a history line to row `record.id`, or to the ledger's own log when the id is nil. Not
     * synced. */
    HX_STORE_NOTE,
    /* Reads the outcome's bytes of row `record.id`, wherever they are, into `payload`: absent when
     * they are gone. STALE = no such row. */
    HX_STORE_PAYLOAD,

    /* What a restart must not lose besides the operations. These use the union below, and no
     * `records`. A PUT of something longer than its maximum, or without a name, is NOT_DONE. */

    /* Keeps `session`, in the place of the one of that key, all but its `created`; STALE when that
     * one belongs to another tenant or principal. Synced: the id is told to the client after it. */
    HX_STORE_SESSION_PUT,
    /* Reads the session of `session.key` into `session`; STALE = there is none (any more). Whether
     * it is the asking principal's is for the caller to compare. */
    HX_STORE_SESSION_GET,
    /* The session of `session.key` was used: its `last_seen` rises to that of `session`. STALE =
     * there is none; it does not come back by this. Not synced. */
    HX_STORE_SESSION_TOUCH,
    /* Forgets the session of `session.key` and its streams; STALE = there is none. Synced: an id
     * that was given up never opens anything again. */
    HX_STORE_SESSION_END,
    /* Keeps `stream`, in the place of the one of that session and name; STALE when the session or
     * the operation has no row. Not synced. May be submitted behind the INSERT of its operation and
     * committed with it; when that is not DONE, neither is this. */
    HX_STORE_STREAM_PUT,
    /* Forgets the streams of `stream.session` on which the request `.request_id` was to be
     * answered; STALE = there is none. Synced: what a client took back is never given to it. */
    HX_STORE_STREAM_END,
    /* Reads the stream of `stream.session` and `.name` into `stream`; STALE = none, or its session
     * ended, or the operation's outcome went by age. */
    HX_STORE_STREAM_GET,
    /* Keeps `resume`, in the place of the operation's earlier one; STALE when the operation has no
     * row, or `resume.attempt` is not its present attempt. Not synced. */
    HX_STORE_RESUME_PUT,
    /* Reads the newest resume point of operation `resume.op` into `resume`, whichever attempt it is
     * of; STALE = none. */
    HX_STORE_RESUME_GET,

    /* The outbox. A ledger keeps one from the moment on at which a process that is set up for it
     * opened the ledger, and from then on every process on it, however that one is set up, writes
     * the events of a transition (core/outbox.h) in the commit of the transition (INV-16). These
     * use `outbox` of the union. */

    /* This process wants to be the one that publishes: DONE when it is now, STALE while another one
     * that lives is. Not synced: the dead publish nothing. */
    HX_STORE_OUTBOX_CLAIM,
    /* Reads into `outbox.events` at most `outbox.limit` pending events whose time has come: those
     * that were put off, and then, oldest first, those that were never tried; of each operation
     * only the oldest that is neither delivered nor dropped, so that none overtakes another. With
     * `outbox.must_count` also the counts, and those that a clock which jumped back since has put
     * off: to be asked now and then, since all that wait are looked at. */
    HX_STORE_OUTBOX_DUE,
    /* Notes what came of a try: of the event `outbox.event.number` its place, tries, not_before,
     * tried and error. STALE = it is over already. Not synced: what a crash of the host forgets is
     * published once more, under the same id. */
    HX_STORE_OUTBOX_MARK
};

enum hx_store_result { HX_STORE_DONE, HX_STORE_STALE, HX_STORE_NOT_DONE };

enum hx_owner_fact {
    HX_OWNER_NOBODY,
    HX_OWNER_MINE,
    HX_OWNER_ALIVE,     /* its process lock is held, on this host */
    HX_OWNER_DEAD,      /* its lock is free, or its host came back with another boot id */
    HX_OWNER_ELSEWHERE, /* another host, lease not over */
    HX_OWNER_ELSEWHERE_LAPSED
};

enum { HX_STORE_TWINS_MAX = 256, HX_STORE_NOTE_MAX = 2048, HX_STORE_INLINE_MAX = 256 * 1024 };

/* In bytes. */
enum {
    HX_STORE_SCAN_BYTES = 4 * 1024 * 1024,
    HX_STORE_SESSION_TEXT_MAX = 1024, /* tenant, principal, endpoint, revision: each */
    HX_STORE_INITIALIZE_MAX = 256 * 1024,
    HX_STORE_STREAM_NAME_MAX = 64,
    HX_STORE_STREAM_REQUEST_MAX = 1024,
    HX_STORE_RESUME_MAX = 8 * 1024
};

/* What a living owner has only in its spool is shown as if it stood in the row: it is durable, and
 * somebody may have been told. */
struct hx_store_found {
    struct hx_record record;
    int64_t rowid;
    int64_t age_ms; /* since its last use, where that decides what is still kept; else 0 */
    enum hx_owner_fact owner_fact;
    bool is_sender_gone;   /* nobody owns it, the owner is dead, or it left the hands of one on this
                            * host (it runs no more); and the transport named in the attempt is gone
                            * with its group (one that is named by an owner token: with that
                            * process), or belonged to another boot. Never looked for, and so
                            * false, when the row is final: nobody would act on it */
    bool is_epoch_current; /* the claim's boot is this one, and no I/O error was seen on the ledger
                              since */
};

struct hx_store_touch {
    uint32_t add_repeats;
    uint32_t add_sent;
    uint32_t subtract_sent; /* an answer was taken back */
    uint32_t add_lost;
    bool set_told_pending;
    bool set_cancel_requested;
    bool set_acknowledged;
    bool set_needs_human;  /* without an event: what is to be announced is an UPDATE */
    bool cool;             /* the row can no longer be adopted: leave the twin index. Without
                              effect on a row that is not final */
    bool warm;             /* an answer was taken back: into the twin index again */
    bool adopt;            /* adoptions + 1, holder = `holder`, hot again */
    bool expect_adoptions; /* compare-and-set on `seen_adoptions` */
    uint32_t seen_adoptions;
    /* A keyless row becomes known under `record.identity`, `.key`, `.key_source` and `.first_sent`;
     * STALE when that identity has a row. */
    bool rekey;
    struct hx_id holder;
};

/* A session of a client over HTTP. It goes when it ends, or was not used for a while (a setting of
 * the adapter). */
struct hx_store_session {
    struct hx_digest key; /* SHA-256 of its id; the id itself is never stored */
    struct hx_span tenant;
    struct hx_span principal;
    struct hx_span endpoint;
    struct hx_span revision;
    struct hx_span initialize; /* the client's message */
    struct hx_wall created;
    struct hx_wall last_seen;
};

/* A stream on which one request of a session is answered, and from which its client may read on. It
 * goes with its session, or when the payload of its operation goes by age. */
struct hx_store_stream {
    struct hx_digest session;
    struct hx_span name;
    struct hx_span request_id; /* raw, as the client wrote it */
    struct hx_id op;
};

/* What an HX_PEER_RESUME_POINT told. It goes when the payload of its operation goes by age. */
struct hx_store_resume {
    struct hx_id op;
    uint32_t attempt;
    struct hx_span text;
};

/* One event of the outbox, as it was at its transition. */
struct hx_store_event {
    int64_t number; /* rises with every event of the ledger */
    struct hx_id id;
    struct hx_id op;
    struct hx_span server;
    struct hx_span tool;
    enum hx_outbox_kind kind;
    enum hx_op_state state;
    enum hx_reason reason;
    uint32_t attempt;
    struct hx_wall at;      /* of the transition */
    struct hx_wall created; /* of the operation */
    struct hx_wall settled; /* 0 = not yet */

    enum hx_outbox_place place;
    uint32_t tries;
    struct hx_wall not_before;
    struct hx_wall tried; /* 0 = never */
    struct hx_span error; /* of the newest try; absent = none */
};

enum { HX_STORE_OUTBOX_DUE_MAX = 256, HX_STORE_OUTBOX_ERROR_MAX = 512 };

struct hx_store_outbox {
    uint32_t limit;              /* DUE, in; at most HX_STORE_OUTBOX_DUE_MAX */
    bool must_count;             /* DUE, in */
    struct hx_store_event event; /* MARK, in */
    /* DUE, out. */
    struct hx_store_event *events;
    uint32_t event_count;
    uint64_t pending;
    uint64_t parked;
    struct hx_id ledger; /* its instance */
};

struct hx_store_request {
    struct hx_list node;
    enum hx_store_kind kind;
    void *context;     /* the submitter's own */
    uint64_t sequence; /* given by the store at submit */
    uint64_t scratch;  /* the store's own */
    uint64_t proof;    /* too */

    /* In. */
    struct hx_record record; /* FIND by identity/id: only `identity`, `twin` or `id` are read */
    struct hx_record second;
    bool has_second;
    bool find_identity;
    bool find_twin;
    bool find_id;
    bool twin_guard;
    bool require_unmarked;
    bool mark_after;   /* INSERT, UPDATE of a claim: write its sent mark too, see is_marked */
    int64_t twin_seen; /* highest rowid of that twin digest that was seen; 0 = none */
    uint64_t expected_fence;
    enum hx_op_state scan_state; /* HX_OP_ABSENT = every open or unknown state */
    bool scan;
    int64_t scan_after;
    uint32_t scan_limit;
    struct hx_store_touch touch;
    struct hx_span note; /* a JSON object, at most HX_STORE_NOTE_MAX bytes: {"at","what",…} */

    /* In; of a GET its key is in and the rest out, absent and zero unless DONE. By kind. */
    union {
        struct hx_store_session session;
        struct hx_store_stream stream;
        struct hx_store_resume resume;
        struct hx_store_outbox outbox;
    };

    /* Out. */
    enum hx_store_result result;
    /* `mark_after`, and the claim is DONE: whether its mark was written, as HX_STORE_MARK would, in
     * a commit of its own after that of the claim; never in the same one, so that a crash between
     * the two leaves a claim that provably sent nothing. Not marked is no failure: HX_STORE_MARK
     * may still be tried, and tells why. */
    bool is_marked;
    struct hx_now marked_at; /* what stands in the row then */
    char error[256];         /* NOT_DONE: one sentence for people: what failed and what to do */
    struct hx_arena arena;
    struct hx_store_found *records;
    uint32_t record_count;
    int64_t ret_twin_seen; /* highest rowid of the twin digest */
    int64_t ret_scan_next; /* 0 = end */
    struct hx_span payload;
};

struct hx_store;

struct hx_store_ops {
    /* Takes `request` and everything its spans point at: they must stay valid until it is done. */
    void (*submit)(struct hx_store *store, struct hx_store_request *request);
    /* Ends one batch: everything submitted before may be committed together from now on. */
    void (*flush)(struct hx_store *store);
    /* Next finished request, or NULL. */
    struct hx_store_request *(*take_done)(struct hx_store *store);
    /* Readable when take_done has something; -1 when the store completes within flush. */
    int (*wake_fd)(struct hx_store *store);
    /* This process's owner token. */
    struct hx_id (*owner)(struct hx_store *store);
    /* The low-water mark as last read: keys older than this are expired. */
    struct hx_wall (*low_water)(struct hx_store *store);
    /* NULL while guarded calls may be taken; else why not (restored copy, I/O error, ...). */
    const char *(*refusal)(struct hx_store *store);
    /* What may be missing since an older copy was restored; the rule is the core's. */
    struct hx_gap (*gap)(struct hx_store *store);
    /* Finishes what is in flight, gives up ownership, frees, also the requests that were not taken.
     * Blocks for at most some seconds. */
    void (*close)(struct hx_store *store);
};

struct hx_store {
    const struct hx_store_ops *ops;
};

struct hx_store_request *hx_store_request_new(enum hx_store_kind kind, void *context);
struct hx_store_request *hx_store_request_free(struct hx_store_request *request);

/* For adapters. Kinds that change rows, those whose commit must be synced, and requests of other
 * kinds that must be synced too. */
bool hx_store_kind_writes(enum hx_store_kind kind);
bool hx_store_kind_is_synced(enum hx_store_kind kind);
bool hx_store_touch_is_synced(const struct hx_store_touch *touch);
/* A zeroed place behind the records found so far; NULL when the arena is exhausted. */
struct hx_store_found *hx_store_request_add(struct hx_store_request *request) HX_MUST_CHECK;
/* What makes a PUT impossible, as a sentence; NULL when nothing does. */
const char *hx_store_request_flaw(const struct hx_store_request *request);
/* Forgets results, for a request that is run again. */
void hx_store_request_forget(struct hx_store_request *request);
/* Copy `from` with everything its spans point at; false when the arena is exhausted. */
bool hx_store_session_copy(struct hx_arena *arena, const struct hx_store_session *from,
                           struct hx_store_session *ret_session) HX_MUST_CHECK;
bool hx_record_copy(struct hx_arena *arena, const struct hx_record *from,
                    struct hx_record *ret_record) HX_MUST_CHECK;

#endif
