/* SPDX-License-Identifier: MIT */
#include "json/redact.h"

#include <string.h>

#include "base/fault.h"
#include "json/reader.h"
#include "json/scan.h"
#include "json/text.h"

/* JSON in a string of JSON in a string: each level doubles the backslashes, so a deeper one is made
 * on purpose. */
enum { LEVELS_MAX = 4 };

#define QUOTED "\"" HX_REDACTED "\""

/* ---- names ---- */

static bool is_separator(char byte)
{
    return byte == '_' || byte == '-';
}

static char fold(char byte)
{
    return byte >= 'A' && byte <= 'Z' ? (char)(byte | 0x20) : byte;
}

static bool is_alnum(char byte)
{
    return (fold(byte) >= 'a' && fold(byte) <= 'z') || (byte >= '0' && byte <= '9') ||
           (unsigned char)byte >= 0x80;
}

/* Where `name` begins at the end of `text`; text.len = it does not stand there. */
static size_t begin_of_name(struct hx_span text, struct hx_span name)
{
    size_t at = text.len, of = name.len;
    for (;;) {
        while (of > 0 && is_separator(name.ptr[of - 1]))
            of--;
        if (of == 0)
            return at;
        while (at > 0 && is_separator(text.ptr[at - 1]))
            at--;
        if (at == 0 || fold(text.ptr[at - 1]) != fold(name.ptr[of - 1]))
            return text.len;
        at--;
        of--;
    }
}

bool hx_redact_name_eq(struct hx_span a, struct hx_span b)
{
    size_t begin = begin_of_name(a, b);
    if (begin == a.len)
        return false;
    while (begin > 0 && is_separator(a.ptr[begin - 1]))
        begin--;
    return begin == 0;
}

bool hx_redact_name_is_good(struct hx_span name)
{
    bool has_any = false;
    for (size_t i = 0; i < name.len; i++) {
        unsigned char byte = (unsigned char)name.ptr[i];
        if (byte < 0x20 || byte == 0x7f || strchr("*?\"\\,", byte) != NULL)
            return false;
        has_any = has_any || is_alnum(name.ptr[i]);
    }
    return has_any && name.ptr[0] != '/' && name.len <= HX_REDACT_NAME_MAX;
}

/* `content` is what stands between the quotes. */
static bool is_named(const struct hx_redact_names *names, struct hx_span content)
{
    char decoded[4 * HX_REDACT_NAME_MAX + 4];
    struct hx_span said = content;
    if (memchr(content.ptr, '\\', content.len) != NULL) {
        struct hx_json_chars chars = hx_json_chars(content);
        size_t len = 0;
        for (int32_t code = hx_json_chars_next(&chars); code >= 0;
             code = hx_json_chars_next(&chars)) {
            if (len > sizeof(decoded) - 4)
                return false;
            len += hx_json_utf8_encode(code, decoded + len);
        }
        said = hx_span(decoded, len);
    }
    for (size_t i = 0; i < names->count; i++)
        if (hx_redact_name_eq(said, names->items[i]))
            return true;
    return false;
}

/* "password: x", "--password=x", and what is cut off of JSON. A word that only ends like a name is
 * another word. */
static bool is_mentioned(const struct hx_redact_names *names, struct hx_span text)
{
    for (size_t sign = 0; sign < text.len; sign++) {
        if (text.ptr[sign] != ':' && text.ptr[sign] != '=')
            continue;
        size_t end = sign;
        while (end > 0 && strchr(" \t\"'\\", text.ptr[end - 1]) != NULL && text.ptr[end - 1] != 0)
            end--;
        struct hx_span before = hx_span(text.ptr, end);
        for (size_t i = 0; i < names->count; i++) {
            size_t begin = begin_of_name(before, names->items[i]);
            bool is_whole =
                begin == 0 || !(is_alnum(text.ptr[begin - 1]) || text.ptr[begin - 1] == '_');
            if (begin < end && is_whole)
                return true;
        }
    }
    return false;
}

/* ---- a text that the reader has accepted ---- */

