/* SPDX-License-Identifier: MIT */
/*
 * An MCP tool server as small as one can be and still act: the demo and many tests run it, and it
 * may serve as a pattern for your own.
 *
 * Its tool `charge` does what the tools do that must not run twice: it changes something outside
 * (one line in a file, synced), takes its time, and answers. Between the effect and the answer is
 * where clients lose patience, processes get killed, and retries charge a second time. The lines of
 * the file are the truth: whoever wants to know how often the tool acted counts them.
 *
 *   hapax-example-server [--ledger FILE] [--delay-ms N] [--honour-cancel]
 *
 *   --ledger FILE     the file that charges are appended to (else the environment's LEDGER_FILE)
 *   --delay-ms N      how long a charge takes after its effect, unless the call says sleep_ms
 *   --honour-cancel   a cancelled charge is not answered (its line stays: it did happen)
 *
 * One thread and one poll loop: a slow charge waits in a list with the time it is due, so pings and
 * other calls are answered meanwhile. At end of file on standard input the charges under way are
 * still finished and answered. Nothing but messages goes to standard output.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "json/reader.h"
#include "json/text.h"

#define LINE_BYTES_MAX ((size_t)64 << 20)
#define DELAY_MS_MAX 600000

/* A charge that has happened and is not answered yet. */
struct work {
    struct work *next;
    int64_t due_ms;
    char *id;     /* the request's id, as JSON text; owned */
    char *result; /* as JSON text; owned */
};

struct server {
    int ledger_fd;
    int64_t delay_ms;
    bool honours_cancel;
    bool is_input_closed;
    unsigned charge_count;
    struct work *work;
    struct hx_json_tape tape; /* of the message being read */
    struct hx_buf in;
    struct hx_buf out; /* one answer while it is put together */
};

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "hapax-example-server: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* --- answers ------------------------------------------------------------- */

static void write_all(int fd, struct hx_span bytes)
{
    while (bytes.len > 0) {
        ssize_t written = write(fd, bytes.ptr, bytes.len);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            die("cannot write"); /* nobody reads our answers any more */
        bytes = hx_span(bytes.ptr + written, bytes.len - (size_t)written);
    }
}

static void answer(struct server *server, struct hx_span id, const char *member,
                   struct hx_span json)
{
    struct hx_buf *out = &server->out;
    hx_buf_reset(out);
    hx_buf_printf(out, "{\"jsonrpc\":\"2.0\",\"id\":%.*s,\"%s\":", HX_SPAN_FMT(id), member);
    hx_buf_append_span(out, json);
    hx_buf_append_cstr(out, "}\n");
    if (!hx_buf_ok(out))
        die("an answer is too long");
    write_all(STDOUT_FILENO, hx_buf_span(out));
}

static void answer_error(struct server *server, struct hx_span id, int code, const char *message)
{
    char json[256];
    snprintf(json, sizeof(json), "{\"code\":%d,\"message\":\"%s\"}", code, message);
    answer(server, id, "error", hx_span_cstr(json));
}

/* --- the tools ----------------------------------------------------------- */

static const char tool_list[] =
    "{\"tools\":["
    "{\"name\":\"charge\",\"description\":\"Charges an amount. Every execution charges.\","
    "\"inputSchema\":{\"type\":\"object\",\"properties\":{"
    "\"amount\":{\"type\":\"number\"},\"currency\":{\"type\":\"string\"},"
    "\"note\":{\"type\":\"string\"},\"sleep_ms\":{\"type\":\"integer\"}},"
    "\"required\":[\"amount\"]},"
    "\"annotations\":{\"readOnlyHint\":false,\"destructiveHint\":true,\"idempotentHint\":false}},"
    "{\"name\":\"balance\",\"description\":\"Counts the charges.\","
    "\"inputSchema\":{\"type\":\"object\"},\"annotations\":{\"readOnlyHint\":true}},"
    /* No annotation: a client or gateway must take it for a tool that may act. */
    "{\"name\":\"echo\",\"description\":\"Returns its arguments, byte for byte.\","
    "\"inputSchema\":{\"type\":\"object\"}}"
    "]}";

