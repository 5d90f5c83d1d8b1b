/* SPDX-License-Identifier: MIT */
/*
 * Prints tables/config.def and tables/limits.def as the tables of docs/configuration.md, which
 * tools/gen-table puts there and a test compares.
 */
#include <stdio.h>
#include <string.h>

#include "app/serve_limits.h"
#include "app/settings.h"

static const char *scope_text(enum hx_setting_scope scope)
{
    switch (scope) {
    case HX_SCOPE_GLOBAL:
        return "process";
    case HX_SCOPE_SERVER:
        return "upstream";
    case HX_SCOPE_TOOL:
        return "tool";
    }
    return "";
}

/* A bar would end the cell. */
static void print_text(const char *text)
{
    for (; *text; text++)
        printf(*text == '|' ? "\\|" : "%c", *text);
}

static void print_setting(const struct hx_setting_row *row, enum hx_setting_id id)
{
    printf("| `%s` | %s | %s | ", row->name, scope_text(row->scope),
           strcmp(row->initial, "none") == 0 ? "" : row->initial);
    print_text(row->help);
    const char *between = ": ";
    for (int i = 0; i < HX_CHOICE_COUNT; i++) {
        enum hx_choice choice = (enum hx_choice)i;
        if (hx_choice_setting(choice) != id)
            continue;
        printf("%s`%s` ", between, hx_choice_text(choice));
        print_text(hx_choice_help(choice));
        between = "; ";
    }
    puts(" |");
}

int main(void)
{
    const char *section_end = "";
#define HX_SETTING_SECTION(title)                                                                  \
    printf("%s### %s\n\n| name | of | default | |\n|---|---|---|---|\n", section_end, title);      \
    section_end = "\n";
#define HX_SETTING(field, type, scope, initial, min, max, help)                                    \
    print_setting(hx_setting_row(HX_SETTING_##field), HX_SETTING_##field);
#include "tables/config.def"
    puts("\n### `limits`\n\n| name | default | |\n|---|---|---|");
    for (int i = 0; i < HX_LIMIT_COUNT; i++) {
        const struct hx_setting_row *row = hx_limit_row((enum hx_limit_id)i);
        printf("| `%s` | %s | ", row->name, row->initial);
        print_text(row->help);
        puts(" |");
    }
    return 0;
}
