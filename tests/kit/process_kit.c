/* SPDX-License-Identifier: MIT */
/*
 * See the header.
 */
#include "process_kit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"

enum { LIMIT_MS = 15000, FILE_MAX = 1 << 16, PIDS_MAX = 64 };

static const char *const mark_name = "HX_TEST_MARK";

int64_t process_kit_wait_ms(void)
{
    const char *text = getenv("HX_KIT_LIMIT_MS");

    return text != NULL ? strtol(text, NULL, 10) : LIMIT_MS;
}

static struct hx_mono mono_now(void *unused)
{
    struct timespec at;

    (void)unused;
    (void)clock_gettime(CLOCK_BOOTTIME, &at);
    return (struct hx_mono){(int64_t)at.tv_sec * 1000 + at.tv_nsec / 1000000};
}

void process_kit_init(struct process_kit *kit)
{
    static unsigned count;

    hx_list_init(&kit->inbox);
    hx_list_init(&kit->seen);
    (void)snprintf(kit->mark, sizeof kit->mark, "%ld-%u", (long)getpid(), ++count);
    (void)setenv(mark_name, kit->mark, 1);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
    (void)snprintf(kit->dir, sizeof kit->dir, "/tmp/hapax-test-XXXXXX");
    assert_non_null(mkdtemp(kit->dir));
    kit->loop = hx_loop_new(&(struct hx_loop_clock){.now = mono_now});
    assert_non_null(kit->loop);
}

static void remove_dir(const char *path)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;

    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.')
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
    (void)closedir(dir);
    assert_int_equal(rmdir(path), 0);
}

static void drop_events(struct hx_list *list)
{
    struct hx_list *node;

    while ((node = hx_list_first(list)) != NULL)
        hx_peer_event_free(hx_container_of(node, struct hx_peer_event, node));
}

/* Orphans come to us instead of to the host's init, so none can hide there. Those of a killed
 * keeper are rightly ours to reap; then there is no child at all, hence no zombie either. */
static void reap_orphans(void)
{
    struct hx_mono limit = hx_mono_after(mono_now(NULL), process_kit_wait_ms());
    pid_t pid;

    while ((pid = waitpid(-1, NULL, WNOHANG)) >= 0) {
        if (hx_mono_reached(mono_now(NULL), limit))
            fail_msg("a child without the mark lives on");
        if (pid == 0)
            (void)poll(NULL, 0, 1);
    }
    assert_int_equal(errno, ECHILD);
}

void process_kit_fini(struct process_kit *kit)
{
    kit->loop = hx_loop_free(kit->loop);
    drop_events(&kit->inbox);
    process_kit_none_left(kit, 5000);
    reap_orphans();
    remove_dir(kit->dir);
}

void process_kit_until(struct process_kit *kit, bool (*is_true)(void *arg), void *arg,
                       const char *what)
{
    struct hx_mono limit = hx_mono_after(mono_now(NULL), process_kit_wait_ms());

    while (!is_true(arg)) {
        if (hx_mono_reached(mono_now(NULL), limit))
            fail_msg("waited in vain for %s", what);
        assert_int_equal(hx_loop_run_once(kit->loop, 50), 0);
    }
}

static struct hx_peer_event *find_event(const struct process_kit *kit, enum hx_peer_event_type type)
{
    hx_list_for_each (node, &kit->inbox) {
        struct hx_peer_event *event = hx_container_of(node, struct hx_peer_event, node);
        if (event->type == type)
            return event;
    }
    return NULL;
}

bool process_kit_has(const struct process_kit *kit, enum hx_peer_event_type type)
{
    return find_event(kit, type) != NULL;
}

struct event_wait {
    const struct process_kit *kit;
    enum hx_peer_event_type type;
};

static bool has_event(void *arg)
{
    const struct event_wait *wait = arg;

    return process_kit_has(wait->kit, wait->type);
}

struct hx_peer_event *process_kit_take(struct process_kit *kit, enum hx_peer_event_type type)
{
    struct event_wait wait = {kit, type};
    struct hx_peer_event *event;
    char what[32];

