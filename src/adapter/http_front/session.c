/* SPDX-License-Identifier: MIT */
/*
 * Sessions, and those that the ledger is asked for.
 *
 * An id is 256 random bits. It is known in clear from its making until it is told, and to its
 * client; here and in the ledger stands its digest. So nobody learns an id from our memory or
 * files, and looking one up takes no time that depends on how much of it was right.
 */
#include "adapter/http_front/internal.h"
#include "base/alloc.h"

static const struct refusal refusal_sessions = {
    .status = 503,
    .code = -32000,
    .sentence = "Too many sessions are open at this moment; try again later",
    .header = "Retry-After",
    .value = "10"};
static const struct refusal refusal_own_sessions = {
    .status = 429,
    .code = -32000,
    .sentence = "You have too many open sessions; end one, or try again later",
    .header = "Retry-After",
    .value = "10"};
static const struct refusal refusal_not_ended = {
    .status = 503,
    .code = -32000,
    .sentence = "The ledger did not take the end of this session, so it goes on; try again",
    .header = "Retry-After",
    .value = "2"};

static const struct refusal refusal_ledger = {
    .status = 503,
    .code = -32000,
    .sentence = "The ledger cannot be asked for this session at this moment; try again",
    .header = "Retry-After",
    .value = "2"};

static struct hx_span digest_key(const struct hx_digest *digest)
{
    return hx_span((const char *)digest->bytes, sizeof digest->bytes);
}

static bool is_same_caller(const struct hx_http_caller *a, const struct hx_http_caller *b)
{
    return hx_span_eq(a->tenant, b->tenant) && hx_span_eq(a->principal, b->principal);
}

struct session *session_of(struct hx_downstream *downstream)
{
    struct session *session = hx_container_of(downstream, struct session, downstream);

    hx_check(session, SESSION_MAGIC);
    return session;
}

struct session *session_find(struct front *front, const struct hx_digest *digest)
{
    struct hx_map_node *node = hx_map_find(&front->sessions, digest_key(digest));

    return node != NULL ? hx_container_of(node, struct session, by_digest) : NULL;
}

bool session_is_of(const struct session *session, const struct hx_http_caller *caller,
                   uint32_t endpoint)
{
    /* Also by the same credentials: others of the same principal may open less. */
    return session->endpoint == endpoint && is_same_caller(&session->caller, caller) &&
           session->caller.context == caller->context;
}

struct session *session_new(struct front *front, const struct hx_digest *digest,
                            const struct hx_http_caller *caller, uint32_t endpoint)
{
    struct session *session = hx_new(struct session);

    session->magic = SESSION_MAGIC;
    session->front = front;
    session->downstream =
        (struct hx_downstream){.ops = &send_ops, .inbox = front->options.peer_inbox};
    session->digest = *digest;
    session->caller = *caller;
    session->endpoint = endpoint;
    session->last_seen = front_now(front);
    hx_list_init(&session->streams);
    hx_list_init(&session->over);
    hx_list_init(&session->sendings);
    hx_list_init(&session->written);
    hx_list_init(&session->queue);
    hx_list_append(&front->all, &session->node);
    hx_map_insert(&front->sessions, &session->by_digest, digest_key(&session->digest));
    front->counts.sessions++;
    return session;
}

static uint32_t count_of(const struct front *front, const struct hx_http_caller *caller)
{
    uint32_t count = 0;

    hx_list_for_each (node, &front->all)
        count += is_same_caller(&hx_container_of(node, struct session, node)->caller, caller);
    return count;
}

struct session *session_begin(struct front *front, const struct hx_http_caller *caller,
                              uint32_t endpoint, const struct refusal **ret_refusal)
{
    uint8_t random[RANDOM_BYTES];
    struct session *session;
    struct hx_digest digest;
    char *id;

    if (front->counts.sessions >= front->options.sessions_max) {
        *ret_refusal = &refusal_sessions;
        return NULL;
    }
    if (count_of(front, caller) >= front->options.sessions_per_principal_max) {
        *ret_refusal = &refusal_own_sessions;
        return NULL;
    }
    id = hx_new_bytes(SESSION_ID_SIZE);
    hx_rand_fill(front->options.rand, random, sizeof random);
    hx_hex_encode(random, sizeof random, id);
    explicit_bzero(random, sizeof random);
    hx_hasher_begin(front->hasher);
    hx_hasher_add(front->hasher, hx_span_cstr(id));
    digest = hx_hasher_end(front->hasher);
    session = session_new(front, &digest, caller, endpoint);
    session->id = id;
    return session;
}

/* Ends every stream but that of a DELETE, which waits for what becomes of it; what is with the web
 * keeps its fate. `refusal`: what those are told whose request the engine does not have; NULL =
 * they are cut off. Of what the engine has nobody may say that it was refused. */
