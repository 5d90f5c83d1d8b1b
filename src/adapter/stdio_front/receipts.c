/* SPDX-License-Identifier: MIT */
/*
 * A pipe keeps its bytes when its reader goes, and tells their number (FIONREAD works at the write
 * end too). A socket drops them: then only ECONNRESET says that there were some. Its queue
 * (SIOCOUTQ) counts memory and not bytes on a local socket, and is nought exactly when everything
 * was read, which is why only nought is believed. A message written later than the last such look
 * and followed by ECONNRESET counts as unread. That may be too many, never too few: the last one
 * was certainly unread, and about those before it nothing better is known.
 */
#include "adapter/stdio_front/receipts.h"

#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/alloc.h"

struct receipt {
    struct hx_list node;
    uint64_t tag;
    uint64_t end;
};

static struct receipt *receipt_of(struct hx_list *node)
{
    return hx_container_of(node, struct receipt, node);
}

void hx_receipts_init(struct hx_receipts *receipts, enum hx_fd_kind kind)
{
    *receipts = (struct hx_receipts){.kind = kind};
    hx_list_init(&receipts->unread);
}

static void drop_first(struct hx_receipts *receipts)
{
    struct receipt *receipt = receipt_of(hx_list_take_first(&receipts->unread));

    hx_free(receipt);
}

void hx_receipts_fini(struct hx_receipts *receipts)
{
    while (!hx_list_is_empty(&receipts->unread))
        drop_first(receipts);
}

bool hx_receipts_is_empty(const struct hx_receipts *receipts)
{
    return hx_list_is_empty(&receipts->unread);
}

void hx_receipts_add(struct hx_receipts *receipts, uint64_t tag, uint64_t end)
{
    struct receipt *receipt;

    if (receipts->kind == HX_FD_OTHER)
        return;
    receipt = hx_new(struct receipt);
    receipt->tag = tag;
    receipt->end = end;
    hx_list_append(&receipts->unread, &receipt->node);
}

/* Bytes of the stream that were certainly read. */
static uint64_t read_bytes(const struct hx_receipts *receipts, int fd, uint64_t written)
{
    int unread = 0;

    /* What others have written there counts as ours that is unread, which may be all of it. */
    if (receipts->kind == HX_FD_PIPE && ioctl(fd, FIONREAD, &unread) == 0)
        return (uint64_t)unread < written ? written - (uint64_t)unread : 0;
    if (receipts->kind == HX_FD_SOCKET && ioctl(fd, SIOCOUTQ, &unread) == 0 && unread == 0)
        return written;
    return 0;
}

static void forget_up_to(struct hx_receipts *receipts, uint64_t end)
{
    struct hx_list *first;

    while ((first = hx_list_first(&receipts->unread)) != NULL && receipt_of(first)->end <= end)
        drop_first(receipts);
}

void hx_receipts_look(struct hx_receipts *receipts, int fd, uint64_t written)
{
    forget_up_to(receipts, read_bytes(receipts, fd, written));
}

static bool was_reset(const struct hx_receipts *receipts, int fd)
{
    int error = 0;
    socklen_t len = sizeof error;

    if (receipts->was_reset)
        return true;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == ECONNRESET;
}

static void take_back_all(struct hx_receipts *receipts, void (*taken_back)(void *arg, uint64_t tag),
                          void *arg)
{
    while (!hx_list_is_empty(&receipts->unread)) {
        taken_back(arg, receipt_of(hx_list_first(&receipts->unread))->tag);
        drop_first(receipts);
    }
}

void hx_receipts_settle(struct hx_receipts *receipts, int fd, uint64_t written,
                        void (*taken_back)(void *arg, uint64_t tag), void *arg)
{
    if (receipts->kind == HX_FD_PIPE)
        hx_receipts_look(receipts, fd, written);
    else if (receipts->kind == HX_FD_SOCKET && !was_reset(receipts, fd))
        forget_up_to(receipts, written);
    take_back_all(receipts, taken_back, arg);
}

void hx_receipts_give_up(struct hx_receipts *receipts, int fd, uint64_t written,
                         void (*taken_back)(void *arg, uint64_t tag), void *arg)
{
    hx_receipts_look(receipts, fd, written);
    take_back_all(receipts, taken_back, arg);
}
