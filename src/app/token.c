/* SPDX-License-Identifier: MIT */
#include "app/token.h"

#include <string.h>

#include "app/config.h"

void hx_token_make(struct hx_rand *rand, char ret_token[HX_TOKEN_SIZE])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint8_t secret[33] = {0}; /* 32, and the zero that the last digit is filled with */
    hx_rand_fill(rand, secret, 32);
    memcpy(ret_token, HX_TOKEN_PREFIX, 4);
    for (size_t i = 0; i < 43; i++) {
        size_t bit = i * 6;
        unsigned pair = (unsigned)secret[bit / 8] << 8 | secret[bit / 8 + 1];
        ret_token[4 + i] = digits[pair >> (10 - bit % 8) & 63];
    }
    ret_token[HX_TOKEN_SIZE - 1] = '\0';
    explicit_bzero(secret, sizeof(secret));
}

struct hx_digest hx_token_hash(struct hx_hasher *hasher, struct hx_span token)
{
    hx_hasher_begin(hasher);
    hx_hasher_add(hasher, token);
    return hx_hasher_end(hasher);
}

struct hx_span hx_token_trim(struct hx_span text)
{
    while (text.len > 0 && strchr(" \t\r\n", text.ptr[0]) && text.ptr[0] != '\0')
        text = hx_span(text.ptr + 1, text.len - 1);
    while (text.len > 0 && strchr(" \t\r\n", text.ptr[text.len - 1]) &&
           text.ptr[text.len - 1] != '\0')
        text.len--;
    return text;
}

bool hx_token_is_good(struct hx_span token)
{
    for (size_t i = 0; i < token.len; i++)
        if (token.ptr[i] <= 0x20 || token.ptr[i] == 0x7f)
            return false;
    return token.len >= HX_TOKEN_LEN_MIN && token.len <= HX_TOKEN_LEN_MAX;
}

const struct hx_config_token *hx_tokens_find(const struct hx_config *config, struct hx_span given)
{
    struct hx_digest hash = hx_token_hash(config->hasher, given);
    size_t found = 0; /* index + 1 */
    /* All are compared, each as a whole, and nothing branches on what was equal. Timing would tell
     * only about a hash, which is not what must be guessed; it costs nothing to be sure. */
    for (size_t i = 0; i < config->token_count; i++) {
        size_t is_equal = hx_digest_eq_secret(&hash, &config->tokens[i].hash);
        found |= (i + 1) & (0 - is_equal);
    }
    return found == 0 ? NULL : &config->tokens[found - 1];
}

bool hx_token_opens(const struct hx_config_token *token, const char *server)
{
    for (size_t i = 0; token->has_servers && i < token->servers.count; i++)
        if (hx_span_eq_cstr(token->servers.items[i], server))
            return true;
    return !token->has_servers;
}
