/* SPDX-License-Identifier: MIT */
/*
 * GET: operations in pages, and one of them whole.
 */
#include <string.h>

#include "app/admin_state.h"
#include "app/ops_advice.h"
#include "app/ops_text.h"
#include "app/redaction.h"
#include "base/fault.h"
#include "base/whole.h"

enum { ROWS_AT_ONCE = 256, READS_MAX = 64, SHOWN_DEFAULT = 50, SHOWN_MAX = 1000 };

static int hex_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The value of a member of a query, decoded into the arena; absent when it is not there. */
static struct hx_span query_value(struct hx_arena *arena, struct hx_span query, const char *name)
{
    size_t name_len = strlen(name);
    const char *at = query.ptr, *end = query.ptr + query.len;
    while (!hx_span_is_absent(query) && at < end) {
        const char *stop = memchr(at, '&', (size_t)(end - at));
        struct hx_span pair = hx_span(at, (size_t)((stop ? stop : end) - at));
        at += pair.len + 1;
        if (pair.len < name_len + 1 || memcmp(pair.ptr, name, name_len) != 0 ||
            pair.ptr[name_len] != '=')
            continue;
        char *text = hx_arena_alloc(arena, pair.len);
        size_t len = 0;
        for (size_t i = name_len + 1; text != NULL && i < pair.len; i++) {
            bool is_code = pair.ptr[i] == '%' && i + 2 < pair.len && hex_of(pair.ptr[i + 1]) >= 0 &&
                           hex_of(pair.ptr[i + 2]) >= 0;
            text[len++] = is_code ? (char)(hex_of(pair.ptr[i + 1]) * 16 + hex_of(pair.ptr[i + 2]))
                          : pair.ptr[i] == '+' ? ' '
                                               : pair.ptr[i];
            i += is_code ? 2 : 0;
        }
        return text != NULL ? hx_span(text, len) : HX_SPAN_NONE;
    }
    return HX_SPAN_NONE;
}

/* With arguments and result, less what `redact` names, unless it is NULL. */
static void put_one(struct hx_json_writer *writer, struct admin_ask *ask,
                    const struct hx_store_found *found, const struct hx_redact_names *redact)
{
    const struct hx_ops_json options = {.now = hx_clock_now(ask->admin->options.clock),
                                        .has_age = true,
                                        .has_payload = redact != NULL,
                                        .redact = redact};
    hx_json_open_object(writer);
    hx_ops_put_operation(writer, found, &options);
    hx_json_close_object(writer);
}

static void unavailable(struct admin_ask *ask, const struct hx_store_request *found)
{
    admin_refuse(ask->admin, ask->exchange, 503, "LEDGER_UNAVAILABLE", found->error);
    admin_ask_free(ask);
}

/* ---- a list ---- */

static void rows_found(void *context, const struct hx_store_request *found);

static void read_more(struct admin_ask *ask, int64_t after)
{
    struct hx_store_request *find = hx_store_request_new(HX_STORE_FIND, NULL);
    find->scan = true;
    find->scan_state = ask->state;
    find->scan_after = after;
    find->scan_limit = ROWS_AT_ONCE;
    ask->reads++;
    (void)hx_gateway_look(ask->admin->options.gateway, find, rows_found, ask);
}

static bool is_listed(const struct admin_ask *ask, const struct hx_record *record)
{
    return (hx_span_is_absent(ask->tool) || hx_span_eq(ask->tool, record->tool)) &&
           (hx_span_is_absent(ask->server) || hx_span_eq(ask->server, record->server));
}

static void end_list(struct admin_ask *ask, int64_t next)
{
    hx_json_close_array(&ask->writer);
    if (next > 0) {
        hx_json_put_name(&ask->writer, "next");
        hx_json_put_int(&ask->writer, next);
    }
    hx_json_close_object(&ask->writer);
    admin_answer(ask->admin, ask->exchange, 200, &ask->json);
    admin_ask_free(ask);
}

