/* SPDX-License-Identifier: MIT */
/*
 * Sessions, streams and resume points: the reference for what the port says of them. Here they go
 * only with their session, never by age.
 */
#include <stdio.h>

#include "adapter/store_memory/ledger.h"
#include "base/alloc.h"

struct hx_memory_kept *hx_memory_kept_free(struct hx_memory_kept *kept)
{
    if (kept == NULL)
        return NULL;
    hx_list_unlink(&kept->node);
    hx_arena_fini(&kept->arena);
    return hx_free(kept);
}

static struct hx_memory_kept *kept_new(enum hx_store_kind put)
{
    struct hx_memory_kept *kept = hx_new(struct hx_memory_kept);
    hx_list_init(&kept->node);
    hx_arena_init(&kept->arena, SIZE_MAX / 2);
    kept->put = put;
    return kept;
}

static struct hx_span own(struct hx_memory_kept *kept, struct hx_span span)
{
    if (hx_span_is_absent(span))
        return span;
    struct hx_span copy = hx_arena_dup(&kept->arena, span);
    hx_assert(!hx_span_is_absent(copy));
    return copy;
}

static struct hx_memory_kept *session_of(struct hx_memory_ledger *ledger,
                                         const struct hx_digest *key)
{
    hx_list_for_each (at, &ledger->kept) {
        struct hx_memory_kept *kept = hx_container_of(at, struct hx_memory_kept, node);
        if (kept->put == HX_STORE_SESSION_PUT && hx_digest_eq(&kept->session.key, key))
            return kept;
    }
    return NULL;
}

static struct hx_memory_kept *stream_of(struct hx_memory_ledger *ledger,
                                        const struct hx_store_stream *stream)
{
    hx_list_for_each (at, &ledger->kept) {
        struct hx_memory_kept *kept = hx_container_of(at, struct hx_memory_kept, node);
        if (kept->put == HX_STORE_STREAM_PUT &&
            hx_digest_eq(&kept->stream.session, &stream->session) &&
            hx_span_eq(kept->stream.name, stream->name))
            return kept;
    }
    return NULL;
}

static struct hx_memory_kept *resume_of(struct hx_memory_ledger *ledger, const struct hx_id *op)
{
    hx_list_for_each (at, &ledger->kept) {
        struct hx_memory_kept *kept = hx_container_of(at, struct hx_memory_kept, node);
        if (kept->put == HX_STORE_RESUME_PUT && hx_id_eq(&kept->resume.op, op))
            return kept;
    }
    return NULL;
}

/* `replaced` may be NULL. */
static void put_unsynced(struct hx_memory_ledger *ledger, struct hx_memory_kept *kept,
                         struct hx_memory_kept *replaced)
{
    struct hx_memory_undo *undo = hx_new(struct hx_memory_undo);
    undo->put = kept;
    undo->replaced = replaced;
    if (replaced != NULL)
        hx_list_unlink(&replaced->node);
    hx_list_append(&ledger->kept, &kept->node);
    hx_list_append(&ledger->unsynced, &undo->node);
    ledger->unsynced_count++;
}

static struct hx_memory_kept *session_new(const struct hx_store_session *session)
{
    struct hx_memory_kept *kept = kept_new(HX_STORE_SESSION_PUT);
    bool is_copied = hx_store_session_copy(&kept->arena, session, &kept->session);
    hx_assert(is_copied);
    return kept;
}

static bool put_session(struct hx_memory_ledger *ledger, const struct hx_store_session *session)
{
    struct hx_memory_kept *before = session_of(ledger, &session->key);
    if (before != NULL && (!hx_span_eq(before->session.tenant, session->tenant) ||
                           !hx_span_eq(before->session.principal, session->principal)))
        return false;
    struct hx_memory_kept *kept = session_new(session);
    if (before != NULL)
        kept->session.created = before->session.created;
    hx_memory_synced(ledger);
    hx_memory_kept_free(before);
    hx_list_append(&ledger->kept, &kept->node);
    return true;
}

static bool touch_session(struct hx_memory_ledger *ledger, const struct hx_store_session *session)
{
    struct hx_memory_kept *before = session_of(ledger, &session->key);
    if (before == NULL)
        return false;
    struct hx_memory_kept *kept = session_new(&before->session);
    if (session->last_seen.ms > kept->session.last_seen.ms)
        kept->session.last_seen = session->last_seen;
    put_unsynced(ledger, kept, before);
    return true;
}

