/* SPDX-License-Identifier: MIT */
/*
 * Sockets that listen, and connections that they give.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "adapter/http_server/internal.h"
#include "base/alloc.h"
#include "base/fault.h"

enum { BACKLOG = 1024, ACCEPT_PAUSE_MS = 100 };

/* --- accepting --- */

static void name_peer(const struct sockaddr_storage *from, char *text, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "?";

    if (from->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)from;
        (void)inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        (void)snprintf(text, size, "%s:%u", host, (unsigned)ntohs(in->sin_port));
    } else if (from->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)from;
        (void)inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
        (void)snprintf(text, size, "[%s]:%u", host, (unsigned)ntohs(in6->sin6_port));
    } else {
        (void)snprintf(text, size, "unix");
    }
}

/* Answers leave when they are written, and a host that vanished without a word is found. None of
 * these can fail for a socket, and without them it would still work. */
static void tune(int fd)
{
    static const struct {
        int level;
        int name;
        int value;
    } settings[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},   {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, 30}, {IPPROTO_TCP, TCP_KEEPINTVL, 10},
        {IPPROTO_TCP, TCP_KEEPCNT, 3},   {IPPROTO_TCP, TCP_USER_TIMEOUT, 60000},
    };

    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        (void)setsockopt(fd, settings[i].level, settings[i].name, &settings[i].value,
                         sizeof settings[i].value);
}

/* Closes the connection that has been idle longest, if any is. */
static void evict(struct server *server)
{
    struct hx_list *oldest = hx_list_first(&server->idle);

    if (oldest != NULL)
        conn_gone(hx_container_of(oldest, struct conn, idle), HX_WEB_GONE_OURS);
}

static void accept_due(void *arg)
{
    listeners_update(arg);
}

static void accept_failed(struct server *server, int error)
{
    if (error == EAGAIN || error == EWOULDBLOCK || error == EINTR || error == ECONNABORTED)
        return;
    /* Out of descriptors or memory: make room, and do not spin until it is there. */
    evict(server);
    if (server->accept_timer == NULL)
        server->accept_timer = hx_loop_timer_new(server->loop, accept_due, server);
    hx_loop_timer_set(server->accept_timer, ACCEPT_PAUSE_MS);
    listeners_update(server);
}

static void listener_ready(void *arg, unsigned events)
{
    struct listener *listener = arg;
    struct server *server = listener->server;

    (void)events;
    for (unsigned count = 0; count < ACCEPTS_PER_TURN; count++) {
        struct sockaddr_storage from = {.ss_family = AF_UNSPEC};
        socklen_t len = sizeof from;
        struct hx_tls *tls = NULL;
        char peer[64];
        int fd;

        if (server->free_slot_count == 0 && hx_list_is_empty(&server->idle))
            break;
        fd = accept4(listener->fd, (struct sockaddr *)&from, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            accept_failed(server, errno);
            break;
        }
        if (server->free_slot_count == 0)
            evict(server);
        name_peer(&from, peer, sizeof peer);
        if (!listener->is_local)
            tune(fd);
        if (server->tls != NULL && !listener->is_local) {
            tls = hx_tls_new(server->tls, fd);
            if (tls == NULL) {
                (void)close(fd);
                continue;
            }
        }
        conn_open(server, fd, listener->is_local, tls, peer);
    }
    listeners_update(server);
    server_reap(server);
}

void listeners_update(struct server *server)
{
    bool is_paused = server->accept_timer != NULL && hx_loop_timer_is_set(server->accept_timer);
    bool has_room = server->free_slot_count > 0 || !hx_list_is_empty(&server->idle);
    bool is_wanted = has_room && !server->is_held && !is_paused;

    hx_list_for_each (node, &server->listeners) {
        struct listener *listener = hx_container_of(node, struct listener, node);
        hx_loop_fd_want(listener->watch, is_wanted ? HX_LOOP_READ : 0);
    }
}

/* --- listening --- */

