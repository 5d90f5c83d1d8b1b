/* SPDX-License-Identifier: MIT */
/* Answers on their way through: what we withhold, add and say in them. */
#include "base/fault.h"
#include "wire/mcp.h"
#include "wire/rewrite_edit.h"
#include "json/text.h"
#include "json/writer.h"

static const struct hx_span result_name = HX_SPAN_INIT("result");

/* As a JSON string in the arena; absent when that is exhausted, which changes nothing. */
static struct hx_span quoted(struct hx_rewrite *rewrite, struct hx_span text)
{
    struct hx_buf json;
    hx_buf_init(&json, 6 * text.len + 2);
    hx_json_text_quote(&json, text); /* the buffer remembers a failure */
    struct hx_span copy =
        hx_buf_ok(&json) ? hx_arena_dup(&rewrite->arena, hx_buf_span(&json)) : HX_SPAN_NONE;
    hx_buf_fini(&json);
    return copy;
}

int hx_rewrite_initialize_result(struct hx_rewrite *rewrite, struct hx_span message,
                                 const struct hx_rewrite_initialize *change, struct hx_buf *out)
{
    static const struct hx_span revision[] = {HX_SPAN_INIT("result"),
                                              HX_SPAN_INIT("protocolVersion")};
    static const struct hx_span task_calls[] = {HX_SPAN_INIT("capabilities"), HX_SPAN_INIT("tasks"),
                                                HX_SPAN_INIT("requests"), HX_SPAN_INIT("tools")};
    static const struct hx_span extension[] = {HX_SPAN_INIT("result"), HX_SPAN_INIT("capabilities"),
                                               HX_SPAN_INIT("extensions"),
                                               HX_SPAN_INIT(HX_MCP_EXTENSION)};
    struct hx_splice splice;
    int rc = hx_rewrite_begin(rewrite, message, 0, &splice);
    if (rc != 0)
        return rc;
    uint32_t result = hx_json_member_of(&rewrite->tape, 0, result_name, HX_JSON_OBJECT);
    uint32_t capabilities = hx_json_member(&rewrite->tape, result, task_calls[0]);
    if (result == HX_JSON_NONE)
        return HX_REWRITE_BAD_TEXT;
    rc = hx_rewrite_set_id(&splice, change->id);
    if (rc == 0)
        rc = hx_splice_unset(&splice, capabilities, task_calls + 1, 3, true);
    if (rc == 0)
        rc = hx_rewrite_set(&splice, extension, 4, change->operations_extension);
    if (rc == 0 && !hx_span_is_absent(change->revision))
        rc = hx_rewrite_set(&splice, revision, 2, quoted(rewrite, change->revision));
    return hx_rewrite_end(rewrite, &splice, rc, out);
}

/* What a model reads about the key. It must be told that the key belongs to the intent, not to the
 * attempt, or it will make up a new one for each retry. */
static const char key_property[] =
    "{\"type\":\"string\",\"minLength\":1,\"maxLength\":255,\"description\":\"Optional. Identifies "
    "this one intended action, so that repeating the call cannot perform it twice. Choose a new "
    "random value such as a UUID for each new action. If a call with this value failed, timed out "
    "or was not answered, repeat it with exactly the same value and the same arguments.\"}";

static int add_key_property(struct hx_splice *splice, uint32_t tool, struct hx_span property)
{
    const struct hx_json_tape *tape = splice->tape;
    const struct hx_span json = HX_SPAN_LIT(key_property);
    const struct hx_span properties_name = HX_SPAN_LIT("properties");
    uint32_t schema = hx_json_member_of(tape, tool, HX_SPAN_LIT("inputSchema"), HX_JSON_OBJECT);
    uint32_t properties = hx_json_member(tape, schema, properties_name);
    if (schema == HX_JSON_NONE)
        return 0;
    if (hx_json_is(tape, properties, HX_JSON_OBJECT)) {
        bool is_taken = hx_json_member(tape, properties, property) != HX_JSON_NONE;
        return is_taken ? 0 : hx_splice_add(splice, properties, property, json);
    }
    if (properties != HX_JSON_NONE)
        return 0; /* not a schema that we understand */
    struct hx_buf object;
    hx_buf_init(&object, sizeof(key_property) + 6 * property.len + 16);
    (void)hx_buf_append_char(&object, '{'); /* the buffer remembers a failure */
    hx_json_text_quote(&object, property);
    (void)hx_buf_append_char(&object, ':');
    (void)hx_buf_append_span(&object, json);
    (void)hx_buf_append_char(&object, '}');
    struct hx_span copy =
        hx_buf_ok(&object) ? hx_arena_dup(splice->arena, hx_buf_span(&object)) : HX_SPAN_NONE;
    hx_buf_fini(&object);
    if (hx_span_is_absent(copy))
        return HX_RAISE(HX_E_NOMEM, "schema of a tool");
    return hx_splice_add(splice, schema, properties_name, copy);
}

