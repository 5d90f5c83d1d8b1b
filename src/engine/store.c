/* SPDX-License-Identifier: MIT */
/*
 * Requests to the ledger and the ways back. A request remembers whom it is for; a call that leaves
 * while its request is under way is taken out, and the answer is dropped.
 */
#include "engine/internal.h"

/* What request->context points at. The gateway owns it: a store that is closed frees the requests
 * that were not taken, and knows nothing of their contexts. */
struct ticket {
    struct hx_list node; /* gateway->tickets */
    enum {
        FOR_NOBODY,
        FOR_WORK,
        FOR_CALL,
        FOR_SWEEP,
        FOR_QUIET,
        FOR_NOTE,
        FOR_REQUEST,
        FOR_KEPT,
        FOR_END,
        FOR_FINDER,
        FOR_VERB,
        FOR_OUTBOX
    } kind;
    struct hx_work *work;
    struct hx_call *call;
    struct hx_delivery_note *note;
    struct hx_request *request; /* FOR_REQUEST */
    struct hx_session *session; /* FOR_KEPT, FOR_END */
    uint64_t exchange;          /* FOR_KEPT; FOR_FINDER: the finder's ticket */
    struct hx_verb *verb;       /* FOR_VERB */
    hx_session_found *found;    /* FOR_FINDER */
    void *context;              /* FOR_FINDER; FOR_OUTBOX: the event under way, or NULL */
    enum hx_receipt receipt;
    struct ticket *joined; /* FOR_NOTE: the next one whose counts were added to the same request */
    struct ticket *last_joined;
};

struct hx_store_request *hx_store_make(struct hx_gateway *gateway, enum hx_store_kind kind)
{
    struct ticket *ticket = hx_new(struct ticket);
    hx_list_append(&gateway->tickets, &ticket->node);
    return hx_store_request_new(kind, ticket);
}

static void ticket_free(struct ticket *ticket)
{
    hx_list_unlink(&ticket->node);
    hx_free(ticket);
}

static void hand_over(struct hx_gateway *gateway, struct hx_store_request *request)
{
    gateway->store_open++;
    gateway->ports.store->ops->submit(gateway->ports.store, request);
}

void hx_store_submit_lazy(struct hx_gateway *gateway)
{
    struct hx_list *node;
    hx_timer_disarm(&gateway->timers, &gateway->lazy_limit);
    while ((node = hx_list_take_first(&gateway->lazy)) != NULL)
        hand_over(gateway, hx_container_of(node, struct hx_store_request, node));
}

static void on_lazy_limit(struct hx_timer *timer)
{
    hx_store_submit_lazy(hx_container_of(timer, struct hx_gateway, lazy_limit));
}

/* What was put off goes first, so that the order of submission holds. */
static void submit(struct hx_gateway *gateway, struct hx_store_request *request)
{
    hx_store_submit_lazy(gateway);
    hand_over(gateway, request);
}

void hx_store_submit_for_work(struct hx_work *work, struct hx_store_request *request)
{
    struct ticket *ticket = request->context;
    ticket->kind = FOR_WORK;
    ticket->work = work;
    work->writes_open++;
    submit(work->gateway, request);
}

void hx_store_submit_peek(struct hx_call *call, struct hx_store_request *request)
{
    struct ticket *ticket = request->context;
    ticket->kind = FOR_CALL;
    ticket->call = call;
    hx_assert(call->ticket == NULL);
    call->ticket = request;
    hand_over(call->gateway, request);
}

void hx_store_submit_for_call(struct hx_call *call, struct hx_store_request *request)
{
    hx_store_submit_lazy(call->gateway);
    hx_store_submit_peek(call, request);
}

