/* SPDX-License-Identifier: MIT */
#include "app/config_reader.h"

#include <stdio.h>
#include <string.h>

#include "app/nearest.h"
#include "app/value.h"
#include "base/buf.h"

/* Names that one section can have: its members and all settings. */
enum { NAMES_MAX = 128, JOINED_MAX = 65536 };

void *hx_reader_alloc(struct hx_reader *reader, size_t size)
{
    void *memory = hx_arena_alloc(&reader->config->arena, size);
    if (!memory)
        (void)hx_tree_refuse(&reader->tree, (struct hx_mark){0, 0},
                             "there is more in this file than a configuration needs");
    else
        memset(memory, 0, size);
    return memory;
}

/* --- values --- */

static const char *kind_text(enum hx_node_kind kind)
{
    switch (kind) {
    case HX_NODE_NOTHING:
        return "nothing";
    case HX_NODE_TEXT:
        return "a text";
    case HX_NODE_LIST:
        return "a list";
    case HX_NODE_MAP:
        return "a mapping (name: value)";
    }
    return "";
}

int hx_read_kind(struct hx_reader *reader, const struct hx_node *value, enum hx_node_kind kind,
                 const char *what)
{
    if (value->kind == kind)
        return 0;
    return hx_tree_refuse(&reader->tree, value->mark, "%s must be %s, but %s stands here", what,
                          kind_text(kind), kind_text(value->kind));
}

static bool is_clean(struct hx_span text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.ptr[i] < 0x20 || text.ptr[i] == 0x7f)
            return false;
    return true;
}

int hx_read_text(struct hx_reader *reader, const struct hx_node *value, const char *what,
                 const char **ret_text)
{
    int rc = hx_read_kind(reader, value, HX_NODE_TEXT, what);
    if (rc != 0)
        return rc;
    if (value->text.len == 0 || !is_clean(value->text))
        return hx_tree_refuse(&reader->tree, value->mark,
                              "%s must be a text that is not empty and has no control bytes", what);
    *ret_text = value->text.ptr;
    return 0;
}

int hx_read_flag(struct hx_reader *reader, const struct hx_node *value, const char *what,
                 bool *ret_flag)
{
    struct hx_complaint complaint;
    const struct hx_setting_row row = {
        .name = what, .type = HX_SETTING_FLAG, .initial = "off", .help = ""};
    int rc = hx_read_kind(reader, value, HX_NODE_TEXT, what);
    if (rc == 0 && hx_value_parse(&row, value->text, NULL, ret_flag, &complaint) != 0)
        rc = hx_tree_refuse(&reader->tree, value->mark, "%s", complaint.text);
    return rc;
}

int hx_read_texts(struct hx_reader *reader, const struct hx_node *value, const char *what,
                  struct hx_text_list *ret_list)
{
    bool is_one = value->kind == HX_NODE_TEXT;
    struct hx_text_list list = {NULL, 0};
    if (!is_one && value->kind != HX_NODE_LIST)
        return hx_tree_refuse(&reader->tree, value->mark,
                              "%s must be a text or a list of texts, but %s stands here", what,
                              kind_text(value->kind));
    list.items = hx_reader_alloc(reader, (value->count + 1) * sizeof(*list.items));
    if (!list.items)
        return 1;
    for (const struct hx_node *item = is_one ? value : value->first; item; item = item->next) {
        const char *text;
        int rc = hx_read_text(reader, item, what, &text);
        if (rc != 0)
            return rc;
        list.items[list.count++] = hx_span_cstr(text);
        if (is_one)
            break;
    }
    *ret_list = list;
    return 0;
}

int hx_read_pairs(struct hx_reader *reader, const struct hx_node *value, const char *what,
                  const char *between, const char *const **ret_list)
{
    int rc = hx_read_kind(reader, value, HX_NODE_MAP, what);
    if (rc != 0)
        return rc;
    const char **list = hx_reader_alloc(reader, (value->count + 1) * sizeof(*list));
    if (!list)
        return 1;
    size_t count = 0;
    for (const struct hx_node *pair = value->first; pair; pair = pair->next) {
        if (pair->name.len == 0 || !is_clean(pair->name) ||
            memchr(pair->name.ptr, between[0], pair->name.len))
            return hx_tree_refuse(&reader->tree, pair->name_mark,
                                  "%s: this name must not be empty nor have control bytes or '%c'",
                                  what, between[0]);
        /* The value may be a secret: only its place is told. */
        if (pair->kind != HX_NODE_TEXT)
            return hx_tree_refuse(&reader->tree, pair->mark, "%s: '%.*s' must have a text as value",
                                  what, HX_SPAN_FMT(hx_node_shown(pair->name)));
        if (between[0] == ':' && !is_clean(pair->text))
            return hx_tree_refuse(&reader->tree, pair->mark,
                                  "%s: the value of '%.*s' has control bytes", what,
                                  HX_SPAN_FMT(hx_node_shown(pair->name)));
        size_t size = pair->name.len + strlen(between) + pair->text.len + 1;
        char *text = hx_reader_alloc(reader, size);
        if (!text)
            return 1;
        snprintf(text, size, "%s%s%s", pair->name.ptr, between, pair->text.ptr);
        list[count++] = text;
    }
    *ret_list = (const char *const *)list;
    return 0;
}

