/* SPDX-License-Identifier: MIT */
#include "base/shell.h"

#include <string.h>

static bool is_plain(struct hx_span word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_./:@%+=,";
    bool is_so_far = word.len > 0;
    for (size_t i = 0; is_so_far && i < word.len; i++)
        is_so_far = word.ptr[i] != '\0' && strchr(plain, word.ptr[i]) != NULL;
    return is_so_far;
}

int hx_shell_word(struct hx_buf *out, struct hx_span word)
{
    if (is_plain(word))
        return hx_buf_append_span(out, word);
    (void)hx_buf_append_char(out, '\'');
    for (size_t i = 0; i < word.len; i++) {
        if (word.ptr[i] == '\'')
            (void)hx_buf_append_cstr(out, "'\\''");
        else
            (void)hx_buf_append_char(out, word.ptr[i]);
    }
    return hx_buf_append_char(out, '\'');
}
