/* SPDX-License-Identifier: MIT */
/*
 * initialize: one handshake of the client's, one with each server. Revisions are dates, so that
 * they compare as text.
 */
#include "adapter/merge/internal.h"
#include "base/fault.h"

static bool is_date(struct hx_span text)
{
    if (text.len != MERGE_VERSION_SIZE - 1)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        bool is_dash = i == 4 || i == 7;
        if (is_dash ? text.ptr[i] != '-' : text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
    }
    return true;
}

static bool keep_version(char *ret_version, const struct hx_mcp_text *text)
{
    ret_version[0] = '\0';
    if (text->state != HX_MCP_TEXT_GIVEN || !is_date(text->text))
        return false;
    memcpy(ret_version, text->text.ptr, text->text.len);
    ret_version[text->text.len] = '\0';
    return true;
}

/* --- beginning --- */

/* Answers to an earlier handshake are of no use. */
static void forget_late(struct merge *merge)
{
    hx_list_for_each_safe (node, &merge->requests) {
        struct request *request = hx_container_of(node, struct request, node);
        if (request->is_own && request->kind == REQUEST_INITIALIZE && request != merge->greeting)
            request_free(request);
    }
}

/* Whatever it were sent now would reach a server that knows of no client. */
static void is_ungreeted(struct leg *leg)
{
    leg->state = LEG_UNFITTING;
    hx_buf_reset(&leg->welcome);
    (void)hx_buf_append_cstr(&leg->welcome, "There was no memory to greet it.");
    merge_tell_left_out(leg->merge, leg, hx_buf_span(&leg->welcome));
}

static void finish(struct merge *merge);

void greet(struct request *request, const struct hx_rpc_msg *msg)
{
    struct merge *merge = request->merge;
    struct hx_mcp_initialize client;

    request->kind = REQUEST_INITIALIZE;
    merge->greeting = request;
    forget_late(merge);
    if (hx_mcp_initialize_read(&merge->scratch, msg->params, &merge->limits, &merge->arena,
                               &client) < 0) {
        merge->greeting = NULL;
        reply_no_memory(request);
        return;
    }
    (void)keep_version(merge->asked, &client.protocol_version); /* empty: anything is welcome */
    hx_buf_reset(&merge->initialized);
    hx_buf_reset(&merge->level);
    merge->is_start_over = false;
    for (size_t i = 0; i < merge->leg_count; i++) {
        struct leg *leg = &merge->legs[i];
        if (leg_is_over(leg))
            continue;
        leg->state = LEG_GREETED;
        leg_know_nothing(leg);
        if (!request_send_copy(request, leg))
            is_ungreeted(leg);
    }
    if (merge->start_limit != NULL)
        hx_loop_timer_set(merge->start_limit, merge->options.start_wait_ms);
    if (hx_list_is_empty(&request->tickets))
        finish(merge);
}

/* --- the end --- */

static const char *oldest(const struct merge *merge, const char *limit)
{
    const char *found = NULL;

    for (size_t i = 0; i < merge->leg_count; i++) {
        const struct leg *leg = &merge->legs[i];
        bool is_in = leg->state == LEG_READY && leg->version[0] != '\0' &&
                     (limit == NULL || strcmp(leg->version, limit) <= 0);
        if (is_in && (found == NULL || strcmp(leg->version, found) < 0))
            found = leg->version;
    }
    return found;
}

static void is_unfitting(struct leg *leg)
{
    leg->state = LEG_UNFITTING;
    hx_buf_reset(&leg->welcome);
    (void)hx_buf_printf(&leg->welcome,
                        "It speaks no revision of MCP that this session can use: "
                        "it chose \"%s\".",
                        leg->version);
    merge_tell_left_out(leg->merge, leg, hx_buf_span(&leg->welcome));
}

static void agree(struct merge *merge)
{
    const char *asked = merge->asked[0] != '\0' ? merge->asked : NULL;
    const char *found = oldest(merge, asked);
    const char *limit = found != NULL ? asked : NULL;

    if (found == NULL)
        found = oldest(merge, NULL);
    memcpy(merge->agreed, found != NULL ? found : "", found != NULL ? MERGE_VERSION_SIZE : 1);
    merge->era = hx_mcp_facts(hx_mcp_revision_parse(hx_span_cstr(merge->agreed)));
    for (size_t i = 0; i < merge->leg_count; i++) {
        struct leg *leg = &merge->legs[i];
        if (leg->state == LEG_READY && limit != NULL && strcmp(leg->version, limit) > 0)
            is_unfitting(leg);
    }
}

