/* SPDX-License-Identifier: MIT */
/*
 * See the header.
 */
#include "adapter/stdio_child/stderr_log.h"

#include <string.h>

enum { LINE_MAX_BYTES = 2048, TAIL_MAX_BYTES = 4096, TAIL_MAX_LINES = 20 };

void hx_stderr_log_init(struct hx_stderr_log *log, void (*got_line)(void *, struct hx_span),
                        void *arg)
{
    *log = (struct hx_stderr_log){.got_line = got_line, .arg = arg};
    hx_buf_init(&log->line, LINE_MAX_BYTES);
    hx_buf_init(&log->tail, TAIL_MAX_BYTES);
}

void hx_stderr_log_fini(struct hx_stderr_log *log)
{
    hx_buf_fini(&log->line);
    hx_buf_fini(&log->tail);
}

static void drop_first_line(struct hx_stderr_log *log)
{
    const char *newline = memchr(log->tail.data, '\n', log->tail.len);

    hx_assert(newline != NULL);
    hx_buf_consume(&log->tail, (size_t)(newline - log->tail.data) + 1);
    log->tail_lines--;
}

static void keep(struct hx_stderr_log *log, struct hx_span line)
{
    while (log->tail_lines > 0 &&
           (log->tail_lines == TAIL_MAX_LINES || log->tail.len + line.len + 1 > TAIL_MAX_BYTES))
        drop_first_line(log);
    /* Short of memory, the tail goes without this line. */
    if (hx_buf_reserve(&log->tail, line.len + 1) != 0) {
        log->tail.is_failed = false;
        return;
    }
    hx_assert(hx_buf_append_span(&log->tail, line) == 0);
    hx_assert(hx_buf_append_char(&log->tail, '\n') == 0);
    log->tail_lines++;
}

static void emit(struct hx_stderr_log *log)
{
    struct hx_span line = hx_buf_span(&log->line);

    if (line.len > 0 && line.ptr[line.len - 1] == '\r')
        line.len--;
    if (line.len > 0) {
        keep(log, line);
        log->got_line(log->arg, line);
    }
    hx_buf_reset(&log->line);
}

void hx_stderr_log_feed(struct hx_stderr_log *log, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] == '\n') {
            emit(log);
            continue;
        }
        if (hx_buf_append_char(&log->line, bytes[i]) != 0) {
            emit(log);
            (void)hx_buf_append_char(&log->line, bytes[i]); /* short of memory: lost */
        }
    }
}

void hx_stderr_log_end(struct hx_stderr_log *log)
{
    emit(log);
}

void hx_stderr_log_forget(struct hx_stderr_log *log)
{
    hx_buf_reset(&log->tail);
    log->tail_lines = 0;
}