static bool end_session(struct hx_memory_ledger *ledger, const struct hx_digest *key)
{
    struct hx_memory_kept *session = session_of(ledger, key);
    if (session == NULL)
        return false;
    hx_memory_synced(ledger);
    hx_list_for_each_safe (at, &ledger->kept) {
        struct hx_memory_kept *kept = hx_container_of(at, struct hx_memory_kept, node);
        if (kept->put == HX_STORE_STREAM_PUT && hx_digest_eq(&kept->stream.session, key))
            hx_memory_kept_free(kept);
    }
    hx_memory_kept_free(session);
    return true;
}

static bool put_stream(struct hx_memory_ledger *ledger, const struct hx_store_stream *stream)
{
    if (session_of(ledger, &stream->session) == NULL ||
        hx_memory_row_by_id(ledger, &stream->op) == NULL)
        return false;
    struct hx_memory_kept *kept = kept_new(HX_STORE_STREAM_PUT);
    kept->stream = *stream;
    kept->stream.name = own(kept, stream->name);
    kept->stream.request_id = own(kept, stream->request_id);
    put_unsynced(ledger, kept, stream_of(ledger, stream));
    return true;
}

static bool end_streams(struct hx_memory_ledger *ledger, const struct hx_store_stream *stream)
{
    bool is_any = false;
    hx_list_for_each_safe (at, &ledger->kept) {
        struct hx_memory_kept *kept = hx_container_of(at, struct hx_memory_kept, node);
        if (kept->put != HX_STORE_STREAM_PUT ||
            !hx_digest_eq(&kept->stream.session, &stream->session) ||
            !hx_span_eq(kept->stream.request_id, stream->request_id))
            continue;
        if (!is_any)
            hx_memory_synced(ledger);
        is_any = true;
        hx_memory_kept_free(kept);
    }
    return is_any;
}

static bool put_resume(struct hx_memory_ledger *ledger, const struct hx_store_resume *resume)
{
    struct hx_memory_row *row = hx_memory_row_by_id(ledger, &resume->op);
    if (row == NULL || row->record.attempt.number != resume->attempt)
        return false;
    struct hx_memory_kept *kept = kept_new(HX_STORE_RESUME_PUT);
    kept->resume = *resume;
    kept->resume.text = own(kept, resume->text);
    put_unsynced(ledger, kept, resume_of(ledger, &resume->op));
    return true;
}

static struct hx_span give(struct hx_store_request *request, struct hx_span span)
{
    return hx_span_is_absent(span) ? span : hx_arena_dup(&request->arena, span);
}

static bool get(struct hx_memory_ledger *ledger, struct hx_store_request *request)
{
    const struct hx_memory_kept *kept = NULL;
    if (request->kind == HX_STORE_SESSION_GET) {
        kept = session_of(ledger, &request->session.key);
        return kept != NULL &&
               hx_store_session_copy(&request->arena, &kept->session, &request->session);
    }
    if (request->kind == HX_STORE_STREAM_GET) {
        kept = stream_of(ledger, &request->stream);
        if (kept == NULL)
            return false;
        request->stream.op = kept->stream.op;
        request->stream.request_id = give(request, kept->stream.request_id);
        return true;
    }
    kept = resume_of(ledger, &request->resume.op);
    if (kept == NULL)
        return false;
    request->resume.attempt = kept->resume.attempt;
    request->resume.text = give(request, kept->resume.text);
    return true;
}

static bool run(struct hx_memory_ledger *ledger, struct hx_store_request *request)
{
    if (request->kind == HX_STORE_SESSION_PUT)
        return put_session(ledger, &request->session);
    if (request->kind == HX_STORE_SESSION_TOUCH)
        return touch_session(ledger, &request->session);
    if (request->kind == HX_STORE_SESSION_END)
        return end_session(ledger, &request->session.key);
    if (request->kind == HX_STORE_STREAM_PUT)
        return put_stream(ledger, &request->stream);
    if (request->kind == HX_STORE_STREAM_END)
        return end_streams(ledger, &request->stream);
    if (request->kind == HX_STORE_RESUME_PUT)
        return put_resume(ledger, &request->resume);
    return get(ledger, request);
}

void hx_memory_run_kept(struct hx_memory_store *store, struct hx_store_request *request)
{
    const char *flaw = hx_store_request_flaw(request);
    if (flaw != NULL) {
        request->result = HX_STORE_NOT_DONE;
        snprintf(request->error, sizeof(request->error), "%s", flaw);
        return;
    }
    request->result = run(store->ledger, request) ? HX_STORE_DONE : HX_STORE_STALE;
}
