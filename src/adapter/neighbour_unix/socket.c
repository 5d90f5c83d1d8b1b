/* SPDX-License-Identifier: MIT */
/*
 * Addresses go through /proc/self/fd, because the path of a ledger may be longer than the 107 bytes
 * that a socket address holds.
 *
 * A datagram, 48 bytes: "HXN1", type, is_live, two zero bytes, sequence (little endian), sender,
 * operation.
 */
#include "adapter/neighbour_unix/socket.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fault.h"

enum {
    MESSAGE_SIZE = 48,
    AT_TYPE = 4,
    AT_LIVE = 5,
    AT_SEQUENCE = 8,
    AT_FROM = 16,
    AT_OPERATION = 32,
    NAME_SIZE = 64,
    SWEEP_MAX = 256 /* names looked at when opening */
};

static const char magic[] = {'H', 'X', 'N', '1'};
static const char prefix[] = "neighbour-";

static void name_of(const struct hx_id *id, char *ret_name)
{
    char text[HX_ID_TEXT_SIZE];

    hx_id_format(id, text);
    (void)snprintf(ret_name, NAME_SIZE, "%s%s", prefix, text);
}

static struct sockaddr_un address_of(int dir_fd, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int len =
        snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", dir_fd, name);

    hx_assert(len > 0);
    hx_assert((size_t)len < sizeof address.sun_path);
    return address;
}

/* A bound datagram socket takes messages from its birth, so one that refuses is dead for good. */
static bool is_dead(int dir_fd, const char *name)
{
    struct sockaddr_un address = address_of(dir_fd, name);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool is_refused;

    if (fd < 0)
        return false;
    is_refused = connect(fd, (const struct sockaddr *)&address, sizeof address) != 0 &&
                 errno == ECONNREFUSED;
    (void)close(fd);
    return is_refused;
}

/* Killed neighbours leave their sockets behind. */
static void sweep(int dir_fd)
{
    int list_fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = list_fd >= 0 ? fdopendir(list_fd) : NULL;
    const struct dirent *entry;
    unsigned count = 0;

    if (dir == NULL) {
        if (list_fd >= 0)
            (void)close(list_fd);
        return;
    }
    while ((entry = readdir(dir)) != NULL && count < SWEEP_MAX) {
        if (strncmp(entry->d_name, prefix, sizeof prefix - 1) != 0 ||
            strlen(entry->d_name) >= NAME_SIZE)
            continue;
        count++;
        if (is_dead(dir_fd, entry->d_name))
            (void)unlinkat(dir_fd, entry->d_name, 0);
    }
    (void)closedir(dir);
}

static int bind_name(struct hx_neighbour_socket *own, const char *name)
{
    struct sockaddr_un address = address_of(own->dir_fd, name);

    own->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (own->fd < 0)
        return HX_RAISE_ERRNO("socket");
    /* Before the name exists, so that it is never open to others; umask belongs to all threads. */
    if (fchmod(own->fd, 0600) != 0)
        return HX_RAISE_ERRNO("fchmod of a socket");
    if (bind(own->fd, (const struct sockaddr *)&address, sizeof address) != 0)
        return HX_RAISE_ERRNO("bind %s", name);
    return 0;
}

int hx_neighbour_socket_open(struct hx_neighbour_socket *own, const char *dir,
                             const struct hx_id *self)
{
    char name[NAME_SIZE];
    int rc;

    *own = (struct hx_neighbour_socket){.dir_fd = -1, .fd = -1, .self = *self};
    own->dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (own->dir_fd < 0)
        return HX_RAISE_ERRNO("open %.200s", dir);
    sweep(own->dir_fd);
    name_of(self, name);
    rc = bind_name(own, name);
    if (rc != 0) {
        /* The name, if there is one, is somebody else's. */
        if (own->fd >= 0)
            (void)close(own->fd);
        (void)close(own->dir_fd);
        own->fd = own->dir_fd = -1;
    }
    return HX_TRACE(rc);
}

void hx_neighbour_socket_close(struct hx_neighbour_socket *own)
{
    char name[NAME_SIZE];

    if (own->fd < 0)
        return;
    name_of(&own->self, name);
    (void)unlinkat(own->dir_fd, name, 0); /* else the next one to open sweeps it */
    (void)close(own->fd);
    (void)close(own->dir_fd);
    own->fd = own->dir_fd = -1;
}

int hx_neighbour_socket_send(const struct hx_neighbour_socket *own, const struct hx_id *to,
                             const struct hx_neighbour_message *message)
{
    uint8_t bytes[MESSAGE_SIZE] = {0};
    char name[NAME_SIZE];
    struct sockaddr_un address;

    memcpy(bytes, magic, sizeof magic);
    bytes[AT_TYPE] = (uint8_t)message->type;
    bytes[AT_LIVE] = message->is_live ? 1 : 0;
    for (unsigned i = 0; i < 8; i++)
        bytes[AT_SEQUENCE + i] = (uint8_t)(message->sequence >> (8 * i));
    memcpy(bytes + AT_FROM, own->self.bytes, HX_ID_SIZE);
    memcpy(bytes + AT_OPERATION, message->operation.bytes, HX_ID_SIZE);
    name_of(to, name);
    address = address_of(own->dir_fd, name);
    if (sendto(own->fd, bytes, sizeof bytes, MSG_NOSIGNAL | MSG_DONTWAIT,
               (const struct sockaddr *)&address, sizeof address) == (ssize_t)sizeof bytes)
        return 0;
    /* Whatever else is wrong with its socket, it will not answer there. */
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ENOMEM ||
                   errno == EINTR
               ? HX_NEIGHBOUR_BUSY
               : HX_NEIGHBOUR_DEAD;
}

int hx_neighbour_socket_receive(const struct hx_neighbour_socket *own,
                                struct hx_neighbour_message *ret_message)
{
    uint8_t bytes[MESSAGE_SIZE];
    ssize_t len = recv(own->fd, bytes, sizeof bytes, MSG_DONTWAIT | MSG_TRUNC);
    struct hx_neighbour_message message = {.is_live = false};

    if (len < 0)
        return HX_NEIGHBOUR_EMPTY;
    if (len != MESSAGE_SIZE || memcmp(bytes, magic, sizeof magic) != 0 ||
        bytes[AT_TYPE] < HX_NEIGHBOUR_SAYS_ASK || bytes[AT_TYPE] > HX_NEIGHBOUR_SAYS_STOP ||
        bytes[AT_LIVE] > 1)
        return HX_NEIGHBOUR_GARBAGE;
    message.type = (enum hx_neighbour_message_type)bytes[AT_TYPE];
    message.is_live = bytes[AT_LIVE] == 1;
    for (unsigned i = 0; i < 8; i++)
        message.sequence |= (uint64_t)bytes[AT_SEQUENCE + i] << (8 * i);
    memcpy(message.from.bytes, bytes + AT_FROM, HX_ID_SIZE);
    memcpy(message.operation.bytes, bytes + AT_OPERATION, HX_ID_SIZE);
    *ret_message = message;
    return 0;
}
