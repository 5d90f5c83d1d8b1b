/* SPDX-License-Identifier: MIT */
#include "json/redact_names.h"

#include <string.h>

#include "json/text.h"

#define LIST(items)                                                                                \
    {                                                                                              \
        items, sizeof(items) / sizeof((items)[0])                                                  \
    }

static const struct hx_span namers[] = {HX_SPAN_INIT("name"), HX_SPAN_INIT("key"),
                                        HX_SPAN_INIT("header"), HX_SPAN_INIT("field")};
static const struct hx_span valuers[] = {HX_SPAN_INIT("value"), HX_SPAN_INIT("values")};
const struct hx_redact_names hx_redact_namers = LIST(namers);
const struct hx_redact_names hx_redact_valuers = LIST(valuers);

static bool is_separator(char byte)
{
    return byte == '_' || byte == '-' || byte == ' ';
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

bool hx_redact_is_named(const struct hx_redact_names *names, struct hx_span content)
{
    char decoded[4 * HX_REDACT_NAME_MAX + 4];
    struct hx_span said = content;
    if (memchr(content.ptr, '\\', content.len) != NULL) {
        struct hx_json_chars chars = hx_json_chars(content);
        size_t len = 0;
        for (int32_t code = hx_json_chars_next(&chars); code >= 0;
             code = hx_json_chars_next(&chars)) {
            if (code < 0x80 && is_separator((char)code))
                continue; /* however many: they do not count */
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

bool hx_redact_is_option(const struct hx_redact_names *names, struct hx_span content)
{
    return content.len > 0 && content.ptr[0] == '-' && hx_redact_is_named(names, content);
}

/* ---- running text ---- */

static bool is_one_of(char byte, const char *set)
{
    return byte != '\0' && strchr(set, byte) != NULL;
}

/* A word that only ends like a name is another word. */
static bool ends_with_name(const struct hx_redact_names *names, struct hx_span text)
{
    for (size_t i = 0; i < names->count; i++) {
        size_t begin = begin_of_name(text, names->items[i]);
        bool is_whole =
            begin == 0 || !(is_alnum(text.ptr[begin - 1]) || text.ptr[begin - 1] == '_');
        if (begin < text.len && is_whole)
            return true;
    }
    return false;
}

/* The word behind a sign, as one of the names. */
static bool begins_with_name(const struct hx_redact_names *names, struct hx_span text)
{
    size_t begin = 0, end;
    while (begin < text.len && is_one_of(text.ptr[begin], " \t\"'\\"))
        begin++;
    for (end = begin; end < text.len && end - begin <= 2 * (size_t)HX_REDACT_NAME_MAX; end++)
        if (is_one_of(text.ptr[end], "\"'\\,;{}[]\t\r\n"))
            break;
    for (size_t i = 0; i < names->count; i++)
        if (hx_redact_name_eq(hx_span(text.ptr + begin, end - begin), names->items[i]))
            return true;
    return false;
}

/* Before a colon or an equals sign; or behind one, as what a value elsewhere in the text is of. */
static bool has_sign(const struct hx_redact_names *names, struct hx_span text)
{
    bool has_namer = false, has_valuer = false;
    for (size_t sign = 0; sign < text.len; sign++) {
        size_t end = sign;
        if (text.ptr[sign] != ':' && text.ptr[sign] != '=')
            continue;
        while (end > 0 && is_one_of(text.ptr[end - 1], " \t\"'\\"))
            end--;
        struct hx_span before = hx_span(text.ptr, end);
        struct hx_span behind = hx_span(text.ptr + sign + 1, text.len - sign - 1);
        has_valuer = has_valuer || ends_with_name(&hx_redact_valuers, before);
        has_namer = has_namer ||
                    (ends_with_name(&hx_redact_namers, before) && begins_with_name(names, behind));
        if (ends_with_name(names, before) || (has_namer && has_valuer))
            return true;
    }
    return false;
}

/* A word with dashes before it, and something behind it. The quotes and commas are those of a list
 * of words, which is no text of ours when its end is missing. */
static bool has_option(const struct hx_redact_names *names, struct hx_span text)
{
    const char *around = " \t\r\n\"'\\,[]()";
    for (size_t at = 0; at < text.len;) {
        size_t end = at;
        while (end < text.len && !is_one_of(text.ptr[end], around))
            end++;
        struct hx_span word = hx_span(text.ptr + at, end - at);
        size_t next = end;
        while (next < text.len && is_one_of(text.ptr[next], around))
            next++;
        if (next < text.len && word.len > 0 && word.ptr[0] == '-') {
            for (size_t i = 0; i < names->count; i++)
                if (hx_redact_name_eq(word, names->items[i]))
                    return true;
        }
        at = next;
    }
    return false;
}

bool hx_redact_is_mentioned(const struct hx_redact_names *names, struct hx_span text)
{
    return has_sign(names, text) || has_option(names, text);
}
