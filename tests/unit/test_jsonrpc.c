/* SPDX-License-Identifier: MIT */
/* One line, one verdict: each kind and each reason for refusal. */
#include "tests/kit/text_kit.h"
#include "wire/jsonrpc.h"

static const struct hx_json_limits limits = {
    .depth_max = 32, .tokens_max = 1000, .text_max = 1 << 20};
static struct hx_json_tape tape;
static struct hx_arena arena;

static struct hx_rpc_msg read_msg(const char *text)
{
    struct hx_rpc_msg msg;
    assert_int_equal(hx_rpc_read(&tape, hx_span_cstr(text), &limits, &arena, &msg), 0);
    return msg;
}

#define HEAD "{\"jsonrpc\":\"2.0\","

static void kinds_are_told_apart(void **state)
{
    struct hx_rpc_msg msg =
        read_msg(HEAD "\"id\":1,\"method\":\"tools/call\",\"params\":{ \"a\":1.0 }}");
    assert_int_equal(msg.kind, HX_RPC_REQUEST);
    assert_span_equal(msg.method, "tools/call");
    assert_span_equal(msg.params, "{ \"a\":1.0 }");
    assert_span_equal(msg.id.raw, "1");
    assert_span_equal(msg.result, NULL);
    assert_span_equal(hx_json_raw(&tape, msg.params_token), "{ \"a\":1.0 }");

    msg = read_msg(HEAD "\"method\":\"notifications/\\u0069nitialized\"} \r");
    assert_int_equal(msg.kind, HX_RPC_NOTIFICATION);
    assert_span_equal(msg.method, "notifications/initialized");
    assert_int_equal(msg.id.type, HX_RPC_ID_NONE);
    assert_int_equal(msg.params_token, HX_JSON_NONE);

    msg = read_msg(HEAD "\"id\":\"x\",\"result\":null}");
    assert_int_equal(msg.kind, HX_RPC_RESULT);
    assert_span_equal(msg.result, "null");
    assert_int_equal(msg.id.type, HX_RPC_ID_STRING);

    msg = read_msg(HEAD "\"id\":2,\"error\":{\"code\":-32601,\"message\":\"m\",\"data\":[]}}");
    assert_int_equal(msg.kind, HX_RPC_ERROR);
    msg = read_msg(HEAD "\"error\":{\"code\":-32700,\"message\":\"m\"}}");
    assert_int_equal(msg.kind, HX_RPC_ERROR);
    assert_int_equal(msg.id.type, HX_RPC_ID_NONE);
    msg = read_msg(HEAD "\"id\":null,\"error\":{\"code\":-32700,\"message\":\"m\"}}");
    assert_int_equal(msg.kind, HX_RPC_ERROR);
    assert_int_equal(msg.id.type, HX_RPC_ID_NULL);

    msg = read_msg(HEAD "\"id\":2,\"method\":\"m\",\"params\":[],\"vendor\":{\"id\":3}}");
    assert_int_equal(msg.kind, HX_RPC_REQUEST);
    assert_span_equal(msg.id.raw, "2");
}

