/* SPDX-License-Identifier: MIT */
/* What a gateway process does by itself, and how an event is given to an operation. */

/* Chooses what happens next; `step` below carries it out. */
inline choose(g, r, event)
{
    G = g;
    R = r;
    E = event
}

/* The row as it is now, for an operation that holds no copy of it. */
inline begin_event()
{
    load();
    snap() told_with = 0
}

/* An idle operation holds nothing but its waiters. */
inline end_event()
{
    note_decision()
    if
    :: me.phase == IDLE ->
        me.write = W_NONE;
        me.fresh = 0;
        me.was_marked = 0;
        me.if_unmarked = 0;
        me.retry_due = 0;
        if
        :: !me.deferred_now ->
            me.same_attempt = 0;
            me.deferred = 0
        :: else
        fi;
        if
        :: !me.waiting ->
            me.look_due = 0;
            me.failed_start = 0
        :: else
        fi
    :: else
    fi;
    told_with = 0;
    flag = 0;
    past = 0;
    gone = 0;
    flag_follow = 0;
    flag_cancelled = 0;
    flag_outcome = 0;
    flag_past = 0;
    G = 0;
    R = 0;
    E = 0
}

/* Hands the request to the transport. */
inline send()
{
    promises_at_send();
    me.phase = SENDING;
    me.was_sent = me.waiting;
    let_go_older(0);
    let_go_older(1);
    let_go_older(2);
    let_go_older(3);
    if
    :: msg[0].state == FREE -> put_message(0)
    :: msg[0].state != FREE && msg[1].state == FREE -> put_message(1)
    :: msg[0].state != FREE && msg[1].state != FREE && msg[2].state == FREE -> put_message(2)
    :: else ->
        assert(msg[3].state == FREE);
        put_message(3)
    fi
}

inline put_message(m)
{
    assert(R == 1 || m < 2); /* two attempts; the successor's come after. See bound_passes. */
    msg[m].state = QUEUED;
    msg[m].sender = G;
    msg[m].about = R;
    msg[m].in_hand = 1
}

/* An attempt given up earlier, whose message is still about. */
inline let_go_older(m)
{
    if
    :: msg[m].state != FREE && msg[m].sender == G && msg[m].about == R -> let_go(m)
    :: else
    fi
}

inline forget_message(m)
{
    msg[m].state = FREE;
    msg[m].sender = 0;
    msg[m].about = 0;
    msg[m].is_orphan = 0;
    msg[m].in_hand = 0
}

/* The attempt is not in the gateway's hands any more: what comes of it later is evidence. */
inline let_go(m)
{
    msg[m].in_hand = 0
}

#define my op[2 * g + r]
#define is_quiet (op[0].phase == IDLE && op[1].phase == IDLE && op[2].phase == IDLE && op[3].phase == IDLE)
/* The sweeper looks at what a dead owner left at once, at other open work when all is quiet. */
#define is_swept (row[r].owner == 3 || row[r].owner == 4 || is_quiet || TWO_HOSTS)
/* A look that can change nothing is not made: the model is to come to rest. */
#define off_for(g, r) (row[r].owner == 0 || (row[r].owner == 2 - g && (!TWO_HOSTS || lease[1 - g])))
#define resendable(r) (row[r].sends < SENDS_MAX && row[r].attempt != NONE && \
    (CLASS == KEYED && !row[r].horizon_over || CLASS == IDEMPOTENT && \
     (REORDER_SAFE || row[r].transport_gone && row[r].owner != 2 - g && (!TWO_HOSTS || row[r].owner != 4 - g))))
#define look_matters ( \
    row[r].spooled || \
    row[r].state == RUNNING && !off_for(g, r) && (is_swept || my.waiting || my.look_due) || \
    row[r].state == READY && (my.waiting && (my.look_due || !row[r].not_before) || row[r].approved) && \
        (!row[r].not_before || my.waiting) || \
    row[r].state == UNKNOWN && (row[r].superseded && my.waiting || \
        !row[r].superseded && resendable(r)) || \
    row[r].state >= INPUT_REQUIRED && row[r].state != UNKNOWN && my.waiting)
#define is_idle (my.phase == IDLE && !my.deferred_now)
#define is_under_way (my.phase == WRITING || my.phase == MARKING || (my.phase == SETTLING && !my.retry_due))

