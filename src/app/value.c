/* SPDX-License-Identifier: MIT */
#include "app/value.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "app/nearest.h"
#include "app/number.h"
#include "base/whole.h"
#include "engine/rules.h"
#include "json/canon.h"
#include "json/redact.h"

/* --- one type each -------------------------------------------------------------------------------
 */

/* A complaint that begins with the setting and what was given. */
static int refuse(const struct hx_setting_row *row, struct hx_span text,
                  struct hx_complaint *complaint, const char *allowed)
{
    return hx_complain(complaint, "%s: '%.*s' is not possible; %s", row->name,
                       (int)(text.len < 80 ? text.len : 80), text.ptr, allowed);
}

static bool is_clean_text(struct hx_span text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char byte = (unsigned char)text.ptr[i];
        if (byte < 0x20 || byte == 0x7f)
            return false;
    }
    return text.len > 0;
}

static bool is_pointer(struct hx_span text)
{
    if (text.len < 2 || text.ptr[0] != '/' || !is_clean_text(text))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] != '~')
            continue;
        if (i + 1 == text.len || (text.ptr[i + 1] != '0' && text.ptr[i + 1] != '1'))
            return false;
    }
    return true;
}

static const char *copy(struct hx_arena *arena, struct hx_span text)
{
    struct hx_span copied = hx_arena_dup(arena, text);
    return copied.ptr;
}

static int parse_text(const struct hx_setting_row *row, struct hx_span text, struct hx_arena *arena,
                      const char **slot, struct hx_complaint *complaint)
{
    if (!is_clean_text(text))
        return refuse(row, text, complaint,
                      "give a text that is not empty and has no control bytes");
    const char *copied = copy(arena, text);
    if (!copied)
        return hx_complain(complaint, "%s: the settings are too long", row->name);
    *slot = copied;
    return 0;
}

static int parse_flag(const struct hx_setting_row *row, struct hx_span text, bool *slot,
                      struct hx_complaint *complaint)
{
    static const char *const yes[] = {"on", "true", "yes", "1"};
    static const char *const no[] = {"off", "false", "no", "0"};
    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
        bool is_yes = hx_span_eq_cstr(text, yes[i]);
        if (is_yes || hx_span_eq_cstr(text, no[i])) {
            *slot = is_yes;
            return 0;
        }
    }
    return refuse(row, text, complaint, "say on or off");
}

static int parse_choice(const struct hx_setting_row *row, struct hx_span text, enum hx_choice *slot,
                        struct hx_complaint *complaint)
{
    const char *names[HX_CHOICE_COUNT];
    size_t count = 0;
    char allowed[256] = "choose ";
    for (int choice = 0; choice < HX_CHOICE_COUNT; choice++) {
        if (hx_setting_row(hx_choice_setting((enum hx_choice)choice)) != row)
            continue;
        const char *name = hx_choice_text((enum hx_choice)choice);
        if (hx_name_eq(text, name)) {
            *slot = (enum hx_choice)choice;
            return 0;
        }
        size_t used = strlen(allowed);
        snprintf(allowed + used, sizeof(allowed) - used, "%s%s", count > 0 ? ", " : "", name);
        names[count++] = name;
    }
    const char *near = hx_nearest(text, names, count);
    size_t used = strlen(allowed);
    if (near)
        snprintf(allowed + used, sizeof(allowed) - used, " (did you mean %s?)", near);
    return refuse(row, text, complaint, allowed);
}

