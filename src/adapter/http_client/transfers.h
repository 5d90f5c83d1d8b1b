/* SPDX-License-Identifier: MIT */
/*
 * libcurl's multi handle on our loop: its sockets become watches, its timeout a timer.
 *
 * The library calls back into its user while it runs. To keep "step, don't call back", `ended` is
 * called after the library has returned, and only then may handles be removed or freed.
 */
#ifndef HX_ADAPTER_HTTP_CLIENT_TRANSFERS_H
#define HX_ADAPTER_HTTP_CLIENT_TRANSFERS_H

#include "adapter/http_client/curl_library.h"
#include "base/map.h"
#include "loop/loop.h"

struct hx_http_transfers {
    struct hx_loop *loop;
    struct hx_loop_timer *timer;
    CURLM *multi;          /* NULL until there is something to do */
    struct hx_map sockets; /* by descriptor */
    long idle_connections_max;
    void (*ended)(void *transfer, CURLcode code);
};

/* `ended` gets the handle's CURLOPT_PRIVATE; the handle is out of the multi by then. */
void hx_http_transfers_init(struct hx_http_transfers *transfers, struct hx_loop *loop,
                            long idle_connections_max,
                            void (*ended)(void *transfer, CURLcode code));
/* Every handle must have been removed. Closes the idle connections. */
void hx_http_transfers_fini(struct hx_http_transfers *transfers);
/* Nothing is under way, and nothing will be for a while: closes the idle connections, and gives the
 * memory back. */
void hx_http_transfers_rest(struct hx_http_transfers *transfers);
/* Once, for a new handle: its sockets are opened and closed here. */
void hx_http_transfers_prepare(struct hx_http_transfers *transfers, CURL *easy);
/* Never begins it at once: the first byte leaves in a later turn of the loop. */
void hx_http_transfers_add(struct hx_http_transfers *transfers, CURL *easy);
/* Closes its connection unless it is done; others are not touched. `ended` is not called. */
void hx_http_transfers_remove(struct hx_http_transfers *transfers, CURL *easy);

#endif
