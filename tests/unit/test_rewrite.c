/* SPDX-License-Identifier: MIT */
/* What a gateway changes in messages, byte for byte: the changes, and all that stays. */
#include "tests/kit/text_kit.h"
#include "wire/mcp.h"
#include "wire/rewrite.h"

static const struct hx_json_limits limits = {
    .depth_max = 64, .tokens_max = 100000, .text_max = 1 << 20};
static struct hx_rewrite rewrite;
static struct hx_buf out;

/* Numbers, escapes, Unicode, white space and order of members that must come out as they went in
 * (field cases 117, 119, 120, 123, 130, 131). */
#define FAITHFUL                                                                                   \
    "\"big\" : "                                                                                   \
    "9007199254740993,\"u64\":18446744073709551615,\"wide\":123456789012345678901234567890"        \
    ",\"f\":[0.1, 0.10,1.0,1E400,-0,-0.0e-0,1e-400], "                                             \
    "\"esc\":\"\\/\\u0041\\u00e9\\ud83d\\ude02\\ud800\""                                           \
    ",\"uni\":\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x82 A\xcc\x8a\",\"z\":1,\"a\":{ "                 \
    "},\"nul\\u0000\":null"

static void expect(int rc, const char *expected)
{
    assert_int_equal(rc, 0);
    assert_span_equal(hx_buf_span(&out), expected);
    hx_buf_reset(&out);
}

static void ids_are_replaced_in_place(void **state)
{
    static const char *const cases[][2] = {
        {" {\"jsonrpc\":\"2.0\" , \"id\" : \"a\\\"b\" ,\"method\":\"m\",\"params\":{" FAITHFUL
         "}} ",
         " {\"jsonrpc\":\"2.0\" , \"id\" : 77 ,\"method\":\"m\",\"params\":{" FAITHFUL "}} "},
        {"{\"result\":{\"id\":1," FAITHFUL "},\"jsonrpc\":\"2.0\",\"i\\u0064\":1}",
         "{\"result\":{\"id\":1," FAITHFUL "},\"jsonrpc\":\"2.0\",\"i\\u0064\":77}"},
    };
    struct hx_json_tape tape;
    struct hx_arena arena;
    hx_json_tape_init(&tape);
    hx_arena_init(&arena, 4096);
    for (size_t i = 0; i < 2; i++) {
        struct hx_rpc_msg msg;
        assert_int_equal(hx_rpc_read(&tape, hx_span_cstr(cases[i][0]), &limits, &arena, &msg), 0);
        expect(hx_rewrite_id(&msg, HX_SPAN_LIT("77"), &out), cases[i][1]);
    }
    hx_arena_fini(&arena);
    hx_json_tape_fini(&tape);
}

#define CALL(params)                                                                               \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":" params "}"

