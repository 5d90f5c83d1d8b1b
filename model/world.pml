/* SPDX-License-Identifier: MIT */
/* The tool, the client, people, time and faults. None of them sees more than its real counterpart,
 * except that people who override a waiting time know the truth. Each inline is a list of things
 * that may happen; one that concerns an operation chooses the event that tells it. */

#define for_g(m) op[2 * msg[m].sender + msg[m].about]

/* --- the tool ---------------------------------------------------------------------------------- */

/* It acts: once for an effect key that it knows, if it knows keys. */
inline act(m)
{
    if
    :: CLASS == KEYED && known_to_tool[msg[m].about]
    :: else -> effects[msg[m].about]++
    fi;
    known_to_tool[msg[m].about] = (CLASS == KEYED);
    if
    :: msg[m].state == IN_PIPE && !msg[m].is_orphan -> msg[m].state = ANSWERED
    :: else -> forget_message(m)
    fi
}

#define hears(m) ((for_g(m).phase == IDLE || for_g(m).phase == SENDING || for_g(m).phase == AWAITING) && \
    !for_g(m).deferred_now)

/* Two hosts: a sender looks at fence and lease again before its first byte. */
#define may_leave(m) for_g(m).fresh
#define is_attempt_in_hand(m) (msg[m].in_hand && (for_g(m).phase == SENDING || for_g(m).phase == AWAITING))

inline choose_for(m, event)
{
    choose(msg[m].sender, msg[m].about, event)
}

inline message(m)
{
    if
    :: msg[m].state == QUEUED && !msg[m].is_orphan && (!TWO_HOSTS || may_leave(m)) ->
        msg[m].state = IN_PIPE; /* the first byte leaves */
        choose_for(m, FIRST_BYTE)
    :: msg[m].state == QUEUED && TWO_HOSTS && !may_leave(m) ->
        choose_for(m, NOT_SENT); /* the fence is another's: no byte */
        forget_message(m)
    :: msg[m].state == QUEUED && msg[m].in_hand && unsent_left > 0 && for_g(m).phase == SENDING ->
        unsent_left--; /* not one byte left, and none will */
        choose_for(m, NOT_SENT);
        forget_message(m);
        me.was_sent = 0
    :: msg[m].state == IN_PIPE || msg[m].state == FLYING -> act(m)
    :: msg[m].state == FLYING -> forget_message(m) /* what was under way comes to nothing */
    :: msg[m].state == ANSWERED && hears(m) && is_attempt_in_hand(m) ->
        choose_for(m, REPLY);
        forget_message(m)
    :: msg[m].state == ANSWERED && hears(m) && !is_attempt_in_hand(m) ->
        choose_for(m, EVIDENCE); /* it comes too late, and is evidence all the same */
        forget_message(m)
    :: msg[m].state == IN_PIPE && refusals_left > 0 && is_attempt_in_hand(m) && !known_to_tool[msg[m].about] ->
        refusals_left--; /* the tool refuses, for good: it did not act on this request */
        choose_for(m, REFUSED_FINAL);
        forget_message(m);
        me.was_sent = 0
    :: msg[m].state == IN_PIPE && refusals_left > 0 && is_attempt_in_hand(m) && !known_to_tool[msg[m].about] ->
        refusals_left--; /* ... or for now */
        choose_for(m, REFUSED_TRANSIENT);
        forget_message(m);
        me.was_sent = 0
    :: msg[m].state == IN_PIPE && rounds_left > 0 && is_attempt_in_hand(m) ->
        rounds_left--; /* the tool asks back */
        choose_for(m, INPUT_WANTED);
        forget_message(m)
    :: (msg[m].state == IN_PIPE || msg[m].state == ANSWERED) && is_attempt_in_hand(m) ->
        choose_for(m, LOST); /* given up: what comes of it now is evidence */
        let_go(m)
    fi
}

#define is_at(m, g_, orphan) (msg[m].state != FREE && msg[m].state != FLYING && msg[m].sender == g_ && msg[m].is_orphan == orphan)
#define is_queued(m, g_) (msg[m].state == QUEUED && msg[m].sender == g_ && !msg[m].is_orphan)