static int parse_number(const struct hx_setting_row *row, struct hx_span text, int64_t *slot,
                        struct hx_complaint *complaint)
{
    char allowed[256];
    char min[HX_NUMBER_TEXT_SIZE];
    char max[HX_NUMBER_TEXT_SIZE];
    const char *example;
    int64_t number = 0;
    bool is_number;
    if (row->type == HX_SETTING_DURATION) {
        is_number = hx_duration_parse(text, &number);
        hx_duration_format(row->min, min);
        hx_duration_format(row->max, max);
        example = "a duration with its unit, such as 500ms, 30s, 15m, 2h or 7d,";
    } else if (row->type == HX_SETTING_SIZE) {
        is_number = hx_size_parse(text, &number);
        hx_size_format(row->min, min);
        hx_size_format(row->max, max);
        example = "a size, such as 4096, 64KiB or 64MiB,";
    } else {
        is_number = hx_whole_parse(text, &number);
        snprintf(min, sizeof(min), "%" PRId64, row->min);
        snprintf(max, sizeof(max), "%" PRId64, row->max);
        example = "a whole number";
    }
    if (is_number && number >= row->min && number <= row->max) {
        *slot = number;
        return 0;
    }
    snprintf(allowed, sizeof(allowed), "give %s from %s to %s%s", example, min, max,
             strcmp(row->initial, "none") == 0 ? ", or none" : "");
    return refuse(row, text, complaint, allowed);
}

static int parse_pointer(const struct hx_setting_row *row, struct hx_span text,
                         struct hx_arena *arena, const char **slot, struct hx_complaint *complaint)
{
    if (!is_pointer(text))
        return refuse(row, text, complaint,
                      "give a JSON pointer into the arguments, such as /idempotency_key or "
                      "/order/id (~1 stands for a slash in a name, ~0 for a tilde)");
    return parse_text(row, text, arena, slot, complaint);
}

/* Splits at commas. Returns the next item and moves *rest. */
static struct hx_span next_item(struct hx_span *rest)
{
    size_t end = 0;
    while (end < rest->len && rest->ptr[end] != ',')
        end++;
    struct hx_span item = hx_span(rest->ptr, end);
    size_t skip = end < rest->len ? end + 1 : end;
    *rest = hx_span(rest->ptr + skip, rest->len - skip);
    while (item.len > 0 && item.ptr[0] == ' ')
        item = hx_span(item.ptr + 1, item.len - 1);
    while (item.len > 0 && item.ptr[item.len - 1] == ' ')
        item.len--;
    return item;
}

static size_t item_count(struct hx_span text)
{
    size_t count = 1;
    for (size_t i = 0; i < text.len; i++)
        count += text.ptr[i] == ',';
    return count;
}

static int parse_pointers(const struct hx_setting_row *row, struct hx_span text,
                          struct hx_arena *arena, struct hx_text_list *slot,
                          struct hx_complaint *complaint)
{
    struct hx_text_list list = {NULL, 0};
    if (item_count(text) > HX_CANON_IGNORE_MAX)
        return hx_complain(complaint, "%s: there are %zu of them; %d are the most", row->name,
                           item_count(text), HX_CANON_IGNORE_MAX);
    list.items = hx_arena_alloc(arena, item_count(text) * sizeof(*list.items));
    if (!list.items)
        return hx_complain(complaint, "%s: the settings are too long", row->name);
    struct hx_span rest = text;
    do {
        const char *pointer;
        int rc = parse_pointer(row, next_item(&rest), arena, &pointer, complaint);
        if (rc != 0)
            return rc;
        list.items[list.count] = hx_span_cstr(pointer);
        list.count++;
    } while (rest.len > 0);
    *slot = list;
    return 0;
}

/* Added to those that were said before: whoever names one member more does not mean to show the
 * others. */
static int parse_names(const struct hx_setting_row *row, struct hx_span text,
                       struct hx_arena *arena, struct hx_text_list *slot,
                       struct hx_complaint *complaint)
{
    size_t count_max = slot->count + item_count(text);
    if (count_max > HX_SETTING_NAMES_MAX)
        return hx_complain(complaint, "%s: there are %zu of them; %d are the most", row->name,
                           count_max, HX_SETTING_NAMES_MAX);
    struct hx_text_list list = {hx_arena_alloc(arena, count_max * sizeof(*list.items)), 0};
    if (!list.items)
        return hx_complain(complaint, "%s: the settings are too long", row->name);
    for (; list.count < slot->count; list.count++)
        list.items[list.count] = slot->items[list.count];
    struct hx_span rest = text;
    do {
        struct hx_span name = next_item(&rest);
        if (!hx_redact_name_is_good(name))
            return refuse(row, name, complaint,
                          "give names of members, comma between, such as password,api_key; each "
                          "holds at any depth and whatever its case, and none is a pointer or a "
                          "pattern");
        list.items[list.count] = hx_arena_dup(arena, name);
        if (hx_span_is_absent(list.items[list.count]))
            return hx_complain(complaint, "%s: the settings are too long", row->name);
        list.count++;
    } while (rest.len > 0);
    *slot = list;
    return 0;
}

