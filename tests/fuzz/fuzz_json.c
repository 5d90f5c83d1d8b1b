/* SPDX-License-Identifier: MIT */
/*
 * The reader and the splicer under arbitrary bytes.
 *
 *  - The slices of the tape, joined with what is between them, are the text again; each slice read
 *    alone is accepted with the same type.
 *  - Reading with a shallow record depth accepts the same texts.
 *  - A splice without edits gives the text; after any edits the answer is JSON, with what was set.
 */
#include "tests/fuzz/fuzz.h"
#include "json/splice.h"
#include "json/text.h"

/* Appends the text between `from` and `to`, which may hold only white space and the one `mark`. */
static void put_gap(struct hx_buf *out, struct hx_span text, size_t from, size_t to, char mark)
{
    unsigned marks = 0;
    hx_assert(from <= to);
    hx_assert(to <= text.len);
    for (size_t i = from; i < to; i++) {
        bool is_mark = text.ptr[i] == mark;
        hx_assert(is_mark || strchr(" \t\r\n", text.ptr[i]) != NULL);
        marks += is_mark;
    }
    hx_assert(marks == (mark != '\0'));
    hx_assert(hx_buf_append(out, text.ptr + from, to - from) == 0);
}

/* Appends the value at `index` by its parts and returns where it ends in the text. */
static size_t put_parts(struct hx_buf *out, const struct hx_json_tape *tape, uint32_t index)
{
    const struct hx_json_token *token = hx_json_at(tape, index);
    bool is_object = token->type == HX_JSON_OBJECT;
    size_t end = (size_t)token->offset + token->len;
    if (!is_object && token->type != HX_JSON_ARRAY) {
        hx_assert(token->next == index + 1);
        hx_assert(hx_buf_append_span(out, hx_json_raw(tape, index)) == 0);
        return end;
    }
    size_t at = token->offset;
    char mark = is_object ? '{' : '[';
    uint32_t count = 0;
    uint32_t next = index + 1;
    hx_json_for_each(child, tape, index)
    {
        hx_assert(child == next);
        put_gap(out, tape->text, at, hx_json_at(tape, child)->offset, mark);
        at = put_parts(out, tape, child);
        uint32_t value = child;
        if (is_object) {
            value = child + 1;
            put_gap(out, tape->text, at, hx_json_at(tape, value)->offset, ':');
            at = put_parts(out, tape, value);
        }
        next = hx_json_at(tape, value)->next;
        mark = ',';
        count++;
    }
    hx_assert(count == token->count);
    hx_assert(next == token->next);
    if (count == 0)
        put_gap(out, tape->text, at, at + 1, mark), at++;
    put_gap(out, tape->text, at, end, is_object ? '}' : ']');
    return end;
}

static void check_slices(const struct hx_json_tape *tape)
{
    struct hx_buf out;
    hx_buf_init(&out, tape->text.len + 1);
    put_gap(&out, tape->text, 0, hx_json_at(tape, 0)->offset, '\0');
    size_t end = put_parts(&out, tape, 0);
    put_gap(&out, tape->text, end, tape->text.len, '\0');
    hx_assert(hx_span_eq(hx_buf_span(&out), tape->text));
    hx_buf_fini(&out);

    struct hx_json_tape alone;
    hx_json_tape_init(&alone);
    for (uint32_t i = 0; i < tape->count && i < 64; i++) {
        int rc = hx_json_read(&alone, hx_json_raw(tape, i), &fuzz_limits);
        uint8_t type = hx_json_at(tape, i)->type;
        hx_assert(rc == 0);
        hx_assert(hx_json_at(&alone, 0)->type == (type == HX_JSON_NAME ? HX_JSON_STRING : type));
        hx_assert(hx_json_at(&alone, 0)->flags == hx_json_at(tape, i)->flags);
    }
    hx_json_tape_fini(&alone);
}

static void check_shallow(struct hx_span text, const struct hx_json_tape *deep, int outcome)
{
    struct hx_json_tape tape;
    hx_json_tape_init(&tape);
    for (uint32_t depth = 1; depth <= 3; depth++) {
        struct hx_json_limits limits = fuzz_limits;
        limits.record_depth_max = depth;
        limits.elements_max = depth - 1; /* 0 is any number */
        int rc = hx_json_read(&tape, text, &limits);
        hx_assert(outcome == HX_JSON_TOO_MANY || rc == outcome);
        hx_assert(outcome == HX_JSON_TOO_MANY || tape.error_offset == deep->error_offset);
        hx_assert(outcome != 0 || tape.has_lone_surrogates == deep->has_lone_surrogates);
        hx_assert(outcome != 0 || hx_json_at(&tape, 0)->count == hx_json_at(deep, 0)->count);
    }
    hx_json_tape_fini(&tape);
}

