/* SPDX-License-Identifier: MIT */
/*
 * See the header.
 */
#include "http_kit.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { ARGS_MAX = 12 };

extern char **environ;

static int read_port(FILE *output)
{
    int port = 0;

    assert_int_equal(fscanf(output, "%d", &port), 1);
    return port;
}

void http_kit_start(struct http_kit *http, struct process_kit *kit, const char *const *args)
{
    const char *argv[ARGS_MAX] = {"python3", getenv("HX_HTTP_STUB"), kit->dir};
    posix_spawn_file_actions_t actions;
    int in[2], out[2];
    bool has_proxy = false;
    size_t count = 3;
    FILE *output;

    *http = (struct http_kit){.kit = kit};
    for (; *args != NULL; args++) {
        assert_true(count < ARGS_MAX - 1);
        has_proxy |= strcmp(*args, "--cut") == 0;
        http->is_tls |= strcmp(*args, "--tls") == 0;
        argv[count++] = *args;
    }
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, in[0], 0), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, out[1], 1), 0);
    assert_int_equal(posix_spawnp(&http->pid, "python3", &actions, NULL,
                                  (char *const *)(uintptr_t)argv, environ),
                     0);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(in[0]);
    (void)close(out[1]);
    http->input = in[1];
    output = fdopen(out[0], "r");
    assert_non_null(output);
    http->port = read_port(output);
    if (has_proxy)
        http->proxy_port = read_port(output);
    (void)fclose(output);
    (void)snprintf(http->url, sizeof http->url, "%s://127.0.0.1:%d/mcp",
                   http->is_tls ? "https" : "http", has_proxy ? http->proxy_port : http->port);
}

void http_kit_stop(struct http_kit *http)
{
    int status = -1;

    if (http->pid == 0)
        return;
    (void)close(http->input);
    assert_int_equal(waitpid(http->pid, &status, 0), http->pid);
    assert_int_equal(status, 0);
    http->pid = 0;
}

char *http_kit_read(const struct process_kit *kit, const char *name)
{
    char path[128];
    char *text = NULL;
    size_t size = 0;
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", kit->dir, name);
    file = fopen(path, "re");
    if (file == NULL || getdelim(&text, &size, '\0', file) < 0) {
        free(text);
        text = strdup("");
    }
    if (file != NULL)
        (void)fclose(file);
    return text;
}

size_t http_kit_count(const struct process_kit *kit, const char *name, const char *text)
{
    char *whole = http_kit_read(kit, name);
    char *line = whole;
    size_t count = 0;

    while (*line != '\0') {
        char *end = strchrnul(line, '\n');
        bool is_last = *end == '\0';
        *end = '\0';
        count += strstr(line, text) != NULL;
        line = is_last ? end : end + 1;
    }
    free(whole);
    return count;
}

size_t http_kit_effects(const struct process_kit *kit, unsigned id)
{
    char *whole = http_kit_read(kit, "effects");
    size_t count = 0;

    for (const char *line = whole; *line != '\0'; line = strchr(line, '\n') + 1)
        count += strtoul(line, NULL, 10) == id;
    free(whole);
    return count;
}

void http_kit_touch(const struct process_kit *kit, const char *name)
{
    char path[128];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", kit->dir, name);
    file = fopen(path, "we");
    assert_non_null(file);
    (void)fclose(file);
}
