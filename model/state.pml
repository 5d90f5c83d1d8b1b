/* SPDX-License-Identifier: MIT */
/* What is durable, what each gateway holds in memory, what is on the wire, and the truth. */

/* An attempt: open, asked, confirmed, refused, dead, as in core/record.h. */
#define NONE 0
#define OPEN 1
#define ASKED 2
#define CONFIRMED 3
#define REFUSED 4
#define DEAD 5

/* A row. Row 0 is the operation, row 1 its successor. Fences are not numbers here: a fence that
 * rises makes every other gateway's copy stale, and that is all a fence does. */
typedef row_t {
    unsigned state : 4;
    unsigned attempt : 3;
    unsigned owner : 3; /* 0 nobody, 1 + g the living gateway g, 3 + g a dead process of g */
    unsigned sends : 2;
    unsigned earlier_open : 2;
    unsigned earlier_asked : 2;
    bit earlier_refused;
    bit marked;
    bit mark_synced;
    bit epoch_current; /* of the claim */
    bit ever_marked;
    bit transport_gone; /* of the present attempt */
    bit bound_over;     /* the in-flight bound, since the last mark */
    bit other_boot;     /* the moment it is counted from lies in another boot */
    bit horizon_over;   /* since the first mark */
    bit not_before;     /* a refusal asked for time */
    bit superseded;
    bit has_successor;
    bit tombstone;
    bit approved;
    bit needs_human;
    bit disputed;
    bit from_gap; /* the key was opened after a restore: nothing is known of it */
    bit spooled; /* the outcome is in the spool of a dead process */
    bit cancel_requested;
}
row_t row[ROWS];
bit low_water; /* committed: the key's time lies below it */

/* What a gateway is writing. */
#define W_NONE 0
#define W_CLAIM 1         /* a new attempt; what was before stays as it is */
#define W_TAKE_OVER 2     /* a new attempt in the place of one that never left */
#define W_GIVE_BACK 3     /* the attempt never left */
#define W_UNKNOWN 4
#define W_SETTLE 5        /* an outcome, by the owner */
#define W_EVIDENCE 6      /* an outcome, by whoever has it */
#define W_ASKED 7
#define W_REFUSED 8       /* nothing was sent before: failed */
#define W_REFUSED_LATER 9 /* ... ready, with a time before which not */
#define W_REFUSED_UNKNOWN 10
#define W_REFUSED_AGAIN 11
#define W_CANCEL 12
#define W_TOMBSTONE 13
#define W_ABSENT 14
#define W_ABSENT_AGAIN 15 /* absent, and the contract says to run it again */
#define W_HAPPENED 16
#define W_AGAIN 17        /* superseded, with its successor */
#define W_SUCCESSOR 18
#define W_HUMAN 19
#define W_RETIRE 20
#define W_WAIT_APPROVAL 21
#define W_APPROVE 22
#define W_DENY 23
#define W_GAP 24
#define W_DISPUTE 25
#define W_ROUND_EXPIRED 26

typedef op_t {
    unsigned phase : 3;
    unsigned write : 5;
    bit fresh;         /* nobody raised the fence since this copy was read */
    bit same_attempt;  /* nobody began another attempt since */
    bit was_marked;    /* the copy says so */
    bit if_unmarked;   /* the write in flight requires it */
    bit waiting;       /* somebody waits here for the outcome */
    bit waited_late;   /* ... who asked after another was told of success */
    bit was_sent;      /* a request left while somebody waited here */
    bit verb;          /* a caller waits for the write itself */
    bit look_due;
    bit lost_due;      /* the attempt in hand will bring nothing more, which is not yet noticed */
    bit spooling;
    bit spooled;
    bit retry_due;
    bit failed_start;
    unsigned deferred : 5; /* a verb to be judged again */
    bit deferred_now;
    bit inserts;           /* the claim is of a row that is not there yet */
    bit again;             /* callers to be taken in again, at the newest row */
}
op_t op[GATEWAYS * ROWS];

/* A request on its way to the tool. */
#define FREE 0
#define QUEUED 1   /* not a byte has left */
#define IN_PIPE 2  /* the tool may run it */
#define FLYING 3   /* its server is gone, what it began may still act */
#define ANSWERED 4 /* it acted; the reply is on its way */
typedef message_t {
    unsigned state : 3;
    bit sender;
    bit about; /* the row */
    bit is_orphan; /* its gateway died */
    bit in_hand;   /* its gateway waits for it */
}
message_t msg[MESSAGES];
bit lease[GATEWAYS]; /* two hosts: may others think that it lives */

/* The truth, which no gateway can see. */
byte effects[ROWS];
bit known_to_tool[ROWS];
bit told_success[ROWS];
bit told_cancelled[ROWS];
bit told_failed[ROWS];

