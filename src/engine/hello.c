/* SPDX-License-Identifier: MIT */
/*
 * The client's side of the handshake, kept to be played again to a restarted server; or one of our
 * own, where no client's can be passed on.
 */
#include "engine/internal.h"

void hx_hello_init(struct hx_hello *hello, size_t message_max)
{
    hx_buf_init(&hello->initialize, message_max);
    hx_buf_init(&hello->initialized, message_max);
    hx_buf_init(&hello->level, message_max);
    hx_list_init(&hello->subscriptions);
}

void hx_hello_fini(struct hx_hello *hello)
{
    hx_list_for_each_safe (node, &hello->subscriptions) {
        struct hx_subscription *subscription = hx_container_of(node, struct hx_subscription, node);
        hx_buf_fini(&subscription->message);
        hx_list_unlink(node);
        hx_free(subscription);
    }
    hx_buf_fini(&hello->initialize);
    hx_buf_fini(&hello->initialized);
    hx_buf_fini(&hello->level);
}

void hx_hello_subscribe(struct hx_hello *hello, struct hx_span message)
{
    enum { SUBSCRIPTIONS_MAX = 1024 };
    unsigned count = 0;
    hx_list_for_each (node, &hello->subscriptions)
        count++;
    if (count >= SUBSCRIPTIONS_MAX)
        return;
    struct hx_subscription *subscription = hx_new(struct hx_subscription);
    hx_buf_init(&subscription->message, hello->initialize.len_max);
    (void)hx_buf_append_span(&subscription->message, message);
    hx_list_append(&hello->subscriptions, &subscription->node);
}

static const char initialized[] = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";

void hx_hello_make(struct hx_hello *hello)
{
    struct hx_span revision = hx_mcp_facts(HX_MCP_2025_11_25)->name;
    (void)hx_buf_printf(&hello->initialize,
                        "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{"
                        "\"protocolVersion\":\"%.*s\",\"capabilities\":{},\"clientInfo\":{"
                        "\"name\":\"hapax\",\"version\":\"" HX_VERSION "\"}}}",
                        HX_SPAN_FMT(revision));
    (void)hx_buf_append_cstr(&hello->initialized, initialized);
}

void hx_hello_restore(struct hx_hello *hello, struct hx_span initialize)
{
    (void)hx_buf_append_span(&hello->initialize, initialize);
    (void)hx_buf_append_cstr(&hello->initialized, initialized);
}