/* --- names --- */

int hx_refuse_member(struct hx_reader *reader, const struct hx_node *member, const char *what,
                     const char *const *names, size_t count)
{
    struct hx_span shown = hx_node_shown(member->name);
    const char *near = hx_nearest(member->name, names, count);
    return hx_tree_refuse(&reader->tree, member->name_mark, "there is no '%.*s' in %s%s%s%s",
                          HX_SPAN_FMT(shown), what, near ? "; did you mean '" : "",
                          near ? near : "", near ? "'?" : "");
}

static const struct hx_setting_row *find_exactly(struct hx_span name)
{
    const struct hx_setting_row *row = hx_setting_find(name);
    return row && hx_span_eq_cstr(name, row->name) ? row : NULL;
}

static const char *place_of(enum hx_setting_scope scope)
{
    switch (scope) {
    case HX_SCOPE_GLOBAL:
        return "the whole process; write it at the top of the file, not";
    case HX_SCOPE_SERVER:
        return "a whole upstream; write it there or under 'defaults', not";
    case HX_SCOPE_TOOL:
        return "tools; write it into an upstream, its 'tools' or 'defaults', not";
    }
    return "";
}

static int refuse_name(struct hx_reader *reader, const struct hx_section *section,
                       const struct hx_node *member)
{
    const char *names[NAMES_MAX];
    size_t count = 0;
    const struct hx_setting_row *row = find_exactly(member->name);
    if (row)
        return hx_tree_refuse(&reader->tree, member->name_mark, "%s holds for %s in %s", row->name,
                              place_of(row->scope), section->what);
    row = hx_setting_find(member->name);
    if (row)
        return hx_tree_refuse(&reader->tree, member->name_mark,
                              "%s is written with underscores in a file", row->name);
    if (hx_setting_is_retry_word(member->name)) {
        struct hx_settings scratch;
        struct hx_complaint complaint;
        hx_settings_init(&scratch);
        int rc = hx_settings_set(&scratch, member->name, HX_SPAN_LIT("on"), &complaint);
        hx_settings_fini(&scratch);
        hx_assert(rc != 0);
        return hx_tree_refuse(&reader->tree, member->name_mark, "%s", complaint.text);
    }
    _Static_assert(HX_SETTING_COUNT + 20 < NAMES_MAX, "room for the members of a section");
    hx_assert(section->count <= 20);
    for (size_t i = 0; i < section->count; i++)
        names[count++] = section->members[i].name;
    for (size_t i = 0; i < HX_SETTING_COUNT; i++)
        if (section->scopes & HX_SCOPE_BIT(hx_setting_row((enum hx_setting_id)i)->scope))
            names[count++] = hx_setting_row((enum hx_setting_id)i)->name;
    return hx_refuse_member(reader, member, section->what, names, count);
}

static int read_member(struct hx_reader *reader, const struct hx_section *section,
                       const struct hx_node *member, void *target, struct hx_settings *settings)
{
    for (size_t i = 0; i < section->count; i++)
        if (hx_span_eq_cstr(member->name, section->members[i].name))
            return section->members[i].read ? section->members[i].read(reader, member, target) : 0;
    const struct hx_setting_row *row = find_exactly(member->name);
    if (!row || !(section->scopes & HX_SCOPE_BIT(row->scope)))
        return refuse_name(reader, section, member);
    return hx_read_setting(reader, member, settings);
}

int hx_read_section(struct hx_reader *reader, const struct hx_section *section,
                    const struct hx_node *map, void *target, struct hx_settings *settings)
{
    if (map->kind == HX_NODE_NOTHING)
        return 0;
    int rc = hx_read_kind(reader, map, HX_NODE_MAP, section->what);
    for (const struct hx_node *member = map->first; rc == 0 && member; member = member->next)
        rc = read_member(reader, section, member, target, settings);
    return rc;
}

/* --- settings --- */

/* Puts a list as it is written on the command line, with commas between. */
static int join(struct hx_reader *reader, const struct hx_node *list, struct hx_buf *text)
{
    for (const struct hx_node *item = list->first; item; item = item->next) {
        int rc = hx_read_kind(reader, item, HX_NODE_TEXT, "an entry");
        if (rc != 0)
            return rc;
        if (item != list->first)
            (void)hx_buf_append(text, ",", 1); /* the buffer remembers a failure */
        if (memchr(item->text.ptr, ',', item->text.len))
            return hx_tree_refuse(&reader->tree, item->mark,
                                  "an entry must not hold a comma; in a pattern write ? for it");
        (void)hx_buf_append_span(text, item->text);
    }
    if (!hx_buf_ok(text))
        return hx_tree_refuse(&reader->tree, list->mark, "this list is too long");
    return 0;
}