/* Random edits of random objects. */
static void edit(struct hx_splice *splice, struct fuzz_dice *dice)
{
    static const struct hx_span names[] = {HX_SPAN_INIT("a"), HX_SPAN_INIT("_meta"),
                                           HX_SPAN_INIT("")};
    const struct hx_json_tape *tape = splice->tape;
    for (uint32_t left = fuzz_roll(dice, 8); left > 0; left--) {
        uint32_t index = fuzz_roll(dice, tape->count);
        struct hx_span path[] = {names[fuzz_roll(dice, 3)], names[fuzz_roll(dice, 3)]};
        uint32_t path_count = 1 + fuzz_roll(dice, 2);
        int rc = 0;
        if (hx_json_is(tape, index, HX_JSON_ARRAY)) {
            rc = hx_splice_append(splice, index, HX_SPAN_LIT("\"new\""));
        } else if (hx_json_is(tape, index, HX_JSON_OBJECT) && fuzz_roll(dice, 2)) {
            rc = hx_splice_set(splice, index, path, path_count, HX_SPAN_LIT("{\"set\":1}"));
        } else if (hx_json_is(tape, index, HX_JSON_OBJECT) && tape->count > index + 2 &&
                   hx_json_at(tape, index)->count > 0 && fuzz_roll(dice, 2)) {
            rc = hx_splice_remove(splice, index, index + 2);
        } else if (hx_json_is(tape, index, HX_JSON_OBJECT)) {
            rc = hx_splice_unset(splice, index, path, path_count, fuzz_roll(dice, 2) != 0);
        } else if (!hx_json_is(tape, index, HX_JSON_NAME)) {
            rc = hx_splice_replace(splice, index, HX_SPAN_LIT("[7]"));
        }
        hx_assert(rc == 0 || rc == HX_SPLICE_NOT_OBJECT);
    }
}

static void check_splice(const struct hx_json_tape *tape, struct fuzz_dice dice)
{
    struct hx_arena arena;
    struct hx_buf out;
    struct hx_splice splice;
    struct hx_json_tape edited;
    hx_arena_init(&arena, 1 << 20);
    hx_buf_init(&out, tape->text.len + 4096);
    hx_json_tape_init(&edited);

    hx_splice_init(&splice, tape, &arena);
    hx_assert(hx_splice_emit(&splice, &out) == 0);
    hx_assert(hx_span_eq(hx_buf_span(&out), tape->text));

    hx_buf_reset(&out);
    hx_splice_init(&splice, tape, &arena);
    edit(&splice, &dice);
    struct hx_json_limits limits = fuzz_limits;
    limits.depth_max += 4; /* what was set may stand below the deepest value */
    limits.tokens_max *= 2;
    limits.text_max *= 2;
    hx_assert(hx_splice_emit(&splice, &out) == 0);
    hx_assert(hx_json_read(&edited, hx_buf_span(&out), &limits) == 0);

    /* A root member set last is there with its value. */
    if (hx_json_is(tape, 0, HX_JSON_OBJECT)) {
        const struct hx_span name = HX_SPAN_INIT("b");
        hx_buf_reset(&out);
        hx_splice_init(&splice, tape, &arena);
        edit(&splice, &dice);
        hx_assert(hx_splice_set(&splice, 0, &name, 1, HX_SPAN_LIT("\"x\"")) == 0);
        hx_assert(hx_splice_emit(&splice, &out) == 0);
        hx_assert(hx_json_read(&edited, hx_buf_span(&out), &limits) == 0);
        bool is_replaced = hx_json_is(&edited, 0, HX_JSON_ARRAY); /* the root itself was */
        hx_assert(is_replaced ||
                  hx_json_is_text(&edited, hx_json_member(&edited, 0, name), HX_SPAN_LIT("x")));
    }
    hx_json_tape_fini(&edited);
    hx_buf_fini(&out);
    hx_arena_fini(&arena);
}

/* Strings decode to what quoting them again spells. */
static void check_strings(const struct hx_json_tape *tape)
{
    struct hx_arena arena;
    hx_arena_init(&arena, 4 << 20);
    for (uint32_t i = 0; i < tape->count && i < 64; i++) {
        if (hx_json_at(tape, i)->type != HX_JSON_STRING &&
            hx_json_at(tape, i)->type != HX_JSON_NAME)
            continue;
        struct hx_span text;
        bool is_lone = (hx_json_at(tape, i)->flags & HX_JSON_HAS_LONE_SURROGATE) != 0;
        int rc = hx_json_string(tape, i, &arena, &text);
        hx_assert(rc == (is_lone ? HX_JSON_TEXT_LONE_SURROGATE : 0));
        if (is_lone)
            continue;
        struct hx_buf quoted;
        hx_buf_init(&quoted, 6 * text.len + 2);
        hx_json_text_quote(&quoted, text);
        hx_assert(hx_buf_ok(&quoted));
        struct hx_span content = hx_span(quoted.data + 1, quoted.len - 2);
        hx_assert(hx_json_text_compare(content, hx_json_content(tape, i)) == 0);
        hx_assert(hx_json_is_text(tape, i, text));
        hx_buf_fini(&quoted);
    }
    hx_arena_fini(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hx_json_tape tape;
    struct hx_span text = hx_span((const char *)data, size);
    hx_json_tape_init(&tape);
    int rc = hx_json_read(&tape, text, &fuzz_limits);
    hx_assert(rc >= 0);
    hx_assert(tape.error_offset <= size);
    check_shallow(text, &tape, rc);
    if (rc == 0) {
        check_slices(&tape);
        check_strings(&tape);
        check_splice(&tape, fuzz_dice(data, size));
    }
    hx_json_tape_fini(&tape);
    return 0;
}
