/* SPDX-License-Identifier: MIT */
/*
 * Lists: all pages of all legs, side by side. Also lists that nobody asked for: to learn what the
 * client may ask for, and to see whether a server is back.
 */
#include "adapter/merge/internal.h"

#include <stdio.h>

#include "base/alloc.h"
#include "wire/rewrite.h"
#include "json/text.h"

const struct list_facts list_facts[LIST_KINDS] = {
    [LIST_TOOLS] = {HX_SPAN_INIT("tools/list"), HX_SPAN_INIT("tools"), HX_SPAN_INIT("name"), true},
    [LIST_PROMPTS] = {HX_SPAN_INIT("prompts/list"), HX_SPAN_INIT("prompts"), HX_SPAN_INIT("name"),
                      true},
    [LIST_RESOURCES] = {HX_SPAN_INIT("resources/list"), HX_SPAN_INIT("resources"),
                        HX_SPAN_INIT("uri"), false},
    [LIST_TEMPLATES] = {HX_SPAN_INIT("resources/templates/list"), HX_SPAN_INIT("resourceTemplates"),
                        HX_SPAN_INIT("uriTemplate"), false},
};

int list_kind_of(struct hx_span method)
{
    int kind = 0;

    while (kind < LIST_KINDS && !hx_span_eq(list_facts[kind].method, method))
        kind++;
    return kind;
}

static void item_free(struct item *item)
{
    hx_list_unlink(&item->node);
    if (!item->is_known)
        known_free(item->known);
    hx_buf_fini(&item->json);
    hx_free(item);
}

static void part_clear(struct part *part)
{
    struct hx_list *node;

    while ((node = hx_list_first(&part->items)) != NULL)
        item_free(hx_container_of(node, struct item, node));
}

void list_free_parts(struct request *request)
{
    for (size_t i = 0; i < request->part_count; i++)
        part_clear(&request->parts[i]);
    request->part_count = 0;
    hx_loop_timer_free(request->list_limit);
    request->list_limit = NULL;
    hx_free(request->parts);
    request->parts = NULL;
}

/* --- asking --- */

static void part_fails(struct request *request, struct part *part, struct hx_span reason)
{
    part->has_failed = true;
    part_clear(part);
    if (request->is_probe)
        return;
    merge_tell_left_out(request->merge, part->leg, reason);
}

static void no_memory(struct request *request, struct part *part, struct ticket *ticket)
{
    ticket_free(ticket);
    part_fails(request, part, HX_SPAN_LIT("There is no memory for its list."));
}

static void ask_page(struct request *request, struct part *part, struct hx_span cursor)
{
    struct merge *merge = request->merge;
    struct ticket *ticket = ticket_new(request, part->leg);
    struct hx_buf params;
    struct hx_buf line;

    part->pages++;
    snprintf(ticket->id, sizeof ticket->id, "\"hx-%s-list-%llu\"", merge->secret,
             (unsigned long long)++merge->next_id);
    hx_buf_init(&params, cursor.len + 32);
    hx_buf_init(&line, cursor.len + 512);
    (void)hx_buf_append_cstr(&params, "{");
    if (!hx_span_is_absent(cursor)) {
        (void)hx_buf_append_cstr(&params, "\"cursor\":");
        (void)hx_buf_append_span(&params, cursor);
    }
    (void)hx_buf_append_cstr(&params, "}");
    if (hx_buf_ok(&params) &&
        hx_rewrite_build_request(&line, hx_span_cstr(ticket->id), list_facts[request->list].method,
                                 hx_buf_span(&params)) == 0)
        leg_message(part->leg, &line, ticket->number);
    else
        no_memory(request, part, ticket);
    hx_buf_fini(&params);
    hx_buf_fini(&line);
}

static struct part *part_of(struct request *request, const struct leg *leg)
{
    for (size_t i = 0; i < request->part_count; i++) {
        if (request->parts[i].leg == leg)
            return &request->parts[i];
    }
    hx_assert(false);
    return NULL;
}

