/* SPDX-License-Identifier: MIT */
/*
 * The merged answer to initialize: what any server can do, and what each says of itself.
 */
#include "adapter/merge/internal.h"
#include "json/text.h"
#include "json/writer.h"

static struct hx_span shown(struct hx_span text)
{
    return hx_span(text.ptr, text.len < MERGE_REASON_MAX ? text.len : MERGE_REASON_MAX);
}

/* Reads the answer of a leg onto the scratch tape. */
static bool read_welcome(const struct leg *leg)
{
    struct merge *merge = leg->merge;

    return leg->state == LEG_READY &&
           hx_json_read(&merge->scratch, hx_buf_span(&leg->welcome), &merge->limits) == 0;
}

/* --- capabilities --- */

struct seen {
    struct seen *next;
    struct hx_span name; /* raw */
};

/* True at the first time. */
static bool see(struct merge *merge, struct seen **seen, struct hx_span name)
{
    for (const struct seen *at = *seen; at != NULL; at = at->next) {
        if (hx_span_eq(at->name, name))
            return false;
    }
    struct seen *one = hx_arena_alloc(&merge->arena, sizeof(*one));
    struct hx_span copy = hx_arena_dup(&merge->arena, name);
    if (one == NULL || hx_span_is_absent(copy))
        return false;
    *one = (struct seen){*seen, copy};
    *seen = one;
    return true;
}

/* An object in which each server may have members, such as `extensions`: of those that have one
 * name the first counts. */
static void put_united(struct merge *merge, struct hx_json_writer *writer, const char *member)
{
    struct seen *seen = NULL;

    for (size_t i = 0; i < merge->leg_count; i++) {
        struct hx_json_tape *tape = &merge->scratch;
        if (!read_welcome(&merge->legs[i]))
            continue;
        uint32_t capabilities = hx_json_member(tape, 0, HX_SPAN_LIT("capabilities"));
        uint32_t object = hx_json_member(tape, capabilities, hx_span_cstr(member));
        hx_json_for_each(name, tape, object)
        {
            bool is_first = hx_json_is(tape, object, HX_JSON_OBJECT) && seen == NULL;
            if (!hx_json_is(tape, object, HX_JSON_OBJECT) ||
                !see(merge, &seen, hx_json_raw(tape, name)))
                continue;
            if (is_first) {
                hx_json_put_name(writer, member);
                hx_json_open_object(writer);
            } else {
                (void)hx_buf_append_char(writer->buf, ',');
            }
            (void)hx_buf_append_span(writer->buf, hx_json_raw(tape, name));
            (void)hx_buf_append_char(writer->buf, ':');
            (void)hx_buf_append_span(writer->buf, hx_json_raw(tape, name + 1));
        }
    }
    if (seen != NULL)
        hx_json_close_object(writer);
}

struct united {
    bool has_list[LIST_KINDS];
    bool has_subscribe;
    bool has_completions;
    bool has_logging;
};

/* Of a server that is not there yet nothing is known, so that its lists are announced. */
static struct united unite(const struct merge *merge)
{
    struct united united = {0};

    for (size_t i = 0; i < merge->leg_count; i++) {
        const struct leg *leg = &merge->legs[i];
        bool may_come = leg->state == LEG_MISSING || leg->state == LEG_GREETED;
        if (leg->state != LEG_READY && !may_come)
            continue;
        for (int kind = 0; kind < LIST_KINDS; kind++)
            united.has_list[kind] |= leg->has_list[kind];
        united.has_subscribe |= leg->has_subscribe;
        united.has_completions |= leg->has_completions && !may_come;
        united.has_logging |= leg->has_logging && !may_come;
    }
    return united;
}

/* Lists change also when a server comes back, whether or not it says so of its own. */
static void put_list_capability(struct hx_json_writer *writer, const char *name, bool can_subscribe)
{
    hx_json_put_name(writer, name);
    hx_json_open_object(writer);
    if (can_subscribe) {
        hx_json_put_name(writer, "subscribe");
        hx_json_put_bool(writer, true);
    }
    hx_json_put_name(writer, "listChanged");
    hx_json_put_bool(writer, true);
    hx_json_close_object(writer);
}

static void put_empty(struct hx_json_writer *writer, const char *name)
{
    hx_json_put_name(writer, name);
    hx_json_open_object(writer);
    hx_json_close_object(writer);
}

