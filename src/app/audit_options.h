/* SPDX-License-Identifier: MIT */
/*
 * The command line of `hapax audit`.
 *
 *     hapax audit --tool T --args JSON --count CMD [OPTION...] -- COMMAND [ARGUMENT...]
 *     hapax audit --tool T --args JSON --count CMD [OPTION...] URL
 *
 * Of the settings of a gateway only those are taken that say how a server is reached.
 */
#ifndef HX_APP_AUDIT_OPTIONS_H
#define HX_APP_AUDIT_OPTIONS_H

#include "app/options.h"
#include "base/buf.h"

enum { HX_AUDIT_CHOSEN_MAX = 32 };

struct hx_audit_options {
    struct hx_settings given;
    char *const *command; /* one of these two, or neither when --list was said */
    const char *url;
    const char *tool;
    const char *arguments;
    const char *count;
    struct hx_key_place key; /* --key */
    bool is_key_given;       /* "none" is a word, too */
    const char *only[HX_AUDIT_CHOSEN_MAX];
    size_t only_count;
    const char *skipped[HX_AUDIT_CHOSEN_MAX];
    size_t skipped_count;
    int64_t timeout_ms;
    int64_t settle_ms;
    bool is_json;
    bool is_yes;
    bool is_strict;
    bool is_idempotent;
    bool is_list;
};

void hx_audit_options_init(struct hx_audit_options *options);
void hx_audit_options_fini(struct hx_audit_options *options);
/* Borrows argv. 0, 1 with a complaint, or HX_OPTIONS_HELP. */
int hx_audit_options_parse(int argc, char **argv, struct hx_audit_options *options,
                           struct hx_complaint *complaint) HX_MUST_CHECK;

/* The template with its places filled: {unique} is the text, {number} the number. */
void hx_audit_fill(const char *arguments, const char *unique, uint64_t number, struct hx_buf *out);

#endif
