/* SPDX-License-Identifier: MIT */
/*
 * What is shown of arbitrary text when members are named.
 *
 *  - JSON stays JSON, with the same tokens before and behind what was taken out.
 *  - No member of a name, found by the tape and not by the scan, has a value of its own.
 *  - Shown again, nothing more is taken out.
 */
#include "base/arena.h"
#include "tests/fuzz/fuzz.h"
#include "json/redact.h"

static const struct hx_span items[] = {HX_SPAN_INIT("password"), HX_SPAN_INIT("a_b"),
                                       HX_SPAN_INIT("k")};
static const struct hx_redact_names names = {items, 3};

static bool is_named(const struct hx_json_tape *tape, uint32_t name, struct hx_arena *arena)
{
    struct hx_span said;
    hx_arena_reset(arena);
    if (hx_json_string(tape, name, arena, &said) != 0)
        return false;
    for (size_t i = 0; i < names.count; i++)
        if (hx_redact_name_eq(said, items[i]))
            return true;
    return false;
}

static void check_tokens(const struct hx_json_tape *before, const struct hx_json_tape *after)
{
    struct hx_arena arena;
    uint32_t at = 0, of = 0;
    hx_arena_init(&arena, 1 << 20);
    while (at < before->count) {
        hx_assert(of < after->count);
        const struct hx_json_token *old = hx_json_at(before, at), *shown = hx_json_at(after, of);
        bool is_taken = old->type == HX_JSON_NAME && is_named(before, at, &arena);
        hx_assert(old->type == shown->type);
        if (old->type == HX_JSON_NUMBER || old->type == HX_JSON_NAME)
            hx_assert(hx_span_eq(hx_json_raw(before, at), hx_json_raw(after, of)));
        if (is_taken)
            hx_assert(hx_span_eq_cstr(hx_json_content(after, of + 1), HX_REDACTED));
        at = is_taken ? hx_json_at(before, at + 1)->next : at + 1;
        of += is_taken ? 2 : 1;
    }
    hx_assert(of == after->count);
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
