/* SPDX-License-Identifier: MIT */
/*
 * Requests to the ledger and the ways back. A request remembers whom it is for; a call that leaves
 * while its request is under way is taken out, and the answer is dropped.
 */
#include "engine/internal.h"

/* What request->context points at. */
struct ticket {
    enum { FOR_NOBODY, FOR_WORK, FOR_CALL, FOR_SWEEP } kind;
    struct hx_work *work;
    struct hx_call *call;
};

struct hx_store_request *hx_store_make(struct hx_gateway *gateway, enum hx_store_kind kind)
{
    (void)gateway;
    return hx_store_request_new(kind, hx_new(struct ticket));
}

static void submit(struct hx_gateway *gateway, struct hx_store_request *request)
{
    gateway->store_open++;
    gateway->ports.store->ops->submit(gateway->ports.store, request);
}

void hx_store_submit_for_work(struct hx_work *work, struct hx_store_request *request)
{
    struct ticket *ticket = request->context;
    *ticket = (struct ticket){.kind = FOR_WORK, .work = work};
    work->writes_open++;
    submit(work->gateway, request);
}

void hx_store_submit_for_call(struct hx_call *call, struct hx_store_request *request)
{
    struct ticket *ticket = request->context;
    *ticket = (struct ticket){.kind = FOR_CALL, .call = call};
    hx_assert(call->ticket == NULL);
    call->ticket = request;
    submit(call->gateway, request);
}

void hx_store_submit_quiet(struct hx_gateway *gateway, struct hx_store_request *request)
{
    submit(gateway, request);
}

void hx_store_submit_sweep(struct hx_gateway *gateway, struct hx_store_request *request)
{
    struct ticket *ticket = request->context;
    ticket->kind = FOR_SWEEP;
    submit(gateway, request);
}

void hx_store_forget_call(struct hx_call *call)
{
    if (call->ticket == NULL)
        return;
    struct ticket *ticket = call->ticket->context;
    *ticket = (struct ticket){.kind = FOR_NOBODY};
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
    struct ticket *ticket = done->context;
    struct ticket copy = *ticket;
    done->context = hx_free(ticket);
    switch (copy.kind) {
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
    case FOR_WORK:
        hx_check(copy.work, HX_WORK_MAGIC);
        copy.work->writes_open--;
        if (done->kind == HX_STORE_FIND)
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
        hx_free(request->context);
        hx_store_request_free(request);
        return;
    }
    hx_store_submit_quiet(gateway, request);
}