static struct hx_span member_raw(const struct server *server, uint32_t object, const char *name)
{
    return hx_json_raw(&server->tape, hx_json_member(&server->tape, object, hx_span_cstr(name)));
}

/* The effect: one line, in one write, on disk before anything else happens. */
static void append_charge(struct server *server, uint32_t arguments)
{
    static const char *const names[] = {"amount", "currency", "note"};
    struct hx_buf line;
    hx_buf_init(&line, LINE_BYTES_MAX);
    hx_buf_printf(&line, "{\"pid\":%d,\"receipt\":\"%d-%u\"", (int)getpid(), (int)getpid(),
                  server->charge_count);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct hx_span value = member_raw(server, arguments, names[i]);
        if (!hx_span_is_absent(value))
            hx_buf_printf(&line, ",\"%s\":%.*s", names[i], HX_SPAN_FMT(value));
    }
    hx_buf_append_cstr(&line, "}\n");
    if (!hx_buf_ok(&line))
        die("a charge is too long");
    write_all(server->ledger_fd, hx_buf_span(&line));
    if (fsync(server->ledger_fd) != 0)
        die("cannot sync the ledger file");
    hx_buf_fini(&line);
}

static void charge(struct server *server, struct hx_span id, uint32_t arguments)
{
    const struct hx_json_tape *tape = &server->tape;
    int64_t delay_ms = server->delay_ms;
    char result[256];
    if (!hx_json_is(tape, hx_json_member(tape, arguments, HX_SPAN_LIT("amount")), HX_JSON_NUMBER)) {
        answer(server, id, "result",
               HX_SPAN_LIT("{\"content\":[{\"type\":\"text\",\"text\":\"amount must be a number; "
                           "nothing was charged\"}],\"isError\":true}"));
        return;
    }
    uint32_t sleep = hx_json_member(tape, arguments, HX_SPAN_LIT("sleep_ms"));
    if (sleep != HX_JSON_NONE &&
        (!hx_json_int64(tape, sleep, &delay_ms) || delay_ms < 0 || delay_ms > DELAY_MS_MAX))
        delay_ms = server->delay_ms;
    server->charge_count++;
    append_charge(server, arguments);
    snprintf(result, sizeof(result),
             "{\"content\":[{\"type\":\"text\",\"text\":\"charged, receipt %d-%u\"}]}",
             (int)getpid(), server->charge_count);
    struct work *work = hx_new(struct work);
    work->due_ms = now_ms() + delay_ms;
    work->id = hx_span_strdup(id);
    work->result = hx_strdup(result);
    work->next = server->work;
    server->work = work;
}

static void balance(struct server *server, struct hx_span id)
{
    char chunk[4096];
    char result[128];
    unsigned long count = 0;
    ssize_t len;
    for (off_t at = 0; (len = pread(server->ledger_fd, chunk, sizeof(chunk), at)) > 0; at += len)
        for (ssize_t i = 0; i < len; i++)
            count += chunk[i] == '\n';
    snprintf(result, sizeof(result), "{\"content\":[{\"type\":\"text\",\"text\":\"%lu charges\"}]}",
             count);
    answer(server, id, "result", hx_span_cstr(result));
}

static void echo(struct server *server, struct hx_span id, struct hx_span arguments)
{
    struct hx_buf result;
    if (hx_span_is_absent(arguments))
        arguments = HX_SPAN_LIT("{}");
    hx_buf_init(&result, 8 * LINE_BYTES_MAX);
    hx_buf_append_cstr(&result, "{\"content\":[{\"type\":\"text\",\"text\":");
    hx_json_text_quote(&result, arguments);
    hx_buf_append_cstr(&result, "}],\"structuredContent\":");
    hx_buf_append_span(&result, arguments);
    hx_buf_append_cstr(&result, "}");
    if (!hx_buf_ok(&result))
        die("the arguments are too long");
    answer(server, id, "result", hx_buf_span(&result));
    hx_buf_fini(&result);
}