inline gateway(g, r)
{
    if
    :: is_under_way -> /* the ledger does what was asked of it */
        choose(g, r, STORED)
    :: my.phase == WRITING && (my.waiting || row[r].approved) &&
       (my.failed_start || my.write == W_REFUSED_LATER) ->
        choose(g, r, STORED); /* ... after a start that took too long, or with a time too far off */
        flag = 1
    :: errors_left > 0 && is_under_way -> /* the ledger fails: nothing was written */
        errors_left--;
        choose(g, r, STORE_FAILED)
    :: errors_left > 0 && is_under_way && !TWO_HOSTS -> /* ... and marks not synced may be gone */
        errors_left--;
        lose_marks(0);
        lose_marks(1);
        choose(g, r, STORE_FAILED)
    :: my.spooling -> /* the spool is synced */
        my.spooling = 0;
        choose(g, r, SPOOLED)
    :: my.phase == SETTLING && my.retry_due && !my.spooling -> /* the commit is tried again */
        choose(g, r, LOOK)
    :: my.deferred_now -> /* a verb is judged again */
        past = !my.same_attempt;
        flag = 1;
        choose(g, r, my.deferred);
        me.deferred_now = 0
    :: my.lost_due && (my.phase == SENDING || my.phase == AWAITING) ->
        my.lost_due = 0; /* the server of the attempt in hand has ended, or its time */
        gone = row[r].transport_gone;
        choose(g, r, LOST)
    :: is_idle && look_matters -> /* a poll of a waiter, the sweeper */
        my.look_due = 0;
        choose(g, r, LOOK)
    :: is_idle && row[r].state == READY && row[r].not_before && (my.waiting || row[r].approved) ->
        my.look_due = 0; /* the time is too far off to wait for */
        flag = 1;
        choose(g, r, LOOK)
    :: is_idle && row[r].state == UNKNOWN && !row[r].superseded && !row[r].needs_human && is_quiet ->
        choose(g, r, HUMAN_DUE) /* after a quarter of an hour of not knowing */
    :: ROUNDS > 0 && is_idle && row[r].state == INPUT_REQUIRED && is_quiet ->
        flag = 1; /* a question that nobody answered in a day */
        choose(g, r, LOOK)
    :: APPROVAL && is_idle && row[r].state == AWAITING_APPROVAL && is_quiet ->
        flag = 1; /* an approval that nobody gave or refused in a day */
        choose(g, r, LOOK)
    fi
}

inline on_spooled()
{
    if
    :: me.phase == SETTLING && !me.spooled ->
        me.spooled = 1;
        if
        :: me.write == W_ASKED -> answer_all(SAY_INPUT_REQUIRED)
        :: else -> answer_all(SAY_OUTCOME)
        fi
    :: else
    fi
}

inline on_first_byte()
{
    if
    :: me.phase == SENDING ->
        me.phase = AWAITING;
        me.failed_start = 0
    :: else
    fi
}

/* INV-18: a call that finds no row is asked for the time of its key. */
inline on_arrival()
{
    if
    :: this_row.state == ABSENT && low_water && me.phase == IDLE -> tell(SAY_KEY_EXPIRED, told_success[R])
    :: else ->
        if
        :: E == RETRY && retry_is_special -> on_retry()
        :: else -> on_call()
        fi
    fi
}

/* Gives the chosen event to the operation. */
inline step()
{
    note_chosen()
    if
    :: E == STORED -> commit()
    :: E != STORED ->
        begin_event();
        if
        :: E == CALL || E == RETRY -> on_arrival()
        :: E == LOOK -> on_look()
        :: E == WAIT_OVER -> on_wait_over()
        :: E == STORE_FAILED -> on_store_failed()
        :: E == SPOOLED -> on_spooled()
        :: E == FIRST_BYTE -> on_first_byte()
        :: E == NOT_SENT -> on_not_sent()
        :: E == REPLY -> submit(W_SETTLE, SETTLING)
        :: E == EVIDENCE -> on_evidence()
        :: E == INPUT_WANTED -> submit(W_ASKED, SETTLING)
        :: E == REFUSED_FINAL || E == REFUSED_TRANSIENT -> on_refused()
        :: E == LOST -> on_lost()
        :: E == RETENTION_DUE -> on_retention()
        :: E == CANCEL && this_row.state == ABSENT && low_water -> tell(SAY_KEY_EXPIRED, told_success[R])
        :: E >= ABSENCE_PROVED && !(E == CANCEL && this_row.state == ABSENT && low_water) && E <= HUMAN_DUE && E != RETRY -> on_verb()
        fi
    fi;
    end_event()
}