static void add_touch(struct hx_store_touch *touch, const struct hx_store_touch *more)
{
    touch->add_repeats += more->add_repeats;
    touch->add_sent += more->add_sent;
    touch->subtract_sent += more->subtract_sent;
    touch->add_lost += more->add_lost;
    touch->set_told_pending |= more->set_told_pending;
    touch->set_cancel_requested |= more->set_cancel_requested;
    touch->set_acknowledged |= more->set_acknowledged;
    touch->set_needs_human |= more->set_needs_human;
    touch->cool = (touch->cool && !more->warm) || more->cool;
    touch->warm = (touch->warm && !more->cool) || more->warm;
}

/* Adds `request` to one of its kind for the same row that still waits: a hundred repeats are one
 * write then. Takes the request when it does. */
static bool join_lazy(struct hx_gateway *gateway, struct hx_store_request *request)
{
    struct ticket *ticket = request->context;
    if (request->kind != HX_STORE_TOUCH)
        return false;
    hx_assert(!request->touch.adopt && !request->touch.expect_adoptions && !request->touch.rekey);
    hx_list_for_each (node, &gateway->lazy) {
        struct hx_store_request *waiting = hx_container_of(node, struct hx_store_request, node);
        struct ticket *first = waiting->context;
        if (waiting->kind != HX_STORE_TOUCH || first->kind != ticket->kind ||
            !hx_id_eq(&waiting->record.id, &request->record.id))
            continue;
        add_touch(&waiting->touch, &request->touch);
        if (ticket->kind == FOR_NOTE) {
            first->last_joined->joined = ticket;
            first->last_joined = ticket;
        } else {
            ticket_free(ticket);
        }
        hx_store_request_free(request);
        return true;
    }
    ticket->last_joined = ticket;
    return false;
}

/* Delivery and notes are no promise to anybody: they ride along with the next commit, or go alone
 * when none comes soon. */
static void put_off(struct hx_gateway *gateway, struct hx_store_request *request)
{
    enum { LAZY_MS = 20, LAZY_MAX = 256 };
    if (join_lazy(gateway, request))
        return;
    hx_list_append(&gateway->lazy, &request->node);
    if (++gateway->lazy_count % LAZY_MAX == 0 || hx_gateway_is_leaving(gateway))
        hx_store_submit_lazy(gateway);
    else
        hx_timer_arm_sooner(&gateway->timers, &gateway->lazy_limit,
                            hx_mono_after(gateway->now.mono, LAZY_MS));
}

void hx_store_submit_quiet(struct hx_gateway *gateway, struct hx_store_request *request)
{
    struct ticket *ticket = request->context;
    ticket->kind = FOR_QUIET;
    put_off(gateway, request);
}

void hx_store_submit_now(struct hx_gateway *gateway, struct hx_store_request *request)
{
    struct ticket *ticket = request->context;
    ticket->kind = FOR_QUIET;
    submit(gateway, request);
}

void hx_store_submit_for_note(struct hx_gateway *gateway, struct hx_delivery_note *note,
                              struct hx_store_request *request)
{
    struct ticket *ticket = request->context;
    ticket->kind = FOR_NOTE;
    ticket->note = note;
    ticket->receipt = note->submitted;
    put_off(gateway, request);
}

/* ---- what nobody waits for, and the ledger did not take ---- */

static void on_again(struct hx_timer *timer)
{
    struct hx_gateway *gateway = hx_container_of(timer, struct hx_gateway, quiet_again);
    struct hx_list *node;
    while ((node = hx_list_take_first(&gateway->quiet_failed)) != NULL) {
        struct hx_store_request *request = hx_container_of(node, struct hx_store_request, node);
        hand_over(gateway, request);
    }
    gateway->quiet_failed_count = 0;
    hx_delivery_again(gateway);
}

void hx_store_try_again(struct hx_gateway *gateway)
{
    enum { AGAIN_MS = 1000 };
    hx_timer_arm_sooner(&gateway->timers, &gateway->quiet_again,
                        hx_mono_after(gateway->now.mono, AGAIN_MS));
}

void hx_store_init(struct hx_gateway *gateway)
{
    hx_list_init(&gateway->lazy);
    gateway->lazy_limit.fire = on_lazy_limit;
    hx_list_init(&gateway->tickets);
    hx_list_init(&gateway->quiet_failed);
    gateway->quiet_again.fire = on_again;
}

