/* SPDX-License-Identifier: MIT */
#include "adapter/http_client/outcome.h"

#include <stddef.h>

enum { ANY_STATUS = 0, OK_STATUS = 2 }; /* beside single ones */
enum { EVERYWHERE, IN_SESSION };

#define BODY(content) (1u << (content))
#define ANY_BODY (~0u)
#define NO_MESSAGE_FOR_ANYBODY                                                                     \
    (BODY(HX_HTTP_EMPTY) | BODY(HX_HTTP_NOT_RPC) | BODY(HX_HTTP_NAMELESS))

static const struct row {
    int status;
    int where;
    unsigned bodies;
    enum hx_http_verdict verdict;
    enum hx_peer_loss loss;
} rows[] = {
    {ANY_STATUS, EVERYWHERE, BODY(HX_HTTP_ITS_RESULT), HX_HTTP_ANSWERED, HX_PEER_LOSS_NONE},
    {401, EVERYWHERE, ANY_BODY, HX_HTTP_REFUSED, HX_PEER_LOSS_NONE},
    {403, EVERYWHERE, ANY_BODY, HX_HTTP_REFUSED, HX_PEER_LOSS_NONE},
    {407, EVERYWHERE, ANY_BODY, HX_HTTP_REFUSED, HX_PEER_LOSS_NONE},
    {404, IN_SESSION, ANY_BODY, HX_HTTP_SESSION_LOST, HX_PEER_LOSS_NONE},
    {429, EVERYWHERE, ANY_BODY, HX_HTTP_REFUSED, HX_PEER_LOSS_NONE},
    {ANY_STATUS, EVERYWHERE, BODY(HX_HTTP_ITS_ERROR), HX_HTTP_ANSWERED, HX_PEER_LOSS_NONE},
    {400, EVERYWHERE, NO_MESSAGE_FOR_ANYBODY, HX_HTTP_REFUSED, HX_PEER_LOSS_NONE},
    {405, EVERYWHERE, NO_MESSAGE_FOR_ANYBODY, HX_HTTP_REFUSED, HX_PEER_LOSS_NONE},
    {406, EVERYWHERE, NO_MESSAGE_FOR_ANYBODY, HX_HTTP_REFUSED, HX_PEER_LOSS_NONE},
    {413, EVERYWHERE, NO_MESSAGE_FOR_ANYBODY, HX_HTTP_REFUSED, HX_PEER_LOSS_NONE},
    {415, EVERYWHERE, NO_MESSAGE_FOR_ANYBODY, HX_HTTP_REFUSED, HX_PEER_LOSS_NONE},
    {OK_STATUS, EVERYWHERE, BODY(HX_HTTP_EMPTY), HX_HTTP_LOST, HX_PEER_LOSS_NO_ANSWER},
    {OK_STATUS, EVERYWHERE, BODY(HX_HTTP_NOT_RPC), HX_HTTP_LOST, HX_PEER_LOSS_UNREADABLE},
    {OK_STATUS, EVERYWHERE, ANY_BODY, HX_HTTP_LOST, HX_PEER_LOSS_NO_ANSWER},
    {ANY_STATUS, EVERYWHERE, ANY_BODY, HX_HTTP_LOST, HX_PEER_LOSS_STATUS},
};

static bool is_ok(int status)
{
    return status >= 200 && status < 300;
}

static bool row_matches(const struct row *row, const struct hx_http_seen *seen)
{
    bool is_status = row->status == ANY_STATUS || row->status == seen->status ||
                     (row->status == OK_STATUS && is_ok(seen->status));

    return is_status && (row->where == EVERYWHERE || seen->is_in_session) &&
           (row->bodies & BODY(seen->content)) != 0;
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
