/* SPDX-License-Identifier: MIT */
/*
 * What a reply over HTTP says about a request that was sent: the one table.
 *
 * Only two things prove anything: a JSON-RPC response to the request, under whatever status, and a
 * status that by its meaning is given before a request is dispatched. Everything else leaves the
 * request unknown, however much it looks like a failure. Rows are read from the top:
 *
 *   status                  body                          verdict
 *   any                     a result to it                ANSWERED
 *   401 403 407             any                           REFUSED       credentials come first
 *   404, sent in a session  any                           SESSION_LOST  it is looked up first
 *   429                     any                           REFUSED       limits come first
 *   any                     an error to it                ANSWERED
 *   400 405 406 413 415     none, no JSON-RPC, no id      REFUSED       the transport refused it
 *     if the reply is whole
 *   2xx                     none                          LOST NO_ANSWER (a 202 answers no request)
 *   2xx                     no JSON-RPC, a ruin           LOST UNREADABLE
 *   2xx                     messages, none of them to it  LOST NO_ANSWER
 *   any other               any                           LOST STATUS   5xx, 3xx, 408, 410, 404
 *                                                                       without a session, ...
 *
 * An error to the request does not count under 401, 403, 407, 429 and a session's 404: what guards
 * the way to the server answers in the same form as the server. A message for another id under 400
 * proves nothing and is LOST. So does what may be the error to it: a reply that broke off, and a
 * ruin: what stands in a coding, in events or in another character set, behind a prefix or under an
 * id that is none may be that error. A server that ran the request and answers 400 may die in the
 * middle of saying so.
 *
 * The reply to a message that wants no answer is read in the same table; 2xx is then ACCEPTED.
 */
#ifndef HX_ADAPTER_HTTP_CLIENT_OUTCOME_H
#define HX_ADAPTER_HTTP_CLIENT_OUTCOME_H

#include <stdbool.h>

#include "port/peer.h"

enum hx_http_content {
    HX_HTTP_EMPTY,
    HX_HTTP_NOT_RPC,    /* no JSON-RPC message */
    HX_HTTP_RUIN,       /* perhaps the response to it, but none that can be read */
    HX_HTTP_OTHERS,     /* messages, none of them a response to the request */
    HX_HTTP_NAMELESS,   /* an error without an id, or with a null one */
    HX_HTTP_ITS_ERROR,  /* the error to the request */
    HX_HTTP_ITS_RESULT, /* the result to it */
    HX_HTTP_CONTENT_COUNT
};

enum hx_http_verdict {
    HX_HTTP_ANSWERED,
    HX_HTTP_ACCEPTED,
    HX_HTTP_REFUSED,      /* proven: not dispatched */
    HX_HTTP_SESSION_LOST, /* the same, and nothing else sent in this session will be */
    HX_HTTP_LOST
};

struct hx_http_seen {
    int status;
    bool is_in_session; /* it was sent with a session id */
    bool is_answer_due; /* it is a request */
    bool is_whole;      /* the reply says where it ends, and ended there */
    enum hx_http_content content;
};

/* `*ret_loss` is set, to NONE unless the verdict is LOST. */
enum hx_http_verdict hx_http_judge(const struct hx_http_seen *seen, enum hx_peer_loss *ret_loss);

#endif