static void calls_toward_the_upstream(void **state)
{
    static const struct {
        const char *before;
        const char *after;
        struct hx_rewrite_call change;
    } cases[] = {
        {CALL("{\"name\":\"t\",\"arguments\":{" FAITHFUL "}}"),
         CALL("{\"name\":\"t\",\"arguments\":{" FAITHFUL "}}"),
         {.drop_task = false}},
        {CALL("{\"name\":\"t\",\"arguments\":{" FAITHFUL "},\"idempotencyKey\":\"k\",\"task\":{},"
              "\"_meta\":{\"dev.hapax/idempotencyKey\":\"k\",\"traceparent\":\"x\","
              "\"dev.hapax\\/retry\":1,\"dev.hapaxes\":2,\"progressToken\":1}}"),
         CALL("{\"name\":\"t\",\"arguments\":{" FAITHFUL "},\"_meta\":{\"traceparent\":\"x\","
              "\"dev.hapaxes\":2,\"progressToken\":\"g9\"}}"),
         {.progress_token = HX_SPAN_INIT("\"g9\""),
          .drop_hapax_meta = true,
          .drop_param_key = true,
          .drop_task = true}},
        {CALL("{\"name\":\"t\",\"task\":{\"ttl\":1}}"),
         CALL("{\"name\":\"t\",\"task\":{}}"),
         {.drop_task = true, .task = HX_SPAN_INIT("{}")}},
        {CALL("{\"name\":\"t\"}"),
         CALL("{\"name\":\"t\",\"task\":{}}"),
         {.drop_task = true, .task = HX_SPAN_INIT("{}")}},
        {CALL("{\"name\":\"t\"}"),
         CALL("{\"name\":\"t\",\"_meta\":{\"progressToken\":5}}"),
         {.progress_token = HX_SPAN_INIT("5")}},
        {CALL("{\"name\":\"t\",\"_meta\":{\"progressToken\":1}}"),
         CALL("{\"name\":\"t\",\"_meta\":{}}"),
         {.drop_progress_token = true}},
        {CALL("{\"_meta\":{\"dev.hapax/retry\":\"x\"},\"name\":\"t\"}"),
         "{\"jsonrpc\":\"2.0\",\"id\":\"n\",\"method\":\"tools/call\",\"params\":{\"_meta\":{},"
         "\"name\":\"t\"}}",
         {.id = HX_SPAN_INIT("\"n\""), .drop_hapax_meta = true}},
        {CALL("{\"name\":\"t\",\"arguments\":{\"idempotency_key\":\"k\"," FAITHFUL "}}"),
         CALL("{\"name\":\"t\",\"arguments\":{" FAITHFUL "}}"),
         {.drop_argument = HX_SPAN_INIT("/idempotency_key")}},
        {CALL(
             "{\"name\":\"t\",\"arguments\":{\"o\":{\"p\":{\"q\":{\"k\\/e\\u0079\":1,\"x\":2}}}}}"),
         CALL("{\"name\":\"t\",\"arguments\":{\"o\":{\"p\":{\"q\":{\"x\":2}}}}}"),
         {.drop_argument = HX_SPAN_INIT("/o/p/q/k~1ey")}},
        {CALL("{\"name\":\"t\",\"arguments\":{\"a\":1}}"),
         CALL("{\"name\":\"t\",\"arguments\":{\"a\":1}}"),
         {.drop_argument = HX_SPAN_INIT("/b/c")}},
        /* The key that the caller gave makes room for ours, in the same place. */
        {CALL("{\"name\":\"t\",\"arguments\":{\"key\":\"theirs\",\"a\":1}}"),
         CALL("{\"name\":\"t\",\"arguments\":{\"key\":\"ours\",\"a\":1}}"),
         {.drop_argument = HX_SPAN_INIT("/key"),
          .effect_key = HX_SPAN_INIT("ours"),
          .effect_key_argument = HX_SPAN_INIT("/key")}},
        {CALL("{\"name\":\"t\",\"idempotencyKey\":\"theirs\"}"),
         CALL("{\"name\":\"t\",\"idempotencyKey\":\"ours\"}"),
         {.drop_param_key = true, .effect_key = HX_SPAN_INIT("ours"), .effect_key_param = true}},
        {CALL("{\"name\":\"t\"}"),
         CALL("{\"name\":\"t\",\"arguments\":{\"a/b\":\"o\\\"\"},\"_meta\":{\"x.y/k\":\"o\\\"\"},"
              "\"idempotencyKey\":\"o\\\"\"}"),
         {.effect_key = HX_SPAN_INIT("o\""),
          .effect_key_argument = HX_SPAN_INIT("/a~1b"),
          .effect_key_meta = HX_SPAN_INIT("x.y/k"),
          .effect_key_param = true}},
        {CALL("{\"name\":\"t\",\"arguments\":{\"o\":{}}}"),
         CALL("{\"name\":\"t\",\"arguments\":{\"o\":{\"k\":\"e\"}}}"),
         {.effect_key = HX_SPAN_INIT("e"), .effect_key_argument = HX_SPAN_INIT("/o/k")}},
        /* Nothing of ours is in what is no object. */
        {CALL("{\"name\":\"t\",\"_meta\":[1,\"dev.hapax/a\"]}"),
         CALL("{\"name\":\"t\",\"_meta\":[1,\"dev.hapax/a\"]}"),
         {.drop_hapax_meta = true}},
        {CALL("{\"name\":\"t\",\"_meta\":\"dev.hapax/a\"}"),
         CALL("{\"name\":\"t\",\"_meta\":\"dev.hapax/a\"}"),
         {.drop_hapax_meta = true}},
        /* Not only calls: an elicitation from the other side has no params to speak of. */
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}",
         "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}",
         {.id = HX_SPAN_INIT("2"), .drop_hapax_meta = true, .drop_param_key = true}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        expect(hx_rewrite_call(&rewrite, hx_span_cstr(cases[i].before), &cases[i].change, &out),
               cases[i].after);
}

