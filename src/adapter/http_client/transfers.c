/* SPDX-License-Identifier: MIT */
#include "adapter/http_client/transfers.h"

#include "base/alloc.h"

struct hx_http_socket {
    struct hx_http_transfers *transfers;
    struct hx_http_socket *next;
    struct hx_loop_fd *watch;
    curl_socket_t fd;
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

static void socket_ready(void *arg, unsigned events)
{
    struct hx_http_socket *socket = arg;
    int what = 0;

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

static struct hx_http_socket *socket_new(struct hx_http_transfers *transfers, curl_socket_t fd)
{
    struct hx_http_socket *socket = hx_new(struct hx_http_socket);

    socket->transfers = transfers;
    socket->fd = fd;
    socket->watch = hx_loop_fd_new(transfers->loop, fd, socket_ready, socket);
    socket->next = transfers->sockets;
    transfers->sockets = socket;
    hx_assert(curl_multi_assign(transfers->multi, fd, socket) == CURLM_OK);
    return socket;
}

static void socket_free(struct hx_http_socket *socket)
{
    struct hx_http_socket **at = &socket->transfers->sockets;

    while (*at != socket)
        at = &(*at)->next;
    *at = socket->next;
    hx_loop_fd_free(socket->watch);
    hx_free(socket);
}

static int socket_wanted(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
    struct hx_http_transfers *transfers = arg;
    struct hx_http_socket *socket = socket_arg;
    unsigned events = 0;

    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (socket != NULL)
            socket_free(socket);
        return 0;
    }
    if (socket == NULL)
        socket = socket_new(transfers, fd);
    if ((what & CURL_POLL_IN) != 0)
        events |= HX_LOOP_READ;
    if ((what & CURL_POLL_OUT) != 0)
        events |= HX_LOOP_WRITE;
    hx_loop_fd_want(socket->watch, events);
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
    *transfers = (struct hx_http_transfers){.loop = loop, .ended = ended};
    transfers->timer = hx_loop_timer_new(loop, timer_due, transfers);
    transfers->multi = curl_multi_init();
    hx_assert(transfers->multi != NULL);
    MULTI_SET(CURLMOPT_SOCKETFUNCTION, socket_wanted);
    MULTI_SET(CURLMOPT_SOCKETDATA, transfers);
    MULTI_SET(CURLMOPT_TIMERFUNCTION, timer_wanted);
    MULTI_SET(CURLMOPT_TIMERDATA, transfers);
    /* One request a connection: with several, one that is dropped would take the others along. */
    MULTI_SET(CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
    MULTI_SET(CURLMOPT_MAXCONNECTS, idle_connections_max);
}

void hx_http_transfers_fini(struct hx_http_transfers *transfers)
{
    if (transfers->multi != NULL)
        (void)curl_multi_cleanup(transfers->multi); /* nothing can be done about what it says */
    while (transfers->sockets != NULL)
        socket_free(transfers->sockets);
    transfers->timer = hx_loop_timer_free(transfers->timer);
    transfers->multi = NULL;
}

void hx_http_transfers_add(struct hx_http_transfers *transfers, CURL *easy)
{
    hx_assert(curl_multi_add_handle(transfers->multi, easy) == CURLM_OK);
}

void hx_http_transfers_remove(struct hx_http_transfers *transfers, CURL *easy)
{
    hx_assert(curl_multi_remove_handle(transfers->multi, easy) == CURLM_OK);
}
