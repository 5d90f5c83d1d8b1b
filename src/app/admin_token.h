/* SPDX-License-Identifier: MIT */
/*
 * Who may use the admin API: names with the hashes of their tokens, as one setting:
 * "ann:HASH,bob:HASH".
 */
#ifndef HX_APP_ADMIN_TOKEN_H
#define HX_APP_ADMIN_TOKEN_H

#include "app/settings.h"
#include "base/digest.h"

enum { HX_ADMIN_TOKENS_MAX = 32, HX_ADMIN_NAME_MAX = 64 };

struct hx_admin_tokens {
    size_t count;
    struct {
        char name[HX_ADMIN_NAME_MAX + 1];
        struct hx_digest hash;
    } items[HX_ADMIN_TOKENS_MAX];
};

/* 0, or 1 with a complaint, which repeats nothing that could be a token. */
int hx_admin_tokens_read(const char *text, struct hx_admin_tokens *ret_tokens,
                         struct hx_complaint *complaint) HX_MUST_CHECK;
/* The name of whoever has this token; NULL = nobody. In a time that says nothing of the others. */
const char *hx_admin_tokens_find(const struct hx_admin_tokens *tokens, struct hx_hasher *hasher,
                                 struct hx_span token);

/* What of the settings of the admin API does not fit together. 0, or 1 with a complaint. */
int hx_settings_check_admin(const struct hx_settings *settings,
                            struct hx_complaint *complaint) HX_MUST_CHECK;

#endif