inline close_transport(r, of_owner)
{
    if
    :: row[r].owner == of_owner && row[r].attempt != NONE && row[r].attempt != DEAD -> row[r].transport_gone = 1
    :: else
    fi
}

inline cut(m, gg)
{
    if
    :: is_at(m, gg, 0) ->
        if
        :: is_attempt_in_hand(m) -> for_g(m).lost_due = 1
        :: else
        fi;
        if
        :: msg[m].state == IN_PIPE ->
            msg[m].state = FLYING;
            let_go(m)
        :: else -> forget_message(m)
        fi
    :: else
    fi
}

inline cut_orphan(m, gg)
{
    if
    :: is_at(m, gg, 1) -> msg[m].state = FLYING
    :: else
    fi
}

inline server(gg)
{
    if
    :: (is_at(0, gg, 0) || is_at(1, gg, 0) || is_at(2, gg, 0) || is_at(3, gg, 0)) &&
       !is_queued(0, gg) && !is_queued(1, gg) && !is_queued(2, gg) && !is_queued(3, gg) ->
        close_transport(0, 1 + gg); /* it ends, and what it began may still act */
        close_transport(1, 1 + gg);
        cut(0, gg);
        cut(1, gg);
        cut(2, gg);
        cut(3, gg)
    :: row[0].owner == 3 + gg && !row[0].transport_gone && row[0].attempt == OPEN ||
       row[1].owner == 3 + gg && !row[1].transport_gone && row[1].attempt == OPEN ||
       is_at(0, gg, 1) || is_at(1, gg, 1) || is_at(2, gg, 1) || is_at(3, gg, 1) ->
        close_transport(0, 3 + gg); /* ... one that a dead gateway left behind */
        close_transport(1, 3 + gg);
        cut_orphan(0, gg);
        cut_orphan(1, gg);
        cut_orphan(2, gg);
        cut_orphan(3, gg)
    fi
}

/* --- the client --------------------------------------------------------------------------------- */

/* The key means the newest generation. */
#define newest (row[1].state != ABSENT)
#define free_for_call_of(g, r) (op[2 * g + r].phase != WRITING && !op[2 * g + r].deferred_now)
#define free_for_call(g) free_for_call_of(g, newest)
#define free_for_verb(g, r) (!op[2 * g + r].deferred_now && op[2 * g + r].phase != WRITING && \
    op[2 * g + r].phase != MARKING && op[2 * g + r].phase != SETTLING)

inline client(gg)
{
    if
    :: calls_left > 0 && free_for_call(gg) -> /* the first time, or again */
        calls_left--;
        choose(gg, newest, CALL)
    :: calls_left > 0 && row[0].superseded && free_for_call_of(gg, 0) ->
        calls_left--; /* the newest generation was asked for before it was superseded */
        choose(gg, 0, CALL)
    :: ROUNDS > 0 && calls_left > 0 && free_for_call(gg) && row[newest].state == INPUT_REQUIRED ->
        calls_left--; /* it answers the question of a round */
        flag = 1;
        choose(gg, newest, CALL)
    :: (op[2 * gg].again || op[2 * gg + 1].again) && free_for_call(gg) ->
        op[2 * gg].again = 0; /* taken in again */
        op[2 * gg + 1].again = 0;
        choose(gg, newest, CALL)
    :: retries_left > 0 && row[0].state != ABSENT && free_for_verb(gg, 0) ->
        retries_left--; /* it asks for the one successor */
        choose(gg, 0, RETRY)
    :: cancels_left > 0 && free_for_verb(gg, newest) ->
        cancels_left--;
        choose(gg, newest, CANCEL)
    fi
}

/* Answered with what is known by then; one who goes away silently hears it no more. */
inline waiter(gg, rr)
{
    if
    :: op[2 * gg + rr].waiting -> choose(gg, rr, WAIT_OVER)
    fi
}

/* --- people, probes and time --------------------------------------------------------------------- */

#define knows_absent(r) (effects[r] == 0 && !can_still_act(r))

