/* SPDX-License-Identifier: MIT */
/* What can happen in the small world, and what the engine makes of the core's effects. */
#include "model.h"

static const enum hx_event_type verbs[VERB_COUNT] = {
    [VERB_CANCEL] = HX_EV_CANCEL,         [VERB_HAPPENED] = HX_EV_RESOLVE_HAPPENED,
    [VERB_ABSENT] = HX_EV_RESOLVE_ABSENT, [VERB_AGAIN] = HX_EV_RESOLVE_AGAIN,
    [VERB_RETRY] = HX_EV_RETRY,
};

static const struct hx_record *absent_record(const struct world *world)
{
    static struct hx_record records[HX_CLASS_READ_ONLY + 1];
    struct hx_record *record = &records[world->tool_class];
    if (record->fingerprint.bytes[0] == 0) {
        struct hx_contract contract = kit_contract(world->tool_class);
        contract.attempts_max = 2;
        *record = kit_record(&contract);
    }
    return record;
}

struct hx_now world_now(const struct world *world)
{
    return kit_now(world->boot, 60 * 60 * 1000 + world->clock_ms);
}

void world_init(struct world *world, enum hx_tool_class tool_class, struct budget budget)
{
    *world = (struct world){
        .tool_class = tool_class, .left = budget, .calls_max = budget.calls, .boot = 1, .epoch = 1};
}

/* --- what the effects mean (the reference for the engine) ---------------------------------- */

static void give(struct world *world, unsigned process, unsigned row, struct hx_event *event);

static void submit(struct sim_op *sim)
{
    SIM_CHECK("one write at a time", sim->write == WRITE_NONE);
    sim->write = WRITE_SUBMITTED;
}

static void send(struct world *world, unsigned process, unsigned row)
{
    check_send(world, process, row);
    struct sim_op *sim = &world->ops[process][row];
    for (unsigned m = 0; m < MESSAGES; m++) {
        if (world->messages[m].state != MESSAGE_NONE)
            continue;
        world->messages[m] =
            (struct message){MESSAGE_QUEUED, (uint8_t)process, world->life[process], (uint8_t)row,
                             sim->op.durable.attempt.number};
        return;
    }
    sim_fail("model", "more messages than the world has room for");
}

/* After STALE the verb whose write it was comes in again; else the event itself. */
static void defer(struct sim_op *sim, const struct hx_event *event)
{
    if (event->type == HX_EV_CALL)
        sim->deferred_calls = 1;
    else if (event->type == HX_EV_REPLY || event->type == HX_EV_EVIDENCE)
        sim->deferred_evidence = 1;
    else if (event->type == HX_EV_STALE)
        sim->deferred_verbs |= 1u << sim->verb;
    else
        sim->deferred_verbs |= 1u << event->type;
}

static void answer_all(struct world *world, unsigned process, unsigned row, enum hx_answer answer)
{
    struct sim_op *sim = &world->ops[process][row];
    if (sim->op.waiters > 0)
        check_answer(world, process, row, answer, sim->asked_late);
    sim->op.waiters = 0;
    sim->was_sent = false;
    sim->asked_late = false;
}

static void drop_waiter(struct sim_op *sim)
{
    sim->op.waiters--;
    sim->was_sent = sim->was_sent && sim->op.waiters > 0;
    sim->asked_late = sim->asked_late && sim->op.waiters > 0;
}

static void answer_caller(struct world *world, unsigned process, unsigned row,
                          const struct hx_event *event, enum hx_answer answer)
{
    struct sim_op *sim = &world->ops[process][row];
    bool is_cancel_done = answer == HX_ANSWER_DONE && sim->verb == HX_EV_CANCEL;
    bool is_waiter = event->type == HX_EV_WAIT_OVER;
    if (event->type == HX_EV_STORE_FAILED)
        return; /* a verb is told that it was not carried out */
    check_answer(world, process, row, is_cancel_done ? HX_ANSWER_CANCELLED : answer,
                 is_waiter ? sim->asked_late : world->told_success[row]);
    if (is_waiter)
        drop_waiter(sim);
}

