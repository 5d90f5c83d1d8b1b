/* SPDX-License-Identifier: MIT */
/*
 * A client of ours in front of a scripted server, and words for what tests do with them. The tag of
 * a call is its id.
 */
#ifndef HX_TESTS_HTTP_FIXTURE_H
#define HX_TESTS_HTTP_FIXTURE_H

#include "adapter/http_client/http_client.h"
#include "http_kit.h"

enum { HTTP_INITIALIZE_ID = 900001, HTTP_INITIALIZED_TAG = 900002 };

struct http_fixture {
    struct process_kit kit;
    struct http_kit http;
    struct hx_http_client_options options;
    struct hx_upstream *up;
    uint32_t generation;
};

/* `args` as of http_kit_start. The options may be changed before the client is opened. */
void http_fixture_init(struct http_fixture *fixture, const char *const *args);
/* With a script only; NULL = none. */
void http_fixture_init_script(struct http_fixture *fixture, const char *script);
void http_fixture_open(struct http_fixture *fixture);
/* Stops the client, takes CLOSED, and frees it. */
void http_fixture_close(struct http_fixture *fixture);
/* Ends the server, so that its files are final. */
void http_fixture_end_server(struct http_fixture *fixture);
void http_fixture_fini(struct http_fixture *fixture);

void http_fixture_send(struct http_fixture *fixture, const char *text, uint64_t tag);
/* A tools/call; `steps` as the stub wants them, NULL = answer in JSON. */
void http_fixture_call(struct http_fixture *fixture, unsigned id, const char *steps);
/* initialize and notifications/initialized, until both are answered. */
void http_fixture_greet(struct http_fixture *fixture, const char *version);

/* The end of message `tag`: its answer, ANSWER_LOST, REJECTED or NOT_SENT. The test owns it. */
struct hx_peer_event *http_fixture_end_of(struct http_fixture *fixture, uint64_t tag);
/* The same, compared. `line` is a part of what it must hold, or NULL. */
void http_fixture_expect_answer(struct http_fixture *fixture, uint64_t tag, const char *line);
/* For a call lost through another connection than its POST: its status may have come or not. */
#define HTTP_FIXTURE_ANY_STATUS (-1)
void http_fixture_expect_lost(struct http_fixture *fixture, uint64_t tag, enum hx_peer_loss loss,
                              int status);
void http_fixture_expect_rejected(struct http_fixture *fixture, uint64_t tag, int status);
void http_fixture_expect_not_sent(struct http_fixture *fixture, uint64_t tag);
/* Events of this type for this tag that are in the inbox now. */
size_t http_fixture_count(const struct http_fixture *fixture, enum hx_peer_event_type type,
                          uint64_t tag);
/* Drops all events. */
void http_fixture_forget(struct http_fixture *fixture);
/* Runs the loop until the server has done `{"touch": name}`. */
void http_fixture_until_touched(struct http_fixture *fixture, const char *name);
/* Runs the loop for a while: for things that must not happen. */
void http_fixture_run_ms(struct http_fixture *fixture, int64_t ms);
struct hx_http_client_counters http_fixture_counters(const struct http_fixture *fixture);

#endif
