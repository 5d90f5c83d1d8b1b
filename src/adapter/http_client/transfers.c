/* SPDX-License-Identifier: MIT */
/*
 * A socket is watched from its opening to its close, also between two transfers, while the library
 * says that it wants nothing of it. To rest and to begin again would be four system calls for every
 * call of a tool. When an idle connection has something to say (mostly that its other end closed
 * it), the watch rests after all; the library looks before it uses the connection again.
 */
#include "adapter/http_client/transfers.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/list.h"

struct hx_http_socket {
    struct hx_map_node node; /* transfers->sockets */
    struct hx_http_transfers *transfers;
    struct hx_loop_fd *watch;
    curl_socket_t fd;
    bool is_ours;     /* opened and closed here; else one of the library, such as its resolver's */
    unsigned wanted;  /* by the library */
    unsigned watched; /* may have READ more than that */
};

static void take_ended(struct hx_http_transfers *transfers)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(transfers->multi, &left)) != NULL) {
        CURL *easy = message->easy_handle;
        CURLcode code = message->data.result;
        void *transfer = NULL;

        hx_assert(message->msg == CURLMSG_DONE);
        hx_assert(curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer) == CURLE_OK);
        hx_http_transfers_remove(transfers, easy);
        transfers->ended(transfer, code);
    }
}

static void act(struct hx_http_transfers *transfers, curl_socket_t fd, int events)
{
    int running;

    /* The only errors are memory and misuse. */
    hx_assert(curl_multi_socket_action(transfers->multi, fd, events, &running) == CURLM_OK);
    take_ended(transfers);
}

static void watch(struct hx_http_socket *socket, unsigned events)
{
    socket->watched = events;
    hx_loop_fd_want(socket->watch, events);
}

static void socket_ready(void *arg, unsigned events)
{
    struct hx_http_socket *socket = arg;
    int what = 0;

    if ((events & socket->wanted) == 0) {
        watch(socket, socket->wanted);
        return;
    }
    if ((events & HX_LOOP_READ) != 0)
        what |= CURL_CSELECT_IN;
    if ((events & HX_LOOP_WRITE) != 0)
        what |= CURL_CSELECT_OUT;
    act(socket->transfers, socket->fd, what); /* may free the socket */
}

static void timer_due(void *arg)
{
    act(arg, CURL_SOCKET_TIMEOUT, 0);
}

/* --- sockets --- */

static struct hx_http_socket *socket_find(const struct hx_http_transfers *transfers,
                                          curl_socket_t fd)
{
    struct hx_map_node *node =
        hx_map_find(&transfers->sockets, hx_span((const char *)&fd, sizeof fd));
    return node != NULL ? hx_container_of(node, struct hx_http_socket, node) : NULL;
}

static void socket_free(struct hx_http_socket *socket)
{
    if (socket == NULL)
        return;
    hx_map_remove(&socket->transfers->sockets, &socket->node);
    hx_loop_fd_free(socket->watch);
    hx_free(socket);
}

static struct hx_http_socket *socket_new(struct hx_http_transfers *transfers, curl_socket_t fd,
                                         bool is_ours)
{
    struct hx_http_socket *socket = hx_new(struct hx_http_socket);

    socket_free(socket_find(transfers, fd)); /* closed behind our back */
    socket->transfers = transfers;
    socket->fd = fd;
    socket->is_ours = is_ours;
    hx_map_insert(&transfers->sockets, &socket->node,
                  hx_span((const char *)&socket->fd, sizeof socket->fd));
    socket->watch = hx_loop_fd_new(transfers->loop, fd, socket_ready, socket);
    return socket;
}

/* Also because the library's own sockets would be inherited by children. */
static curl_socket_t socket_open(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                    address->protocol);

    (void)purpose;
    if (fd >= 0)
        socket_new(arg, fd, true);
    return fd;
}

static int socket_close(void *arg, curl_socket_t fd)
{
    struct hx_http_transfers *transfers = arg;

    socket_free(socket_find(transfers, fd));
    return close(fd);
}

