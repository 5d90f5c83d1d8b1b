/* SPDX-License-Identifier: MIT */
#include "adapter/http_client/outcome.h"

#include <stddef.h>

enum { ANY_STATUS = 0, OK_STATUS = 2 }; /* beside single ones */
enum when { ALWAYS, IN_SESSION, WHOLE };

#define BODY(content) (1u << (content))
#define ANY_BODY (~0u)
#define NO_MESSAGE_FOR_ANYBODY                                                                     \
    (BODY(HX_HTTP_EMPTY) | BODY(HX_HTTP_NOT_RPC) | BODY(HX_HTTP_NAMELESS))

static const struct row {
    int status;
    enum when when;
    unsigned bodies;
    enum hx_http_verdict verdict;
    enum hx_peer_loss loss;
} rows[] = {
    {ANY_STATUS, ALWAYS, BODY(HX_HTTP_ITS_RESULT), HX_HTTP_ANSWERED, HX_PEER_LOSS_NONE},
    {401, ALWAYS, ANY_BODY, HX_HTTP_REFUSED, HX_PEER_LOSS_NONE},
    {403, ALWAYS, ANY_BODY, HX_HTTP_REFUSED, HX_PEER_LOSS_NONE},
    {407, ALWAYS, ANY_BODY, HX_HTTP_REFUSED, HX_PEER_LOSS_NONE},
    {404, IN_SESSION, ANY_BODY, HX_HTTP_SESSION_LOST, HX_PEER_LOSS_NONE},
    {429, ALWAYS, ANY_BODY, HX_HTTP_REFUSED, HX_PEER_LOSS_NONE},
    {ANY_STATUS, ALWAYS, BODY(HX_HTTP_ITS_ERROR), HX_HTTP_ANSWERED, HX_PEER_LOSS_NONE},
    {400, WHOLE, NO_MESSAGE_FOR_ANYBODY, HX_HTTP_REFUSED, HX_PEER_LOSS_NONE},
    {405, WHOLE, NO_MESSAGE_FOR_ANYBODY, HX_HTTP_REFUSED, HX_PEER_LOSS_NONE},
    {406, WHOLE, NO_MESSAGE_FOR_ANYBODY, HX_HTTP_REFUSED, HX_PEER_LOSS_NONE},
    {413, WHOLE, NO_MESSAGE_FOR_ANYBODY, HX_HTTP_REFUSED, HX_PEER_LOSS_NONE},
    {415, WHOLE, NO_MESSAGE_FOR_ANYBODY, HX_HTTP_REFUSED, HX_PEER_LOSS_NONE},
    {OK_STATUS, ALWAYS, BODY(HX_HTTP_EMPTY), HX_HTTP_LOST, HX_PEER_LOSS_NO_ANSWER},
    {OK_STATUS, ALWAYS, BODY(HX_HTTP_NOT_RPC) | BODY(HX_HTTP_RUIN), HX_HTTP_LOST,
     HX_PEER_LOSS_UNREADABLE},
    {OK_STATUS, ALWAYS, ANY_BODY, HX_HTTP_LOST, HX_PEER_LOSS_NO_ANSWER},
    {ANY_STATUS, ALWAYS, ANY_BODY, HX_HTTP_LOST, HX_PEER_LOSS_STATUS},
};

static bool is_ok(int status)
{
    return status >= 200 && status < 300;
}

static bool is_then(enum when when, const struct hx_http_seen *seen)
{
    switch (when) {
    case ALWAYS:
        return true;
    case IN_SESSION:
        return seen->is_in_session;
    case WHOLE: /* what nobody waits for does not stand in what is missing */
        return seen->is_whole || !seen->is_answer_due;
    }
    return false;
}

static bool row_matches(const struct row *row, const struct hx_http_seen *seen)
{
    bool is_status = row->status == ANY_STATUS || row->status == seen->status ||
                     (row->status == OK_STATUS && is_ok(seen->status));

    return is_status && is_then(row->when, seen) && (row->bodies & BODY(seen->content)) != 0;
}

enum hx_http_verdict hx_http_judge(const struct hx_http_seen *seen, enum hx_peer_loss *ret_loss)
{
    size_t at = 0;

    *ret_loss = HX_PEER_LOSS_NONE;
    if (!seen->is_answer_due && is_ok(seen->status))
        return HX_HTTP_ACCEPTED;
    while (!row_matches(&rows[at], seen))
        at++; /* the last row matches everything */
    *ret_loss = rows[at].loss;
    return rows[at].verdict;
}