/* The text of a value, joined in `buf` if need be. */
static int text_of(struct hx_reader *reader, const struct hx_setting_row *row,
                   const struct hx_node *value, struct hx_buf *buf, struct hx_span *ret_text)
{
    bool can_list = row->type == HX_SETTING_POINTERS || row->type == HX_SETTING_NAMES ||
                    row->type == HX_SETTING_ERRORS;
    if (value->kind == HX_NODE_NOTHING)
        return hx_tree_refuse(&reader->tree, value->mark, "%s has no value; %s", row->name,
                              strcmp(row->initial, "none") == 0
                                  ? "leave it out, or write none in words"
                                  : "leave it out for the default");
    if (value->kind == HX_NODE_LIST && can_list && value->count > 0) {
        int rc = join(reader, value, buf);
        *ret_text = hx_buf_span(buf);
        return rc;
    }
    *ret_text = value->text;
    return hx_read_kind(reader, value, HX_NODE_TEXT, row->name);
}

int hx_read_setting(struct hx_reader *reader, const struct hx_node *value,
                    struct hx_settings *settings)
{
    struct hx_complaint complaint;
    struct hx_buf joined;
    struct hx_span text;
    hx_buf_init(&joined, JOINED_MAX);
    int rc = text_of(reader, find_exactly(value->name), value, &joined, &text);
    if (rc == 0 && hx_settings_set(settings, value->name, text, &complaint) != 0)
        rc = hx_tree_refuse(&reader->tree, value->mark, "%s", complaint.text);
    hx_buf_fini(&joined);
    return rc;
}

static int read_in_rule(struct hx_reader *reader, const struct hx_node *value,
                        struct hx_settings *settings, struct hx_tool_rule *rule)
{
    static const struct hx_section section = {.what = "the settings of tools",
                                              .scopes = HX_SCOPE_BIT(HX_SCOPE_TOOL)};
    struct hx_complaint complaint;
    struct hx_buf joined;
    struct hx_span text;
    const struct hx_setting_row *row = find_exactly(value->name);
    if (!row || row->scope != HX_SCOPE_TOOL)
        return refuse_name(reader, &section, value);
    hx_buf_init(&joined, JOINED_MAX);
    int rc = text_of(reader, row, value, &joined, &text);
    if (rc == 0 && hx_settings_rule_set(settings, rule, value->name, text, &complaint) != 0)
        rc = hx_tree_refuse(&reader->tree, value->mark, "%s", complaint.text);
    hx_buf_fini(&joined);
    return rc;
}

int hx_read_tools(struct hx_reader *reader, const struct hx_node *value,
                  struct hx_settings *settings)
{
    if (value->kind == HX_NODE_NOTHING)
        return 0;
    int rc = hx_read_kind(reader, value, HX_NODE_MAP, "tools");
    for (const struct hx_node *tool = value->first; rc == 0 && tool; tool = tool->next) {
        if (tool->name.len == 0 || !is_clean(tool->name) ||
            memchr(tool->name.ptr, ' ', tool->name.len))
            return hx_tree_refuse(
                &reader->tree, tool->name_mark,
                "a tool's name, or a pattern of them with * and ?, must stand here");
        if (tool->kind != HX_NODE_MAP || tool->count == 0)
            return hx_tree_refuse(&reader->tree, tool->mark,
                                  "'%.*s' sets nothing; write its settings below it, such as "
                                  "class: read_only",
                                  HX_SPAN_FMT(hx_node_shown(tool->name)));
        struct hx_tool_rule *rule = hx_settings_rule_new(settings, tool->name);
        if (!rule)
            return hx_tree_refuse(&reader->tree, tool->name_mark, "the settings are too long");
        rule->mark = tool->name_mark;
        for (const struct hx_node *at = tool->first; rc == 0 && at; at = at->next)
            rc = read_in_rule(reader, at, settings, rule);
        hx_settings_rule_add(settings, rule);
    }
    return rc;
}

int hx_read_limits(struct hx_reader *reader, const struct hx_node *value)
{
    const char *names[HX_LIMIT_COUNT];
    for (size_t i = 0; i < HX_LIMIT_COUNT; i++)
        names[i] = hx_limit_row((enum hx_limit_id)i)->name;
    if (value->kind == HX_NODE_NOTHING)
        return 0;
    int rc = hx_read_kind(reader, value, HX_NODE_MAP, "limits");
    for (const struct hx_node *at = value->first; rc == 0 && at; at = at->next) {
        struct hx_complaint complaint;
        const struct hx_setting_row *row = hx_limit_find(at->name);
        if (!row)
            return hx_refuse_member(reader, at, "limits", names, HX_LIMIT_COUNT);
        rc = hx_read_kind(reader, at, HX_NODE_TEXT, row->name);
        if (rc == 0 && hx_limits_set(&reader->config->limits, row, at->text, &complaint) != 0)
            rc = hx_tree_refuse(&reader->tree, at->mark, "%s", complaint.text);
    }
    return rc;
}
