/* SPDX-License-Identifier: MIT */
/*
 * The decisions: what an event means for an operation in its state. The gateway G, the row R and
 * the event E are set, and the copy in memory is the row as it is (an idle operation is read again
 * before it decides) or, while an attempt is in hand, the row as this gateway wrote it.
 */

/* The hands in which the row is. */
#define owner_is_me (this_row.owner == 1 + G)
#define owner_is_other (this_row.owner == 2 - G)
#define hands_are_off (this_row.owner == 0 || (owner_is_other && (!TWO_HOSTS || lease[1 - G])))
#define owner_is_dead (this_row.owner == 3 + G || (this_row.owner == 4 - G && !TWO_HOSTS))

/* Nobody else's transport can be looked at on another host. */
#define sender_is_gone (gone || (this_row.transport_gone && (owner_is_me || owner_is_dead)))
#define proves_unsent (this_row.epoch_current || TWO_HOSTS)

#define is_unsent (this_row.attempt == NONE || this_row.attempt == DEAD || \
    this_row.attempt == REFUSED || (this_row.attempt == OPEN && !this_row.marked && proves_unsent))
#define nothing_before (this_row.earlier_open == 0 && this_row.earlier_asked == 0)
#define attempts_left (this_row.sends < SENDS_MAX)
#define may_send_again ((CLASS == IDEMPOTENT && (sender_is_gone || REORDER_SAFE) || \
    CLASS == KEYED && !this_row.horizon_over) && \
    attempts_left && !this_row.from_gap && this_row.attempt != CONFIRMED)
#define absence_is_provable (sender_is_gone && this_row.bound_over && !this_row.other_boot)
#define run_is_wanted (me.waiting || this_row.approved || !nothing_before)
#define is_in_hand (me.phase == SENDING || me.phase == AWAITING)
#define is_writing (me.phase == WRITING || me.phase == MARKING || me.phase == SETTLING)

inline submit(what, in_phase)
{
    me.write = what;
    me.phase = in_phase;
    me.retry_due = 0
}

inline join()
{
    note("join", 1) me.waiting = 1;
    if
    :: told_success[R] -> me.waited_late = 1
    :: else
    fi
}

inline nobody_waits()
{
    me.waiting = 0;
    me.waited_late = 0;
    me.was_sent = 0
}

inline answer_caller(answer)
{
    tell(answer, told_success[R]);
    note_answer("caller") told_with = 0
}

inline answer_all(answer)
{
    if
    :: me.waiting -> tell(answer, me.waited_late)
    :: else -> told_with = answer
    fi;
    note_answer("all") nobody_waits()
}

/* The callers are taken in again: another row speaks for them. */
inline follow()
{
    if
    :: me.waiting || E == CALL || E == RETRY -> me.again = 1
    :: else
    fi;
    note("follow", 1) nobody_waits()
}

/* What the row answers to anybody. */
inline current_answer(ret)
{
    if
    :: this_row.state == ABSENT || this_row.state == READY || this_row.state == RUNNING ->
        ret = SAY_BUSY
    :: this_row.state == AWAITING_APPROVAL -> ret = SAY_APPROVAL_REQUIRED
    :: this_row.state == INPUT_REQUIRED -> ret = SAY_INPUT_REQUIRED
    :: this_row.state == SUCCEEDED -> ret = SAY_OUTCOME
    :: this_row.state == FAILED -> ret = SAY_FAILED
    :: this_row.state == UNKNOWN -> ret = SAY_OUTCOME_UNKNOWN
    :: this_row.state == CANCELLED -> ret = SAY_CANCELLED
    :: this_row.state == EXPIRED -> ret = SAY_KEY_EXPIRED
    fi
}

/* A running operation that nobody here works on. */
inline judge_running()
{
    if
    :: hands_are_off /* somebody else's; watched */
    :: else ->
        if
        :: is_unsent ->
            me.if_unmarked = 1;
            if
            :: (me.waiting || this_row.approved) && nothing_before -> submit(W_TAKE_OVER, WRITING)
            :: else -> submit(W_GIVE_BACK, WRITING)
            fi
        :: else ->
            if
            :: me.waiting && may_send_again -> submit(W_CLAIM, WRITING)
            :: else -> submit(W_UNKNOWN, WRITING)
            fi
        fi
    fi
}

