/* SPDX-License-Identifier: MIT */
/*
 * Durations and sizes as people write them. A bare number is no duration: whoever guesses its unit
 * guesses wrong half of the time.
 */
#ifndef HX_APP_NUMBER_H
#define HX_APP_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

/* "500ms", "30s", "15m", "2h", "7d". False for anything else; never negative. */
bool hx_duration_parse(struct hx_span text, int64_t *ret_ms);
/* "4096", "64KiB", "64MiB", "1GiB". */
bool hx_size_parse(struct hx_span text, int64_t *ret_bytes);
#define HX_NUMBER_TEXT_SIZE 32
/* The shortest exact form, into HX_NUMBER_TEXT_SIZE bytes. */
void hx_duration_format(int64_t ms, char *ret_text);
void hx_size_format(int64_t bytes, char *ret_text);

#endif