static void rows_found(void *context, const struct hx_store_request *found)
{
    struct admin_ask *ask = context;
    int64_t next = found->ret_scan_next;
    bool is_full = false;
    if (found->result != HX_STORE_DONE) {
        unavailable(ask, found);
        return;
    }
    for (uint32_t i = 0; i < found->record_count && !is_full; i++) {
        const struct hx_store_found *row = &found->records[i];
        if (hx_record_flaw(&row->record) != NULL || !is_listed(ask, &row->record))
            continue;
        put_one(&ask->writer, ask, row, NULL);
        is_full = ++ask->count == ask->limit;
        if (is_full && (i + 1 < found->record_count || next > 0))
            next = row->rowid;
    }
    if (!is_full && next > 0 && ask->reads < READS_MAX)
        read_more(ask, next);
    else
        end_list(ask, next);
}

void admin_list(struct hx_admin *admin, uint64_t exchange, const char *who, struct hx_span query)
{
    struct admin_ask *ask = admin_ask_new(admin, exchange, who);
    struct hx_span state = query_value(&ask->arena, query, "state");
    struct hx_span limit = query_value(&ask->arena, query, "limit");
    struct hx_span cursor = query_value(&ask->arena, query, "cursor");
    int64_t number = SHOWN_DEFAULT, after = 0;
    ask->state = HX_OP_ABSENT; /* everything that has not ended */
    ask->tool = query_value(&ask->arena, query, "tool");
    ask->server = query_value(&ask->arena, query, "server");
    bool is_good = hx_span_is_absent(state) || hx_span_eq_cstr(state, "open") ||
                   (hx_op_state_parse(state, &ask->state) && ask->state != HX_OP_ABSENT);
    if (is_good && !hx_span_is_absent(limit))
        is_good = hx_whole_parse(limit, &number) && number > 0 && number <= SHOWN_MAX;
    if (is_good && !hx_span_is_absent(cursor))
        is_good = hx_whole_parse(cursor, &after);
    if (!is_good) {
        admin_refuse(admin, exchange, 400, "INVALID",
                     "state must be open or one state, limit 1 to 1000, and cursor the \"next\" of "
                     "the page before.");
        admin_ask_free(ask);
        return;
    }
    ask->limit = (uint32_t)number;
    hx_json_writer_init(&ask->writer, &ask->json);
    hx_json_open_object(&ask->writer);
    hx_json_put_name(&ask->writer, "operations");
    hx_json_open_array(&ask->writer);
    read_more(ask, after);
}

/* ---- one ---- */

/* The names are read anew: another process may have been told of one since. */
static void answer_one(struct admin_ask *ask, const struct hx_store_found *row)
{
    struct hx_redaction redaction;
    struct hx_json_writer writer;
    bool has_payload = !ask->is_without_payload;
    hx_redaction_init(&redaction);
    if (has_payload && hx_redaction_read(&redaction, ask->admin->options.ledger) < 0) {
        admin_refuse(ask->admin, ask->exchange, 503, "LEDGER_UNAVAILABLE", hx_fault_last()->text);
    } else {
        hx_json_writer_init(&writer, &ask->json);
        put_one(&writer, ask, row, has_payload ? &redaction.names : NULL);
        admin_answer(ask->admin, ask->exchange, 200, &ask->json);
    }
    hx_redaction_fini(&redaction);
}

static void one_found(void *context, const struct hx_store_request *found)
{
    struct admin_ask *ask = context;
    const struct hx_store_found *row = found->record_count > 0 ? &found->records[0] : NULL;
    if (found->result != HX_STORE_DONE) {
        unavailable(ask, found);
        return;
    }
    if (row == NULL) {
        admin_refuse(ask->admin, ask->exchange, 404, "NOT_FOUND",
                     "The ledger has no operation of this id.");
    } else if (hx_record_flaw(&row->record) != NULL) {
        admin_refuse(ask->admin, ask->exchange, 503, "LEDGER_UNAVAILABLE",
                     "Its row is damaged; see hapax ops verify.");
    } else {
        answer_one(ask, row);
    }
    admin_ask_free(ask);
}

void admin_show(struct hx_admin *admin, uint64_t exchange, const char *who, const struct hx_id *id,
                struct hx_span query)
{
    struct admin_ask *ask = admin_ask_new(admin, exchange, who);
    struct hx_store_request *find = hx_store_request_new(HX_STORE_FIND, NULL);
    ask->is_without_payload = hx_span_eq_cstr(query_value(&ask->arena, query, "payload"), "no");
    find->find_id = true;
    find->record.id = *id;
    (void)hx_gateway_look(admin->options.gateway, find, one_found, ask);
}