    (void)snprintf(what, sizeof what, "peer event %d", (int)type);
    process_kit_until(kit, has_event, &wait, what);
    event = find_event(kit, type);
    hx_list_unlink(&event->node);
    return event;
}

void process_kit_expect_tag(struct process_kit *kit, enum hx_peer_event_type type, uint64_t tag)
{
    struct hx_peer_event *event = process_kit_take(kit, type);

    assert_int_equal(event->tag, tag);
    hx_peer_event_free(event);
}

void process_kit_expect_line(struct process_kit *kit, enum hx_peer_event_type type,
                             const char *line)
{
    struct hx_peer_event *event = process_kit_take(kit, type);

    assert_int_equal(hx_buf_append_char(&event->line, '\0'), 0);
    assert_string_equal(event->line.data, line);
    hx_peer_event_free(event);
}

struct hx_buf process_kit_line(const char *text)
{
    struct hx_buf line;

    hx_buf_init(&line, 1 << 20);
    assert_int_equal(hx_buf_append_cstr(&line, text), 0);
    return line;
}

struct hx_buf process_kit_filled_line(size_t len)
{
    struct hx_buf line;

    hx_buf_init(&line, len);
    assert_int_equal(hx_buf_reserve(&line, len), 0);
    memset(line.data, 'f', len);
    line.len = len;
    return line;
}

/* --- the processes of the host --- */

static ssize_t read_proc(const char *pid, const char *name, char *ret_bytes, size_t size)
{
    char path[64];
    ssize_t len;
    int fd;

    (void)snprintf(path, sizeof path, "/proc/%.20s/%s", pid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    len = read(fd, ret_bytes, size);
    (void)close(fd);
    return len;
}

size_t process_kit_list(const struct process_kit *kit, pid_t *ret_pids, size_t count_max)
{
    static char bytes[FILE_MAX];
    char wanted[128];
    size_t count = 0;
    const struct dirent *entry;
    DIR *proc = opendir("/proc");

    assert_non_null(proc);
    (void)snprintf(wanted, sizeof wanted, "%s=%s", mark_name, kit->mark);
    while ((entry = readdir(proc)) != NULL) {
        ssize_t len;
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
            continue;
        len = read_proc(entry->d_name, "environ", bytes, sizeof bytes);
        /* With the NUL behind it, so that mark 1-1 is not found in 1-12. */
        if (len <= 0 || memmem(bytes, (size_t)len, wanted, strlen(wanted) + 1) == NULL)
            continue;
        if (count < count_max)
            ret_pids[count] = (pid_t)strtol(entry->d_name, NULL, 10);
        count++;
    }
    (void)closedir(proc);
    return count;
}

size_t process_kit_count(const struct process_kit *kit)
{
    return process_kit_list(kit, NULL, 0);
}

pid_t process_kit_find(const struct process_kit *kit, const char *word)
{
    static char bytes[FILE_MAX];
    pid_t pids[PIDS_MAX];
    size_t count = process_kit_list(kit, pids, PIDS_MAX);

    for (size_t i = 0; i < count && i < PIDS_MAX; i++) {
        char pid[24];
        ssize_t len;
        (void)snprintf(pid, sizeof pid, "%ld", (long)pids[i]);
        len = read_proc(pid, "cmdline", bytes, sizeof bytes);
        if (len > 0 && memmem(bytes, (size_t)len, word, strlen(word)) != NULL)
            return pids[i];
    }
    return 0;
}

void process_kit_none_left(const struct process_kit *kit, int64_t limit_ms)
{
    struct hx_mono limit = hx_mono_after(mono_now(NULL), limit_ms);
    size_t count;

    while ((count = process_kit_count(kit)) > 0) {
        if (hx_mono_reached(mono_now(NULL), limit))
            fail_msg("%zu processes are left after %lld ms", count, (long long)limit_ms);
        (void)poll(NULL, 0, 5);
    }
}
