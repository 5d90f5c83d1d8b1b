/* SPDX-License-Identifier: MIT */
/*
 * Streamable HTTP's transport: HTTP/1.1 on TCP and Unix sockets, as port/web.h wants it.
 *
 *     struct hx_http_server_options options = hx_http_server_defaults();
 *     struct hx_web *web = hx_http_server_new(loop, &inbox, &options);
 *     rc = hx_http_server_listen_tcp(web, "127.0.0.1", 8080, &port);
 *     ... REQUEST ... web->ops->answer(web, event->exchange, &answer, &body, 7); ... WRITTEN 7 ...
 *     web->ops->drain(web); ... DRAINED ...
 *     hx_http_server_free(web);
 *
 * What is refused without asking the engine: framing that is in doubt, heads and bodies over their
 * maximum, what comes too slowly, and what exceeds the memory for bodies. Such a refusal is a
 * sentence in plain text, and the connection ends with it.
 *
 * At most connections_max are open. A new one evicts the one that has been idle longest, and waits
 * in the kernel's queue while none is idle.
 */
#ifndef HX_ADAPTER_HTTP_SERVER_H
#define HX_ADAPTER_HTTP_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "loop/loop.h"
#include "port/web.h"

struct hx_http_server_options {
    uint32_t connections_max;
    size_t head_max_bytes;
    uint32_t headers_max;
    size_t target_max_bytes;
    size_t message_max_bytes;     /* a body */
    uint64_t bodies_max_bytes;    /* all bodies being received together */
    uint64_t queue_max_bytes;     /* a stream that lets more pile up is cut off */
    uint64_t answers_max_bytes;   /* all that waits for readers; beyond it the slowest is cut off */
    int64_t head_timeout_ms;      /* from the first byte of a head, or from the connection */
    int64_t body_timeout_ms;      /* for a body, and more as long as it comes at rate_min */
    uint64_t rate_min_bytes;      /* a second, of bodies and of whole answers */
    int64_t idle_timeout_ms;      /* between two requests */
    int64_t write_timeout_ms;     /* without one byte taken */
    int64_t stream_ping_ms;       /* a comment after so much silence on a stream; 0 = none */
    int64_t linger_timeout_ms;    /* for the client to close after our last answer */
    int64_t taken_back_within_ms; /* a reset later than this says nothing of an answer */
};

struct hx_http_server_options hx_http_server_defaults(void);

struct hx_web *hx_http_server_new(struct hx_loop *loop, struct hx_list *inbox,
                                  const struct hx_http_server_options *options);
/* Closes what is open; tells no fates: close() first when somebody waits for them. Accepts NULL. */
struct hx_web *hx_http_server_free(struct hx_web *web);

/* `host` is a numeric address. With `port` 0 the kernel chooses: *ret_port. */
int hx_http_server_listen_tcp(struct hx_web *web, const char *host, uint16_t port,
                              uint16_t *ret_port) HX_MUST_CHECK;
/* Mode 0600. A socket file that nobody listens on is replaced; ours is removed at the end. */
int hx_http_server_listen_unix(struct hx_web *web, const char *path) HX_MUST_CHECK;
/* One that listens already, taken: from systemd, or an earlier process. */
int hx_http_server_listen_fd(struct hx_web *web, int fd) HX_MUST_CHECK;
/* From here on every new connection that is not by a Unix socket must speak TLS. PEM files; called
 * again, it replaces the certificate for the connections to come. */
int hx_http_server_use_tls(struct hx_web *web, const char *cert_path,
                           const char *key_path) HX_MUST_CHECK;

/* For metrics and tests. */
uint32_t hx_http_server_connection_count(struct hx_web *web);

#endif