static bool is_header_name(struct hx_span name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    for (size_t i = 0; i < name.len; i++)
        if (name.ptr[i] == '\0' || strchr(letters, name.ptr[i]) == NULL)
            return false;
    return name.len > 0 && name.len <= HX_RULE_HEADER_NAME_MAX;
}

static int parse_key_place(const struct hx_setting_row *row, struct hx_span text,
                           struct hx_arena *arena, struct hx_key_place *slot,
                           struct hx_complaint *complaint)
{
    struct hx_key_place place = {HX_KEY_PLACE_NONE, NULL};
    struct hx_span meta = HX_SPAN_LIT("_meta:");
    struct hx_span header = HX_SPAN_LIT("header:");
    struct hx_span name = text;
    if (hx_span_eq_cstr(text, "sep3182")) {
        place.kind = HX_KEY_PLACE_SEP3182;
    } else if (hx_span_starts_with(text, meta) && is_clean_text(text) && text.len > meta.len) {
        place.kind = HX_KEY_PLACE_META;
        name = hx_span(text.ptr + meta.len, text.len - meta.len);
    } else if (hx_span_starts_with(text, header) &&
               is_header_name(hx_span(text.ptr + header.len, text.len - header.len))) {
        place.kind = HX_KEY_PLACE_HEADER;
        name = hx_span(text.ptr + header.len, text.len - header.len);
    } else if (is_pointer(text)) {
        place.kind = HX_KEY_PLACE_POINTER;
    } else {
        return refuse(row, text, complaint,
                      "give a JSON pointer into the arguments (/idempotency_key), _meta:name, "
                      "header:Name (of a server over HTTP), or sep3182");
    }
    place.text = copy(arena, name);
    if (!place.text)
        return hx_complain(complaint, "%s: the settings are too long", row->name);
    *slot = place;
    return 0;
}

static int parse_error(const struct hx_setting_row *row, struct hx_span item,
                       struct hx_arena *arena, struct hx_no_effect_rule *ret_error,
                       struct hx_complaint *complaint)
{
    struct hx_span transient = HX_SPAN_LIT("transient:");
    struct hx_no_effect_rule error = {0};
    struct hx_span text = item;
    if (hx_span_starts_with(text, transient)) {
        error.is_transient = true;
        text = hx_span(text.ptr + transient.len, text.len - transient.len);
    }
    bool is_negative = text.len > 0 && text.ptr[0] == '-';
    struct hx_span digits = is_negative ? hx_span(text.ptr + 1, text.len - 1) : text;
    if (hx_whole_parse(digits, &error.code)) {
        error.is_code = true;
        error.code = is_negative ? -error.code : error.code;
        *ret_error = error;
        return 0;
    }
    /* A lone star would turn every failure into proof that nothing happened. */
    bool has_literal = false;
    for (size_t i = 0; i < text.len; i++)
        has_literal = has_literal || (text.ptr[i] != '*' && text.ptr[i] != '?');
    if (!has_literal || !is_clean_text(text))
        return refuse(row, item, complaint,
                      "give error codes (-32001) or patterns with some text of the error "
                      "(*insufficient funds*), comma between, 'transient:' in front of those worth "
                      "another try");
    error.pattern = copy(arena, text);
    if (!error.pattern)
        return hx_complain(complaint, "%s: the settings are too long", row->name);
    *ret_error = error;
    return 0;
}

