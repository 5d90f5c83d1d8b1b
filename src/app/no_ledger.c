/* SPDX-License-Identifier: MIT */
#include "app/no_ledger.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

struct no_ledger {
    struct hx_store store;
    struct hx_list done;
    char reason[512];
};

static struct no_ledger *self(struct hx_store *store)
{
    return hx_container_of(store, struct no_ledger, store);
}

static void submit(struct hx_store *store, struct hx_store_request *request)
{
    request->result = HX_STORE_NOT_DONE;
    snprintf(request->error, sizeof(request->error), "%.255s", self(store)->reason);
    hx_list_append(&self(store)->done, &request->node);
}

static void flush(struct hx_store *store)
{
    (void)store;
}

static struct hx_store_request *take_done(struct hx_store *store)
{
    struct hx_list *node = hx_list_take_first(&self(store)->done);
    return node ? hx_container_of(node, struct hx_store_request, node) : NULL;
}

static int wake_fd(struct hx_store *store)
{
    (void)store;
    return -1;
}

static struct hx_id owner(struct hx_store *store)
{
    (void)store;
    return (struct hx_id){0};
}

static struct hx_wall low_water(struct hx_store *store)
{
    (void)store;
    return (struct hx_wall){0};
}

static const char *refusal(struct hx_store *store)
{
    return self(store)->reason;
}

static struct hx_gap gap(struct hx_store *store)
{
    (void)store;
    return (struct hx_gap){0};
}

static void close_store(struct hx_store *store)
{
    hx_free(self(store));
}

static const struct hx_store_ops ops = {
    .submit = submit,
    .flush = flush,
    .take_done = take_done,
    .wake_fd = wake_fd,
    .owner = owner,
    .low_water = low_water,
    .refusal = refusal,
    .gap = gap,
    .close = close_store,
};

struct hx_store *hx_no_ledger_new(const char *reason)
{
    struct no_ledger *ledger = hx_new(struct no_ledger);
    ledger->store.ops = &ops;
    hx_list_init(&ledger->done);
    enum { REASON_MAX = 400 };
    size_t len = strnlen(reason, REASON_MAX);
    const char *stop = len > 0 && reason[len - 1] == '.' ? "" : ".";
    snprintf(ledger->reason, sizeof(ledger->reason),
             "%.*s%s When that is mended, start this server again.", (int)len, reason, stop);
    return &ledger->store;
}
