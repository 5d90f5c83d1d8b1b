/* SPDX-License-Identifier: MIT */
#include "adapter/http_server/receipts.h"

#include "base/alloc.h"

/* Beyond it the oldest counts as read: a client that was sent so much since is not lost. */
enum { RECEIPTS_MAX = 1024 };

struct receipt {
    struct hx_list node;
    uint64_t tag;
    uint64_t end;
    struct hx_mono written_at;
};

static struct receipt *first_of(const struct hx_web_receipts *receipts)
{
    struct hx_list *node = hx_list_first(&receipts->unread);

    return node != NULL ? hx_container_of(node, struct receipt, node) : NULL;
}

static void drop(struct hx_web_receipts *receipts, struct receipt *receipt)
{
    hx_list_unlink(&receipt->node);
    receipts->count--;
    hx_free(receipt);
}

void hx_web_receipts_init(struct hx_web_receipts *receipts)
{
    hx_list_init(&receipts->unread);
    receipts->count = 0;
}

void hx_web_receipts_clear(struct hx_web_receipts *receipts)
{
    struct receipt *receipt;

    while ((receipt = first_of(receipts)) != NULL)
        drop(receipts, receipt);
}

void hx_web_receipts_add(struct hx_web_receipts *receipts, uint64_t tag, uint64_t end,
                         struct hx_mono now)
{
    struct receipt *receipt = hx_new(struct receipt);

    receipt->tag = tag;
    receipt->end = end;
    receipt->written_at = now;
    hx_list_append(&receipts->unread, &receipt->node);
    if (++receipts->count > RECEIPTS_MAX)
        drop(receipts, first_of(receipts));
}

void hx_web_receipts_forget_until(struct hx_web_receipts *receipts, struct hx_mono time)
{
    struct receipt *receipt;

    while ((receipt = first_of(receipts)) != NULL && receipt->written_at.ms < time.ms)
        drop(receipts, receipt);
}

void hx_web_receipts_forget_read(struct hx_web_receipts *receipts, uint64_t end)
{
    struct receipt *receipt;

    while ((receipt = first_of(receipts)) != NULL && receipt->end <= end)
        drop(receipts, receipt);
}

void hx_web_receipts_settle(struct hx_web_receipts *receipts,
                            void (*taken_back)(void *arg, uint64_t tag), void *arg)
{
    struct receipt *receipt;

    while ((receipt = first_of(receipts)) != NULL) {
        uint64_t tag = receipt->tag;
        drop(receipts, receipt);
        taken_back(arg, tag);
    }
}