static int socket_wanted(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
    struct hx_http_transfers *transfers = arg;
    struct hx_http_socket *socket = socket_find(transfers, fd);
    bool is_resting = what == CURL_POLL_REMOVE;

    (void)easy;
    (void)socket_arg;
    if (socket == NULL && is_resting)
        return 0;
    if (socket == NULL)
        socket = socket_new(transfers, fd, false);
    if (is_resting && !socket->is_ours) {
        socket_free(socket);
        return 0;
    }
    socket->wanted = 0;
    if (!is_resting && (what & CURL_POLL_IN) != 0)
        socket->wanted |= HX_LOOP_READ;
    if (!is_resting && (what & CURL_POLL_OUT) != 0)
        socket->wanted |= HX_LOOP_WRITE;
    if (!is_resting || socket->watched != HX_LOOP_READ)
        watch(socket, socket->wanted);
    return 0;
}

static int timer_wanted(CURLM *multi, long timeout_ms, void *arg)
{
    struct hx_http_transfers *transfers = arg;

    (void)multi;
    if (timeout_ms < 0)
        hx_loop_timer_clear(transfers->timer);
    else
        hx_loop_timer_set(transfers->timer, timeout_ms);
    return 0;
}

#define MULTI_SET(option, value)                                                                   \
    hx_assert(curl_multi_setopt(transfers->multi, (option), (value)) == CURLM_OK)

void hx_http_transfers_init(struct hx_http_transfers *transfers, struct hx_loop *loop,
                            long idle_connections_max, void (*ended)(void *transfer, CURLcode code))
{
    const uint64_t no_secret[2] = {0}; /* nobody chooses descriptors */

    *transfers = (struct hx_http_transfers){
        .loop = loop, .ended = ended, .idle_connections_max = idle_connections_max};
    hx_map_init(&transfers->sockets, no_secret);
    transfers->timer = hx_loop_timer_new(loop, timer_due, transfers);
}

static void wake(struct hx_http_transfers *transfers)
{
    transfers->multi = curl_multi_init();
    hx_assert(transfers->multi != NULL);
    MULTI_SET(CURLMOPT_SOCKETFUNCTION, socket_wanted);
    MULTI_SET(CURLMOPT_SOCKETDATA, transfers);
    MULTI_SET(CURLMOPT_TIMERFUNCTION, timer_wanted);
    MULTI_SET(CURLMOPT_TIMERDATA, transfers);
    /* One request a connection: with several, one that is dropped would take the others along. */
    MULTI_SET(CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
    MULTI_SET(CURLMOPT_MAXCONNECTS, transfers->idle_connections_max);
}

void hx_http_transfers_rest(struct hx_http_transfers *transfers)
{
    struct hx_map_node *node;

    if (transfers->multi != NULL)
        (void)curl_multi_cleanup(transfers->multi); /* nothing can be done about what it says */
    while ((node = hx_map_next(&transfers->sockets, NULL)) != NULL)
        socket_free(hx_container_of(node, struct hx_http_socket, node));
    transfers->multi = NULL;
    hx_loop_timer_clear(transfers->timer);
}

void hx_http_transfers_fini(struct hx_http_transfers *transfers)
{
    hx_http_transfers_rest(transfers);
    hx_map_fini(&transfers->sockets);
    transfers->timer = hx_loop_timer_free(transfers->timer);
}

void hx_http_transfers_prepare(struct hx_http_transfers *transfers, CURL *easy)
{
    hx_assert(curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, socket_open) == CURLE_OK);
    hx_assert(curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, transfers) == CURLE_OK);
    hx_assert(curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, socket_close) == CURLE_OK);
    hx_assert(curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, transfers) == CURLE_OK);
}

void hx_http_transfers_add(struct hx_http_transfers *transfers, CURL *easy)
{
    if (transfers->multi == NULL)
        wake(transfers);
    hx_assert(curl_multi_add_handle(transfers->multi, easy) == CURLM_OK);
}

void hx_http_transfers_remove(struct hx_http_transfers *transfers, CURL *easy)
{
    hx_assert(curl_multi_remove_handle(transfers->multi, easy) == CURLM_OK);
}