static bool is_any_ready(const struct merge *merge)
{
    for (size_t i = 0; i < merge->leg_count; i++) {
        if (merge->legs[i].state == LEG_READY)
            return true;
    }
    return false;
}

/* The client's handshake ends; those of servers that are late go on without it. */
static void keep_late(struct request *request)
{
    struct request *late;

    if (hx_list_is_empty(&request->tickets))
        return;
    late = request_new_own(request->merge, REQUEST_INITIALIZE);
    hx_list_splice(&late->tickets, &request->tickets);
    hx_list_for_each (node, &late->tickets)
        hx_container_of(node, struct ticket, node)->request = late;
}

static void forget_welcomes(struct merge *merge)
{
    for (size_t i = 0; i < merge->leg_count; i++) {
        struct leg *leg = &merge->legs[i];
        if (leg->state != LEG_READY)
            continue;
        size_t len_max = leg->welcome.len_max;
        hx_buf_fini(&leg->welcome);
        hx_buf_init(&leg->welcome, len_max);
    }
}

static void tell_client(struct request *request)
{
    struct merge *merge = request->merge;
    struct hx_buf text;

    hx_buf_init(&text, merge->options.message_max_bytes);
    if (is_any_ready(merge)) {
        welcome_write(merge, &text);
        if (hx_buf_ok(&text))
            reply_result(request, hx_buf_span(&text));
        else
            reply_error(
                request, HX_RPC_INTERNAL_ERROR,
                HX_SPAN_LIT("What the servers say of themselves is too large to pass on, or "
                            "there is no memory for it."),
                HX_SPAN_LIT(HX_MCP_OWN_ERROR("NO_ANSWER", "true", "true")));
    } else {
        welcome_write_missing(merge, &text);
        reply_error(request, MERGE_UPSTREAM_UNAVAILABLE, hx_buf_span(&text),
                    HX_SPAN_LIT(HX_MCP_OWN_ERROR("UPSTREAM_UNAVAILABLE", "true", "false")));
    }
    hx_buf_fini(&text);
}

static void finish(struct merge *merge)
{
    struct request *request = merge->greeting;

    if (merge->start_limit != NULL)
        hx_loop_timer_clear(merge->start_limit);
    merge->greeting = NULL;
    agree(merge);
    keep_late(request);
    tell_client(request);
    forget_welcomes(merge);
}

void greet_limit(struct merge *merge)
{
    merge->is_start_over = true;
    if (merge->greeting != NULL && is_any_ready(merge))
        finish(merge);
}