static void follow(struct world *world, unsigned process, unsigned row,
                   const struct hx_event *event, bool has_joined)
{
    struct sim_op *sim = &world->ops[process][row];
    bool is_caller = (event->type == HX_EV_CALL || event->type == HX_EV_RETRY) && !has_joined;
    if (is_caller || sim->op.waiters > 0)
        world->calls_to_take[process] = 1;
    sim->op.waiters = 0;
    sim->was_sent = false;
    sim->asked_late = false;
}

static void carry_out(struct world *world, unsigned process, unsigned row,
                      const struct hx_event *event, const struct hx_effects *effects)
{
    struct sim_op *sim = &world->ops[process][row];
    bool has_joined = false;
    for (unsigned i = 0; i < effects->count; i++) {
        const struct hx_effect *effect = &effects->items[i];
        switch (effect->type) {
        case HX_DO_PERSIST:
            if (sim->op.has_verb)
                sim->verb = event->type;
            submit(sim);
            break;
        case HX_DO_MARK:
            submit(sim);
            break;
        case HX_DO_SEND:
            send(world, process, row);
            sim->was_sent = sim->op.waiters > 0;
            break;
        case HX_DO_SPOOL:
            sim->is_spooling = true;
            break;
        case HX_DO_DEFER:
            defer(sim, event);
            break;
        case HX_DO_JOIN:
            sim->op.waiters = 1; /* the core only asks whether there is one */
            sim->asked_late = sim->asked_late || world->told_success[row];
            has_joined = true;
            break;
        case HX_DO_ANSWER_CALLER:
            answer_caller(world, process, row, event, effect->answer);
            break;
        case HX_DO_ANSWER_ALL:
            answer_all(world, process, row, effect->answer);
            break;
        case HX_DO_FOLLOW:
            follow(world, process, row, event, has_joined);
            break;
        case HX_DO_LOOK_LATER:
            sim->is_look_due = true;
            break;
        case HX_DO_ALARM:
            SIM_CHECK("nobody lies here", world->row[row].is_superseded);
            break;
        case HX_DO_WATCH: /* a waiter polls: ACT_LOOK */
        case HX_DO_CANCEL_UPSTREAM:
        case HX_DO_LADDER:     /* ACT_ABSENCE, ACT_LOOK */
        case HX_DO_ASK_PERSON: /* ACT_VERB, ACT_WAIT_OVER */
        case HX_DO_COUNT:
        case HX_DO_TYPE_COUNT:
            break;
        }
    }
}

/* An idle operation is read again before it decides anything: the row may be another's by now. */
static bool load(struct world *world, unsigned process, unsigned row)
{
    struct sim_op *sim = &world->ops[process][row];
    bool is_idle = !sim->exists || sim->op.phase == HX_PHASE_IDLE;
    if (!is_idle)
        return true;
    const struct hx_record *record = store_read(world, process, row);
    uint32_t waiters = sim->exists ? sim->op.waiters : 0;
    uint32_t start_tries = sim->exists ? sim->op.start_tries : 0;
    struct hx_now tried_at = sim->op.start_tried_at;
    if (record == NULL) {
        if (row > 0)
            return false;
        hx_op_init_absent(&sim->op, absent_record(world));
    } else {
        hx_op_init_loaded(&sim->op, record);
    }
    sim->exists = true;
    sim->op.waiters = waiters;
    sim->op.start_tries = start_tries;
    sim->op.start_tried_at = tried_at;
    return true;
}

static void forget_when_idle(struct sim_op *sim)
{
    bool is_needed = sim->op.phase != HX_PHASE_IDLE || sim->op.waiters > 0 ||
                     sim->deferred_calls > 0 || sim->deferred_evidence > 0 ||
                     sim->deferred_verbs != 0;
    if (!is_needed)
        *sim = (struct sim_op){0};
}

static void give(struct world *world, unsigned process, unsigned row, struct hx_event *event)
{
    struct sim_op *sim = &world->ops[process][row];
    event->now = world_now(world);
    event->mint = (struct hx_mint){owner_token(process, world->life[process]), kit_id(0x50 + row),
                                   kit_id(0x60 + row), "child"};
    event->facts = store_facts(world, process, row);
    if (event->type == HX_EV_LOST)
        event->facts.is_sender_gone = world->is_server_gone[process][world->life[process]];
    struct hx_effects effects;
    hx_op_step(&sim->op, event, &effects);
    carry_out(world, process, row, event, &effects);
    forget_when_idle(sim);
}

