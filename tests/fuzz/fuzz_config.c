/* SPDX-License-Identifier: MIT */
/*
 * The configuration under arbitrary bytes: it is read or refused, with a sentence that names the
 * file and holds no control byte; reading it again gives the same.
 */
#include "app/config.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static int load(struct hx_config *config, struct hx_span text, struct hx_complaint *complaint)
{
    complaint->text[0] = '\0';
    hx_config_init(config);
    int rc = hx_config_parse(config, "f", text, complaint);
    if (rc == 0)
        rc = hx_config_check(config, complaint);
    if (rc == 0)
        hx_config_advise(config);
    return rc;
}

static void check_sentence(const char *text)
{
    hx_assert(strncmp(text, "f:", 2) == 0);
    for (const char *at = text; *at; at++)
        hx_assert((unsigned char)*at >= 0x20 && *at != 0x7f);
}

static void check_good(const struct hx_config *config)
{
    hx_assert(config->upstream_count > 0);
    hx_assert(config->listen_count > 0);
    for (size_t i = 0; i < config->upstream_count; i++) {
        const struct hx_config_upstream *upstream = &config->upstreams[i];
        hx_assert(hx_upstream_name_is_good(hx_span_cstr(upstream->name)));
        hx_assert((upstream->url == NULL) != (upstream->command == NULL));
        hx_assert(strcmp(upstream->settings.name, upstream->name) == 0);
    }
    for (size_t i = 0; i < config->listen_count; i++)
        hx_assert((config->listens[i].host == NULL) != (config->listens[i].path == NULL));
    for (const struct hx_config_warning *at = config->warnings; at; at = at->next)
        check_sentence(at->text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hx_span text = hx_span((const char *)data, size);
    struct hx_config once;
    struct hx_config again;
    struct hx_complaint complaint;
    struct hx_complaint same;
    int rc = load(&once, text, &complaint);
    if (rc == 0)
        check_good(&once);
    else
        check_sentence(complaint.text);
    int again_rc = load(&again, text, &same);
    hx_assert(rc == again_rc);
    hx_assert(strcmp(complaint.text, same.text) == 0);
    hx_config_fini(&once);
    hx_config_fini(&again);
    return 0;
}