static void call_tool(struct server *server, struct hx_span id, uint32_t params)
{
    const struct hx_json_tape *tape = &server->tape;
    uint32_t name = hx_json_member(tape, params, HX_SPAN_LIT("name"));
    uint32_t arguments = hx_json_member(tape, params, HX_SPAN_LIT("arguments"));
    if (hx_json_is_text(tape, name, HX_SPAN_LIT("charge")))
        charge(server, id, arguments);
    else if (hx_json_is_text(tape, name, HX_SPAN_LIT("balance")))
        balance(server, id);
    else if (hx_json_is_text(tape, name, HX_SPAN_LIT("echo")))
        echo(server, id, hx_json_raw(tape, arguments));
    else
        answer_error(server, id, -32602, "there is no such tool; see tools/list");
}

/* --- the protocol -------------------------------------------------------- */

static void initialize(struct server *server, struct hx_span id, uint32_t params)
{
    static const char *const revisions[] = {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"};
    const size_t count = sizeof(revisions) / sizeof(revisions[0]);
    uint32_t wanted = hx_json_member(&server->tape, params, HX_SPAN_LIT("protocolVersion"));
    size_t chosen = count - 1;
    char result[256];
    for (size_t i = 0; i < count; i++)
        if (wanted != HX_JSON_NONE &&
            hx_json_is_text(&server->tape, wanted, hx_span_cstr(revisions[i])))
            chosen = i;
    snprintf(result, sizeof(result),
             "{\"protocolVersion\":\"%s\",\"capabilities\":{\"tools\":{}},"
             "\"serverInfo\":{\"name\":\"hapax-example-server\",\"version\":\"1.0.0\"}}",
             revisions[chosen]);
    answer(server, id, "result", hx_span_cstr(result));
}

static void cancel(struct server *server, uint32_t params)
{
    struct hx_span id = member_raw(server, params, "requestId");
    for (struct work **link = &server->work; *link; link = &(*link)->next) {
        struct work *work = *link;
        if (!server->honours_cancel || !hx_span_eq_cstr(id, work->id))
            continue;
        *link = work->next;
        hx_free(work->id);
        hx_free(work->result);
        hx_free(work);
        return;
    }
}

static void handle_message(struct server *server, uint32_t message)
{
    const struct hx_json_tape *tape = &server->tape;
    uint32_t method = hx_json_member_of(tape, message, HX_SPAN_LIT("method"), HX_JSON_STRING);
    uint32_t params = hx_json_member(tape, message, HX_SPAN_LIT("params"));
    struct hx_span id = member_raw(server, message, "id");
    if (method == HX_JSON_NONE) {
        if (!hx_json_is(tape, message, HX_JSON_OBJECT))
            answer_error(server, HX_SPAN_LIT("null"), -32600, "this is no JSON-RPC message");
        return; /* an answer, and we asked nothing */
    }
    if (hx_span_is_absent(id)) {
        if (hx_json_is_text(tape, method, HX_SPAN_LIT("notifications/cancelled")))
            cancel(server, params);
        return;
    }
    if (hx_json_is_text(tape, method, HX_SPAN_LIT("tools/call")))
        call_tool(server, id, params);
    else if (hx_json_is_text(tape, method, HX_SPAN_LIT("tools/list")))
        answer(server, id, "result", HX_SPAN_LIT(tool_list));
    else if (hx_json_is_text(tape, method, HX_SPAN_LIT("ping")))
        answer(server, id, "result", HX_SPAN_LIT("{}"));
    else if (hx_json_is_text(tape, method, HX_SPAN_LIT("initialize")))
        initialize(server, id, params);
    else
        answer_error(server, id, -32601, "this method is not known here");
}

static void handle_line(struct server *server, struct hx_span line)
{
    const struct hx_json_limits limits = HX_JSON_LIMITS_DEFAULT;
    if (line.len > 0 && line.ptr[line.len - 1] == '\r')
        line.len--;
    if (line.len == 0)
        return;
    if (hx_json_read(&server->tape, line, &limits) != 0) {
        answer_error(server, HX_SPAN_LIT("null"), -32700, "this line is not JSON");
    } else if (hx_json_is(&server->tape, 0, HX_JSON_ARRAY)) { /* a batch, in 2025-03-26 */
        hx_json_for_each(message, &server->tape, 0) handle_message(server, message);
    } else {
        handle_message(server, 0);
    }
}

/* --- the loop ------------------------------------------------------------ */

static void read_input(struct server *server)
{
    if (hx_buf_reserve(&server->in, 65536) != 0)
        die("a line is too long");
    ssize_t len = read(STDIN_FILENO, server->in.data + server->in.len, 65536);
    if (len < 0 && errno != EINTR && errno != EAGAIN)
        die("cannot read");
    server->is_input_closed = len == 0;
    server->in.len += len > 0 ? (size_t)len : 0;
    size_t done = 0;
    for (;;) {
        const char *start = server->in.data + done;
        const char *newline = memchr(start, '\n', server->in.len - done);
        if (!newline)
            break;
        handle_line(server, hx_span(start, (size_t)(newline - start)));
        done += (size_t)(newline - start) + 1;
    }
    hx_buf_consume(&server->in, done);
    if (server->is_input_closed) /* the last line may lack its newline */
        handle_line(server, hx_buf_span(&server->in));
}

/* Answers what is due; returns how long poll may wait for the next, -1 = for ever. */
static int finish_work(struct server *server)
{
    int64_t now = now_ms();
    int64_t wait_ms = -1;
    struct work **link = &server->work;
    while (*link) {
        struct work *work = *link;
        if (work->due_ms > now) {
            int64_t left = work->due_ms - now;
            wait_ms = wait_ms < 0 || left < wait_ms ? left : wait_ms;
            link = &work->next;
            continue;
        }
        answer(server, hx_span_cstr(work->id), "result", hx_span_cstr(work->result));
        *link = work->next;
        hx_free(work->id);
        hx_free(work->result);
        hx_free(work);
    }
    return (int)wait_ms;
}

static void serve(struct server *server)
{
    for (;;) {
        int wait_ms = finish_work(server);
        if (server->is_input_closed && !server->work)
            return;
        struct pollfd input = {server->is_input_closed ? -1 : STDIN_FILENO, POLLIN, 0};
        if (poll(&input, 1, wait_ms) < 0 && errno != EINTR)
            die("cannot poll");
        if (input.revents != 0)
            read_input(server);
    }
}

int main(int argc, char **argv)
{
    struct server server = {.ledger_fd = -1};
    const char *ledger = getenv("LEDGER_FILE");
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--ledger") == 0 && i + 1 < argc) {
            ledger = argv[++i];
        } else if (strcmp(argv[i], "--delay-ms") == 0 && i + 1 < argc) {
            server.delay_ms = strtol(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--honour-cancel") == 0) {
            server.honours_cancel = true;
        } else {
            fputs("usage: hapax-example-server [--ledger FILE] [--delay-ms N] [--honour-cancel]\n",
                  stderr);
            return 2;
        }
    }
    if (!ledger || server.delay_ms < 0 || server.delay_ms > DELAY_MS_MAX) {
        fputs(
            "hapax-example-server: give --ledger FILE (or LEDGER_FILE) and a delay of at most ten "
            "minutes\n",
            stderr);
        return 2;
    }
    server.ledger_fd = open(ledger, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (server.ledger_fd < 0)
        die(ledger);
    hx_json_tape_init(&server.tape);
    hx_buf_init(&server.in, LINE_BYTES_MAX);
    hx_buf_init(&server.out, 10 * LINE_BYTES_MAX);
    serve(&server);
    hx_buf_fini(&server.in);
    hx_buf_fini(&server.out);
    hx_json_tape_fini(&server.tape);
    close(server.ledger_fd);
    return 0;
}
