/* SPDX-License-Identifier: MIT */
/*
 * A child's standard error: cut into lines for the log, and its last lines kept, because they say
 * why a server died.
 */
#ifndef HX_ADAPTER_STDIO_CHILD_STDERR_LOG_H
#define HX_ADAPTER_STDIO_CHILD_STDERR_LOG_H

#include <stddef.h>

#include "base/buf.h"

struct hx_stderr_log {
    struct hx_buf line; /* not ended yet */
    struct hx_buf tail; /* whole lines */
    unsigned tail_lines;
    void (*got_line)(void *arg, struct hx_span line);
    void *arg;
};

void hx_stderr_log_init(struct hx_stderr_log *log, void (*got_line)(void *, struct hx_span),
                        void *arg);
void hx_stderr_log_fini(struct hx_stderr_log *log);
/* Over-long lines are split. */
void hx_stderr_log_feed(struct hx_stderr_log *log, const char *bytes, size_t len);
/* The stream has ended: an unended line counts as one. */
void hx_stderr_log_end(struct hx_stderr_log *log);
/* Empties the tail, for the next process. */
void hx_stderr_log_forget(struct hx_stderr_log *log);

#endif
