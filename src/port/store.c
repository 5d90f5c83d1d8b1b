/* SPDX-License-Identifier: MIT */
#include "port/store.h"

#include "base/alloc.h"

/* Results are at most the twins of one digest, each with its inline payload. */
enum { ARENA_MAX_BYTES = 96 * 1024 * 1024 };

struct hx_store_request *hx_store_request_new(enum hx_store_kind kind, void *context)
{
    struct hx_store_request *request = hx_new(struct hx_store_request);
    hx_list_init(&request->node);
    request->kind = kind;
    request->context = context;
    hx_arena_init(&request->arena, ARENA_MAX_BYTES);
    return request;
}

struct hx_store_request *hx_store_request_free(struct hx_store_request *request)
{
    if (request != NULL) {
        hx_list_unlink(&request->node);
        hx_arena_fini(&request->arena);
    }
    return hx_free(request);
}

bool hx_store_kind_writes(enum hx_store_kind kind)
{
    return kind == HX_STORE_INSERT || kind == HX_STORE_UPDATE || kind == HX_STORE_MARK ||
           kind == HX_STORE_TOUCH || kind == HX_STORE_NOTE || kind == HX_STORE_SESSION_PUT ||
           kind == HX_STORE_SESSION_TOUCH || kind == HX_STORE_SESSION_END ||
           kind == HX_STORE_STREAM_PUT || kind == HX_STORE_STREAM_END ||
           kind == HX_STORE_RESUME_PUT || kind == HX_STORE_OUTBOX_CLAIM ||
           kind == HX_STORE_OUTBOX_MARK;
}

bool hx_store_kind_is_synced(enum hx_store_kind kind)
{
    return kind == HX_STORE_INSERT || kind == HX_STORE_UPDATE || kind == HX_STORE_SESSION_PUT ||
           kind == HX_STORE_SESSION_END || kind == HX_STORE_STREAM_END;
}

/* A key that was forgotten in a crash would run once more under its own name. And where "sent" is
 * durable and "lost" is not, the repeat that the loss would have let find its answer runs anew. */
bool hx_store_touch_is_synced(const struct hx_store_touch *touch)
{
    return touch->rekey || touch->subtract_sent > 0;
}

static const char *session_flaw(const struct hx_store_session *session)
{
    if (session->tenant.len > HX_STORE_SESSION_TEXT_MAX ||
        session->principal.len > HX_STORE_SESSION_TEXT_MAX ||
        session->endpoint.len > HX_STORE_SESSION_TEXT_MAX ||
        session->revision.len > HX_STORE_SESSION_TEXT_MAX)
        return "A name of this session is longer than 1 KiB: use a shorter one.";
    if (session->initialize.len > HX_STORE_INITIALIZE_MAX)
        return "The initialize message is larger than 256 KiB: the session cannot be kept; the "
               "client must send a smaller one.";
    return NULL;
}

const char *hx_store_request_flaw(const struct hx_store_request *request)
{
    if (request->kind == HX_STORE_SESSION_PUT)
        return session_flaw(&request->session);
    if (request->kind == HX_STORE_STREAM_PUT) {
        if (hx_span_is_absent(request->stream.name))
            return "The stream has no name.";
        if (request->stream.name.len > HX_STORE_STREAM_NAME_MAX)
            return "The stream's name is longer than 64 bytes.";
        if (request->stream.request_id.len > HX_STORE_STREAM_REQUEST_MAX)
            return "The request's id is longer than 1 KiB: its stream cannot be resumed; the "
                   "client must use a shorter one.";
    }
    if (request->kind == HX_STORE_STREAM_END && request->stream.request_id.len == 0)
        return "The request has no id.";
    if (request->kind == HX_STORE_RESUME_PUT && hx_span_is_absent(request->resume.text))
        return "The resume point has no text.";
    if (request->kind == HX_STORE_RESUME_PUT && request->resume.text.len > HX_STORE_RESUME_MAX)
        return "The resume point is longer than 8 KiB: this attempt cannot be resumed.";
    return NULL;
}

struct hx_store_found *hx_store_request_add(struct hx_store_request *request)
{
    /* The capacity is the next power of two, so the array moves when the count reaches one. */
    uint32_t count = request->record_count;
    if ((count & (count - 1)) == 0) {
        size_t capacity = count == 0 ? 1 : 2 * (size_t)count;
        struct hx_store_found *moved =
            hx_arena_alloc(&request->arena, capacity * sizeof(request->records[0]));
        if (moved == NULL)
            return NULL;
        if (count > 0)
            memcpy(moved, request->records, count * sizeof(request->records[0]));
        request->records = moved;
    }
    struct hx_store_found *found = &request->records[request->record_count++];
    *found = (struct hx_store_found){0};
    return found;
}

/* All of what a GET gives but its key. */
static void forget_got(struct hx_store_request *request)
{
    if (request->kind == HX_STORE_SESSION_GET) {
        struct hx_digest key = request->session.key;
        request->session = (struct hx_store_session){.key = key};
    } else if (request->kind == HX_STORE_STREAM_GET) {
        request->stream.request_id = HX_SPAN_NONE;
        request->stream.op = (struct hx_id){{0}};
    } else if (request->kind == HX_STORE_RESUME_GET) {
        request->resume.attempt = 0;
        request->resume.text = HX_SPAN_NONE;
    } else if (request->kind == HX_STORE_OUTBOX_DUE) {
        request->outbox.events = NULL;
        request->outbox.event_count = 0;
        request->outbox.pending = request->outbox.parked = 0;
    }
}

void hx_store_request_forget(struct hx_store_request *request)
{
    forget_got(request);
    hx_arena_reset(&request->arena);
    request->result = HX_STORE_DONE;
    request->is_marked = false;
    request->error[0] = '\0';
    request->records = NULL;
    request->record_count = 0;
    request->ret_twin_seen = 0;
    request->ret_scan_next = 0;
    request->payload = HX_SPAN_NONE;
}

/* Replaces each span by a copy of its own. */
static bool copy_spans(struct hx_arena *arena, struct hx_span *const *spans, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (hx_span_is_absent(*spans[i]))
            continue;
        *spans[i] = hx_arena_dup(arena, *spans[i]);
        if (hx_span_is_absent(*spans[i]))
            return false;
    }
    return true;
}

bool hx_store_session_copy(struct hx_arena *arena, const struct hx_store_session *from,
                           struct hx_store_session *ret_session)
{
    struct hx_store_session copy = *from;
    struct hx_span *spans[] = {&copy.tenant, &copy.principal, &copy.endpoint, &copy.revision,
                               &copy.initialize};
    if (!copy_spans(arena, spans, sizeof(spans) / sizeof(spans[0])))
        return false;
    *ret_session = copy;
    return true;
}

bool hx_record_copy(struct hx_arena *arena, const struct hx_record *from,
                    struct hx_record *ret_record)
{
    struct hx_record copy = *from;
    struct hx_span *spans[] = {&copy.tenant, &copy.principal, &copy.server,       &copy.tool,
                               &copy.key,    &copy.arguments, &copy.outcome.bytes};
    if (!copy_spans(arena, spans, sizeof(spans) / sizeof(spans[0])))
        return false;
    *ret_record = copy;
    return true;
}
