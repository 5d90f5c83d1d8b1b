/* SPDX-License-Identifier: MIT */
/*
 * Lets a script in another language judge the reader and the canonical form. Standard input holds
 * texts, each behind its length (4 bytes, big endian); standard output gets one line for each:
 *
 *   READ CANON HEX   outcome of hx_json_read, of hx_canon_write, and the canonical bytes in hex
 */
#include <stdio.h>
#include <stdlib.h>

#include "json/canon.h"
#include "json/reader.h"

enum { TEXT_MAX = 1 << 20 };

static void print_hex(void *context, struct hx_span bytes)
{
    for (size_t i = 0; i < bytes.len; i++)
        printf("%02x", (unsigned char)bytes.ptr[i]);
}

static void discard(void *context, struct hx_span bytes)
{
}

static void judge(struct hx_json_tape *tape, struct hx_canon *canon, struct hx_span text)
{
    const struct hx_json_limits limits = {
        .depth_max = 128, .tokens_max = 1 << 20, .text_max = TEXT_MAX};
    int read = hx_json_read(tape, text, &limits);
    int canonical = read == 0 ? hx_canon_write(canon, tape, 0, NULL, discard, NULL, NULL) : 0;
    printf("%d %d ", read, canonical);
    if (read == 0 && canonical == 0) {
        int again = hx_canon_write(canon, tape, 0, NULL, print_hex, NULL, NULL);
        hx_assert(again == 0);
    }
    printf("\n");
}

int main(void)
{
    unsigned char head[4];
    struct hx_json_tape tape;
    struct hx_canon canon;
    hx_json_tape_init(&tape);
    hx_canon_init(&canon);
    while (fread(head, 1, sizeof(head), stdin) == sizeof(head)) {
        size_t len = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
        if (len > TEXT_MAX)
            return 2;
        char *text = malloc(len + 1); /* of its own, so that a sanitizer sees its end */
        if (text == NULL || fread(text, 1, len, stdin) != len)
            return 2;
        judge(&tape, &canon, hx_span(text, len));
        free(text);
    }
    hx_canon_fini(&canon);
    hx_json_tape_fini(&tape);
    return 0;
}
