/* SPDX-License-Identifier: MIT */
/* Requests and notifications on their way through: ids, tokens and keys. */
#include "base/fault.h"
#include "wire/mcp.h"
#include "wire/rewrite_edit.h"
#include "json/pointer.h"
#include "json/text.h"

static const struct hx_span params_name = HX_SPAN_INIT("params");
static const struct hx_span meta_name = HX_SPAN_INIT("_meta");

int hx_rewrite_id(const struct hx_rpc_msg *msg, struct hx_span new_id, struct hx_buf *out)
{
    hx_assert(!hx_span_is_absent(msg->id.raw));
    size_t before = (size_t)(msg->id.raw.ptr - msg->raw.ptr);
    size_t after = before + msg->id.raw.len;
    size_t len = out->len;
    (void)hx_buf_append(out, msg->raw.ptr, before); /* the buffer remembers a failure */
    (void)hx_buf_append_span(out, new_id);
    int rc = hx_buf_append(out, msg->raw.ptr + after, msg->raw.len - after);
    if (rc < 0)
        hx_rewrite_take_back(out, len);
    return HX_TRACE(rc);
}

/* Plain text as a raw JSON string, in the arena. */
static int quote(struct hx_rewrite *rewrite, struct hx_span text, struct hx_span *ret_json)
{
    struct hx_buf quoted;
    hx_buf_init(&quoted, 6 * text.len + 256);
    hx_json_text_quote(&quoted, text);
    *ret_json =
        hx_buf_ok(&quoted) ? hx_arena_dup(&rewrite->arena, hx_buf_span(&quoted)) : HX_SPAN_NONE;
    hx_buf_fini(&quoted);
    if (hx_span_is_absent(*ret_json))
        return HX_RAISE(HX_E_NOMEM, "text of %zu bytes", text.len);
    return 0;
}

static int drop_hapax_meta(struct hx_splice *splice, uint32_t meta)
{
    const struct hx_json_tape *tape = splice->tape;
    if (!hx_json_is(tape, meta, HX_JSON_OBJECT))
        return 0; /* it has no members */
    hx_json_for_each(name, tape, meta)
    {
        struct hx_json_chars chars = hx_json_chars(hx_json_content(tape, name));
        const char *prefix = HX_MCP_META_PREFIX;
        while (*prefix != '\0' && hx_json_chars_next(&chars) == *prefix)
            prefix++;
        if (*prefix != '\0')
            continue;
        int rc = hx_splice_remove(splice, meta, name + 1);
        if (rc < 0)
            return HX_TRACE(rc);
    }
    return 0;
}

/* The object that holds the last step of `pointer` below `root`, and that step. */
static uint32_t pointer_parent(const struct hx_json_tape *tape, uint32_t root,
                               struct hx_span pointer, struct hx_span *ret_raw_name)
{
    size_t last = pointer.len;
    while (last > 0 && pointer.ptr[last - 1] != '/')
        last--;
    if (last == 0)
        return HX_JSON_NONE;
    *ret_raw_name = hx_span(pointer.ptr + last, pointer.len - last);
    return hx_json_pointer_find(tape, root, hx_span(pointer.ptr, last - 1));
}

/* A raw reference token as plain text. */
static int pointer_name(struct hx_rewrite *rewrite, struct hx_span raw, struct hx_span *ret_name)
{
    char *name = hx_arena_alloc(&rewrite->arena, raw.len + 1);
    if (name == NULL)
        return HX_RAISE(HX_E_NOMEM, "name of %zu bytes", raw.len);
    size_t len = 0;
    for (size_t i = 0; i < raw.len; i++) {
        bool is_escape = raw.ptr[i] == '~' && i + 1 < raw.len;
        if (is_escape)
            i++;
        name[len++] = is_escape ? (raw.ptr[i] == '1' ? '/' : '~') : raw.ptr[i];
    }
    *ret_name = hx_span(name, len);
    return 0;
}

static int drop_argument(struct hx_splice *splice, struct hx_span pointer)
{
    const struct hx_json_tape *tape = splice->tape;
    uint32_t params = hx_json_member(tape, 0, params_name);
    uint32_t arguments = hx_json_member(tape, params, HX_SPAN_LIT("arguments"));
    struct hx_span raw = HX_SPAN_NONE;
    uint32_t parent = pointer_parent(tape, arguments, pointer, &raw);
    if (!hx_json_is(tape, parent, HX_JSON_OBJECT))
        return 0; /* nothing there to remove */
    hx_json_for_each(name, tape, parent)
    {
        if (!hx_json_pointer_token_eq(raw, hx_json_content(tape, name)))
            continue;
        int rc = hx_splice_remove(splice, parent, name + 1);
        if (rc < 0)
            return HX_TRACE(rc);
    }
    return 0;
}

