/* SPDX-License-Identifier: MIT */
/*
 * What is shown of arbitrary text when members are named.
 *
 *  - JSON stays JSON, with the same tokens before and behind what was taken out.
 *  - No member of a name, found by the tape and not by the scan, has a value of its own; nor has
 *    the value beside a name ({"name":"k","value":1}), nor what follows an option (["--k",1]).
 *  - Shown again, nothing more is taken out.
 */
#include "base/alloc.h"
#include "base/arena.h"
#include "tests/fuzz/fuzz.h"
#include "json/redact.h"

static const struct hx_span items[] = {HX_SPAN_INIT("password"), HX_SPAN_INIT("a_b"),
                                       HX_SPAN_INIT("k")};
static const struct hx_redact_names names = {items, 3};

static const struct hx_span namers[] = {HX_SPAN_INIT("name"), HX_SPAN_INIT("key"),
                                        HX_SPAN_INIT("header"), HX_SPAN_INIT("field")};
static const struct hx_span valuers[] = {HX_SPAN_INIT("value"), HX_SPAN_INIT("values")};

static bool says(const struct hx_json_tape *tape, uint32_t at, const struct hx_span *words,
                 size_t count, struct hx_arena *arena)
{
    struct hx_span said;
    hx_arena_reset(arena);
    if (hx_json_string(tape, at, arena, &said) != 0)
        return false;
    for (size_t i = 0; i < count; i++)
        if (hx_redact_name_eq(said, words[i]))
            return true;
    return false;
}

static bool is_named(const struct hx_json_tape *tape, uint32_t at, struct hx_arena *arena)
{
    return says(tape, at, items, names.count, arena);
}

/* Marks the values that are to be taken out, by the tape. */
static void mark_object(const struct hx_json_tape *tape, uint32_t object, struct hx_arena *arena,
                        bool *taken)
{
    bool is_pair = false;
    hx_json_for_each(at, tape, object)
    {
        is_pair = is_pair || (hx_json_is(tape, at + 1, HX_JSON_STRING) &&
                              says(tape, at, namers, 4, arena) && is_named(tape, at + 1, arena));
    }
    hx_json_for_each(at, tape, object)
    {
        taken[at + 1] = is_named(tape, at, arena) || (is_pair && says(tape, at, valuers, 2, arena));
    }
}

static void mark_array(const struct hx_json_tape *tape, uint32_t array, struct hx_arena *arena,
                       bool *taken)
{
    bool is_after_option = false;
    hx_json_for_each(at, tape, array)
    {
        taken[at] = is_after_option;
        is_after_option = hx_json_is(tape, at, HX_JSON_STRING) &&
                          hx_span_starts_with(hx_json_content(tape, at), HX_SPAN_LIT("-")) &&
                          is_named(tape, at, arena);
    }
}

static bool *mark(const struct hx_json_tape *tape, struct hx_arena *arena)
{
    bool *taken = hx_new_bytes(tape->count * sizeof(bool));
    for (uint32_t at = 0; at < tape->count; at++) {
        if (hx_json_is(tape, at, HX_JSON_OBJECT))
            mark_object(tape, at, arena, taken);
        else if (hx_json_is(tape, at, HX_JSON_ARRAY))
            mark_array(tape, at, arena, taken);
    }
    return taken;
}

static void check_tokens(const struct hx_json_tape *before, const struct hx_json_tape *after)
{
    struct hx_arena arena;
    uint32_t at = 0, of = 0;
    hx_arena_init(&arena, 1 << 20);
    bool *taken = mark(before, &arena);
    while (at < before->count) {
        hx_assert(of < after->count);
        const struct hx_json_token *old = hx_json_at(before, at), *shown = hx_json_at(after, of);
        if (taken[at]) {
            hx_assert(shown->type == HX_JSON_STRING);
            hx_assert(hx_span_eq_cstr(hx_json_content(after, of), HX_REDACTED));
            at = old->next;
            of++;
            continue;
        }
        hx_assert(old->type == shown->type);
        if (old->type == HX_JSON_NUMBER || old->type == HX_JSON_NAME)
            hx_assert(hx_span_eq(hx_json_raw(before, at), hx_json_raw(after, of)));
        at++;
        of++;
    }
    hx_assert(of == after->count);
    hx_free(taken);
    hx_arena_fini(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hx_json_tape before, after;
    struct hx_buf once, twice;
    struct hx_span text = hx_span((const char *)data, size);
    struct hx_json_limits limits = fuzz_limits;
    if (size > 1 << 16)
        return 0;
    limits.text_max *= 8;
    hx_json_tape_init(&before);
    hx_json_tape_init(&after);
    hx_buf_init(&once, limits.text_max);
    hx_buf_init(&twice, limits.text_max);
    int rc = hx_redact(&names, text, &once);
    hx_assert(rc >= 0);
    if (rc == 0) {
        hx_assert(hx_redact(&names, hx_buf_span(&once), &twice) == HX_REDACT_UNTOUCHED);
        text = hx_buf_span(&once);
    }
    if (hx_json_read(&before, hx_span((const char *)data, size), &fuzz_limits) == 0) {
        hx_assert(hx_json_read(&after, text, &limits) == 0);
        check_tokens(&before, &after);
    }
    hx_buf_fini(&twice);
    hx_buf_fini(&once);
    hx_json_tape_fini(&after);
    hx_json_tape_fini(&before);
    return 0;
}
