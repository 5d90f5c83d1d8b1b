/* SPDX-License-Identifier: MIT */
/*
 * The way to a tool server: a process of ours, or a URL.
 */
#ifndef HX_APP_UPSTREAM_H
#define HX_APP_UPSTREAM_H

#include "app/settings.h"
#include "engine/rules.h"
#include "loop/loop.h"
#include "port/peer.h"

/* Everything is borrowed as long as the upstream lives. */
struct hx_upstream_place {
    char *const *command; /* argv, ended by NULL; NULL: it is reached at `url` */
    const char *const *env;
    const char *cwd;
    const char *url;
    const char *const *headers;
    const char *transport_dir; /* NULL: nobody on this host can ask for its processes */
    const struct hx_settings *settings;
};

/* NULL when a URL, a header or a file cannot be used; the fault says which. */
struct hx_upstream *hx_upstream_make(struct hx_loop *loop, struct hx_list *inbox,
                                     const struct hx_upstream_place *place);
/* Accepts NULL. */
void hx_upstream_release(const struct hx_upstream_place *place, struct hx_upstream *upstream);

enum hx_hints hx_upstream_hints(const struct hx_settings *settings);
/* What the settings of one server say to the engine; rules_for and the rest of the functions are
 * the caller's. */
struct hx_server_options hx_upstream_server_options(const struct hx_settings *settings,
                                                    const char *name);

/* The engine's words for the log. */
void hx_tell_log(void *context, enum hx_tell level, const char *event, const char *pairs);

#endif
