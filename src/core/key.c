/* SPDX-License-Identifier: MIT */
#include "core/key.h"

static bool is_one_character(struct hx_span key)
{
    for (size_t i = 1; i < key.len; i++) {
        if (key.ptr[i] != key.ptr[0])
            return false;
    }
    return key.len >= 2;
}

const char *hx_key_flaw(struct hx_span key)
{
    /* What a program writes when it has no key. Accepting these would make strangers share one. */
    static const char *const placeholders[] = {"null", "undefined", "none"};
    if (key.len == 0)
        return "The key is empty.";
    if (key.len > HX_KEY_LEN_MAX)
        return "The key is longer than 255 bytes.";
    for (size_t i = 0; i < key.len; i++) {
        unsigned char byte = (unsigned char)key.ptr[i];
        if (byte < 0x21 || byte > 0x7e)
            return "The key has a byte outside the printable ASCII range 0x21-0x7E.";
    }
    for (size_t i = 0; i < sizeof(placeholders) / sizeof(placeholders[0]); i++) {
        if (hx_span_eq_nocase(key, hx_span_cstr(placeholders[i])))
            return "The key is a placeholder word, not a key.";
    }
    struct hx_id id;
    if (hx_id_parse(key, &id) && hx_id_is_nil(&id))
        return "The key is the nil UUID.";
    if (is_one_character(key))
        return "The key is one character repeated.";
    return NULL;
}

bool hx_key_issued(struct hx_span key, struct hx_key_issued *ret_parts)
{
    const struct hx_span prefix = HX_SPAN_LIT(HX_KEY_ISSUED_PREFIX);
    enum { ID_LEN = HX_ID_TEXT_SIZE - 1 };
    size_t tag_at = prefix.len + ID_LEN + 1;
    if (key.len <= tag_at || !hx_span_starts_with(key, prefix) || key.ptr[tag_at - 1] != '-')
        return false;
    ret_parts->id_text = hx_span(key.ptr + prefix.len, ID_LEN);
    ret_parts->tag = hx_span(key.ptr + tag_at, key.len - tag_at);
    return hx_id_parse(ret_parts->id_text, &ret_parts->id);
}

struct hx_key_time hx_key_time(struct hx_span key, struct hx_wall first_sent)
{
    struct hx_key_time time = {.first_sent = first_sent};
    struct hx_key_issued issued;
    struct hx_id id;
    struct hx_wall inside;
    if (hx_key_issued(key, &issued))
        key = issued.id_text;
    if (hx_id_parse(key, &id) && hx_id_time(&id, &inside) && inside.ms > 0) {
        time.is_in_key = true;
        if (first_sent.ms == 0 || inside.ms < first_sent.ms)
            time.first_sent = inside;
    }
    return time;
}

enum hx_key_age hx_key_age(struct hx_key_time time, struct hx_wall now, struct hx_wall low_water)
{
    const int64_t ahead_max_ms = 5 * 60 * 1000;
    if (time.first_sent.ms == 0)
        return HX_KEY_AGE_GOOD;
    if (time.first_sent.ms > now.ms + ahead_max_ms)
        return HX_KEY_AGE_FUTURE;
    if (time.first_sent.ms < low_water.ms)
        return HX_KEY_AGE_EXPIRED;
    return HX_KEY_AGE_GOOD;
}