static void give_type(struct world *world, unsigned process, unsigned row, enum hx_event_type type)
{
    struct hx_event event = {.type = type, .reason = HX_REASON_TRANSPORT_LOST};
    event.outcome = kit_outcome("done");
    event.is_forced = true; /* the person of this world knows */
    event.seen_attempt = world->ops[process][row].seen_attempt;
    give(world, process, row, &event);
}

static unsigned newest_row(const struct world *world)
{
    return world->has_row[1] ? 1 : 0;
}

static bool is_quiet(const struct world *world)
{
    for (unsigned p = 0; p < PROCESSES; p++) {
        for (unsigned row = 0; row < ROWS; row++) {
            if (world->ops[p][row].exists && world->ops[p][row].op.phase != HX_PHASE_IDLE)
                return false;
        }
    }
    return true;
}

/* --- the gateway -------------------------------------------------------------------------- */

static bool take_call(struct world *world, unsigned process, enum hx_event_type type)
{
    unsigned row = newest_row(world);
    if (!load(world, process, row))
        return false;
    give_type(world, process, row, type);
    return true;
}

static bool act_call(struct world *world, unsigned process)
{
    /* The processes are alike, so the first call comes to the first. */
    bool is_first = world->left.calls == world->calls_max;
    if (world->left.calls == 0 || (is_first && process > 0))
        return false;
    world->left.calls--;
    return take_call(world, process, HX_EV_CALL);
}

static bool act_take(struct world *world, unsigned process)
{
    if (world->calls_to_take[process] == 0)
        return false;
    world->calls_to_take[process]--;
    return take_call(world, process, HX_EV_CALL);
}

static bool act_redeliver(struct world *world, unsigned process, unsigned row)
{
    struct sim_op *sim = &world->ops[process][row];
    bool is_free =
        sim->exists && (sim->op.phase == HX_PHASE_IDLE || sim->op.phase == HX_PHASE_SENDING ||
                        sim->op.phase == HX_PHASE_AWAITING);
    bool has_any =
        sim->deferred_evidence > 0 || sim->deferred_verbs != 0 || sim->deferred_calls > 0;
    if (!is_free || !has_any)
        return false;
    enum hx_event_type type = HX_EV_COUNT;
    if (!load(world, process, row))
        return false;
    if (sim->deferred_evidence > 0) {
        sim->deferred_evidence = 0;
        type = HX_EV_EVIDENCE;
    } else if (sim->deferred_verbs != 0) {
        type = (enum hx_event_type)__builtin_ctz(sim->deferred_verbs);
        sim->deferred_verbs &= sim->deferred_verbs - 1;
    } else if (sim->deferred_calls > 0) {
        sim->deferred_calls--;
        world->calls_to_take[process] = 1;
        return act_take(world, process);
    }
    if (type == HX_EV_COUNT)
        return false;
    give_type(world, process, row, type);
    return true;
}

static bool act_complete(struct world *world, unsigned process, unsigned row)
{
    struct sim_op *sim = &world->ops[process][row];
    struct hx_event event = {0};
    switch (sim->write) {
    case WRITE_NONE:
    case WRITE_SUBMITTED:
        return false;
    case WRITE_DONE_MARKED:
        event.is_marked = true;
        event.marked_at = sim->claim_marked_at;
        event.type = HX_EV_STORED;
        break;
    case WRITE_DONE:
        event.type = HX_EV_STORED;
        break;
    case WRITE_STALE:
        event.type = HX_EV_STALE;
        event.fresh = store_read(world, process, row);
        break;
    case WRITE_FAILED:
        event.type = HX_EV_STORE_FAILED;
        break;
    }
    sim->write = WRITE_NONE;
    struct hx_record fresh;
    if (event.fresh != NULL) {
        fresh = *event.fresh;
        event.fresh = &fresh;
    }
    give(world, process, row, &event);
    return true;
}

