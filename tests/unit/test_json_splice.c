/* SPDX-License-Identifier: MIT */
/* Edits change what they name and nothing else. Each case is compared byte for byte. */
#include "tests/kit/text_kit.h"
#include "json/reader.h"
#include "json/splice.h"

static const struct hx_json_limits limits = {
    .depth_max = 128, .tokens_max = 100000, .text_max = 1 << 20};

struct bench {
    struct hx_json_tape tape;
    struct hx_arena arena;
    struct hx_splice splice;
    struct hx_buf out;
};

static void bench_init(struct bench *bench, const char *text)
{
    hx_json_tape_init(&bench->tape);
    hx_arena_init(&bench->arena, 1 << 20);
    hx_buf_init(&bench->out, 1 << 20);
    assert_int_equal(hx_json_read(&bench->tape, hx_span_cstr(text), &limits), 0);
    hx_splice_init(&bench->splice, &bench->tape, &bench->arena);
}

/* Emits, compares, checks that the answer is JSON, and ends the bench. */
static void bench_expect(struct bench *bench, const char *expected)
{
    assert_int_equal(hx_splice_emit(&bench->splice, &bench->out), 0);
    assert_span_equal(hx_buf_span(&bench->out), expected);
    assert_int_equal(hx_json_read(&bench->tape, hx_buf_span(&bench->out), &limits), 0);
    hx_json_tape_fini(&bench->tape);
    hx_arena_fini(&bench->arena);
    hx_buf_fini(&bench->out);
}

/* Every subset of the members of one object removed, with and without one added. */
static void any_members_can_go(void **state)
{
    static const char *const texts[] = {"{\"a\":1,\"b\":[2],\"c\":{\"x\":3},\"d\":4}",
                                        "{ \"a\" : 1 , \"b\":[2] ,\n\"c\":{\"x\":3} , \"d\" :4 }"};
    for (size_t t = 0; t < 2; t++) {
        for (unsigned subset = 0; subset < 32; subset++) {
            struct bench bench;
            bench_init(&bench, texts[t]);
            /* Noted in backward order on purpose. */
            for (int i = 3; i >= 0; i--) {
                const struct hx_span name = hx_span(&"abcd"[i], 1);
                if (subset & (1u << i))
                    assert_int_equal(hx_splice_unset(&bench.splice, 0, &name, 1, false), 0);
            }
            const struct hx_span added = HX_SPAN_LIT("new");
            bool adds = (subset & 16) != 0;
            if (adds)
                assert_int_equal(hx_splice_set(&bench.splice, 0, &added, 1, HX_SPAN_LIT("5")), 0);
            assert_int_equal(hx_splice_emit(&bench.splice, &bench.out), 0);
            if (hx_json_read(&bench.tape, hx_buf_span(&bench.out), &limits) != 0)
                print_error("not JSON: %.*s\n", HX_SPAN_FMT(hx_buf_span(&bench.out)));
            assert_int_equal(hx_json_read(&bench.tape, hx_buf_span(&bench.out), &limits), 0);
            unsigned left = 4 - (unsigned)__builtin_popcount(subset & 15) + adds;
            assert_int_equal(hx_json_at(&bench.tape, 0)->count, left);
            for (int i = 0; i < 4; i++) {
                bool is_there =
                    hx_json_member(&bench.tape, 0, hx_span(&"abcd"[i], 1)) != HX_JSON_NONE;
                assert_int_equal(is_there, (subset & (1u << i)) == 0);
            }
            hx_json_tape_fini(&bench.tape);
            hx_arena_fini(&bench.arena);
            hx_buf_fini(&bench.out);
        }
    }
}

