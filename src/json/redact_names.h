/* SPDX-License-Identifier: MIT */
/*
 * Where a text says one of the names that are to be redacted. Internal to the redaction; the names
 * are those of redact.h.
 */
#ifndef HX_JSON_REDACT_NAMES_H
#define HX_JSON_REDACT_NAMES_H

#include "json/redact.h"

/* Members of which one says what the other is the value of: {"name":"password","value":"x"}. */
extern const struct hx_redact_names hx_redact_namers;
extern const struct hx_redact_names hx_redact_valuers;

/* `content` is what stands between the quotes of a string of JSON: is it one of the names? */
bool hx_redact_is_named(const struct hx_redact_names *names, struct hx_span content);
/* The same of an option as programs have it: "--password". What follows is its value. */
bool hx_redact_is_option(const struct hx_redact_names *names, struct hx_span content);
/* Running text that says a name and a value: "password: x", "--password=x", "--password x", and
 * what is cut off of JSON. */
bool hx_redact_is_mentioned(const struct hx_redact_names *names, struct hx_span text);

#endif
