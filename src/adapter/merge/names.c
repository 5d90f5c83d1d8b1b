/* SPDX-License-Identifier: MIT */
/*
 * Names of tools and prompts, as the client sees them, and what has been learned from lists.
 *
 * A name is the server's prefix and the server's own name. Many clients refuse names of more than
 * 64 bytes, MCP itself advises at most 128; so one that only the prefix makes too long is cut and
 * ends in ten digits of the digest of the whole. The prefix always stays whole: whose it is can be
 * read from the name alone, and only what it is called there must be looked up in a list.
 */
#include "adapter/merge/internal.h"
#include "base/alloc.h"

enum {
    NAME_MAX_CLIENTS = 64,
    NAME_MAX_SPEC = 128,
    DIGITS = 10,
    OWN_LEAST = 24 /* bytes behind a prefix that is itself long */
};

static size_t limit_of(const struct leg *leg, struct hx_span name)
{
    size_t limit = name.len <= NAME_MAX_CLIENTS ? NAME_MAX_CLIENTS : NAME_MAX_SPEC;
    size_t least = leg->prefix.len + OWN_LEAST;

    return limit < least ? least : limit;
}

bool name_expose(struct leg *leg, struct hx_span name, struct hx_buf *out)
{
    struct merge *merge = leg->merge;
    size_t limit = limit_of(leg, name);
    char hex[HX_DIGEST_HEX_SIZE];

    (void)hx_buf_append_span(out, leg->prefix); /* the buffer remembers a failure */
    if (leg->prefix.len == 0 || name.len > NAME_MAX_SPEC || leg->prefix.len + name.len <= limit) {
        (void)hx_buf_append_span(out, name);
        return false;
    }
    hx_hasher_begin(merge->hasher);
    hx_hasher_add_field(merge->hasher, leg->prefix);
    hx_hasher_add_field(merge->hasher, name);
    struct hx_digest digest = hx_hasher_end(merge->hasher);
    hx_digest_hex(&digest, hex);
    size_t len = limit - leg->prefix.len - DIGITS - 1;
    while (len > 0 && ((unsigned char)name.ptr[len] & 0xc0) == 0x80)
        len--; /* no half of a character */
    (void)hx_buf_append(out, name.ptr, len);
    (void)hx_buf_append_char(out, '_');
    (void)hx_buf_append(out, hex, DIGITS);
    return true;
}

bool name_may_be_short(const struct leg *leg, struct hx_span exposed)
{
    size_t own_len = exposed.len - leg->prefix.len;

    if (own_len <= DIGITS || exposed.len + 3 < limit_of(leg, HX_SPAN_LIT("")) ||
        exposed.ptr[exposed.len - DIGITS - 1] != '_')
        return false;
    for (size_t i = exposed.len - DIGITS; i < exposed.len; i++) {
        bool is_digit = exposed.ptr[i] >= '0' && exposed.ptr[i] <= '9';
        if (!is_digit && (exposed.ptr[i] < 'a' || exposed.ptr[i] > 'f'))
            return false;
    }
    return true;
}

struct leg *name_leg(struct merge *merge, struct hx_span exposed)
{
    for (size_t i = 0; i < merge->leg_count; i++) {
        if (hx_span_starts_with(exposed, merge->legs[i].prefix))
            return &merge->legs[i];
    }
    return NULL;
}

/* --- what lists have said --- */

struct known *known_new(struct leg *leg, enum list_kind kind, struct hx_span text,
                        struct hx_span name)
{
    struct known *known = hx_new(struct known);

    hx_list_init(&known->node);
    known->leg = leg;
    known->kind = kind;
    known->own_text = hx_span_strdup(text);
    known->text = hx_span(known->own_text, text.len);
    if (!hx_span_is_absent(name)) {
        known->own_name = hx_span_strdup(name);
        known->name = hx_span(known->own_name, name.len);
    }
    return known;
}

void known_free(struct known *known)
{
    if (known->by_text.is_linked)
        known->leg->merge->known_count--;
    hx_list_unlink(&known->node);
    hx_map_remove(&known->leg->merge->known, &known->by_text);
    hx_free(known->own_text);
    hx_free(known->own_name);
    hx_free(known);
}

bool known_add(struct known *known)
{
    struct merge *merge = known->leg->merge;

    if (merge->known_count >= merge->options.known_max)
        return false;
    merge->known_count++;
    hx_list_append(&known->leg->known[known->kind], &known->node);
    hx_map_insert(&merge->known, &known->by_text, known->text);
    return true;
}

void known_clear(struct leg *leg, enum list_kind kind)
{
    struct hx_list *node;

    while ((node = hx_list_first(&leg->known[kind])) != NULL)
        known_free(hx_container_of(node, struct known, node));
}

struct known *known_find(struct merge *merge, enum list_kind kind, struct hx_span text)
{
    struct known *first = NULL;

    for (struct hx_map_node *node = hx_map_find(&merge->known, text); node != NULL;
         node = hx_map_find_next(node)) {
        struct known *known = hx_container_of(node, struct known, by_text);
        if (known->kind == kind && (first == NULL || known->leg->index < first->leg->index))
            first = known;
    }
    return first;
}

struct leg *template_leg(struct merge *merge, struct hx_span uri)
{
    struct leg *best = NULL;
    size_t best_len = 0;

    for (size_t i = 0; i < merge->leg_count; i++) {
        hx_list_for_each (node, &merge->legs[i].known[LIST_TEMPLATES]) {
            const struct known *known = hx_container_of(node, struct known, node);
            const char *brace = memchr(known->text.ptr, '{', known->text.len);
            size_t len = brace != NULL ? (size_t)(brace - known->text.ptr) : known->text.len;
            if (len > best_len && hx_span_starts_with(uri, hx_span(known->text.ptr, len))) {
                best = known->leg;
                best_len = len;
            }
        }
    }
    return best;
}
