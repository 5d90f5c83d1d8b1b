/* SPDX-License-Identifier: MIT */
/*
 * Who may come, and where each request goes.
 */
#include "app/admin_state.h"

#include <stdio.h>
#include <string.h>

#include "adapter/http_server/http_server.h"
#include "app/config.h"
#include "app/token.h"
#include "base/alloc.h"
#include "base/fault.h"

enum { BODY_MAX = 1 << 20, ARENA_MAX = 4 << 20, JSON_MAX = 64 << 20, ASKED_MAX = 256 };

/* ---- answers ---- */

void admin_answer(struct hx_admin *admin, uint64_t exchange, uint32_t status, struct hx_buf *json)
{
    const struct hx_web_header headers[] = {
        {HX_SPAN_LIT("Content-Type"), HX_SPAN_LIT("application/json")},
        {HX_SPAN_LIT("Cache-Control"), HX_SPAN_LIT("no-store")},
        {HX_SPAN_LIT("WWW-Authenticate"), HX_SPAN_LIT("Bearer")},
    };
    const struct hx_web_answer head = {
        .status = status, .headers = headers, .header_count = status == 401 ? 3 : 2};
    (void)hx_buf_append_char(json, '\n'); /* the buffer remembers a failure */
    if (!hx_buf_ok(json)) {
        hx_buf_reset(json);
        admin->web->ops->cut(admin->web, exchange);
        return;
    }
    admin->web->ops->answer(admin->web, exchange, &head, json, 0);
}

void admin_refuse(struct hx_admin *admin, uint64_t exchange, uint32_t status, const char *code,
                  const char *sentence)
{
    struct hx_buf json;
    struct hx_json_writer writer;
    hx_buf_init(&json, (size_t)16 * 1024);
    hx_json_writer_init(&writer, &json);
    hx_json_open_object(&writer);
    hx_json_put_name(&writer, "error");
    hx_json_put_cstr(&writer, code);
    hx_json_put_name(&writer, "sentence");
    hx_json_put_cstr(&writer, sentence);
    hx_json_close_object(&writer);
    admin_answer(admin, exchange, status, &json);
    hx_buf_fini(&json);
}

/* ---- asks ---- */

struct admin_ask *admin_ask_new(struct hx_admin *admin, uint64_t exchange, const char *who)
{
    struct admin_ask *ask = hx_new(struct admin_ask);
    ask->admin = admin;
    ask->exchange = exchange;
    ask->who = who;
    hx_arena_init(&ask->arena, ARENA_MAX);
    hx_buf_init(&ask->json, JSON_MAX);
    hx_list_append(&admin->asked, &ask->node);
    return ask;
}

void admin_ask_free(struct admin_ask *ask)
{
    hx_list_unlink(&ask->node);
    hx_arena_fini(&ask->arena);
    hx_buf_fini(&ask->json);
    hx_free(ask);
}

struct hx_span admin_text(struct admin_ask *ask, const char *name)
{
    const struct hx_json_tape *tape = &ask->admin->tape;
    struct hx_span text;
    uint32_t at = hx_json_member_of(tape, 0, hx_span_cstr(name), HX_JSON_STRING);
    if (at == HX_JSON_NONE || hx_json_string(tape, at, &ask->arena, &text) != 0)
        return HX_SPAN_NONE;
    return hx_arena_dup(&ask->arena, text);
}

struct hx_span admin_raw(struct admin_ask *ask, const char *name)
{
    const struct hx_json_tape *tape = &ask->admin->tape;
    uint32_t at = hx_json_member(tape, 0, hx_span_cstr(name));
    return at == HX_JSON_NONE ? HX_SPAN_NONE : hx_arena_dup(&ask->arena, hx_json_raw(tape, at));
}

bool admin_flag(struct admin_ask *ask, const char *name)
{
    bool flag = false;
    const struct hx_json_tape *tape = &ask->admin->tape;
    uint32_t at = hx_json_member(tape, 0, hx_span_cstr(name));
    return at != HX_JSON_NONE && hx_json_bool(tape, at, &flag) && flag;
}