static void removal_takes_one_comma(void **state)
{
    static const struct {
        const char *text;
        const char *name;
        const char *expected;
    } cases[] = {
        {"{\"a\":1,\"b\":2,\"c\":3}", "a", "{\"b\":2,\"c\":3}"},
        {"{\"a\":1,\"b\":2,\"c\":3}", "b", "{\"a\":1,\"c\":3}"},
        {"{\"a\":1,\"b\":2,\"c\":3}", "c", "{\"a\":1,\"b\":2}"},
        {"{\"a\":1}", "a", "{}"},
        {"{ \"a\" : 1 }", "a", "{  }"},
        {"{ \"a\":1 , \"b\":2 }", "a", "{ \"b\":2 }"},
        {"{ \"a\":1 , \"b\":2 }", "b", "{ \"a\":1 }"},
        {"{\"a\":1,\"\\u0061\":2,\"b\":3,\"a\":4}", "a", "{\"b\":3}"},
        {"{\"b\":1,\"a\":2,\"a\":3}", "a", "{\"b\":1}"},
        {"{\"b\":1}", "a", "{\"b\":1}"},
        {"[]", "a", "[]"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bench bench;
        const struct hx_span name = hx_span_cstr(cases[i].name);
        bench_init(&bench, cases[i].text);
        assert_int_equal(hx_splice_unset(&bench.splice, 0, &name, 1, false), 0);
        bench_expect(&bench, cases[i].expected);
    }
}

static void setting_makes_parents(void **state)
{
    static const struct {
        const char *text;
        const char *expected; /* NULL: refused */
    } cases[] = {
        {"{}", "{\"_meta\":{\"k\":\"v\"}}"},
        {"{ }", "{\"_meta\":{\"k\":\"v\"} }"},
        {"{\"a\":1}", "{\"a\":1,\"_meta\":{\"k\":\"v\"}}"},
        {"{\"a\":1\n}", "{\"a\":1,\"_meta\":{\"k\":\"v\"}\n}"},
        {"{\"_meta\":{}}", "{\"_meta\":{\"k\":\"v\"}}"},
        {"{\"_meta\":{\"x\":1.0}}", "{\"_meta\":{\"x\":1.0,\"k\":\"v\"}}"},
        {"{\"_meta\":{\"k\":[1, 2]},\"z\":0}", "{\"_meta\":{\"k\":\"v\"},\"z\":0}"},
        {"{\"_m\\u0065ta\":{\"\\u006b\":[1, 2]}}", "{\"_m\\u0065ta\":{\"\\u006b\":\"v\"}}"},
        {"{\"_meta\":null,\"z\":0}", "{\"_meta\":{\"k\":\"v\"},\"z\":0}"},
        {"{\"_meta\":3}", NULL},
        {"{\"_meta\":[]}", NULL},
        {"[]", NULL},
    };
    const struct hx_span path[] = {HX_SPAN_LIT("_meta"), HX_SPAN_LIT("k")};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bench bench;
        bench_init(&bench, cases[i].text);
        int rc = hx_splice_set(&bench.splice, 0, path, 2, HX_SPAN_LIT("\"v\""));
        assert_int_equal(rc, cases[i].expected ? 0 : HX_SPLICE_NOT_OBJECT);
        bench_expect(&bench, cases[i].expected ? cases[i].expected : cases[i].text);
    }
}

static void edits_meet_in_new_parents(void **state)
{
    static const char *const texts[][2] = {
        {"{\"a\":1}", "{\"a\":1,\"m\":{\"x\":1,\"y\":{\"z\":2},\"\\\"q\\\"\":3},\"n\":4}"},
        {"{\"m\":null}", "{\"m\":{\"x\":1,\"y\":{\"z\":2},\"\\\"q\\\"\":3},\"n\":4}"},
        {"{\"m\":{}}", "{\"m\":{\"x\":1,\"y\":{\"z\":2},\"\\\"q\\\"\":3},\"n\":4}"},
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct bench bench;
        bench_init(&bench, texts[i][0]);
        struct hx_span path[] = {HX_SPAN_LIT("m"), HX_SPAN_LIT("x"), HX_SPAN_LIT("z")};
        assert_int_equal(hx_splice_set(&bench.splice, 0, path, 2, HX_SPAN_LIT("0")), 0);
        assert_int_equal(hx_splice_set(&bench.splice, 0, path, 2, HX_SPAN_LIT("1")), 0);
        path[1] = HX_SPAN_LIT("y");
        assert_int_equal(hx_splice_set(&bench.splice, 0, path, 3, HX_SPAN_LIT("2")), 0);
        path[1] = HX_SPAN_LIT("\"q\"");
        assert_int_equal(hx_splice_set(&bench.splice, 0, path, 2, HX_SPAN_LIT("3")), 0);
        path[0] = HX_SPAN_LIT("n");
        assert_int_equal(hx_splice_set(&bench.splice, 0, path, 1, HX_SPAN_LIT("4")), 0);
        bench_expect(&bench, texts[i][1]);
    }
}

