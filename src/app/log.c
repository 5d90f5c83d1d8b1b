/* SPDX-License-Identifier: MIT */
#include "app/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/time.h"

#define CUT_MARK "..."

static struct {
    enum hx_log_level level;
    int fd;
} log_state = {HX_LOG_WARN, STDERR_FILENO};

_Static_assert(HX_CHOICE_log_level_DEBUG - HX_CHOICE_log_level_ERROR == HX_LOG_DEBUG,
               "log levels stand in one order in tables/config.def and app/log.h");

struct hx_log_options hx_settings_log_options(const struct hx_settings *settings)
{
    return (struct hx_log_options){
        .level = (enum hx_log_level)(settings->log_level - HX_CHOICE_log_level_ERROR),
        .path = settings->log_file,
    };
}

static bool is_pipe(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISFIFO(info.st_mode);
}

int hx_log_open(const struct hx_log_options *options)
{
    int fd = STDERR_FILENO;
    if (options->path) {
        /* It may be a pipe or a terminal, which nobody has to read. */
        fd = open(options->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
                  0600);
        if (fd < 0 && errno == ENXIO && is_pipe(options->path))
            return HX_RAISE_ERRNO("the log file %s is a pipe that nobody reads", options->path);
        if (fd < 0)
            return HX_RAISE_ERRNO("cannot open the log file %s", options->path);
    }
    hx_log_close();
    log_state.fd = fd;
    log_state.level = options->level;
    return 0;
}

void hx_log_close(void)
{
    if (log_state.fd > STDERR_FILENO)
        close(log_state.fd);
    log_state.fd = STDERR_FILENO;
}

void hx_log_drop_stderr(void)
{
    struct stat own, other;
    if (log_state.fd == STDERR_FILENO || fstat(log_state.fd, &own) != 0 ||
        fstat(STDERR_FILENO, &other) != 0)
        return;
    /* A file is no sign of life to anybody, and may be read later. */
    if (own.st_dev == other.st_dev && own.st_ino == other.st_ino && !S_ISREG(own.st_mode))
        hx_log_close();
}

/* A line that is full stays full: what came first is what matters most. Room for the mark and the
 * newline is always kept. */
static void append(struct hx_log_line *line, const char *bytes, size_t len)
{
    size_t room = HX_LOG_LINE_MAX - sizeof(CUT_MARK) - 1 - line->len;
    size_t taken = len < room ? len : room;
    memcpy(line->text + line->len, bytes, taken);
    line->len += taken;
}

static void appendf(struct hx_log_line *line, const char *format, ...) HX_PRINTF(2, 3);
static void appendf(struct hx_log_line *line, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    append(line, text, (size_t)len < sizeof(text) ? (size_t)len : sizeof(text) - 1);
}

void hx_log_begin(struct hx_log_line *line, enum hx_log_level level, const char *event)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    struct timespec now;
    char text[HX_TIME_TEXT_SIZE];
    line->is_wanted = level <= log_state.level;
    line->len = 0;
    if (!line->is_wanted)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    hx_wall_format((struct hx_wall){(int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000}, text);
    appendf(line, "time=%s level=%s event=%s", text, names[level], event);
}

static bool is_bare(struct hx_span value)
{
    for (size_t i = 0; i < value.len; i++) {
        unsigned char byte = (unsigned char)value.ptr[i];
        if (byte <= ' ' || byte == '"' || byte == '=' || byte == '\\' || byte >= 0x7f)
            return false;
    }
    return value.len > 0;
}

void hx_log_text(struct hx_log_line *line, const char *name, struct hx_span value)
{
    if (!line->is_wanted)
        return;
    appendf(line, " %s=", name);
    if (is_bare(value)) {
        append(line, value.ptr, value.len);
        return;
    }
    append(line, "\"", 1);
    for (size_t i = 0; i < value.len; i++) {
        unsigned char byte = (unsigned char)value.ptr[i];
        if (byte == '"' || byte == '\\')
            appendf(line, "\\%c", byte);
        else if (byte < ' ' || byte == 0x7f)
            appendf(line, "\\x%02x", byte);
        else
            append(line, value.ptr + i, 1);
    }
    append(line, "\"", 1);
}

void hx_log_cstr(struct hx_log_line *line, const char *name, const char *value)
{
    hx_log_text(line, name, hx_span_cstr(value));
}

void hx_log_number(struct hx_log_line *line, const char *name, int64_t value)
{
    if (line->is_wanted)
        appendf(line, " %s=%" PRId64, name, value);
}

void hx_log_id(struct hx_log_line *line, const char *name, const struct hx_id *id)
{
    char text[HX_ID_TEXT_SIZE];
    hx_id_format(id, text);
    hx_log_cstr(line, name, text);
}

void hx_log_key(struct hx_log_line *line, const char *name, struct hx_span key)
{
    char hex[HX_DIGEST_HEX_SIZE];
    if (!line->is_wanted)
        return;
    struct hx_hasher *hasher = hx_hasher_new();
    hx_hasher_begin(hasher);
    hx_hasher_add(hasher, key);
    struct hx_digest digest = hx_hasher_end(hasher);
    hx_hasher_free(hasher);
    hx_digest_hex(&digest, hex);
    appendf(line, " %s=%.8s", name, hex);
}

void hx_log_pairs(struct hx_log_line *line, const char *pairs)
{
    if (!line->is_wanted || !pairs || !pairs[0])
        return;
    append(line, " ", 1);
    /* One event is one line, whatever stands in it. */
    for (const char *at = pairs; *at; at++)
        append(line, (unsigned char)*at < ' ' ? "?" : at, 1);
}

void hx_log_fault(struct hx_log_line *line, const struct hx_fault *fault)
{
    if (!line->is_wanted)
        return;
    hx_log_cstr(line, "fault", fault->text);
    if (fault->system_errno != 0)
        hx_log_cstr(line, "errno", strerror(fault->system_errno));
    appendf(line, " at=%s:%d", fault->file ? fault->file : "?", fault->line);
}

void hx_log_end(struct hx_log_line *line)
{
    if (!line->is_wanted)
        return;
    bool is_full = line->len == HX_LOG_LINE_MAX - sizeof(CUT_MARK) - 1;
    if (is_full) {
        memcpy(line->text + line->len, CUT_MARK, sizeof(CUT_MARK) - 1);
        line->len += sizeof(CUT_MARK) - 1;
    }
    line->text[line->len++] = '\n';
    /* A log that cannot be written, or is a full pipe, must not stop the work it speaks of. A line
     * is shorter than what a pipe takes as a whole. */
    ssize_t written;
    do
        written = write(log_state.fd, line->text, line->len);
    while (written < 0 && errno == EINTR);
    line->is_wanted = false;
}
