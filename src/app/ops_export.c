/* SPDX-License-Identifier: MIT */
/*
 * `hapax ops export`: every operation as one line of JSON, for other programs and for keeping. Read
 * page by page, so that neither a large ledger nor a slow reader holds up the gateways.
 */
#include "app/ops.h"

#include <string.h>

#include "app/ops_text.h"
#include "base/alloc.h"
#include "base/fault.h"

/* Rows carry arguments of some megabytes at worst, and inline outcomes: a page ends early when it
 * has become heavy. */
enum {
    PAGE_ROWS = 256,
    PAGE_BYTES = 16 * 1024 * 1024,
    PAGE_BYTES_MAX = 512 * 1024 * 1024,
    PAYLOAD_BYTES_MAX = 512 * 1024 * 1024
};

struct page {
    struct hx_store_found rows[PAGE_ROWS];
    uint32_t count;
    struct hx_arena arena;
    struct hx_arena payload; /* of one operation: a page of large results has no bound of its own */
    bool is_full;            /* memory ended within this page */
};

static bool keep(void *context, const struct hx_store_found *found)
{
    struct page *page = context;
    struct hx_store_found *kept = &page->rows[page->count];
    *kept = *found;
    if (!hx_record_copy(&page->arena, &found->record, &kept->record)) {
        page->is_full = true;
        return false;
    }
    page->count++;
    return page->count < PAGE_ROWS && page->arena.used < PAGE_BYTES;
}

static bool add_line(void *context, const struct hx_history_line *line)
{
    struct hx_json_writer *writer = context;
    hx_json_open_object(writer);
    hx_ops_put_history_line(writer, line);
    hx_json_close_object(writer);
    return hx_buf_ok(writer->buf);
}

static int print_operation(struct hx_ops *ops, struct page *page,
                           const struct hx_store_found *found, struct hx_buf *buf)
{
    struct hx_ops_json options = {.has_payload = !ops->options.without_payload,
                                  .redact = &ops->redaction.names};
    struct hx_json_writer writer;
    const struct hx_outcome *outcome = &found->record.outcome;
    int rc = 0;
    hx_arena_reset(&page->payload);
    if (options.has_payload && outcome->place == HX_OUTCOME_BLOB)
        rc = hx_inspect_payload(ops->inspect, &found->record.id, &page->payload, &options.outcome);
    if (rc < 0)
        return HX_TRACE(rc);
    hx_buf_reset(buf);
    hx_json_writer_init(&writer, buf);
    hx_json_open_object(&writer);
    hx_ops_put_operation(&writer, found, &options);
    hx_json_put_name(&writer, "history");
    hx_json_open_array(&writer);
    rc = hx_inspect_history(ops->inspect, found->rowid, add_line, &writer);
    hx_json_close_array(&writer);
    hx_json_close_object(&writer);
    if (rc < 0)
        return HX_TRACE(rc);
    return hx_ops_print_json(ops->out, buf) ? 0 : HX_E_LIMIT;
}

static int export_page(struct hx_ops *ops, struct page *page, struct hx_buf *buf)
{
    for (uint32_t i = 0; i < page->count && hx_ops_is_read(ops); i++) {
        int rc = print_operation(ops, page, &page->rows[i], buf);
        if (rc < 0)
            return HX_TRACE(rc);
    }
    return page->is_full ? HX_RAISE(HX_E_LIMIT, "An operation is too large to be exported.") : 0;
}

int hx_ops_export(struct hx_ops *ops)
{
    const struct hx_ops_options *options = &ops->options;
    struct hx_inspect_filter filter = {
        .states = options->states,
        .tool_glob = options->tool,
        .server = options->server,
        .since = options->since,
        .limit = PAGE_ROWS,
    };
    struct hx_buf buf;
    int status = hx_ops_read_redaction(ops);
    if (status != 0)
        return status;
    struct page *page = hx_new(struct page);
    hx_buf_init(&buf, SIZE_MAX / 2);
    hx_arena_init(&page->arena, PAGE_BYTES_MAX);
    hx_arena_init(&page->payload, PAYLOAD_BYTES_MAX);
    int rc = 0;
    do {
        page->count = 0;
        hx_arena_reset(&page->arena);
        rc = hx_inspect_list(ops->inspect, &filter, keep, page, NULL);
        if (rc == 0)
            rc = export_page(ops, page, &buf);
        if (page->count > 0)
            filter.after = page->rows[page->count - 1].rowid;
    } while (rc == 0 && page->count > 0 && hx_ops_is_read(ops));
    hx_arena_fini(&page->arena);
    hx_arena_fini(&page->payload);
    hx_free(page);
    hx_buf_fini(&buf);
    return rc < 0 ? hx_ops_fault(ops, HX_EXIT_FAILED) : HX_EXIT_DONE;
}
