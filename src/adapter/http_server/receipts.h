/* SPDX-License-Identifier: MIT */
/*
 * Which of the answers that the kernel took may the client not have read?
 *
 * What is known, and when:
 *  - The client's end of file acknowledges what had reached it, and a client that closes with
 *    something unread resets instead. So after an orderly end all that was acknowledged was read,
 *    and the rest was not. (TLS: bytes do not map; all or nothing.)
 *  - After a reset nothing is known, but of an answer older than `within_ms` it is supposed that it
 *    was read: the client had the time, and a connection dies for many reasons.
 *  - The next request on the connection says that the answer before it was read.
 *  - A Unix socket whose queue is empty was read to its end.
 */
#ifndef HX_ADAPTER_HTTP_SERVER_RECEIPTS_H
#define HX_ADAPTER_HTTP_SERVER_RECEIPTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/time.h"

struct hx_web_receipts {
    struct hx_list unread; /* oldest first */
    uint32_t count;
};

void hx_web_receipts_init(struct hx_web_receipts *receipts);
/* Forgets all; tells nothing. */
void hx_web_receipts_clear(struct hx_web_receipts *receipts);
/* The last byte of message `tag` was taken; `end` counts all bytes written so far. */
void hx_web_receipts_add(struct hx_web_receipts *receipts, uint64_t tag, uint64_t end,
                         struct hx_mono now);
void hx_web_receipts_forget_until(struct hx_web_receipts *receipts, struct hx_mono time);
void hx_web_receipts_forget_read(struct hx_web_receipts *receipts, uint64_t end);
/* Calls `taken_back` for each message that is left, oldest first, and forgets it. */
void hx_web_receipts_settle(struct hx_web_receipts *receipts,
                            void (*taken_back)(void *arg, uint64_t tag), void *arg);

#endif