static void set_after_unset_keeps_the_place(void **state)
{
    struct bench bench;
    const struct hx_span name = HX_SPAN_LIT("k");
    bench_init(&bench, "{\"k\":1,\"b\":2,\"k\":3}");
    assert_int_equal(hx_splice_unset(&bench.splice, 0, &name, 1, false), 0);
    assert_int_equal(hx_splice_set(&bench.splice, 0, &name, 1, HX_SPAN_LIT("9")), 0);
    bench_expect(&bench, "{\"k\":9,\"b\":2}");
}

static void the_later_replacement_counts(void **state)
{
    struct bench bench;
    const struct hx_span name = HX_SPAN_LIT("a");
    const struct hx_span inner[] = {HX_SPAN_LIT("a"), HX_SPAN_LIT("x")};
    bench_init(&bench, "{\"a\":{},\"b\":2}");
    assert_int_equal(hx_splice_set(&bench.splice, 0, inner, 2, HX_SPAN_LIT("0")), 0);
    assert_int_equal(hx_splice_replace(&bench.splice, 2, HX_SPAN_LIT("1")), 0);
    assert_int_equal(hx_splice_replace(&bench.splice, 4, HX_SPAN_LIT("5")), 0);
    assert_int_equal(hx_splice_replace(&bench.splice, 2, HX_SPAN_LIT("3")), 0);
    assert_int_equal(hx_splice_set(&bench.splice, 0, &name, 1, HX_SPAN_LIT("4")), 0);
    bench_expect(&bench, "{\"a\":4,\"b\":5}");
}

static void edits_inside_what_goes_are_void(void **state)
{
    struct bench bench;
    const struct hx_span outer[] = {HX_SPAN_LIT("a")};
    const struct hx_span inner[] = {HX_SPAN_LIT("a"), HX_SPAN_LIT("b")};
    const struct hx_span added[] = {HX_SPAN_LIT("a"), HX_SPAN_LIT("new")};
    bench_init(&bench, "{\"a\":{\"b\":1,\"c\":2},\"z\":0}");
    assert_int_equal(hx_splice_set(&bench.splice, 0, inner, 2, HX_SPAN_LIT("7")), 0);
    assert_int_equal(hx_splice_set(&bench.splice, 0, added, 2, HX_SPAN_LIT("8")), 0);
    assert_int_equal(hx_splice_unset(&bench.splice, 0, outer, 1, false), 0);
    bench_expect(&bench, "{\"z\":0}");
    bench_init(&bench, "{\"a\":{\"b\":1,\"c\":2},\"z\":0}");
    assert_int_equal(hx_splice_set(&bench.splice, 0, inner, 2, HX_SPAN_LIT("7")), 0);
    assert_int_equal(hx_splice_replace(&bench.splice, 2, HX_SPAN_LIT("true")), 0);
    bench_expect(&bench, "{\"a\":true,\"z\":0}");
}