static void what_cannot_be_changed_is_named(void **state)
{
    static const struct {
        const char *message;
        struct hx_rewrite_call change;
        int outcome;
    } cases[] = {
        {"not json", {.id = HX_SPAN_INIT("1")}, HX_REWRITE_BAD_TEXT},
        {"[]", {.id = HX_SPAN_INIT("1")}, HX_REWRITE_BAD_TEXT},
        {CALL("[]"), {.progress_token = HX_SPAN_INIT("1")}, HX_REWRITE_NO_PLACE},
        {CALL("{\"_meta\":[]}"), {.progress_token = HX_SPAN_INIT("1")}, HX_REWRITE_NO_PLACE},
        {CALL("{\"arguments\":[]}"),
         {.effect_key = HX_SPAN_INIT("e"), .effect_key_argument = HX_SPAN_INIT("/k")},
         HX_REWRITE_NO_PLACE},
        {CALL("{\"arguments\":{}}"),
         {.effect_key = HX_SPAN_INIT("e"), .effect_key_argument = HX_SPAN_INIT("/o/k")},
         HX_REWRITE_NO_PLACE},
        {CALL("{}"),
         {.effect_key = HX_SPAN_INIT("e"), .effect_key_argument = HX_SPAN_INIT("/o/k")},
         HX_REWRITE_NO_PLACE},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(hx_buf_append_cstr(&out, "before"), 0);
        assert_int_equal(
            hx_rewrite_call(&rewrite, hx_span_cstr(cases[i].message), &cases[i].change, &out),
            cases[i].outcome);
        expect(0, "before");
    }
}

static void progress_and_cancel(void **state)
{
    expect(
        hx_rewrite_progress(
            &rewrite,
            HX_SPAN_LIT("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\","
                        "\"params\":{\"progress\":0.10,\"progressToken\":\"g1\"}}"),
            HX_SPAN_LIT("7"), &out),
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progress\":0.10,"
        "\"progressToken\":7}}");
    expect(
        hx_rewrite_cancelled(&rewrite,
                             HX_SPAN_LIT("{\"jsonrpc\":\"2.0\",\"method\":"
                                         "\"notifications/cancelled\",\"params\":{\"requestId\":1,"
                                         "\"reason\":\"\\u0065\"}}"),
                             HX_SPAN_LIT("55"), &out),
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":55,"
        "\"reason\":\"\\u0065\"}}");
    assert_int_equal(
        hx_rewrite_cancelled(&rewrite, HX_SPAN_LIT("{\"params\":{}}"), HX_SPAN_LIT("1"), &out),
        HX_REWRITE_BAD_TEXT);
    /* On a connection that is shared the second may be the request of somebody else. */
    assert_int_equal(hx_rewrite_cancelled(
                         &rewrite,
                         HX_SPAN_LIT("{\"params\":{\"requestId\":\"a\",\"request\\u0049d\":7}}"),
                         HX_SPAN_LIT("1"), &out),
                     HX_REWRITE_BAD_TEXT);
}

#define INIT(capabilities)                                                                         \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2025-11-25\","                \
    "\"capabilities\":" capabilities                                                               \
    ",\"instructions\":\"\\u0061\",\"serverInfo\":{\"name\":\"s\",\"icons\":[ ]}}}"

