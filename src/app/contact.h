/* SPDX-License-Identifier: MIT */
/*
 * What the servers of a configuration say of themselves when they are really started or reached:
 * the handshake and the list of tools, and nothing that acts.
 *
 *     contacts = hx_contacts_new(&config, &complaint); // blocks until each has answered or failed
 *     if (contacts[0].why[0] == '\0')
 *         ... contacts[0].tools ...
 *     hx_contacts_free(contacts, config.upstream_count);
 *
 * Each gets start_timeout for the handshake and once more for every page of its list. What it says
 * on standard error goes to ours. Texts are the server's and may hold anything but control bytes.
 */
#ifndef HX_APP_CONTACT_H
#define HX_APP_CONTACT_H

#include "app/config.h"
#include "core/contract.h"
#include "wire/mcp.h"

struct hx_contact_tool {
    struct hx_contact_tool *next; /* in the server's order */
    const char *name;
    enum hx_mcp_hint read_only; /* what the server says */
    enum hx_mcp_hint idempotent;
    struct hx_span input_schema; /* raw; absent when there is none */
    /* What becomes of it under our settings: exactly what a gateway would make of it. */
    struct hx_tool_settings settings;
    enum hx_tool_class class;
    bool is_class_hinted; /* the class is the server's word, not the operator's */
};

struct hx_contact {
    const struct hx_config_upstream *upstream;
    char why[512];        /* why it cannot be used, a sentence without a full stop; "" = it can */
    const char *server;   /* "name version"; NULL = it did not say */
    const char *revision; /* as it was agreed */
    bool has_idempotency; /* it takes params.idempotencyKey */
    struct hx_contact_tool *tools;
    size_t tool_count;
    struct hx_arena arena; /* owns the above */
};

/* As many as there are upstreams, in their order. NULL with a complaint when this host refuses even
 * to begin. */
struct hx_contact *hx_contacts_new(const struct hx_config *config, struct hx_complaint *complaint);
/* Accepts NULL. */
void hx_contacts_free(struct hx_contact *contacts, size_t count);

/* Warns of what the settings say against what the server says, and of tools that write while
 * nothing is said for a lost answer. `contact` can be used. */
void hx_contact_advise(struct hx_config *config, const struct hx_contact *contact);

#endif