static void every_fault_has_its_name(void **state)
{
    static const struct {
        const char *text;
        enum hx_rpc_fault fault;
        const char *id; /* what could be read of it */
    } cases[] = {
        {"", HX_RPC_EMPTY, NULL},
        {" \t\r", HX_RPC_EMPTY, NULL},
        {"Server started", HX_RPC_PARSE_ERROR, NULL},
        {HEAD "\"id\":1", HX_RPC_PARSE_ERROR, NULL},
        {"{not json", HX_RPC_PARSE_ERROR, NULL},
        {HEAD "\"id\":1,\"method\":\"\xc7\xd1\"}", HX_RPC_BAD_UTF8, "1"},
        {"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]", HX_RPC_OVER_LIMIT,
         NULL},
        {"3", HX_RPC_NOT_MESSAGE, NULL},
        {"\"x\"", HX_RPC_NOT_MESSAGE, NULL},
        {"[]", HX_RPC_BATCH_EMPTY, NULL},
        {HEAD "\"id\":1,\"id\":2,\"method\":\"m\"}", HX_RPC_DUPLICATE_NAME, NULL},
        {HEAD "\"id\":1,\"m\\u0065thod\":\"a\",\"method\":\"b\"}", HX_RPC_DUPLICATE_NAME, NULL},
        {"{\"id\":1,\"method\":\"m\"}", HX_RPC_BAD_VERSION, "1"},
        {"{\"jsonrpc\":2.0,\"id\":1,\"method\":\"m\"}", HX_RPC_BAD_VERSION, "1"},
        {"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"m\"}", HX_RPC_BAD_VERSION, "1"},
        {"{\"a\":1}", HX_RPC_BAD_VERSION, NULL},
        {HEAD "\"id\":null,\"method\":\"m\"}", HX_RPC_NULL_ID, "null"},
        {HEAD "\"id\":null,\"result\":{}}", HX_RPC_NULL_ID, "null"},
        {HEAD "\"id\":1.0,\"method\":\"m\"}", HX_RPC_BAD_ID, NULL},
        {HEAD "\"id\":1.5,\"method\":\"m\"}", HX_RPC_BAD_ID, NULL},
        {HEAD "\"id\":1e3,\"method\":\"m\"}", HX_RPC_BAD_ID, NULL},
        {HEAD "\"id\":true,\"method\":\"m\"}", HX_RPC_BAD_ID, NULL},
        {HEAD "\"id\":[1],\"method\":\"m\"}", HX_RPC_BAD_ID, NULL},
        {HEAD "\"id\":{},\"result\":1}", HX_RPC_BAD_ID, NULL},
        {HEAD "\"id\":\"\\ud800\",\"method\":\"m\"}", HX_RPC_BAD_ID, NULL},
        {HEAD "\"id\":1.5,\"error\":{\"code\":1,\"message\":\"\"}}", HX_RPC_BAD_ID, NULL},
        {HEAD "\"id\":1,\"method\":5}", HX_RPC_BAD_METHOD, "1"},
        {HEAD "\"id\":1,\"method\":null}", HX_RPC_BAD_METHOD, "1"},
        {HEAD "\"id\":1,\"method\":\"\\ud800\"}", HX_RPC_BAD_METHOD, "1"},
        {HEAD "\"id\":1,\"method\":\"m\",\"params\":5}", HX_RPC_BAD_PARAMS, "1"},
        {HEAD "\"method\":\"m\",\"params\":null}", HX_RPC_BAD_PARAMS, NULL},
        {HEAD "\"id\":1,\"error\":\"x\"}", HX_RPC_BAD_ERROR, "1"},
        {HEAD "\"id\":1,\"error\":{}}", HX_RPC_BAD_ERROR, "1"},
        {HEAD "\"id\":1,\"error\":{\"code\":1.5,\"message\":\"\"}}", HX_RPC_BAD_ERROR, "1"},
        {HEAD "\"id\":1,\"result\":1,\"error\":{\"code\":1}}", HX_RPC_BOTH, "1"},
        {HEAD "\"id\":1,\"method\":\"m\",\"result\":1}", HX_RPC_BOTH, "1"},
        {HEAD "\"id\":1}", HX_RPC_NEITHER, "1"},
        {HEAD "\"result\":{}}", HX_RPC_NEITHER, NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hx_rpc_msg msg = read_msg(cases[i].text);
        if (msg.kind != HX_RPC_INVALID || msg.fault != cases[i].fault)
            print_error("of: %s\n", cases[i].text);
        assert_int_equal(msg.kind, HX_RPC_INVALID);
        assert_int_equal(msg.fault, cases[i].fault);
        assert_span_equal(msg.id.raw, cases[i].id);
        assert_non_null(msg.fault_detail);
        assert_int_equal(hx_rpc_fault_code(msg.fault),
                         msg.fault <= HX_RPC_OVER_LIMIT ? -32700 : -32600);
        assert_span_equal(msg.raw, cases[i].text);
    }
}

static void batches_come_apart(void **state)
{
    struct hx_rpc_msg batch =
        read_msg("[" HEAD "\"id\":1,\"method\":\"a\",\"params\":{\"_meta\":{\"k\":1}}}, " HEAD
                 "\"method\":\"n\"},7,[]," HEAD "\"id\":2,\"result\":{}}]");
    static const enum hx_rpc_kind kinds[] = {HX_RPC_REQUEST, HX_RPC_NOTIFICATION, HX_RPC_INVALID,
                                             HX_RPC_INVALID, HX_RPC_RESULT};
    size_t i = 0;
    assert_int_equal(batch.kind, HX_RPC_BATCH);
    hx_json_for_each(element, &tape, batch.root)
    {
        struct hx_rpc_msg msg;
        assert_int_equal(hx_rpc_classify(&tape, element, &arena, &msg), 0);
        assert_int_equal(msg.kind, kinds[i]);
        if (i == 0) {
            assert_span_equal(msg.raw,
                              HEAD "\"id\":1,\"method\":\"a\",\"params\":{\"_meta\":{\"k\":1}}}");
            /* The members of `_meta` are on the tape even here. */
            uint32_t meta = hx_json_member(&tape, msg.params_token, HX_SPAN_LIT("_meta"));
            assert_span_equal(hx_json_raw(&tape, hx_json_member(&tape, meta, HX_SPAN_LIT("k"))),
                              "1");
        }
        if (i == 2)
            assert_int_equal(msg.fault, HX_RPC_NOT_MESSAGE);
        if (i == 3)
            assert_int_equal(msg.fault, HX_RPC_BATCH_NESTED);
        i++;
    }
    assert_int_equal(i, 5);
}

/* 500,000 values in the shapes that results have, on a tape of 1,000 tokens. */
static void large_results_cost_little(void **state)
{
    static const char *const shapes[][2] = {
        {"\"content\":[{}", ",{\"type\":\"text\",\"text\":\"x\"}"},
        {"\"structuredContent\":[0", ",[1,2,3]"},
        {"\"structuredContent\":[{\"rows\":[0", ",[1,2,3]"},
    };
    static const char *const ends[] = {"]", "]", "]}]"};
    for (size_t i = 0; i < 3; i++) {
        struct hx_buf text;
        struct hx_rpc_msg msg;
        hx_buf_init(&text, 1 << 25);
        (void)hx_buf_printf(&text, HEAD "\"id\":1,\"result\":{\"isError\":true,%s", shapes[i][0]);
        for (int k = 0; k < 100000; k++)
            (void)hx_buf_append_cstr(&text, shapes[i][1]);
        (void)hx_buf_printf(&text, "%s}}", ends[i]);
        struct hx_json_limits large = limits;
        large.text_max = 1 << 25;
        large.tokens_max = 8 * HX_RPC_ELEMENTS_MAX;
        assert_int_equal(hx_rpc_read(&tape, hx_buf_span(&text), &large, &arena, &msg), 0);
        assert_int_equal(msg.kind, HX_RPC_RESULT);
        assert_true(tape.count < 4 * HX_RPC_ELEMENTS_MAX);
        hx_buf_fini(&text);
    }
    /* Objects are recorded whole; one that the tape cannot hold is recorded less deeply. */
    struct hx_buf text;
    struct hx_rpc_msg msg;
    hx_buf_init(&text, 1 << 20);
    (void)hx_buf_append_cstr(&text, HEAD "\"id\":1,\"result\":{\"structuredContent\":{\"k\":0");
    for (int k = 0; k < 1000; k++)
        (void)hx_buf_printf(&text, ",\"k%d\":%d", k, k);
    (void)hx_buf_append_cstr(&text, "},\"isError\":true}}");
    assert_int_equal(hx_rpc_read(&tape, hx_buf_span(&text), &limits, &arena, &msg), 0);
    assert_int_equal(msg.kind, HX_RPC_RESULT);
    assert_true(hx_json_member_of(&tape, msg.result_token, HX_SPAN_LIT("isError"), HX_JSON_TRUE) !=
                HX_JSON_NONE);
    hx_buf_fini(&text);
}

static void endless_batches_are_refused(void **state)
{
    for (int over = 0; over <= 1; over++) {
        struct hx_buf text;
        struct hx_rpc_msg msg;
        hx_buf_init(&text, 1 << 20);
        (void)hx_buf_append_cstr(&text, "[{}");
        for (int k = 1; k < HX_RPC_ELEMENTS_MAX + over; k++)
            (void)hx_buf_append_cstr(&text, ",{}");
        (void)hx_buf_append_cstr(&text, "]");
        struct hx_json_limits large = limits;
        large.tokens_max = 8 * HX_RPC_ELEMENTS_MAX;
        assert_int_equal(hx_rpc_read(&tape, hx_buf_span(&text), &large, &arena, &msg), 0);
        assert_int_equal(msg.kind, over ? HX_RPC_INVALID : HX_RPC_BATCH);
        assert_int_equal(msg.fault, over ? HX_RPC_OVER_LIMIT : HX_RPC_FAULT_NONE);
        hx_buf_fini(&text);
    }
}

/* Field cases 125 and 126: type and spelling of an id survive. */
static void ids_keep_type_and_value(void **state)
{
    static const struct {
        const char *raw;
        enum hx_rpc_id_type type;
    } ids[] = {
        {"\"abc\"", HX_RPC_ID_STRING}, {"\"1\"", HX_RPC_ID_STRING},
        {"1", HX_RPC_ID_INTEGER},      {"0", HX_RPC_ID_INTEGER},
        {"-1", HX_RPC_ID_INTEGER},     {"9007199254740993", HX_RPC_ID_INTEGER},
        {"\"\"", HX_RPC_ID_STRING},    {"123456789012345678901234567890", HX_RPC_ID_INTEGER},
        {"null", HX_RPC_ID_NULL},      {"1.0", HX_RPC_ID_NONE},
        {"[]", HX_RPC_ID_NONE},        {"[1]", HX_RPC_ID_NONE},
        {"tru", HX_RPC_ID_NONE},       {"", HX_RPC_ID_NONE},
        {"1 2", HX_RPC_ID_NONE},       {"\"\xff\"", HX_RPC_ID_NONE},
        {"true", HX_RPC_ID_NONE},
    };
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        struct hx_rpc_id id = hx_rpc_id_parse(hx_span_cstr(ids[i].raw));
        assert_int_equal(id.type, ids[i].type);
        if (id.type != HX_RPC_ID_NONE)
            assert_span_equal(id.raw, ids[i].raw);
        for (size_t k = 0; k < sizeof(ids) / sizeof(ids[0]); k++) {
            struct hx_rpc_id other = hx_rpc_id_parse(hx_span_cstr(ids[k].raw));
            bool is_same = i == k || (id.type == HX_RPC_ID_NONE && other.type == HX_RPC_ID_NONE);
            assert_int_equal(hx_rpc_id_eq(&id, &other), is_same);
            struct hx_buf a, b;
            hx_buf_init(&a, 1 << 16);
            hx_buf_init(&b, 1 << 16);
            hx_rpc_id_key(&id, &a);
            hx_rpc_id_key(&other, &b);
            assert_int_equal(hx_span_eq(hx_buf_span(&a), hx_buf_span(&b)), is_same);
            hx_buf_fini(&a);
            hx_buf_fini(&b);
        }
    }
    char large[HX_RPC_ID_MAX + 2];
    memset(large, 'x', sizeof(large));
    large[0] = large[1024] = '"';
    assert_int_equal(hx_rpc_id_parse(hx_span(large, 1025)).type, HX_RPC_ID_STRING);
    large[1024] = 'x';
    large[HX_RPC_ID_MAX] = '"';
    assert_int_equal(hx_rpc_id_parse(hx_span(large, HX_RPC_ID_MAX + 1)).type, HX_RPC_ID_NONE);
}

