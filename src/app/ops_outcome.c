/* SPDX-License-Identifier: MIT */
#include "app/ops_outcome.h"

#include "port/store.h"
#include "json/reader.h"
#include "json/writer.h"

static const char happened[] =
    "A person confirmed that this call happened. Its own result was lost.";

static void put_text_result(struct hx_buf *buf, struct hx_span text)
{
    struct hx_json_writer writer;
    (void)hx_buf_append_cstr(buf, "{\"content\":[{\"type\":\"text\",\"text\":");
    hx_json_writer_init(&writer, buf);
    hx_json_put_string(&writer, text);
    (void)hx_buf_append_cstr(buf, "}]}");
}

/* It is passed on in a line: a line end between the words of the JSON becomes a blank. */
static void put_on_one_line(struct hx_buf *buf, struct hx_span json)
{
    size_t begin = buf->len;
    if (hx_buf_append_span(buf, json) < 0)
        return;
    for (size_t i = begin; i < buf->len; i++)
        if (buf->data[i] == '\n' || buf->data[i] == '\r')
            buf->data[i] = ' ';
}

static const char *write_result(struct hx_span given, struct hx_arena *arena, struct hx_buf *buf,
                                bool *ret_is_error)
{
    struct hx_json_tape tape;
    struct hx_json_limits limits = HX_JSON_LIMITS_DEFAULT;
    const char *flaw = NULL;
    hx_json_tape_init(&tape);
    if (hx_json_read(&tape, given, &limits) != 0)
        flaw = "this is no JSON; a plain text needs quotes of its own: '\"receipt 77\"'";
    else if (tape.has_duplicates || tape.has_lone_surrogates)
        flaw =
            "two members of one name, or half a character, would be read differently by different "
            "clients";
    struct hx_span text;
    if (flaw == NULL &&
        hx_json_member_of(&tape, 0, HX_SPAN_LIT("content"), HX_JSON_ARRAY) != HX_JSON_NONE) {
        uint32_t error = hx_json_member(&tape, 0, HX_SPAN_LIT("isError"));
        if (error != HX_JSON_NONE && !hx_json_bool(&tape, error, ret_is_error))
            flaw = "isError must be true or false";
        put_on_one_line(buf, given);
    } else if (flaw == NULL) {
        bool is_string = hx_json_is(&tape, 0, HX_JSON_STRING);
        if (!is_string || hx_json_string(&tape, 0, arena, &text) != 0)
            text = given;
        put_text_result(buf, text);
    }
    hx_json_tape_fini(&tape);
    return flaw;
}

const char *hx_ops_outcome(struct hx_span given, struct hx_arena *arena,
                           struct hx_outcome *ret_outcome)
{
    struct hx_buf buf;
    bool is_error = false;
    const char *flaw = NULL;
    hx_buf_init(&buf, HX_STORE_INLINE_MAX);
    if (hx_span_is_absent(given))
        put_text_result(&buf, HX_SPAN_LIT(happened));
    else
        flaw = write_result(given, arena, &buf, &is_error);
    if (flaw == NULL && !hx_buf_ok(&buf))
        flaw = "it is too large; a result of up to 256 KiB can be given";
    if (flaw == NULL) {
        struct hx_hasher *hasher = hx_hasher_new();
        struct hx_span bytes = hx_arena_dup(arena, hx_buf_span(&buf));
        hx_assert(!hx_span_is_absent(bytes));
        hx_hasher_begin(hasher);
        hx_hasher_add(hasher, bytes);
        *ret_outcome = (struct hx_outcome){
            .kind = HX_OUTCOME_RESULT,
            .place = HX_OUTCOME_INLINE,
            .is_error = is_error,
            .is_reconstructed = true,
            .size = bytes.len,
            .digest = hx_hasher_end(hasher),
            .bytes = bytes,
        };
        hx_hasher_free(hasher);
    }
    hx_buf_fini(&buf);
    return flaw;
}
