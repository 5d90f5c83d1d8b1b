/* SPDX-License-Identifier: MIT */
#include "app/server_name.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app/config.h"
#include "base/digest.h"

static struct hx_digest digest_of(char *const *words, const char *cwd)
{
    char directory[4096];
    struct hx_hasher *hasher = hx_hasher_new();
    hx_hasher_begin(hasher);
    /* A URL means the same server wherever it is said. */
    if (hx_is_url(words[0]))
        cwd = "";
    else if (cwd == NULL)
        cwd = getcwd(directory, sizeof(directory));
    hx_hasher_add_field(hasher, hx_span_cstr(cwd ? cwd : ""));
    for (char *const *word = words; *word != NULL; word++)
        hx_hasher_add_field(hasher, hx_span_cstr(*word));
    struct hx_digest digest = hx_hasher_end(hasher);
    hx_hasher_free(hasher);
    return digest;
}

void hx_server_name(const char *given, const char *prefix, char *const *words,
                    char ret_name[HX_SERVER_NAME_SIZE])
{
    char hex[HX_DIGEST_HEX_SIZE];
    if (given != NULL) {
        snprintf(ret_name, HX_SERVER_NAME_SIZE, "%s", given);
        return;
    }
    struct hx_digest digest = digest_of(words, NULL);
    hx_digest_hex(&digest, hex);
    snprintf(ret_name, HX_SERVER_NAME_SIZE, "%s-%.16s", prefix, hex);
}

int64_t hx_server_target(char *const *words, const char *cwd, const char *url)
{
    /* exec's type again; nothing is changed. */
    char *address[] = {NULL, NULL};
    memcpy(&address[0], &url, sizeof(url));
    struct hx_digest digest = digest_of(words != NULL ? words : address, cwd);
    /* Seven bytes: a number that the stored text of a contract holds. */
    int64_t target = 0;
    for (int i = 0; i < 7; i++)
        target = target << 8 | digest.bytes[i];
    return target != 0 ? target : 1;
}
