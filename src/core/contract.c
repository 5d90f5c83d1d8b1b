/* SPDX-License-Identifier: MIT */
#include "core/contract.h"

#include <stddef.h>

#include "base/assert.h"

static const char *const class_names[] = {"opaque", "idempotent", "keyed", "probeable",
                                          "read_only"};
static const char *const repeat_names[] = {"lost", "window", "ask", "require_key", "separate"};
static const char *const fresh_key_names[] = {"warn", "ask", "refuse"};
static const char *const cancel_names[] = {"user", "never", "always"};
static const char *const approval_names[] = {"never", "always", "when"};
static const char *const bool_names[] = {"no", "yes"};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

_Static_assert(COUNT_OF(class_names) == HX_CLASS_READ_ONLY + 1, "a class has no name");
_Static_assert(COUNT_OF(repeat_names) == HX_REPEAT_SEPARATE + 1, "a repeat policy has no name");

struct hx_contract hx_contract_default(void)
{
    const int64_t minute_ms = 60 * 1000;
    const int64_t day_ms = 24 * 60 * minute_ms;
    return (struct hx_contract){
        .attempts_max = 5,
        .orphan_timeout_ms = 15 * minute_ms,
        .join_wait_ms = 45 * 1000,
        .repeat_window_ms = 15 * minute_ms,
        .overlap_ms = 500,
        .dedupe_horizon_ms = HX_UNDECLARED_MS,
        .in_flight_bound_ms = HX_UNDECLARED_MS,
        .payload_retention_ms = 7 * day_ms,
        .row_retention_ms = 30 * day_ms,
    };
}

/* The text form is a table: one row per field, either a word out of a list or a number. */
struct field {
    const char *name;
    size_t offset;
    const char *const *words; /* NULL = a number */
    unsigned word_count;
    enum { FIELD_ENUM, FIELD_BOOL, FIELD_U32, FIELD_MS } type;
};

#define ENUM_FIELD(member, words)                                                                  \
    {                                                                                              \
#member, offsetof(struct hx_contract, member), words, COUNT_OF(words), FIELD_ENUM          \
    }
#define BOOL_FIELD(member)                                                                         \
    {                                                                                              \
#member, offsetof(struct hx_contract, member), bool_names, 2, FIELD_BOOL                   \
    }
#define MS_FIELD(member)                                                                           \
    {                                                                                              \
#member, offsetof(struct hx_contract, member), NULL, 0, FIELD_MS                           \
    }

static const struct field fields[] = {
    ENUM_FIELD(tool_class, class_names),
    ENUM_FIELD(repeat, repeat_names),
    ENUM_FIELD(fresh_key, fresh_key_names),
    ENUM_FIELD(cancel_upstream, cancel_names),
    ENUM_FIELD(approval, approval_names),
    BOOL_FIELD(is_reorder_safe),
    BOOL_FIELD(has_probe),
    BOOL_FIELD(retries_after_proof),
    {"attempts_max", offsetof(struct hx_contract, attempts_max), NULL, 0, FIELD_U32},
    MS_FIELD(timeout_ms),
    MS_FIELD(idle_timeout_ms),
    MS_FIELD(orphan_timeout_ms),
    MS_FIELD(join_wait_ms),
    MS_FIELD(repeat_window_ms),
    MS_FIELD(overlap_ms),
    MS_FIELD(dedupe_horizon_ms),
    MS_FIELD(in_flight_bound_ms),
    MS_FIELD(visibility_lag_ms),
    MS_FIELD(payload_retention_ms),
    MS_FIELD(row_retention_ms),
    MS_FIELD(target),
};

static int64_t field_get(const struct hx_contract *contract, const struct field *field)
{
    const char *at = (const char *)contract + field->offset;
    switch (field->type) {
    case FIELD_ENUM: {
        unsigned value;
        memcpy(&value, at, sizeof(value));
        return value;
    }
    case FIELD_BOOL:
        return *(const bool *)at ? 1 : 0;
    case FIELD_U32: {
        uint32_t value;
        memcpy(&value, at, sizeof(value));
        return value;
    }
    case FIELD_MS: {
        int64_t value;
        memcpy(&value, at, sizeof(value));
        return value;
    }
    }
    hx_assert(!"field type");
    return 0;
}

