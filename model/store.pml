/* SPDX-License-Identifier: MIT */
/*
 * The ledger: what a write requires, what it makes of the row, and what the gateway does next. The
 * commit and its answer are one step; a crash between the two is a crash just after it, since the
 * only things that leave the process then are a request not yet read and an answer that may be lost.
 */

/* The state that a write leads to. */
inline state_after(ret)
{
    if
    :: me.write == W_CLAIM || me.write == W_TAKE_OVER || me.write == W_REFUSED_AGAIN -> ret = RUNNING
    :: me.write == W_GIVE_BACK ->
        if
        :: this_row.earlier_open > 0 -> ret = UNKNOWN
        :: this_row.earlier_open == 0 && this_row.earlier_asked > 0 -> ret = INPUT_REQUIRED
        :: else -> ret = READY
        fi
    :: me.write == W_UNKNOWN || me.write == W_REFUSED_UNKNOWN || me.write == W_GAP -> ret = UNKNOWN
    :: me.write == W_SETTLE || me.write == W_EVIDENCE || me.write == W_HAPPENED -> ret = SUCCEEDED
    :: me.write == W_ASKED -> ret = INPUT_REQUIRED
    :: me.write == W_REFUSED || me.write == W_ABSENT -> ret = FAILED
    :: me.write == W_REFUSED_LATER || me.write == W_ABSENT_AGAIN || me.write == W_APPROVE -> ret = READY
    :: me.write == W_CANCEL || me.write == W_TOMBSTONE || me.write == W_DENY -> ret = CANCELLED
    :: me.write == W_WAIT_APPROVAL -> ret = AWAITING_APPROVAL
    :: me.write == W_RETIRE || me.write == W_ROUND_EXPIRED -> ret = EXPIRED
    :: me.write == W_AGAIN || me.write == W_SUCCESSOR || me.write == W_HUMAN ||
       me.write == W_DISPUTE -> ret = this_row.state
    fi
}

/* Whoever writes raises the fence, but for an owner that ends its own attempt: every other copy is
 * stale then. */
inline raise_fence()
{
    other.fresh = 0
}

inline archive_attempt()
{
    if
    :: this_row.attempt == OPEN ->
        this_row.earlier_open++;
        this_row.ever_marked = 1
    :: this_row.attempt == ASKED -> this_row.earlier_asked++
    :: this_row.attempt == REFUSED -> this_row.earlier_refused = 1
    :: else
    fi
}

inline bury_attempt()
{
    assert(this_row.attempt == OPEN && this_row.sends > 0);
    this_row.attempt = DEAD;
    this_row.sends--
}

/* Another attempt of ours, under the same effect key (INV-13). */
inline begin_attempt()
{
    archive_attempt();
    this_row.attempt = OPEN;
    this_row.marked = 0;
    this_row.mark_synced = 0;
    this_row.sends++;
    this_row.owner = 1 + G;
    this_row.epoch_current = 1;
    this_row.transport_gone = 0;
    this_row.bound_over = 0;
    this_row.other_boot = 0;
    this_row.not_before = 0;
    other.same_attempt = 0;
    if
    :: said != 0 && said_of == R -> said_past = 1
    :: else
    fi
}

inline refuse_all_attempts()
{
    if
    :: this_row.earlier_open > 0 || this_row.earlier_asked > 0 -> this_row.earlier_refused = 1
    :: else
    fi;
    if
    :: this_row.attempt == OPEN || this_row.attempt == ASKED -> this_row.attempt = REFUSED
    :: else
    fi;
    this_row.earlier_open = 0;
    this_row.earlier_asked = 0
}

inline confirm_attempt()
{
    if
    :: this_row.attempt == OPEN || this_row.attempt == ASKED -> this_row.attempt = CONFIRMED
    :: else
    fi
}

/* The bound is counted from the last mark, and again from the moment at which the outcome was called
 * unknown: a sender that was paused between its mark and its first byte sends much later. */
inline note_unknown()
{
    this_row.bound_over = 0;
    if
    :: !this_row.marked -> this_row.other_boot = 0
    :: else
    fi
}

/* A retry of a row of a restored copy may have made one before, and run it. A person who says "again"
 * answers for that. */
inline make_successor()
{
    if
    :: me.write == W_SUCCESSOR && key_is_from_gap ->
        row[1].state = UNKNOWN;
        row[1].from_gap = 1
    :: else -> row[1].state = (APPROVAL -> AWAITING_APPROVAL : READY)
    fi;
    this_row.has_successor = 1
}