int listener_add(struct server *server, int fd, bool is_local, const char *path)
{
    struct listener *listener;
    struct stat status;

    if (listen(fd, BACKLOG) != 0) {
        int rc = HX_RAISE_ERRNO("listen");
        (void)close(fd);
        return rc;
    }
    listener = hx_new(struct listener);
    listener->server = server;
    listener->fd = fd;
    listener->is_local = is_local;
    if (path != NULL && lstat(path, &status) == 0) {
        listener->path = hx_strdup(path);
        listener->device = status.st_dev;
        listener->inode = status.st_ino;
    }
    listener->watch = hx_loop_fd_new(server->loop, fd, listener_ready, listener);
    hx_list_append(&server->listeners, &listener->node);
    listeners_update(server);
    return 0;
}

static void listener_close(struct listener *listener)
{
    struct stat status;

    hx_loop_fd_free(listener->watch);
    (void)close(listener->fd);
    /* Another process may have put its own socket there meanwhile. */
    if (listener->path != NULL && lstat(listener->path, &status) == 0 &&
        status.st_dev == listener->device && status.st_ino == listener->inode)
        (void)unlink(listener->path);
    hx_free(listener->path);
    hx_list_unlink(&listener->node);
    hx_free(listener);
}

void listeners_close(struct server *server)
{
    hx_list_for_each_safe (node, &server->listeners)
        listener_close(hx_container_of(node, struct listener, node));
}

static struct server *server_of(struct hx_web *web)
{
    return hx_container_of(web, struct server, web);
}

int hx_http_server_listen_tcp(struct hx_web *web, const char *host, uint16_t port,
                              uint16_t *ret_port)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                             .ai_socktype = SOCK_STREAM};
    struct sockaddr_storage bound = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof bound;
    struct addrinfo *address;
    char service[8];
    int one = 1;
    int fd;
    int rc;

    (void)snprintf(service, sizeof service, "%u", (unsigned)port);
    rc = getaddrinfo(host, service, &hints, &address);
    if (rc != 0)
        return HX_RAISE(HX_E_SYNTAX, "%s is not a numeric address: %s", host, gai_strerror(rc));
    fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        freeaddrinfo(address);
        return HX_RAISE_ERRNO("socket");
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (address->ai_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
    if (bind(fd, address->ai_addr, address->ai_addrlen) != 0 ||
        getsockname(fd, (struct sockaddr *)&bound, &len) != 0) {
        rc = HX_RAISE_ERRNO("cannot listen on %s port %u", host, (unsigned)port);
        freeaddrinfo(address);
        (void)close(fd);
        return rc;
    }
    freeaddrinfo(address);
    *ret_port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                                  : ((struct sockaddr_in *)&bound)->sin_port);
    return listener_add(server_of(web), fd, false, NULL);
}

/* True when a socket file stands there and nobody listens on it. */
static bool is_stale(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool is_refused;

    if (fd < 0)
        return false;
    is_refused = connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 &&
                 errno == ECONNREFUSED;
    (void)close(fd);
    return is_refused;
}

int hx_http_server_listen_unix(struct hx_web *web, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd;
    int rc;

    if (strlen(path) >= sizeof address.sun_path)
        return HX_RAISE(HX_E_LIMIT, "the path of a socket has at most %zu bytes: %s",
                        sizeof address.sun_path - 1, path);
    memcpy(address.sun_path, path, strlen(path));
    if (is_stale(&address))
        (void)unlink(path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return HX_RAISE_ERRNO("socket");
    /* Before bind, so that the file is never there with another mode. */
    if (fchmod(fd, 0600) != 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        rc = HX_RAISE_ERRNO("cannot listen on %s", path);
        (void)close(fd);
        return rc;
    }
    return listener_add(server_of(web), fd, true, path);
}

int hx_http_server_listen_fd(struct hx_web *web, int fd)
{
    struct sockaddr_storage bound = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof bound;

    if (getsockname(fd, (struct sockaddr *)&bound, &len) != 0)
        return HX_RAISE_ERRNO("descriptor %d is not a socket", fd);
    return listener_add(server_of(web), fd, bound.ss_family == AF_UNIX, NULL);
}

int hx_http_server_use_tls(struct hx_web *web, const char *cert_path, const char *key_path)
{
    struct server *server = server_of(web);
    struct hx_tls_server *tls = hx_tls_server_new(cert_path, key_path);

    if (tls == NULL)
        return HX_TRACE(HX_E_SYSTEM);
    hx_tls_server_free(server->tls); /* connections hold their own reference */
    server->tls = tls;
    return 0;
}