static void shut(struct session *session, const struct refusal *refusal)
{
    struct front *front = session->front;

    hx_list_for_each_safe (node, &session->streams) {
        struct stream *stream = hx_container_of(node, struct stream, node);
        if (stream->kind == STREAM_DELETE)
            continue;
        if (stream->web != 0 && stream->state == STREAM_STREAMING)
            front->web->ops->stream_end(front->web, stream->web);
        else if (stream->web != 0 && refusal != NULL && stream->state != STREAM_WAITING)
            refuse(front, stream->web, refusal, HX_SPAN_NONE, stream->origin);
        else if (stream->web != 0)
            front->web->ops->cut(front->web, stream->web);
        stream_free(front, stream);
    }
    while (!hx_list_is_empty(&session->over))
        stream_free(front, hx_container_of(hx_list_first(&session->over), struct stream, node));
    queue_clear(session);
}

void session_end(struct session *session)
{
    if (session->is_over)
        return;
    session->is_over = true;
    shut(session, &refusal_no_session);
    (void)front_tell(session, HX_PEER_ENDED);
}

void session_close(struct session *session)
{
    session->is_closed = true;
    shut(session, NULL);
}

void session_forget_id(struct session *session)
{
    if (session->id != NULL)
        explicit_bzero(session->id, SESSION_ID_SIZE);
    session->id = hx_free(session->id);
}

/* What was told of its messages, and not taken yet. */
static void forget_told(struct session *session)
{
    hx_list_for_each_safe (at, session->downstream.inbox) {
        struct hx_peer_event *event = hx_container_of(at, struct hx_peer_event, node);
        if (event->downstream != &session->downstream)
            continue;
        if (event->type == HX_PEER_TAKEN_BACK)
            tell_of_nobody(session->front, HX_PEER_TAKEN_BACK, event->tag);
        hx_peer_event_free(event);
    }
}

void session_free(struct session *session)
{
    struct front *front = session->front;
    struct hx_list *node;

    shut(session, session->is_over ? &refusal_no_session : NULL);
    while ((node = hx_list_first(&session->streams)) != NULL) {
        struct stream *stream = hx_container_of(node, struct stream, node);
        front->web->ops->cut(front->web, stream->web);
        stream_free(front, stream);
    }
    hx_list_splice(&session->sendings, &session->written);
    while ((node = hx_list_first(&session->sendings)) != NULL) {
        struct sending *sending = hx_container_of(node, struct sending, node);
        uint64_t tag = sending->tag;
        sending_outlive(sending, &tag, 1);
    }
    /* Nothing that was said of it must be read after it is gone. */
    forget_told(session);
    hx_list_for_each_safe (at, front->options.front_inbox) {
        struct hx_http_front_event *event = hx_container_of(at, struct hx_http_front_event, node);
        if (event->downstream == &session->downstream)
            hx_http_front_event_free(event);
    }
    session_forget_id(session);
    hx_map_remove(&front->sessions, &session->by_digest);
    hx_list_unlink(&session->node);
    front->counts.sessions--;
    session->magic = 0;
    hx_free(session);
}

/* --- the ledger is asked --- */

static struct ticket *ticket_of(struct hx_list *node)
{
    return hx_container_of(node, struct ticket, node);
}

static struct ticket *ticket_like(const struct front *front, const struct hx_digest *digest,
                                  const struct stream *stream)
{
    hx_list_for_each (node, &front->tickets) {
        struct ticket *ticket = ticket_of(node);
        if (hx_digest_eq(&ticket->digest, digest) && ticket->endpoint == stream->endpoint &&
            is_same_caller(&ticket->caller, &stream->caller))
            return ticket;
    }
    return NULL;
}

static struct ticket *ticket_new(struct front *front, const struct hx_digest *digest,
                                 const struct stream *stream)
{
    struct hx_http_front_event *event = hx_new(struct hx_http_front_event);
    struct ticket *ticket = hx_new(struct ticket);

    hx_list_init(&ticket->parked);
    ticket->digest = *digest;
    ticket->caller = stream->caller;
    ticket->endpoint = stream->endpoint;
    ticket->number = ++front->last_ticket;
    hx_list_append(&front->tickets, &ticket->node);
    front->ticket_count++;
    hx_list_init(&event->node);
    event->type = HX_HTTP_FRONT_SESSION_ASKED;
    event->ticket = ticket->number;
    event->session = *digest;
    event->endpoint = ticket->endpoint;
    event->caller = ticket->caller;
    hx_list_append(front->options.front_inbox, &event->node);
    return ticket;
}