/* Who is silent is left out, as who could not be started is; what comes late is not read. */
static void on_list_limit(void *arg)
{
    struct request *request = arg;
    struct merge *merge = request->merge;

    while (!hx_list_is_empty(&request->tickets)) {
        struct ticket *ticket =
            hx_container_of(hx_list_first(&request->tickets), struct ticket, node);
        struct part *part = part_of(request, ticket->leg);
        ticket_free(ticket);
        part_fails(request, part, HX_SPAN_LIT("It does not answer."));
    }
    list_finish(request);
    merge_rest(merge);
}

void list_begin(struct request *request, enum list_kind kind, struct leg *only)
{
    struct merge *merge = request->merge;

    request->kind = REQUEST_LIST;
    request->list = kind;
    request->is_probe = only != NULL;
    request->parts = hx_new_bytes(merge->leg_count * sizeof(*request->parts));
    for (size_t i = 0; i < merge->leg_count; i++) {
        struct leg *leg = &merge->legs[i];
        if (only != NULL ? leg != only : !leg_takes_part(leg) || !leg->has_list[kind])
            continue;
        struct part *part = &request->parts[request->part_count++];
        part->leg = leg;
        hx_list_init(&part->items);
    }
    /* All are asked before one may answer. */
    for (size_t i = 0; i < request->part_count; i++)
        ask_page(request, &request->parts[i], HX_SPAN_NONE);
    for (size_t i = 0; i < merge->leg_count && !request->is_own; i++)
        leg_probe(&merge->legs[i]);
    if (hx_list_is_empty(&request->tickets)) {
        list_finish(request);
        return;
    }
    if (merge->options.loop != NULL && !request->is_probe) {
        request->list_limit = hx_loop_timer_new(merge->options.loop, on_list_limit, request);
        hx_loop_timer_set(request->list_limit, merge->options.list_wait_ms);
    }
}

void leg_probe(struct leg *leg)
{
    if (leg->state != LEG_MISSING || leg->is_probed)
        return;
    leg->is_probed = true;
    list_begin(request_new_own(leg->merge, REQUEST_LIST), LIST_TOOLS, leg);
}

/* --- reading --- */

/* An item as the client is to see it: every member that is its name gets the prefix. */
static void write_item(const struct leg *leg, uint32_t object, struct hx_span key,
                       struct hx_span exposed, struct hx_buf *out)
{
    const struct hx_json_tape *tape = &leg->merge->scratch;
    struct hx_span raw = hx_json_raw(tape, object);
    const char *from = raw.ptr;

    hx_json_for_each(name, tape, object)
    {
        struct hx_span value = hx_json_raw(tape, name + 1);
        if (hx_span_is_absent(exposed) || !hx_json_is_text(tape, name, key))
            continue;
        (void)hx_buf_append(out, from, (size_t)(value.ptr - from)); /* the buffer remembers */
        hx_json_text_quote(out, exposed);
        from = value.ptr + value.len;
    }
    (void)hx_buf_append(out, from, (size_t)(raw.ptr + raw.len - from));
}

/* False: it has no name that it could be asked for by, or there is no memory for it. */
static bool read_item(struct request *request, struct part *part, uint32_t object)
{
    struct merge *merge = request->merge;
    const struct list_facts *facts = &list_facts[request->list];
    struct hx_json_tape *tape = &merge->scratch;
    struct hx_mcp_text key;
    struct hx_buf exposed;

    if (!hx_json_is(tape, object, HX_JSON_OBJECT) ||
        hx_mcp_text_at(tape, hx_json_member(tape, object, facts->key), &merge->arena, &key) < 0 ||
        key.state != HX_MCP_TEXT_GIVEN)
        return false;
    struct item *item = hx_new(struct item);
    hx_list_init(&item->node);
    hx_buf_init(&exposed, merge->options.message_max_bytes);
    if (facts->has_prefix)
        item->is_shortened = name_expose(part->leg, key.text, &exposed);
    struct hx_span text = facts->has_prefix ? hx_buf_span(&exposed) : key.text;
    item->known =
        known_new(part->leg, request->list, text, item->is_shortened ? key.text : HX_SPAN_NONE);
    hx_buf_init(&item->json, merge->options.message_max_bytes);
    write_item(part->leg, object, facts->key, facts->has_prefix ? text : HX_SPAN_NONE, &item->json);
    bool is_whole = hx_buf_ok(&exposed) && hx_buf_ok(&item->json);
    hx_buf_fini(&exposed);
    request->bytes += item->json.len + 1;
    request->items++;
    hx_list_append(&part->items, &item->node);
    request->is_too_large |= !is_whole || request->items > merge->options.items_max ||
                             request->bytes > merge->options.message_max_bytes;
    return is_whole;
}

