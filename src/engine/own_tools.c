/* SPDX-License-Identifier: MIT */
/*
 * Tools of our own beside the server's, each only where the operator offers it: hapax_operation
 * asks what became of a call, hapax_begin hands out a key, hapax_resolve lets the caller settle
 * what is unknown. They run nothing themselves.
 */
#include "engine/internal.h"

#include <stdio.h>

static const char operation_name[] = "hapax_operation";
static const char begin_name[] = "hapax_begin";
static const char resolve_name[] = "hapax_resolve";

static const char operation_tool[] =
    "{\"name\":\"hapax_operation\",\"description\":\"Tells what became of an earlier tool call of "
    "yours: whether it ran, is running, is unknown, and its result. Runs nothing.\","
    "\"inputSchema\":{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\","
    "\"description\":\"The operation's id, from the answer of the call.\"},\"key\":{\"type\":"
    "\"string\",\"description\":\"Instead of id: the key that was sent with the call; needs tool "
    "too.\"},\"tool\":{\"type\":\"string\",\"description\":\"With key: the tool's name.\"}}},"
    "\"annotations\":{\"readOnlyHint\":true}}";

static const char begin_tool[] =
    "{\"name\":\"hapax_begin\",\"description\":\"Hands out a key for one intended action. Call it "
    "once before an action that must not happen twice, send the key with that action, and send the "
    "same key whenever you repeat it.\",\"inputSchema\":{\"type\":\"object\",\"properties\":{}},"
    "\"annotations\":{\"readOnlyHint\":true}}";

static const char resolve_tool[] =
    "{\"name\":\"hapax_resolve\",\"description\":\"Settles a call whose outcome is unknown, after "
    "you have found out by other means, or a person told you, what became of it. Never guess.\","
    "\"inputSchema\":{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\","
    "\"description\":\"The operation's id, from the OUTCOME_UNKNOWN answer.\"},\"decision\":{"
    "\"type\":\"string\",\"enum\":[\"happened\",\"absent\",\"again\"],\"description\":\"happened: "
    "it did. absent: it did not, and shall not. again: it shall be done again.\"},\"note\":{"
    "\"type\":\"string\",\"description\":\"How you know; kept in the history.\"}},\"required\":["
    "\"id\",\"decision\"]},\"annotations\":{\"readOnlyHint\":false,\"destructiveHint\":true}}";

size_t hx_own_tools(const struct hx_server *server, struct hx_rewrite_own_tool *ret_tools)
{
    const struct hx_server_options *options = &server->options;
    const struct {
        bool is_offered;
        const char *name;
        const char *json;
    } rows[HX_OWN_TOOLS_MAX] = {
        {options->offers_operation, operation_name, operation_tool},
        {options->offers_begin, begin_name, begin_tool},
        {options->offers_resolve, resolve_name, resolve_tool},
    };
    size_t count = 0;
    for (size_t i = 0; i < HX_OWN_TOOLS_MAX; i++) {
        if (rows[i].is_offered)
            ret_tools[count++] = (struct hx_rewrite_own_tool){hx_span_cstr(rows[i].name),
                                                              hx_span_cstr(rows[i].json)};
    }
    return count;
}

/* ---- hapax_resolve ---- */

static void resolved(void *context, const struct hx_verdict *verdict, enum hx_event_type type)
{
    struct hx_request *request = context;
    struct hx_buf words;
    request->verb = NULL;
    if (verdict->is_absent) {
        hx_operations_refuse(request, "NOT_FOUND", "You have no such operation here.");
        return;
    }
    hx_buf_init(&words, 4096);
    bool is_done = hx_verdict_say(type, verdict, &words);
    (void)hx_buf_append_cstr(&words, ".");
    if (is_done) {
        hx_operations_answer(request, &words);
    } else {
        (void)hx_buf_append_char(&words, '\0');
        hx_operations_refuse(request, hx_answer_name(verdict->answer), words.data);
    }
    hx_buf_fini(&words);
}

