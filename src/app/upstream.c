/* SPDX-License-Identifier: MIT */
#include "app/upstream.h"

#include "adapter/http_client/http_client.h"
#include "adapter/stdio_child/stdio_child.h"
#include "app/log.h"

static struct hx_upstream *make_child(struct hx_loop *loop, struct hx_list *inbox,
                                      const struct hx_upstream_place *place)
{
    struct hx_stdio_child_options options = hx_stdio_child_defaults();
    options.argv = place->command;
    options.env = place->env;
    options.cwd = place->cwd;
    options.transport_dir = place->transport_dir;
    options.message_max_bytes = (size_t)place->settings->message_max;
    options.stall_timeout_ms = place->settings->stall_timeout;
    options.allow_new_privs = place->settings->allow_new_privs;
    return hx_stdio_child_new(loop, inbox, &options);
}

static struct hx_upstream *make_remote(struct hx_loop *loop, struct hx_list *inbox,
                                       const struct hx_upstream_place *place)
{
    const struct hx_settings *settings = place->settings;
    struct hx_http_client_options options = hx_http_client_defaults();
    struct hx_upstream *upstream = NULL;
    options.url = place->url;
    options.headers = place->headers;
    options.proxy = settings->proxy;
    options.ca_file = settings->ca_file;
    options.cert_file = settings->cert_file;
    options.key_file = settings->key_file;
    options.headers_file = settings->headers_file;
    options.message_max_bytes = (size_t)settings->message_max;
    options.is_apart = settings->transport == HX_CHOICE_transport_SSE;
    options.connect_timeout_ms = settings->connect_timeout;
    options.stall_timeout_ms = settings->stall_timeout;
    if (hx_http_client_new(loop, inbox, &options, &upstream) != 0)
        return NULL;
    return upstream;
}

struct hx_upstream *hx_upstream_make(struct hx_loop *loop, struct hx_list *inbox,
                                     const struct hx_upstream_place *place)
{
    return place->command != NULL ? make_child(loop, inbox, place)
                                  : make_remote(loop, inbox, place);
}

void hx_upstream_release(const struct hx_upstream_place *place, struct hx_upstream *upstream)
{
    if (place->command != NULL)
        hx_stdio_child_free(upstream);
    else
        hx_http_client_free(upstream);
}

enum hx_hints hx_upstream_hints(const struct hx_settings *settings)
{
    static const enum hx_hints hints[] = {HX_HINTS_READ_ONLY, HX_HINTS_TRUST, HX_HINTS_IGNORE};
    return hints[settings->hints - HX_CHOICE_hints_READ_ONLY];
}

struct hx_server_options hx_upstream_server_options(const struct hx_settings *settings,
                                                    const char *name)
{
    return (struct hx_server_options){
        .name = hx_span_cstr(name),
        .hints = hx_upstream_hints(settings),
        .is_key_principal_scoped = settings->key_scope == HX_CHOICE_key_scope_PRINCIPAL,
        .is_sep3182_strict = settings->sep3182 == HX_CHOICE_sep3182_STRICT,
        .stuck_timeout_ms = settings->stuck_timeout,
        .start_timeout_ms = settings->start_timeout,
        .never_asks_client = !settings->ask_client,
        .offers_operation = settings->offer_operation,
        .offers_begin = settings->offer_begin,
        .offers_resolve = settings->let_caller_decide,
        .issued_key_lifetime_ms = settings->issued_key_lifetime,
    };
}

_Static_assert((int)HX_TELL_ERROR == (int)HX_LOG_ERROR && (int)HX_TELL_DEBUG == (int)HX_LOG_DEBUG,
               "what the engine tells has the levels of the log");

void hx_tell_log(void *context, enum hx_tell level, const char *event, const char *pairs)
{
    struct hx_log_line line;
    (void)context;
    hx_log_begin(&line, (enum hx_log_level)level, event);
    hx_log_pairs(&line, pairs);
    hx_log_end(&line);
}
