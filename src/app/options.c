/* SPDX-License-Identifier: MIT */
#include "app/options.h"

#include <stdio.h>
#include <string.h>

#include "app/nearest.h"

void hx_option_name(const char *setting, char *ret_name)
{
    snprintf(ret_name, HX_OPTION_NAME_SIZE, "--%s", setting);
    for (char *at = ret_name; *at; at++)
        if (*at == '_')
            *at = '-';
}

enum { EXTRAS_MAX = 16 };

static int refuse_option(const struct hx_option_words *words, struct hx_settings *settings,
                         struct hx_span name, struct hx_complaint *complaint)
{
    const char *names[HX_SETTING_COUNT + 2 + EXTRAS_MAX];
    char option[HX_OPTION_NAME_SIZE];
    size_t count = 0;
    hx_assert(words->extra_count <= EXTRAS_MAX);
    for (size_t i = 0; i < HX_SETTING_COUNT; i++)
        names[count++] = hx_setting_row((enum hx_setting_id)i)->name;
    names[count++] = "tool";
    names[count++] = "help";
    for (size_t i = 0; i < words->extra_count; i++)
        names[count++] = words->extras[i].name;
    if (hx_setting_is_retry_word(name))
        return hx_settings_set(settings, name, HX_SPAN_LIT("on"), complaint);
    const char *near = hx_nearest(name, names, count);
    int len = (int)(name.len < 80 ? name.len : 80);
    if (!near)
        return hx_complain(
            complaint,
            "there is no option '--%.*s'. 'hapax %s --help' lists all of them; options "
            "of the server itself stand behind '--'",
            len, name.ptr, words->command);
    hx_option_name(near, option);
    return hx_complain(
        complaint,
        "there is no option '--%.*s'; did you mean '%s'? Options of the server itself "
        "stand behind '--'",
        len, name.ptr, option);
}

/* Puts the option's spelling in front of what the setting said. */
static int set_option(struct hx_settings *settings, struct hx_span name, struct hx_span value,
                      struct hx_complaint *complaint)
{
    struct hx_complaint inner;
    if (hx_settings_set(settings, name, value, &inner) == 0)
        return 0;
    char option[HX_OPTION_NAME_SIZE];
    const char *rest = strchr(inner.text, ':');
    hx_option_name(hx_setting_find(name)->name, option);
    return hx_complain(complaint, "%s%s", option, rest ? rest : inner.text);
}

static const struct hx_extra_option *find_extra(const struct hx_option_words *words,
                                                struct hx_span name)
{
    for (size_t i = 0; i < words->extra_count; i++)
        if (hx_name_eq(name, words->extras[i].name))
            return &words->extras[i];
    return NULL;
}

static int parse_option(int argc, char **argv, int *at, const struct hx_option_words *words,
                        struct hx_settings *settings, struct hx_complaint *complaint)
{
    struct hx_span word = hx_span_cstr(argv[*at] + 2);
    const char *equals = strchr(argv[*at], '=');
    struct hx_span name = equals ? hx_span(word.ptr, (size_t)(equals - word.ptr)) : word;
    const struct hx_extra_option *extra = find_extra(words, name);
    bool is_rule = !extra && hx_span_eq_cstr(name, "tool");
    const struct hx_setting_row *row = extra ? NULL : hx_setting_find(name);
    struct hx_span negation = HX_SPAN_LIT("no-");
    if (!row && !extra && !equals && hx_span_starts_with(name, negation)) {
        struct hx_span positive = hx_span(name.ptr + negation.len, name.len - negation.len);
        row = hx_setting_find(positive);
        if (row && row->type == HX_SETTING_FLAG)
            return set_option(settings, positive, HX_SPAN_LIT("off"), complaint);
        row = NULL;
    }
    if (!row && !is_rule && !extra)
        return refuse_option(words, settings, name, complaint);
    if (extra && extra->is_flag && !equals)
        return extra->take(words->context, HX_SPAN_LIT("on"), complaint);
    if (row && row->type == HX_SETTING_FLAG && !equals)
        return set_option(settings, name, HX_SPAN_LIT("on"), complaint);
    struct hx_span value;
    if (equals) {
        value = hx_span_cstr(equals + 1);
    } else if (*at + 1 < argc) {
        value = hx_span_cstr(argv[++*at]);
    } else {
        return hx_complain(complaint, "--%.*s needs a value%s%s", HX_SPAN_FMT(name),
                           extra ? "" : "; ",
                           extra     ? ""
                           : is_rule ? "write --tool 'PATTERN: name=value ...'"
                                     : row->help);
    }
    if (extra)
        return extra->take(words->context, value, complaint);
    if (is_rule)
        return hx_settings_add_rule(settings, value, complaint);
    return set_option(settings, name, value, complaint);
}

int hx_options_read(int argc, char **argv, const struct hx_option_words *words,
                    struct hx_settings *settings, int *ret_used, struct hx_complaint *complaint)
{
    int at = 1;
    for (; at < argc; at++) {
        const char *word = argv[at];
        if (strcmp(word, "--") == 0) {
            at++;
            break;
        }
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
            return HX_OPTIONS_HELP;
        if (word[0] != '-' || word[1] == '\0') /* "-" alone is standard input, no option */
            break;
        if (word[1] != '-')
            return hx_complain(complaint,
                               "'%s' is no option: all options have two dashes and a full name. "
                               "'hapax %s --help' lists them; the server's own stand behind '--'",
                               word, words->command);
        int rc = parse_option(argc, argv, &at, words, settings, complaint);
        if (rc != 0)
            return rc;
    }
    *ret_used = at;
    return 0;
}

static int take_show(void *context, struct hx_span value, struct hx_complaint *complaint)
{
    bool *is_show = context;
    if (!hx_span_eq_cstr(value, "on"))
        return hx_complain(complaint, "--show-settings takes no value");
    *is_show = true;
    return 0;
}

int hx_options_parse(int argc, char **argv, struct hx_settings *settings, int *ret_used,
                     struct hx_complaint *complaint)
{
    static const struct hx_extra_option extras[] = {{"show_settings", true, take_show}};
    bool is_show = false;
    const struct hx_option_words words = {
        .command = "run", .extras = extras, .extra_count = 1, .context = &is_show};
    int rc = hx_options_read(argc, argv, &words, settings, ret_used, complaint);
    if (rc == 0)
        rc = hx_settings_check(settings, complaint);
    return rc == 0 && is_show ? HX_OPTIONS_SHOW : rc;
}

int hx_options_refuse_beside_file(const struct hx_settings *given, const char *path,
                                  struct hx_complaint *complaint)
{
    char option[HX_OPTION_NAME_SIZE];
    for (int i = 0; i < HX_SETTING_COUNT; i++) {
        const struct hx_setting_row *row = hx_setting_row((enum hx_setting_id)i);
        const struct hx_setting_set *declared =
            row->scope == HX_SCOPE_TOOL ? &given->tool.declared : &given->declared;
        if (row->scope == HX_SCOPE_GLOBAL || !hx_setting_set_has(declared, (enum hx_setting_id)i))
            continue;
        hx_option_name(row->name, option);
        return hx_complain(complaint,
                           "%s: what holds for a server stands in its file; write %s "
                           "into %.300s",
                           option, row->name, path);
    }
    if (given->rules)
        return hx_complain(complaint,
                           "--tool: what holds for a server stands in its file; write "
                           "the rule below 'tools' in %.300s",
                           path);
    return 0;
}