static bool act_execute(struct world *world, struct action action)
{
    struct sim_op *sim = &world->ops[action.process][action.row];
    if (sim->write != WRITE_SUBMITTED)
        return false;
    bool is_claim = sim->op.phase == HX_PHASE_WRITING && sim->op.next.state == HX_OP_RUNNING &&
                    sim->op.next.attempt.number != sim->op.durable.attempt.number;
    if (action.variant == 3 && !is_claim)
        return false;
    if (action.variant == 1 || action.variant == 2) {
        if (world->left.store_errors == 0)
            return false;
        world->left.store_errors--;
    }
    store_execute(world, action.process, action.row, action.variant);
    return true;
}

static bool act_spool(struct world *world, unsigned process, unsigned row)
{
    struct sim_op *sim = &world->ops[process][row];
    if (!sim->is_spooling)
        return false;
    sim->is_spooling = false;
    world->spool[process][world->life[process]][row] = true;
    give_type(world, process, row, HX_EV_SPOOLED);
    return true;
}

static bool act_look(struct world *world, unsigned process, unsigned row)
{
    struct sim_op *sim = &world->ops[process][row];
    /* A waiter polls whatever the phase is; the commit that failed is looked at again anyway. */
    bool is_retry = sim->exists && sim->op.phase == HX_PHASE_SETTLING &&
                    (sim->op.waiters > 0 || sim->op.is_retry_due);
    bool is_idle = !sim->exists || sim->op.phase == HX_PHASE_IDLE;
    bool is_open = world->has_row[row] && !hx_op_state_is_final(world->row[row].state);
    /* Sweeper and ladder: at once when an owner died, else when nothing else is going on. */
    bool is_swept =
        is_open && (is_quiet(world) || store_facts(world, process, row).hands == HX_HANDS_DEAD);
    bool is_wanted = sim->is_look_due || sim->op.waiters > 0 || is_swept;
    if (!is_retry && (!is_idle || !is_wanted))
        return false;
    if (!load(world, process, row))
        return false;
    sim->is_look_due = false;
    give_type(world, process, row, HX_EV_LOOK);
    return true;
}

/* Leaving without an answer is the same step, but that nobody hears it. */
static bool act_wait_over(struct world *world, unsigned process, unsigned row)
{
    struct sim_op *sim = &world->ops[process][row];
    if (!sim->exists || sim->op.waiters == 0)
        return false;
    give_type(world, process, row, HX_EV_WAIT_OVER);
    return true;
}

/* --- the tool server ----------------------------------------------------------------------- */

static bool is_life_current(const struct world *world, const struct message *message)
{
    return message->life == world->life[message->process];
}

/* The attempt that this process works on is the one of this message. */
static bool is_in_hand(const struct world *world, const struct message *message)
{
    const struct sim_op *sim = &world->ops[message->process][message->row];
    return is_life_current(world, message) && sim->exists &&
           (sim->op.phase == HX_PHASE_SENDING || sim->op.phase == HX_PHASE_AWAITING) &&
           sim->op.durable.attempt.number == message->attempt;
}

static bool act_accept(struct world *world, struct message *message)
{
    if (message->state != MESSAGE_QUEUED || !is_life_current(world, message))
        return false;
    message->state = MESSAGE_IN_PIPE;
    if (is_in_hand(world, message))
        give_type(world, message->process, message->row, HX_EV_FIRST_BYTE);
    return true;
}

static bool act_not_sent(struct world *world, struct message *message)
{
    bool is_possible =
        message->state == MESSAGE_QUEUED && is_in_hand(world, message) && world->left.not_sent > 0;
    if (!is_possible)
        return false;
    world->left.not_sent--;
    message->state = MESSAGE_NONE;
    world->ops[message->process][message->row].was_sent = false;
    give_type(world, message->process, message->row, HX_EV_NOT_SENT);
    return true;
}

static bool act_act(struct world *world, struct message *message)
{
    bool is_running = message->state == MESSAGE_IN_PIPE;
    if (!is_running && message->state != MESSAGE_FLYING)
        return false;
    bool is_known = world->is_known_to_tool[message->row];
    if (world->tool_class != HX_CLASS_KEYED || !is_known)
        world->effects[message->row]++;
    world->is_known_to_tool[message->row] = world->tool_class == HX_CLASS_KEYED;
    /* Nobody reads what the server of a dead process says. */
    bool is_read = is_running && is_life_current(world, message);
    message->state = is_read ? MESSAGE_ANSWERED : MESSAGE_NONE;
    return true;
}

