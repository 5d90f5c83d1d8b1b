/* SPDX-License-Identifier: MIT */
#include "app/announce.h"

#include "adapter/http_client/courier.h"
#include "base/fault.h"

/* So many events are on their way at once: enough for one that is far, few for one that is slow. */
enum { IN_FLIGHT_MAX = 8 };

int hx_announce_open(struct hx_loop *loop, const struct hx_settings *settings,
                     struct hx_courier **ret_courier)
{
    *ret_courier = NULL;
    if (settings->outbox_url == NULL)
        return 0;
    const struct hx_http_courier_options options = {
        .url = settings->outbox_url,
        .secret_file = settings->outbox_secret_file,
        .headers_file = settings->outbox_headers_file,
        .ca_file = settings->outbox_ca_file,
        .timeout_ms = settings->outbox_timeout,
    };
    return HX_TRACE(hx_http_courier_new(loop, &options, ret_courier));
}

struct hx_courier *hx_announce_close(struct hx_courier *courier)
{
    return hx_http_courier_free(courier);
}

void hx_announce_options(const struct hx_settings *settings, struct hx_gateway_options *options)
{
    options->outbox.in_flight_max = IN_FLIGHT_MAX;
    options->outbox.wait_ms = settings->outbox_wait;
    options->outbox.wait_max_ms = settings->outbox_wait_max;
}
