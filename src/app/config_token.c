/* SPDX-License-Identifier: MIT */
/*
 * `tokens:` of the configuration: who may come, by the hash of what he shows.
 *
 * A token itself may stand in a file of its own, never in the configuration: that is shown, copied
 * and kept in repositories. What looks like a token is repeated by no complaint.
 */
#include "app/config_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "app/token.h"

enum { TOKEN_FILE_MAX = 4096 };

/* Names of tokens, tenants and principals go to the ledger and the log. */
static int read_name(struct hx_reader *reader, const struct hx_node *value, const char *what,
                     const char **ret_name)
{
    int rc = hx_read_text(reader, value, what, ret_name);
    if (rc == 0 && (value->text.len > 128 || strchr(*ret_name, ' ')))
        rc = hx_tree_refuse(&reader->tree, value->mark,
                            "%s must have at most 128 bytes and no spaces", what);
    return rc;
}

static int read_hash(struct hx_reader *reader, const struct hx_node *value,
                     struct hx_config_token *token)
{
    struct hx_span label = HX_SPAN_LIT("sha256:");
    struct hx_span hex = value->text;
    int rc = hx_read_kind(reader, value, HX_NODE_TEXT, "sha256");
    if (rc != 0)
        return rc;
    if (hx_span_starts_with(hex, label))
        hex = hx_span(hex.ptr + label.len, hex.len - label.len);
    if (hx_hex_decode(hex, token->hash.bytes, HX_DIGEST_SIZE))
        return 0;
    if (hx_span_starts_with(hex, HX_SPAN_LIT(HX_TOKEN_PREFIX)))
        return hx_tree_refuse(&reader->tree, value->mark,
                              "sha256: this is a token itself, and now it is no secret any more. "
                              "Make another with 'hapax token' and put its hash here");
    return hx_tree_refuse(&reader->tree, value->mark,
                          "sha256 must be 64 hex digits, as 'hapax token' prints them");
}

static int read_token_file(struct hx_reader *reader, const struct hx_node *value,
                           struct hx_config_token *token)
{
    const char *path;
    char bytes[TOKEN_FILE_MAX];
    int rc = hx_read_text(reader, value, "token_file", &path);
    if (rc != 0)
        return rc;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t len = fd < 0 ? -1 : read(fd, bytes, sizeof(bytes));
    int read_errno = errno;
    if (fd >= 0)
        close(fd);
    if (len < 0)
        return hx_tree_refuse(&reader->tree, value->mark, "token_file: '%.200s': %s", path,
                              strerror(read_errno));
    struct hx_span text = hx_token_trim(hx_span(bytes, (size_t)len));
    bool is_good = hx_token_is_good(text) && (size_t)len < sizeof(bytes);
    if (is_good)
        token->hash = hx_token_hash(reader->config->hasher, text);
    explicit_bzero(bytes, sizeof(bytes));
    if (is_good)
        return 0;
    return hx_tree_refuse(&reader->tree, value->mark,
                          "token_file: '%.200s' does not hold one token (at least %d printable "
                          "characters without spaces, and nothing else)",
                          path, HX_TOKEN_LEN_MIN);
}

static int read_tenant(struct hx_reader *reader, const struct hx_node *value, void *target)
{
    struct hx_config_token *token = target;
    return read_name(reader, value, "tenant", &token->tenant);
}

static int read_principal(struct hx_reader *reader, const struct hx_node *value, void *target)
{
    struct hx_config_token *token = target;
    return read_name(reader, value, "principal", &token->principal);
}

static int read_servers(struct hx_reader *reader, const struct hx_node *value, void *target)
{
    struct hx_config_token *token = target;
    token->has_servers = true;
    return hx_read_texts(reader, value, "servers", &token->servers);
}

static int read_metrics(struct hx_reader *reader, const struct hx_node *value, void *target)
{
    struct hx_config_token *token = target;
    return hx_read_flag(reader, value, "metrics", &token->may_read_metrics);
}

static const struct hx_member members[] = {
    {"sha256", NULL},          {"token_file", NULL},          {"tenant", read_tenant},
    {"servers", read_servers}, {"principal", read_principal}, {"metrics", read_metrics},
};
static const struct hx_section a_token = {
    .what = "a token", .members = members, .count = sizeof(members) / sizeof(members[0])};

static int read_secret(struct hx_reader *reader, const struct hx_node *entry,
                       struct hx_config_token *token)
{
    const struct hx_node *hash = hx_node_member(entry, "sha256");
    const struct hx_node *file = hx_node_member(entry, "token_file");
    if (hash && file)
        return hx_tree_refuse(&reader->tree, file->name_mark,
                              "a token has either sha256 or token_file; keep one");
    if (!hash && !file)
        return hx_tree_refuse(&reader->tree, entry->name_mark,
                              "this token has neither sha256 nor token_file; 'hapax token' makes "
                              "one and prints the line");
    return hash ? read_hash(reader, hash, token) : read_token_file(reader, file, token);
}

static int read_token(struct hx_reader *reader, const struct hx_node *entry)
{
    struct hx_config *config = reader->config;
    struct hx_config_token *token = &config->tokens[config->token_count];
    *token = (struct hx_config_token){.mark = entry->name_mark,
                                      .name = entry->name.ptr,
                                      .tenant = HX_TENANT_DEFAULT,
                                      .principal = entry->name.ptr};
    if (hx_span_starts_with(entry->name, HX_SPAN_LIT(HX_TOKEN_PREFIX)))
        return hx_tree_refuse(&reader->tree, entry->name_mark,
                              "a token stands here in the place of its name, and now it is no "
                              "secret any more. Make another with 'hapax token'");
    struct hx_node name = {.kind = HX_NODE_TEXT, .mark = entry->name_mark, .text = entry->name};
    const char *text;
    int rc = read_name(reader, &name, "the name of a token", &text);
    if (rc == 0)
        rc = hx_read_kind(reader, entry, HX_NODE_MAP, "a token");
    if (rc == 0)
        rc = hx_read_section(reader, &a_token, entry, token, NULL);
    if (rc == 0)
        rc = read_secret(reader, entry, token);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < config->token_count; i++)
        if (hx_digest_eq(&config->tokens[i].hash, &token->hash))
            return hx_tree_refuse(&reader->tree, entry->name_mark,
                                  "this is the token of line %d once more; each name has its own",
                                  config->tokens[i].mark.line);
    config->token_count++;
    return 0;
}

int hx_read_tokens(struct hx_reader *reader, const struct hx_node *value)
{
    if (value->kind == HX_NODE_NOTHING)
        return 0;
    int rc = hx_read_kind(reader, value, HX_NODE_MAP, "tokens");
    if (rc != 0 || value->count == 0)
        return rc;
    size_t size = value->count * sizeof(*reader->config->tokens);
    reader->config->tokens = hx_reader_alloc(reader, size);
    if (!reader->config->tokens)
        return 1;
    for (const struct hx_node *entry = value->first; rc == 0 && entry; entry = entry->next)
        rc = read_token(reader, entry);
    return rc;
}
