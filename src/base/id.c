/* SPDX-License-Identifier: MIT */
#include "base/id.h"

#include "base/digest.h"

struct hx_id hx_id_make(struct hx_wall wall, const uint8_t random[10])
{
    struct hx_id id;
    uint64_t ms = wall.ms > 0 ? (uint64_t)wall.ms : 0;
    for (int i = 0; i < 6; i++)
        id.bytes[i] = (uint8_t)(ms >> (40 - 8 * i));
    memcpy(id.bytes + 6, random, 10);
    id.bytes[6] = (uint8_t)(0x70 | (id.bytes[6] & 0x0f));
    id.bytes[8] = (uint8_t)(0x80 | (id.bytes[8] & 0x3f));
    return id;
}

bool hx_id_eq(const struct hx_id *a, const struct hx_id *b)
{
    return memcmp(a->bytes, b->bytes, HX_ID_SIZE) == 0;
}

bool hx_id_is_nil(const struct hx_id *id)
{
    static const struct hx_id nil;
    return hx_id_eq(id, &nil);
}

void hx_id_format(const struct hx_id *id, char *ret_text)
{
    static const int group_bytes[] = {4, 2, 2, 2, 6};
    const uint8_t *from = id->bytes;
    for (int group = 0; group < 5; group++) {
        if (group > 0)
            *ret_text++ = '-';
        hx_hex_encode(from, (size_t)group_bytes[group], ret_text);
        from += group_bytes[group];
        ret_text += 2 * group_bytes[group];
    }
}

bool hx_id_parse(struct hx_span text, struct hx_id *ret_id)
{
    if (text.len != HX_ID_TEXT_SIZE - 1)
        return false;
    char digits[2 * HX_ID_SIZE];
    size_t count = 0;
    for (size_t i = 0; i < text.len; i++) {
        bool is_dash_place = i == 8 || i == 13 || i == 18 || i == 23;
        if (is_dash_place != (text.ptr[i] == '-'))
            return false;
        if (!is_dash_place)
            digits[count++] = text.ptr[i];
    }
    struct hx_id id;
    if (!hx_hex_decode(hx_span(digits, count), id.bytes, HX_ID_SIZE))
        return false;
    *ret_id = id;
    return true;
}

bool hx_id_time(const struct hx_id *id, struct hx_wall *ret_wall)
{
    bool is_version_7 = (id->bytes[6] & 0xf0) == 0x70;
    bool is_rfc_variant = (id->bytes[8] & 0xc0) == 0x80;
    if (!is_version_7 || !is_rfc_variant)
        return false;
    int64_t ms = 0;
    for (int i = 0; i < 6; i++)
        ms = ms << 8 | id->bytes[i];
    ret_wall->ms = ms;
    return true;
}