void session_ask(struct front *front, const struct hx_digest *digest, struct stream *stream)
{
    struct ticket *ticket = ticket_like(front, digest, stream);

    if (ticket == NULL && front->counts.sessions >= front->options.sessions_max) {
        refuse_stream(front, stream, &refusal_sessions);
        return;
    }
    if (ticket == NULL && front->ticket_count >= TICKETS_MAX) {
        refuse_stream(front, stream, &refusal_ledger);
        return;
    }
    if (ticket == NULL)
        ticket = ticket_new(front, digest, stream);
    stream->state = STREAM_PARKED;
    hx_list_append(&ticket->parked, &stream->node);
}

/* Unlinked, with its streams; the caller frees it. */
static struct ticket *ticket_take(struct front *front, uint64_t number)
{
    hx_list_for_each (node, &front->tickets) {
        struct ticket *ticket = ticket_of(node);
        if (ticket->number != number)
            continue;
        hx_list_unlink(node);
        front->ticket_count--;
        return ticket;
    }
    return NULL;
}

void tickets_free(struct front *front)
{
    struct hx_list *node;

    while ((node = hx_list_take_first(&front->tickets)) != NULL) {
        struct ticket *ticket = ticket_of(node);
        while (!hx_list_is_empty(&ticket->parked))
            stream_free(front,
                        hx_container_of(hx_list_first(&ticket->parked), struct stream, node));
        hx_free(ticket);
    }
}

struct hx_downstream *hx_http_front_adopt(struct hx_http_front *opaque, uint64_t number,
                                          struct hx_span revision)
{
    struct front *front = front_of(opaque);
    struct ticket *ticket = ticket_take(front, number);
    struct session *session = NULL;
    struct hx_list *node;

    hx_assert(ticket != NULL);
    if (session_find(front, &ticket->digest) == NULL) {
        session = session_new(front, &ticket->digest, &ticket->caller, ticket->endpoint);
        session->revision = hx_mcp_revision_parse(revision);
    }
    while ((node = hx_list_take_first(&ticket->parked)) != NULL)
        request_go_on(front, hx_container_of(node, struct stream, node));
    hx_free(ticket);
    return session != NULL ? &session->downstream : NULL;
}

void hx_http_front_refuse(struct hx_http_front *opaque, uint64_t number, const char *reason)
{
    struct front *front = front_of(opaque);
    struct ticket *ticket = ticket_take(front, number);
    struct refusal refusal = refusal_ledger;
    struct hx_list *node;

    hx_assert(ticket != NULL);
    refusal.sentence = reason;
    while ((node = hx_list_take_first(&ticket->parked)) != NULL)
        refuse_stream(front, hx_container_of(node, struct stream, node),
                      reason != NULL ? &refusal : &refusal_no_session);
    hx_free(ticket);
}

static void answer_deletes(struct session *session, bool is_over)
{
    struct front *front = session->front;

    hx_list_for_each_safe (node, &session->streams) {
        struct stream *stream = hx_container_of(node, struct stream, node);
        if (stream->kind != STREAM_DELETE)
            continue;
        if (is_over)
            answer_empty(front, stream->web, 200, stream->origin);
        else
            refuse(front, stream->web, &refusal_not_ended, HX_SPAN_NONE, stream->origin);
        stream_free(front, stream);
    }
}

void hx_http_front_retag(struct hx_downstream *downstream, hx_http_front_tags_of *tags_of,
                         void *context)
{
    struct session *session = session_of(downstream);
    struct front *front = session->front;
    uint64_t tags[HX_RPC_ELEMENTS_MAX];
    struct hx_list *node;

    while ((node = hx_list_first(&session->written)) != NULL) {
        struct sending *sending = hx_container_of(node, struct sending, node);
        sending_outlive(sending, tags, tags_of(context, sending->tag, tags, HX_RPC_ELEMENTS_MAX));
    }
    hx_list_for_each_safe (at, downstream->inbox) {
        struct hx_peer_event *event = hx_container_of(at, struct hx_peer_event, node);
        if (event->downstream != downstream || event->type != HX_PEER_TAKEN_BACK)
            continue;
        size_t count = tags_of(context, event->tag, tags, HX_RPC_ELEMENTS_MAX);
        for (size_t i = 0; i < count; i++)
            tell_of_nobody(front, HX_PEER_TAKEN_BACK, tags[i]);
        hx_peer_event_free(event);
    }
}

void hx_http_front_forget(struct hx_http_front *opaque, struct hx_downstream *downstream,
                          bool is_over)
{
    struct front *front = front_of(opaque);
    struct session *session = session_of(downstream);

    hx_assert(session->front == front);
    if (is_over) {
        front->over[front->over_at] = session->digest;
        front->over_at = (front->over_at + 1) % OVER_COUNT;
        session->is_over = true;
    }
    answer_deletes(session, is_over);
    session_free(session);
}