/* Somebody looks, and will say what he saw; in between another attempt may be made. */
inline look_at_the_world()
{
    if
    :: decisions_left > 0 && said == 0 && row[newest].state == UNKNOWN && effects[newest] > 0 ->
        decisions_left--;
        said = RESOLVE_HAPPENED;
        said_of = newest
    :: decisions_left > 0 && said == 0 && knows_absent(newest) &&
       (row[newest].state == UNKNOWN || row[newest].state == READY) ->
        decisions_left--;
        said = RESOLVE_ABSENT;
        said_of = newest
    :: decisions_left > 0 && said == 0 && row[newest].state == UNKNOWN && row[1].state == ABSENT ->
        decisions_left--;
        said = RESOLVE_AGAIN;
        said_of = newest
    :: PROBES && said == 0 && row[newest].state == UNKNOWN && !row[newest].superseded &&
       (effects[newest] == 0 || !row[newest].bound_over || row[newest].other_boot) ->
        said = ABSENCE_PROVED; /* a probe: before the bound is over it may see nothing of an effect */
        said_of = newest
    fi
}

/* A proof that does not count changes nothing, and would be brought for ever. */
#ifndef PROOF_COUNTS
#define PROOF_COUNTS (row[said_of].bound_over && !row[said_of].other_boot && row[said_of].transport_gone)
#endif
#define proof_counts(g) PROOF_COUNTS

inline say_it(gg)
{
    if
    :: said != 0 && free_for_verb(gg, said_of) && (said != ABSENCE_PROVED || proof_counts(gg)) ->
        past = said_past;
        flag = (said == RESOLVE_ABSENT);
        choose(gg, said_of, said);
        said = 0;
        said_of = 0;
        said_past = 0
    :: said == ABSENCE_PROVED && row[said_of].state != UNKNOWN ->
        said = 0; /* nobody asks any more */
        said_of = 0;
        said_past = 0
    fi
}
inline drop_if_sent(m, r_)
{
    if
    :: msg[m].about == r_ && (msg[m].state == FLYING || msg[m].state == IN_PIPE) ->
        if
        :: is_attempt_in_hand(m) -> for_g(m).lost_due = 1 /* its time is over as well */
        :: else
        fi;
        forget_message(m)
    :: else
    fi
}

/* The bound that the tool keeps: nothing of what was sent acts after it. A line that has not left
 * its gateway is not yet under way. */
inline bound_passes(r)
{
    if
    :: PROBES && row[r].attempt != NONE && !row[r].bound_over && (row[r].marked || row[r].state == UNKNOWN) ->
        drop_if_sent(0, r);
        drop_if_sent(1, r);
        row[r].bound_over = 1;
        if
        :: said == ABSENCE_PROVED && said_of == r -> said = 0 /* that look was too early to count */
        :: else
        fi
    fi
}

inline forget_row(r)
{
    row[r].state = ABSENT;
    row[r].attempt = NONE;
    row[r].owner = 0;
    row[r].sends = 0;
    row[r].earlier_open = 0;
    row[r].earlier_asked = 0;
    row[r].earlier_refused = 0;
    row[r].marked = 0;
    row[r].mark_synced = 0;
    row[r].epoch_current = 0;
    row[r].ever_marked = 0;
    row[r].transport_gone = 0;
    row[r].tombstone = 0;
    row[r].cancel_requested = 0;
    row[r].needs_human = 0;
    row[r].from_gap = 0;
    row[r].approved = 0
}

#define row_may_go (row[0].state >= SUCCEEDED && row[0].state != UNKNOWN && !row[0].disputed)

inline people_and_time()
{
    if
    :: look_at_the_world()
    :: say_it(0)
    :: say_it(1)
    :: bound_passes(0)
    :: row[0].not_before -> row[0].not_before = 0
    :: row[1].not_before -> row[1].not_before = 0
    :: HORIZON && row[0].attempt != NONE && row[0].ever_marked && !row[0].horizon_over ->
        row[0].horizon_over = 1 /* no other attempt may begin any more */
    :: HORIZON && row[0].horizon_over && known_to_tool[0] && !can_still_act(0) &&
       (PAUSES || (row[0].state != RUNNING && op[0].write != W_CLAIM && op[2].write != W_CLAIM)) ->
        known_to_tool[0] = 0 /* those that had begun are over: the tool forgets the key */
    :: APPROVAL && row[newest].state == AWAITING_APPROVAL && free_for_verb(0, newest) ->
        choose(0, newest, APPROVE)
    :: APPROVAL && row[newest].state == AWAITING_APPROVAL && free_for_verb(1, newest) ->
        choose(1, newest, DENY)
    :: RETENTION && op[0].phase == IDLE && !op[0].deferred_now && row_may_go && row[0].state != EXPIRED ->
        choose(0, 0, RETENTION_DUE) /* the row fades */
    :: RETENTION && row_may_go && !low_water ->
        low_water = 1 /* or its key tells its own time: the mark is raised and committed */
    :: RETENTION && low_water && row_may_go && is_quiet -> /* which takes a month */
        forget_row(0) /* and then the row goes without a trace */
    fi
}