bool hx_contract_eq(const struct hx_contract *a, const struct hx_contract *b)
{
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        if (field_get(a, &fields[i]) != field_get(b, &fields[i]))
            return false;
    }
    return true;
}

static void field_set(struct hx_contract *contract, const struct field *field, int64_t value)
{
    char *at = (char *)contract + field->offset;
    if (field->type == FIELD_MS) {
        memcpy(at, &value, sizeof(value));
    } else if (field->type == FIELD_BOOL) {
        *(bool *)at = value != 0;
    } else {
        uint32_t narrow = (uint32_t)value;
        memcpy(at, &narrow, sizeof(narrow));
    }
}

_Static_assert(sizeof(enum hx_tool_class) == sizeof(uint32_t), "enum fields are read as 32 bits");

void hx_contract_format(const struct hx_contract *contract, struct hx_buf *ret_text)
{
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        const struct field *field = &fields[i];
        int64_t value = field_get(contract, field);
        const char *gap = i == 0 ? "" : " ";
        if (field->words != NULL)
            (void)hx_buf_printf(ret_text, "%s%s=%s", gap, field->name, field->words[value]);
        else
            (void)hx_buf_printf(ret_text, "%s%s=%lld", gap, field->name, (long long)value);
    }
}

static bool parse_word(struct hx_span text, const char *const *words, unsigned count,
                       int64_t *ret_value)
{
    for (unsigned i = 0; i < count; i++) {
        if (hx_span_eq_cstr(text, words[i])) {
            *ret_value = i;
            return true;
        }
    }
    return false;
}

static bool parse_number(struct hx_span text, int64_t *ret_value)
{
    bool is_negative = text.len > 0 && text.ptr[0] == '-';
    size_t at = is_negative;
    if (at == text.len || text.len > 18)
        return false;
    int64_t value = 0;
    for (; at < text.len; at++) {
        if (text.ptr[at] < '0' || text.ptr[at] > '9')
            return false;
        value = value * 10 + (text.ptr[at] - '0');
    }
    *ret_value = is_negative ? -value : value;
    return *ret_value >= HX_UNDECLARED_MS; /* the one negative number that means something */
}

static void apply_pair(struct hx_contract *contract, struct hx_span name, struct hx_span text)
{
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        const struct field *field = &fields[i];
        if (!hx_span_eq_cstr(name, field->name))
            continue;
        int64_t value;
        bool is_read = field->words != NULL
                           ? parse_word(text, field->words, field->word_count, &value)
                           : parse_number(text, &value);
        bool is_in_range = field->type != FIELD_U32 || (value >= 0 && value <= UINT32_MAX);
        if (is_read && is_in_range)
            field_set(contract, field, value);
        return;
    }
}

struct hx_contract hx_contract_parse(struct hx_span text)
{
    struct hx_contract contract = hx_contract_default();
    size_t at = 0;
    while (at < text.len) {
        size_t end = at;
        while (end < text.len && text.ptr[end] != ' ')
            end++;
        const char *equals = memchr(text.ptr + at, '=', end - at);
        if (equals != NULL) {
            size_t name_len = (size_t)(equals - (text.ptr + at));
            apply_pair(&contract, hx_span(text.ptr + at, name_len),
                       hx_span(equals + 1, end - at - name_len - 1));
        }
        at = end + 1;
    }
    return contract;
}

const char *hx_tool_class_name(enum hx_tool_class tool_class)
{
    return class_names[tool_class];
}

const char *hx_repeat_name(enum hx_repeat repeat)
{
    return repeat_names[repeat];
}

bool hx_tool_class_parse(struct hx_span text, enum hx_tool_class *ret_class)
{
    int64_t value;
    if (!parse_word(text, class_names, COUNT_OF(class_names), &value))
        return false;
    *ret_class = (enum hx_tool_class)value;
    return true;
}

bool hx_repeat_parse(struct hx_span text, enum hx_repeat *ret_repeat)
{
    int64_t value;
    if (!parse_word(text, repeat_names, COUNT_OF(repeat_names), &value))
        return false;
    *ret_repeat = (enum hx_repeat)value;
    return true;
}
