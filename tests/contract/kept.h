/* SPDX-License-Identifier: MIT */
/*
 * Making, putting and comparing sessions, streams and resume points.
 */
#ifndef HX_TESTS_CONTRACT_KEPT_H
#define HX_TESTS_CONTRACT_KEPT_H

#include "world.h"

/* Their names are made of `number`; spans are static or borrowed. */
struct hx_store_session kept_session(struct world *world, unsigned number);
struct hx_store_stream kept_stream(const struct hx_store_session *session,
                                   const struct hx_record *record, const char *name);

/* Each submits, flushes and waits. */
struct hx_store_request *kept_put_session(struct hx_store *store,
                                          const struct hx_store_session *session);
struct hx_store_request *kept_get_session(struct hx_store *store, const struct hx_digest *key);
struct hx_store_request *kept_touch(struct hx_store *store, const struct hx_digest *key,
                                    struct hx_wall last_seen);
struct hx_store_request *kept_end(struct hx_store *store, const struct hx_digest *key);
struct hx_store_request *kept_put_stream(struct hx_store *store,
                                         const struct hx_store_stream *stream);
struct hx_store_request *kept_end_streams(struct hx_store *store, const struct hx_digest *session,
                                          struct hx_span request_id);
struct hx_store_request *kept_get_stream(struct hx_store *store, const struct hx_digest *session,
                                         struct hx_span name);
struct hx_store_request *kept_put_resume(struct hx_store *store,
                                         const struct hx_store_resume *resume);
struct hx_store_request *kept_get_resume(struct hx_store *store, const struct hx_id *op);

/* A claim and its stream in one flush. Waits for both and gives their results. */
void kept_claim_with_stream(struct hx_store *store, const struct hx_record *record,
                            const struct hx_store_stream *stream, enum hx_store_result *ret_claim,
                            enum hx_store_result *ret_stream);

/* Asserts the result and frees the request. */
void assert_kept_at(struct hx_store_request *request, enum hx_store_result expected,
                    const char *file, int line);
#define assert_kept(request, expected) assert_kept_at((request), (expected), __FILE__, __LINE__)
void assert_sessions_equal(const struct hx_store_session *actual,
                           const struct hx_store_session *expected);
/* Asserts that the store gives exactly this. */
void assert_stream_is(struct hx_store *store, const struct hx_store_stream *expected);
void assert_resume_is(struct hx_store *store, const struct hx_store_resume *expected);

#endif
