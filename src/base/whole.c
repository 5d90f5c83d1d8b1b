/* SPDX-License-Identifier: MIT */
#include "base/whole.h"

bool hx_whole_parse_front(struct hx_span text, size_t *ret_used, int64_t *ret_number)
{
    int64_t number = 0;
    size_t used = 0;
    while (used < text.len && text.ptr[used] >= '0' && text.ptr[used] <= '9') {
        int digit = text.ptr[used] - '0';
        if (number > (INT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
        used++;
    }
    if (used == 0)
        return false;
    *ret_used = used;
    *ret_number = number;
    return true;
}

bool hx_whole_parse(struct hx_span text, int64_t *ret_number)
{
    size_t used;
    int64_t number;
    if (!hx_whole_parse_front(text, &used, &number) || used != text.len)
        return false;
    *ret_number = number;
    return true;
}
