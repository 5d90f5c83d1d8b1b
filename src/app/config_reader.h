/* SPDX-License-Identifier: MIT */
/*
 * What the readers of a configuration share. A section is a table of names, each with the
 * function that reads its value; the settings of tables/config.def join by their scope.
 */
#ifndef HX_APP_CONFIG_READER_H
#define HX_APP_CONFIG_READER_H

#include "app/config.h"

struct hx_reader {
    struct hx_config *config;
    struct hx_tree tree;
};

typedef int hx_member_read(struct hx_reader *reader, const struct hx_node *value, void *target);

struct hx_member {
    const char *name;
    hx_member_read *read; /* NULL: known and passed over */
};

struct hx_section {
    const char *what; /* "an upstream", in complaints */
    const struct hx_member *members;
    size_t count;
    unsigned scopes; /* settings of these scopes too: HX_SCOPE_BIT(HX_SCOPE_TOOL) | ... */
};
#define HX_SCOPE_BIT(scope) (1u << (scope))

/* All return 0, or 1 with a complaint. */

/* `settings` gets what the section's scopes allow; may be NULL without scopes. */
int hx_read_section(struct hx_reader *reader, const struct hx_section *section,
                    const struct hx_node *map, void *target,
                    struct hx_settings *settings) HX_MUST_CHECK;
/* One setting by its name; lists become what is written with commas on the command line. */
int hx_read_setting(struct hx_reader *reader, const struct hx_node *value,
                    struct hx_settings *settings) HX_MUST_CHECK;
/* `tools:`, a mapping of patterns to settings. */
int hx_read_tools(struct hx_reader *reader, const struct hx_node *value,
                  struct hx_settings *settings) HX_MUST_CHECK;
int hx_read_limits(struct hx_reader *reader, const struct hx_node *value) HX_MUST_CHECK;
int hx_read_tokens(struct hx_reader *reader, const struct hx_node *value) HX_MUST_CHECK;
/* `defaults` is the section of that name, or NULL. */
int hx_read_upstreams(struct hx_reader *reader, const struct hx_node *value,
                      const struct hx_node *defaults) HX_MUST_CHECK;
/* A whole file in the manner of editors, by its root. */
int hx_read_editor_file(struct hx_reader *reader, const struct hx_node *root) HX_MUST_CHECK;

/* The common kinds of values. `what` begins the complaint. */
int hx_read_kind(struct hx_reader *reader, const struct hx_node *value, enum hx_node_kind kind,
                 const char *what) HX_MUST_CHECK;
/* A text that is not empty and has no control bytes, copied into the config. */
int hx_read_text(struct hx_reader *reader, const struct hx_node *value, const char *what,
                 const char **ret_text) HX_MUST_CHECK;
int hx_read_flag(struct hx_reader *reader, const struct hx_node *value, const char *what,
                 bool *ret_flag) HX_MUST_CHECK;
/* One text, or a list of them. */
int hx_read_texts(struct hx_reader *reader, const struct hx_node *value, const char *what,
                  struct hx_text_list *ret_list) HX_MUST_CHECK;
/* A mapping of texts as a list of "name" "between" "value", ended by NULL. Values may be secrets:
 * they are in no complaint. */
int hx_read_pairs(struct hx_reader *reader, const struct hx_node *value, const char *what,
                  const char *between, const char *const **ret_list) HX_MUST_CHECK;
/* The members of an upstream that a server's entry in an editor's file has too. */
int hx_read_command(struct hx_reader *reader, const struct hx_node *entry,
                    struct hx_config_upstream *upstream) HX_MUST_CHECK;
/* "no_meaning: there is no ...; did you mean ...?" at the name of `member`. */
int hx_refuse_member(struct hx_reader *reader, const struct hx_node *member, const char *what,
                     const char *const *names, size_t count) HX_MUST_CHECK;

/* Memory of the config, zeroed; NULL with a complaint. */
void *hx_reader_alloc(struct hx_reader *reader, size_t size);

#endif
