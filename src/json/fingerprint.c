/* SPDX-License-Identifier: MIT */
#include "json/fingerprint.h"

#include <stdio.h>

/* Scratch beyond this is given back after a call, so that one giant does not stay resident. */
enum { TOKENS_KEPT = 16384 };

void hx_fingerprinter_init(struct hx_fingerprinter *fingerprinter)
{
    hx_json_tape_init(&fingerprinter->tape);
    hx_canon_init(&fingerprinter->canon);
    fingerprinter->hasher = hx_hasher_new();
}

void hx_fingerprinter_fini(struct hx_fingerprinter *fingerprinter)
{
    if (fingerprinter == NULL)
        return;
    hx_json_tape_fini(&fingerprinter->tape);
    hx_canon_fini(&fingerprinter->canon);
    fingerprinter->hasher = hx_hasher_free(fingerprinter->hasher);
}

static void hash_sink(void *context, struct hx_span bytes)
{
    hx_hasher_add(context, bytes);
}

/* Where the first object with HX_JSON_HAS_DUPLICATES, or string with a lone surrogate, stands. */
static size_t offset_of_flag(const struct hx_json_tape *tape, enum hx_json_flag flag)
{
    for (uint32_t i = 0; i < tape->count; i++) {
        if ((hx_json_at(tape, i)->flags & flag) != 0)
            return hx_json_at(tape, i)->offset;
    }
    return 0;
}

static int hash(struct hx_fingerprinter *fingerprinter, struct hx_span arguments,
                const struct hx_json_limits *limits, const struct hx_canon_ignore *ignore,
                size_t *ret_offset)
{
    struct hx_json_tape *tape = &fingerprinter->tape;
    struct hx_json_limits all = *limits;
    all.record_depth_max = 0;
    all.elements_max = 0;
    int rc = hx_json_read(tape, arguments, &all);
    if (rc > 0) {
        *ret_offset = tape->error_offset;
        return HX_FINGERPRINT_BAD_JSON;
    }
    if (rc < 0)
        return rc;
    /* Also inside ignored members: the tool gets those bytes too, and must not read them otherwise
     * than whoever approved or logged them. */
    if (tape->has_duplicates) {
        *ret_offset = offset_of_flag(tape, HX_JSON_HAS_DUPLICATES);
        return HX_FINGERPRINT_DUPLICATE_NAME;
    }
    if (tape->has_lone_surrogates) {
        *ret_offset = offset_of_flag(tape, HX_JSON_HAS_LONE_SURROGATE);
        return HX_FINGERPRINT_LONE_SURROGATE;
    }
    rc = hx_canon_write(&fingerprinter->canon, tape, 0, ignore, hash_sink, fingerprinter->hasher,
                        ret_offset);
    if (rc <= 0)
        return rc;
    hx_assert(rc == HX_CANON_NUMBER_RANGE);
    return HX_FINGERPRINT_NUMBER_RANGE;
}

int hx_fingerprint(struct hx_fingerprinter *fingerprinter, struct hx_span arguments,
                   const struct hx_json_limits *limits, const struct hx_canon_ignore *ignore,
                   struct hx_digest *ret_digest, size_t *ret_offset)
{
    size_t offset = 0;
    if (hx_span_is_absent(arguments))
        arguments = HX_SPAN_LIT("{}");
    hx_hasher_begin(fingerprinter->hasher);
    int rc = hash(fingerprinter, arguments, limits, ignore, &offset);
    /* Ended in every case: a hasher must not be left open. */
    struct hx_digest digest = hx_hasher_end(fingerprinter->hasher);
    if (rc == 0)
        *ret_digest = digest;
    else if (rc > 0 && ret_offset != NULL)
        *ret_offset = offset;
    hx_json_tape_trim(&fingerprinter->tape, TOKENS_KEPT);
    if (fingerprinter->canon.order_capacity > TOKENS_KEPT)
        hx_canon_fini(&fingerprinter->canon);
    return rc;
}

const char *hx_fingerprint_outcome_text(int outcome)
{
    switch ((enum hx_fingerprint_outcome)outcome) {
    case HX_FINGERPRINT_BAD_JSON:
        return "the arguments are not JSON that this gateway accepts";
    case HX_FINGERPRINT_DUPLICATE_NAME:
        return "the arguments hold two members of the same name, which two readers may understand "
               "differently";
    case HX_FINGERPRINT_LONE_SURROGATE:
        return "the arguments hold half a surrogate pair, which is no text";
    case HX_FINGERPRINT_NUMBER_RANGE:
        return "the arguments hold a number with an exponent of more than 15 digits";
    }
    return "the arguments cannot be compared";
}

void hx_fingerprint_format(const struct hx_digest *digest, char *ret_text)
{
    char hex[HX_DIGEST_HEX_SIZE];
    hx_digest_hex(digest, hex);
    snprintf(ret_text, HX_FINGERPRINT_TEXT_SIZE, "sha256:%s", hex);
}
