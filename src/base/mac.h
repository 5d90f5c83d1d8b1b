/* SPDX-License-Identifier: MIT */
/*
 * HMAC-SHA256, and base64, in which its values travel.
 */
#ifndef HX_BASE_MAC_H
#define HX_BASE_MAC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/digest.h"
#include "base/span.h"

/* Over the parts as if they stood in one piece. */
struct hx_digest hx_mac(struct hx_span key, const struct hx_span *parts, size_t count);

/* Both append, with padding; HX_E_LIMIT when there is no more room. */
int hx_base64_encode(struct hx_span bytes, struct hx_buf *out) HX_MUST_CHECK;
/* 1 when `text` is no base64 of the padded kind. */
int hx_base64_decode(struct hx_span text, struct hx_buf *out) HX_MUST_CHECK;

#endif