static void spelling_does_not_part_ids(void **state)
{
    struct hx_rpc_id a = hx_rpc_id_parse(HX_SPAN_LIT("\"\\u0061\xc3\xa9\""));
    struct hx_rpc_id b = hx_rpc_id_parse(HX_SPAN_LIT("\"a\\u00e9\""));
    struct hx_rpc_id zero = hx_rpc_id_parse(HX_SPAN_LIT("0"));
    struct hx_rpc_id minus = hx_rpc_id_parse(HX_SPAN_LIT("-0"));
    assert_true(hx_rpc_id_eq(&a, &b));
    assert_true(hx_rpc_id_eq(&zero, &minus));
}

/* So that its caller need not wait for ever. In doubt, and of an answer, there is none. */
static void a_request_that_cannot_be_read_keeps_its_id(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *id; /* NULL: none */
    } rows[] = {
        {HEAD "\"id\":7,\"method\":\"x\",\"params\":{\"a\":\"caf\xe9\"}}", "7"},
        {"{\"params\":{\"a\":[\"\xff\xfe\"]},\"method\":\"x\",\"id\":\"a\\u0062\"}",
         "\"a\\u0062\""},
        {HEAD "\"id\":7,\"method\":\"x\xc3\"}", "7"},
        {HEAD "\"id\":\"a\xff\",\"method\":\"x\"}", NULL},
        {HEAD "\"id\":7,\"method\":\"x\",\"id\":8,\"params\":\"\xff\"}", NULL},
        {HEAD "\"id\":7,\"method\":\"x\",\"\\u0069d\":8,\"params\":\"\xff\"}", NULL},
        {HEAD "\"id\":1.5,\"method\":\"x\",\"params\":\"\xff\"}", NULL},
        {HEAD "\"id\":null,\"method\":\"x\",\"params\":\"\xff\"}", NULL},
        {HEAD "\"method\":\"x\",\"params\":{\"id\":7,\"a\":\"\xff\"}}", NULL},
        {HEAD "\"id\":7,\"result\":\"\xff\"}", NULL},
        {HEAD "\"id\":7,\"error\":\"\xff\"}", NULL},
        {HEAD "\"id\":7,\"method\":\"x\",\"result\":\"\xff\"}", NULL},
        {HEAD "\"id\":7,\"method\":\"x\",\"params\":\"\xff", NULL},
        {HEAD "\"id\":7,\"method\":\"x\",\"params\":\"\xff\"}}", NULL},
        {"[" HEAD "\"id\":7,\"method\":\"x\",\"params\":\"\xff\"}]", NULL},
        /* In Shift JIS that backslash is the half of a letter, and the string ends. */
        {HEAD "\"method\":\"x\",\"a\":\"\x95\\\",\"id\":7,\"b\":\"\",\"c\":\"\"}", NULL},
        /* Not JSON at all. */
        {HEAD "\"id\":7,\"method\":\"x\",\"params\":{a:1}}", NULL},
        /* Read as far as it may be, and no further. */
        {HEAD "\"id\":7,\"method\":\"x\",\"params\":[[[[[[[[[]]]]]]]]]}", "7"},
    };
    struct hx_json_limits low = limits;
    low.depth_max = 8;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hx_rpc_msg msg;
        assert_int_equal(hx_rpc_read(&tape, hx_span_cstr(rows[i].text), &low, &arena, &msg), 0);
        if (msg.kind != HX_RPC_INVALID || (msg.id.type != HX_RPC_ID_NONE &&
                                           msg.id.type != HX_RPC_ID_NULL) != (rows[i].id != NULL))
            fail_msg("row %zu: fault %d, id %.*s", i, msg.fault, HX_SPAN_FMT(msg.id.raw));
        if (rows[i].id != NULL)
            assert_true(hx_span_eq_cstr(msg.id.raw, rows[i].id));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_are_told_apart),
        cmocka_unit_test(every_fault_has_its_name),
        cmocka_unit_test(a_request_that_cannot_be_read_keeps_its_id),
        cmocka_unit_test(batches_come_apart),
        cmocka_unit_test(large_results_cost_little),
        cmocka_unit_test(endless_batches_are_refused),
        cmocka_unit_test(ids_keep_type_and_value),
        cmocka_unit_test(spelling_does_not_part_ids),
    };
    hx_json_tape_init(&tape);
    hx_arena_init(&arena, 1 << 20);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    hx_arena_fini(&arena);
    hx_json_tape_fini(&tape);
    return failed;
}