void greet_resumed(struct merge *merge, struct hx_span revision)
{
    if (is_date(revision))
        memcpy(merge->agreed, revision.ptr, revision.len);
    merge->era = hx_mcp_facts(hx_mcp_revision_parse(revision));
    for (int kind = 0; kind < LIST_KINDS; kind++)
        merge->told[kind] = true; /* more than it was told, perhaps; it asks for none of that */
    (void)hx_buf_append_cstr(&merge->initialized,
                             "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
}

/* --- answers --- */

static void note_capabilities(struct leg *leg)
{
    struct hx_json_tape *tape = &leg->merge->scratch;
    uint32_t capabilities = hx_json_member(tape, 0, HX_SPAN_LIT("capabilities"));
    uint32_t resources =
        hx_json_member_of(tape, capabilities, HX_SPAN_LIT("resources"), HX_JSON_OBJECT);

    leg->has_list[LIST_TOOLS] =
        hx_json_member_of(tape, capabilities, HX_SPAN_LIT("tools"), HX_JSON_OBJECT) != HX_JSON_NONE;
    leg->has_list[LIST_PROMPTS] = hx_json_member_of(tape, capabilities, HX_SPAN_LIT("prompts"),
                                                    HX_JSON_OBJECT) != HX_JSON_NONE;
    leg->has_list[LIST_RESOURCES] = leg->has_list[LIST_TEMPLATES] = resources != HX_JSON_NONE;
    leg->has_subscribe =
        hx_json_member_of(tape, resources, HX_SPAN_LIT("subscribe"), HX_JSON_TRUE) != HX_JSON_NONE;
    leg->has_completions = hx_json_member_of(tape, capabilities, HX_SPAN_LIT("completions"),
                                             HX_JSON_OBJECT) != HX_JSON_NONE;
    leg->has_logging = hx_json_member_of(tape, capabilities, HX_SPAN_LIT("logging"),
                                         HX_JSON_OBJECT) != HX_JSON_NONE;
}

/* 0: it is welcome. 1: this session cannot use it. */
static int take_welcome(struct leg *leg, struct hx_span result)
{
    struct merge *merge = leg->merge;
    struct hx_mcp_initialize_result read;

    hx_buf_reset(&leg->welcome);
    int rc = hx_mcp_initialize_result_read(&merge->scratch, result, &merge->limits, &merge->arena,
                                           &read);
    if (rc < 0)
        return HX_TRACE(rc);
    if (!keep_version(leg->version, &read.protocol_version))
        return 1;
    rc = hx_buf_append_span(&leg->welcome, result);
    if (rc < 0)
        return HX_TRACE(rc);
    note_capabilities(leg); /* the result is still on the scratch tape */
    return 0;
}

void leg_is_missing(struct leg *leg, struct hx_span reason)
{
    bool was_greeted = leg->state == LEG_GREETED;
    struct merge *merge = leg->merge;
    size_t len = reason.len < MERGE_REASON_MAX ? reason.len : MERGE_REASON_MAX;

    leg->state = LEG_MISSING;
    hx_buf_reset(&leg->welcome);
    (void)hx_buf_append(&leg->welcome, reason.ptr, len);
    merge_tell_left_out(merge, leg, hx_buf_span(&leg->welcome));
    /* The engine greets it when it is there, and must know all that it is to say. */
    if (was_greeted && merge->initialized.len > 0)
        leg_message_copy(leg, hx_buf_span(&merge->initialized));
}

void leg_joins(struct leg *leg, bool is_new)
{
    struct merge *merge = leg->merge;

    leg->state = LEG_READY;
    if (is_new && merge->initialized.len > 0)
        leg_message_copy(leg, hx_buf_span(&merge->initialized));
    if (merge->level.len > 0 && leg->has_logging) {
        struct request *quiet = request_new_own(merge, REQUEST_ALL);
        leg_message_copy_as(leg, hx_buf_span(&merge->level), ticket_new(quiet, leg)->number);
    }
    leg_tell_changed(leg);
}

/* The version of the session stands already. */
static void take_late(struct leg *leg)
{
    struct merge *merge = leg->merge;
    const char *limit = strcmp(merge->asked, merge->agreed) > 0 ? merge->asked : merge->agreed;

    if (strcmp(leg->version, merge->agreed) < 0 ||
        (merge->asked[0] != '\0' && strcmp(leg->version, limit) > 0))
        is_unfitting(leg);
    else
        leg_joins(leg, true);
    hx_buf_reset(&leg->welcome);
}

static void go_ahead(struct merge *merge, struct request *request)
{
    bool is_last = hx_list_is_empty(&request->tickets);

    if (request == merge->greeting && (is_last || (merge->is_start_over && is_any_ready(merge))))
        finish(merge);
    else if (request != merge->greeting && is_last)
        request_free(request);
}

static struct hx_span error_text(struct merge *merge, const struct hx_rpc_msg *msg)
{
    struct hx_mcp_error error;

    if (msg->kind != HX_RPC_ERROR ||
        hx_mcp_error_read(&merge->tape, msg, &merge->arena, &error) < 0 ||
        error.message.state != HX_MCP_TEXT_GIVEN)
        return HX_SPAN_LIT("Its answer to initialize cannot be read.");
    return error.message.text;
}

void greet_answered(struct ticket *ticket, struct hx_buf *line)
{
    struct request *request = ticket->request;
    struct merge *merge = request->merge;
    struct leg *leg = ticket->leg;
    struct hx_rpc_msg msg;

    ticket_free(ticket);
    int rc = merge_read(merge, hx_buf_span(line), &msg);
    bool is_welcome = rc == 0 && msg.kind == HX_RPC_RESULT;
    if (is_welcome)
        rc = take_welcome(leg, msg.result);
    if (rc < 0) {
        leg_is_missing(leg, HX_SPAN_LIT("There is no memory for its answer to initialize."));
    } else if (!is_welcome) {
        leg_is_missing(leg, error_text(merge, &msg));
    } else if (rc > 0) {
        is_unfitting(leg);
    } else if (request == merge->greeting) {
        leg->state = LEG_READY;
    } else {
        take_late(leg);
    }
    go_ahead(merge, request);
}

void greet_lost(struct ticket *ticket)
{
    struct request *request = ticket->request;
    struct leg *leg = ticket->leg;

    ticket_free(ticket);
    if (!leg_is_over(leg))
        leg_is_missing(leg, HX_SPAN_LIT("It did not answer initialize."));
    go_ahead(request->merge, request);
}