static void put_capabilities(struct merge *merge, struct hx_json_writer *writer)
{
    struct united united = unite(merge);

    memcpy(merge->told, united.has_list, sizeof merge->told);
    hx_json_open_object(writer);
    if (united.has_list[LIST_TOOLS])
        put_list_capability(writer, "tools", false);
    if (united.has_list[LIST_PROMPTS])
        put_list_capability(writer, "prompts", false);
    if (united.has_list[LIST_RESOURCES])
        put_list_capability(writer, "resources", united.has_subscribe);
    if (united.has_completions)
        put_empty(writer, "completions");
    if (united.has_logging)
        put_empty(writer, "logging");
    put_united(merge, writer, "experimental");
    put_united(merge, writer, "extensions");
    hx_json_close_object(writer);
}

/* --- words --- */

static void add_paragraph(struct hx_buf *text)
{
    if (text->len > 0)
        (void)hx_buf_append_cstr(text, "\n\n"); /* the buffer remembers a failure */
}

static void add_instructions(struct leg *leg, struct hx_buf *text)
{
    struct merge *merge = leg->merge;
    struct hx_mcp_text own = {0};

    add_paragraph(text);
    (void)hx_buf_printf(text, "# Server \"%.*s\"", HX_SPAN_FMT(leg->name));
    if (leg->state != LEG_READY) {
        (void)hx_buf_append_cstr(text, "\nIt is not available now");
        if (leg->welcome.len > 0)
            (void)hx_buf_printf(text, ": %.*s", HX_SPAN_FMT(shown(hx_buf_span(&leg->welcome))));
        return;
    }
    if (leg->prefix.len > 0 && (leg->has_list[LIST_TOOLS] || leg->has_list[LIST_PROMPTS]))
        (void)hx_buf_printf(text, "\nNames of its tools and prompts begin with \"%.*s\".",
                            HX_SPAN_FMT(leg->prefix));
    if (!read_welcome(leg) ||
        hx_mcp_text_at(&merge->scratch,
                       hx_json_member(&merge->scratch, 0, HX_SPAN_LIT("instructions")),
                       &merge->arena, &own) < 0 ||
        own.state != HX_MCP_TEXT_GIVEN || own.text.len == 0)
        return;
    (void)hx_buf_append_char(text, '\n');
    (void)hx_buf_append_span(text, own.text);
}

static void put_server_info(const struct merge *merge, struct hx_json_writer *writer)
{
    struct hx_buf title;

    hx_buf_init(&title, MERGE_REASON_MAX);
    (void)hx_buf_append_cstr(&title, "Hapax:");
    for (size_t i = 0; i < merge->leg_count; i++)
        (void)hx_buf_printf(&title, "%s %.*s", i > 0 ? "," : "",
                            HX_SPAN_FMT(merge->legs[i].name)); /* as many as fit */
    hx_json_open_object(writer);
    hx_json_put_name(writer, "name");
    hx_json_put_cstr(writer, "hapax");
    hx_json_put_name(writer, "title");
    hx_json_put_string(writer, hx_buf_span(&title));
    hx_json_put_name(writer, "version");
    hx_json_put_string(writer, merge->options.version);
    hx_json_close_object(writer);
    hx_buf_fini(&title);
}

void welcome_write(struct merge *merge, struct hx_buf *out)
{
    struct hx_json_writer writer;
    struct hx_buf text;

    hx_buf_init(&text, merge->options.message_max_bytes);
    for (size_t i = 0; i < merge->leg_count; i++)
        add_instructions(&merge->legs[i], &text);
    hx_json_writer_init(&writer, out);
    hx_json_open_object(&writer);
    hx_json_put_name(&writer, "protocolVersion");
    hx_json_put_cstr(&writer, merge->agreed);
    hx_json_put_name(&writer, "capabilities");
    put_capabilities(merge, &writer);
    hx_json_put_name(&writer, "serverInfo");
    put_server_info(merge, &writer);
    hx_json_put_name(&writer, "instructions");
    hx_json_put_string(&writer, hx_buf_span(&text));
    hx_json_close_object(&writer);
    hx_buf_fini(&text);
}

void welcome_write_missing(const struct merge *merge, struct hx_buf *out)
{
    (void)hx_buf_append_cstr(out, "None of the servers is available.");
    for (size_t i = 0; i < merge->leg_count; i++) {
        const struct leg *leg = &merge->legs[i];
        (void)hx_buf_printf(out, " \"%.*s\": %.*s", HX_SPAN_FMT(leg->name),
                            HX_SPAN_FMT(shown(hx_buf_span(&leg->welcome))));
    }
}
