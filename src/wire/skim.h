/* SPDX-License-Identifier: MIT */
/*
 * Reads over a JSON-RPC message that is too long to hold, byte by byte in constant memory, and
 * keeps what an honest answer needs: the raw top-level "id", and which other members there were. It
 * checks nesting and strings, not all of JSON: what it says is good for addressing an error, not
 * for more.
 */
#ifndef HX_WIRE_SKIM_H
#define HX_WIRE_SKIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

enum { HX_SKIM_NAME_MAX = 32, HX_SKIM_ID_MAX = 4096 };

struct hx_skim_result {
    bool is_object; /* one object, nested and ended properly */
    bool has_id;    /* exactly one top-level id of string or number, short enough to keep */
    bool has_method;
    bool has_result;
    bool has_error;
};

struct hx_skim {
    uint32_t depth;
    uint8_t state;
    bool is_in_string;
    bool is_escaped;
    bool is_broken;
    bool is_odd;    /* a name at depth 1 was spelled with escapes */
    bool is_id_bad; /* an id was a container or too long */
    bool is_id;     /* the value at depth 1 that comes now is the id */
    uint8_t ids_seen;
    uint16_t name_len;
    uint16_t id_len;
    struct hx_skim_result seen;
    char name[HX_SKIM_NAME_MAX];
    char id[HX_SKIM_ID_MAX];
};

void hx_skim_begin(struct hx_skim *skim);
void hx_skim_add(struct hx_skim *skim, struct hx_span bytes);
/* What was seen, at the end of the message. The id stays valid until the next begin. */
struct hx_skim_result hx_skim_end(const struct hx_skim *skim);
/* The raw id; absent unless has_id. */
struct hx_span hx_skim_id(const struct hx_skim *skim);

#endif
