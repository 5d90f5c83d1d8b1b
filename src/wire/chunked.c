/* SPDX-License-Identifier: MIT */
#include "wire/chunked.h"

#include <stdbool.h>

#include "wire/http1_bytes.h"

enum { DIGITS_MAX = 15 };

enum state {
    SIZE,
    EXTENSION_START, /* behind the ";": a name must follow */
    EXTENSION,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER_START, /* at the start of a trailer line, or of the last, empty one */
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    LAST_LF
};

static int hex_digit(char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    if (byte >= 'a' && byte <= 'f')
        return byte - 'a' + 10;
    if (byte >= 'A' && byte <= 'F')
        return byte - 'A' + 10;
    return -1;
}

/* A byte of an extension or trailer; false when there were too many. */
static bool count_side(struct hx_chunked *chunked)
{
    return ++chunked->side_bytes <= HX_CHUNKED_SIDE_BYTES_MAX;
}

static bool step_size(struct hx_chunked *chunked, char byte)
{
    int digit = hex_digit(byte);

    if (digit >= 0) {
        chunked->left = chunked->left << 4 | (uint64_t)digit;
        return ++chunked->digits <= DIGITS_MAX;
    }
    if (chunked->digits == 0)
        return false;
    if (byte == '\r')
        chunked->state = SIZE_LF;
    else if (byte == ';')
        chunked->state = EXTENSION_START;
    else
        return false;
    return true;
}

static bool step_extension(struct hx_chunked *chunked, char byte)
{
    if (chunked->state == EXTENSION_START) {
        chunked->state = EXTENSION;
        return hx_http1_is(byte, HX_HTTP1_TOKEN) && count_side(chunked);
    }
    if (byte == '\r') {
        chunked->state = SIZE_LF;
        return true;
    }
    return hx_http1_is(byte, HX_HTTP1_VALUE) && count_side(chunked);
}

static bool step_trailer(struct hx_chunked *chunked, char byte)
{
    if (chunked->state == TRAILER_START && byte == '\r') {
        chunked->state = LAST_LF;
        return true;
    }
    if (!count_side(chunked))
        return false;
    if (chunked->state == TRAILER_VALUE) {
        if (byte == '\r')
            chunked->state = TRAILER_LF;
        return byte == '\r' || hx_http1_is(byte, HX_HTTP1_VALUE);
    }
    if (chunked->state == TRAILER_NAME && byte == ':') {
        chunked->state = TRAILER_VALUE;
        return true;
    }
    chunked->state = TRAILER_NAME;
    return hx_http1_is(byte, HX_HTTP1_TOKEN);
}

/* One byte outside the data; false when it may not stand there. */
static bool step(struct hx_chunked *chunked, char byte)
{
    switch ((enum state)chunked->state) {
    case SIZE:
        return step_size(chunked, byte);
    case EXTENSION_START:
    case EXTENSION:
        return step_extension(chunked, byte);
    case SIZE_LF:
        chunked->state = chunked->left > 0 ? DATA : TRAILER_START;
        chunked->digits = 0;
        return byte == '\n';
    case DATA_CR:
        chunked->state = DATA_LF;
        return byte == '\r';
    case DATA_LF:
        chunked->state = SIZE;
        return byte == '\n';
    case TRAILER_START:
    case TRAILER_NAME:
    case TRAILER_VALUE:
        return step_trailer(chunked, byte);
    case TRAILER_LF:
        chunked->state = TRAILER_START;
        return byte == '\n';
    case DATA:
    case LAST_LF:
        break;
    }
    return false;
}

int hx_chunked_next(struct hx_chunked *chunked, struct hx_span *input, struct hx_span *ret_data)
{
    while (input->len > 0) {
        if (chunked->state == DATA) {
            size_t len = chunked->left < input->len ? (size_t)chunked->left : input->len;
            *ret_data = hx_span(input->ptr, len);
            *input = hx_span(input->ptr + len, input->len - len);
            chunked->left -= len;
            if (chunked->left == 0)
                chunked->state = DATA_CR;
            return 0;
        }
        char byte = input->ptr[0];
        *input = hx_span(input->ptr + 1, input->len - 1);
        if (chunked->state == LAST_LF)
            return byte == '\n' ? HX_CHUNKED_END : HX_CHUNKED_BAD;
        if (!step(chunked, byte))
            return HX_CHUNKED_BAD;
    }
    return HX_CHUNKED_MORE;
}

size_t hx_chunked_prefix(uint64_t size, char ret_text[HX_CHUNKED_PREFIX_MAX])
{
    static const char digits[] = "0123456789abcdef";
    size_t len = 0;
    unsigned shift = 60;

    hx_assert(size > 0);
    while (shift > 0 && size >> shift == 0)
        shift -= 4;
    for (;; shift -= 4) {
        ret_text[len++] = digits[size >> shift & 15];
        if (shift == 0)
            break;
    }
    ret_text[len++] = '\r';
    ret_text[len++] = '\n';
    return len;
}