struct walk {
    const struct hx_redact_names *names;
    struct hx_span text;
    struct hx_buf *out;
    size_t done; /* bytes of `text` that are in `out`, or replaced there */
    bool is_changed;
    int level;
};

static int redact_text(const struct hx_redact_names *names, struct hx_span text, int level,
                       struct hx_buf *out);

static size_t skip_space(struct hx_span text, size_t at)
{
    while (at < text.len && hx_json_is_space((unsigned char)text.ptr[at]))
        at++;
    return at;
}

/* `at` is the opening quote; returns what is behind the closing one. */
static size_t string_end(struct hx_span text, size_t at)
{
    const unsigned char *bytes = (const unsigned char *)text.ptr;
    const unsigned char *next = bytes + at + 1, *end = bytes + text.len;
    for (;;) {
        next = hx_json_plain_end(next, end);
        hx_assert(next < end);
        if (*next == '"')
            return (size_t)(next - bytes) + 1;
        next += *next == '\\' ? 2 : 1;
    }
}

static size_t value_end(struct hx_span text, size_t at)
{
    size_t depth = 0;
    do {
        char byte = text.ptr[at];
        if (byte == '"') {
            at = string_end(text, at);
        } else if (byte == '{' || byte == '[') {
            depth++;
            at++;
        } else if (byte == '}' || byte == ']') {
            depth--;
            at++;
        } else if (depth > 0) {
            at++;
        } else {
            while (at < text.len && strchr(",}] \t\r\n", text.ptr[at]) == NULL)
                at++;
        }
        hx_assert(at <= text.len);
    } while (depth > 0);
    return at;
}

/* Puts `json` in the place of the value between the two. */
static int replace(struct walk *walk, size_t begin, size_t end, struct hx_span json)
{
    struct hx_span before = hx_span(walk->text.ptr + walk->done, begin - walk->done);
    int rc = hx_buf_append_span(walk->out, before);
    if (rc == 0)
        rc = hx_buf_append_span(walk->out, json);
    walk->done = end;
    walk->is_changed = true;
    return rc < 0 ? HX_TRACE(rc) : 0;
}

static int replace_quoted(struct walk *walk, size_t begin, size_t end, struct hx_span said)
{
    struct hx_buf quoted;
    hx_buf_init(&quoted, SIZE_MAX / 2);
    hx_json_text_quote(&quoted, said);
    int rc = hx_buf_ok(&quoted) ? replace(walk, begin, end, hx_buf_span(&quoted))
                                : HX_RAISE(HX_E_NOMEM, "no memory");
    hx_buf_fini(&quoted);
    return rc;
}

static int decode(struct hx_span content, struct hx_buf *out)
{
    struct hx_json_chars chars = hx_json_chars(content);
    int rc = hx_buf_reserve(out, content.len);
    for (int32_t code = hx_json_chars_next(&chars); rc == 0 && code >= 0;
         code = hx_json_chars_next(&chars)) {
        char bytes[4];
        rc = hx_buf_append(out, bytes, hx_json_utf8_encode(code, bytes));
    }
    return rc < 0 ? HX_TRACE(rc) : 0;
}

/* A string that is a value, with its quotes. */
static int walk_string(struct walk *walk, size_t begin, size_t end)
{
    struct hx_span content = hx_span(walk->text.ptr + begin + 1, end - begin - 2);
    struct hx_buf said, shown;
    if (memchr(content.ptr, '\\', content.len) == NULL) /* no quotes in it, so no member either */
        return is_mentioned(walk->names, content) ? replace(walk, begin, end, HX_SPAN_LIT(QUOTED))
                                                  : 0;
    hx_buf_init(&said, SIZE_MAX / 2);
    hx_buf_init(&shown, SIZE_MAX / 2);
    int rc = decode(content, &said);
    if (rc == 0)
        rc = redact_text(walk->names, hx_buf_span(&said), walk->level + 1, &shown);
    if (rc == 0)
        rc = replace_quoted(walk, begin, end, hx_buf_span(&shown));
    hx_buf_fini(&shown);
    hx_buf_fini(&said);
    return rc < 0 ? HX_TRACE(rc) : 0; /* HX_REDACT_UNTOUCHED */
}

