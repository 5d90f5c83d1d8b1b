/* SPDX-License-Identifier: MIT */
/*
 * The server behind the proxies in `./dev bench http`: MCP as cheap as our own HTTP server makes
 * it, so that what is measured is the way there. Without an argument it listens on 127.0.0.1 and
 * prints its port; with `--stdio` it speaks on its standard input and output.
 *
 * `look` is read-only and `act` is not; both answer their arguments and do nothing. There is one
 * session, which anybody may claim to be in, and no stream for what a server says unasked.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "adapter/http_server/http_server.h"
#include "json/reader.h"

enum { MESSAGE_MAX = 1 << 20, FILES_MAX = 8192 };

static const char tool_list[] =
    "{\"tools\":[{\"name\":\"look\",\"inputSchema\":{\"type\":\"object\"},"
    "\"annotations\":{\"readOnlyHint\":true}},"
    "{\"name\":\"act\",\"inputSchema\":{\"type\":\"object\"}}]}";
static const char greeting[] =
    "{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}},"
    "\"serverInfo\":{\"name\":\"bench\",\"version\":\"1\"}}";

static struct hx_json_tape tape;

/* Appends the answer to the message that is on the tape; false when it wants none. */
static bool answer(struct hx_buf *out)
{
    uint32_t id = hx_json_member(&tape, 0, HX_SPAN_LIT("id"));
    uint32_t method = hx_json_member(&tape, 0, HX_SPAN_LIT("method"));

    if (id == HX_JSON_NONE || method == HX_JSON_NONE)
        return false;
    hx_buf_append_cstr(out, "{\"jsonrpc\":\"2.0\",\"id\":");
    hx_buf_append_span(out, hx_json_raw(&tape, id));
    hx_buf_append_cstr(out, ",\"result\":");
    if (hx_json_is_text(&tape, method, HX_SPAN_LIT("tools/call"))) {
        uint32_t params = hx_json_member(&tape, 0, HX_SPAN_LIT("params"));
        uint32_t arguments = hx_json_member(&tape, params, HX_SPAN_LIT("arguments"));
        hx_buf_append_cstr(out, "{\"content\":[{\"type\":\"text\",\"text\":\"done\"}],"
                                "\"structuredContent\":");
        hx_buf_append_span(out, hx_json_raw(&tape, arguments));
        hx_buf_append_cstr(out, "}");
    } else if (hx_json_is_text(&tape, method, HX_SPAN_LIT("tools/list"))) {
        hx_buf_append_cstr(out, tool_list);
    } else if (hx_json_is_text(&tape, method, HX_SPAN_LIT("initialize"))) {
        hx_buf_append_cstr(out, greeting);
    } else {
        hx_buf_append_cstr(out, "{}");
    }
    hx_buf_append_cstr(out, "}");
    return true;
}

static bool read_message(struct hx_span text)
{
    const struct hx_json_limits limits = HX_JSON_LIMITS_DEFAULT;
    return hx_json_read(&tape, text, &limits) == 0;
}

static void answer_request(struct hx_web *web, const struct hx_web_event *event)
{
    static const struct hx_web_header headers[] = {
        {HX_SPAN_INIT("Content-Type"), HX_SPAN_INIT("application/json")},
        {HX_SPAN_INIT("Mcp-Session-Id"), HX_SPAN_INIT("the-one-session")}};
    struct hx_web_answer head = {.status = 405, .headers = headers, .header_count = 2};
    struct hx_buf body;

    hx_buf_init(&body, MESSAGE_MAX);
    if (hx_span_eq_cstr(event->request->method, "POST")) {
        head.status = read_message(hx_buf_span(&event->request->body)) ? 202 : 400;
        if (head.status == 202 && answer(&body))
            head.status = 200;
    }
    web->ops->answer(web, event->exchange, &head, head.status == 200 ? &body : NULL, 0);
    hx_buf_fini(&body);
}

static struct hx_mono loop_now(void *unused)
{
    struct timespec at;

    (void)unused;
    (void)clock_gettime(CLOCK_BOOTTIME, &at);
    return (struct hx_mono){(int64_t)at.tv_sec * 1000 + at.tv_nsec / 1000000};
}

static int serve_http(void)
{
    struct hx_http_server_options options = hx_http_server_defaults();
    struct rlimit files = {FILES_MAX, FILES_MAX};
    struct hx_list inbox;
    struct hx_loop *loop = hx_loop_new(&(struct hx_loop_clock){.now = loop_now});
    uint16_t port;

    (void)setrlimit(RLIMIT_NOFILE, &files);
    hx_list_init(&inbox);
    struct hx_web *web = hx_http_server_new(loop, &inbox, &options);
    if (hx_http_server_listen_tcp(web, "127.0.0.1", 0, &port) != 0)
        return 1;
    printf("%u\n", port);
    (void)fflush(stdout);
    while (hx_loop_run_once(loop, 1000) == 0) {
        struct hx_list *node;
        while ((node = hx_list_first(&inbox)) != NULL) {
            struct hx_web_event *event = hx_container_of(node, struct hx_web_event, node);
            if (event->type == HX_WEB_REQUEST)
                answer_request(web, event);
            hx_web_event_free(event);
        }
    }
    return 1;
}

static bool write_all(struct hx_span bytes)
{
    while (bytes.len > 0) {
        ssize_t len = write(STDOUT_FILENO, bytes.ptr, bytes.len);
        if (len < 0)
            return false;
        bytes = hx_span(bytes.ptr + len, bytes.len - (size_t)len);
    }
    return true;
}

/* What came in one read is answered in one write. */
static int serve_stdio(void)
{
    struct hx_buf in, out;
    ssize_t len;

    hx_buf_init(&in, 2 * MESSAGE_MAX);
    hx_buf_init(&out, 2 * MESSAGE_MAX);
    while (hx_buf_reserve(&in, MESSAGE_MAX) == 0 &&
           (len = read(STDIN_FILENO, in.data + in.len, MESSAGE_MAX)) > 0) {
        size_t done = 0;
        char *end;
        in.len += (size_t)len;
        while ((end = memchr(in.data + done, '\n', in.len - done)) != NULL) {
            if (read_message(hx_span(in.data + done, (size_t)(end - in.data) - done)) &&
                answer(&out))
                hx_buf_append_cstr(&out, "\n");
            done = (size_t)(end - in.data) + 1;
        }
        hx_buf_consume(&in, done);
        if (!hx_buf_ok(&out) || !write_all(hx_buf_span(&out)))
            return 1;
        hx_buf_reset(&out);
    }
    hx_buf_fini(&in);
    hx_buf_fini(&out);
    return 0;
}

int main(int argc, char **argv)
{
    hx_json_tape_init(&tape);
    return argc > 1 && strcmp(argv[1], "--stdio") == 0 ? serve_stdio() : serve_http();
}
