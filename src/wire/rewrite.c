/* SPDX-License-Identifier: MIT */
/* Frame of the rewrites, and the messages that we build whole. */
#include "wire/rewrite.h"

#include "base/fault.h"
#include "wire/rewrite_edit.h"
#include "json/text.h"
#include "json/writer.h"

/* Edits and their texts for one message; a page of tools needs the most. */
enum { ARENA_MAX = 64 << 20, TOKENS_KEPT = 65536 };

void hx_rewrite_init(struct hx_rewrite *rewrite, const struct hx_json_limits *limits)
{
    hx_json_tape_init(&rewrite->tape);
    hx_arena_init(&rewrite->arena, ARENA_MAX);
    rewrite->limits = *limits;
}

void hx_rewrite_fini(struct hx_rewrite *rewrite)
{
    if (rewrite == NULL)
        return;
    hx_json_tape_fini(&rewrite->tape);
    hx_arena_fini(&rewrite->arena);
}

int hx_rewrite_begin(struct hx_rewrite *rewrite, struct hx_span text, uint32_t record_depth_max,
                     struct hx_splice *ret_splice)
{
    _Static_assert((int)HX_REWRITE_NO_PLACE == (int)HX_SPLICE_NOT_OBJECT, "passed on as it is");
    struct hx_json_limits limits = rewrite->limits;
    limits.record_depth_max = record_depth_max;
    limits.elements_max = record_depth_max ? HX_RPC_ELEMENTS_MAX : 0;
    hx_arena_reset(&rewrite->arena);
    int rc = hx_json_read(&rewrite->tape, text, &limits);
    if (rc == HX_JSON_TOO_MANY && record_depth_max > HX_RPC_RECORD_DEPTH_LEAST) {
        limits.record_depth_max = HX_RPC_RECORD_DEPTH_LEAST;
        rc = hx_json_read(&rewrite->tape, text, &limits);
    }
    if (rc < 0)
        return HX_TRACE(rc);
    if (rc > 0 || !hx_json_is(&rewrite->tape, 0, HX_JSON_OBJECT))
        return HX_REWRITE_BAD_TEXT;
    hx_splice_init(ret_splice, &rewrite->tape, &rewrite->arena);
    return 0;
}

int hx_rewrite_end(struct hx_rewrite *rewrite, struct hx_splice *splice, int rc, struct hx_buf *out)
{
    size_t len = out->len;
    if (rc == 0)
        rc = hx_splice_emit(splice, out);
    if (rc != 0)
        hx_rewrite_take_back(out, len);
    hx_json_tape_trim(&rewrite->tape, TOKENS_KEPT);
    return rc;
}

void hx_rewrite_take_back(struct hx_buf *out, size_t len)
{
    out->len = len;
    out->is_failed = false;
}

int hx_rewrite_set(struct hx_splice *splice, const struct hx_span *path, size_t count,
                   struct hx_span json)
{
    return hx_span_is_absent(json) ? 0 : hx_splice_set(splice, 0, path, count, json);
}

int hx_rewrite_set_id(struct hx_splice *splice, struct hx_span id)
{
    return hx_rewrite_set(splice, (const struct hx_span[]){HX_SPAN_LIT("id")}, 1, id);
}

void hx_rewrite_put_head(struct hx_buf *out, struct hx_span id)
{
    (void)hx_buf_append_cstr(out, "{\"jsonrpc\":\"2.0\""); /* the buffer remembers a failure */
    if (!hx_span_is_absent(id)) {
        (void)hx_buf_append_cstr(out, ",\"id\":");
        (void)hx_buf_append_span(out, id);
    }
}

/* `len` is what `out` held before a message of ours; a message that did not fit is taken back
 * whole. */
static int finish(struct hx_buf *out, size_t len)
{
    int rc = hx_buf_append_char(out, '}');
    if (rc < 0)
        hx_rewrite_take_back(out, len);
    return HX_TRACE(rc);
}

int hx_rewrite_build_result(struct hx_buf *out, struct hx_span id, struct hx_span result)
{
    size_t len = out->len;
    hx_rewrite_put_head(out, id);
    (void)hx_buf_append_cstr(out, ",\"result\":");
    (void)hx_buf_append_span(out, result);
    return finish(out, len);
}

int hx_rewrite_build_error(struct hx_buf *out, struct hx_span id, bool may_omit_id, int64_t code,
                           struct hx_span message, struct hx_span data)
{
    size_t len = out->len;
    struct hx_json_writer writer;
    if (hx_span_is_absent(id) && !may_omit_id)
        id = HX_SPAN_LIT("null");
    hx_rewrite_put_head(out, id);
    (void)hx_buf_append_cstr(out, ",\"error\":");
    hx_json_writer_init(&writer, out);
    hx_json_open_object(&writer);
    hx_json_put_name(&writer, "code");
    hx_json_put_int(&writer, code);
    hx_json_put_name(&writer, "message");
    hx_json_put_string(&writer, message);
    if (!hx_span_is_absent(data)) {
        hx_json_put_name(&writer, "data");
        hx_json_put_raw(&writer, data);
    }
    hx_json_close_object(&writer);
    return finish(out, len);
}

int hx_rewrite_build_request(struct hx_buf *out, struct hx_span id, struct hx_span method,
                             struct hx_span params)
{
    size_t len = out->len;
    hx_rewrite_put_head(out, id);
    (void)hx_buf_append_cstr(out, ",\"method\":");
    hx_json_text_quote(out, method);
    if (!hx_span_is_absent(params)) {
        (void)hx_buf_append_cstr(out, ",\"params\":");
        (void)hx_buf_append_span(out, params);
    }
    return finish(out, len);
}
