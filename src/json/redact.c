/* SPDX-License-Identifier: MIT */
#include "json/redact.h"

#include <string.h>

#include "base/fault.h"
#include "json/reader.h"
#include "json/redact_names.h"
#include "json/scan.h"
#include "json/text.h"

/* JSON in a string of JSON in a string: each level doubles the backslashes, so a deeper one is made
 * on purpose. */
enum { LEVELS_MAX = 4 };

#define NO_OBJECT UINT32_MAX
#define QUOTED "\"" HX_REDACTED "\""

/* ---- a text that the reader has accepted ---- */

/* The containers around a place. Objects are numbered in the order in which they begin. */
struct place {
    uint32_t inside[HX_JSON_DEPTH_LIMIT]; /* the object's number; NO_OBJECT: an array */
    size_t depth;
    uint32_t objects; /* that have begun */
};

struct walk {
    const struct hx_redact_names *names;
    struct hx_span text;
    struct hx_buf *out;
    size_t done; /* bytes of `text` that are in `out`, or replaced there */
    bool is_changed;
    int level;
    struct place place;
    struct hx_buf pairs; /* a bit per object: one of its members says a name of ours */
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

/* `objects` counts those that begin in it. */
static size_t value_end(struct hx_span text, size_t at, uint32_t *objects)
{
    size_t depth = 0;
    do {
        char byte = text.ptr[at];
        if (byte == '"') {
            at = string_end(text, at);
        } else if (byte == '{' || byte == '[') {
            *objects += byte == '{';
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
        return hx_redact_is_mentioned(walk->names, content)
                   ? replace(walk, begin, end, HX_SPAN_LIT(QUOTED))
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

/* The one of a value that a name goes with is named before its object is walked, since it may stand
 * in front of that name. */
static int mark_pair(struct hx_buf *pairs, uint32_t object)
{
    while (pairs->len <= object / 8) {
        int rc = hx_buf_append_char(pairs, 0);
        if (rc < 0)
            return HX_TRACE(rc);
    }
    pairs->data[object / 8] = (char)(pairs->data[object / 8] | 1 << object % 8);
    return 0;
}

static bool is_pair(const struct walk *walk)
{
    uint32_t object = walk->place.inside[walk->place.depth - 1];
    return walk->pairs.len > object / 8 && (walk->pairs.data[object / 8] >> object % 8 & 1) != 0;
}

/* Past one byte that is no quote. */
static void step(struct place *place, char byte)
{
    if (byte == '{' || byte == '[') {
        hx_assert(place->depth < HX_JSON_DEPTH_LIMIT);
        place->inside[place->depth++] = byte == '{' ? place->objects++ : NO_OBJECT;
    } else if (byte == '}' || byte == ']') {
        place->depth--;
    }
}

/* Is the string that ends at `end` a name? Then `ret_value` is where its value begins. */
static bool is_name(struct hx_span text, size_t end, size_t *ret_value)
{
    size_t colon = skip_space(text, end);
    if (colon == text.len || text.ptr[colon] != ':')
        return false;
    *ret_value = skip_space(text, colon + 1);
    return true;
}

/* What lists of settings, headers or variables are made of: {"name":"password","value":"x"}. */
static int find_pairs(struct walk *walk)
{
    const struct hx_span text = walk->text;
    struct place place = {.depth = 0};
    int rc = 0;
    for (size_t at = 0, value; rc == 0 && at < text.len;) {
        if (text.ptr[at] != '"') {
            step(&place, text.ptr[at++]);
            continue;
        }
        size_t end = string_end(text, at);
        struct hx_span name = hx_span(text.ptr + at + 1, end - at - 2);
        at = end;
        if (!is_name(text, end, &value) || text.ptr[value] != '"' ||
            !hx_redact_is_named(&hx_redact_namers, name))
            continue;
        at = string_end(text, value);
        if (hx_redact_is_named(walk->names, hx_span(text.ptr + value + 1, at - value - 2)))
            rc = mark_pair(&walk->pairs, place.inside[place.depth - 1]);
    }
    return rc < 0 ? HX_TRACE(rc) : 0;
}

/* Returns what is behind the value. */
static int take_out(struct walk *walk, size_t begin, size_t *ret_end)
{
    size_t end = value_end(walk->text, begin, &walk->place.objects);
    *ret_end = end;
    if (hx_span_eq_cstr(hx_span(walk->text.ptr + begin, end - begin), QUOTED))
        return 0;
    int rc = replace(walk, begin, end, HX_SPAN_LIT(QUOTED));
    return rc < 0 ? HX_TRACE(rc) : 0;
}

/* ["--password","x"]: what follows such an element is its value, which may look like one too. */
static int walk_element(struct walk *walk, size_t begin, size_t *ret_end)
{
    const struct hx_span text = walk->text;
    size_t end = *ret_end;
    bool is_option = true;
    int rc = walk_string(walk, begin, end);
    while (rc == 0 && is_option) {
        size_t comma = skip_space(text, end);
        struct hx_span content = hx_span(text.ptr + begin + 1, end - begin - 2);
        is_option = text.ptr[begin] == '"' && hx_redact_is_option(walk->names, content) &&
                    comma < text.len && text.ptr[comma] == ',';
        if (!is_option)
            break;
        begin = skip_space(text, comma + 1);
        rc = take_out(walk, begin, &end);
    }
    *ret_end = end;
    return rc < 0 ? HX_TRACE(rc) : 0;
}

static int walk_all(struct walk *walk)
{
    const struct hx_span text = walk->text;
    struct place *place = &walk->place;
    int rc = 0;
    for (size_t at = 0, value; rc == 0 && at < text.len;) {
        if (text.ptr[at] != '"') {
            step(place, text.ptr[at++]);
            continue;
        }
        size_t end = string_end(text, at);
        struct hx_span name = hx_span(text.ptr + at + 1, end - at - 2);
        if (!is_name(text, end, &value)) {
            bool is_element = place->depth > 0 && place->inside[place->depth - 1] == NO_OBJECT;
            rc = is_element ? walk_element(walk, at, &end) : walk_string(walk, at, end);
            at = end;
            continue;
        }
        at = value;
        if (hx_redact_is_named(walk->names, name) ||
            (is_pair(walk) && hx_redact_is_named(&hx_redact_valuers, name)))
            rc = take_out(walk, value, &at);
    }
    return rc < 0 ? HX_TRACE(rc) : 0;
}

/* ---- any text ---- */

/* HX_REDACT_UNTOUCHED also when it is JSON without a member that is named. */
static int redact_json(const struct hx_redact_names *names, struct hx_span text, int level,
                       struct hx_buf *out)
{
    struct walk walk = {.names = names, .text = text, .out = out, .level = level};
    hx_buf_init(&walk.pairs, SIZE_MAX / 2);
    int rc = find_pairs(&walk);
    if (rc == 0)
        rc = walk_all(&walk);
    hx_buf_fini(&walk.pairs);
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
    return hx_redact_is_mentioned(names, text) ? redact_all(out) : HX_REDACT_UNTOUCHED;
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
