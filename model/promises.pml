/* SPDX-License-Identifier: MIT */
/*
 * The promises, numbered as in docs/invariants.md. Each is an assertion at the moment at which it
 * could be broken; what must hold in every state is said of the whole world after every step.
 */

#define was_restored() restored

#define may_have_acted(r) (row[r].attempt == OPEN || row[r].attempt == ASKED || \
    row[r].attempt == CONFIRMED || row[r].earlier_open > 0 || row[r].earlier_asked > 0)

inline promises_of(r)
{
    /* INV-1: a keyed tool sees one effect key, an opaque one is sent to once. An idempotent tool
     * may act twice: to it that is one effect. */
    assert(CLASS == IDEMPOTENT || effects[r] <= 1);
    /* INV-5: failed means that it never happened, and never will: looked at in every later state. */
    assert(row[r].state != FAILED || effects[r] == 0 || row[r].disputed);
    assert(!told_failed[r] || effects[r] == 0);
    /* INV-8 */
    assert(row[r].state != CANCELLED || effects[r] == 0);
    assert(!told_cancelled[r] || effects[r] == 0);
    /* INV-3 */
    assert(row[r].state != SUCCEEDED || effects[r] > 0);
    /* INV-19: what the ledger does not know was never on the wire. */
    assert(row[r].state != ABSENT || effects[r] == 0 || low_water || was_restored());
    /* INV-25: the facts of the states, as core/record.c says them of a row. */
    assert(row[r].state != RUNNING || (row[r].attempt == OPEN && row[r].sends > 0 && row[r].owner > 0));
    assert(row[r].state != READY || !may_have_acted(r));
    /* INV-24: what is ready can run. The contract that says how often is of the row, and stays. */
    assert(row[r].state != READY || row[r].sends < SENDS_MAX);
    assert(row[r].state != FAILED || !may_have_acted(r));
    assert(row[r].state != CANCELLED || !may_have_acted(r));
    assert(row[r].state != AWAITING_APPROVAL || row[r].attempt == NONE);
    assert(row[r].state != INPUT_REQUIRED || row[r].attempt == ASKED || row[r].earlier_asked > 0);
    /* A parked call of the older revisions, whose attempt stays open, is left out. */
    assert(row[r].state != INPUT_REQUIRED || row[r].attempt != OPEN);
    assert(row[r].state != UNKNOWN || may_have_acted(r) || row[r].superseded || row[r].from_gap)
}

/* Something of this row is still on its way to the tool. */
#define on_its_way(m, r_) (msg[m].about == r_ && msg[m].state >= QUEUED && msg[m].state <= FLYING)
#define can_still_act(r_) (on_its_way(0, r_) || on_its_way(1, r_) || on_its_way(2, r_) || on_its_way(3, r_))

/* An outcome that any crash leaves in place. */
#define outcome_is_durable() (this_row.state == SUCCEEDED || this_row.spooled || me.spooled)

/* Somebody is told. `late`: he asked after another was told of success. */
inline tell(answer, late)
{
    told_with = answer;
    if
    :: answer == SAY_OUTCOME ->
        assert(outcome_is_durable()); /* INV-3 */
        assert(!told_failed[R]);
        told_success[R] = 1
    :: answer == SAY_FAILED ->
        assert(!told_success[R]); /* INV-6 */
        assert((effects[R] == 0 && !can_still_act(R))); /* INV-5 */
        told_failed[R] = 1
    :: answer == SAY_CANCELLED ->
        assert(!told_success[R]); /* INV-6 */
        assert(this_row.state == CANCELLED || this_row.state == EXPIRED);
        told_cancelled[R] = 1
    :: answer == SAY_OUTCOME_UNKNOWN ->
        /* INV-6: but for a process whose own commit is under way. */
        assert(!(late) || me.phase == SETTLING || this_row.spooled || was_restored())
    :: answer == SAY_LEDGER_UNAVAILABLE || answer == SAY_UPSTREAM_UNAVAILABLE ->
        /* Semantics section 8: this request sent nothing. */
        assert(!me.was_sent)
    :: else
    fi
}

#define read_later(m) (msg[m].about == R && (msg[m].state == QUEUED || msg[m].state == IN_PIPE))

/* The first byte of an attempt is about to be allowed out. */
inline promises_at_send()
{
    assert(this_row.state == RUNNING && this_row.owner == 1 + G); /* INV-2, INV-19 */
    assert(this_row.marked);                                      /* INV-2 */
    assert(me.fresh);                                             /* INV-7 */
    /* INV-21: what needs an approval has one. */
    assert(!APPROVAL || this_row.approved);
    /* INV-14: what may have acted is followed only by what the contract allows. */
    assert(this_row.earlier_open == 0 || CLASS == IDEMPOTENT || CLASS == KEYED);
    /* Semantics section 6: an idempotent tool never gets the same in a changed order. */
    assert(CLASS != IDEMPOTENT || REORDER_SAFE ||
           !(read_later(0) || read_later(1) || read_later(2) || read_later(3)))
}

/* A row is about to be written in another state. The move itself is one of core/op.def (INV-4: no
 * final state has a move but to expired). */
inline move(to)
{
    assert(MAY_MOVE(this_row.state, to));
    /* INV-12: unknown is left by evidence, proof, people, or the same effect key again. */
    assert(this_row.state != UNKNOWN || me.write == W_EVIDENCE || me.write == W_ABSENT ||
           me.write == W_ABSENT_AGAIN || me.write == W_HAPPENED || me.write == W_NONE ||
           (me.write == W_CLAIM && (CLASS == IDEMPOTENT || CLASS == KEYED)));
    this_row.state = to
}
