/* SPDX-License-Identifier: MIT */
/*
 * The operator's rule for a probe: the call that it makes of an operation, and what the answer to
 * that is held against. Where something of the operation has no value, or nothing can be compared,
 * the rule cannot say; it never guesses.
 */
#include "engine/internal.h"

#include <stdio.h>

#include "json/pointer.h"
#include "json/template.h"

struct places {
    const struct hx_record *record;
    struct hx_json_tape *tape; /* the call's arguments */
    struct hx_arena *arena;
    bool has_arguments;
    char text[HX_ID_TEXT_SIZE + 2];
    struct hx_buf key; /* as JSON */
};

static struct hx_span quoted_id(struct places *places, const struct hx_id *id)
{
    char text[HX_ID_TEXT_SIZE];
    hx_id_format(id, text);
    int len = snprintf(places->text, sizeof(places->text), "\"%s\"", text);
    return hx_span(places->text, (size_t)len);
}

static struct hx_span place_value(void *context, struct hx_span name)
{
    struct places *places = context;
    if (hx_span_eq_cstr(name, "effect_key"))
        return quoted_id(places, &places->record->effect_key);
    if (hx_span_eq_cstr(name, "operation"))
        return quoted_id(places, &places->record->id);
    if (hx_span_eq_cstr(name, "key"))
        return places->key.len > 0 ? hx_buf_span(&places->key) : HX_SPAN_NONE;
    bool is_pointer = name.len == 0 || name.ptr[0] == '/';
    if (!is_pointer || !places->has_arguments)
        return HX_SPAN_NONE;
    return hx_json_raw(places->tape, hx_json_pointer_find(places->tape, 0, name));
}

/* The same in plain characters: a result's text is read, and its escapes are not those of the
 * arguments. */
static struct hx_span place_text(void *context, struct hx_span name)
{
    struct places *places = context;
    struct hx_span plain = place_value(context, name);
    if (hx_span_is_absent(plain))
        return plain;
    if (hx_span_eq_cstr(name, "key"))
        return places->record->key;
    if (hx_span_eq_cstr(name, "effect_key") || hx_span_eq_cstr(name, "operation"))
        return hx_span(plain.ptr + 1, plain.len - 2);
    uint32_t at = hx_json_pointer_find(places->tape, 0, name);
    if (hx_json_is(places->tape, at, HX_JSON_OBJECT) || hx_json_is(places->tape, at, HX_JSON_ARRAY))
        return HX_SPAN_NONE; /* how a text would show it, nobody knows */
    if (hx_json_is(places->tape, at, HX_JSON_STRING) &&
        hx_json_string(places->tape, at, places->arena, &plain) != 0)
        return HX_SPAN_NONE;
    return plain;
}

static void places_init(struct places *places, struct hx_work *work)
{
    struct hx_gateway *gateway = work->gateway;
    const struct hx_record *record = &work->op.durable;
    struct hx_json_writer writer;
    *places =
        (struct places){.record = record, .tape = &gateway->scratch, .arena = &gateway->arena};
    places->has_arguments =
        !hx_span_is_absent(record->arguments) &&
        hx_json_read(&gateway->scratch, record->arguments, &gateway->part_limits) == 0;
    hx_buf_init(&places->key, 8 * 1024);
    hx_json_writer_init(&writer, &places->key);
    if (record->key_source != HX_KEY_NONE) /* else it is one of ours, which nobody has seen */
        hx_json_put_string(&writer, record->key);
}

bool hx_probe_rule_write(struct hx_work *work, const char *id, struct hx_buf *line)
{
    const struct hx_probe *probe = &work->tool->rules.probe;
    struct hx_json_writer writer;
    struct places places;
    hx_json_writer_init(&writer, line);
    (void)hx_buf_printf(line,
                        "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"tools/call\",\"params\":{"
                        "\"name\":",
                        id);
    hx_json_put_string(&writer, probe->tool);
    (void)hx_buf_append_cstr(line, ",\"arguments\":");
    places_init(&places, work);
    size_t begin = line->len;
    bool is_filled = hx_json_template_fill(line, probe->arguments,
                                           &(struct hx_json_places){place_value, &places});
    hx_buf_fini(&places.key);
    /* A place outside of quotes may have made something else of it. */
    struct hx_gateway *gateway = work->gateway;
    is_filled = is_filled && hx_buf_ok(line) &&
                hx_json_read(&gateway->scratch, hx_span(line->data + begin, line->len - begin),
                             &gateway->part_limits) == 0 &&
                hx_json_is(&gateway->scratch, 0, HX_JSON_OBJECT);
    (void)hx_buf_append_cstr(line, "}}");
    return is_filled && hx_buf_ok(line);
}

