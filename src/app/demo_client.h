/* SPDX-License-Identifier: MIT */
/*
 * A small MCP client over stdio, for the demo: starts a server, calls, waits for answers in any
 * order.
 */
#ifndef HX_APP_DEMO_CLIENT_H
#define HX_APP_DEMO_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/assert.h"
#include "base/buf.h"
#include "base/span.h"
#include "json/tape.h"

#define HX_DEMO_ANSWERS_MAX 64
#define HX_DEMO_TEXT_MAX 192

/* What came back for one request. */
struct hx_demo_answer {
    bool is_there;
    bool is_error;               /* a JSON-RPC error, or a result with isError */
    char text[HX_DEMO_TEXT_MAX]; /* first text block, or the error's message */
    char code[HX_DEMO_TEXT_MAX]; /* Hapax's own code, or data.type of an error; else empty */
};

struct hx_demo_client {
    pid_t pid;  /* the process that the client started */
    int in_fd;  /* its standard input, for writing */
    int out_fd; /* its standard output, for reading */
    bool is_closed;
    struct hx_buf in;
    struct hx_json_tape tape;
    struct hx_demo_answer answers[HX_DEMO_ANSWERS_MAX]; /* by request id */
};

/* Starts argv[0] with its standard error appended to `stderr_path`. 0 or HX_E_SYSTEM. */
int hx_demo_client_start(struct hx_demo_client *client, char *const *argv,
                         const char *stderr_path) HX_MUST_CHECK;
/* Initialize and the notification after it. False when no answer came in time. */
bool hx_demo_client_handshake(struct hx_demo_client *client, int64_t deadline_ms);
/* Writes as it stands; false when the server is gone. */
bool hx_demo_client_send(struct hx_demo_client *client, struct hx_span bytes);
/* Reads until the request's answer is there. False at end of file and at the deadline. */
bool hx_demo_client_wait(struct hx_demo_client *client, unsigned id, int64_t deadline_ms);
/* Reads until the server's end closes. False at the deadline. */
bool hx_demo_client_wait_closed(struct hx_demo_client *client, int64_t deadline_ms);
/* Closes the pipes; does not wait for the process. */
void hx_demo_client_stop(struct hx_demo_client *client);

/* Milliseconds of a clock that only moves forward. */
int64_t hx_demo_now_ms(void);

#endif
