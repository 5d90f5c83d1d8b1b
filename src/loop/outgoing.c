/* SPDX-License-Identifier: MIT */
/*
 * Several messages share one system call; the count that the kernel returns is then dealt out to
 * them in order.
 */
#include "loop/outgoing.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/alloc.h"

enum {
    MESSAGE_PARTS = 3,
    BATCH_PARTS = 32,
    /* One peer's share of a turn. */
    TURN_BYTES = 1 << 20
};

struct message {
    struct hx_list node;
    uint64_t tag;
    struct hx_buf prefix; /* owned */
    struct hx_buf body;   /* owned; a line is without its newline */
    struct hx_span suffix;
    size_t offset; /* taken by the kernel, of all three parts */
};

static struct message *message_of(struct hx_list *node)
{
    return hx_container_of(node, struct message, node);
}

static size_t message_size(const struct message *message)
{
    return message->prefix.len + message->body.len + message->suffix.len;
}

static void drop(struct hx_outgoing *out, struct message *message)
{
    hx_list_unlink(&message->node);
    out->queued_bytes -= message_size(message) - message->offset;
    hx_buf_fini(&message->prefix);
    hx_buf_fini(&message->body);
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

static void take_part(struct hx_buf *to, struct hx_buf *from)
{
    if (from == NULL)
        return;
    *to = *from;
    hx_buf_init(from, from->len_max);
}

void hx_outgoing_add_parts(struct hx_outgoing *out, struct hx_buf *prefix, struct hx_buf *body,
                           struct hx_span suffix, uint64_t tag)
{
    struct message *message = hx_new(struct message);

    message->tag = tag;
    message->suffix = suffix;
    take_part(&message->prefix, prefix);
    take_part(&message->body, body);
    hx_assert(message_size(message) > 0);
    hx_list_append(&out->messages, &message->node);
    out->queued_bytes += message_size(message);
}

void hx_outgoing_add(struct hx_outgoing *out, struct hx_buf *line, uint64_t tag)
{
    hx_outgoing_add_parts(out, NULL, line, HX_SPAN_LIT("\n"), tag);
}

/* Adds what is left of `part` behind its first *skip bytes, which are taken off *skip. */
static size_t gather_part(struct hx_span part, size_t *skip, struct iovec *ret_part)
{
    size_t skipped = *skip < part.len ? *skip : part.len;

    *skip -= skipped;
    if (skipped == part.len)
        return 0;
    /* writev() takes no const; it does not write here. */
    *ret_part = (struct iovec){(void *)(uintptr_t)(part.ptr + skipped), part.len - skipped};
    return 1;
}

static size_t gather(const struct hx_outgoing *out, struct iovec *parts)
{
    size_t count = 0;

    hx_list_for_each (node, &out->messages) {
        struct message *message = message_of(node);
        size_t skip = message->offset;
        if (count + MESSAGE_PARTS > BATCH_PARTS)
            break;
        count += gather_part(hx_buf_span(&message->prefix), &skip, parts + count);
        count += gather_part(hx_buf_span(&message->body), &skip, parts + count);
        count += gather_part(message->suffix, &skip, parts + count);
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

    if (out->write != NULL)
        return out->write(out->write_arg, parts, count);
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

    out->is_share_used = false;
    while (!hx_list_is_empty(&out->messages)) {
        struct iovec parts[BATCH_PARTS];
        ssize_t sent;

        if (out->written_bytes >= stop_at) {
            out->is_share_used = true;
            return HX_OUTGOING_BLOCKED;
        }
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
