/* SPDX-License-Identifier: MIT */
/*
 * What one request costs the HTTP server: 300 bytes of body each way, kept-alive connections, each
 * with one request in flight. The server has one processor and the clients another.
 *
 *     bench_http [SECONDS]
 *
 * Prints, for 1, 64 and 512 connections: requests a second, processor time of the server for each,
 * and the median and the 99th percentile of the time to the answer. And the heap of idle streams.
 */
#include <arpa/inet.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "adapter/http_server/http_server.h"
#include "base/alloc.h"
#include "metric.h"

enum { BODY_BYTES = 300, CONNECTIONS_MAX = 2000, SLOTS = 1 << 14, MICROSECONDS_A_SLOT = 4 };

struct result {
    uint64_t requests;
    uint32_t latency[SLOTS];
};

static int64_t now_ns(clockid_t clock)
{
    struct timespec at;

    (void)clock_gettime(clock, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

static struct hx_mono loop_now(void *unused)
{
    (void)unused;
    return (struct hx_mono){now_ns(CLOCK_BOOTTIME) / 1000000};
}

static void pin(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    (void)sched_setaffinity(0, sizeof set, &set); /* on one processor they share it */
}

static int connect_to(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1;

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
        perror("connect");
        exit(1);
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

/* --- the clients: a process of its own --- */

static void run_clients(uint16_t port, int connections, double seconds, struct result *result)
{
    static int64_t sent_at[CONNECTIONS_MAX];
    static int fds[CONNECTIONS_MAX];
    char request[1024];
    char bytes[4096];
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int len =
        snprintf(request, sizeof request,
                 "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                 "Accept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n%0*d",
                 BODY_BYTES, BODY_BYTES, 0);
    int64_t end = now_ns(CLOCK_MONOTONIC) + (int64_t)(seconds * 1e9);

    for (int i = 0; i < connections; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        fds[i] = connect_to(port);
        (void)epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &event);
        sent_at[i] = now_ns(CLOCK_MONOTONIC);
        if (write(fds[i], request, (size_t)len) != len)
            exit(1);
    }
    while (now_ns(CLOCK_MONOTONIC) < end) {
        struct epoll_event events[64];
        int count = epoll_wait(epoll, events, 64, 100);
        for (int i = 0; i < count; i++) {
            uint32_t at = events[i].data.u32;
            int64_t now;
            if (read(fds[at], bytes, sizeof bytes) <= 0)
                exit(1);
            now = now_ns(CLOCK_MONOTONIC);
            int64_t slot = (now - sent_at[at]) / 1000 / MICROSECONDS_A_SLOT;
            result->latency[slot < SLOTS ? slot : SLOTS - 1]++;
            result->requests++;
            sent_at[at] = now;
            if (write(fds[at], request, (size_t)len) != len)
                exit(1);
        }
    }
    exit(0);
}

/* --- the server --- */

static void answer_all(struct hx_web *web)
{
    static const struct hx_web_header headers[] = {
        {HX_SPAN_INIT("Content-Type"), HX_SPAN_INIT("application/json")}};
    const struct hx_web_answer answer = {.status = 200, .headers = headers, .header_count = 1};
    struct hx_list *node;

    while ((node = hx_list_first(web->inbox)) != NULL) {
        struct hx_web_event *event = hx_container_of(node, struct hx_web_event, node);
        if (event->type == HX_WEB_REQUEST)
            web->ops->answer(web, event->exchange, &answer, &event->request->body, 1);
        hx_web_event_free(event);
    }
}

static double percentile_us(const struct result *result, double part)
{
    uint64_t wanted = (uint64_t)((double)result->requests * part);
    uint64_t seen = 0;

    for (int slot = 0; slot < SLOTS; slot++) {
        seen += result->latency[slot];
        if (seen > wanted)
            return (slot + 0.5) * MICROSECONDS_A_SLOT;
    }
    return (double)SLOTS * MICROSECONDS_A_SLOT;
}

static void measure(struct hx_loop *loop, struct hx_web *web, uint16_t port, int connections,
                    double seconds)
{
    struct result *result =
        mmap(NULL, sizeof *result, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int64_t cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    pid_t pid;
    int status;

    (void)fflush(stdout);
    pid = fork();
    if (pid == 0) {
        pin(1);
        run_clients(port, connections, seconds, result);
    }
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (hx_loop_run_once(loop, 10) != 0)
            exit(1);
        answer_all(web);
    }
    cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    if (status != 0) {
        fprintf(stderr, "the clients failed\n");
        exit(1);
    }
    printf("%4d connections: %8.0f requests/s, %6.2f us of CPU each, p50 %7.0f us, p99 %7.0f us\n",
           connections, (double)result->requests / seconds,
           (double)cpu / 1000 / (double)result->requests, percentile_us(result, 0.5),
           percentile_us(result, 0.99));
    if (connections == 64)
        metric("http_64_cpu_us", (double)cpu / 1000 / (double)result->requests);
    (void)munmap(result, sizeof *result);
    while (hx_http_server_connection_count(web) > 0) {
        if (hx_loop_run_once(loop, 10) != 0)
            exit(1);
        answer_all(web);
    }
}

static void measure_streams(struct hx_loop *loop, struct hx_web *web, uint16_t port)
{
    static const char request[] = "GET /mcp HTTP/1.1\r\nHost: h\r\n\r\n";
    const struct hx_web_answer answer = {.status = 200};
    static int fds[CONNECTIONS_MAX];
    size_t before = mallinfo2().uordblks;
    int streams = 0;

    for (int i = 0; i < CONNECTIONS_MAX; i++) {
        fds[i] = connect_to(port);
        if (write(fds[i], request, sizeof request - 1) < 0)
            exit(1);
        while (streams <= i) {
            struct hx_list *node;
            if (hx_loop_run_once(loop, 10) != 0)
                exit(1);
            while ((node = hx_list_first(web->inbox)) != NULL) {
                struct hx_web_event *event = hx_container_of(node, struct hx_web_event, node);
                if (event->type == HX_WEB_REQUEST) {
                    web->ops->stream_begin(web, event->exchange, &answer);
                    streams++;
                }
                hx_web_event_free(event);
            }
        }
    }
    size_t each = (mallinfo2().uordblks - before) / (size_t)streams;
    printf("%4d idle streams: %zu bytes of heap each\n", streams, each);
    metric("stream_bytes", (double)each);
    for (int i = 0; i < CONNECTIONS_MAX; i++)
        (void)close(fds[i]);
}

int main(int argc, char **argv)
{
    struct hx_http_server_options options = hx_http_server_defaults();
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 2;
    struct rlimit files = {8192, 8192};
    struct hx_list inbox;
    struct hx_loop *loop;
    struct hx_web *web;
    uint16_t port;

    (void)setrlimit(RLIMIT_NOFILE, &files);
    pin(0);
    hx_list_init(&inbox);
    loop = hx_loop_new(&(struct hx_loop_clock){.now = loop_now});
    if (loop == NULL)
        return 1;
    web = hx_http_server_new(loop, &inbox, &options);
    if (hx_http_server_listen_tcp(web, "127.0.0.1", 0, &port) != 0)
        return 1;
    measure(loop, web, port, 1, seconds);
    measure(loop, web, port, 64, seconds);
    measure(loop, web, port, 512, seconds);
    measure_streams(loop, web, port);
    web->ops->close(web);
    answer_all(web);
    hx_http_server_free(web);
    hx_loop_free(loop);
    return 0;
}