/* --- faults --------------------------------------------------------------------------------------- */

inline reset_op(k)
{
    op[k].phase = IDLE;
    op[k].write = W_NONE;
    op[k].fresh = 0;
    op[k].was_marked = 0;
    op[k].same_attempt = 0;
    op[k].if_unmarked = 0;
    op[k].waiting = 0;
    op[k].waited_late = 0;
    op[k].was_sent = 0;
    op[k].verb = 0;
    op[k].look_due = 0;
    op[k].lost_due = 0;
    op[k].spooling = 0;
    op[k].spooled = 0;
    op[k].retry_due = 0;
    op[k].failed_start = 0;
    op[k].deferred = 0;
    op[k].deferred_now = 0;
    op[k].inserts = 0;
    op[k].again = 0
}

/* What it was about to send is lost, its server lives on, its spool stays. */
inline kill_for(gg, r)
{
    if
    :: row[r].owner == 1 + gg -> row[r].owner = 3 + gg
    :: else
    fi;
    if
    :: op[2 * gg + r].spooled && op[2 * gg + r].write != W_ASKED -> row[r].spooled = 1
    :: else
    fi;
    reset_op(2 * gg + r)
}

inline orphan(m, gg)
{
    if
    :: msg[m].state == IN_PIPE && msg[m].sender == gg ->
        msg[m].is_orphan = 1;
        let_go(m)
    :: (msg[m].state == QUEUED || msg[m].state == ANSWERED) && msg[m].sender == gg -> forget_message(m)
    :: else
    fi
}

inline kill(gg)
{
    kill_for(gg, 0);
    kill_for(gg, 1);
    orphan(0, gg);
    orphan(1, gg);
    orphan(2, gg);
    orphan(3, gg)
}

inline ground(m)
{
    if
    :: msg[m].state == IN_PIPE -> msg[m].state = FLYING
    :: else
    fi
}

/* A new boot: what no process of it saw proves nothing, no transport is left. */
inline reboot_row(r)
{
    row[r].epoch_current = 0;
    row[r].bound_over = 0;
    row[r].other_boot = (row[r].state != ABSENT);
    row[r].horizon_over = (row[r].ever_marked || row[r].attempt == OPEN);
    close_transport(r, 3);
    close_transport(r, 4)
}

inline host_crash(loses)
{
    kill(0);
    kill(1);
    ground(0);
    ground(1);
    ground(2);
    ground(3);
    if
    :: loses ->
        lose_mark(0);
        lose_mark(1)
    :: else
    fi;
    reboot_row(0);
    reboot_row(1)
}

inline copy_row(from, to)
{
    to.state = from.state;
    to.attempt = from.attempt;
    to.owner = from.owner;
    to.sends = from.sends;
    to.earlier_open = from.earlier_open;
    to.earlier_asked = from.earlier_asked;
    to.earlier_refused = from.earlier_refused;
    to.marked = from.marked;
    to.mark_synced = from.mark_synced;
    to.epoch_current = from.epoch_current;
    to.ever_marked = from.ever_marked;
    to.transport_gone = from.transport_gone;
    to.bound_over = from.bound_over;
    to.not_before = from.not_before;
    to.superseded = from.superseded;
    to.has_successor = from.has_successor;
    to.tombstone = from.tombstone;
    to.approved = from.approved;
    to.needs_human = from.needs_human;
    to.from_gap = from.from_gap
}

/* `hapax ops recover`. What of a restored copy can be believed: its final states. Whatever else it holds may have gone on
 * since, in a way that it does not know. */