/* ---- requests ---- */

/* NULL: nobody that is known. */
static const char *who_asks(struct hx_admin *admin, const struct hx_web_request *request)
{
    const struct hx_span scheme = HX_SPAN_LIT("bearer ");
    struct hx_span given = hx_web_request_find(request, "authorization");
    if (hx_web_request_count(request, "authorization") != 1 || given.len <= scheme.len ||
        !hx_span_eq_nocase(hx_span(given.ptr, scheme.len), scheme))
        return NULL;
    struct hx_span token = hx_token_trim(hx_span(given.ptr + scheme.len, given.len - scheme.len));
    return hx_admin_tokens_find(&admin->tokens, admin->hasher, token);
}

/* "/v1/operations/ID" and what follows it. */
static bool is_about_one(struct hx_span path, struct hx_id *ret_id, struct hx_span *ret_rest)
{
    const struct hx_span prefix = HX_SPAN_LIT("/v1/operations/");
    enum { ID_LEN = HX_ID_TEXT_SIZE - 1 };
    if (!hx_span_starts_with(path, prefix) || path.len < prefix.len + ID_LEN)
        return false;
    *ret_rest = hx_span(path.ptr + prefix.len + ID_LEN, path.len - prefix.len - ID_LEN);
    return hx_id_parse(hx_span(path.ptr + prefix.len, ID_LEN), ret_id);
}

static bool read_body(struct hx_admin *admin, const struct hx_web_request *request)
{
    struct hx_json_limits limits = HX_JSON_LIMITS_DEFAULT;
    return request->body.len > 0 &&
           hx_json_read(&admin->tape, hx_buf_span(&request->body), &limits) == 0 &&
           hx_json_is(&admin->tape, 0, HX_JSON_OBJECT) && !admin->tape.has_duplicates;
}

static void post(struct hx_admin *admin, uint64_t exchange, const struct hx_web_request *request,
                 const char *who)
{
    struct hx_id id;
    struct hx_span rest;
    bool is_decision =
        is_about_one(request->path, &id, &rest) && hx_span_eq_cstr(rest, "/decision");
    bool is_cancel = hx_span_eq_cstr(request->path, "/v1/cancel");
    bool is_evidence = hx_span_eq_cstr(request->path, "/v1/evidence");
    if (!is_decision && !is_cancel && !is_evidence) {
        admin_refuse(admin, exchange, 404, "NOT_FOUND", "There is nothing here to post to.");
        return;
    }
    if (!read_body(admin, request)) {
        admin_refuse(admin, exchange, 400, "INVALID",
                     "The body must be a JSON object without two members of one name.");
        return;
    }
    struct admin_ask *ask = admin_ask_new(admin, exchange, who);
    if (is_decision)
        admin_decide(ask, &id);
    else if (is_cancel)
        admin_cancel(ask);
    else
        admin_evidence(ask);
}

static void get(struct hx_admin *admin, uint64_t exchange, const struct hx_web_request *request,
                const char *who)
{
    struct hx_id id;
    struct hx_span rest;
    if (hx_span_eq_cstr(request->path, "/v1/operations"))
        admin_list(admin, exchange, who, request->query);
    else if (is_about_one(request->path, &id, &rest) && rest.len == 0)
        admin_show(admin, exchange, who, &id, request->query);
    else
        admin_refuse(admin, exchange, 404, "NOT_FOUND", "There is nothing here.");
}

static bool has_many_asked(const struct hx_admin *admin)
{
    unsigned count = 0;
    hx_list_for_each (node, &admin->asked)
        count++;
    return count >= ASKED_MAX;
}

