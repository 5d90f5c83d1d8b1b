/* SPDX-License-Identifier: MIT */
/*
 * What a session is called, and the text from which a later process can take up a stream of it.
 */
#include <stdio.h>

#include "adapter/http_client/client.h"
#include "base/alloc.h"

struct hx_http_session *hx_http_session_new(enum hx_mcp_revision revision)
{
    struct hx_http_session *session = hx_new(struct hx_http_session);

    session->holders = 1;
    session->facts = hx_mcp_facts(revision);
    if (revision != HX_MCP_UNKNOWN)
        (void)snprintf(session->protocol, sizeof session->protocol, "%.*s",
                       HX_SPAN_FMT(session->facts->name));
    return session;
}

struct hx_http_session *hx_http_session_hold(struct hx_http_session *session)
{
    session->holders++;
    return session;
}

struct hx_http_session *hx_http_session_drop(struct hx_http_session *session)
{
    if (session == NULL || --session->holders > 0)
        return NULL;
    return hx_free(session);
}

static bool is_visible(struct hx_span text, char first)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < first || text.ptr[i] > '~')
            return false;
    }
    return true;
}

bool hx_http_session_id_is_good(struct hx_span id)
{
    return id.len > 0 && id.len <= HX_HTTP_SESSION_ID_MAX && is_visible(id, '!');
}

bool hx_http_event_id_is_good(struct hx_span id)
{
    /* A header's value loses blanks at its ends. */
    return id.len > 0 && is_visible(id, ' ') && id.ptr[0] != ' ' && id.ptr[id.len - 1] != ' ';
}

void hx_http_session_take_id(struct hx_http_session *session, CURL *easy)
{
    struct curl_header *header;

    session->id[0] = '\0';
    if (curl_easy_header(easy, "Mcp-Session-Id", 0, CURLH_HEADER, -1, &header) != CURLHE_OK)
        return;
    /* Two of them, or bytes that no id may have: as if there were none. The server will say so. */
    if (header->amount == 1 && hx_http_session_id_is_good(hx_span_cstr(header->value)))
        memcpy(session->id, header->value, strlen(header->value) + 1);
}

void hx_http_session_agree(struct hx_http_session *session, struct hx_http_client *client,
                           struct hx_span result)
{
    struct hx_json_limits limits = client->limits;
    struct hx_mcp_text text;
    uint32_t index;

    if (hx_json_read(&client->tape, result, &limits) != 0)
        return;
    index = hx_json_member(&client->tape, 0, HX_SPAN_LIT("protocolVersion"));
    if (hx_mcp_text_at(&client->tape, index, &client->arena, &text) != 0 ||
        text.state != HX_MCP_TEXT_GIVEN || text.text.len == 0 ||
        text.text.len >= sizeof session->protocol || !is_visible(text.text, '!'))
        return;
    session->facts = hx_mcp_facts(hx_mcp_revision_parse(text.text));
    memcpy(session->protocol, text.text.ptr, text.text.len);
    session->protocol[text.text.len] = '\0';
    session->is_agreed = true;
}

/* --- is it still known? ---
 *
 * Some servers answer 400 to a session that they have forgotten, in the words in which they refuse
 * any request that they cannot read (with an error that names none). It is no 404: the session may
 * be good. So a new one is begun only where nothing is in flight in the old one, where that is
 * known to have worked, or said it twice, and not time after time. */

void hx_http_session_works(struct hx_http_session *session)
{
    session->has_worked = true;
    session->doubts = 0;
}

static bool is_awaited(const struct hx_list *list, const struct hx_http_session *session)
{
    hx_list_for_each (node, list) {
        const struct hx_http_exchange *exchange =
            hx_container_of(node, struct hx_http_exchange, node);
        if (exchange->purpose == HX_HTTP_REQUEST && exchange->session == session &&
            !exchange->is_settled && !exchange->gives_way)
            return true;
    }
    return false;
}

bool hx_http_session_is_doubtful(const struct hx_http_client *client)
{
    const int64_t apart_ms = 60 * 1000;
    const struct hx_http_session *session = client->session;
    unsigned enough = session->has_worked && !session->is_second_try ? 1 : 2;

    if (session->doubts < enough || client->is_stale)
        return false;
    if (client->has_doubted &&
        hx_mono_since_ms(hx_loop_now(client->loop), client->doubted) < apart_ms)
        return false;
    return !is_awaited(&client->running, session) && !is_awaited(&client->waiting, session);
}

/* --- the text --- */

#define FORMAT "hapax-resume-1"

void hx_http_resume_write(const struct hx_http_exchange *exchange, struct hx_buf *out)
{
    const struct hx_http_session *session = exchange->session;

    (void)hx_buf_printf(out, FORMAT "\n%s\n%s\n%.*s\n%.*s", session->id, session->protocol,
                        HX_SPAN_FMT(hx_buf_span(&exchange->event_id)),
                        HX_SPAN_FMT(hx_buf_span(&exchange->id)));
}

static struct hx_span take_line(struct hx_span *text)
{
    const char *newline = text->len > 0 ? memchr(text->ptr, '\n', text->len) : NULL;
    size_t len = newline != NULL ? (size_t)(newline - text->ptr) : text->len;
    struct hx_span line = hx_span(text->ptr, len);

    *text = hx_span(text->ptr + len + (newline != NULL), text->len - len - (newline != NULL));
    return line;
}

bool hx_http_resume_read(struct hx_http_exchange *exchange, struct hx_span text)
{
    struct hx_http_session *session;
    struct hx_span format = take_line(&text);
    struct hx_span session_id = take_line(&text);
    struct hx_span protocol = take_line(&text);
    struct hx_span event_id = take_line(&text);
    struct hx_rpc_id id = hx_rpc_id_parse(text);

    if (!hx_span_eq_cstr(format, FORMAT) || !hx_http_event_id_is_good(event_id) ||
        (id.type != HX_RPC_ID_INTEGER && id.type != HX_RPC_ID_STRING) ||
        (session_id.len > 0 && !hx_http_session_id_is_good(session_id)) ||
        protocol.len >= sizeof session->protocol || !is_visible(protocol, '!'))
        return false;
    session = hx_http_session_new(hx_mcp_revision_parse(protocol));
    memcpy(session->protocol, protocol.ptr, protocol.len);
    session->protocol[protocol.len] = '\0';
    memcpy(session->id, session_id.ptr, session_id.len);
    session->id[session_id.len] = '\0';
    session->is_agreed = true;
    hx_http_session_drop(exchange->session);
    exchange->session = session;
    return hx_buf_append_span(&exchange->event_id, event_id) == 0 &&
           hx_buf_append_span(&exchange->id, text) == 0;
}