static void tasks_for_calls_are_withheld(void **state)
{
    static const char *const cases[][2] = {
        {"{\"tools\":{},\"tasks\":{\"requests\":{\"tools\":{\"call\":{}}}}}", "{\"tools\":{}}"},
        {"{\"tasks\":{\"list\":{},\"requests\":{\"tools\":{\"call\":{}}}},\"tools\":{}}",
         "{\"tasks\":{\"list\":{}},\"tools\":{}}"},
        {"{\"tasks\":{\"requests\":{\"tools\":{},\"x\":{}}}}",
         "{\"tasks\":{\"requests\":{\"x\":{}}}}"},
        {"{\"tasks\":{\"requests\":{\"tools\":{}}}}", "{}"},
        {"{\"tasks\":{}}", "{\"tasks\":{}}"},
        {"{ \"logging\":{} }", "{ \"logging\":{} }"},
    };
    static const struct hx_rewrite_initialize unchanged;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hx_buf before, after;
        hx_buf_init(&before, 4096);
        hx_buf_init(&after, 4096);
        (void)hx_buf_printf(&before, INIT("%s"), cases[i][0]);
        (void)hx_buf_printf(&after, INIT("%s"), cases[i][1]);
        (void)hx_buf_append(&after, "", 1);
        expect(hx_rewrite_initialize_result(&rewrite, hx_buf_span(&before), &unchanged, &out),
               after.data);
        hx_buf_fini(&before);
        hx_buf_fini(&after);
    }
    const struct hx_rewrite_initialize extended = {
        .id = HX_SPAN_LIT("1"), .operations_extension = HX_SPAN_LIT("{\"version\":1}")};
    expect(hx_rewrite_initialize_result(&rewrite, HX_SPAN_LIT(INIT("{\"tools\":{}}")), &extended,
                                        &out),
           INIT("{\"tools\":{},\"extensions\":{\"dev.hapax/operations\":{\"version\":1}}}"));
    const struct hx_rewrite_initialize older = {.id = HX_SPAN_LIT("1"),
                                                .revision = HX_SPAN_LIT("2025-06-18")};
    expect(hx_rewrite_initialize_result(
               &rewrite, HX_SPAN_LIT("{\"id\":1,\"result\":{\"protocolVersion\":\"2025-11-25\"}}"),
               &older, &out),
           "{\"id\":1,\"result\":{\"protocolVersion\":\"2025-06-18\"}}");
    assert_int_equal(
        hx_rewrite_initialize_result(&rewrite, HX_SPAN_LIT("{\"error\":{}}"), &unchanged, &out),
        HX_REWRITE_BAD_TEXT);
}

static bool wants_key(void *context, struct hx_span tool_name, struct hx_span *ret_property)
{
    *ret_property = hx_span_cstr(context);
    return !hx_span_eq(tool_name, HX_SPAN_LIT("read"));
}

static bool wants_no_key(void *context, struct hx_span tool_name, struct hx_span *ret_property)
{
    (void)context;
    (void)tool_name;
    (void)ret_property;
    return false;
}