static void pruning_takes_empty_parents(void **state)
{
    static const char *const cases[][2] = {
        {"{\"a\":{\"b\":{\"c\":1}},\"z\":0}", "{\"z\":0}"},
        {"{\"a\":{\"b\":{\"c\":1},\"d\":1}}", "{\"a\":{\"d\":1}}"},
        {"{\"a\":{\"b\":{\"c\":1,\"d\":1}}}", "{\"a\":{\"b\":{\"d\":1}}}"},
        {"{\"a\":{\"b\":{}}}", "{\"a\":{\"b\":{}}}"}, /* was empty before */
        {"{\"a\":{\"b\":3}}", "{\"a\":{\"b\":3}}"},
        {"{\"a\":{\"b\":{\"c\":1,\"c\":2}}}", "{}"},
    };
    const struct hx_span path[] = {HX_SPAN_LIT("a"), HX_SPAN_LIT("b"), HX_SPAN_LIT("c")};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bench bench;
        bench_init(&bench, cases[i][0]);
        assert_int_equal(hx_splice_unset(&bench.splice, 0, path, 3, true), 0);
        bench_expect(&bench, cases[i][1]);
    }
}

static void arrays_grow_at_the_end(void **state)
{
    static const char *const cases[][2] = {
        {"[]", "[1,2]"},
        {"[ ]", "[1,2 ]"},
        {"[0]", "[0,1,2]"},
        {"[ {\"a\":[3]} ]", "[ {\"a\":[3]},1,2 ]"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (uint32_t depth = 0; depth <= 1; depth++) {
            struct bench bench;
            struct hx_json_limits opaque = limits;
            opaque.record_depth_max = depth;
            bench_init(&bench, cases[i][0]);
            assert_int_equal(hx_json_read(&bench.tape, hx_span_cstr(cases[i][0]), &opaque), 0);
            assert_int_equal(hx_splice_append(&bench.splice, 0, HX_SPAN_LIT("1")), 0);
            assert_int_equal(hx_splice_append(&bench.splice, 0, HX_SPAN_LIT("2")), 0);
            bench_expect(&bench, cases[i][1]);
        }
    }
}

static void no_edit_changes_nothing(void **state)
{
    const char *text =
        " {\"n\":[1.0,-0,1E400,9007199254740993,0.10],\"s\":\"\\/\\u00e9\xc3\xa9\"} \r";
    struct bench bench;
    bench_init(&bench, text);
    bench_expect(&bench, text);
}

static bool edit_in_memory(void *context)
{
    struct bench bench;
    const struct hx_span path[] = {HX_SPAN_LIT("_meta"), HX_SPAN_LIT("k")};
    const struct hx_span gone = HX_SPAN_LIT("a");
    hx_json_tape_init(&bench.tape);
    hx_arena_init(&bench.arena, 1 << 20);
    hx_buf_init(&bench.out, 1 << 20);
    int rc = hx_json_read(&bench.tape, HX_SPAN_LIT("{\"a\":1,\"b\":2}"), &limits);
    hx_splice_init(&bench.splice, &bench.tape, &bench.arena);
    if (rc == 0)
        rc = hx_splice_unset(&bench.splice, 0, &gone, 1, false);
    for (int i = 0; i < 100 && rc == 0; i++)
        rc = hx_splice_set(&bench.splice, 0, path, 2, HX_SPAN_LIT("\"v\""));
    if (rc == 0)
        rc = hx_splice_emit(&bench.splice, &bench.out);
    if (rc == 0)
        assert_span_equal(hx_buf_span(&bench.out), "{\"b\":2,\"_meta\":{\"k\":\"v\"}}");
    hx_json_tape_fini(&bench.tape);
    hx_arena_fini(&bench.arena);
    hx_buf_fini(&bench.out);
    return rc == 0;
}

static void refused_memory_is_survived(void **state)
{
    kit_fail_each_allocation(edit_in_memory, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_members_can_go),
        cmocka_unit_test(removal_takes_one_comma),
        cmocka_unit_test(setting_makes_parents),
        cmocka_unit_test(edits_meet_in_new_parents),
        cmocka_unit_test(set_after_unset_keeps_the_place),
        cmocka_unit_test(the_later_replacement_counts),
        cmocka_unit_test(edits_inside_what_goes_are_void),
        cmocka_unit_test(pruning_takes_empty_parents),
        cmocka_unit_test(arrays_grow_at_the_end),
        cmocka_unit_test(no_edit_changes_nothing),
        cmocka_unit_test(refused_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