/* ---- the answer ---- */

static enum hx_holds judge_text(struct hx_gateway *gateway, struct hx_json_tape *tape,
                                struct hx_span wanted)
{
    enum hx_holds holds = HX_HOLDS_NO;
    uint32_t content = hx_json_member_of(tape, 0, HX_SPAN_LIT("content"), HX_JSON_ARRAY);
    if (content == HX_JSON_NONE || wanted.len == 0)
        return HX_HOLDS_CANNOT_SAY; /* nothing stands in every text */
    hx_json_for_each(block, tape, content)
    {
        uint32_t text = hx_json_member_of(tape, block, HX_SPAN_LIT("text"), HX_JSON_STRING);
        struct hx_span plain;
        if (text == HX_JSON_NONE)
            continue;
        if (hx_json_string(tape, text, &gateway->arena, &plain) != 0)
            holds = HX_HOLDS_CANNOT_SAY;
        else if (hx_span_contains(plain, wanted))
            return HX_HOLDS_YES;
    }
    return holds;
}

static uint32_t count_elements(const struct hx_json_tape *tape, uint32_t at)
{
    uint32_t count = 0;
    hx_json_for_each(child, tape, at) count++;
    return count;
}

static enum hx_holds judge_count(struct hx_gateway *gateway, uint32_t count,
                                 enum hx_comparison comparison, struct hx_span value)
{
    struct hx_json_tape number;
    char text[16];
    snprintf(text, sizeof(text), "%u", count);
    hx_json_tape_init(&number);
    enum hx_holds holds = hx_json_read(&number, hx_span_cstr(text), &gateway->part_limits) == 0
                              ? hx_json_holds(&number, 0, comparison, value)
                              : HX_HOLDS_CANNOT_SAY;
    hx_json_tape_fini(&number);
    return holds;
}

/* What the answer is held against. */
static bool write_value(struct hx_work *work, struct hx_buf *out)
{
    const struct hx_probe *probe = &work->tool->rules.probe;
    struct places places;
    places_init(&places, work);
    const struct hx_json_places json = {place_value, &places};
    const struct hx_json_places text = {place_text, &places};
    bool is_filled = probe->match == HX_PROBE_TEXT
                         ? hx_json_template_fill_text(out, probe->value, &text)
                         : hx_json_template_fill_value(out, probe->value, &json);
    hx_buf_fini(&places.key);
    bool is_composite = probe->match != HX_PROBE_TEXT && out->len > 0 &&
                        (out->data[0] == '{' || out->data[0] == '[');
    return is_filled && !is_composite; /* nothing is equal to an object, as texts are */
}

static enum hx_holds judge(struct hx_work *work, struct hx_json_tape *tape, struct hx_span value)
{
    const struct hx_probe *probe = &work->tool->rules.probe;
    if (probe->match == HX_PROBE_TEXT)
        return judge_text(work->gateway, tape, value);
    uint32_t at = hx_json_pointer_find(tape, 0, probe->pointer);
    if (probe->match == HX_PROBE_COUNT)
        return hx_json_is(tape, at, HX_JSON_ARRAY)
                   ? judge_count(work->gateway, count_elements(tape, at), probe->comparison, value)
                   : HX_HOLDS_CANNOT_SAY;
    /* A result without the value is one that nobody foresaw: neither a find nor a negative. */
    return at != HX_JSON_NONE ? hx_json_holds(tape, at, probe->comparison, value)
                              : HX_HOLDS_CANNOT_SAY;
}

enum hx_holds hx_probe_rule_judge(struct hx_work *work, const struct hx_rpc_msg *msg)
{
    struct hx_gateway *gateway = work->gateway;
    struct hx_json_tape *tape = &gateway->scratch;
    struct hx_buf value;
    hx_buf_init(&value, 64 * 1024);
    bool is_filled = write_value(work, &value); /* first: it reads the arguments on the same tape */
    bool is_answer = msg->kind == HX_RPC_RESULT &&
                     !hx_mcp_call_result_read(&gateway->tape, msg).is_error &&
                     hx_json_read(tape, msg->result, &gateway->part_limits) == 0;
    enum hx_holds holds =
        is_filled && is_answer ? judge(work, tape, hx_buf_span(&value)) : HX_HOLDS_CANNOT_SAY;
    hx_buf_fini(&value);
    return holds;
}
