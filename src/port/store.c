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
           kind == HX_STORE_TOUCH || kind == HX_STORE_NOTE;
}

bool hx_store_kind_is_synced(enum hx_store_kind kind)
{
    return kind == HX_STORE_INSERT || kind == HX_STORE_UPDATE;
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

void hx_store_request_forget(struct hx_store_request *request)
{
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

bool hx_record_copy(struct hx_arena *arena, const struct hx_record *from,
                    struct hx_record *ret_record)
{
    struct hx_record copy = *from;
    struct hx_span *spans[] = {&copy.tenant, &copy.principal, &copy.server,       &copy.tool,
                               &copy.key,    &copy.arguments, &copy.outcome.bytes};
    for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++) {
        if (hx_span_is_absent(*spans[i]))
            continue;
        *spans[i] = hx_arena_dup(arena, *spans[i]);
        if (hx_span_is_absent(*spans[i]))
            return false;
    }
    *ret_record = copy;
    return true;
}
