/* SPDX-License-Identifier: MIT */
/* What a gateway reads in MCP messages, and what it makes of members of the wrong kind. */
#include "tests/kit/text_kit.h"
#include "wire/mcp.h"

static const struct hx_json_limits limits = {
    .depth_max = 64, .tokens_max = 100000, .text_max = 1 << 20};
static struct hx_json_tape tape;
static struct hx_json_tape scratch;
static struct hx_arena arena;

static struct hx_rpc_msg read_msg(const char *text)
{
    struct hx_rpc_msg msg;
    assert_int_equal(hx_rpc_read(&tape, hx_span_cstr(text), &limits, &arena, &msg), 0);
    assert_int_not_equal(msg.kind, HX_RPC_INVALID);
    return msg;
}

static struct hx_mcp_call read_call(const char *params)
{
    static struct hx_buf text;
    struct hx_mcp_call call;
    hx_buf_fini(&text);
    hx_buf_init(&text, 1 << 20);
    assert_int_equal(hx_buf_printf(&text,
                                   "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\","
                                   "\"params\":%s}",
                                   params),
                     0);
    (void)hx_buf_append(&text, "", 1);
    struct hx_rpc_msg msg = read_msg(text.data);
    assert_int_equal(hx_mcp_call_read(&tape, &msg, &arena, &call), 0);
    return call;
}

static void revisions_and_methods_are_tables(void **state)
{
    for (int i = HX_MCP_UNKNOWN + 1; i <= HX_MCP_2026_07_28; i++) {
        const struct hx_mcp_facts *facts = hx_mcp_facts((enum hx_mcp_revision)i);
        assert_int_equal(facts->revision, i);
        assert_int_equal(hx_mcp_revision_parse(facts->name), i);
        assert_int_equal(facts->may_batch, i == HX_MCP_2025_03_26);
        assert_int_equal(facts->has_handshake, i != HX_MCP_2026_07_28);
        assert_int_equal(facts->has_core_tasks, i == HX_MCP_2025_11_25);
    }
    assert_int_equal(hx_mcp_revision_parse(HX_SPAN_LIT("2031-01-01")), HX_MCP_UNKNOWN);
    for (int i = HX_MCP_METHOD_OTHER + 1; i < HX_MCP_METHOD_COUNT; i++) {
        struct hx_span name = hx_mcp_method_name((enum hx_mcp_method)i);
        assert_false(hx_span_is_absent(name));
        assert_int_equal(hx_mcp_method_parse(name), i);
    }
    assert_int_equal(hx_mcp_method_parse(HX_SPAN_LIT("acme/search")), HX_MCP_METHOD_OTHER);
    assert_int_equal(hx_mcp_method_parse(HX_SPAN_LIT("Tools/Call")), HX_MCP_METHOD_OTHER);
}

static void what_may_be_asked_again(void **state)
{
    static const char *const harmless[] = {
        "initialize",     "ping",           "tools/list",          "logging/setLevel",
        "tasks/get",      "tasks/result",   "resources/subscribe", "resources/unsubscribe",
        "resources/read", "prompts/get",    "completion/complete", "hapax/operations/get",
        "tasks/list",     "resources/list", "prompts/list",        "hapax/operations/list"};
    static const char *const others[] = {"tools/call",
                                         "tasks/cancel",
                                         "orders/create",
                                         "",
                                         "hapax/operations/cancel",
                                         "hapax/operations/begin"};
    (void)state;
    for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++) {
        struct hx_span name = hx_span_cstr(harmless[i]);
        if (!hx_mcp_is_harmless(hx_mcp_method_parse(name), name))
            fail_msg("%s changes nothing", harmless[i]);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        struct hx_span name = hx_span_cstr(others[i]);
        if (hx_mcp_is_harmless(hx_mcp_method_parse(name), name))
            fail_msg("%s may have acted", others[i]);
    }
}

static void a_call_with_everything(void **state)
{
    struct hx_mcp_call call = read_call(
        "{\"name\":\"p\\u0061y\",\"arguments\":{ \"n\":9007199254740993, \"e\":[1E400,{\"x\":{}}] "
        "},"
        "\"idempotencyKey\":\"k1\",\"task\":{\"ttl\":1},\"_meta\":{\"progressToken\":\"t\","
        "\"dev.hapax/idempotencyKey\":\"k2\",\"dev.hapax/firstSent\":\"2026-01-01T00:00:00Z\","
        "\"dev.hapax/retry\":\"op\"}}");
    assert_int_equal(call.name.state, HX_MCP_TEXT_GIVEN);
    assert_span_equal(call.name.text, "pay");
    assert_span_equal(call.arguments, "{ \"n\":9007199254740993, \"e\":[1E400,{\"x\":{}}] }");
    assert_true(call.arguments_is_object);
    assert_span_equal(call.progress_token, "\"t\"");
    assert_span_equal(call.meta_key.text, "k2");
    assert_span_equal(call.first_sent.text, "2026-01-01T00:00:00Z");
    assert_span_equal(call.retry.text, "op");
    assert_span_equal(call.param_key.text, "k1");
    assert_true(call.has_task);
    assert_false(call.has_duplicates);
}

