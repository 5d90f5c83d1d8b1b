/* SPDX-License-Identifier: MIT */
/*
 * Keys that we hand out, so that a model need not make one up: a time-ordered id, and behind it a
 * word that only somebody who knows the ledger's secret can make, bound to the tenant and the
 * principal that it was handed to. Nothing is stored: whoever has the secret recognises them.
 */
#include "engine/internal.h"

#include "base/mac.h"

enum { TAG_SIZE = 16 };

/* The id has one length, and the tenant's is told, so nothing can be shifted between the three. */
static struct hx_digest tag_of(const struct hx_session *session, struct hx_span id)
{
    struct hx_span tenant = session->options.tenant;
    uint64_t tenant_len = tenant.len;
    const struct hx_span parts[] = {id, hx_span((const char *)&tenant_len, sizeof(tenant_len)),
                                    tenant, session->options.principal};
    return hx_mac(session->gateway->options.issue_secret, parts, sizeof(parts) / sizeof(parts[0]));
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
    struct hx_digest digest = tag_of(session, hx_span_cstr(id_text));
    hx_hex_encode(digest.bytes, TAG_SIZE, tag);
    (void)hx_buf_printf(ret_key, HX_KEY_ISSUED_PREFIX "%s-%s", id_text, tag);
    return hx_buf_ok(ret_key);
}

bool hx_issue_is_ours(const struct hx_session *session, struct hx_span key)
{
    struct hx_key_issued parts;
    struct hx_digest said = {{0}};
    if (hx_span_is_absent(session->gateway->options.issue_secret) || !hx_key_issued(key, &parts) ||
        !hx_hex_decode(parts.tag, said.bytes, TAG_SIZE))
        return false;
    struct hx_digest digest = tag_of(session, parts.id_text);
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
