/* SPDX-License-Identifier: MIT */
/*
 * What a guarded call says of itself: its key, its times, its fingerprint; and the record that it
 * would begin.
 */
#include "engine/internal.h"

#include <stdio.h>

/* One more place where a key may stand. Returns false when it contradicts the one before. */
static bool add_key(struct hx_call *call, const struct hx_mcp_text *text, enum hx_key_source source)
{
    if (text->state == HX_MCP_TEXT_ABSENT)
        return true;
    if (text->state == HX_MCP_TEXT_BAD)
        return false;
    if (call->wanted.key_source != HX_KEY_NONE)
        return hx_span_eq(call->wanted.key, text->text);
    /* One that is too long to be a key is only looked at, and refused. */
    call->wanted.key =
        text->text.len > HX_KEY_LEN_MAX ? text->text : hx_arena_dup(&call->arena, text->text);
    call->wanted.key_source = source;
    call->is_param_key = source == HX_KEY_PARAMS;
    call->is_unread |= hx_span_is_absent(call->wanted.key);
    return true;
}

static bool add_argument_key(struct hx_call *call, struct hx_span pointer,
                             enum hx_key_source source)
{
    struct hx_gateway *gateway = call->gateway;
    struct hx_mcp_text text;
    if (hx_span_is_absent(pointer) || hx_span_is_absent(call->arguments))
        return true;
    if (hx_mcp_argument_read(&gateway->scratch, call->arguments, pointer, &gateway->part_limits,
                             &gateway->arena, &text) < 0) {
        call->is_unread = true;
        return true;
    }
    return add_key(call, &text, source);
}

/* The header Idempotency-Key: a string of RFC 8941 in quotes, or plain. With several calls in one
 * body, or said twice, nobody knows whose it is. */
static bool add_header_key(struct hx_call *call)
{
    const struct hx_peer_event *taken = call->session->taken;
    struct hx_mcp_text text = {.state = HX_MCP_TEXT_GIVEN};
    if (taken == NULL || taken->key_count == 0)
        return true;
    if (taken->key_count > 1 || call->request->batch != NULL)
        return false;
    text.text = hx_buf_span(&taken->key);
    bool is_quoted =
        text.text.len >= 2 && text.text.ptr[0] == '"' && text.text.ptr[text.text.len - 1] == '"';
    if (is_quoted)
        text.text = hx_span(text.text.ptr + 1, text.text.len - 2);
    return add_key(call, &text, HX_KEY_HEADER);
}

/* Reads the key from wherever it stands. Returns NULL or what is wrong. */
const char *hx_intake_read_key(struct hx_call *call, const struct hx_mcp_call *parsed)
{
    const struct hx_tool_rules *rules = &call->tool->rules;
    bool is_agreed = add_key(call, &parsed->meta_key, HX_KEY_META) &&
                     add_key(call, &parsed->param_key, HX_KEY_PARAMS) && add_header_key(call) &&
                     add_argument_key(call, rules->key_argument, HX_KEY_ARGUMENT) &&
                     add_argument_key(call, rules->inject_key, HX_KEY_INJECTED);
    if (call->is_unread)
        return NULL;
    if (!is_agreed)
        return "A key is not a string, or two keys in one call differ, or it cannot be told which "
               "call a header is about.";
    if (call->wanted.key_source == HX_KEY_NONE)
        return NULL;
    if (rules->has_issued_keys_only && !hx_issue_is_ours(call->session, call->wanted.key))
        return "For this tool only keys are accepted that the tool hapax_begin, or the method "
               "hapax/operations/begin, handed out to you: ask it for one, once for each intended "
               "action.";
    return hx_key_flaw(call->wanted.key);
}

const char *hx_intake_read_times(struct hx_call *call, const struct hx_mcp_call *parsed)
{
    struct hx_wall stated = {0};
    if (parsed->first_sent.state == HX_MCP_TEXT_BAD ||
        (parsed->first_sent.state == HX_MCP_TEXT_GIVEN &&
         !hx_wall_parse(parsed->first_sent.text.ptr, parsed->first_sent.text.len, &stated)))
        return "dev.hapax/firstSent is not an RFC 3339 time.";
    if (parsed->retry.state == HX_MCP_TEXT_BAD ||
        (parsed->retry.state == HX_MCP_TEXT_GIVEN &&
         !hx_id_parse(parsed->retry.text, &call->retry_of)))
        return "dev.hapax/retry is not the id of an operation.";
    if (call->wanted.key_source != HX_KEY_NONE)
        call->wanted.first_sent = hx_key_time(call->wanted.key, stated).first_sent;
    return NULL;
}

/* The canonical arguments without what is no business of the tool's: ignored members and our
 * keys. */