/* `flag`: the contract wants an approval for these arguments; or the call continues a round. */
inline on_call()
{
    if
    :: me.phase == SETTLING && me.spooled ->
        if
        :: me.write == W_ASKED -> answer_caller(SAY_INPUT_REQUIRED)
        :: else -> answer_caller(SAY_OUTCOME)
        fi
    :: me.phase != IDLE && !(me.phase == SETTLING && me.spooled) -> join()
    :: me.phase == IDLE && this_row.superseded -> follow()
    :: me.phase == IDLE && !this_row.superseded ->
        if
        :: this_row.state == ABSENT ->
            join();
            if
            :: key_is_from_gap -> submit(W_GAP, WRITING)
            :: !key_is_from_gap && APPROVAL -> submit(W_WAIT_APPROVAL, WRITING)
            :: else ->
                me.inserts = 1;
                submit(W_CLAIM, WRITING)
            fi
        :: this_row.state == AWAITING_APPROVAL -> join()
        :: this_row.state == READY ->
            if
            :: this_row.not_before -> answer_caller(SAY_BUSY)
            :: else ->
                me.failed_start = 0;
                join();
                submit(W_CLAIM, WRITING)
            fi
        :: this_row.state == RUNNING ->
            join();
            judge_running()
        :: this_row.state == INPUT_REQUIRED ->
            if
            :: flag && attempts_left ->
                join();
                submit(W_CLAIM, WRITING)
            :: else -> answer_caller(SAY_INPUT_REQUIRED)
            fi
        :: this_row.state == UNKNOWN ->
            join();
            if
            :: may_send_again -> submit(W_CLAIM, WRITING)
            :: else
            fi
        :: this_row.state >= SUCCEEDED && this_row.state != UNKNOWN ->
            current_answer(told_with);
            answer_caller(told_with)
        fi
    fi
}

/* An operation that is ready has an attempt left (promises.pml). `flag`: more time than a caller
 * waits, or than three tries at starting a server get. */
inline run_when_due()
{
    if
    :: !this_row.not_before -> submit(W_CLAIM, WRITING)
    :: else ->
        if
        :: flag -> answer_all(SAY_BUSY)
        :: else -> me.look_due = 1
        fi
    fi
}

/* `flag`: as in run_when_due; of what waits for a person, that it has done so for a day. */
inline on_look()
{
    /* There is nothing to see: look_matters in gateway.pml. */
    assert(me.phase != IDLE ||
           (this_row.state != ABSENT && (this_row.state != AWAITING_APPROVAL || flag)));
    if
    :: me.phase == SETTLING ->
        if
        :: me.retry_due -> me.retry_due = 0
        :: else
        fi
    :: me.phase == IDLE ->
        if
        :: this_row.state == RUNNING -> judge_running()
        :: this_row.state == READY ->
            if
            :: me.waiting || this_row.approved -> run_when_due()
            :: else
            fi
        :: this_row.state == UNKNOWN ->
            if
            :: this_row.superseded -> follow()
            :: !this_row.superseded && may_send_again -> submit(W_CLAIM, WRITING)
            :: else
            fi
        :: this_row.state == AWAITING_APPROVAL -> submit(W_DENY, WRITING)
        :: this_row.state == INPUT_REQUIRED && flag -> submit(W_ROUND_EXPIRED, WRITING)
        :: (this_row.state == INPUT_REQUIRED && !flag) || this_row.state == SUCCEEDED ||
           this_row.state == FAILED || this_row.state == CANCELLED || this_row.state == EXPIRED ->
            current_answer(told_with);
            answer_all(told_with)
        fi
    :: else
    fi
}

inline on_wait_over()
{
    if
    :: me.phase == SETTLING && me.spooled && me.write == W_ASKED -> told_with = SAY_INPUT_REQUIRED
    :: me.phase == SETTLING && me.spooled && me.write != W_ASKED -> told_with = SAY_OUTCOME
    :: me.phase == SETTLING && !me.spooled -> told_with = SAY_OUTCOME_UNKNOWN
    :: me.phase != SETTLING && this_row.state == READY && me.failed_start ->
        told_with = SAY_UPSTREAM_UNAVAILABLE
    :: else -> current_answer(told_with)
    fi;
    tell(told_with, me.waited_late);
    note_answer("caller") nobody_waits()
}

/* An outcome that came by another way than the attempt in hand. */
inline on_evidence()
{
    if
    :: this_row.state == RUNNING ->
        if
        :: is_in_hand -> submit(W_SETTLE, SETTLING)
        :: !is_in_hand && (owner_is_dead || owner_is_me) -> submit(W_EVIDENCE, WRITING)
        :: else
        fi
    :: (this_row.state == UNKNOWN && !this_row.superseded) || this_row.state == INPUT_REQUIRED ->
        submit(W_EVIDENCE, WRITING)
    :: this_row.state == READY && this_row.ever_marked -> submit(W_EVIDENCE, WRITING)
    :: (this_row.state == READY && !this_row.ever_marked) || this_row.state == FAILED ||
       this_row.state == CANCELLED || this_row.state == AWAITING_APPROVAL ||
       (this_row.state == UNKNOWN && this_row.superseded) ->
        /* It contradicts what we hold for certain: the state stands, people are told. */
        if
        :: !this_row.disputed -> submit(W_DISPUTE, WRITING)
        :: else
        fi
    :: this_row.state == SUCCEEDED || this_row.state == ABSENT || this_row.state == EXPIRED
    fi
}

/* How the attempt in hand ends. */
inline on_not_sent()
{
    if
    :: me.phase == SENDING ->
        me.failed_start = 1;
        submit(W_GIVE_BACK, WRITING)
    :: else /* a byte was seen to leave: believe the byte */
    fi
}