static int parse_errors(const struct hx_setting_row *row, struct hx_span text,
                        struct hx_arena *arena, struct hx_no_effect_errors *slot,
                        struct hx_complaint *complaint)
{
    struct hx_no_effect_errors list = {NULL, 0};
    list.items = hx_arena_alloc(arena, item_count(text) * sizeof(*list.items));
    if (!list.items)
        return hx_complain(complaint, "%s: the settings are too long", row->name);
    struct hx_span rest = text;
    do {
        int rc = parse_error(row, next_item(&rest), arena, &list.items[list.count], complaint);
        if (rc != 0)
            return rc;
        list.count++;
    } while (rest.len > 0);
    *slot = list;
    return 0;
}

/* The next word of "when: /pointer OP value"; moves *rest behind it. */
static struct hx_span next_word(struct hx_span *rest)
{
    while (rest->len > 0 && rest->ptr[0] == ' ')
        *rest = hx_span(rest->ptr + 1, rest->len - 1);
    size_t end = 0;
    while (end < rest->len && rest->ptr[end] != ' ')
        end++;
    struct hx_span word = hx_span(rest->ptr, end);
    *rest = hx_span(rest->ptr + end, rest->len - end);
    return word;
}

static const char *const comparisons[] = {"==", "!=", "<", "<=", ">", ">="};
#define COMPARISON_COUNT (sizeof(comparisons) / sizeof(comparisons[0]))
_Static_assert(COMPARISON_COUNT == HX_CMP_GE + 1, "a comparison has no text");

const char *hx_comparison_text(enum hx_comparison comparison)
{
    return comparisons[comparison];
}

static bool parse_comparison(struct hx_span word, enum hx_comparison *ret_comparison)
{
    for (size_t i = 0; i < COMPARISON_COUNT; i++) {
        if (hx_span_eq_cstr(word, comparisons[i])) {
            *ret_comparison = (enum hx_comparison)i;
            return true;
        }
    }
    return false;
}

static int parse_approval(const struct hx_setting_row *row, struct hx_span text,
                          struct hx_arena *arena, struct hx_approval_rule *slot,
                          struct hx_complaint *complaint)
{
    static const char allowed[] =
        "say never, always, or a comparison such as 'when: /amount > 100' (== != < <= > >=)";
    struct hx_span when = HX_SPAN_LIT("when:");
    struct hx_approval_rule approval = {.kind = HX_APPROVAL_WHEN};
    if (hx_span_eq_cstr(text, "never") || hx_span_eq_cstr(text, "always")) {
        *slot = (struct hx_approval_rule){.kind = text.ptr[0] == 'n' ? HX_APPROVAL_NEVER
                                                                     : HX_APPROVAL_ALWAYS};
        return 0;
    }
    if (!hx_span_starts_with(text, when) || !is_clean_text(text))
        return refuse(row, text, complaint, allowed);
    struct hx_span rest = hx_span(text.ptr + when.len, text.len - when.len);
    struct hx_span pointer = next_word(&rest);
    struct hx_span op = next_word(&rest);
    while (rest.len > 0 && rest.ptr[0] == ' ')
        rest = hx_span(rest.ptr + 1, rest.len - 1);
    if (!is_pointer(pointer) || !parse_comparison(op, &approval.comparison) || rest.len == 0)
        return refuse(row, text, complaint, allowed);
    if (!hx_json_wanted_is_good(rest))
        return refuse(row, text, complaint,
                      "a value that begins with a quote must be a whole JSON string, such as "
                      "\"C:\\\\dir\" with two backslashes for one, and all of it UTF-8");
    approval.pointer = copy(arena, pointer);
    approval.value = copy(arena, rest);
    if (!approval.pointer || !approval.value)
        return hx_complain(complaint, "%s: the settings are too long", row->name);
    *slot = approval;
    return 0;
}

