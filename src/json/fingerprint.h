/* SPDX-License-Identifier: MIT */
/*
 * The fingerprint of a call: SHA-256 over the canonical form of its `arguments`. Equal fingerprints
 * mean equal arguments; absent arguments are the same as {}.
 */
#ifndef HX_JSON_FINGERPRINT_H
#define HX_JSON_FINGERPRINT_H

#include "base/digest.h"
#include "json/canon.h"
#include "json/reader.h"

enum hx_fingerprint_outcome {
    HX_FINGERPRINT_BAD_JSON = 1, /* syntax, UTF-8 or a limit */
    HX_FINGERPRINT_DUPLICATE_NAME,
    HX_FINGERPRINT_LONE_SURROGATE,
    HX_FINGERPRINT_NUMBER_RANGE
};

/* Scratch memory, reused from call to call; one per thread. */
struct hx_fingerprinter {
    struct hx_json_tape tape;
    struct hx_canon canon;
    struct hx_hasher *hasher;
};

void hx_fingerprinter_init(struct hx_fingerprinter *fingerprinter);
void hx_fingerprinter_fini(struct hx_fingerprinter *fingerprinter);

/* 0, HX_E_NOMEM or an enum hx_fingerprint_outcome. `arguments` is raw JSON text or absent; `ignore`
 * and `ret_offset` (where in the text the cause of a refusal is) may be NULL. */
int hx_fingerprint(struct hx_fingerprinter *fingerprinter, struct hx_span arguments,
                   const struct hx_json_limits *limits, const struct hx_canon_ignore *ignore,
                   struct hx_digest *ret_digest, size_t *ret_offset) HX_MUST_CHECK;

/* A plain sentence for a refused call, of an enum hx_fingerprint_outcome. */
const char *hx_fingerprint_outcome_text(int outcome);

/* "sha256:" and 64 hex digits. */
#define HX_FINGERPRINT_TEXT_SIZE 72 /* with NUL */
void hx_fingerprint_format(const struct hx_digest *digest, char *ret_text);

#endif
