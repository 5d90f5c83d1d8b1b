/* SPDX-License-Identifier: MIT */
#include "app/mcp_client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "json/reader.h"

#define ANSWER_BYTES_MAX ((size_t)16 << 20)
#define READ_BYTES 65536
#define REPLY_MAX ((size_t)16 << 10)

struct hx_mono hx_mcp_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (struct hx_mono){(int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000};
}

static _Noreturn void become_server(char *const *argv, int in_fd, int out_fd,
                                    const char *stderr_path)
{
    sigset_t none;
    int err_fd = open(stderr_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    if (err_fd >= 0 && dup2(in_fd, STDIN_FILENO) >= 0 && dup2(out_fd, STDOUT_FILENO) >= 0 &&
        dup2(err_fd, STDERR_FILENO) >= 0)
        execvp(argv[0], argv);
    fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

static const struct hx_mcp_way stdio_way;

int hx_mcp_client_start(struct hx_mcp_client *client, char *const *argv, const char *stderr_path)
{
    int in[2];
    int out[2];
    hx_mcp_client_init(client, &stdio_way);
    if (pipe2(in, O_CLOEXEC) != 0)
        return HX_RAISE_ERRNO("cannot make a pipe");
    if (pipe2(out, O_CLOEXEC) != 0) {
        close(in[0]);
        close(in[1]);
        return HX_RAISE_ERRNO("cannot make a pipe");
    }
    client->pid = fork();
    if (client->pid == 0)
        become_server(argv, in[0], out[1], stderr_path);
    close(in[0]);
    close(out[1]);
    client->in_fd = in[1];
    client->out_fd = out[0];
    if (client->pid < 0)
        return HX_RAISE_ERRNO("cannot start a process");
    return 0;
}

bool hx_mcp_client_send(struct hx_mcp_client *client, struct hx_span bytes)
{
    while (bytes.len > 0) {
        ssize_t written = write(client->in_fd, bytes.ptr, bytes.len);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return false;
        bytes = hx_span(bytes.ptr + written, bytes.len - (size_t)written);
    }
    return true;
}

static bool stdio_send(struct hx_mcp_client *client, struct hx_span message, unsigned id,
                       struct hx_span headers)
{
    (void)id;
    (void)headers; /* a pipe has none */
    return hx_mcp_client_send(client, message) && hx_mcp_client_send(client, HX_SPAN_LIT("\n"));
}

static void stdio_reply(struct hx_mcp_client *client, struct hx_span message)
{
    (void)stdio_send(client, message, 0, HX_SPAN_LIT("")); /* one that is gone needs none */
}

static void stdio_give_up(struct hx_mcp_client *client, unsigned id)
{
    (void)client;
    (void)id;
}

static void stdio_stop(struct hx_mcp_client *client)
{
    if (client->in_fd >= 0)
        close(client->in_fd);
    if (client->out_fd >= 0)
        close(client->out_fd);
    client->in_fd = -1;
    client->out_fd = -1;
}

/* --- what comes back ----------------------------------------------------- */

static void copy_text(const struct hx_json_tape *tape, uint32_t value, char *ret_text)
{
    struct hx_span text =
        hx_json_is(tape, value, HX_JSON_STRING) ? hx_json_content(tape, value) : HX_SPAN_LIT("");
    size_t len = text.len < HX_MCP_TEXT_MAX ? text.len : HX_MCP_TEXT_MAX - 1;
    memcpy(ret_text, text.ptr, len);
    ret_text[len] = '\0';
}

static void take_error(const struct hx_json_tape *tape, uint32_t error,
                       struct hx_mcp_answer *answer)
{
    uint32_t data = hx_json_member(tape, error, HX_SPAN_LIT("data"));
    uint32_t type = hx_json_member_of(tape, data, HX_SPAN_LIT("type"), HX_JSON_STRING);
    uint32_t code = hx_json_member_of(tape, data, HX_SPAN_LIT("code"), HX_JSON_STRING);
    answer->is_error = true;
    copy_text(tape, hx_json_member_of(tape, error, HX_SPAN_LIT("message"), HX_JSON_STRING),
              answer->text);
    if (type != HX_JSON_NONE || code != HX_JSON_NONE)
        copy_text(tape, type != HX_JSON_NONE ? type : code, answer->code);
}

static void take_result(const struct hx_json_tape *tape, uint32_t result,
                        struct hx_mcp_answer *answer)
{
    uint32_t content = hx_json_member(tape, result, HX_SPAN_LIT("content"));
    uint32_t meta = hx_json_member(tape, result, HX_SPAN_LIT("_meta"));
    uint32_t operation = hx_json_member(tape, meta, HX_SPAN_LIT("dev.hapax/operation"));
    uint32_t code = hx_json_member_of(tape, operation, HX_SPAN_LIT("code"), HX_JSON_STRING);
    uint32_t block =
        hx_json_is(tape, content, HX_JSON_ARRAY) ? hx_json_first(tape, content) : HX_JSON_NONE;
    uint32_t text = hx_json_member_of(tape, block, HX_SPAN_LIT("text"), HX_JSON_STRING);
    bool is_error = false;
    if (hx_json_bool(tape, hx_json_member(tape, result, HX_SPAN_LIT("isError")), &is_error))
        answer->is_error = is_error;
    if (text != HX_JSON_NONE)
        copy_text(tape, text, answer->text);
    if (code != HX_JSON_NONE)
        copy_text(tape, code, answer->code);
}

static void answer_server(struct hx_mcp_client *client, uint32_t method, uint32_t id)
{
    struct hx_buf message;
    hx_buf_init(&message, REPLY_MAX);
    hx_buf_printf(&message, "{\"jsonrpc\":\"2.0\",\"id\":%.*s,%s}",
                  HX_SPAN_FMT(hx_json_raw(&client->tape, id)),
                  hx_json_is_text(&client->tape, method, HX_SPAN_LIT("ping"))
                      ? "\"result\":{}"
                      : "\"error\":{\"code\":-32601,\"message\":\"Method not found\"}");
    if (hx_buf_ok(&message))
        client->way->reply(client, hx_buf_span(&message));
    hx_buf_fini(&message);
}

void hx_mcp_client_take(struct hx_mcp_client *client, struct hx_span line)
{
    const struct hx_json_limits limits = HX_JSON_LIMITS_DEFAULT;
    const struct hx_json_tape *tape = &client->tape;
    int64_t id;
    if (hx_json_read(&client->tape, line, &limits) != 0)
        return;
    uint32_t id_value = hx_json_member(tape, 0, HX_SPAN_LIT("id"));
    uint32_t method = hx_json_member(tape, 0, HX_SPAN_LIT("method"));
    if (id_value != HX_JSON_NONE && method != HX_JSON_NONE)
        answer_server(client, method, id_value);
    if (id_value == HX_JSON_NONE || method != HX_JSON_NONE || !hx_json_int64(tape, id_value, &id) ||
        id < 0 || id >= HX_MCP_ANSWERS_MAX)
        return;
    struct hx_mcp_answer *answer = &client->answers[id];
    uint32_t result = hx_json_member(tape, 0, HX_SPAN_LIT("result"));
    answer->is_there = true;
    answer->is_result = result != HX_JSON_NONE;
    if ((unsigned)id == client->kept_id) {
        hx_buf_reset(&client->kept);
        hx_buf_append_span(&client->kept, hx_json_raw(tape, result));
    }
    if (answer->is_result)
        take_result(tape, result, answer);
    else
        take_error(tape, hx_json_member(tape, 0, HX_SPAN_LIT("error")), answer);
}

static bool stdio_pump(struct hx_mcp_client *client, struct hx_mono deadline)
{
    int64_t left_ms = hx_mono_since_ms(deadline, hx_mcp_now());
    if (client->is_closed || left_ms <= 0 || hx_buf_reserve(&client->in, READ_BYTES) != 0)
        return false;
    struct pollfd out = {client->out_fd, POLLIN, 0};
    int ready = poll(&out, 1, (int)left_ms);
    if (ready <= 0)
        return ready < 0 && errno == EINTR;
    ssize_t len = read(client->out_fd, client->in.data + client->in.len, READ_BYTES);
    if (len <= 0) {
        client->is_closed = len == 0 || errno != EINTR;
        return !client->is_closed;
    }
    client->in.len += (size_t)len;
    size_t done = 0;
    for (;;) {
        const char *start = client->in.data + done;
        const char *newline = memchr(start, '\n', client->in.len - done);
        if (!newline)
            break;
        hx_mcp_client_take(client, hx_span(start, (size_t)(newline - start)));
        done += (size_t)(newline - start) + 1;
    }
    hx_buf_consume(&client->in, done);
    return true;
}

static const struct hx_mcp_way stdio_way = {stdio_send, stdio_reply, stdio_pump, stdio_give_up,
                                            stdio_stop};

/* --- either way ---------------------------------------------------------- */

void hx_mcp_client_init(struct hx_mcp_client *client, const struct hx_mcp_way *way)
{
    memset(client, 0, sizeof(*client));
    client->way = way;
    hx_buf_init(&client->in, ANSWER_BYTES_MAX);
    hx_buf_init(&client->kept, ANSWER_BYTES_MAX);
    hx_json_tape_init(&client->tape);
    client->in_fd = -1;
    client->out_fd = -1;
}

void hx_mcp_client_stop(struct hx_mcp_client *client)
{
    if (client->way == NULL)
        return;
    client->way->stop(client);
    client->way = NULL;
    client->is_closed = true;
    hx_buf_fini(&client->in);
    hx_buf_fini(&client->kept);
    hx_json_tape_fini(&client->tape);
}

bool hx_mcp_client_say(struct hx_mcp_client *client, struct hx_span message, unsigned id,
                       struct hx_span headers)
{
    return client->way->send(client, message, id, headers);
}

void hx_mcp_client_give_up(struct hx_mcp_client *client, unsigned id)
{
    client->way->give_up(client, id);
}

bool hx_mcp_client_wait(struct hx_mcp_client *client, unsigned id, struct hx_mono deadline)
{
    hx_assert(id < HX_MCP_ANSWERS_MAX);
    while (!client->answers[id].is_there)
        if (client->answers[id].is_lost || !client->way->pump(client, deadline))
            return false;
    return true;
}

bool hx_mcp_client_wait_closed(struct hx_mcp_client *client, struct hx_mono deadline)
{
    while (client->way->pump(client, deadline))
        ;
    return client->is_closed;
}

bool hx_mcp_client_handshake(struct hx_mcp_client *client, struct hx_mono deadline)
{
    static const char hello[] =
        "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{"
        "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},"
        "\"clientInfo\":{\"name\":\"hapax\",\"version\":\"1.0.0\"}}}";
    static const char ready[] = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";
    return hx_mcp_client_say(client, HX_SPAN_LIT(hello), 0, HX_SPAN_LIT("")) &&
           hx_mcp_client_wait(client, 0, deadline) && !client->answers[0].is_error &&
           hx_mcp_client_say(client, HX_SPAN_LIT(ready), 0, HX_SPAN_LIT(""));
}
