/* SPDX-License-Identifier: MIT */
#include "app/check_report.h"

#include <string.h>

#include "app/table.h"
#include "json/writer.h"

enum { REPORT_MAX = 16 * 1024 * 1024, WHERE_SIZE = 512 };

static size_t argument_count(const struct hx_config_upstream *upstream)
{
    size_t count = 0;
    while (upstream->command && upstream->command[count + 1])
        count++;
    return count;
}

/* A URL without its query; a program without its arguments. */
static void where(const struct hx_config_upstream *upstream, char *ret_text)
{
    size_t count = argument_count(upstream);
    if (upstream->url)
        snprintf(ret_text, WHERE_SIZE, "%.*s%s", (int)strcspn(upstream->url, "?#"), upstream->url,
                 strpbrk(upstream->url, "?#") ? "?..." : "");
    else if (count == 0)
        snprintf(ret_text, WHERE_SIZE, "%s", upstream->command[0]);
    else
        snprintf(ret_text, WHERE_SIZE, "%s (%zu argument%s)", upstream->command[0], count,
                 count == 1 ? "" : "s");
}

static const char *key_text(const struct hx_tool_settings *tool)
{
    if (tool->effect_key.kind == HX_KEY_PLACE_META ||
        tool->effect_key.kind == HX_KEY_PLACE_POINTER ||
        tool->effect_key.kind == HX_KEY_PLACE_HEADER)
        return tool->effect_key.text;
    if (tool->effect_key.kind == HX_KEY_PLACE_SEP3182)
        return "sep3182";
    if (tool->key_argument)
        return tool->key_argument;
    return tool->inject_key ? tool->inject_key : "-";
}

static void add_tool(struct hx_table *table, const char *pattern,
                     const struct hx_tool_settings *tool)
{
    bool is_declared = hx_tool_settings_declares(tool, HX_SETTING_class);
    hx_table_add(table, hx_span_cstr(pattern), HX_CELL_PLAIN);
    hx_table_addf(table, HX_CELL_PLAIN, "%s%s", hx_choice_text(tool->class),
                  is_declared ? "" : " (not said)");
    hx_table_add(table, hx_span_cstr(key_text(tool)), HX_CELL_PLAIN);
    hx_table_add(table, hx_span_cstr(hx_choice_text(tool->repeat)), HX_CELL_PLAIN);
}

static void print_tools(const struct hx_config_upstream *upstream, FILE *out,
                        struct hx_table_options options)
{
    static const char *const titles[] = {"TOOLS", "CLASS", "KEY", "REPEAT"};
    struct hx_table *table = hx_table_new(titles, 4);
    fprintf(out, "\n%s\n", upstream->name);
    for (const struct hx_tool_rule *rule = upstream->settings.rules; rule; rule = rule->next) {
        struct hx_tool_settings tool =
            hx_settings_for_tool(&upstream->settings, hx_span_cstr(rule->pattern));
        add_tool(table, rule->pattern, &tool);
    }
    add_tool(table, upstream->settings.rules ? "all others" : "all", &upstream->settings.tool);
    hx_table_print(table, out, options);
    hx_table_free(table);
}

void hx_check_report(const struct hx_config *config, FILE *out)
{
    static const char *const titles[] = {"UPSTREAM", "AT", "NAMES BEGIN", "PROCESS PER", "GOES TO"};
    struct hx_table_options options = hx_table_options_for(out);
    struct hx_table *table = hx_table_new(titles, 5);
    char text[WHERE_SIZE];
    fprintf(out, "%s: %zu upstream%s, listening on", config->file, config->upstream_count,
            config->upstream_count == 1 ? "" : "s");
    for (size_t i = 0; i < config->listen_count; i++)
        fprintf(out, "%s %s", i > 0 ? "," : "", config->listens[i].text);
    fprintf(out, "%s; ", config->tls_cert_file ? " with TLS" : "");
    if (config->token_count > 0)
        fprintf(out, "%zu token%s\n\n", config->token_count, config->token_count == 1 ? "" : "s");
    else
        fputs("no tokens: callers are the user who runs it\n\n", out);
    for (size_t i = 0; i < config->upstream_count; i++) {
        const struct hx_config_upstream *upstream = &config->upstreams[i];
        hx_table_add(table, hx_span_cstr(upstream->name), HX_CELL_PLAIN);
        hx_table_addf(table, HX_CELL_PLAIN, "/mcp/%s", upstream->name);
        hx_table_add(table, hx_span_cstr(upstream->prefix), HX_CELL_PLAIN);
        hx_table_add(table,
                     hx_span_cstr(upstream->affinity == HX_AFFINITY_SHARED
                                      ? "all (shared)"
                                      : hx_affinity_text(upstream->affinity)),
                     HX_CELL_PLAIN);
        where(upstream, text);
        hx_table_add(table, hx_span_cstr(text), HX_CELL_PLAIN);
    }
    hx_table_print(table, out, options);
    hx_table_free(table);
    for (size_t i = 0; i < config->upstream_count; i++)
        print_tools(&config->upstreams[i], out, options);
    fputs("\nNo server was started: of tools that no line names, nothing is known.\n", out);
}