/* 0: *ret_cursor is that of the next page, absent at the end. 1: nothing can be made of it. */
static int read_page(struct request *request, struct part *part, struct hx_span result,
                     struct hx_span *ret_cursor)
{
    struct merge *merge = request->merge;
    struct hx_json_limits limits = merge->limits;

    limits.record_depth_max = 4; /* result, array, item, its members */
    if (hx_json_read(&merge->scratch, result, &limits) != 0)
        return 1;
    uint32_t array =
        hx_json_member_of(&merge->scratch, 0, list_facts[request->list].member, HX_JSON_ARRAY);
    uint32_t cursor =
        hx_json_member_of(&merge->scratch, 0, HX_SPAN_LIT("nextCursor"), HX_JSON_STRING);
    hx_json_for_each(at, &merge->scratch, array)
    {
        if (!request->is_too_large)
            (void)read_item(request, part, at); /* one that has no name cannot be used */
    }
    *ret_cursor = hx_json_raw(&merge->scratch, cursor);
    return 0;
}

static void take_error(struct request *request, struct part *part, const struct hx_rpc_msg *msg)
{
    struct merge *merge = request->merge;
    struct hx_mcp_error error;

    if (hx_mcp_error_read(&merge->tape, msg, &merge->arena, &error) < 0)
        error = (struct hx_mcp_error){0};
    if (error.has_code && error.code == MERGE_NO_METHOD)
        return; /* it has no such list */
    struct hx_span text = error.message.state == HX_MCP_TEXT_GIVEN
                              ? error.message.text
                              : HX_SPAN_LIT("It answered with an error.");
    part_fails(request, part, text);
    if (request->error.len == 0)
        (void)hx_buf_append_span(&request->error, msg->error);
    if (error.has_code && error.code == MERGE_UPSTREAM_UNAVAILABLE && !leg_is_over(part->leg))
        leg_is_missing(part->leg, text);
}

void list_answered(struct ticket *ticket, struct hx_buf *line)
{
    struct request *request = ticket->request;
    struct merge *merge = request->merge;
    struct part *part = part_of(request, ticket->leg);
    struct hx_span cursor = HX_SPAN_NONE;
    struct hx_rpc_msg msg;

    ticket_free(ticket);
    if (merge_read(merge, hx_buf_span(line), &msg) < 0)
        part_fails(request, part, HX_SPAN_LIT("There is no memory for its list."));
    else if (msg.kind == HX_RPC_ERROR)
        take_error(request, part, &msg);
    else if (msg.kind != HX_RPC_RESULT || read_page(request, part, msg.result, &cursor) != 0)
        part_fails(request, part, HX_SPAN_LIT("Its list cannot be read."));
    else if (!hx_span_is_absent(cursor) && part->pages >= merge->options.pages_max)
        part_fails(request, part, HX_SPAN_LIT("Its list has too many pages."));
    else if (!hx_span_is_absent(cursor) && !request->is_too_large && !request->is_probe)
        ask_page(request, part, cursor);
    if (hx_list_is_empty(&request->tickets))
        list_finish(request);
}

void list_lost(struct ticket *ticket)
{
    struct request *request = ticket->request;
    struct part *part = part_of(request, ticket->leg);

    ticket_free(ticket);
    part_fails(request, part, HX_SPAN_LIT("Its session is over."));
    if (hx_list_is_empty(&request->tickets))
        list_finish(request);
}
