/* SPDX-License-Identifier: MIT */
#include "wire/lines.h"

#include "base/fault.h"

/* A buffer that one long line has grown beyond this is given back. */
enum { PARTIAL_KEPT = 64 * 1024 };

void hx_lines_init(struct hx_lines *lines, size_t line_max, struct hx_hasher *hasher)
{
    hx_assert(line_max > 0);
    *lines = (struct hx_lines){.line_max = line_max, .hasher = hasher};
    /* Room for the "\r" that may turn out to be part of the ending, and for the doubling. */
    hx_buf_init(&lines->partial, line_max + 1);
}

void hx_lines_fini(struct hx_lines *lines)
{
    if (lines != NULL)
        hx_buf_fini(&lines->partial);
}

static void partial_drop(struct hx_lines *lines)
{
    if (lines->partial.capacity > PARTIAL_KEPT)
        hx_buf_fini(&lines->partial);
    hx_buf_reset(&lines->partial);
}

static void skip_bytes(struct hx_lines *lines, struct hx_span bytes)
{
    if (bytes.len == 0)
        return;
    hx_skim_add(&lines->skim, bytes);
    if (lines->hasher != NULL)
        hx_hasher_add(lines->hasher, bytes);
    lines->skipped += bytes.len;
}

/* Like skip_bytes, but a "\r" at the very end waits until it is known whether "\n" follows. */
static void skip(struct hx_lines *lines, struct hx_span bytes)
{
    if (bytes.len == 0)
        return;
    if (lines->has_held_cr)
        skip_bytes(lines, HX_SPAN_LIT("\r"));
    lines->has_held_cr = bytes.ptr[bytes.len - 1] == '\r';
    if (lines->has_held_cr)
        bytes.len--;
    skip_bytes(lines, bytes);
}

/* From now on the line that is being read is too long. */
static void skip_begin(struct hx_lines *lines)
{
    hx_skim_begin(&lines->skim);
    if (lines->hasher != NULL)
        hx_hasher_begin(lines->hasher);
    lines->is_skipping = true;
    lines->has_held_cr = false;
    lines->skipped = 0;
    skip(lines, hx_buf_span(&lines->partial));
    partial_drop(lines);
}

static void skip_end(struct hx_lines *lines, struct hx_line *ret_line)
{
    *ret_line = (struct hx_line){
        .kind = HX_LINE_OVERSIZE,
        .text = hx_skim_id(&lines->skim),
        .size = lines->skipped,
        .skim = hx_skim_end(&lines->skim),
    };
    if (lines->hasher != NULL)
        ret_line->digest = hx_hasher_end(lines->hasher);
    lines->is_skipping = false;
}

static bool is_too_long(const struct hx_lines *lines, size_t len, char last)
{
    return len > lines->line_max && !(len == lines->line_max + 1 && last == '\r');
}

static void keep(struct hx_lines *lines, struct hx_span bytes)
{
    if (bytes.len == 0)
        return;
    if (!lines->is_skipping &&
        (is_too_long(lines, lines->partial.len + bytes.len, bytes.ptr[bytes.len - 1]) ||
         hx_buf_append_span(&lines->partial, bytes) < 0))
        skip_begin(lines);
    else if (!lines->is_skipping)
        return;
    skip(lines, bytes);
}

static bool is_header(struct hx_span text)
{
    static const struct hx_span name = HX_SPAN_INIT("content-length:");
    return text.len > name.len && hx_span_eq_nocase(hx_span(text.ptr, name.len), name);
}

static void text_line(struct hx_span text, struct hx_line *ret_line)
{
    if (text.len > 0 && text.ptr[text.len - 1] == '\r')
        text.len--;
    *ret_line = (struct hx_line){
        .kind = is_header(text) ? HX_LINE_HEADER : HX_LINE_TEXT,
        .text = text,
        .size = text.len,
    };
}

/* The line that is being read has ended; what was kept of it is handed out. */
static void finish(struct hx_lines *lines, struct hx_line *ret_line)
{
    if (lines->is_skipping) {
        skip_end(lines, ret_line);
    } else {
        text_line(hx_buf_span(&lines->partial), ret_line);
        lines->is_taken = true;
    }
}

static void forget_taken(struct hx_lines *lines)
{
    if (lines->is_taken)
        partial_drop(lines);
    lines->is_taken = false;
}

bool hx_lines_next(struct hx_lines *lines, struct hx_span *input, struct hx_line *ret_line)
{
    forget_taken(lines);
    if (input->len == 0)
        return false;
    const char *newline = memchr(input->ptr, '\n', input->len);
    size_t len = newline ? (size_t)(newline - input->ptr) : input->len;
    struct hx_span part = hx_span(input->ptr, len);
    size_t used = len + (newline != NULL);
    *input = hx_span(input->ptr + used, input->len - used);

    bool is_whole = newline != NULL && !lines->is_skipping && lines->partial.len == 0;
    if (is_whole && (len == 0 || !is_too_long(lines, len, part.ptr[len - 1]))) {
        text_line(part, ret_line); /* the common case: no copy */
    } else {
        keep(lines, part);
        if (newline == NULL)
            return false;
        finish(lines, ret_line);
    }
    ret_line->is_terminated = true;
    return true;
}

bool hx_lines_end(struct hx_lines *lines, struct hx_line *ret_line)
{
    forget_taken(lines);
    if (!lines->is_skipping && lines->partial.len == 0)
        return false;
    if (lines->is_skipping && lines->has_held_cr)
        skip(lines, HX_SPAN_LIT("\r"));
    finish(lines, ret_line);
    ret_line->is_terminated = false;
    return true;
}

void hx_lines_refuse(struct hx_lines *lines, struct hx_line *line)
{
    bool is_terminated = line->is_terminated;
    struct hx_span text = line->text;
    hx_assert(line->kind != HX_LINE_OVERSIZE);
    hx_assert(!lines->is_skipping); /* between two lines */
    hx_skim_begin(&lines->skim);
    hx_skim_add(&lines->skim, text);
    *line = (struct hx_line){
        .kind = HX_LINE_OVERSIZE,
        .text = hx_skim_id(&lines->skim),
        .size = text.len,
        .is_terminated = is_terminated,
        .skim = hx_skim_end(&lines->skim),
    };
    if (lines->hasher == NULL)
        return;
    hx_hasher_begin(lines->hasher);
    hx_hasher_add(lines->hasher, text);
    line->digest = hx_hasher_end(lines->hasher);
}