/* --- for programs --- */

static void put(struct hx_json_writer *writer, const char *name, const char *text)
{
    hx_json_put_name(writer, name);
    hx_json_put_cstr(writer, text);
}

static void put_tool(struct hx_json_writer *writer, const char *pattern,
                     const struct hx_tool_settings *tool)
{
    const char *key = key_text(tool);
    hx_json_open_object(writer);
    hx_json_put_name(writer, "tools");
    if (pattern)
        hx_json_put_cstr(writer, pattern);
    else
        hx_json_put_null(writer);
    put(writer, "class", hx_choice_text(tool->class));
    hx_json_put_name(writer, "class_declared");
    hx_json_put_bool(writer, hx_tool_settings_declares(tool, HX_SETTING_class));
    hx_json_put_name(writer, "key");
    if (strcmp(key, "-") == 0)
        hx_json_put_null(writer);
    else
        hx_json_put_cstr(writer, key);
    put(writer, "repeat", hx_choice_text(tool->repeat));
    hx_json_close_object(writer);
}

static void put_upstream(struct hx_json_writer *writer, const struct hx_config_upstream *upstream)
{
    char text[WHERE_SIZE];
    where(upstream, text);
    hx_json_open_object(writer);
    put(writer, "name", upstream->name);
    put(writer, "prefix", upstream->prefix);
    put(writer, "affinity", hx_affinity_text(upstream->affinity));
    put(writer, upstream->url ? "url" : "command", upstream->url ? text : upstream->command[0]);
    hx_json_put_name(writer, "tools");
    hx_json_open_array(writer);
    for (const struct hx_tool_rule *rule = upstream->settings.rules; rule; rule = rule->next) {
        struct hx_tool_settings tool =
            hx_settings_for_tool(&upstream->settings, hx_span_cstr(rule->pattern));
        put_tool(writer, rule->pattern, &tool);
    }
    put_tool(writer, NULL, &upstream->settings.tool);
    hx_json_close_array(writer);
    hx_json_close_object(writer);
}

static void put_config(struct hx_json_writer *writer, const struct hx_config *config)
{
    hx_json_put_name(writer, "listen");
    hx_json_open_array(writer);
    for (size_t i = 0; i < config->listen_count; i++)
        hx_json_put_cstr(writer, config->listens[i].text);
    hx_json_close_array(writer);
    hx_json_put_name(writer, "tls");
    hx_json_put_bool(writer, config->tls_cert_file != NULL);
    hx_json_put_name(writer, "tokens");
    hx_json_put_uint(writer, config->token_count);
    hx_json_put_name(writer, "upstreams");
    hx_json_open_array(writer);
    for (size_t i = 0; i < config->upstream_count; i++)
        put_upstream(writer, &config->upstreams[i]);
    hx_json_close_array(writer);
}

void hx_check_report_json(const struct hx_config *config, const char *complaint, FILE *out)
{
    struct hx_buf buf;
    struct hx_json_writer writer;
    hx_buf_init(&buf, REPORT_MAX);
    hx_json_writer_init(&writer, &buf);
    hx_json_open_object(&writer);
    hx_json_put_name(&writer, "file");
    hx_json_put_cstr(&writer, config->file ? config->file : "");
    hx_json_put_name(&writer, "error");
    if (complaint)
        hx_json_put_cstr(&writer, complaint);
    else
        hx_json_put_null(&writer);
    if (!complaint)
        put_config(&writer, config);
    hx_json_put_name(&writer, "warnings");
    hx_json_open_array(&writer);
    for (const struct hx_config_warning *at = config->warnings; at; at = at->next)
        hx_json_put_cstr(&writer, at->text);
    hx_json_close_array(&writer);
    hx_json_close_object(&writer);
    hx_assert(hx_buf_ok(&buf)); /* a configuration is at most 1 MiB */
    fprintf(out, "%.*s\n", HX_SPAN_FMT(hx_buf_span(&buf)));
    hx_buf_fini(&buf);
}