/* A reply in hand is the attempt's; one of an attempt given up is evidence all the same. */
static bool act_reply(struct world *world, struct message *message)
{
    if (message->state != MESSAGE_ANSWERED)
        return false;
    message->state = MESSAGE_NONE;
    enum hx_event_type type = is_in_hand(world, message) ? HX_EV_REPLY : HX_EV_EVIDENCE;
    if (!load(world, message->process, message->row))
        return false;
    give_type(world, message->process, message->row, type);
    return true;
}

static bool act_refuse(struct world *world, struct message *message, unsigned variant)
{
    bool is_possible = message->state == MESSAGE_IN_PIPE && world->left.refusals > 0 &&
                       is_life_current(world, message) && !world->is_known_to_tool[message->row];
    if (!is_possible)
        return false;
    world->left.refusals--;
    bool is_ours = is_in_hand(world, message);
    message->state = MESSAGE_NONE;
    /* It left, and did nothing: "this request sent nothing" is as good as true. */
    world->ops[message->process][message->row].was_sent = false;
    if (is_ours)
        give_type(world, message->process, message->row,
                  variant == 0 ? HX_EV_REFUSED_FINAL : HX_EV_REFUSED_TRANSIENT);
    return true;
}

static bool act_timeout(struct world *world, struct message *message)
{
    bool is_out = message->state == MESSAGE_IN_PIPE || message->state == MESSAGE_ANSWERED;
    if (!is_out || !is_in_hand(world, message))
        return false;
    give_type(world, message->process, message->row, HX_EV_LOST);
    return true;
}

/* Only without a message whose first byte is still to be judged: the transport tells that first. */
static bool act_server_ends(struct world *world, unsigned process, unsigned life)
{
    if (life > world->life[process] || world->is_server_gone[process][life])
        return false;
    struct message *ours = NULL;
    bool has_any = life < world->life[process];
    for (unsigned m = 0; m < MESSAGES; m++) {
        struct message *message = &world->messages[m];
        if (message->process != process || message->life != life)
            continue;
        if (message->state == MESSAGE_QUEUED)
            return false;
        bool is_out = message->state == MESSAGE_IN_PIPE || message->state == MESSAGE_ANSWERED;
        if (is_out && is_in_hand(world, message))
            ours = message;
        has_any = has_any || is_out;
        if (message->state == MESSAGE_IN_PIPE)
            message->state = MESSAGE_FLYING;
        else if (message->state == MESSAGE_ANSWERED)
            message->state = MESSAGE_NONE;
    }
    if (!has_any)
        return false;
    world->is_server_gone[process][life] = true;
    if (ours != NULL)
        give_type(world, process, ours->row, HX_EV_LOST);
    /* Restarted when needed: the next attempt of a living process goes to a new server. */
    if (life == world->life[process])
        world->is_server_gone[process][life] = false;
    return true;
}

/* --- faults and people --------------------------------------------------------------------- */

static void kill_process(struct world *world, unsigned process)
{
    for (unsigned m = 0; m < MESSAGES; m++) {
        struct message *message = &world->messages[m];
        bool is_ours = message->process == process && is_life_current(world, message);
        if (is_ours && message->state == MESSAGE_QUEUED)
            message->state = MESSAGE_NONE;
        else if (is_ours && message->state == MESSAGE_ANSWERED)
            message->state = MESSAGE_NONE;
    }
    for (unsigned row = 0; row < ROWS; row++)
        world->ops[process][row] = (struct sim_op){0};
    world->calls_to_take[process] = 0;
    world->life[process]++;
    SIM_CHECK("model", world->life[process] < LIVES);
}

static bool act_crash(struct world *world, unsigned process)
{
    if (world->left.crashes == 0)
        return false;
    world->left.crashes--;
    kill_process(world, process);
    return true;
}

static bool act_host_crash(struct world *world, unsigned variant)
{
    if (world->left.crashes == 0)
        return false;
    world->left.crashes--;
    for (unsigned process = 0; process < PROCESSES; process++) {
        kill_process(world, process);
        for (unsigned life = 0; life < world->life[process]; life++)
            world->is_server_gone[process][life] = true;
    }
    for (unsigned m = 0; m < MESSAGES; m++) {
        if (world->messages[m].state == MESSAGE_IN_PIPE)
            world->messages[m].state = MESSAGE_FLYING;
    }
    if (variant == 1)
        store_lose_marks(world);
    world->boot++;
    world->epoch++;
    return true;
}

