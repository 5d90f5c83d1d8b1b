/* SPDX-License-Identifier: MIT */
/*
 * Keys that we hand out, so that a model need not make one up: a time-ordered id, and behind it a
 * word that only somebody who knows the ledger's secret can make, bound to the tenant and the
 * principal that it was handed to. Nothing is stored: whoever has the secret recognises them.
 */
#include "engine/internal.h"

enum { BLOCK_SIZE = 64, TAG_SIZE = 16 };

/* HMAC-SHA256 (RFC 2104) over the fields; the secret is one block at most. */
static struct hx_digest tag_of(struct hx_gateway *gateway, struct hx_span id, struct hx_span tenant,
                               struct hx_span principal)
{
    struct hx_hasher *hasher = gateway->hasher;
    struct hx_span secret = gateway->options.issue_secret;
    char inner[BLOCK_SIZE], outer[BLOCK_SIZE];
    hx_assert(secret.len <= BLOCK_SIZE);
    for (size_t i = 0; i < BLOCK_SIZE; i++) {
        char byte = i < secret.len ? secret.ptr[i] : 0;
        inner[i] = (char)(byte ^ 0x36);
        outer[i] = (char)(byte ^ 0x5c);
    }
    hx_hasher_begin(hasher);
    hx_hasher_add(hasher, hx_span(inner, BLOCK_SIZE));
    hx_hasher_add_field(hasher, id);
    hx_hasher_add_field(hasher, tenant);
    hx_hasher_add_field(hasher, principal);
    struct hx_digest digest = hx_hasher_end(hasher);
    hx_hasher_begin(hasher);
    hx_hasher_add(hasher, hx_span(outer, BLOCK_SIZE));
    hx_hasher_add(hasher, hx_span((const char *)digest.bytes, HX_DIGEST_SIZE));
    return hx_hasher_end(hasher);
}

bool hx_issue_key(const struct hx_session *session, struct hx_buf *ret_key)
{
    struct hx_gateway *gateway = session->gateway;
    struct hx_id id;
    char id_text[HX_ID_TEXT_SIZE], tag[2 * TAG_SIZE + 1];
    if (hx_span_is_absent(gateway->options.issue_secret))
        return false;
    hx_mint_id(gateway, &id);
    hx_id_format(&id, id_text);
    struct hx_digest digest =
        tag_of(gateway, hx_span_cstr(id_text), session->options.tenant, session->options.principal);
    hx_hex_encode(digest.bytes, TAG_SIZE, tag);
    (void)hx_buf_printf(ret_key, HX_KEY_ISSUED_PREFIX "%s-%s", id_text, tag);
    return hx_buf_ok(ret_key);
}

bool hx_issue_is_ours(const struct hx_session *session, struct hx_span key)
{
    struct hx_gateway *gateway = session->gateway;
    struct hx_key_issued parts;
    struct hx_digest said = {{0}};
    if (hx_span_is_absent(gateway->options.issue_secret) || !hx_key_issued(key, &parts) ||
        !hx_hex_decode(parts.tag, said.bytes, TAG_SIZE))
        return false;
    struct hx_digest digest =
        tag_of(gateway, parts.id_text, session->options.tenant, session->options.principal);
    memset(digest.bytes + TAG_SIZE, 0, HX_DIGEST_SIZE - TAG_SIZE);
    return hx_digest_eq_secret(&digest, &said) == 1;
}

bool hx_issue_is_over(const struct hx_session *session, struct hx_span key)
{
    struct hx_key_issued parts;
    struct hx_wall issued;
    int64_t lifetime_ms = session->options.server->options.issued_key_lifetime_ms;
    if (!hx_issue_is_ours(session, key) || !hx_key_issued(key, &parts) ||
        !hx_id_time(&parts.id, &issued))
        return false;
    return session->gateway->now.wall.ms - issued.ms > lifetime_ms;
}