static int set_argument(struct hx_rewrite *rewrite, struct hx_splice *splice,
                        struct hx_span pointer, struct hx_span json)
{
    const struct hx_json_tape *tape = splice->tape;
    uint32_t params = hx_json_member(tape, 0, params_name);
    uint32_t arguments = hx_json_member(tape, params, HX_SPAN_LIT("arguments"));
    struct hx_span raw = HX_SPAN_NONE;
    struct hx_span name;
    uint32_t parent = pointer_parent(tape, arguments, pointer, &raw);
    bool is_top = !hx_span_is_absent(raw) && pointer.len == raw.len + 1;
    if (parent == HX_JSON_NONE && !(arguments == HX_JSON_NONE && is_top))
        return HX_SPLICE_NOT_OBJECT;
    int rc = pointer_name(rewrite, raw, &name);
    if (rc < 0)
        return HX_TRACE(rc);
    if (parent != HX_JSON_NONE)
        return hx_splice_set(splice, parent, &name, 1, json);
    const struct hx_span path[] = {params_name, HX_SPAN_LIT("arguments"), name};
    return hx_splice_set(splice, 0, path, 3, json);
}

static int set_effect_key(struct hx_rewrite *rewrite, struct hx_splice *splice,
                          const struct hx_rewrite_call *change)
{
    struct hx_span key;
    int rc = quote(rewrite, change->effect_key, &key);
    if (rc == 0 && change->effect_key_argument.len > 0)
        rc = set_argument(rewrite, splice, change->effect_key_argument, key);
    if (rc == 0 && change->effect_key_meta.len > 0)
        rc = hx_rewrite_set(
            splice, (const struct hx_span[]){params_name, meta_name, change->effect_key_meta}, 3,
            key);
    if (rc == 0 && change->effect_key_param)
        rc = hx_rewrite_set(
            splice, (const struct hx_span[]){params_name, HX_SPAN_LIT("idempotencyKey")}, 2, key);
    return rc;
}

static int call_removals(struct hx_splice *splice, const struct hx_rewrite_call *change)
{
    const struct hx_json_tape *tape = splice->tape;
    uint32_t params = hx_json_member(tape, 0, params_name);
    uint32_t meta = hx_json_member(tape, params, meta_name);
    int rc = 0;
    if (change->drop_hapax_meta)
        rc = drop_hapax_meta(splice, meta);
    if (rc == 0 && change->drop_progress_token)
        rc = hx_splice_unset(
            splice, 0,
            (const struct hx_span[]){params_name, meta_name, HX_SPAN_LIT("progressToken")}, 3,
            false);
    if (rc == 0 && change->drop_param_key)
        rc = hx_splice_unset(splice, 0,
                             (const struct hx_span[]){params_name, HX_SPAN_LIT("idempotencyKey")},
                             2, false);
    if (rc == 0 && change->drop_task && hx_span_is_absent(change->task))
        rc = hx_splice_unset(splice, 0, (const struct hx_span[]){params_name, HX_SPAN_LIT("task")},
                             2, false);
    if (rc == 0 && change->drop_argument.len > 0)
        rc = drop_argument(splice, change->drop_argument);
    return rc;
}

int hx_rewrite_call(struct hx_rewrite *rewrite, struct hx_span message,
                    const struct hx_rewrite_call *change, struct hx_buf *out)
{
    struct hx_splice splice;
    bool is_deep = change->drop_argument.len > 0 || change->effect_key_argument.len > 0;
    int rc = hx_rewrite_begin(rewrite, message, is_deep ? 0 : HX_RPC_RECORD_DEPTH, &splice);
    if (rc != 0)
        return rc;
    rc = call_removals(&splice, change);
    if (rc == 0)
        rc = hx_rewrite_set_id(&splice, change->id);
    if (rc == 0)
        rc = hx_rewrite_set(
            &splice, (const struct hx_span[]){params_name, meta_name, HX_SPAN_LIT("progressToken")},
            3, change->progress_token);
    if (rc == 0)
        rc = hx_rewrite_set(&splice, (const struct hx_span[]){params_name, HX_SPAN_LIT("task")}, 2,
                            change->task);
    if (rc == 0 && !hx_span_is_absent(change->effect_key))
        rc = set_effect_key(rewrite, &splice, change);
    return hx_rewrite_end(rewrite, &splice, rc, out);
}

/* Replaces params.`name`, which must be there, and once: of two, readers may take the other. */
static int replace_param(struct hx_rewrite *rewrite, struct hx_span message, struct hx_span name,
                         struct hx_span json, struct hx_buf *out)
{
    struct hx_splice splice;
    int rc = hx_rewrite_begin(rewrite, message, HX_RPC_RECORD_DEPTH, &splice);
    if (rc != 0)
        return rc;
    uint32_t params = hx_json_member(&rewrite->tape, 0, params_name);
    uint32_t value = hx_json_member(&rewrite->tape, params, name);
    bool is_one = value != HX_JSON_NONE &&
                  (hx_json_at(&rewrite->tape, params)->flags & HX_JSON_HAS_DUPLICATES) == 0;
    rc = is_one ? hx_splice_replace(&splice, value, json) : HX_REWRITE_BAD_TEXT;
    return hx_rewrite_end(rewrite, &splice, rc, out);
}

int hx_rewrite_progress(struct hx_rewrite *rewrite, struct hx_span message, struct hx_span token,
                        struct hx_buf *out)
{
    return replace_param(rewrite, message, HX_SPAN_LIT("progressToken"), token, out);
}

int hx_rewrite_cancelled(struct hx_rewrite *rewrite, struct hx_span message,
                         struct hx_span request_id, struct hx_buf *out)
{
    return replace_param(rewrite, message, HX_SPAN_LIT("requestId"), request_id, out);
}