/* Makes of the row what the write says. `told_with` holds the state after. */
inline apply_write()
{
    if
    :: me.write == W_CLAIM -> begin_attempt()
    :: me.write == W_TAKE_OVER ->
        bury_attempt();
        begin_attempt()
    :: me.write == W_GIVE_BACK -> bury_attempt()
    :: me.write == W_UNKNOWN -> this_row.attempt = OPEN
    :: me.write == W_SETTLE || me.write == W_HAPPENED -> confirm_attempt()
    :: me.write == W_EVIDENCE ->
        if
        :: this_row.state == READY -> this_row.disputed = 1
        :: else
        fi;
        confirm_attempt()
    :: me.write == W_ASKED -> this_row.attempt = ASKED
    :: me.write == W_REFUSED || me.write == W_REFUSED_UNKNOWN -> this_row.attempt = REFUSED
    :: me.write == W_REFUSED_LATER ->
        this_row.attempt = REFUSED;
        this_row.not_before = 1
    :: me.write == W_REFUSED_AGAIN ->
        this_row.attempt = REFUSED;
        begin_attempt()
    :: me.write == W_CANCEL ->
        if
        :: this_row.state == RUNNING -> bury_attempt()
        :: else
        fi
    :: me.write == W_TOMBSTONE -> this_row.tombstone = 1
    :: me.write == W_ABSENT || me.write == W_ABSENT_AGAIN -> refuse_all_attempts()
    :: me.write == W_AGAIN ->
        this_row.superseded = 1;
        make_successor()
    :: me.write == W_SUCCESSOR -> make_successor()
    :: me.write == W_HUMAN -> this_row.needs_human = 1
    :: me.write == W_APPROVE -> this_row.approved = 1
    :: me.write == W_GAP -> this_row.from_gap = 1
    :: me.write == W_DISPUTE -> this_row.disputed = 1
    :: me.write == W_RETIRE || me.write == W_WAIT_APPROVAL || me.write == W_DENY ||
       me.write == W_ROUND_EXPIRED
    fi;
    if
    :: this_row.state != told_with || told_with == RUNNING ->
        if
        :: told_with == UNKNOWN -> note_unknown()
        :: else
        fi;
        move(told_with)
    :: else
    fi;
    if
    :: me.write != W_SETTLE && me.write != W_ASKED -> raise_fence()
    :: else
    fi
}

#define is_insert (me.write == W_TOMBSTONE || me.write == W_GAP || me.write == W_WAIT_APPROVAL || \
    (me.write == W_CLAIM && me.inserts))
/* A mark that an error of the ledger may have taken along proves nothing by its absence: the epoch of
 * the claim must not be over. */
#define may_be_written ( \
    (is_insert && this_row.state == ABSENT || \
     !is_insert && me.fresh && this_row.state != ABSENT) && \
    !(me.if_unmarked && (this_row.marked || !proves_unsent)) && \
    !((me.write == W_AGAIN || me.write == W_SUCCESSOR) && row[1].state != ABSENT) && \
    MAY_BECOME(this_row.state, told_with))

/* Marked: now the bytes may leave. */
inline send_marked()
{
    if
    :: !run_is_wanted -> submit(W_GIVE_BACK, WRITING)
    :: else -> send()
    fi
}

/* What follows from a row that has just become durable; `flag` as in run_when_due. */
inline go_on_after_write()
{
    if
    :: this_row.state == RUNNING ->
        if
        :: !run_is_wanted -> submit(W_GIVE_BACK, WRITING)
        :: else -> me.phase = MARKING
        fi
    :: this_row.state == READY ->
        if
        :: !me.waiting && !this_row.approved
        :: (me.waiting || this_row.approved) && me.failed_start ->
            if
            :: flag ->
                me.failed_start = 0;
                answer_all(SAY_UPSTREAM_UNAVAILABLE)
            :: else -> me.look_due = 1
            fi
        :: else -> run_when_due()
        fi
    :: this_row.state == UNKNOWN ->
        if
        :: this_row.superseded -> follow()
        :: else
        fi
    :: this_row.state == AWAITING_APPROVAL
    :: this_row.state == INPUT_REQUIRED || this_row.state == SUCCEEDED ||
       this_row.state == FAILED || this_row.state == CANCELLED || this_row.state == EXPIRED ->
        current_answer(told_with);
        answer_all(told_with)
    fi
}

