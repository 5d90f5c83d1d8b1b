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
