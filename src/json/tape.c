/* SPDX-License-Identifier: MIT */
#include "json/tape.h"

#include "base/alloc.h"
#include "json/scan.h"
#include "json/text.h"

void hx_json_tape_init(struct hx_json_tape *tape)
{
    *tape = (struct hx_json_tape){0};
}

void hx_json_tape_fini(struct hx_json_tape *tape)
{
    if (tape == NULL)
        return;
    hx_free(tape->tokens);
    hx_free(tape->order);
    hx_json_tape_init(tape);
}

void hx_json_tape_trim(struct hx_json_tape *tape, uint32_t tokens_kept)
{
    if (tape->capacity > tokens_kept || tape->order_capacity > tokens_kept)
        hx_json_tape_fini(tape);
}

struct hx_span hx_json_raw(const struct hx_json_tape *tape, uint32_t index)
{
    if (index == HX_JSON_NONE)
        return HX_SPAN_NONE;
    const struct hx_json_token *token = hx_json_at(tape, index);
    return hx_span(tape->text.ptr + token->offset, token->len);
}

struct hx_span hx_json_content(const struct hx_json_tape *tape, uint32_t index)
{
    const struct hx_json_token *token = hx_json_at(tape, index);
    hx_assert(token->type == HX_JSON_STRING || token->type == HX_JSON_NAME);
    return hx_span(tape->text.ptr + token->offset + 1, token->len - 2);
}

bool hx_json_is_text(const struct hx_json_tape *tape, uint32_t index, struct hx_span text)
{
    if (index == HX_JSON_NONE)
        return false;
    const struct hx_json_token *token = hx_json_at(tape, index);
    if (token->type != HX_JSON_STRING && token->type != HX_JSON_NAME)
        return false;
    struct hx_span content = hx_json_content(tape, index);
    if ((token->flags & HX_JSON_HAS_ESCAPES) == 0)
        return hx_span_eq(content, text);
    return hx_json_text_eq(content, text);
}

uint32_t hx_json_member(const struct hx_json_tape *tape, uint32_t object, struct hx_span name)
{
    if (!hx_json_is(tape, object, HX_JSON_OBJECT))
        return HX_JSON_NONE;
    hx_json_for_each(at, tape, object)
    {
        if (hx_json_is_text(tape, at, name))
            return at + 1;
    }
    return HX_JSON_NONE;
}

uint32_t hx_json_member_of(const struct hx_json_tape *tape, uint32_t object, struct hx_span name,
                           enum hx_json_type type)
{
    uint32_t value = hx_json_member(tape, object, name);
    return hx_json_is(tape, value, type) ? value : HX_JSON_NONE;
}

uint32_t hx_json_first(const struct hx_json_tape *tape, uint32_t container)
{
    if (container == HX_JSON_NONE)
        return HX_JSON_NONE;
    const struct hx_json_token *token = hx_json_at(tape, container);
    if (token->type != HX_JSON_ARRAY && token->type != HX_JSON_OBJECT)
        return HX_JSON_NONE;
    return token->next > container + 1 ? container + 1 : HX_JSON_NONE;
}

uint32_t hx_json_next(const struct hx_json_tape *tape, uint32_t container, uint32_t child)
{
    const struct hx_json_token *token = hx_json_at(tape, child);
    if (token->type == HX_JSON_NAME)
        token = hx_json_at(tape, child + 1);
    return token->next < hx_json_at(tape, container)->next ? token->next : HX_JSON_NONE;
}

int hx_json_string(const struct hx_json_tape *tape, uint32_t index, struct hx_arena *arena,
                   struct hx_span *ret_text)
{
    return hx_json_text_decode(hx_json_content(tape, index), arena, ret_text);
}

bool hx_json_int64(const struct hx_json_tape *tape, uint32_t index, int64_t *ret_value)
{
    if (!hx_json_is(tape, index, HX_JSON_NUMBER))
        return false;
    struct hx_span raw = hx_json_raw(tape, index);
    bool is_negative = raw.ptr[0] == '-';
    /* Counted downwards, since the negative side reaches one further. */
    int64_t value = 0;
    for (size_t i = is_negative ? 1 : 0; i < raw.len; i++) {
        if (!hx_json_is_digit((unsigned char)raw.ptr[i]))
            return false;
        if (__builtin_mul_overflow(value, (int64_t)10, &value) ||
            __builtin_sub_overflow(value, (int64_t)(raw.ptr[i] - '0'), &value))
            return false;
    }
    if (!is_negative && __builtin_sub_overflow((int64_t)0, value, &value))
        return false;
    *ret_value = value;
    return true;
}

bool hx_json_bool(const struct hx_json_tape *tape, uint32_t index, bool *ret_value)
{
    bool is_true = hx_json_is(tape, index, HX_JSON_TRUE);
    if (!is_true && !hx_json_is(tape, index, HX_JSON_FALSE))
        return false;
    *ret_value = is_true;
    return true;
}

static int names_compare(const struct hx_json_tape *tape, uint32_t a, uint32_t b)
{
    return hx_json_text_compare(hx_json_content(tape, a), hx_json_content(tape, b));
}

static void sift_down(const struct hx_json_tape *tape, uint32_t *names, uint32_t root,
                      uint32_t count)
{
    for (;;) {
        uint32_t child = 2 * root + 1;
        if (child >= count)
            return;
        if (child + 1 < count && names_compare(tape, names[child], names[child + 1]) < 0)
            child++;
        if (names_compare(tape, names[root], names[child]) >= 0)
            return;
        uint32_t name = names[root];
        names[root] = names[child];
        names[child] = name;
        root = child;
    }
}

/* Small objects come mostly in order already. */
static void insertion_sort(const struct hx_json_tape *tape, uint32_t *names, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        uint32_t name = names[i];
        uint32_t at = i;
        for (; at > 0 && names_compare(tape, names[at - 1], name) > 0; at--)
            names[at] = names[at - 1];
        names[at] = name;
    }
}

/* Heap sort: peers choose the names, so a sort with a bad worst case is a way to stall us. */
bool hx_json_names_sort(const struct hx_json_tape *tape, uint32_t *names, uint32_t count)
{
    if (count <= 12) {
        insertion_sort(tape, names, count);
    } else {
        for (uint32_t root = count / 2; root-- > 0;)
            sift_down(tape, names, root, count);
        for (uint32_t last = count; last-- > 1;) {
            uint32_t name = names[0];
            names[0] = names[last];
            names[last] = name;
            sift_down(tape, names, 0, last);
        }
    }
    for (uint32_t i = 1; i < count; i++) {
        if (names_compare(tape, names[i - 1], names[i]) == 0)
            return true;
    }
    return false;
}