/* The person knows the truth, and says nothing that could still become untrue. */
static bool is_truthful(const struct world *world, unsigned row, enum hx_event_type verb)
{
    switch (verb) {
    case HX_EV_RESOLVE_HAPPENED:
        return world->effects[row] > 0;
    case HX_EV_RESOLVE_ABSENT:
        return world->effects[row] == 0 && !can_still_act(world, row);
    default:
        return true;
    }
}

static bool act_verb(struct world *world, unsigned process, unsigned variant)
{
    enum hx_event_type verb = verbs[variant];
    unsigned row = newest_row(world);
    bool is_resolve = verb != HX_EV_CANCEL && verb != HX_EV_RETRY;
    bool is_used = world->left.verb_set >> variant & 1;
    if (world->left.verbs == 0 || !is_used || !is_truthful(world, row, verb))
        return false;
    if (is_resolve && (!world->has_row[row] || world->row[row].state != HX_OP_UNKNOWN))
        return false;
    bool may_retry = world->has_row[0] && !world->has_row[1];
    if (verb == HX_EV_RETRY && !may_retry)
        return false;
    if (!load(world, process, row))
        return false;
    world->left.verbs--;
    world->ops[process][row].seen_attempt = world->row[row].attempt.number;
    give_type(world, process, row, verb);
    return true;
}

/* The probe looks and finds nothing, three times. Whether that proves anything the core decides. */
static bool act_absence(struct world *world, unsigned process, unsigned row)
{
    bool is_asked =
        world->has_row[row] && world->row[row].state == HX_OP_UNKNOWN && world->effects[row] == 0;
    const struct sim_op *sim = &world->ops[process][row];
    if (!is_asked || (sim->exists && sim->op.phase != HX_PHASE_IDLE))
        return false;
    if (!load(world, process, row))
        return false;
    world->ops[process][row].seen_attempt = world->row[row].attempt.number;
    give_type(world, process, row, HX_EV_ABSENCE_PROVED);
    return true;
}

/* After a quarter of an hour in which nothing else happened. */
static bool act_human_due(struct world *world, unsigned process, unsigned row)
{
    bool is_unknown = world->has_row[row] && world->row[row].state == HX_OP_UNKNOWN &&
                      !world->row[row].needs_human && !world->row[row].is_superseded;
    if (!is_unknown || !is_quiet(world))
        return false;
    if (!load(world, process, row))
        return false;
    give_type(world, process, row, HX_EV_HUMAN_DUE);
    return true;
}

/* The declared bounds hold in this world. Past the in-flight bound nothing acts any more of what
 * was sent before, and past the horizon no attempt that began inside it is still under way. */
static bool act_jump(struct world *world, unsigned variant)
{
    if (world->left.jumps == 0 || !is_quiet(world))
        return false;
    for (unsigned m = 0; m < MESSAGES; m++) {
        enum message_state state = world->messages[m].state;
        if (state == MESSAGE_FLYING || state == MESSAGE_QUEUED)
            return false;
    }
    for (unsigned m = 0; m < MESSAGES; m++) {
        if (world->messages[m].state == MESSAGE_IN_PIPE)
            world->messages[m].state = MESSAGE_NONE;
    }
    world->left.jumps--;
    world->clock_ms += variant == 0 ? 10 * 60 * 1000 : (int64_t)48 * 60 * 60 * 1000;
    if (variant == 1) {
        for (unsigned row = 0; row < ROWS; row++)
            world->is_known_to_tool[row] = false;
    }
    return true;
}

/* --- the table of actions ------------------------------------------------------------------ */

static bool act_on_message(struct world *world, struct action action)
{
    struct message *message = &world->messages[action.row];
    switch (action.kind) {
    case ACT_ACCEPT:
        return act_accept(world, message);
    case ACT_NOT_SENT:
        return act_not_sent(world, message);
    case ACT_ACT:
        return act_act(world, message);
    case ACT_REPLY:
        return act_reply(world, message);
    case ACT_REFUSE:
        return act_refuse(world, message, action.variant);
    case ACT_TIMEOUT:
        return act_timeout(world, message);
    case ACT_DROP:
        if (message->state != MESSAGE_FLYING)
            return false;
        message->state = MESSAGE_NONE;
        return true;
    default:
        return false;
    }
}

