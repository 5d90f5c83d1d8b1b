/* SPDX-License-Identifier: MIT */
#include "app/check_report.h"

#include <string.h>

#include "app/table.h"
#include "json/writer.h"

enum { REPORT_MAX = 256 * 1024 * 1024, WHERE_SIZE = 512 };

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

/* Where the class comes from. */
static const char *source_text(const struct hx_contact_tool *tool)
{
    if (tool->is_class_hinted)
        return tool->class == HX_CLASS_READ_ONLY ? "readOnlyHint" : "idempotentHint";
    return hx_tool_settings_declares(&tool->settings, HX_SETTING_class) ? "this file" : "not said";
}

/* What each tool that the server really has is taken for. */
static void print_listed(const struct hx_contact *contact, FILE *out,
                         struct hx_table_options options)
{
    static const char *const titles[] = {"TOOL", "CLASS", "SAID BY", "KEY", "REPEAT"};
    struct hx_table *table = hx_table_new(titles, 5);
    fprintf(out, "\n%s\n", contact->upstream->name);
    for (const struct hx_contact_tool *tool = contact->tools; tool; tool = tool->next) {
        bool is_read_only = tool->class == HX_CLASS_READ_ONLY;
        hx_table_add(table, hx_span_cstr(tool->name), HX_CELL_PLAIN);
        hx_table_add(table, hx_span_cstr(hx_tool_class_name(tool->class)), HX_CELL_PLAIN);
        hx_table_add(table, hx_span_cstr(source_text(tool)), HX_CELL_PLAIN);
        hx_table_add(table, hx_span_cstr(is_read_only ? "-" : key_text(&tool->settings)),
                     HX_CELL_PLAIN);
        hx_table_add(table,
                     hx_span_cstr(is_read_only ? "-" : hx_choice_text(tool->settings.repeat)),
                     HX_CELL_PLAIN);
    }
    hx_table_print(table, out, options);
    hx_table_free(table);
}

