/* SPDX-License-Identifier: MIT */
/*
 * The log: one logfmt line per event, written in one piece, so that lines of several processes
 * never mix in one file. It carries operation ids, attempts, tool names and states. Arguments,
 * results and keys have no function here that would print them; of a key only a short hash is
 * shown. Where the operator allows arguments, the engine tells them, less what is to be redacted
 * (engine/intake_read.c).
 *
 *   struct hx_log_line line;
 *   hx_log_begin(&line, HX_LOG_INFO, "attempt_sent");
 *   hx_log_text(&line, "tool", tool);
 *   hx_log_number(&line, "attempt", 1);
 *   hx_log_end(&line);
 */
#ifndef HX_APP_LOG_H
#define HX_APP_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "app/settings.h"
#include "base/assert.h"
#include "base/fault.h"
#include "base/id.h"
#include "base/span.h"

/* The order of the choices of log_level in tables/config.def. */
enum hx_log_level { HX_LOG_ERROR, HX_LOG_WARN, HX_LOG_INFO, HX_LOG_DEBUG };

#define HX_LOG_LINE_MAX 2048

struct hx_log_line {
    bool is_wanted;
    size_t len;
    char text[HX_LOG_LINE_MAX];
};

struct hx_log_options {
    enum hx_log_level level;
    const char *path; /* NULL = standard error */
};

struct hx_log_options hx_settings_log_options(const struct hx_settings *settings);

/* Until this is called, warnings and errors go to standard error. Returns 0 or HX_E_SYSTEM. Whoever
 * goes on without a person's shell has a standard error that does not block (app/front.h). */
int hx_log_open(const struct hx_log_options *options) HX_MUST_CHECK;
void hx_log_close(void);

/* Before standard error is given up: a log file that is the same pipe or terminal goes with it. */
void hx_log_drop_stderr(void);

/* `event` is a plain word. */
void hx_log_begin(struct hx_log_line *line, enum hx_log_level level, const char *event);
void hx_log_text(struct hx_log_line *line, const char *name, struct hx_span value);
void hx_log_cstr(struct hx_log_line *line, const char *name, const char *value);
void hx_log_number(struct hx_log_line *line, const char *name, int64_t value);
void hx_log_id(struct hx_log_line *line, const char *name, const struct hx_id *id);
/* Eight hex digits of the key's SHA-256: enough to find it again, too little to use it. */
void hx_log_key(struct hx_log_line *line, const char *name, struct hx_span key);
/* Ready pairs, "name=value name=value", as the engine tells them. */
void hx_log_pairs(struct hx_log_line *line, const char *pairs);
void hx_log_fault(struct hx_log_line *line, const struct hx_fault *fault);
void hx_log_end(struct hx_log_line *line);

#endif
