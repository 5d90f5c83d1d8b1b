/* SPDX-License-Identifier: MIT */
/*
 * The method hapax/operations/list: the caller's own operations at this server, in pages. Those
 * that are open or unknown, unless a state is named. One request reads a bounded number of rows, so
 * a page may be short, or empty, and still have a next one.
 */
#include "engine/internal.h"

#include <stdio.h>

#include "base/whole.h"

enum { ROWS_AT_ONCE = 256, READS_MAX = 16, SHOWN_DEFAULT = 50, SHOWN_MAX = 200 };

struct hx_listing {
    struct hx_buf json;
    struct hx_json_writer writer;
    enum hx_op_state state; /* ABSENT: everything open or unknown */
    struct hx_buf tool;     /* empty: of all tools */
    uint32_t limit;
    uint32_t count;
    uint32_t reads;
};

void hx_listing_free(struct hx_listing *listing)
{
    if (listing == NULL)
        return;
    hx_buf_fini(&listing->json);
    hx_buf_fini(&listing->tool);
    hx_free(listing);
}

static void read_more(struct hx_request *request, int64_t after)
{
    struct hx_store_request *find = hx_store_make(request->session->gateway, HX_STORE_FIND);
    find->scan = true;
    find->scan_state = request->listing->state;
    find->scan_after = after;
    find->scan_limit = ROWS_AT_ONCE;
    request->listing->reads++;
    hx_store_submit_for_request(request, find);
}

/* False: what is wrong with the parameters. */
static bool read_params(struct hx_gateway *gateway, struct hx_listing *listing, int64_t *ret_after,
                        const char **ret_flaw)
{
    struct hx_span state = hx_operations_text(gateway, "state");
    struct hx_span tool = hx_operations_text(gateway, "tool");
    struct hx_span cursor = hx_operations_text(gateway, "cursor");
    uint32_t limit = hx_json_member(&gateway->scratch, 0, HX_SPAN_LIT("limit"));
    int64_t number;
    *ret_flaw = NULL;
    if (!hx_span_is_absent(state) &&
        (!hx_op_state_parse(state, &listing->state) || listing->state == HX_OP_ABSENT))
        *ret_flaw = "\"state\" must be one of awaiting_approval, ready, running, input_required, "
                    "succeeded, failed, unknown, cancelled, expired; left out, it means all that "
                    "have not ended.";
    if (!hx_span_is_absent(cursor) && !hx_whole_parse(cursor, ret_after))
        *ret_flaw = "\"cursor\" must be the nextCursor of the page before.";
    if (limit != HX_JSON_NONE) {
        if (!hx_whole_parse(hx_json_raw(&gateway->scratch, limit), &number) || number < 1 ||
            number > SHOWN_MAX)
            *ret_flaw = "\"limit\" must be a number from 1 to 200.";
        else
            listing->limit = (uint32_t)number;
    }
    if (!hx_span_is_absent(tool) && hx_buf_append_span(&listing->tool, tool) < 0)
        *ret_flaw = "\"tool\" is longer than the name of a tool can be.";
    return *ret_flaw == NULL;
}

void hx_listing_begin(struct hx_request *request, struct hx_span params)
{
    struct hx_gateway *gateway = request->session->gateway;
    struct hx_listing *listing = hx_new(struct hx_listing);
    const char *flaw = NULL;
    int64_t after = 0;
    listing->state = HX_OP_ABSENT;
    listing->limit = SHOWN_DEFAULT;
    hx_buf_init(&listing->json, gateway->options.message_max);
    hx_buf_init(&listing->tool, 4096);
    request->listing = listing;
    request->asked = HX_ASKED_LIST;
    int rc = hx_operations_read(gateway, params);
    if (rc < 0) {
        hx_operations_refuse_unread(request);
        return;
    }
    if (rc == 0 && !read_params(gateway, listing, &after, &flaw)) {
        hx_operations_refuse(request, "INVALID", flaw);
        return;
    }
    hx_json_writer_init(&listing->writer, &listing->json);
    hx_json_open_object(&listing->writer);
    hx_json_put_name(&listing->writer, "operations");
    hx_json_open_array(&listing->writer);
    read_more(request, after);
}

static bool is_listed(const struct hx_request *request, const struct hx_record *record)
{
    const struct hx_listing *listing = request->listing;
    return hx_session_may_have(request->session, record) &&
           (listing->tool.len == 0 || hx_span_eq(record->tool, hx_buf_span(&listing->tool))) &&
           hx_is_row_sound(request->session->gateway, record);
}

/* `next`: where the next page begins; 0 = there is none. */
static void end(struct hx_request *request, int64_t next)
{
    struct hx_listing *listing = request->listing;
    char cursor[24];
    hx_json_close_array(&listing->writer);
    if (next > 0) {
        snprintf(cursor, sizeof(cursor), "%lld", (long long)next);
        hx_json_put_name(&listing->writer, "nextCursor");
        hx_json_put_cstr(&listing->writer, cursor);
    }
    hx_json_close_object(&listing->writer);
    hx_operations_answer(request, &listing->json);
}

void hx_listing_found(struct hx_request *request, struct hx_store_request *done)
{
    struct hx_listing *listing = request->listing;
    int64_t next = done->ret_scan_next;
    bool is_full = false;
    for (uint32_t i = 0; i < done->record_count && !is_full; i++) {
        if (!is_listed(request, &done->records[i].record))
            continue;
        hx_operations_put(&listing->writer, &done->records[i].record);
        is_full = ++listing->count == listing->limit ||
                  listing->json.len >= listing->json.len_max / 2; /* else it could not be sent */
        /* The last row of the last page has nothing behind it. */
        if (is_full && (i + 1 < done->record_count || next > 0))
            next = done->records[i].rowid;
    }
    hx_store_request_free(done);
    if (!is_full && next > 0 && listing->reads < READS_MAX)
        read_more(request, next);
    else
        end(request, next);
}
