/* SPDX-License-Identifier: MIT */
/*
 * The settings of the outbox: those that contradict each other, and what is worth a warning.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "app/config.h"
#include "app/number.h"

/* Those that say nothing without a receiver. */
static const enum hx_setting_id of_receiver[] = {
    HX_SETTING_outbox_secret_file, HX_SETTING_outbox_headers_file, HX_SETTING_outbox_ca_file,
    HX_SETTING_outbox_timeout,     HX_SETTING_outbox_wait,         HX_SETTING_outbox_wait_max,
    HX_SETTING_outbox_retention,
};

int hx_settings_check_outbox(const struct hx_settings *settings, struct hx_complaint *complaint)
{
    char wait[HX_NUMBER_TEXT_SIZE], max[HX_NUMBER_TEXT_SIZE];
    if (settings->outbox_url == NULL) {
        for (size_t i = 0; i < sizeof(of_receiver) / sizeof(of_receiver[0]); i++) {
            if (hx_setting_set_has(&settings->declared, of_receiver[i]))
                return hx_complain(complaint,
                                   "%s speaks of a receiver of events, and none is named; give "
                                   "outbox_url, or leave it out",
                                   hx_setting_row(of_receiver[i])->name);
        }
        return 0;
    }
    const char *refusal = hx_url_refusal(settings->outbox_url);
    if (refusal != NULL)
        return hx_complain(complaint, "outbox_%s", refusal);
    if (settings->outbox_wait > settings->outbox_wait_max) {
        hx_duration_format(settings->outbox_wait, wait);
        hx_duration_format(settings->outbox_wait_max, max);
        return hx_complain(complaint,
                           "outbox_wait=%s is longer than outbox_wait_max=%s, up to which it is "
                           "doubled; make it shorter",
                           wait, max);
    }
    return 0;
}

bool hx_settings_is_outbox_in_clear(const struct hx_settings *settings)
{
    const char *url = settings->outbox_url;
    char host[64]; /* longer than any name of this machine */
    struct in_addr four;
    if (url == NULL || strncmp(url, "http://", 7) != 0)
        return false;
    bool is_bracketed = url[7] == '[';
    size_t len = is_bracketed ? strcspn(url + 7, "]") + 1 : strcspn(url + 7, ":/?#");
    snprintf(host, sizeof(host), "%.*s", (int)(len < sizeof(host) ? len : 0), url + 7);
    bool is_here = strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
                   (inet_pton(AF_INET, host, &four) == 1 && ntohl(four.s_addr) >> 24 == 127);
    return !is_here;
}