static void a_call_with_little_or_nonsense(void **state)
{
    struct hx_mcp_call call = read_call("{\"name\":\"x\"}");
    assert_span_equal(call.arguments, NULL);
    assert_span_equal(call.meta, NULL);
    assert_span_equal(call.progress_token, NULL);
    assert_int_equal(call.meta_key.state, HX_MCP_TEXT_ABSENT);
    assert_int_equal(call.param_key.state, HX_MCP_TEXT_ABSENT);
    assert_false(call.has_task);

    call = read_call("{\"name\":5,\"arguments\":[1],\"idempotencyKey\":7,\"_meta\":{"
                     "\"dev.hapax/idempotencyKey\":null,\"progressToken\":1.5,"
                     "\"dev.hapax/retry\":\"\\ud800\"}}");
    assert_int_equal(call.name.state, HX_MCP_TEXT_BAD);
    assert_span_equal(call.arguments, "[1]");
    assert_false(call.arguments_is_object);
    assert_int_equal(call.param_key.state, HX_MCP_TEXT_BAD);
    assert_int_equal(call.meta_key.state, HX_MCP_TEXT_BAD);
    assert_int_equal(call.retry.state, HX_MCP_TEXT_BAD);
    assert_span_equal(call.progress_token, NULL);

    call = read_call("{\"name\":\"x\",\"_meta\":7}");
    assert_span_equal(call.meta, NULL);
    call = read_call("[]");
    assert_int_equal(call.name.state, HX_MCP_TEXT_ABSENT);
    assert_true(read_call("{\"name\":\"x\",\"name\":\"y\"}").has_duplicates);
    assert_true(read_call("{\"name\":\"x\",\"_meta\":{\"a\":1,\"\\u0061\":1}}").has_duplicates);
    assert_false(read_call("{\"name\":\"x\",\"arguments\":{\"a\":1,\"a\":1}}").has_duplicates);
}

static void keys_in_arguments_are_found_by_pointer(void **state)
{
    static const struct {
        const char *arguments;
        enum hx_mcp_text_state expected;
    } cases[] = {
        {"{\"deep\":{\"k\":\"v\"}}", HX_MCP_TEXT_GIVEN},
        {"{\"deep\":{\"k\":5}}", HX_MCP_TEXT_BAD},
        {"{\"deep\":{}}", HX_MCP_TEXT_ABSENT},
        {"{}", HX_MCP_TEXT_ABSENT},
        {"[]", HX_MCP_TEXT_ABSENT},
        {NULL, HX_MCP_TEXT_ABSENT},
        {"{", HX_MCP_TEXT_ABSENT},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hx_mcp_text text;
        assert_int_equal(hx_mcp_argument_read(&scratch, hx_span_cstr(cases[i].arguments),
                                              HX_SPAN_LIT("/deep/k"), &limits, &arena, &text),
                         0);
        assert_int_equal(text.state, cases[i].expected);
    }
}