inline on_stored()
{
    if
    :: me.phase == MARKING ->
        this_row.marked = 1;
        me.was_marked = 1;
        this_row.mark_synced = TWO_HOSTS;
        this_row.ever_marked = 1;
        me.phase = IDLE;
        send_marked()
    :: else ->
        flag_follow = (me.write == W_AGAIN || me.write == W_SUCCESSOR);
        flag_cancelled = (me.verb && (me.write == W_CANCEL || me.write == W_TOMBSTONE));
        apply_write();
        me.was_marked = this_row.marked;
        this_row.mark_synced = this_row.marked; /* a synced commit takes along what came before */
        me.phase = IDLE;
        me.write = W_NONE;
        me.if_unmarked = 0;
        me.inserts = 0;
        me.spooled = 0;
        me.spooling = 0;
        if
        :: me.verb ->
            me.verb = 0;
            tell(SAY_DONE, 0);
            note_answer("caller") told_with = 0;
            if
            :: flag_cancelled -> told_cancelled[R] = 1 /* this is what "done" says of a cancel */
            :: else
            fi
        :: else
        fi;
        if
        :: flag_follow -> follow()
        :: else -> go_on_after_write()
        fi
    fi
}

/* Somebody else changed the row first: what was wanted is void, the row as it is now decides. But an
 * outcome stays true, and is handed in again. */
inline on_stale()
{
    flag_outcome = (me.phase != MARKING && !me.verb && (me.write == W_SETTLE || me.write == W_EVIDENCE));
    flag_follow = (me.write == W_SUCCESSOR || is_insert);
    flag_past = (!me.same_attempt &&
                 (me.write == W_AGAIN || me.write == W_ABSENT || me.write == W_ABSENT_AGAIN));
    me.phase = IDLE;
    me.if_unmarked = 0;
    me.spooled = 0;
    me.spooling = 0;
    me.inserts = 0;
    me.write = W_NONE;
    if
    :: me.verb ->
        me.verb = 0;
        if
        :: flag_past ->
            me.deferred = 0;
            answer_caller(SAY_NOT_APPLIED)
        :: else -> me.deferred_now = 1 /* judged again */
        fi
    :: else -> me.deferred = 0
    fi;
    if
    :: this_row.state == ABSENT -> /* gone under our hands: no row that may have acted goes */
        follow()
    :: this_row.state != ABSENT && flag_follow -> follow()
    :: else ->
        me.fresh = 1;
        if
        :: flag_outcome -> on_evidence()
        :: else
        fi
    fi
}

inline on_store_failed()
{
    if
    :: me.phase == SETTLING ->
        me.retry_due = 1;
        me.spooling = !me.spooled
    :: else ->
        me.phase = IDLE;
        me.if_unmarked = 0;
        me.inserts = 0;
        flag_past = me.verb;
        me.verb = 0;
        me.deferred = 0;
        me.write = W_NONE;
        if
        :: flag_past ->
            told_with = SAY_LEDGER_UNAVAILABLE;
            note_answer("caller") told_with = 0
        :: else
        fi;
        if
        :: this_row.earlier_open > 0 ||
           (this_row.attempt == OPEN && (me.was_marked || this_row.state == UNKNOWN)) ->
            answer_all(SAY_OUTCOME_UNKNOWN)
        :: else -> answer_all(SAY_LEDGER_UNAVAILABLE)
        fi;
        if
        :: this_row.state == RUNNING -> me.look_due = 1
        :: else
        fi
    fi
}

/* The write in flight meets the ledger. */
inline commit()
{
    if
    :: me.phase == MARKING -> flag_ok = (me.fresh && !this_row.marked)
    :: else ->
        state_after(told_with);
        flag_ok = may_be_written
    fi;
    if
    :: flag_ok ->
        snap()
        on_stored()
    :: else ->
        E = STALE;
        snap()
        on_stale()
    fi;
    flag_ok = 0
}

/* Reads the row before an idle operation decides anything. What a dead owner left in its spool is
 * applied first. */
inline load()
{
    if
    :: this_row.spooled ->
        this_row.spooled = 0;
        if
        :: this_row.state == RUNNING || this_row.state == UNKNOWN ->
            this_row.attempt = CONFIRMED;
            this_row.state = SUCCEEDED;
            raise_fence()
        :: else
        fi
    :: else
    fi;
    if
    :: me.phase == IDLE ->
        me.fresh = 1;
        me.same_attempt = me.same_attempt || !me.deferred_now;
        me.was_marked = this_row.marked
    :: else
    fi
}

inline lose_mark(r)
{
    if
    :: row[r].marked && !row[r].mark_synced ->
        row[r].marked = 0;
        row[r].epoch_current = 0
    :: else
    fi
}

/* An I/O error of the ledger: the epoch of the claims is over, marks may be gone. */
inline lose_marks(r)
{
    lose_mark(r);
    row[r].epoch_current = 0
}
