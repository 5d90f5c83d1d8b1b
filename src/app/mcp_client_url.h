/* SPDX-License-Identifier: MIT */
/*
 * The client of mcp_client.h over Streamable HTTP, on the adapter that gateways use. Only where it
 * is told to wait does its loop turn, so what the kernel holds of an answer stays unread, and a
 * connection that is cut then is reset.
 */
#ifndef HX_APP_MCP_CLIENT_URL_H
#define HX_APP_MCP_CLIENT_URL_H

#include "app/mcp_client.h"
#include "app/settings.h"

/* Connects nothing yet. Of `settings` the headers, certificates and the proxy count; borrowed until
 * it is stopped, which it must be in either case. 0, or a fault for what cannot be used. */
int hx_mcp_client_open_url(struct hx_mcp_client *client, const char *url,
                           const struct hx_settings *settings) HX_MUST_CHECK;

#endif