static void take(struct hx_admin *admin, uint64_t exchange, const struct hx_web_request *request)
{
    const char *who = who_asks(admin, request);
    if (who == NULL) {
        admin_refuse(admin, exchange, 401, "UNAUTHORIZED",
                     "This needs a token of admin_tokens: Authorization: Bearer TOKEN.");
    } else if (!hx_span_is_absent(hx_web_request_find(request, "origin"))) {
        admin_refuse(admin, exchange, 403, "FORBIDDEN", "Web pages are not answered here.");
    } else if (has_many_asked(admin)) {
        admin_refuse(admin, exchange, 503, "BUSY", "Too much is asked at once. Try again.");
    } else if (hx_span_eq_cstr(request->method, "GET")) {
        get(admin, exchange, request, who);
    } else if (hx_span_eq_cstr(request->method, "POST")) {
        post(admin, exchange, request, who);
    } else {
        admin_refuse(admin, exchange, 405, "METHOD", "Only GET and POST are answered here.");
    }
}

bool hx_admin_turn(struct hx_admin *admin)
{
    struct hx_list *node;
    bool had_any = false;
    while (admin != NULL && (node = hx_list_take_first(&admin->inbox)) != NULL) {
        struct hx_web_event *event = hx_container_of(node, struct hx_web_event, node);
        if (event->type == HX_WEB_REQUEST)
            take(admin, event->exchange, event->request);
        hx_web_event_free(event);
        had_any = true;
    }
    return had_any;
}

/* ---- its life ---- */

static int listen_at(struct hx_admin *admin)
{
    const struct hx_admin_options *options = &admin->options;
    struct hx_config_listen listen = {0};
    struct hx_arena arena;
    uint16_t port = 0;
    hx_arena_init(&arena, 4096);
    int rc = hx_listen_parse(&arena, hx_span_cstr(options->settings->admin_listen), &listen);
    hx_assert(rc == 0); /* settings_check.c */
    if (listen.path != NULL)
        rc = hx_http_server_listen_unix(admin->web, listen.path);
    else
        rc = hx_http_server_listen_tcp(admin->web, listen.host, listen.port, &port);
    if (rc == 0 && listen.path != NULL)
        fprintf(stderr, "hapax %s: admin API at unix:%s\n", options->command, listen.path);
    else if (rc == 0)
        fprintf(stderr, "hapax %s: admin API at http://%s:%u\n", options->command, listen.host,
                port);
    hx_arena_fini(&arena);
    return rc == 0 ? 0 : HX_TRACE(rc);
}

int hx_admin_open(const struct hx_admin_options *options, struct hx_admin **ret_admin)
{
    struct hx_http_server_options web = hx_http_server_defaults();
    struct hx_complaint complaint;
    *ret_admin = NULL;
    if (options->settings->admin_listen == NULL)
        return 0;
    struct hx_admin *admin = hx_new(struct hx_admin);
    admin->options = *options;
    admin->hasher = hx_hasher_new();
    hx_list_init(&admin->inbox);
    hx_list_init(&admin->asked);
    hx_json_tape_init(&admin->tape);
    int rc = hx_admin_tokens_read(options->settings->admin_tokens, &admin->tokens, &complaint);
    hx_assert(rc == 0); /* settings_check.c */
    web.message_max_bytes = BODY_MAX;
    web.bodies_max_bytes = (uint64_t)16 * BODY_MAX;
    web.connections_max = 64;
    admin->web = hx_http_server_new(options->loop, &admin->inbox, &web);
    rc = listen_at(admin);
    if (rc != 0) {
        hx_admin_free(admin);
        return rc;
    }
    *ret_admin = admin;
    return 0;
}

void hx_admin_drain(struct hx_admin *admin)
{
    if (admin != NULL)
        admin->web->ops->drain(admin->web);
}

struct hx_admin *hx_admin_free(struct hx_admin *admin)
{
    struct hx_list *node;
    if (admin == NULL)
        return NULL;
    while ((node = hx_list_first(&admin->asked)) != NULL)
        admin_ask_free(hx_container_of(node, struct admin_ask, node));
    hx_http_server_free(admin->web);
    while ((node = hx_list_take_first(&admin->inbox)) != NULL)
        hx_web_event_free(hx_container_of(node, struct hx_web_event, node));
    hx_hasher_free(admin->hasher);
    hx_json_tape_fini(&admin->tape);
    return hx_free(admin);
}
