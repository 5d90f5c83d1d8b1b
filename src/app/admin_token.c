/* SPDX-License-Identifier: MIT */
#include "app/admin_token.h"

#include <string.h>

#include "app/config.h"
#include "app/token.h"

static const char form[] =
    "admin_tokens: give NAME:HASH, with the 64 hex digits that 'hapax token' "
    "prints, comma between several";

static bool is_name(struct hx_span name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        bool is_good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.' || c == '@';
        if (!is_good)
            return false;
    }
    return name.len > 0 && name.len <= HX_ADMIN_NAME_MAX;
}

static int read_one(struct hx_span entry, struct hx_admin_tokens *tokens,
                    struct hx_complaint *complaint)
{
    const char *colon = memchr(entry.ptr, ':', entry.len);
    if (colon == NULL)
        return hx_complain(complaint, "%s", form);
    struct hx_span name = hx_span(entry.ptr, (size_t)(colon - entry.ptr));
    struct hx_span hex = hx_span(colon + 1, entry.len - name.len - 1);
    if (tokens->count == HX_ADMIN_TOKENS_MAX)
        return hx_complain(complaint, "admin_tokens: at most %d are possible", HX_ADMIN_TOKENS_MAX);
    struct hx_digest *hash = &tokens->items[tokens->count].hash;
    if (!is_name(name) || !hx_hex_decode(hex, hash->bytes, HX_DIGEST_SIZE))
        return hx_complain(complaint, "%s", form);
    memcpy(tokens->items[tokens->count].name, name.ptr, name.len);
    tokens->items[tokens->count].name[name.len] = '\0';
    for (size_t i = 0; i < tokens->count; i++)
        if (strcmp(tokens->items[i].name, tokens->items[tokens->count].name) == 0)
            return hx_complain(complaint, "admin_tokens: '%s' stands there twice",
                               tokens->items[i].name);
    tokens->count++;
    return 0;
}

int hx_admin_tokens_read(const char *text, struct hx_admin_tokens *ret_tokens,
                         struct hx_complaint *complaint)
{
    memset(ret_tokens, 0, sizeof(*ret_tokens));
    int rc = 0;
    while (rc == 0 && *text != '\0') {
        size_t len = strcspn(text, ",");
        struct hx_span entry = hx_span(text, len);
        while (entry.len > 0 && entry.ptr[0] == ' ')
            entry = hx_span(entry.ptr + 1, entry.len - 1);
        while (entry.len > 0 && entry.ptr[entry.len - 1] == ' ')
            entry.len--;
        rc = read_one(entry, ret_tokens, complaint);
        text += len;
        text += *text == ',';
    }
    return rc;
}

const char *hx_admin_tokens_find(const struct hx_admin_tokens *tokens, struct hx_hasher *hasher,
                                 struct hx_span token)
{
    struct hx_digest hash = hx_token_hash(hasher, token);
    const char *found = NULL;
    for (size_t i = 0; i < tokens->count; i++)
        if (hx_digest_eq_secret(&hash, &tokens->items[i].hash))
            found = tokens->items[i].name;
    return found;
}

static bool is_local(const char *text)
{
    struct hx_config_listen listen = {0};
    struct hx_arena arena;
    hx_arena_init(&arena, 4096);
    bool is_good = hx_listen_parse(&arena, hx_span_cstr(text), &listen) == 0 && listen.is_loopback;
    hx_arena_fini(&arena);
    return is_good;
}

int hx_settings_check_admin(const struct hx_settings *settings, struct hx_complaint *complaint)
{
    struct hx_admin_tokens tokens;
    bool has_place = settings->admin_listen != NULL, has_tokens = settings->admin_tokens != NULL;
    if (has_place && !has_tokens)
        return hx_complain(complaint, "admin_listen needs admin_tokens: whoever may decide has a "
                                      "token. 'hapax token' makes one");
    if (has_tokens && !has_place)
        return hx_complain(complaint, "admin_tokens without admin_listen opens nothing; say where "
                                      "the admin API listens");
    if (!has_place)
        return 0;
    if (!is_local(settings->admin_listen))
        return hx_complain(
            complaint, "admin_listen: give unix:/PATH, or HOST:PORT with a host of this machine "
                       "(127.0.0.1:7333); the admin API speaks no TLS");
    return hx_admin_tokens_read(settings->admin_tokens, &tokens, complaint);
}