static bool is_listed(const struct hx_json_tape *tape, uint32_t tools, struct hx_span name)
{
    for (uint32_t tool = hx_json_first(tape, tools); tool != HX_JSON_NONE;
         tool = hx_json_next(tape, tools, tool)) {
        uint32_t listed = hx_json_member(tape, tool, HX_SPAN_LIT("name"));
        if (listed != HX_JSON_NONE && hx_json_is_text(tape, listed, name))
            return true;
    }
    return false;
}

static int add_own(struct hx_splice *splice, uint32_t result, uint32_t tools,
                   const struct hx_rewrite_tools *change)
{
    const struct hx_json_tape *tape = splice->tape;
    uint32_t next = hx_json_member_of(tape, result, HX_SPAN_LIT("nextCursor"), HX_JSON_STRING);
    int rc = 0;
    if (tools == HX_JSON_NONE || next != HX_JSON_NONE)
        return 0;
    for (size_t i = 0; rc == 0 && i < change->own_count; i++)
        if (!is_listed(tape, tools, change->own[i].name))
            rc = hx_splice_append(splice, tools, change->own[i].json);
    return rc;
}

int hx_rewrite_tools_result(struct hx_rewrite *rewrite, struct hx_span message,
                            const struct hx_rewrite_tools *change, struct hx_buf *out)
{
    struct hx_splice splice;
    int rc = hx_rewrite_begin(rewrite, message, 0, &splice);
    if (rc != 0)
        return rc;
    const struct hx_json_tape *tape = &rewrite->tape;
    uint32_t result = hx_json_member(tape, 0, result_name);
    uint32_t tools = hx_json_member_of(tape, result, HX_SPAN_LIT("tools"), HX_JSON_ARRAY);
    rc = hx_rewrite_set_id(&splice, change->id);
    for (uint32_t tool = hx_json_first(tape, tools); rc == 0 && tool != HX_JSON_NONE;
         tool = hx_json_next(tape, tools, tool)) {
        struct hx_mcp_text name;
        struct hx_span property;
        rc = hx_mcp_text_at(tape, hx_json_member(tape, tool, HX_SPAN_LIT("name")), &rewrite->arena,
                            &name);
        if (rc == 0 && name.state == HX_MCP_TEXT_GIVEN &&
            change->wants_key(change->context, name.text, &property))
            rc = add_key_property(&splice, tool, property);
    }
    if (rc == 0)
        rc = add_own(&splice, result, tools, change);
    return hx_rewrite_end(rewrite, &splice, rc, out);
}

/* The text block of a note, raw, in the arena. */
static int note_block(struct hx_rewrite *rewrite, struct hx_span note, struct hx_span *ret_json)
{
    struct hx_buf block;
    struct hx_json_writer writer;
    hx_buf_init(&block, 6 * note.len + 256);
    hx_json_writer_init(&writer, &block);
    hx_json_open_object(&writer);
    hx_json_put_name(&writer, "type");
    hx_json_put_cstr(&writer, "text");
    hx_json_put_name(&writer, "text");
    hx_json_put_string(&writer, note);
    hx_json_close_object(&writer);
    *ret_json =
        hx_buf_ok(&block) ? hx_arena_dup(&rewrite->arena, hx_buf_span(&block)) : HX_SPAN_NONE;
    hx_buf_fini(&block);
    if (hx_span_is_absent(*ret_json))
        return HX_RAISE(HX_E_NOMEM, "note of %zu bytes", note.len);
    return 0;
}

