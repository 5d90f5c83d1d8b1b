/* SPDX-License-Identifier: MIT */
#include "kept.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "records.h"

struct hx_store_session kept_session(struct world *world, unsigned number)
{
    struct hx_store_session session = {
        .tenant = HX_SPAN_LIT("local"),
        .principal = HX_SPAN_LIT("alice"),
        .endpoint = HX_SPAN_LIT("/mcp/bank"),
        .revision = HX_SPAN_LIT("2025-11-25"),
        .initialize = HX_SPAN_LIT("{\"method\":\"initialize\"}"),
        .created = world->now.wall,
        .last_seen = world->now.wall,
    };
    memset(&session.key, 0x51 + (int)number, sizeof(session.key));
    return session;
}

struct hx_store_stream kept_stream(const struct hx_store_session *session,
                                   const struct hx_record *record, const char *name)
{
    return (struct hx_store_stream){.session = session->key,
                                    .name = hx_span_cstr(name),
                                    .request_id = HX_SPAN_LIT("7"),
                                    .op = record->id};
}

struct hx_store_request *kept_put_session(struct hx_store *store,
                                          const struct hx_store_session *session)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_SESSION_PUT, NULL);
    request->session = *session;
    return world_run(store, request);
}

struct hx_store_request *kept_get_session(struct hx_store *store, const struct hx_digest *key)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_SESSION_GET, NULL);
    request->session.key = *key;
    return world_run(store, request);
}

struct hx_store_request *kept_touch(struct hx_store *store, const struct hx_digest *key,
                                    struct hx_wall last_seen)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_SESSION_TOUCH, NULL);
    request->session.key = *key;
    request->session.last_seen = last_seen;
    return world_run(store, request);
}

struct hx_store_request *kept_end(struct hx_store *store, const struct hx_digest *key)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_SESSION_END, NULL);
    request->session.key = *key;
    return world_run(store, request);
}

struct hx_store_request *kept_put_stream(struct hx_store *store,
                                         const struct hx_store_stream *stream)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_STREAM_PUT, NULL);
    request->stream = *stream;
    return world_run(store, request);
}

struct hx_store_request *kept_end_streams(struct hx_store *store, const struct hx_digest *session,
                                          struct hx_span request_id)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_STREAM_END, NULL);
    request->stream.session = *session;
    request->stream.request_id = request_id;
    return world_run(store, request);
}

struct hx_store_request *kept_get_stream(struct hx_store *store, const struct hx_digest *session,
                                         struct hx_span name)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_STREAM_GET, NULL);
    request->stream.session = *session;
    request->stream.name = name;
    return world_run(store, request);
}

struct hx_store_request *kept_put_resume(struct hx_store *store,
                                         const struct hx_store_resume *resume)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_RESUME_PUT, NULL);
    request->resume = *resume;
    return world_run(store, request);
}

struct hx_store_request *kept_get_resume(struct hx_store *store, const struct hx_id *op)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_RESUME_GET, NULL);
    request->resume.op = *op;
    return world_run(store, request);
}

void kept_claim_with_stream(struct hx_store *store, const struct hx_record *record,
                            const struct hx_store_stream *stream, enum hx_store_result *ret_claim,
                            enum hx_store_result *ret_stream)
{
    struct hx_store_request *claim = hx_store_request_new(HX_STORE_INSERT, NULL);
    struct hx_store_request *put = hx_store_request_new(HX_STORE_STREAM_PUT, NULL);
    claim->record = *record;
    put->stream = *stream;
    store->ops->submit(store, claim);
    store->ops->submit(store, put);
    store->ops->flush(store);
    for (int i = 0; i < 2; i++) {
        struct hx_store_request *request = world_take(store);
        *(request == claim ? ret_claim : ret_stream) = request->result;
        hx_store_request_free(request);
    }
}

void assert_kept_at(struct hx_store_request *request, enum hx_store_result expected,
                    const char *file, int line)
{
    static const char *const names[] = {"done", "stale", "not done"};
    enum hx_store_result result = request->result;
    if (result != expected)
        print_error("%s:%d: %s instead of %s: %s\n", file, line, names[result], names[expected],
                    request->error);
    _assert_int_equal(result, expected, file, line);
    hx_store_request_free(request);
}

void assert_sessions_equal(const struct hx_store_session *actual,
                           const struct hx_store_session *expected)
{
    assert_memory_equal(&actual->key, &expected->key, sizeof(expected->key));
    assert_spans_equal(actual->tenant, expected->tenant);
    assert_spans_equal(actual->principal, expected->principal);
    assert_spans_equal(actual->endpoint, expected->endpoint);
    assert_spans_equal(actual->revision, expected->revision);
    assert_spans_equal(actual->initialize, expected->initialize);
    assert_int_equal(actual->created.ms, expected->created.ms);
    assert_int_equal(actual->last_seen.ms, expected->last_seen.ms);
}

void assert_stream_is(struct hx_store *store, const struct hx_store_stream *expected)
{
    struct hx_store_request *got = kept_get_stream(store, &expected->session, expected->name);
    assert_int_equal(got->result, HX_STORE_DONE);
    assert_memory_equal(&got->stream.op, &expected->op, sizeof(expected->op));
    assert_spans_equal(got->stream.request_id, expected->request_id);
    hx_store_request_free(got);
}

void assert_resume_is(struct hx_store *store, const struct hx_store_resume *expected)
{
    struct hx_store_request *got = kept_get_resume(store, &expected->op);
    assert_int_equal(got->result, HX_STORE_DONE);
    assert_int_equal(got->resume.attempt, expected->attempt);
    assert_spans_equal(got->resume.text, expected->text);
    hx_store_request_free(got);
}