static void capabilities_of_clients(void **state)
{
    struct hx_mcp_initialize read;
    assert_int_equal(
        hx_mcp_initialize_read(
            &scratch,
            HX_SPAN_LIT("{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"elicitation\":{"
                        "\"form\":{},\"url\":{}},\"sampling\":{},\"roots\":{\"listChanged\":true},"
                        "\"tasks\":{},\"extensions\":{\"dev.hapax/operations\":{}}},"
                        "\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}}"),
            &limits, &arena, &read),
        0);
    assert_int_equal(read.revision, HX_MCP_2025_11_25);
    assert_span_equal(read.protocol_version.text, "2025-11-25");
    assert_span_equal(read.client_name.text, "c");
    assert_span_equal(read.client_version.text, "1");
    assert_true(read.can_elicit);
    assert_true(read.can_elicit_form);
    assert_true(read.can_elicit_url);
    assert_true(read.can_sample);
    assert_true(read.has_roots);
    assert_true(read.has_tasks);
    assert_true(read.has_operations_extension);

    static const struct {
        const char *elicitation;
        bool can, form, url;
    } cases[] = {
        {"{}", true, true, false},           {"{\"form\":{}}", true, true, false},
        {"{\"url\":{}}", true, false, true}, {"true", false, false, false},
        {"null", false, false, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hx_buf text;
        hx_buf_init(&text, 4096);
        (void)hx_buf_printf(&text, "{\"capabilities\":{\"elicitation\":%s}}", cases[i].elicitation);
        assert_int_equal(
            hx_mcp_initialize_read(&scratch, hx_buf_span(&text), &limits, &arena, &read), 0);
        assert_int_equal(read.can_elicit, cases[i].can);
        assert_int_equal(read.can_elicit_form, cases[i].form);
        assert_int_equal(read.can_elicit_url, cases[i].url);
        assert_int_equal(read.revision, HX_MCP_UNKNOWN);
        assert_int_equal(read.protocol_version.state, HX_MCP_TEXT_ABSENT);
        hx_buf_fini(&text);
    }
}

static void capabilities_of_servers(void **state)
{
    struct hx_mcp_initialize_result read;
    assert_int_equal(
        hx_mcp_initialize_result_read(
            &scratch,
            HX_SPAN_LIT(
                "{\"protocolVersion\":\"2024-11-05\",\"capabilities\":{\"tools\":{"
                "\"listChanged\":true,\"idempotency\":{}},\"tasks\":{\"requests\":{\"tools\":"
                "{\"call\":{}}}}},\"serverInfo\":{\"name\":\"s\",\"version\":\"2\"}}"),
            &limits, &arena, &read),
        0);
    assert_int_equal(read.revision, HX_MCP_2024_11_05);
    assert_span_equal(read.server_name.text, "s");
    assert_span_equal(read.server_version.text, "2");
    assert_true(read.has_tools);
    assert_true(read.tools_list_changed);
    assert_true(read.has_idempotency);
    assert_true(read.has_tasks);
    assert_true(read.has_task_calls);
    assert_false(read.has_operations_extension);
    assert_int_equal(hx_mcp_initialize_result_read(&scratch, HX_SPAN_LIT("{\"capabilities\":{}}"),
                                                   &limits, &arena, &read),
                     0);
    assert_false(read.has_tools);
    assert_false(read.has_idempotency);
    assert_int_equal(
        hx_mcp_initialize_result_read(&scratch, HX_SPAN_LIT("nonsense"), &limits, &arena, &read),
        0);
    assert_false(read.has_tools);
}

static void tools_with_their_hints(void **state)
{
    struct hx_mcp_tools tools;
    struct hx_mcp_tool tool;
    assert_int_equal(
        hx_mcp_tools_read(
            &scratch,
            HX_SPAN_LIT("{\"tools\":[{\"name\":\"a\",\"inputSchema\":{ \"type\":\"object\" },"
                        "\"annotations\":{\"readOnlyHint\":true,\"idempotentHint\":false,"
                        "\"destructiveHint\":\"yes\"}},7,{\"name\":3},{\"inputSchema\":{}},"
                        "{\"name\":\"get_or_create\",\"execution\":{\"taskSupport\":"
                        "\"required\"}}],\"nextCursor\":\"\"}"),
            &limits, &arena, &tools),
        0);
    assert_true(tools.has_more);
    assert_span_equal(tools.next_cursor.text, "");
    assert_int_equal(hx_mcp_tools_next(&tools, &arena, &tool), 1);
    assert_span_equal(tool.name, "a");
    assert_int_equal(tool.read_only, HX_MCP_HINT_TRUE);
    assert_int_equal(tool.idempotent, HX_MCP_HINT_FALSE);
    assert_int_equal(tool.destructive, HX_MCP_HINT_ABSENT);
    assert_int_equal(tool.task_support, HX_MCP_TASK_FORBIDDEN);
    assert_span_equal(tool.input_schema, "{ \"type\":\"object\" }");
    assert_int_equal(hx_mcp_tools_next(&tools, &arena, &tool), 1);
    assert_span_equal(tool.name, "get_or_create");
    assert_int_equal(tool.read_only, HX_MCP_HINT_ABSENT);
    assert_int_equal(tool.task_support, HX_MCP_TASK_REQUIRED);
    assert_span_equal(tool.input_schema, NULL);
    assert_int_equal(hx_mcp_tools_next(&tools, &arena, &tool), 0);
    assert_int_equal(hx_mcp_tools_read(&scratch, HX_SPAN_LIT("{\"tools\":{},\"nextCursor\":null}"),
                                       &limits, &arena, &tools),
                     0);
    assert_false(tools.has_more);
    assert_int_equal(hx_mcp_tools_next(&tools, &arena, &tool), 0);
}

static void cancels_and_progress(void **state)
{
    struct hx_mcp_cancelled cancelled;
    struct hx_rpc_msg msg =
        read_msg("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
                 "\"requestId\":\"7\",\"reason\":\"time\\u006fut\"}}");
    assert_int_equal(hx_mcp_cancelled_read(&tape, &msg, &arena, &cancelled), 0);
    assert_int_equal(cancelled.request_id.type, HX_RPC_ID_STRING);
    assert_span_equal(cancelled.request_id.raw, "\"7\"");
    assert_span_equal(cancelled.reason.text, "timeout");
    /* The schema of 2025-11-25 lets it be absent. */
    static const char *const odd[] = {
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\"}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
        "cancelled\",\"params\":{\"requestId\":null}}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
        "cancelled\",\"params\":{\"requestId\":1.5}}"};
    for (size_t i = 0; i < 3; i++) {
        msg = read_msg(odd[i]);
        assert_int_equal(hx_mcp_cancelled_read(&tape, &msg, &arena, &cancelled), 0);
        assert_int_equal(cancelled.request_id.type, HX_RPC_ID_NONE);
        assert_int_equal(cancelled.reason.state, HX_MCP_TEXT_ABSENT);
    }
    msg = read_msg("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{"
                   "\"progressToken\":0,\"progress\":0.5}}");
    struct hx_rpc_id token = hx_mcp_progress_token(&tape, &msg);
    assert_int_equal(token.type, HX_RPC_ID_INTEGER);
    assert_span_equal(token.raw, "0");
}

static void tasks(void **state)
{
    static const struct {
        const char *text;
        int rc;
        const char *id;
        enum hx_mcp_task_status status;
        int64_t poll_ms;
    } cases[] = {
        {"{\"taskId\":\"t\",\"status\":\"working\"}", 0, "\"t\"", HX_MCP_TASK_WORKING, 0},
        {"{\"taskId\":\"\\u0074\",\"status\":\"input_required\",\"pollInterval\":5}", 0,
         "\"\\u0074\"", HX_MCP_TASK_WORKING, 5},
        {"{\"taskId\":\"\",\"status\":\"completed\",\"pollInterval\":\"5\"}", 0, "\"\"",
         HX_MCP_TASK_COMPLETED, 0},
        {"{\"taskId\":\"t\",\"status\":\"failed\",\"pollInterval\":1.5}", 0, "\"t\"",
         HX_MCP_TASK_FAILED, 0},
        {"{\"taskId\":\"t\",\"status\":\"cancelled\"}", 0, "\"t\"", HX_MCP_TASK_CANCELLED, 0},
        {"{\"taskId\":\"t\",\"status\":\"done\"}", 0, "\"t\"", HX_MCP_TASK_OTHER, 0},
        {"{\"taskId\":\"t\"}", 0, "\"t\"", HX_MCP_TASK_OTHER, 0},
        {"{\"taskId\":7,\"status\":\"working\"}", 1, NULL, HX_MCP_TASK_OTHER, 0},
        {"{}", 1, NULL, HX_MCP_TASK_OTHER, 0},
        {"[]", 1, NULL, HX_MCP_TASK_OTHER, 0},
        {"{", 1, NULL, HX_MCP_TASK_OTHER, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hx_mcp_task task;
        assert_int_equal(hx_mcp_task_read(&scratch, hx_span_cstr(cases[i].text), &limits, &task),
                         cases[i].rc);
        if (cases[i].rc == 0)
            assert_span_equal(task.id, cases[i].id);
        assert_int_equal(task.status, cases[i].status);
        assert_int_equal(task.poll_ms, cases[i].poll_ms);
    }
}

static void results_and_errors(void **state)
{
    static const struct {
        const char *result;
        bool is_error, is_task, is_input_required;
    } cases[] = {
        {"{\"content\":[]}", false, false, false},
        {"{\"content\":[],\"isError\":true}", true, false, false},
        {"{\"content\":[],\"isError\":\"true\"}", false, false, false},
        {"{\"task\":{\"taskId\":\"t\",\"status\":\"working\"}}", false, true, false},
        {"{\"task\":{\"status\":\"working\"}}", false, false, false},
        {"{\"content\":[],\"task\":{\"taskId\":\"t\"}}", false, false, false},
        {"{\"resultType\":\"task\",\"taskId\":\"t\"}", false, true, false},
        {"{\"resultType\":\"input_required\",\"requestState\":\"s\"}", false, false, true},
        {"{\"resultType\":\"complete\",\"content\":[]}", false, false, false},
        {"null", false, false, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hx_buf text;
        hx_buf_init(&text, 4096);
        (void)hx_buf_printf(&text, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":%s}", cases[i].result);
        (void)hx_buf_append(&text, "", 1);
        struct hx_rpc_msg msg = read_msg(text.data);
        struct hx_mcp_call_result read = hx_mcp_call_result_read(&tape, &msg);
        assert_int_equal(read.is_error, cases[i].is_error);
        assert_int_equal(read.is_task, cases[i].is_task);
        assert_int_equal(read.is_input_required, cases[i].is_input_required);
        hx_buf_fini(&text);
    }
    struct hx_mcp_error error;
    struct hx_rpc_msg msg = read_msg("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32602,"
                                     "\"message\":\"m\",\"data\":{\"type\":\"t\"}}}");
    assert_int_equal(hx_mcp_error_read(&tape, &msg, &arena, &error), 0);
    assert_true(error.has_code);
    assert_int_equal(error.code, -32602);
    assert_span_equal(error.message.text, "m");
    assert_span_equal(error.data_type.text, "t");
    msg = read_msg("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":99999999999999999999}}");
    assert_int_equal(hx_mcp_error_read(&tape, &msg, &arena, &error), 0);
    assert_false(error.has_code);
    assert_int_equal(error.message.state, HX_MCP_TEXT_ABSENT);
}

/* Reads with escapes in every field, so that each copy is an allocation that can be refused. */
static bool read_everything(void *context)
{
    struct hx_json_tape first, second;
    struct hx_arena words;
    struct hx_rpc_msg msg;
    struct hx_mcp_call call;
    struct hx_mcp_tools tools;
    struct hx_mcp_tool tool;
    struct hx_mcp_initialize initialize;
    hx_json_tape_init(&first);
    hx_json_tape_init(&second);
    hx_arena_init(&words, 1 << 20);
    int rc =
        hx_rpc_read(&first,
                    HX_SPAN_LIT("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools\\/call\","
                                "\"params\":{\"name\":\"\\u0061\",\"idempotencyKey\":\"\\u0061\","
                                "\"_meta\":{\"dev.hapax/retry\":\"\\u0061\"}}}"),
                    &limits, &words, &msg);
    if (rc == 0)
        rc = hx_mcp_call_read(&first, &msg, &words, &call);
    if (rc == 0)
        rc = hx_mcp_tools_read(&second, HX_SPAN_LIT("{\"tools\":[{\"name\":\"\\u0061\"}]}"),
                               &limits, &words, &tools);
    if (rc == 0)
        rc = hx_mcp_tools_next(&tools, &words, &tool) == 1 ? 0 : -1;
    if (rc == 0)
        rc = hx_mcp_initialize_read(&second,
                                    HX_SPAN_LIT("{\"protocolVersion\":\"\\u0061\",\"clientInfo\":{"
                                                "\"name\":\"\\u0061\",\"version\":\"\\u0061\"}}"),
                                    &limits, &words, &initialize);
    hx_arena_fini(&words);
    hx_json_tape_fini(&first);
    hx_json_tape_fini(&second);
    return rc == 0;
}

static void refused_memory_is_survived(void **state)
{
    kit_fail_each_allocation(read_everything, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(revisions_and_methods_are_tables),
        cmocka_unit_test(what_may_be_asked_again),
        cmocka_unit_test(a_call_with_everything),
        cmocka_unit_test(a_call_with_little_or_nonsense),
        cmocka_unit_test(keys_in_arguments_are_found_by_pointer),
        cmocka_unit_test(capabilities_of_clients),
        cmocka_unit_test(capabilities_of_servers),
        cmocka_unit_test(tools_with_their_hints),
        cmocka_unit_test(cancels_and_progress),
        cmocka_unit_test(tasks),
        cmocka_unit_test(results_and_errors),
        cmocka_unit_test(refused_memory_is_survived),
    };
    hx_json_tape_init(&tape);
    hx_json_tape_init(&scratch);
    hx_arena_init(&arena, 1 << 20);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)read_call("{}");
    hx_arena_fini(&arena);
    hx_json_tape_fini(&tape);
    hx_json_tape_fini(&scratch);
    return failed;
}