static int walk_all(struct walk *walk)
{
    const struct hx_span text = walk->text;
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < text.len;) {
        if (text.ptr[at] != '"') {
            at++;
            continue;
        }
        size_t end = string_end(text, at);
        size_t colon = skip_space(text, end);
        if (colon == text.len || text.ptr[colon] != ':') {
            rc = walk_string(walk, at, end);
            at = end;
            continue;
        }
        struct hx_span name = hx_span(text.ptr + at + 1, end - at - 2);
        at = skip_space(text, colon + 1);
        if (!is_named(walk->names, name))
            continue;
        end = value_end(text, at);
        if (!hx_span_eq_cstr(hx_span(text.ptr + at, end - at), QUOTED))
            rc = replace(walk, at, end, HX_SPAN_LIT(QUOTED));
        at = end;
    }
    return rc < 0 ? HX_TRACE(rc) : 0;
}

/* ---- any text ---- */

/* HX_REDACT_UNTOUCHED also when it is JSON without a member that is named. */
static int redact_json(const struct hx_redact_names *names, struct hx_span text, int level,
                       struct hx_buf *out)
{
    struct walk walk = {.names = names, .text = text, .out = out, .level = level};
    int rc = walk_all(&walk);
    if (rc < 0)
        return HX_TRACE(rc);
    if (!walk.is_changed)
        return HX_REDACT_UNTOUCHED;
    rc = hx_buf_append_span(out, hx_span(text.ptr + walk.done, text.len - walk.done));
    return rc < 0 ? HX_TRACE(rc) : 0;
}

static int redact_all(struct hx_buf *out)
{
    int rc = hx_buf_append_cstr(out, HX_REDACTED);
    return rc < 0 ? HX_TRACE(rc) : 0;
}

/* Every value is checked, and none but the root takes memory. 0, HX_E_NOMEM, or a refusal. */
static int check_json(struct hx_span text)
{
    static const struct hx_json_limits limits = {.depth_max = HX_JSON_DEPTH_LIMIT,
                                                 .record_depth_max = 1,
                                                 .elements_max = 1,
                                                 .tokens_max = UINT32_MAX,
                                                 .text_max = UINT32_MAX};
    struct hx_json_tape tape;
    hx_json_tape_init(&tape);
    int rc = hx_json_read(&tape, text, &limits);
    hx_json_tape_fini(&tape);
    return rc;
}

static int redact_text(const struct hx_redact_names *names, struct hx_span text, int level,
                       struct hx_buf *out)
{
    size_t begin = skip_space(text, 0);
    bool may_have_members = begin < text.len && strchr("{[\"", text.ptr[begin]) != NULL;
    if (may_have_members) {
        int rc = level > LEVELS_MAX ? HX_JSON_TOO_DEEP : check_json(text);
        if (rc < 0)
            return HX_TRACE(rc);
        if (rc == 0)
            return redact_json(names, text, level, out);
        /* It may be JSON, and cannot be looked into. */
        if (rc != HX_JSON_BAD_SYNTAX && rc != HX_JSON_BAD_UTF8)
            return redact_all(out);
    }
    return is_mentioned(names, text) ? redact_all(out) : HX_REDACT_UNTOUCHED;
}

int hx_redact(const struct hx_redact_names *names, struct hx_span text, struct hx_buf *out)
{
    if (names == NULL || names->count == 0 || hx_span_is_absent(text))
        return HX_REDACT_UNTOUCHED;
    return redact_text(names, text, 0, out);
}

struct hx_span hx_redact_shown(const struct hx_redact_names *names, struct hx_span text,
                               struct hx_buf *buf)
{
    int rc = hx_redact(names, text, buf);
    if (rc == HX_REDACT_UNTOUCHED)
        return text;
    return rc == 0 ? hx_buf_span(buf) : HX_SPAN_LIT(QUOTED);
}
