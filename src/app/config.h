/* SPDX-License-Identifier: MIT */
/*
 * What `hapax serve` is told: where to listen, who may come, which servers are behind.
 *
 *     hx_config_init(&config);
 *     rc = hx_config_read(&config, "hapax.yaml", &complaint); // or from serve_options.h
 *     if (rc == 0)
 *         rc = hx_config_check(&config, &complaint);
 *     ...
 *     hx_config_fini(&config);
 *
 * What a setting means and what values it can have is in tables/config.def and tables/limits.def;
 * this file adds only what is no setting. Nothing is expanded in values: a secret is named by the
 * file that holds it. Relative paths start at the working directory.
 */
#ifndef HX_APP_CONFIG_H
#define HX_APP_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/config_tree.h"
#include "app/serve_limits.h"
#include "app/settings.h"
#include "base/digest.h"

#define HX_CONFIG_FILE_DEFAULT "hapax.yaml"
#define HX_LISTEN_DEFAULT "127.0.0.1:7332"
#define HX_UPSTREAM_NAME_MAX 64
#define HX_TENANT_DEFAULT "local"

/* Whose calls share one process (or, over HTTP, one session) of an upstream. */
enum hx_affinity { HX_AFFINITY_SESSION, HX_AFFINITY_PRINCIPAL, HX_AFFINITY_SHARED };
const char *hx_affinity_text(enum hx_affinity affinity);

/* Who may read /metrics, where there are tokens. Without them everybody is one user, who may. */
enum hx_metrics_access { HX_METRICS_TOKENS, HX_METRICS_OPEN, HX_METRICS_OFF };

struct hx_config_listen {
    struct hx_mark mark;
    const char *text; /* as it was written */
    const char *path; /* of a Unix socket, else NULL */
    const char *host; /* numeric, without brackets */
    uint16_t port;    /* 0: the kernel chooses */
    bool is_loopback; /* also a Unix socket, whose file only we may open */
};

/* 0, or 1: not in one of the forms, or too long to be kept. The texts are in the arena. */
int hx_listen_parse(struct hx_arena *arena, struct hx_span text,
                    struct hx_config_listen *listen) HX_MUST_CHECK;

/* A bearer token that is accepted, known only by its hash. */
struct hx_config_token {
    struct hx_mark mark;
    const char *name;
    struct hx_digest hash;
    const char *tenant;
    const char *principal;
    bool has_servers; /* `servers` are the only upstreams that it opens */
    struct hx_text_list servers;
    bool may_read_metrics;
};

struct hx_config_upstream {
    struct hx_mark mark;
    const char *name;
    const char *prefix; /* of its names at the merged endpoint */
    enum hx_affinity affinity;
    char *const *command;   /* argv, ended by NULL; NULL: it is reached at `url` */
    const char *const *env; /* "NAME=value" on top of our own environment, ended by NULL */
    const char *cwd;        /* NULL: ours */
    const char *url;
    const char *const *headers;  /* "Name: value", ended by NULL; may be secrets */
    struct hx_settings settings; /* settings.name = name */
};

/* Something that works, but hardly as meant. */
struct hx_config_warning {
    struct hx_config_warning *next;
    const char *text; /* "file:line:column: sentence" without a full stop */
};

struct hx_config {
    struct hx_arena arena;     /* owns every text below, except those in settings */
    const char *file;          /* NULL: the command line */
    struct hx_settings global; /* its GLOBAL rows: ledger, log */
    struct hx_limits limits;
    struct hx_config_listen *listens;
    size_t listen_count;
    const char *tls_cert_file; /* NULL: no TLS */
    const char *tls_key_file;
    struct hx_text_list allowed_origins;
    struct hx_text_list allowed_hosts;
    bool allow_anonymous; /* beyond loopback */
    enum hx_metrics_access metrics;
    struct hx_config_token *tokens;
    size_t token_count; /* 0: everybody is the user whom we run as, in tenant `local` */
    struct hx_config_upstream *upstreams;
    size_t upstream_count;
    struct hx_config_warning *warnings; /* in the order they were found */
    struct hx_config_warning **warnings_end;
    struct hx_hasher *hasher;
};

void hx_config_init(struct hx_config *config);
void hx_config_fini(struct hx_config *config);

/* These return 0, or 1 with a complaint; after a 1 the config is only good for hx_config_fini. */
int hx_config_read(struct hx_config *config, const char *path,
                   struct hx_complaint *complaint) HX_MUST_CHECK;
/* `file` is what complaints call `text`. */
int hx_config_parse(struct hx_config *config, const char *file, struct hx_span text,
                    struct hx_complaint *complaint) HX_MUST_CHECK;
/* What must hold when everything is known; adds HX_LISTEN_DEFAULT when there is no address. */
int hx_config_check(struct hx_config *config, struct hx_complaint *complaint) HX_MUST_CHECK;

/* Adds warnings about tools of which too little is said, as far as that can be known without
 * starting a server (else: contact.h). The second speaks of one upstream only. */
void hx_config_advise(struct hx_config *config);
void hx_config_advise_outbox(struct hx_config *config);
void hx_config_advise_upstream(struct hx_config *config, const struct hx_config_upstream *upstream);
/* Something is said that lets a lost answer be dealt with, or that this tool has nothing of it. An
 * explicit class=opaque is the operator's word too. */
bool hx_tool_settings_is_covered(const struct hx_tool_settings *tool);

/* Reads "host:port", "[::1]:port", "port" or "unix:/path" and appends it. */
int hx_config_add_listen(struct hx_config *config, struct hx_span text, struct hx_mark mark,
                         const char *file, struct hx_complaint *complaint) HX_MUST_CHECK;
/* An upstream with default settings, to be filled; borrowed until the next one is added. `name` is
 * good. NULL when there are too many, or memory is gone. */
struct hx_config_upstream *hx_config_add_upstream(struct hx_config *config, struct hx_span name,
                                                  struct hx_mark mark);
bool hx_upstream_name_is_good(struct hx_span name);
const struct hx_config_upstream *hx_config_upstream(const struct hx_config *config,
                                                    struct hx_span name);
/* The word is meant as a URL, be it a good one or not: a scheme and "://". */
bool hx_is_url(const char *word);
/* What is wrong with a URL, as a sentence without a full stop; NULL when it is good. The URL itself
 * may hold a secret and is not repeated. */
const char *hx_url_refusal(const char *url);
void hx_config_warn(struct hx_config *config, struct hx_mark mark, const char *format, ...)
    HX_PRINTF(3, 4);

/* The token whose hash is that of `given`, or NULL. Takes the same time for every `given` of one
 * length, whichever token it is and however much of it is right. One thread only: the hasher is
 * the config's. */
const struct hx_config_token *hx_tokens_find(const struct hx_config *config, struct hx_span given);
/* Whether it opens this upstream. */
bool hx_token_opens(const struct hx_config_token *token, const char *server);

#endif