static void resolved_happened(void *context, const struct hx_verdict *verdict)
{
    resolved(context, verdict, HX_EV_RESOLVE_HAPPENED);
}

static void resolved_absent(void *context, const struct hx_verdict *verdict)
{
    resolved(context, verdict, HX_EV_RESOLVE_ABSENT);
}

static void resolved_again(void *context, const struct hx_verdict *verdict)
{
    resolved(context, verdict, HX_EV_RESOLVE_AGAIN);
}

static const struct word {
    const char *word;
    enum hx_event_type type;
    hx_gateway_decided *decided;
} words_known[] = {
    {"happened", HX_EV_RESOLVE_HAPPENED, resolved_happened},
    {"absent", HX_EV_RESOLVE_ABSENT, resolved_absent},
    {"again", HX_EV_RESOLVE_AGAIN, resolved_again},
};

static const struct word *find_word(struct hx_span text)
{
    for (size_t i = 0; i < sizeof(words_known) / sizeof(words_known[0]); i++) {
        if (hx_span_eq_cstr(text, words_known[i].word))
            return &words_known[i];
    }
    return NULL;
}

static void resolve(struct hx_request *request, struct hx_span arguments)
{
    struct hx_session *session = request->session;
    struct hx_gateway *gateway = session->gateway;
    struct hx_record owner = {.tenant = session->options.tenant,
                              .principal = session->options.principal,
                              .server = session->options.server->options.name};
    struct hx_decision_target target = {.owner = &owner};
    struct hx_decision decision = {.type = HX_EV_RESOLVE_HAPPENED};
    const struct word *word = NULL;
    char who[300];
    int rc = hx_operations_read(gateway, arguments);
    if (rc < 0) {
        hx_operations_refuse_unread(request);
        return;
    }
    if (rc == 0 && hx_id_parse(hx_operations_text(gateway, "id"), &target.id))
        word = find_word(hx_operations_text(gateway, "decision"));
    if (word == NULL) {
        hx_operations_refuse(request, "INVALID",
                             "Say the operation's \"id\" and what became of it as \"decision\": "
                             "happened, absent or again.");
        return;
    }
    decision.words = hx_operations_text(gateway, "note");
    if (decision.words.len > HX_STORE_NOTE_MAX / 4) {
        hx_operations_refuse(request, "INVALID", "The note is too long: say it in 500 bytes.");
        return;
    }
    decision.type = word->type;
    if (word->type == HX_EV_RESOLVE_HAPPENED)
        decision.outcome = hx_outcome_confirmed(gateway);
    snprintf(who, sizeof(who), "caller %.*s, by hapax_resolve",
             HX_SPAN_FMT(session->options.principal));
    request->verb =
        hx_gateway_decide(gateway, &target, &decision, hx_span_cstr(who), word->decided, request);
}

bool hx_own_tool_take(struct hx_session *session, const struct hx_rpc_msg *msg,
                      const struct hx_mcp_call *call, struct hx_buf *line, struct hx_batch *batch)
{
    const struct hx_server_options *options = &session->link->server->options;
    struct hx_span name = call->name.text;
    bool is_operation = options->offers_operation && hx_span_eq_cstr(name, operation_name);
    bool is_begin = options->offers_begin && hx_span_eq_cstr(name, begin_name);
    bool is_resolve = options->offers_resolve && hx_span_eq_cstr(name, resolve_name);
    if (!is_operation && !is_begin && !is_resolve)
        return false;
    struct hx_span arguments = call->arguments;
    struct hx_request *request = hx_request_new(session, HX_REQUEST_PASS, msg, line, batch);
    request->is_own_tool = true;
    request->is_harmless = is_operation;
    if (is_resolve)
        resolve(request, arguments);
    else
        hx_operations_take(request, is_begin ? HX_MCP_HAPAX_BEGIN : HX_MCP_HAPAX_GET, arguments);
    return true;
}
