/* SPDX-License-Identifier: MIT */
#include "app/server_name.h"

#include <stdio.h>
#include <unistd.h>

#include "app/config.h"
#include "base/digest.h"

void hx_server_name(const char *given, const char *prefix, char *const *words,
                    char ret_name[HX_SERVER_NAME_SIZE])
{
    char directory[4096], hex[HX_DIGEST_HEX_SIZE];
    if (given != NULL) {
        snprintf(ret_name, HX_SERVER_NAME_SIZE, "%s", given);
        return;
    }
    struct hx_hasher *hasher = hx_hasher_new();
    hx_hasher_begin(hasher);
    /* A URL means the same server wherever it is said. */
    const char *cwd = hx_is_url(words[0]) ? "" : getcwd(directory, sizeof(directory));
    hx_hasher_add_field(hasher, hx_span_cstr(cwd ? cwd : ""));
    for (char *const *word = words; *word != NULL; word++)
        hx_hasher_add_field(hasher, hx_span_cstr(*word));
    struct hx_digest digest = hx_hasher_end(hasher);
    hx_hasher_free(hasher);
    hx_digest_hex(&digest, hex);
    snprintf(ret_name, HX_SERVER_NAME_SIZE, "%s-%.16s", prefix, hex);
}
