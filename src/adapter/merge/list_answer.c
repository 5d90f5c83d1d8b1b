/* SPDX-License-Identifier: MIT */
/*
 * The end of a list: what it teaches, and the one answer that the legs' answers make.
 */
#include "adapter/merge/internal.h"

#include <stdio.h>

#include "json/text.h"
#include "json/writer.h"

/* What the list says goes in the place of what an earlier one said. */
static void learn(struct request *request)
{
    bool is_kept_whole = !list_facts[request->list].has_prefix;

    for (size_t i = 0; i < request->part_count; i++) {
        struct part *part = &request->parts[i];
        if (part->has_failed || request->is_too_large || leg_is_over(part->leg))
            continue;
        known_clear(part->leg, request->list);
        hx_list_for_each (node, &part->items) {
            struct item *item = hx_container_of(node, struct item, node);
            if (is_kept_whole || item->is_shortened)
                item->is_known = known_add(item->known);
        }
        part->leg->is_learned[request->list] = true;
    }
}

/* A resource that an earlier server lists too, or a name that another one was shortened to. */
static bool is_listed_already(struct merge *merge, const struct item *item)
{
    const struct known *first = known_find(merge, item->known->kind, item->known->text);

    return first != NULL && first != item->known;
}

static void write_left_out(const struct request *request, struct hx_buf *out)
{
    struct merge *merge = request->merge;
    struct hx_json_writer writer;

    hx_json_writer_init(&writer, out);
    hx_json_open_array(&writer);
    for (size_t i = 0; i < merge->leg_count; i++) {
        const struct leg *leg = &merge->legs[i];
        bool is_in = !leg->has_list[request->list] && leg_takes_part(leg);
        for (size_t k = 0; k < request->part_count; k++)
            is_in |= request->parts[k].leg == leg && !request->parts[k].has_failed;
        if (!is_in)
            hx_json_put_string(&writer, leg->name);
    }
    hx_json_close_array(&writer);
}

static void write_result(struct request *request, struct hx_buf *out)
{
    const struct hx_span none = HX_SPAN_LIT("[]");
    bool has_any = false;
    struct hx_buf left_out;

    (void)hx_buf_append_cstr(out, "{"); /* the buffer remembers a failure */
    hx_json_text_quote(out, list_facts[request->list].member);
    (void)hx_buf_append_cstr(out, ":[");
    for (size_t i = 0; i < request->part_count; i++) {
        hx_list_for_each (node, &request->parts[i].items) {
            const struct item *item = hx_container_of(node, struct item, node);
            if (is_listed_already(request->merge, item))
                continue;
            if (has_any)
                (void)hx_buf_append_char(out, ',');
            (void)hx_buf_append_span(out, hx_buf_span(&item->json));
            has_any = true;
        }
    }
    (void)hx_buf_append_char(out, ']');
    hx_buf_init(&left_out, request->merge->options.message_max_bytes);
    write_left_out(request, &left_out);
    if (hx_buf_ok(&left_out) && !hx_span_eq(hx_buf_span(&left_out), none)) {
        (void)hx_buf_append_cstr(out, ",\"_meta\":{\"dev.hapax/leftOut\":");
        (void)hx_buf_append_span(out, hx_buf_span(&left_out));
        (void)hx_buf_append_char(out, '}');
    }
    hx_buf_fini(&left_out);
    (void)hx_buf_append_char(out, '}');
}

static void reply_too_large(struct request *request)
{
    const struct hx_merge_options *options = &request->merge->options;
    char text[256];

    snprintf(text, sizeof text,
             "The merged list has more than %u entries or %zu bytes, or there is no memory for it. "
             "Use the servers' own endpoints, or fewer servers.",
             options->items_max, options->message_max_bytes);
    reply_error(request, HX_RPC_INTERNAL_ERROR, hx_span_cstr(text), HX_SPAN_NONE);
}

static bool has_part(const struct request *request)
{
    for (size_t i = 0; i < request->part_count; i++) {
        if (!request->parts[i].has_failed)
            return true;
    }
    return false;
}

/* Nobody answered: the client is told what the first one said. */
static void reply_failure(struct request *request)
{
    struct hx_buf line;

    if (request->error.len == 0) {
        reply_error(request, MERGE_UPSTREAM_UNAVAILABLE,
                    HX_SPAN_LIT("None of the servers can be reached. They are tried again."),
                    HX_SPAN_LIT(HX_MCP_OWN_ERROR("UPSTREAM_UNAVAILABLE", "true", "false")));
        return;
    }
    hx_buf_init(&line, request->error.len + request->raw_id.len + 64);
    (void)hx_buf_append_cstr(&line, "{\"jsonrpc\":\"2.0\",\"id\":");
    (void)hx_buf_append_span(&line, hx_buf_span(&request->raw_id));
    (void)hx_buf_append_cstr(&line, ",\"error\":");
    (void)hx_buf_append_span(&line, hx_buf_span(&request->error));
    (void)hx_buf_append_char(&line, '}');
    reply_line(request, &line, NULL, 0);
}

static bool takes_any_part(const struct merge *merge)
{
    for (size_t i = 0; i < merge->leg_count; i++) {
        if (leg_takes_part(&merge->legs[i]))
            return true;
    }
    return false;
}

static void finish_list(struct request *request)
{
    struct hx_buf result;

    if (request->is_too_large) {
        reply_too_large(request);
    } else if (!has_part(request) && (request->part_count > 0 || !takes_any_part(request->merge))) {
        reply_failure(request);
    } else {
        hx_buf_init(&result, request->merge->options.message_max_bytes);
        write_result(request, &result);
        if (hx_buf_ok(&result))
            reply_result(request, hx_buf_span(&result));
        else
            reply_too_large(request);
        hx_buf_fini(&result);
    }
}

static void finish_probe(struct request *request)
{
    struct leg *leg = request->parts[0].leg;
    bool is_back = !request->parts[0].has_failed;

    leg->is_probed = false;
    request_free(request);
    if (is_back && leg->state == LEG_MISSING)
        leg_joins(leg, false);
}

void list_finish(struct request *request)
{
    struct merge *merge = request->merge;

    if (request->is_probe) {
        finish_probe(request);
        return;
    }
    learn(request);
    if (!request->is_own) {
        finish_list(request);
        return;
    }
    merge->is_learning[request->list] = false;
    merge->learning--;
    request_free(request);
    if (merge->learning == 0)
        route_waiting(merge);
}
