/* SPDX-License-Identifier: MIT */
/*
 * A small MCP client for commands that stage failures (demo, audit): calls, and waits for answers
 * in any order. It reads nothing until it is told to wait, so that an answer can be left unread.
 * Of what a server asks it answers pings; all else is refused.
 *
 * Over stdio it starts the server itself; mcp_client_url.h is the same over Streamable HTTP.
 */
#ifndef HX_APP_MCP_CLIENT_H
#define HX_APP_MCP_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/assert.h"
#include "base/buf.h"
#include "base/span.h"
#include "base/time.h"
#include "json/tape.h"

#define HX_MCP_ANSWERS_MAX 64
#define HX_MCP_TEXT_MAX 192

/* What came back for one request. */
struct hx_mcp_answer {
    bool is_there;
    bool is_result;             /* no JSON-RPC error */
    bool is_error;              /* a JSON-RPC error, or a result with isError */
    bool is_lost;               /* HTTP: its exchange ended without one */
    char text[HX_MCP_TEXT_MAX]; /* first text block, or the error's message */
    char code[HX_MCP_TEXT_MAX]; /* Hapax's own code, or data.type of an error; else empty */
};

struct hx_mcp_client;

/* One way to a server. */
struct hx_mcp_way {
    /* One message without its newline; of the request `id`, or 0. `headers` as in port/peer.h. */
    bool (*send)(struct hx_mcp_client *client, struct hx_span message, unsigned id,
                 struct hx_span headers);
    /* An answer of ours to a request of the server's; waits for nothing. */
    void (*reply)(struct hx_mcp_client *client, struct hx_span message);
    /* Reads once, waiting no longer than the deadline. False when nothing more can come by then. */
    bool (*pump)(struct hx_mcp_client *client, struct hx_mono deadline);
    /* Cuts the connection on which the answer to `id` would come, and no other. */
    void (*give_up)(struct hx_mcp_client *client, unsigned id);
    void (*stop)(struct hx_mcp_client *client);
};

struct hx_mcp_client {
    const struct hx_mcp_way *way;
    pid_t pid;  /* stdio: the process that the client started */
    int in_fd;  /* its standard input, for writing */
    int out_fd; /* its standard output, for reading */
    void *url;  /* HTTP: what belongs to that way */
    bool is_closed;
    struct hx_buf in;
    struct hx_buf kept; /* the whole result of the request `kept_id` */
    unsigned kept_id;
    struct hx_json_tape tape;
    struct hx_mcp_answer answers[HX_MCP_ANSWERS_MAX]; /* by request id */
};

/* Starts argv[0], found as a shell would, with its standard error appended to `stderr_path`.
 * 0 or HX_E_SYSTEM; stop it in either case. */
int hx_mcp_client_start(struct hx_mcp_client *client, char *const *argv,
                        const char *stderr_path) HX_MUST_CHECK;
/* Initialize and the notification after it. False when no answer came in time. */
bool hx_mcp_client_handshake(struct hx_mcp_client *client, struct hx_mono deadline);
/* Writes as it stands, messages with their newlines; false when the server is gone. */
bool hx_mcp_client_send(struct hx_mcp_client *client, struct hx_span bytes);
/* One message, and until all of it has left. */
bool hx_mcp_client_say(struct hx_mcp_client *client, struct hx_span message, unsigned id,
                       struct hx_span headers);
/* Reads until the request's answer is there. False at end of file, when the answer is lost, and at
 * the deadline. */
bool hx_mcp_client_wait(struct hx_mcp_client *client, unsigned id, struct hx_mono deadline);
/* Reads until the server's end closes. False at the deadline. */
bool hx_mcp_client_wait_closed(struct hx_mcp_client *client, struct hx_mono deadline);
/* Nobody reads the answer to `id` any more. Over stdio that leaves no trace. */
void hx_mcp_client_give_up(struct hx_mcp_client *client, unsigned id);
/* Closes what is open; does not wait for the process. */
void hx_mcp_client_stop(struct hx_mcp_client *client);

/* For ways: what they share, and one message that came. */
void hx_mcp_client_init(struct hx_mcp_client *client, const struct hx_mcp_way *way);
void hx_mcp_client_take(struct hx_mcp_client *client, struct hx_span message);

/* What deadlines are measured by. */
struct hx_mono hx_mcp_now(void);

#endif