void hx_store_drop(struct hx_store_request *request)
{
    ticket_free(request->context);
    hx_store_request_free(request);
}

void hx_store_end(struct hx_gateway *gateway)
{
    struct hx_list *node;
    hx_list_splice(&gateway->quiet_failed, &gateway->lazy);
    while ((node = hx_list_take_first(&gateway->quiet_failed)) != NULL)
        hx_store_drop(hx_container_of(node, struct hx_store_request, node));
    while ((node = hx_list_first(&gateway->tickets)) != NULL)
        ticket_free(hx_container_of(node, struct ticket, node));
}

/* Flags and counts that decide what a later repeat means: a disk that is full for a moment must not
 * make us forget them. They only add up, so their order does not matter. */
static void quiet_done(struct hx_gateway *gateway, struct hx_store_request *done)
{
    enum { KEPT_MAX = 4096 };
    bool is_worth_it = done->kind == HX_STORE_TOUCH || done->kind == HX_STORE_STREAM_END;
    if (!is_worth_it || done->result != HX_STORE_NOT_DONE ||
        gateway->quiet_failed_count >= KEPT_MAX || gateway->is_stopping) {
        hx_store_drop(done);
        return;
    }
    hx_list_append(&gateway->quiet_failed, &done->node);
    gateway->quiet_failed_count++;
    hx_store_try_again(gateway);
}

/* All whose receipts were written together. */
static void note_done(struct hx_gateway *gateway, struct hx_store_request *done)
{
    struct ticket *next;
    for (struct ticket *ticket = done->context; ticket != NULL; ticket = next) {
        next = ticket->joined;
        hx_delivery_stored(gateway, ticket->note, ticket->receipt, done->result);
        ticket_free(ticket);
    }
    hx_store_request_free(done);
}

void hx_store_submit_for_request(struct hx_request *request, struct hx_store_request *store)
{
    struct ticket *ticket = store->context;
    ticket->kind = FOR_REQUEST;
    ticket->request = request;
    hx_assert(request->ticket == NULL);
    request->ticket = store;
    submit(request->session->gateway, store);
}

void hx_store_forget_request(struct hx_request *request)
{
    if (request->ticket == NULL)
        return;
    struct ticket *ticket = request->ticket->context;
    ticket->kind = FOR_NOBODY;
    request->ticket = NULL;
}

void hx_store_submit_kept(struct hx_session *session, uint64_t exchange,
                          struct hx_store_request *request)
{
    struct ticket *ticket = request->context;
    ticket->kind = FOR_KEPT;
    ticket->session = session;
    ticket->exchange = exchange;
    submit(session->gateway, request);
}

void hx_store_submit_end(struct hx_session *session, struct hx_store_request *request)
{
    struct ticket *ticket = request->context;
    ticket->kind = FOR_END;
    ticket->session = session;
    submit(session->gateway, request);
}

void hx_store_submit_find_session(struct hx_gateway *gateway, struct hx_store_request *request,
                                  hx_session_found *found, void *context, uint64_t number)
{
    struct ticket *ticket = request->context;
    ticket->kind = FOR_FINDER;
    ticket->found = found;
    ticket->context = context;
    ticket->exchange = number;
    submit(gateway, request);
}

void hx_store_submit_for_verb(struct hx_gateway *gateway, struct hx_verb *verb,
                              struct hx_store_request *request)
{
    struct ticket *ticket = hx_new(struct ticket);
    hx_list_append(&gateway->tickets, &ticket->node);
    ticket->kind = FOR_VERB;
    ticket->verb = verb;
    request->context = ticket;
    submit(gateway, request);
}

void hx_store_forget_session(struct hx_session *session)
{
    hx_list_for_each (node, &session->gateway->tickets) {
        struct ticket *ticket = hx_container_of(node, struct ticket, node);
        if (ticket->kind == FOR_KEPT && ticket->session == session)
            ticket->kind = FOR_NOBODY;
    }
}