static bool act(struct world *world, struct action action)
{
    unsigned process = action.process, row = action.row;
    switch (action.kind) {
    case ACT_CALL:
        return act_call(world, process);
    case ACT_EXECUTE:
        return act_execute(world, action);
    case ACT_SPOOL:
        return act_spool(world, process, row);
    case ACT_SERVER_ENDS:
        return act_server_ends(world, process, action.variant);
    case ACT_LOOK:
        return act_look(world, process, row);
    case ACT_WAIT_OVER:
        return act_wait_over(world, process, row);
    case ACT_HUMAN_DUE:
        return act_human_due(world, process, row);
    case ACT_ABSENCE:
        return act_absence(world, process, row);
    case ACT_CRASH:
        return act_crash(world, process);
    case ACT_HOST_CRASH:
        return act_host_crash(world, action.variant);
    case ACT_VERB:
        return act_verb(world, process, action.variant);
    case ACT_JUMP:
        return act_jump(world, action.variant);
    default:
        return act_on_message(world, action);
    }
}

/* What a process does by itself next changes nothing that another one sees, and when it dies before
 * it does, that is as if it had died before the cause. So these steps need no interleaving. */
static bool step_locally(struct world *world)
{
    for (unsigned process = 0; process < PROCESSES; process++) {
        for (unsigned row = 0; row < ROWS; row++) {
            if (act_complete(world, process, row) || act_redeliver(world, process, row))
                return true;
        }
        if (act_take(world, process))
            return true;
    }
    return false;
}

bool world_act(struct world *world, struct action action)
{
    if (!act(world, action))
        return false;
    check_world(world);
    unsigned steps = 0;
    while (step_locally(world)) {
        check_world(world);
        SIM_CHECK("I24", ++steps < 100);
    }
    return true;
}

static const struct {
    const char *name;
    uint8_t processes, rows, variants;
    bool is_optional;
} kinds[ACT_KIND_COUNT] = {
    [ACT_CALL] = {"call", PROCESSES, 1, 1, true},
    [ACT_EXECUTE] = {"store writes", PROCESSES, ROWS, 4, false},
    [ACT_SPOOL] = {"spool is synced", PROCESSES, ROWS, 1, false},
    [ACT_ACCEPT] = {"first byte leaves", 1, MESSAGES, 1, false},
    [ACT_NOT_SENT] = {"no byte left", 1, MESSAGES, 1, true},
    [ACT_ACT] = {"tool acts", 1, MESSAGES, 1, false},
    [ACT_REPLY] = {"reply arrives", 1, MESSAGES, 1, false},
    [ACT_REFUSE] = {"tool refuses", 1, MESSAGES, 2, true},
    [ACT_TIMEOUT] = {"given up", 1, MESSAGES, 1, true},
    [ACT_SERVER_ENDS] = {"server ends", PROCESSES, 1, LIVES, true},
    [ACT_DROP] = {"never acts", 1, MESSAGES, 1, false},
    [ACT_LOOK] = {"look", PROCESSES, ROWS, 1, false},
    [ACT_WAIT_OVER] = {"waited long enough", PROCESSES, ROWS, 1, false},
    [ACT_HUMAN_DUE] = {"person is needed", PROCESSES, ROWS, 1, false},
    [ACT_ABSENCE] = {"probe finds nothing", PROCESSES, ROWS, 1, true},
    [ACT_CRASH] = {"process killed", PROCESSES, 1, 1, true},
    [ACT_HOST_CRASH] = {"host crashes", 1, 1, 2, true},
    [ACT_VERB] = {"verb", PROCESSES, 1, VERB_COUNT, true},
    [ACT_JUMP] = {"time passes", 1, 1, 2, true},
};

bool action_is_optional(enum action_kind kind)
{
    return kinds[kind].is_optional;
}

const char *action_name(enum action_kind kind)
{
    return kinds[kind].name;
}

struct action action_limits(enum action_kind kind)
{
    return (struct action){kind, kinds[kind].processes, kinds[kind].rows, kinds[kind].variants};
}
