/* SPDX-License-Identifier: MIT */
/*
 * Appends JSON that we say ourselves onto a buffer; commas are placed for the caller. Failures are
 * remembered by the buffer: check hx_buf_ok() once at the end.
 *
 *   struct hx_json_writer writer;
 *   hx_json_writer_init(&writer, &buf);
 *   hx_json_open_object(&writer);
 *   hx_json_put_name(&writer, "id");
 *   hx_json_put_raw(&writer, id);
 *   hx_json_close_object(&writer);
 */
#ifndef HX_JSON_WRITER_H
#define HX_JSON_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/id.h"
#include "base/span.h"
#include "base/time.h"

struct hx_json_writer {
    struct hx_buf *buf; /* borrowed */
    bool needs_comma;
};

void hx_json_writer_init(struct hx_json_writer *writer, struct hx_buf *buf);

void hx_json_open_object(struct hx_json_writer *writer);
void hx_json_close_object(struct hx_json_writer *writer);
void hx_json_open_array(struct hx_json_writer *writer);
void hx_json_close_array(struct hx_json_writer *writer);

/* A member's name; its value comes next. */
void hx_json_put_name(struct hx_json_writer *writer, const char *name);
void hx_json_put_name_span(struct hx_json_writer *writer, struct hx_span name);

/* `text` is UTF-8; bytes that are not become U+FFFD. */
void hx_json_put_string(struct hx_json_writer *writer, struct hx_span text);
void hx_json_put_cstr(struct hx_json_writer *writer, const char *text);
void hx_json_put_int(struct hx_json_writer *writer, int64_t value);
void hx_json_put_uint(struct hx_json_writer *writer, uint64_t value);
void hx_json_put_bool(struct hx_json_writer *writer, bool value);
void hx_json_put_null(struct hx_json_writer *writer);
/* `json` is one JSON value, passed on as it is. */
void hx_json_put_raw(struct hx_json_writer *writer, struct hx_span json);

/* A member whole, name and value. What is not there (an absent text, the nil id, the time 0) is
 * null. */
void hx_json_add_string(struct hx_json_writer *writer, const char *name, struct hx_span text);
void hx_json_add_cstr(struct hx_json_writer *writer, const char *name, const char *text);
void hx_json_add_id(struct hx_json_writer *writer, const char *name, const struct hx_id *id);
void hx_json_add_wall(struct hx_json_writer *writer, const char *name, struct hx_wall wall);
void hx_json_add_uint(struct hx_json_writer *writer, const char *name, uint64_t value);
void hx_json_add_bool(struct hx_json_writer *writer, const char *name, bool value);

#endif