/* What came of asking each server. */
static void print_contacts(const struct hx_config *config, const struct hx_contact *contacts,
                           FILE *out, struct hx_table_options options)
{
    static const char *const titles[] = {"UPSTREAM", "SERVER", "VERSION", ">TOOLS", "STATE"};
    struct hx_table *table = hx_table_new(titles, 5);
    for (size_t i = 0; i < config->upstream_count; i++) {
        const struct hx_contact *contact = &contacts[i];
        bool is_good = contact->why[0] == '\0';
        hx_table_add(table, hx_span_cstr(contact->upstream->name), HX_CELL_PLAIN);
        hx_table_add(table, hx_span_cstr(contact->server ? contact->server : "-"), HX_CELL_PLAIN);
        hx_table_add(table, hx_span_cstr(contact->revision ? contact->revision : "-"),
                     HX_CELL_PLAIN);
        hx_table_addf(table, HX_CELL_PLAIN, "%zu", contact->tool_count);
        hx_table_add(table, hx_span_cstr(is_good ? "answers" : contact->why),
                     is_good ? HX_CELL_GOOD : HX_CELL_BAD);
    }
    fputc('\n', out);
    hx_table_print(table, out, options);
    hx_table_free(table);
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

static void print_head(const struct hx_config *config, FILE *out)
{
    fprintf(out, "%s: %zu upstream%s, listening on", config->file, config->upstream_count,
            config->upstream_count == 1 ? "" : "s");
    for (size_t i = 0; i < config->listen_count; i++)
        fprintf(out, "%s %s", i > 0 ? "," : "", config->listens[i].text);
    fprintf(out, "%s; ", config->tls_cert_file ? " with TLS" : "");
    if (config->token_count > 0)
        fprintf(out, "%zu token%s\n\n", config->token_count, config->token_count == 1 ? "" : "s");
    else
        fputs("no tokens: callers are the user who runs it\n\n", out);
}

static void print_upstreams(const struct hx_config *config, FILE *out,
                            struct hx_table_options options)
{
    static const char *const titles[] = {"UPSTREAM", "AT", "NAMES BEGIN", "PROCESS PER", "GOES TO"};
    struct hx_table *table = hx_table_new(titles, 5);
    char text[WHERE_SIZE];
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
}

void hx_check_report(const struct hx_config *config, const struct hx_contact *contacts, FILE *out)
{
    struct hx_table_options options = hx_table_options_for(out);
    print_head(config, out);
    print_upstreams(config, out, options);
    if (contacts != NULL)
        print_contacts(config, contacts, out, options);
    for (size_t i = 0; i < config->upstream_count; i++) {
        if (contacts == NULL || contacts[i].why[0] != '\0')
            print_tools(&config->upstreams[i], out, options);
        else if (contacts[i].tool_count > 0)
            print_listed(&contacts[i], out, options);
    }
    if (contacts == NULL)
        fputs("\nNo server was started: of tools that no line names, nothing is known. See "
              "'hapax check --connect'.\n",
              out);
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

static void put_listed(struct hx_json_writer *writer, const struct hx_contact_tool *tool)
{
    const char *key = key_text(&tool->settings);
    hx_json_open_object(writer);
    put(writer, "name", tool->name);
    put(writer, "class", hx_tool_class_name(tool->class));
    put(writer, "class_said_by", source_text(tool));
    hx_json_put_name(writer, "key");
    if (tool->class == HX_CLASS_READ_ONLY || strcmp(key, "-") == 0)
        hx_json_put_null(writer);
    else
        hx_json_put_cstr(writer, key);
    put(writer, "repeat", hx_choice_text(tool->settings.repeat));
    hx_json_close_object(writer);
}

static void put_or_null(struct hx_json_writer *writer, const char *name, const char *text)
{
    hx_json_put_name(writer, name);
    if (text == NULL || text[0] == '\0')
        hx_json_put_null(writer);
    else
        hx_json_put_cstr(writer, text);
}

static void put_contact(struct hx_json_writer *writer, const struct hx_contact *contact)
{
    hx_json_put_name(writer, "contact");
    hx_json_open_object(writer);
    put_or_null(writer, "error", contact->why);
    put_or_null(writer, "server", contact->server);
    put_or_null(writer, "version", contact->revision);
    hx_json_put_name(writer, "tools");
    hx_json_open_array(writer);
    for (const struct hx_contact_tool *tool = contact->tools; tool; tool = tool->next)
        put_listed(writer, tool);
    hx_json_close_array(writer);
    hx_json_close_object(writer);
}

/* `contact` is NULL when it was not asked. */
static void put_upstream(struct hx_json_writer *writer, const struct hx_config_upstream *upstream,
                         const struct hx_contact *contact)
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
    if (contact != NULL)
        put_contact(writer, contact);
    hx_json_close_object(writer);
}

static void put_config(struct hx_json_writer *writer, const struct hx_config *config,
                       const struct hx_contact *contacts)
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
        put_upstream(writer, &config->upstreams[i], contacts != NULL ? &contacts[i] : NULL);
    hx_json_close_array(writer);
}

void hx_check_report_json(const struct hx_config *config, const struct hx_contact *contacts,
                          const char *complaint, FILE *out)
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
        put_config(&writer, config, contacts);
    hx_json_put_name(&writer, "warnings");
    hx_json_open_array(&writer);
    for (const struct hx_config_warning *at = config->warnings; at; at = at->next)
        hx_json_put_cstr(&writer, at->text);
    hx_json_close_array(&writer);
    hx_json_close_object(&writer);
    /* A configuration is at most 1 MiB; the lists of its servers are not ours to bound. */
    if (hx_buf_ok(&buf))
        fprintf(out, "%.*s\n", HX_SPAN_FMT(hx_buf_span(&buf)));
    else
        fputs("{\"error\":\"the report is too long\"}\n", out);
    hx_buf_fini(&buf);
}
