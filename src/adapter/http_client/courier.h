/* SPDX-License-Identifier: MIT */
/*
 * port/courier.h over HTTP: each event is a POST of its own, in the structured mode of CloudEvents,
 * signed as the Standard Webhooks say (docs/outbox.md).
 *
 * What holds for calls holds here too, though an event may be sent twice: redirects are not
 * followed, and the library below never sends one again by itself. An answer other than 2xx, or
 * none in time, is "not delivered".
 */
#ifndef HX_ADAPTER_HTTP_CLIENT_COURIER_H
#define HX_ADAPTER_HTTP_CLIENT_COURIER_H

#include "loop/loop.h"
#include "port/courier.h"

/* Borrowed as long as the courier lives. */
struct hx_http_courier_options {
    const char *url;
    const char *secret_file;  /* NULL = nothing is signed */
    const char *headers_file; /* NULL = none */
    const char *ca_file;      /* NULL = the system's */
    const char *proxy;        /* NULL = as the environment says; "" = none */
    int64_t timeout_ms;       /* of one try, all of it */
};

/* 0; or a fault for a URL or a file that cannot be used. */
int hx_http_courier_new(struct hx_loop *loop, const struct hx_http_courier_options *options,
                        struct hx_courier **ret_courier) HX_MUST_CHECK;
/* What is under way is broken off without a report. Accepts NULL; returns NULL. */
struct hx_courier *hx_http_courier_free(struct hx_courier *courier);

#endif