bool hx_probe_condition_parse(struct hx_span text, struct hx_probe_condition *ret_condition)
{
    struct hx_probe_condition condition = {0};
    struct hx_span rest = text;
    struct hx_span kind = next_word(&rest);
    if (hx_span_eq_cstr(kind, "text")) {
        while (rest.len > 0 && rest.ptr[0] == ' ')
            rest = hx_span(rest.ptr + 1, rest.len - 1);
        condition.kind = HX_PROBE_KIND_TEXT;
        condition.value = rest;
        *ret_condition = condition;
        return rest.len > 0;
    }
    bool is_count = hx_span_eq_cstr(kind, "count");
    if (!is_count && !hx_span_eq_cstr(kind, "value"))
        return false;
    condition.kind = is_count ? HX_PROBE_KIND_COUNT : HX_PROBE_KIND_VALUE;
    condition.pointer = next_word(&rest);
    if (!is_pointer(condition.pointer) ||
        !parse_comparison(next_word(&rest), &condition.comparison))
        return false;
    while (rest.len > 0 && rest.ptr[0] == ' ')
        rest = hx_span(rest.ptr + 1, rest.len - 1);
    condition.value = rest;
    *ret_condition = condition;
    return rest.len > 0 && hx_json_wanted_is_good(rest);
}

/* --- all types -----------------------------------------------------------------------------------
 */

size_t hx_value_size(enum hx_setting_type type)
{
    switch (type) {
    case HX_SETTING_TEXT:
    case HX_SETTING_POINTER:
        return sizeof(const char *);
    case HX_SETTING_FLAG:
        return sizeof(bool);
    case HX_SETTING_CHOICE:
        return sizeof(enum hx_choice);
    case HX_SETTING_DURATION:
    case HX_SETTING_COUNT_OF:
    case HX_SETTING_SIZE:
        return sizeof(int64_t);
    case HX_SETTING_POINTERS:
    case HX_SETTING_NAMES:
        return sizeof(struct hx_text_list);
    case HX_SETTING_KEY_PLACE:
        return sizeof(struct hx_key_place);
    case HX_SETTING_ERRORS:
        return sizeof(struct hx_no_effect_errors);
    case HX_SETTING_APPROVAL:
        return sizeof(struct hx_approval_rule);
    }
    hx_assert(false);
}

static void set_none(enum hx_setting_type type, void *slot)
{
    memset(slot, 0, hx_value_size(type));
    if (type == HX_SETTING_DURATION || type == HX_SETTING_COUNT_OF || type == HX_SETTING_SIZE)
        *(int64_t *)slot = HX_SETTING_NONE;
}

int hx_value_parse(const struct hx_setting_row *row, struct hx_span text, struct hx_arena *arena,
                   void *slot, struct hx_complaint *complaint)
{
    if (hx_span_eq_cstr(text, "none") && strcmp(row->initial, "none") == 0) {
        set_none(row->type, slot);
        return 0;
    }
    switch (row->type) {
    case HX_SETTING_TEXT:
        return parse_text(row, text, arena, slot, complaint);
    case HX_SETTING_FLAG:
        return parse_flag(row, text, slot, complaint);
    case HX_SETTING_CHOICE:
        return parse_choice(row, text, slot, complaint);
    case HX_SETTING_DURATION:
    case HX_SETTING_COUNT_OF:
    case HX_SETTING_SIZE:
        return parse_number(row, text, slot, complaint);
    case HX_SETTING_POINTER:
        return parse_pointer(row, text, arena, slot, complaint);
    case HX_SETTING_POINTERS:
        return parse_pointers(row, text, arena, slot, complaint);
    case HX_SETTING_NAMES:
        return parse_names(row, text, arena, slot, complaint);
    case HX_SETTING_KEY_PLACE:
        return parse_key_place(row, text, arena, slot, complaint);
    case HX_SETTING_ERRORS:
        return parse_errors(row, text, arena, slot, complaint);
    case HX_SETTING_APPROVAL:
        return parse_approval(row, text, arena, slot, complaint);
    }
    hx_assert(false);
}
