/* SPDX-License-Identifier: MIT */
/*
 * The configuration, read again while calls are under way. All of it is taken, or nothing: what is
 * refused leaves everything as it was, but for names of what is to be hidden, which stay hidden.
 */
#include <stdio.h>
#include <string.h>

#include "adapter/http_server/http_server.h"
#include "app/config_change.h"
#include "app/log.h"
#include "app/serve_options.h"
#include "app/serve_state.h"
#include "base/alloc.h"
#include "base/fault.h"

static void refused(const char *reason)
{
    struct hx_log_line line;
    fprintf(stderr, "hapax serve: the configuration was not taken: %s%s\n", reason,
            hx_sentence_end(reason));
    hx_log_begin(&line, HX_LOG_ERROR, "reload_refused");
    hx_log_cstr(&line, "error", reason);
    hx_log_end(&line);
}

/* Who moves the log away says so by the same signal. */
static void reopen_log(const struct serve *serve)
{
    struct hx_log_options log = hx_settings_log_options(&serve->config->global);
    if (hx_log_open(&log) < 0)
        fprintf(stderr, "hapax serve: the log goes on in the file that it had: %s.\n",
                hx_fault_last()->text);
}

static int read_again(struct serve *serve, struct hx_config *config)
{
    struct hx_complaint complaint;
    if (hx_serve_options_parse(serve->argc, serve->argv, config, &complaint) != 0) {
        refused(complaint.text);
        return 1;
    }
    const char *fixed = hx_config_fixed_change(serve->config, config);
    if (fixed != NULL) {
        hx_complain(&complaint,
                    "%s holds for the life of the process and is another now; take it back, or "
                    "start hapax serve anew",
                    fixed);
        refused(complaint.text);
        return 1;
    }
    if (hx_ledger_home_redact(&serve->home, &config->global.redact, &complaint) != 0) {
        refused(complaint.text);
        return 1;
    }
    for (const struct hx_config_warning *at = config->warnings; at; at = at->next)
        fprintf(stderr, "hapax serve: %s.\n", at->text);
    return 0;
}

/* Certificates run out, so they are read again also when their paths are the same. */
static int take_certificate(struct serve *serve, const struct hx_config *config)
{
    if (config->tls_cert_file == NULL ||
        hx_http_server_use_tls(serve->web, config->tls_cert_file, config->tls_key_file) == 0)
        return 0;
    refused(hx_fault_last()->text);
    return 1;
}

static void tell(const struct serve *serve, struct served *const *before, size_t count)
{
    char pairs[256];
    size_t kept = 0;
    for (size_t i = 0; i < serve->config->upstream_count; i++) {
        for (size_t j = 0; j < count; j++)
            kept += serve->served[i] == before[j];
    }
    snprintf(pairs, sizeof(pairs), "upstreams=%zu as_before=%zu begun=%zu ended=%zu tokens=%zu",
             serve->config->upstream_count, kept, serve->config->upstream_count - kept,
             count - kept, serve->config->token_count);
    fprintf(stderr, "hapax serve: the configuration was read again: %s\n", pairs);
    hx_tell_log(NULL, HX_TELL_INFO, "reloaded", pairs);
}

void serve_reload(struct serve *serve)
{
    reopen_log(serve);
    struct serve_config *source = hx_new(struct serve_config);
    source->config = &source->own;
    source->users = 1;
    hx_config_init(&source->own);
    if (read_again(serve, &source->own) == 0 && take_certificate(serve, &source->own) == 0) {
        size_t count = serve->config->upstream_count;
        struct served **before = hx_new_bytes(count * sizeof(struct served *));
        memcpy(before, serve->served, count * sizeof(struct served *));
        serve_take_config(serve, source);
        tell(serve, before, count);
        hx_free(before);
    }
    serve_config_release(source);
}
