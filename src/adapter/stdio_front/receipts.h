/* SPDX-License-Identifier: MIT */
/*
 * Which of the messages that the kernel took has the client read?
 *
 * That a write succeeded says little: the bytes may wait in the pipe when the client gives up, and
 * then its retry must find the stored answer. The kernel knows how much is unread, and this keeps
 * the messages that may still be among it.
 */
#ifndef HX_ADAPTER_STDIO_FRONT_RECEIPTS_H
#define HX_ADAPTER_STDIO_FRONT_RECEIPTS_H

#include <stdbool.h>
#include <stdint.h>

#include "adapter/stdio_front/private_fd.h"
#include "base/list.h"

struct hx_receipts {
    struct hx_list unread; /* oldest first */
    enum hx_fd_kind kind;
    bool was_reset; /* a read or write met ECONNRESET, which the kernel tells only once */
};

void hx_receipts_init(struct hx_receipts *receipts, enum hx_fd_kind kind);
void hx_receipts_fini(struct hx_receipts *receipts);
bool hx_receipts_is_empty(const struct hx_receipts *receipts);
/* The last byte of message `tag` was taken; `end` counts all bytes written so far. */
void hx_receipts_add(struct hx_receipts *receipts, uint64_t tag, uint64_t end);
/* Forgets what was read meanwhile. `written` counts all bytes written so far. */
void hx_receipts_look(struct hx_receipts *receipts, int fd, uint64_t written);
/* The reader is gone: calls `taken_back` for each message that it did not read, oldest first. */
void hx_receipts_settle(struct hx_receipts *receipts, int fd, uint64_t written,
                        void (*taken_back)(void *arg, uint64_t tag), void *arg);
/* We let go of it, while its reader may live: the same for each that he has not certainly read. */
void hx_receipts_give_up(struct hx_receipts *receipts, int fd, uint64_t written,
                         void (*taken_back)(void *arg, uint64_t tag), void *arg);

#endif