inline doubt(r)
{
    if
    :: row[r].owner == 1 || row[r].owner == 2 -> row[r].owner = row[r].owner + 2
    :: else
    fi;
    if
    :: row[r].state == AWAITING_APPROVAL || row[r].state == READY || row[r].state == RUNNING ||
       row[r].state == INPUT_REQUIRED || (row[r].state == UNKNOWN && !row[r].superseded) ->
        assert(MAY_BECOME(row[r].state, UNKNOWN));
        row[r].state = UNKNOWN;
        row[r].from_gap = 1;
        row[r].epoch_current = 0;
        row[r].bound_over = 0; /* proofs of absence begin again */
        if
        :: said == ABSENCE_PROVED && said_of == r -> said = 0
        :: else
        fi
    :: else
    fi
}

inline faults()
{
    if
    :: kills_left > 0 ->
        kills_left--;
        kill(0)
    :: kills_left > 0 ->
        kills_left--;
        kill(1)
    :: host_crashes_left > 0 ->
        host_crashes_left--;
        host_crash(0)
    :: host_crashes_left > 0 ->
        host_crashes_left--;
        host_crash(1)
    :: leases_left > 0 && lease[0] -> /* it is paused; or only slow */
        leases_left--;
        lease[0] = 0
    :: leases_left > 0 && lease[1] ->
        leases_left--;
        lease[1] = 0
    :: !lease[0] -> lease[0] = 1
    :: !lease[1] -> lease[1] = 1
    :: SETTLE && !faults_over -> /* do things come to rest when nothing more is done to them? */
        faults_over = 1;
        calls_left = 0;
        kills_left = 0;
        host_crashes_left = 0;
        errors_left = 0;
        unsent_left = 0;
        refusals_left = 0;
        rounds_left = 0;
        cancels_left = 0;
        decisions_left = 0;
        retries_left = 0;
        leases_left = 0
    :: RESTORE && !has_copy && !restored ->
        has_copy = 1;
        copy_row(row[0], copy[0]);
        copy_row(row[1], copy[1])
    :: RESTORE && has_copy && !restored -> /* and `hapax ops recover` was run */
        restored = 1;
        kill(0);
        kill(1);
        copy_row(copy[0], row[0]);
        copy_row(copy[1], row[1]);
        doubt(0);
        doubt(1)
    fi
}

/* --- all of it ------------------------------------------------------------------------------------- */

/* INV-24: when nothing moves any more, everything is final, or waits for a call, an approval, an
 * answer or a person, and nobody waits for it. */
inline promises_at_rest()
{
    assert(row[0].state != RUNNING && row[1].state != RUNNING);
    assert(row[0].state != UNKNOWN || row[0].needs_human || row[0].superseded);
    assert(row[1].state != UNKNOWN || row[1].needs_human || row[1].superseded);
    assert(!op[0].waiting && !op[1].waiting && !op[2].waiting && !op[3].waiting);
    assert(op[0].phase == IDLE && op[1].phase == IDLE && op[2].phase == IDLE && op[3].phase == IDLE)
}

inline begin()
{
    read_limits()
    calls_left = CALLS;
    kills_left = KILLS;
    host_crashes_left = HOST_CRASHES;
    errors_left = ERRORS;
    unsent_left = UNSENT;
    refusals_left = REFUSALS;
    rounds_left = ROUNDS;
    cancels_left = CANCELS;
    decisions_left = DECISIONS;
    retries_left = RETRIES;
    leases_left = LEASES;
    lease[0] = 1;
    lease[1] = 1
}

active proctype everything()
{
    d_step { begin() };
end:
    do
    :: atomic {
        if
        :: gateway(0, 0)
        :: gateway(1, 0)
        :: gateway(0, 1)
        :: gateway(1, 1)
        :: waiter(0, 1)
        :: waiter(1, 1)
        :: waiter(0, 0)
        :: waiter(1, 0)
        :: client(0)
        :: client(1)
        :: message(0)
        :: message(1)
        :: message(2)
        :: message(3)
        :: server(0)
        :: server(1)
        :: people_and_time()
        :: faults()
        fi;
        if
        :: E != 0 -> step()
        :: else
        fi;
        note_story()
        promises_of(0);
        promises_of(1)
        }
    :: timeout ->
        promises_at_rest();
        break
    od
}
