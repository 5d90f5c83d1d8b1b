/* SPDX-License-Identifier: MIT */
/*
 * The callers in `./dev bench http`: N kept-alive connections, one tool call under way on each.
 *
 *     bench_load PORT PATH CONNECTIONS SECONDS look|act|again [PID...]
 *
 * `look` calls a read-only tool, `act` one that acts, each time with other arguments; `again` calls
 * that one with one key and the same arguments each time. All are in one session. Prints one line:
 * calls, errors, seconds, median and 99th percentile of the time to the answer in microseconds, and
 * per call the processor time in microseconds that all threads of the processes PID took meanwhile.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    CONNECTIONS_MAX = 512,
    ANSWER_MAX = 1 << 14,
    SLOTS = 1 << 17,
    NANOSECONDS_A_SLOT = 10000,
    PATIENCE_MS = 20000
};

struct conn {
    int fd;
    int64_t sent_ns;
    size_t held;
    char bytes[ANSWER_MAX];
};

static struct conn conns[CONNECTIONS_MAX];
static uint32_t latency[SLOTS];
static char session[256];
static unsigned port, id_count;
static const char *kind;
static const char *endpoint;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec at;

    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

/* --- what the processes took --- */

static double cpu_us_of(const char *pid)
{
    char path[600], text[128];
    double sum = 0;
    DIR *tasks;

    snprintf(path, sizeof path, "/proc/%s/task", pid);
    tasks = opendir(path);
    if (tasks == NULL)
        die(path);
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        FILE *file;
        snprintf(path, sizeof path, "/proc/%s/task/%s/schedstat", pid, task->d_name);
        file = task->d_name[0] == '.' ? NULL : fopen(path, "re");
        if (file != NULL && fgets(text, sizeof text, file) != NULL)
            sum += strtod(text, NULL) / 1e3;
        if (file != NULL)
            fclose(file);
    }
    closedir(tasks);
    return sum;
}

static double cpu_us_of_all(char **pids)
{
    double sum = 0;

    for (; *pids != NULL; pids++)
        sum += cpu_us_of(*pids);
    return sum;
}

/* --- one connection --- */

static void conn_open(struct conn *conn)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int one = 1;

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    conn->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    conn->held = 0;
    if (conn->fd < 0 || connect(conn->fd, (struct sockaddr *)&to, sizeof to) != 0)
        die("connect");
    (void)setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static void conn_post(struct conn *conn, const char *body, int body_len)
{
    char request[2048];
    int len = snprintf(request, sizeof request,
                       "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n"
                       "Content-Type: application/json\r\n"
                       "Accept: application/json, text/event-stream\r\n"
                       "MCP-Protocol-Version: 2025-06-18\r\n%sContent-Length: %d\r\n\r\n%.*s",
                       endpoint, port, session, body_len, body_len, body);

    conn->sent_ns = now_ns();
    if (write(conn->fd, request, (size_t)len) != len)
        die("write");
}

static void conn_call(struct conn *conn)
{
    char body[1024];
    bool is_again = strcmp(kind, "again") == 0;
    unsigned id = ++id_count;
    int len = snprintf(
        body, sizeof body,
        "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\","
        "\"arguments\":{\"n\":\"%lld\",\"text\":\"%0150d\"}%s}}",
        id, strcmp(kind, "look") == 0 ? "look" : "act", is_again ? 0LL : (long long)now_ns() + id,
        0, is_again ? ",\"_meta\":{\"dev.hapax/idempotencyKey\":\"the-same-key\"}" : "");

    conn_post(conn, body, len);
}

/* `name` is "\r\nname:"; NULL when no such header stands before `end`. */
static const char *header(const struct conn *conn, const char *end, const char *name)
{
    const char *at = strcasestr(conn->bytes, name);

    return at != NULL && at < end ? at + strlen(name) : NULL;
}

/* True when a whole answer is there: it stands in `bytes`, ended by a NUL. */
static bool conn_read(struct conn *conn)
{
    ssize_t len = read(conn->fd, conn->bytes + conn->held, ANSWER_MAX - 1 - conn->held);
    const char *end, *length;

    if (len <= 0)
        die("the proxy closed");
    conn->held += (size_t)len;
    conn->bytes[conn->held] = '\0';
    end = strstr(conn->bytes, "\r\n\r\n");
    if (end == NULL)
        return false;
    length = header(conn, end, "\r\ncontent-length:");
    if (length != NULL)
        return conn->held >= (size_t)(end + 4 - conn->bytes) + strtoul(length, NULL, 10);
    return strncmp(conn->bytes, "HTTP/1.1 202", 12) == 0 ||
           strncmp(conn->bytes + conn->held - 5, "0\r\n\r\n", 5) == 0;
}