/* Only at the end of the whole list, and never beside one of that name. */
static void own_tools_end_the_list(void **state)
{
    const struct hx_rewrite_own_tool own[] = {
        {HX_SPAN_LIT("ours"), HX_SPAN_LIT("{\"name\":\"ours\"}")},
        {HX_SPAN_LIT("taken"), HX_SPAN_LIT("{\"name\":\"taken\",\"by\":\"us\"}")},
        {HX_SPAN_LIT("more"), HX_SPAN_LIT("{\"name\":\"more\"}")},
    };
    struct hx_rewrite_tools change = {.wants_key = wants_no_key, .own = own, .own_count = 3};
    const struct {
        const char *before, *after;
    } cases[] = {
        {"{\"id\":1,\"result\":{\"tools\":[{\"name\":\"t\\u0061ken\"}]}}",
         "{\"id\":1,\"result\":{\"tools\":[{\"name\":\"t\\u0061ken\"},{\"name\":\"ours\"},"
         "{\"name\":\"more\"}]}}"},
        {"{\"id\":1,\"result\":{\"tools\":[],\"x\":1}}",
         "{\"id\":1,\"result\":{\"tools\":[{\"name\":\"ours\"},"
         "{\"name\":\"taken\",\"by\":\"us\"},{\"name\":\"more\"}],\"x\":1}}"},
        {"{\"id\":1,\"result\":{\"tools\":[],\"nextCursor\":\"2\"}}",
         "{\"id\":1,\"result\":{\"tools\":[],\"nextCursor\":\"2\"}}"},
        {"{\"id\":1,\"result\":{}}", "{\"id\":1,\"result\":{}}"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        hx_buf_reset(&out);
        assert_int_equal(
            hx_rewrite_tools_result(&rewrite, hx_span_cstr(cases[i].before), &change, &out), 0);
        (void)hx_buf_append_char(&out, '\0');
        assert_string_equal(out.data, cases[i].after);
    }
    hx_buf_reset(&out);
}

static void write_tools_get_a_key(void **state)
{
    struct hx_rewrite_tools change = {.wants_key = wants_key, .context = (void *)(uintptr_t) "key"};
    const char *before =
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tools\":["
        "{\"name\":\"read\",\"inputSchema\":{\"type\":\"object\"}},"
        "{\"name\":\"w1\",\"inputSchema\":{\"properties\":{\"a\":{}},\"required\":[\"a\"]},"
        "\"annotations\":{\"x\":1.0}},"
        "{\"name\":\"w2\",\"inputSchema\":{ }},"
        "{\"name\":\"w3\",\"inputSchema\":{\"properties\":{ }}},"
        "{\"name\":\"w4\",\"inputSchema\":{\"properties\":{\"k\\u0065y\":{\"mine\":1}}}},"
        "{\"name\":\"w5\"},{\"name\":\"w6\",\"inputSchema\":{\"properties\":7}},7],"
        "\"nextCursor\":\"\"}}";
    assert_int_equal(hx_rewrite_tools_result(&rewrite, hx_span_cstr(before), &change, &out), 0);

    /* Without the property, of whatever text, the answer is what it was. */
    struct hx_json_tape tape;
    hx_json_tape_init(&tape);
    assert_int_equal(hx_json_read(&tape, hx_buf_span(&out), &limits), 0);
    uint32_t tools = hx_json_member(&tape, hx_json_member(&tape, 0, HX_SPAN_LIT("result")),
                                    HX_SPAN_LIT("tools"));
    uint32_t w1 = hx_json_next(&tape, tools, hx_json_first(&tape, tools));
    uint32_t schema = hx_json_member(&tape, w1, HX_SPAN_LIT("inputSchema"));
    uint32_t key = hx_json_member(&tape, hx_json_member(&tape, schema, HX_SPAN_LIT("properties")),
                                  HX_SPAN_LIT("key"));
    assert_true(hx_json_is_text(&tape, hx_json_member(&tape, key, HX_SPAN_LIT("type")),
                                HX_SPAN_LIT("string")));
    char property[1024];
    struct hx_span raw = hx_json_raw(&tape, key);
    assert_true(raw.len < sizeof(property));
    memcpy(property, raw.ptr, raw.len);
    property[raw.len] = '\0';
    struct hx_buf expected;
    hx_buf_init(&expected, 1 << 16);
    (void)hx_buf_printf(
        &expected,
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tools\":["
        "{\"name\":\"read\",\"inputSchema\":{\"type\":\"object\"}},"
        "{\"name\":\"w1\",\"inputSchema\":{\"properties\":{\"a\":{},\"key\":%s},\"required\":["
        "\"a\"]},"
        "\"annotations\":{\"x\":1.0}},"
        "{\"name\":\"w2\",\"inputSchema\":{\"properties\":{\"key\":%s} }},"
        "{\"name\":\"w3\",\"inputSchema\":{\"properties\":{\"key\":%s }}},"
        "{\"name\":\"w4\",\"inputSchema\":{\"properties\":{\"k\\u0065y\":{\"mine\":1}}}},"
        "{\"name\":\"w5\"},{\"name\":\"w6\",\"inputSchema\":{\"properties\":7}},7],"
        "\"nextCursor\":\"\"}}",
        property, property, property);
    (void)hx_buf_append(&expected, "", 1);
    expect(0, expected.data);
    hx_buf_fini(&expected);
    hx_json_tape_fini(&tape);
}

#define RESULT(meta, more)                                                                         \
    "{" meta "\"content\":[{\"type\":\"text\",\"text\":\"9007199254740993\"}" more                 \
    "],\"structuredContent\":{" FAITHFUL "},\"isError\":true,\"vendor\":[1.0]}"
#define RESPONSE(result) "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":" result "}"

static void results_get_envelope_and_note(void **state)
{
    struct hx_rewrite_result both = {.id = HX_SPAN_INIT("7"),
                                     .operation = HX_SPAN_INIT("{\"id\":\"op\"}"),
                                     .note = HX_SPAN_INIT("said \"once\"")};
    struct hx_rewrite_result none = {.id = HX_SPAN_INIT("7")};
    const char *noted =
        RESPONSE(RESULT("\"_meta\":{\"x\":1.0,\"dev.hapax/operation\":{\"id\":\"op\"}},",
                        ",{\"type\":\"text\",\"text\":\"said \\\"once\\\"\"}"));
    expect(hx_rewrite_result_build(&rewrite, HX_SPAN_LIT(RESULT("\"_meta\":{\"x\":1.0},", "")),
                                   &both, &out),
           noted);
    expect(hx_rewrite_result_message(
               &rewrite, HX_SPAN_LIT(RESPONSE(RESULT("\"_meta\":{\"x\":1.0},", ""))), &both, &out),
           noted);
    /* An inner gateway's envelope makes room, with all its duplicates. */
    expect(hx_rewrite_result_build(
               &rewrite,
               HX_SPAN_LIT(RESULT("\"_meta\":{\"x\":1.0,\"dev.hapax/operation\":[1],"
                                  "\"dev.hapax\\u002foperation\":2},",
                                  "")),
               &both, &out),
           noted);
    /* Nothing asked, nothing changed. */
    expect(hx_rewrite_result_build(&rewrite, HX_SPAN_LIT(RESULT("", "")), &none, &out),
           RESPONSE(RESULT("", "")));
    expect(hx_rewrite_result_message(&rewrite, HX_SPAN_LIT(RESPONSE(RESULT("", ""))), &none, &out),
           RESPONSE(RESULT("", "")));
    /* No content, no note; no `_meta`, a new one at the end; null counts as none. */
    expect(hx_rewrite_result_build(&rewrite, HX_SPAN_LIT("{\"task\":{}}"), &both, &out),
           RESPONSE("{\"task\":{},\"_meta\":{\"dev.hapax/operation\":{\"id\":\"op\"}}}"));
    expect(hx_rewrite_result_build(&rewrite, HX_SPAN_LIT("{\"content\":[ ],\"_meta\":null}"), &both,
                                   &out),
           RESPONSE("{\"content\":[{\"type\":\"text\",\"text\":\"said \\\"once\\\"\"} ],\"_meta\":{"
                    "\"dev.hapax/operation\":{\"id\":\"op\"}}}"));
    assert_int_equal(hx_rewrite_result_build(&rewrite, HX_SPAN_LIT("{\"_meta\":[]}"), &both, &out),
                     HX_REWRITE_NO_PLACE);
    assert_int_equal(hx_rewrite_result_build(&rewrite, HX_SPAN_LIT("[]"), &both, &out),
                     HX_REWRITE_BAD_TEXT);
    assert_int_equal(hx_rewrite_result_message(&rewrite, HX_SPAN_LIT("{\"id\":1}"), &both, &out),
                     HX_REWRITE_BAD_TEXT);
    expect(0, "");
}

/* A long content array is not on the tape, and takes the note all the same. */
static void long_contents_take_a_note(void **state)
{
    struct hx_buf before, after;
    struct hx_rewrite_result note = {.id = HX_SPAN_INIT("7"), .note = HX_SPAN_INIT("n")};
    hx_buf_init(&before, 1 << 20);
    hx_buf_init(&after, 1 << 20);
    (void)hx_buf_append_cstr(&before, "{\"content\":[0");
    for (int i = 0; i < 2 * HX_RPC_ELEMENTS_MAX; i++)
        (void)hx_buf_append_cstr(&before, ", {\"a\":[1.0]}");
    (void)hx_buf_printf(&after,
                        "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":%.*s,{\"type\":\"text\","
                        "\"text\":\"n\"}\n],\"z\":1}}",
                        HX_SPAN_FMT(hx_buf_span(&before)));
    (void)hx_buf_append_cstr(&before, "\n],\"z\":1}");
    (void)hx_buf_append(&after, "", 1);
    expect(hx_rewrite_result_build(&rewrite, hx_buf_span(&before), &note, &out), after.data);
    hx_buf_fini(&before);
    hx_buf_fini(&after);
}

static void messages_of_our_own(void **state)
{
    expect(hx_rewrite_build_result(&out, HX_SPAN_LIT("\"x\""), HX_SPAN_LIT("{}")),
           "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{}}");
    expect(hx_rewrite_build_error(&out, HX_SPAN_LIT("9007199254740993"), false, -32602,
                                  HX_SPAN_LIT("a \"b\""), HX_SPAN_LIT("{\"type\":\"t\"}")),
           "{\"jsonrpc\":\"2.0\",\"id\":9007199254740993,\"error\":{\"code\":-32602,\"message\":"
           "\"a \\\"b\\\"\",\"data\":{\"type\":\"t\"}}}");
    expect(hx_rewrite_build_error(&out, HX_SPAN_NONE, false, 1502, HX_SPAN_LIT("m"), HX_SPAN_NONE),
           "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":1502,\"message\":\"m\"}}");
    expect(hx_rewrite_build_error(&out, HX_SPAN_NONE, true, 1502, HX_SPAN_LIT("m"), HX_SPAN_NONE),
           "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":1502,\"message\":\"m\"}}");
    expect(hx_rewrite_build_request(&out, HX_SPAN_LIT("1"), HX_SPAN_LIT("m"), HX_SPAN_LIT("{}")),
           "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{}}");
    expect(hx_rewrite_build_request(&out, HX_SPAN_NONE, HX_SPAN_LIT("n"), HX_SPAN_NONE),
           "{\"jsonrpc\":\"2.0\",\"method\":\"n\"}");
}

static void a_full_buffer_is_left_as_it_was(void **state)
{
    for (size_t room = 0; room < 120; room++) {
        struct hx_buf small;
        struct hx_rewrite_result both = {.id = HX_SPAN_INIT("7"),
                                         .operation = HX_SPAN_INIT("{\"id\":\"op\"}"),
                                         .note = HX_SPAN_INIT("n")};
        hx_buf_init(&small, 3 + room);
        assert_int_equal(hx_buf_append_cstr(&small, "abc"), 0);
        int rc = hx_rewrite_result_build(&rewrite, HX_SPAN_LIT("{\"content\":[]}"), &both, &small);
        assert_true(rc == 0 || rc < 0);
        if (rc < 0) {
            assert_span_equal(hx_buf_span(&small), "abc");
            assert_true(hx_buf_ok(&small));
        }
        hx_buf_reset(&small);
        assert_int_equal(hx_buf_append_cstr(&small, "abc"), 0);
        rc = hx_rewrite_build_error(&small, HX_SPAN_LIT("1"), false, 1, HX_SPAN_LIT("message"),
                                    HX_SPAN_NONE);
        if (rc < 0) {
            assert_span_equal(hx_buf_span(&small), "abc");
            assert_true(hx_buf_ok(&small));
        }
        hx_buf_fini(&small);
    }
}

static bool rewrite_everything(void *context)
{
    struct hx_rewrite fresh;
    struct hx_buf text;
    hx_rewrite_init(&fresh, &limits);
    hx_buf_init(&text, 1 << 20);
    struct hx_rewrite_call call = {.id = HX_SPAN_INIT("2"),
                                   .progress_token = HX_SPAN_INIT("3"),
                                   .drop_hapax_meta = true,
                                   .effect_key = HX_SPAN_INIT("e"),
                                   .effect_key_argument = HX_SPAN_INIT("/k")};
    struct hx_rewrite_result result = {
        .id = HX_SPAN_INIT("7"), .operation = HX_SPAN_INIT("{}"), .note = HX_SPAN_INIT("n")};
    struct hx_rewrite_tools tools = {.wants_key = wants_key, .context = (void *)(uintptr_t) "key"};
    int rc = hx_rewrite_call(&fresh, HX_SPAN_LIT(CALL("{\"name\":\"t\"}")), &call, &text);
    if (rc == 0)
        rc = hx_rewrite_result_build(&fresh, HX_SPAN_LIT("{\"content\":[]}"), &result, &text);
    if (rc == 0)
        rc = hx_rewrite_tools_result(
            &fresh,
            HX_SPAN_LIT("{\"result\":{\"tools\":[{\"name\":\"\\u0061\",\"inputSchema\":{}}]}}"),
            &tools, &text);
    assert_true(rc <= 0);
    hx_buf_fini(&text);
    hx_rewrite_fini(&fresh);
    return rc == 0;
}

static void refused_memory_is_survived(void **state)
{
    kit_fail_each_allocation(rewrite_everything, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_replaced_in_place),
        cmocka_unit_test(calls_toward_the_upstream),
        cmocka_unit_test(what_cannot_be_changed_is_named),
        cmocka_unit_test(progress_and_cancel),
        cmocka_unit_test(tasks_for_calls_are_withheld),
        cmocka_unit_test(own_tools_end_the_list),
        cmocka_unit_test(write_tools_get_a_key),
        cmocka_unit_test(results_get_envelope_and_note),
        cmocka_unit_test(long_contents_take_a_note),
        cmocka_unit_test(messages_of_our_own),
        cmocka_unit_test(a_full_buffer_is_left_as_it_was),
        cmocka_unit_test(refused_memory_is_survived),
    };
    hx_rewrite_init(&rewrite, &limits);
    hx_buf_init(&out, 1 << 20);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    hx_buf_fini(&out);
    hx_rewrite_fini(&rewrite);
    return failed;
}
