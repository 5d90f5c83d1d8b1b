/* SPDX-License-Identifier: MIT */
#include "app/redaction.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"

enum { PATH_SIZE = 4352, FILE_MAX = 64 * 1024, TEXTS_MAX = 256 * 1024 };

void hx_redaction_init(struct hx_redaction *redaction)
{
    *redaction = (struct hx_redaction){0};
    redaction->names.items = redaction->items;
    hx_arena_init_small(&redaction->arena, TEXTS_MAX);
}

void hx_redaction_fini(struct hx_redaction *redaction)
{
    hx_arena_fini(&redaction->arena);
    redaction->names.count = 0;
}

static bool has_name(const struct hx_redaction *redaction, struct hx_span name)
{
    for (size_t i = 0; i < redaction->names.count; i++)
        if (hx_redact_name_eq(redaction->items[i], name))
            return true;
    return false;
}

int hx_redaction_add(struct hx_redaction *redaction, struct hx_span name)
{
    if (has_name(redaction, name))
        return 0;
    if (redaction->names.count == HX_REDACTION_NAMES_MAX)
        return HX_RAISE(HX_E_LIMIT, "more than %d names are to be redacted",
                        HX_REDACTION_NAMES_MAX);
    struct hx_span copy = hx_arena_dup(&redaction->arena, name);
    if (hx_span_is_absent(copy))
        return HX_RAISE(HX_E_NOMEM, "no memory for names");
    redaction->items[redaction->names.count++] = copy;
    return 0;
}

static void path_of(const char *ledger, char ret_path[PATH_SIZE])
{
    snprintf(ret_path, PATH_SIZE, "%s-redact", ledger);
}

/* A line that means nothing may have been meant: then what it was to hide would be shown. */
static int add_lines(struct hx_redaction *redaction, const char *path, struct hx_span rest)
{
    int rc = 0;
    for (int number = 1; rc == 0 && rest.len > 0; number++) {
        const char *end = memchr(rest.ptr, '\n', rest.len);
        struct hx_span line = hx_span(rest.ptr, end ? (size_t)(end - rest.ptr) : rest.len);
        size_t used = line.len + (end ? 1 : 0);
        rest = hx_span(rest.ptr + used, rest.len - used);
        while (line.len > 0 && strchr(" \t\r", line.ptr[line.len - 1]) != NULL)
            line.len--;
        if (line.len == 0 || line.ptr[0] == '#')
            continue;
        if (!hx_redact_name_is_good(line))
            return HX_RAISE(HX_E_SYNTAX, "%s, line %d: this is no name of a member", path, number);
        rc = hx_redaction_add(redaction, line);
    }
    return rc < 0 ? HX_TRACE(rc) : 0;
}

/* Of an open file, from its beginning. `ret_last` is its last byte, NUL when it is empty. */
static int read_all(struct hx_redaction *redaction, const char *path, int fd, char *ret_last)
{
    char *text = hx_new_bytes(FILE_MAX + 1);
    size_t len = 0;
    ssize_t got;
    do {
        got = pread(fd, text + len, FILE_MAX + 1 - len, (off_t)len);
        len += got > 0 ? (size_t)got : 0;
    } while (got > 0 || (got < 0 && errno == EINTR));
    int rc = got < 0 ? HX_RAISE_ERRNO("cannot read %s", path) : 0;
    if (rc == 0 && len > FILE_MAX)
        rc = HX_RAISE(HX_E_LIMIT, "%s is larger than %d bytes", path, FILE_MAX);
    if (rc == 0)
        rc = add_lines(redaction, path, hx_span(text, len));
    *ret_last = len > 0 ? text[len - 1] : '\0';
    hx_free(text);
    return rc < 0 ? HX_TRACE(rc) : 0;
}

int hx_redaction_read(struct hx_redaction *redaction, const char *ledger)
{
    char path[PATH_SIZE], last;
    path_of(ledger, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? 0 : HX_RAISE_ERRNO("cannot read %s", path);
    int rc = read_all(redaction, path, fd, &last);
    close(fd);
    return rc < 0 ? HX_TRACE(rc) : 0;
}

/* ---- keeping ---- */

/* Its name must outlive a crash of the host, as the ledger does. */
static int sync_directory(const char *path)
{
    char directory[PATH_SIZE];
    snprintf(directory, sizeof(directory), "%s", path);
    char *slash = strrchr(directory, '/');
    if (slash == NULL)
        return 0;
    slash[slash == directory ? 1 : 0] = '\0';
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd < 0 || fsync(fd) < 0 ? HX_RAISE_ERRNO("cannot sync %s", directory) : 0;
    if (fd >= 0)
        close(fd);
    return rc;
}

/* In one write at the end, which others who add at the same time do not cut: a name that two of us
 * add stands there twice. */
static int append(const char *path, int fd, struct hx_span lines)
{
    if (write(fd, lines.ptr, lines.len) == (ssize_t)lines.len && fsync(fd) == 0)
        return sync_directory(path);
    return HX_RAISE_ERRNO("cannot write %s", path);
}

/* What `redaction` has and `kept` does not. */
static int append_missing(const struct hx_redaction *redaction, const struct hx_redaction *kept,
                          const char *path, int fd, char last)
{
    struct hx_buf lines;
    int rc = 0;
    hx_buf_init(&lines, TEXTS_MAX);
    if (last == '\0')
        (void)hx_buf_append_cstr(&lines, "# Members that are shown as \"" HX_REDACTED "\", one a "
                                         "line. Hapax adds names and removes none.\n");
    else if (last != '\n') /* of one who was killed, or of a person */
        (void)hx_buf_append_char(&lines, '\n');
    size_t before = lines.len;
    for (size_t i = 0; i < redaction->names.count; i++)
        if (!has_name(kept, redaction->items[i]))
            (void)hx_buf_printf(&lines, "%.*s\n", HX_SPAN_FMT(redaction->items[i]));
    if (!hx_buf_ok(&lines))
        rc = HX_RAISE(HX_E_NOMEM, "no memory for names");
    else if (lines.len > before)
        rc = append(path, fd, hx_buf_span(&lines));
    hx_buf_fini(&lines);
    return rc < 0 ? HX_TRACE(rc) : 0;
}

static int add_kept(struct hx_redaction *redaction, const struct hx_redaction *kept)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < kept->names.count; i++)
        rc = hx_redaction_add(redaction, kept->items[i]);
    return rc < 0 ? HX_TRACE(rc) : 0;
}

int hx_redaction_keep(struct hx_redaction *redaction, const char *ledger)
{
    struct hx_redaction kept;
    char path[PATH_SIZE], last;
    if (redaction->names.count == 0) /* nothing to write, so no file is made */
        return hx_redaction_read(redaction, ledger);
    path_of(ledger, path);
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return HX_RAISE_ERRNO("cannot write %s", path);
    hx_redaction_init(&kept);
    int rc = read_all(&kept, path, fd, &last);
    if (rc == 0)
        rc = append_missing(redaction, &kept, path, fd, last);
    if (rc == 0)
        rc = add_kept(redaction, &kept);
    hx_redaction_fini(&kept);
    close(fd);
    return rc < 0 ? HX_TRACE(rc) : 0;
}
