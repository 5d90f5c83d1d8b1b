/* SPDX-License-Identifier: MIT */
/*
 * The file that editors and desktop clients keep: {"mcpServers": {NAME: {...}}}.
 *
 * It is taken as it is. What it says of a server that we know is read as strictly as our own file;
 * members that we do not know are the editor's, and only mentioned. A server that is switched off
 * there is off here.
 */
#include "app/config_reader.h"

#include <string.h>

#include <stdio.h>

#include "app/value.h"

/* "My Server" -> "my-server". */
static struct hx_span fold_name(struct hx_span name, char *ret_name)
{
    size_t len = 0;
    for (size_t i = 0; i < name.len && len < HX_UPSTREAM_NAME_MAX; i++) {
        char byte = name.ptr[i];
        if (byte >= 'A' && byte <= 'Z')
            byte = (char)(byte - 'A' + 'a');
        if (!hx_upstream_name_is_good(hx_span(&byte, 1)))
            byte = '-';
        if (byte == '-' && len > 0 && ret_name[len - 1] == '-')
            continue;
        ret_name[len++] = byte;
    }
    return hx_span(ret_name, len);
}

static int check_type(struct hx_reader *reader, const struct hx_node *entry,
                      struct hx_config_upstream *upstream)
{
    const struct hx_node *type = hx_node_member(entry, "type");
    static const struct {
        const char *text;
        const char *member;
    } types[] = {{"stdio", "command"},
                 {"http", "url"},
                 {"streamable-http", "url"},
                 {"streamableHttp", "url"},
                 {"sse", "url"}};
    if (!type)
        return 0;
    int rc = hx_read_kind(reader, type, HX_NODE_TEXT, "type");
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (!hx_span_eq_cstr(type->text, types[i].text))
            continue;
        if (hx_node_member(entry, types[i].member)) {
            if (strcmp(types[i].text, "sse") == 0)
                upstream->settings.transport = HX_CHOICE_transport_SSE;
            return 0;
        }
        return hx_tree_refuse(&reader->tree, type->mark, "a server of type '%s' needs a %s",
                              types[i].text, types[i].member);
    }
    return hx_tree_refuse(&reader->tree, type->mark,
                          "type: '%.*s' is not possible; choose stdio, http, sse",
                          HX_SPAN_FMT(hx_node_shown(type->text)));
}

static bool is_known(struct hx_span name)
{
    static const char *const known[] = {"command", "args", "env",     "cwd",
                                        "url",     "type", "headers", "disabled"};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (hx_span_eq_cstr(name, known[i]))
            return true;
    return false;
}

static int read_server(struct hx_reader *reader, const struct hx_node *entry)
{
    struct hx_config *config = reader->config;
    char folded[HX_UPSTREAM_NAME_MAX];
    bool is_off = false;
    int rc = hx_read_kind(reader, entry, HX_NODE_MAP, "a server");
    if (rc != 0)
        return rc;
    const struct hx_node *disabled = hx_node_member(entry, "disabled");
    if (disabled)
        rc = hx_read_flag(reader, disabled, "disabled", &is_off);
    if (rc == 0 && is_off)
        hx_config_warn(config, disabled->mark, "the server '%.*s' is switched off here",
                       HX_SPAN_FMT(hx_node_shown(entry->name)));
    if (rc != 0 || is_off)
        return rc;
    struct hx_span name = fold_name(entry->name, folded);
    if (name.len == 0)
        return hx_tree_refuse(&reader->tree, entry->name_mark, "a server must have a name");
    const struct hx_config_upstream *twin = hx_config_upstream(config, name);
    if (twin)
        return hx_tree_refuse(&reader->tree, entry->name_mark,
                              "'%.*s' becomes the upstream '%s', and so does the name in line %d",
                              HX_SPAN_FMT(hx_node_shown(entry->name)), twin->name, twin->mark.line);
    if (!hx_span_eq(name, entry->name))
        hx_config_warn(config, entry->name_mark, "the server '%.*s' is the upstream '%.*s'",
                       HX_SPAN_FMT(hx_node_shown(entry->name)), HX_SPAN_FMT(name));
    struct hx_config_upstream *upstream = hx_config_add_upstream(config, name, entry->name_mark);
    if (!upstream)
        return hx_tree_refuse(&reader->tree, entry->name_mark, "there are too many servers");
    for (const struct hx_node *member = entry->first; member; member = member->next)
        if (!is_known(member->name))
            hx_config_warn(config, member->name_mark, "'%.*s' of the server '%s' is passed over",
                           HX_SPAN_FMT(hx_node_shown(member->name)), upstream->name);
    rc = check_type(reader, entry, upstream);
    return rc == 0 ? hx_read_command(reader, entry, upstream) : rc;
}

int hx_read_editor_file(struct hx_reader *reader, const struct hx_node *root)
{
    const struct hx_node *servers = hx_node_member(root, "mcpServers");
    for (const struct hx_node *member = root->first; member; member = member->next)
        if (member != servers)
            hx_config_warn(reader->config, member->name_mark, "'%.*s' is passed over",
                           HX_SPAN_FMT(hx_node_shown(member->name)));
    int rc = hx_read_kind(reader, servers, HX_NODE_MAP, "mcpServers");
    for (const struct hx_node *entry = servers->first; rc == 0 && entry; entry = entry->next)
        rc = read_server(reader, entry);
    return rc;
}