static void give_to_finder(const struct ticket *ticket, struct hx_store_request *done)
{
    bool is_there = done->result == HX_STORE_DONE;
    ticket->found(ticket->context, ticket->exchange, done->result,
                  is_there ? &done->session : NULL);
    hx_store_request_free(done);
}

void hx_store_submit_sweep(struct hx_gateway *gateway, struct hx_store_request *request)
{
    struct ticket *ticket = request->context;
    ticket->kind = FOR_SWEEP;
    submit(gateway, request);
}

/* Not behind what was put off: none of it is about events. */
void hx_store_submit_outbox(struct hx_gateway *gateway, struct hx_store_request *request,
                            void *flight)
{
    struct ticket *ticket = request->context;
    ticket->kind = FOR_OUTBOX;
    ticket->context = flight;
    hand_over(gateway, request);
}

void hx_store_forget_call(struct hx_call *call)
{
    if (call->ticket == NULL)
        return;
    struct ticket *ticket = call->ticket->context;
    ticket->kind = FOR_NOBODY;
    ticket->call = NULL;
    call->ticket = NULL;
}

static void give_to_call(struct hx_call *call, struct hx_store_request *done)
{
    call->ticket = NULL;
    if (done->kind == HX_STORE_FIND)
        hx_intake_found(call, done); /* takes the request */
    else
        hx_intake_adopted(call, done);
}

void hx_store_take_one(struct hx_gateway *gateway, struct hx_store_request *done)
{
    hx_assert(gateway->store_open > 0);
    gateway->store_open--;
    if (done->kind == HX_STORE_INSERT || done->kind == HX_STORE_UPDATE)
        hx_publish_stir(gateway);
    struct ticket *ticket = done->context;
    struct ticket copy = *ticket;
    if (copy.kind == FOR_QUIET) {
        quiet_done(gateway, done);
        return;
    }
    if (copy.kind == FOR_NOTE) {
        note_done(gateway, done);
        return;
    }
    ticket_free(ticket);
    done->context = NULL;
    switch (copy.kind) {
    case FOR_QUIET:
    case FOR_NOTE:
        return; /* handled above */
    case FOR_NOBODY:
        hx_store_request_free(done);
        return;
    case FOR_SWEEP:
        hx_sweep_found(gateway, done);
        hx_store_request_free(done);
        return;
    case FOR_CALL:
        give_to_call(copy.call, done);
        return;
    case FOR_REQUEST:
        copy.request->ticket = NULL;
        hx_operations_found(copy.request, done);
        return;
    case FOR_KEPT:
        hx_kept_done(copy.session, copy.exchange, done);
        return;
    case FOR_END:
        hx_session_forgotten(copy.session, done);
        return;
    case FOR_VERB:
        hx_verb_taken(copy.verb, done);
        return;
    case FOR_FINDER:
        give_to_finder(&copy, done);
        return;
    case FOR_OUTBOX:
        hx_publish_stored(gateway, done, copy.context);
        hx_store_request_free(done);
        return;
    case FOR_WORK:
        hx_check(copy.work, HX_WORK_MAGIC);
        copy.work->writes_open--;
        if (done->kind == HX_STORE_RESUME_GET)
            hx_ladder_found(copy.work, done);
        else if (done->kind == HX_STORE_RESUME_PUT)
            hx_task_kept(copy.work);
        else if (done->kind == HX_STORE_FIND)
            hx_work_found(copy.work, done);
        else
            hx_work_stored(copy.work, done);
        hx_store_request_free(done);
        return;
    }
}

void hx_store_note(struct hx_gateway *gateway, const struct hx_id *operation, struct hx_span note)
{
    struct hx_store_request *request = hx_store_make(gateway, HX_STORE_NOTE);
    request->record.id = *operation;
    request->note = hx_arena_dup(&request->arena, note);
    if (hx_span_is_absent(request->note)) {
        hx_store_drop(request);
        return;
    }
    hx_store_submit_quiet(gateway, request);
}