/* What is left of the limits; `begin` sets them. */
unsigned calls_left : 3;
unsigned kills_left : 2;
unsigned host_crashes_left : 2;
unsigned errors_left : 2;
unsigned unsent_left : 2;
unsigned refusals_left : 2;
unsigned rounds_left : 2;
unsigned cancels_left : 2;
unsigned decisions_left : 2;
unsigned retries_left : 2;
unsigned leases_left : 2;
bit faults_over;

/* A person has looked and will say this of row `said_of`; then another attempt may be made. */
unsigned said : 5;
bit said_of;
bit said_past;

row_t copy[ROWS];
bit has_copy;
bit restored;

/* What a gateway knows of a key that no row has. */
#define key_is_from_gap_now now.restored
#define key_is_from_gap restored

/* Scratch of one step, 0 between steps: gateway, row, event, and what the event says. */
bit G;
bit R;
unsigned E : 5;
bit flag;
bit past; /* the decision is about an older attempt */
bit gone; /* the event itself says that the transport is closed */
unsigned told_with : 5;
bit flag_ok;
bit flag_follow;
bit flag_cancelled;
bit flag_outcome;
bit flag_past;

#define this_row row[R]
#define me op[2 * G + R]
#define other op[2 * (1 - G) + R]

/* With -DTABLE the verifier notes every decision, to be compared with the core's table. */
#ifdef TABLE
c_decl { \#include "table.h" }
#define table_row now.row[now.R]
#define table_op now.op[2 * now.G + now.R]
#define snap() c_code { \
    table_len = 0; \
    table_add("event", now.E); \
    TABLE_ROW("", table_row); TABLE_OP("", table_op); \
    table_add("valid", table_op.phase == IDLE || (table_op.inserts ? table_row.state == ABSENT : table_op.fresh || table_row.state == ABSENT)); \
    table_add("verb", table_op.verb); table_add("waiting", table_op.waiting); \
    table_add("failed_start", table_op.failed_start); \
    table_add("spooled", table_op.spooled); table_add("retry_due", table_op.retry_due); \
    table_add("refused", table_row.earlier_refused); table_add("marked", table_row.marked); \
    table_add("was_marked", table_op.was_marked); \
    table_add("epoch", table_row.epoch_current); table_add("ever_marked", table_row.ever_marked); \
    table_add("superseded", table_row.superseded); table_add("successor", table_row.has_successor); \
    table_add("tombstone", table_row.tombstone); table_add("approved", table_row.approved); \
    table_add("needs_human", table_row.needs_human); table_add("disputed", table_row.disputed); \
    table_add("not_before", table_row.not_before); table_add("horizon_over", table_row.horizon_over); \
    table_add("owner", table_row.owner); table_add("g", now.G); table_add("row", now.R); \
    table_add("lease", now.lease[1 - now.G]); table_add("hosts", TWO_HOSTS); \
    table_add("gone", now.gone); table_add("transport_gone", table_row.transport_gone); \
    table_add("bound_over", table_row.bound_over && !table_row.other_boot); \
    table_add("flag", now.flag); table_add("past", now.past); table_add("class", CLASS); \
    table_add("reorder_safe", REORDER_SAFE); table_add("retries", RETRY_AFTER_PROOF); \
    table_add("approval", APPROVAL); table_add("gap", key_is_from_gap_now); \
    table_add("restored", table_row.from_gap); \
    table_add("low_water", now.low_water); };
#define note_decision() c_code { \
    if (table_len > 0) { \
        TABLE_ROW("after_", table_row); TABLE_OP("after_", table_op); \
        table_add("after_not_before", table_row.not_before); \
        table_end(); \
    } };
#define note(what, value) c_code { table_note(what, value); };
#define note_answer(what) c_code { table_note(what, now.told_with); };
#else
#define snap()
#define note_decision()
#define note(what, value)
#define note_answer(what)
#endif

/* With -DSTORY a counterexample can be read: spin -DSTORY ... -t hapax.pml (see README.md). */
#ifdef STORY
#define note_chosen() printf("event %d at gateway %d, row %d: ", E, G, R);
#define note_story() printf("row 0: state=%d attempt=%d marked=%d open=%d owner=%d sends=%d | row 1: state=%d attempt=%d | phases %d %d %d %d writes %d %d fresh %d %d waiting %d %d | messages %d %d %d | effects %d %d | told s%d f%d c%d said %d low %d over %d/%d\n", \
    row[0].state, row[0].attempt, row[0].marked, row[0].earlier_open, row[0].owner, row[0].sends, \
    row[1].state, row[1].attempt, op[0].phase, op[2].phase, op[1].phase, op[3].phase, \
    op[0].write, op[2].write, op[0].fresh, op[2].fresh, op[0].waiting, op[2].waiting, \
    msg[0].state, msg[1].state, msg[2].state, effects[0], effects[1], \
    told_success[0], told_failed[0], told_cancelled[0], said, low_water, row[0].bound_over, row[0].horizon_over);
#else
#define note_chosen()
#define note_story()
#endif
