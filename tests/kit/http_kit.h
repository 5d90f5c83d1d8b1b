/* SPDX-License-Identifier: MIT */
/*
 * For tests against a scripted HTTP server (tests/fixtures/http_stub.py), which runs as a child of
 * the test and writes what it executed into the scratch directory.
 */
#ifndef HX_TESTS_HTTP_KIT_H
#define HX_TESTS_HTTP_KIT_H

#include "process_kit.h"

struct http_kit {
    struct process_kit *kit;
    pid_t pid;
    int input; /* closing it ends the stub */
    int port;
    int proxy_port; /* 0 = none */
    bool is_tls;
    char url[64]; /* of the proxy if there is one */
};

/* `args`: what follows the directory, ended by NULL. Waits until it listens. */
void http_kit_start(struct http_kit *http, struct process_kit *kit, const char *const *args);
/* Ends it; what had arrived has been executed then. */
void http_kit_stop(struct http_kit *http);
/* Reads a whole file of the scratch directory; "" when it is not there. To be freed. */
char *http_kit_read(const struct process_kit *kit, const char *name);
/* How many lines of that file hold `text`. */
size_t http_kit_count(const struct process_kit *kit, const char *name, const char *text);
/* How often the call with this id was executed. */
size_t http_kit_effects(const struct process_kit *kit, unsigned id);
void http_kit_touch(const struct process_kit *kit, const char *name);

#endif