static void ask(struct conn *conn, const char *body)
{
    conn->held = 0;
    conn_post(conn, body, (int)strlen(body));
    while (!conn_read(conn))
        continue;
}

static void greet(struct conn *conn)
{
    const char *id, *end;

    ask(conn, "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"initialize\",\"params\":{"
              "\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},"
              "\"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}}");
    end = strstr(conn->bytes, "\r\n\r\n");
    id = end != NULL ? header(conn, end, "\r\nmcp-session-id:") : NULL;
    if (id != NULL)
        snprintf(session, sizeof session, "Mcp-Session-Id:%.*s\r\n", (int)strcspn(id, "\r\n"), id);
    ask(conn, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    ask(conn, "{\"jsonrpc\":\"2.0\",\"id\":\"b\",\"method\":\"tools/list\"}");
    conn->held = 0;
}

/* --- the load --- */

struct load {
    uint64_t calls;
    uint64_t errors;
    unsigned under_way;
};

static void take_answer(struct conn *conn, struct load *load, bool is_over)
{
    if (!conn_read(conn))
        return;
    int64_t slot = (now_ns() - conn->sent_ns) / NANOSECONDS_A_SLOT;
    latency[slot < SLOTS ? slot : SLOTS - 1]++;
    load->calls++;
    if (strncmp(conn->bytes, "HTTP/1.1 200", 12) != 0 ||
        strstr(conn->bytes, "\"result\":") == NULL || strstr(conn->bytes, "\"isError\":true")) {
        if (load->errors++ == 0)
            fprintf(stderr, "%s\n", conn->bytes);
    }
    load->under_way--;
    conn->held = 0;
    if (is_over)
        return;
    load->under_way++;
    conn_call(conn);
}

static struct load run(int epoll, unsigned connections, double seconds)
{
    struct load load = {.under_way = connections};
    int64_t end_ns = now_ns() + (int64_t)(seconds * 1e9);

    for (unsigned i = 0; i < connections; i++)
        conn_call(&conns[i]);
    while (load.under_way > 0) {
        struct epoll_event events[64];
        int count = epoll_wait(epoll, events, 64, PATIENCE_MS);
        if (count <= 0)
            die("no answer");
        bool is_over = now_ns() >= end_ns;
        for (int i = 0; i < count; i++)
            take_answer(&conns[events[i].data.u32], &load, is_over);
    }
    return load;
}

static double percentile_us(uint64_t calls, double part)
{
    uint64_t seen = 0;

    for (int slot = 0; slot < SLOTS; slot++) {
        seen += latency[slot];
        if ((double)seen > (double)calls * part)
            return (slot + 0.5) * NANOSECONDS_A_SLOT / 1e3;
    }
    return (double)SLOTS * NANOSECONDS_A_SLOT / 1e3;
}

int main(int argc, char **argv)
{
    unsigned connections = argc > 5 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;
    int epoll = epoll_create1(EPOLL_CLOEXEC);

    if (connections == 0 || connections > CONNECTIONS_MAX) {
        fprintf(stderr,
                "usage: bench_load PORT PATH CONNECTIONS SECONDS look|act|again [PID...]\n");
        return 2;
    }
    port = (unsigned)strtoul(argv[1], NULL, 10);
    endpoint = argv[2];
    kind = argv[5];
    for (unsigned i = 0; i < connections; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
        conn_open(&conns[i]);
        (void)epoll_ctl(epoll, EPOLL_CTL_ADD, conns[i].fd, &event);
    }
    greet(&conns[0]);
    (void)run(epoll, connections, 0); /* one round, so that all is in place */
    memset(latency, 0, sizeof latency);
    double cpu_us = cpu_us_of_all(argv + 6);
    int64_t began_ns = now_ns();
    struct load load = run(epoll, connections, strtod(argv[4], NULL));
    double seconds = (double)(now_ns() - began_ns) / 1e9;
    cpu_us = cpu_us_of_all(argv + 6) - cpu_us;
    printf("%llu %llu %.3f %.0f %.0f %.3f\n", (unsigned long long)load.calls,
           (unsigned long long)load.errors, seconds, percentile_us(load.calls, 0.5),
           percentile_us(load.calls, 0.99), cpu_us / (double)load.calls);
    return 0;
}
