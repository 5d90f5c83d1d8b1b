/* SPDX-License-Identifier: MIT */
#include "json/writer.h"

#include <inttypes.h>

#include "json/text.h"

/* Results of appends are dropped throughout: the buffer remembers a failure. */

void hx_json_writer_init(struct hx_json_writer *writer, struct hx_buf *buf)
{
    *writer = (struct hx_json_writer){.buf = buf};
}

static void value_begin(struct hx_json_writer *writer)
{
    if (writer->needs_comma)
        (void)hx_buf_append_char(writer->buf, ',');
    writer->needs_comma = true;
}

static void open_container(struct hx_json_writer *writer, char bracket)
{
    value_begin(writer);
    (void)hx_buf_append_char(writer->buf, bracket);
    writer->needs_comma = false;
}

static void close_container(struct hx_json_writer *writer, char bracket)
{
    (void)hx_buf_append_char(writer->buf, bracket);
    writer->needs_comma = true;
}

void hx_json_open_object(struct hx_json_writer *writer)
{
    open_container(writer, '{');
}

void hx_json_close_object(struct hx_json_writer *writer)
{
    close_container(writer, '}');
}

void hx_json_open_array(struct hx_json_writer *writer)
{
    open_container(writer, '[');
}

void hx_json_close_array(struct hx_json_writer *writer)
{
    close_container(writer, ']');
}

void hx_json_put_name(struct hx_json_writer *writer, const char *name)
{
    hx_json_put_name_span(writer, hx_span_cstr(name));
}

void hx_json_put_name_span(struct hx_json_writer *writer, struct hx_span name)
{
    value_begin(writer);
    hx_json_text_quote(writer->buf, name);
    (void)hx_buf_append_char(writer->buf, ':');
    writer->needs_comma = false;
}

void hx_json_put_string(struct hx_json_writer *writer, struct hx_span text)
{
    value_begin(writer);
    hx_json_text_quote(writer->buf, text);
}

void hx_json_put_cstr(struct hx_json_writer *writer, const char *text)
{
    hx_json_put_string(writer, hx_span_cstr(text));
}

void hx_json_put_int(struct hx_json_writer *writer, int64_t value)
{
    value_begin(writer);
    (void)hx_buf_printf(writer->buf, "%" PRId64, value);
}

void hx_json_put_uint(struct hx_json_writer *writer, uint64_t value)
{
    value_begin(writer);
    (void)hx_buf_printf(writer->buf, "%" PRIu64, value);
}

void hx_json_put_bool(struct hx_json_writer *writer, bool value)
{
    value_begin(writer);
    (void)hx_buf_append_cstr(writer->buf, value ? "true" : "false");
}

void hx_json_put_null(struct hx_json_writer *writer)
{
    value_begin(writer);
    (void)hx_buf_append_cstr(writer->buf, "null");
}

void hx_json_put_raw(struct hx_json_writer *writer, struct hx_span json)
{
    value_begin(writer);
    (void)hx_buf_append_span(writer->buf, json);
}

void hx_json_add_string(struct hx_json_writer *writer, const char *name, struct hx_span text)
{
    hx_json_put_name(writer, name);
    if (hx_span_is_absent(text))
        hx_json_put_null(writer);
    else
        hx_json_put_string(writer, text);
}

void hx_json_add_cstr(struct hx_json_writer *writer, const char *name, const char *text)
{
    hx_json_add_string(writer, name, hx_span_cstr(text));
}

void hx_json_add_id(struct hx_json_writer *writer, const char *name, const struct hx_id *id)
{
    char text[HX_ID_TEXT_SIZE];
    hx_id_format(id, text);
    hx_json_add_cstr(writer, name, hx_id_is_nil(id) ? NULL : text);
}

void hx_json_add_wall(struct hx_json_writer *writer, const char *name, struct hx_wall wall)
{
    char text[HX_TIME_TEXT_SIZE];
    hx_wall_format(wall, text);
    hx_json_add_cstr(writer, name, wall.ms == 0 ? NULL : text);
}

void hx_json_add_uint(struct hx_json_writer *writer, const char *name, uint64_t value)
{
    hx_json_put_name(writer, name);
    hx_json_put_uint(writer, value);
}

void hx_json_add_bool(struct hx_json_writer *writer, const char *name, bool value)
{
    hx_json_put_name(writer, name);
    hx_json_put_bool(writer, value);
}