inline on_refused()
{
    me.failed_start = 0;
    if
    :: !nothing_before ->
        if
        :: E == REFUSED_TRANSIENT && may_send_again -> submit(W_REFUSED_AGAIN, WRITING)
        :: else -> submit(W_REFUSED_UNKNOWN, WRITING)
        fi
    :: nothing_before && E == REFUSED_TRANSIENT && attempts_left -> submit(W_REFUSED_LATER, WRITING)
    :: else -> submit(W_REFUSED, WRITING)
    fi
}

inline on_lost()
{
    if
    :: may_send_again -> submit(W_CLAIM, WRITING)
    :: else -> submit(W_UNKNOWN, WRITING)
    fi
}

/* --- verbs: every one is answered, when its write is durable or at once --- */

inline commit_verb(what)
{
    me.verb = 1;
    me.deferred = E;
    submit(what, WRITING)
}

inline on_cancel()
{
    if
    :: this_row.state == ABSENT -> commit_verb(W_TOMBSTONE)
    :: this_row.state == AWAITING_APPROVAL || this_row.state == READY -> commit_verb(W_CANCEL)
    :: this_row.state == RUNNING ->
        if
        :: me.phase == IDLE && is_unsent && nothing_before ->
            me.if_unmarked = 1; /* the owner may be about to mark: the store decides who was first */
            commit_verb(W_CANCEL)
        :: else ->
            this_row.cancel_requested = 1;
            answer_caller(SAY_CANCEL_IN_DOUBT)
        fi
    :: this_row.state == INPUT_REQUIRED || this_row.state == UNKNOWN ->
        this_row.cancel_requested = 1;
        answer_caller(SAY_CANCEL_IN_DOUBT)
    :: this_row.state == SUCCEEDED || this_row.state == FAILED || this_row.state == CANCELLED ||
       this_row.state == EXPIRED ->
        current_answer(told_with);
        answer_caller(told_with)
    fi
}

inline on_absence_proved()
{
    if
    :: !past && this_row.state == UNKNOWN && !this_row.superseded && absence_is_provable ->
        if
        :: RETRY_AFTER_PROOF && attempts_left && !this_row.from_gap -> commit_verb(W_ABSENT_AGAIN)
        :: else -> commit_verb(W_ABSENT)
        fi
    :: else -> answer_caller(SAY_NOT_APPLIED)
    fi
}

/* `flag`: the person overrides the waiting time. */
inline on_resolve_absent()
{
    if
    :: this_row.state == READY && R == 0 -> commit_verb(W_ABSENT)
    :: !(this_row.state == READY && R == 0) && !past && this_row.state == UNKNOWN &&
       !this_row.superseded && (flag || absence_is_provable) -> commit_verb(W_ABSENT)
    :: else -> answer_caller(SAY_NOT_APPLIED)
    fi
}

inline on_resolve_happened()
{
    if
    :: (this_row.state == UNKNOWN || this_row.state == INPUT_REQUIRED) && !this_row.superseded ->
        commit_verb(W_HAPPENED)
    :: else -> answer_caller(SAY_NOT_APPLIED)
    fi
}

inline on_resolve_again()
{
    if
    :: !past && this_row.state == UNKNOWN && !this_row.superseded -> commit_verb(W_AGAIN)
    :: else -> answer_caller(SAY_NOT_APPLIED)
    fi
}

inline on_retry()
{
    if
    :: me.phase != IDLE -> join()
    :: me.phase == IDLE && this_row.has_successor -> follow()
    :: else ->
        join();
        submit(W_SUCCESSOR, WRITING)
    fi
}
/* In every other state it is a call like any other. */
#define retry_is_special (me.phase != IDLE || this_row.has_successor || \
    this_row.state == FAILED || (this_row.state == CANCELLED && !this_row.tombstone))

inline on_approve()
{
    if
    :: this_row.state == AWAITING_APPROVAL -> commit_verb(W_APPROVE)
    :: else -> answer_caller(SAY_NOT_APPLIED)
    fi
}

inline on_deny()
{
    if
    :: this_row.state == AWAITING_APPROVAL -> commit_verb(W_DENY)
    :: else -> answer_caller(SAY_NOT_APPLIED)
    fi
}

inline on_human_due()
{
    if
    :: this_row.state == UNKNOWN && !this_row.superseded && !this_row.needs_human ->
        submit(W_HUMAN, WRITING)
    :: else
    fi
}

inline on_retention()
{
    if
    :: (this_row.state == SUCCEEDED || this_row.state == FAILED || this_row.state == CANCELLED) &&
       !this_row.disputed -> submit(W_RETIRE, WRITING)
    :: else
    fi
}

inline on_verb()
{
    if
    :: E == CANCEL -> on_cancel()
    :: E == ABSENCE_PROVED -> on_absence_proved()
    :: E == RESOLVE_ABSENT -> on_resolve_absent()
    :: E == RESOLVE_HAPPENED -> on_resolve_happened()
    :: E == RESOLVE_AGAIN -> on_resolve_again()
    :: E == APPROVE -> on_approve()
    :: E == DENY -> on_deny()
    :: E == HUMAN_DUE -> on_human_due()
    fi
}
