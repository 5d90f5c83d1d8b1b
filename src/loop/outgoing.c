/* SPDX-License-Identifier: MIT */
/*
 * Several messages share one system call; the count that the kernel returns is then dealt out to
 * them in order.
 */
#include "loop/outgoing.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/alloc.h"

enum {
    BATCH_MESSAGES = 16,
    /* One peer's share of a turn. */
    TURN_BYTES = 1 << 20
};

struct message {
    struct hx_list node;
    uint64_t tag;
    struct hx_buf line; /* owned; without its newline */
    size_t offset;      /* taken by the kernel, newline included */
};

static struct message *message_of(struct hx_list *node)
{
    return hx_container_of(node, struct message, node);
}

static size_t message_size(const struct message *message)
{
    return message->line.len + 1;
}

static void drop(struct hx_outgoing *out, struct message *message)
{
    hx_list_unlink(&message->node);
    out->queued_bytes -= message_size(message) - message->offset;
    hx_buf_fini(&message->line);
    hx_free(message);
}

void hx_outgoing_init(struct hx_outgoing *out, bool is_socket,
                      void (*fate)(void *arg, uint64_t tag, enum hx_outgoing_fate fate), void *arg)
{
    *out = (struct hx_outgoing){.is_socket = is_socket, .fate = fate, .arg = arg};
    hx_list_init(&out->messages);
}

void hx_outgoing_fini(struct hx_outgoing *out)
{
    struct hx_list *node;

    while ((node = hx_list_first(&out->messages)) != NULL)
        drop(out, message_of(node));
}

void hx_outgoing_add(struct hx_outgoing *out, struct hx_buf *line, uint64_t tag)
{
    struct message *message = hx_new(struct message);

    message->tag = tag;
    message->line = *line;
    hx_buf_init(line, line->len_max);
    hx_list_append(&out->messages, &message->node);
    out->queued_bytes += message_size(message);
}

static size_t gather(const struct hx_outgoing *out, struct iovec *parts)
{
    static const char newline = '\n';
    size_t count = 0;

    hx_list_for_each (node, &out->messages) {
        struct message *message = message_of(node);
        if (count + 2 > BATCH_MESSAGES * 2)
            break;
        if (message->offset < message->line.len) {
            parts[count++] = (struct iovec){message->line.data + message->offset,
                                            message->line.len - message->offset};
        }
        /* writev() takes no const; it does not write here. */
        parts[count++] = (struct iovec){(void *)(uintptr_t)&newline, 1};
    }
    return count;
}

/* Deals `count` accepted bytes out to the messages. */
static void account(struct hx_outgoing *out, size_t count)
{
    while (count > 0) {
        struct message *message = message_of(hx_list_first(&out->messages));
        size_t left = message_size(message) - message->offset;
        size_t part = count < left ? count : left;

        if (message->offset == 0)
            out->fate(out->arg, message->tag, HX_OUTGOING_FIRST_BYTE);
        message->offset += part;
        out->queued_bytes -= part;
        out->written_bytes += part;
        count -= part;
        if (message->offset == message_size(message)) {
            uint64_t tag = message->tag;
            drop(out, message);
            out->fate(out->arg, tag, HX_OUTGOING_WRITTEN);
        }
    }
}

static ssize_t write_parts(const struct hx_outgoing *out, int fd, struct iovec *parts, size_t count)
{
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
    ssize_t sent;

    do {
        if (out->is_socket)
            sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        else
            sent = writev(fd, parts, (int)count);
    } while (sent < 0 && errno == EINTR);
    return sent;
}

int hx_outgoing_write(struct hx_outgoing *out, int fd)
{
    uint64_t stop_at = out->written_bytes + TURN_BYTES;

    while (!hx_list_is_empty(&out->messages)) {
        struct iovec parts[BATCH_MESSAGES * 2];
        ssize_t sent;

        if (out->written_bytes >= stop_at)
            return HX_OUTGOING_BLOCKED;
        sent = write_parts(out, fd, parts, gather(out, parts));
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return HX_OUTGOING_BLOCKED;
        if (sent < 0) {
            out->broken_errno = errno;
            return HX_OUTGOING_BROKEN;
        }
        account(out, (size_t)sent);
    }
    return 0;
}

void hx_outgoing_abandon(struct hx_outgoing *out)
{
    struct hx_list *node;

    while ((node = hx_list_first(&out->messages)) != NULL) {
        struct message *message = message_of(node);
        uint64_t tag = message->tag;
        enum hx_outgoing_fate fate = message->offset > 0 ? HX_OUTGOING_CUT : HX_OUTGOING_NOT_SENT;

        drop(out, message);
        out->fate(out->arg, tag, fate);
    }
}

bool hx_outgoing_is_empty(const struct hx_outgoing *out)
{
    return hx_list_is_empty(&out->messages);
}

bool hx_outgoing_is_cut_now(const struct hx_outgoing *out, uint64_t *ret_tag)
{
    struct hx_list *node = hx_list_first(&out->messages);

    if (node == NULL || message_of(node)->offset == 0)
        return false;
    *ret_tag = message_of(node)->tag;
    return true;
}