/* Our member in `_meta`, in place of one of that name that came from an inner gateway. */
static int set_operation(struct hx_splice *splice, uint32_t result, struct hx_span operation)
{
    static const struct hx_span path[] = {HX_SPAN_INIT("_meta"),
                                          HX_SPAN_INIT(HX_MCP_META_OPERATION)};
    int rc = hx_splice_unset(splice, result, path, 2, false);
    if (rc < 0)
        return HX_TRACE(rc);
    return hx_splice_set(splice, result, path, 2, operation);
}

static int add_note(struct hx_rewrite *rewrite, struct hx_splice *splice, uint32_t result,
                    struct hx_span note)
{
    const struct hx_span content_name = HX_SPAN_LIT("content");
    struct hx_span block;
    uint32_t content = hx_json_member(splice->tape, result, content_name);
    int rc = note_block(rewrite, note, &block);
    if (rc < 0)
        return HX_TRACE(rc);
    if (hx_json_is(splice->tape, content, HX_JSON_ARRAY))
        return hx_splice_append(splice, content, block);
    /* No content, or nothing that a client could read as such: then there is no place for words,
     * and
     * `_meta` still tells. */
    return 0;
}

static int change_result(struct hx_rewrite *rewrite, struct hx_splice *splice, uint32_t result,
                         const struct hx_rewrite_result *change)
{
    int rc = 0;
    if (!hx_json_is(&rewrite->tape, result, HX_JSON_OBJECT))
        return HX_REWRITE_BAD_TEXT;
    if (!hx_span_is_absent(change->operation))
        rc = set_operation(splice, result, change->operation);
    if (rc == 0 && !hx_span_is_absent(change->note))
        rc = add_note(rewrite, splice, result, change->note);
    return rc;
}

int hx_rewrite_result_message(struct hx_rewrite *rewrite, struct hx_span message,
                              const struct hx_rewrite_result *change, struct hx_buf *out)
{
    struct hx_splice splice;
    int rc =
        hx_rewrite_begin(rewrite, message, 4, &splice); /* message, result, _meta, its members */
    if (rc != 0)
        return rc;
    rc = hx_rewrite_set_id(&splice, change->id);
    if (rc == 0)
        rc =
            change_result(rewrite, &splice, hx_json_member(&rewrite->tape, 0, result_name), change);
    return hx_rewrite_end(rewrite, &splice, rc, out);
}

/* The response around what was spliced: its only member beside the head is named `member`. */
static int build_around(struct hx_rewrite *rewrite, struct hx_splice *splice, int rc,
                        struct hx_span id, const char *member, struct hx_buf *out)
{
    size_t len = out->len;
    hx_rewrite_put_head(out, id);
    (void)hx_buf_printf(out, ",\"%s\":", member);
    rc = hx_rewrite_end(rewrite, splice, rc, out);
    if (rc == 0)
        rc = hx_buf_append_char(out, '}');
    if (rc != 0)
        hx_rewrite_take_back(out, len);
    return rc;
}

int hx_rewrite_result_build(struct hx_rewrite *rewrite, struct hx_span result,
                            const struct hx_rewrite_result *change, struct hx_buf *out)
{
    struct hx_splice splice;
    int rc = hx_rewrite_begin(rewrite, result, 3, &splice);
    if (rc != 0)
        return rc;
    rc = change_result(rewrite, &splice, 0, change);
    return build_around(rewrite, &splice, rc, change->id, "result", out);
}

int hx_rewrite_tool_error_build(struct hx_rewrite *rewrite, struct hx_span error, struct hx_span id,
                                struct hx_buf *out)
{
    static const struct hx_span envelope[] = {HX_SPAN_INIT("data"),
                                              HX_SPAN_INIT(HX_MCP_META_OPERATION)};
    struct hx_splice splice;
    int rc = hx_rewrite_begin(rewrite, error, 3, &splice);
    if (rc != 0)
        return rc;
    rc = hx_splice_unset(&splice, 0, envelope, 2, false);
    return build_around(rewrite, &splice, rc, id, "error", out);
}