int hx_intake_read_fingerprint(struct hx_call *call)
{
    struct hx_gateway *gateway = call->gateway;
    const struct hx_tool_rules *rules = &call->tool->rules;
    struct hx_span pointers[HX_CANON_IGNORE_MAX];
    struct hx_canon_ignore ignore = {pointers, 0};
    for (size_t i = 0; i < rules->ignore.count && ignore.count < HX_CANON_IGNORE_MAX - 2; i++)
        pointers[ignore.count++] = rules->ignore.pointers[i];
    if (!hx_span_is_absent(rules->key_argument))
        pointers[ignore.count++] = rules->key_argument;
    if (!hx_span_is_absent(rules->inject_key))
        pointers[ignore.count++] = rules->inject_key;
    return hx_fingerprint(&gateway->fingerprinter, call->arguments, &gateway->part_limits, &ignore,
                          &call->wanted.fingerprint, NULL);
}

/* Only where the operator allows it. Their beginning, as one JSON string, so that nothing in them
 * can look like another event. */
void hx_intake_tell_arguments(struct hx_call *call)
{
    enum { SHOWN_MAX = 700 };
    struct hx_gateway *gateway = call->gateway;
    struct hx_json_writer writer;
    struct hx_buf text, redacted;
    if (!gateway->options.logs_arguments || hx_span_is_absent(call->arguments))
        return;
    hx_buf_init(&redacted, SIZE_MAX / 2);
    struct hx_span shown = hx_redact_shown(gateway->options.redact, call->arguments, &redacted);
    if (shown.len > SHOWN_MAX) {
        shown.len = SHOWN_MAX;
        while (shown.len > 0 && ((unsigned char)shown.ptr[shown.len] & 0xc0) == 0x80)
            shown.len--; /* not in the middle of a character */
    }
    hx_buf_init(&text, (size_t)8 * SHOWN_MAX);
    hx_json_writer_init(&writer, &text);
    hx_json_put_string(&writer, shown);
    hx_tell(gateway, HX_TELL_INFO, "arguments", "tool=%s len=%zu arguments=%.*s", call->tool->name,
            call->arguments.len, HX_SPAN_FMT(hx_buf_span(&text)));
    hx_buf_fini(&text);
    hx_buf_fini(&redacted);
}

void hx_intake_fill_wanted(struct hx_call *call)
{
    struct hx_gateway *gateway = call->gateway;
    const struct hx_session_options *session = &call->session->options;
    const struct hx_server_options *server = &session->server->options;
    struct hx_record *wanted = &call->wanted;
    wanted->tenant = session->tenant;
    wanted->principal = session->principal;
    wanted->server = server->name;
    wanted->tool = hx_span_cstr(call->tool->name);
    wanted->created = wanted->updated = gateway->now;
    wanted->contract = call->tool->rules.contract;
    wanted->contract.tool_class = hx_tool_class_of(call->session->link, call->tool);
    wanted->contract.target = server->target;
    wanted->holder = gateway->ports.store->ops->owner(gateway->ports.store);
    call->needs_approval = hx_needs_approval(gateway, call->tool, call->arguments);
    /* Whoever approves must see what, and that is what runs. */
    if (call->tool->rules.has_stored_arguments || call->needs_approval)
        wanted->arguments = call->arguments;
    hx_mint_id(gateway, &wanted->id);
    hx_mint_id(gateway, &wanted->effect_key);
    if (wanted->key_source == HX_KEY_NONE) {
        hx_id_format(&wanted->id, call->own_key);
        wanted->key = hx_span_cstr(call->own_key);
    }
    wanted->identity = hx_record_identity(gateway->hasher, wanted, server->is_key_principal_scoped);
    wanted->twin = hx_record_twin(gateway->hasher, wanted);
}

bool hx_intake_is_key_acceptable(struct hx_call *call)
{
    struct hx_gateway *gateway = call->gateway;
    struct hx_key_time time = hx_key_time(call->wanted.key, call->wanted.first_sent);
    struct hx_wall low_water = gateway->ports.store->ops->low_water(gateway->ports.store);
    char now[HX_TIME_TEXT_SIZE], text[96];
    struct hx_gap gap = gateway->ports.store->ops->gap(gateway->ports.store);
    enum hx_key_age age = hx_key_age(time, gateway->now.wall, low_water);
    if (age == HX_KEY_AGE_GOOD && hx_issue_is_over(call->session, call->wanted.key))
        age = HX_KEY_AGE_EXPIRED;
    switch (age) {
    case HX_KEY_AGE_GOOD:
        call->is_from_gap = hx_gap_covers_key(&gap, time);
        return true;
    case HX_KEY_AGE_EXPIRED:
        hx_call_refuse(call, HX_ANSWER_KEY_EXPIRED, NULL);
        return false;
    case HX_KEY_AGE_FUTURE:
        hx_wall_format(gateway->now.wall, now);
        snprintf(text, sizeof(text), "The key's time lies ahead of ours, which is %s.", now);
        hx_call_refuse(call, HX_ANSWER_KEY_INVALID, text);
        return false;
    }
    return false;
}
