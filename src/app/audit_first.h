/* SPDX-License-Identifier: MIT */
/*
 * The first trial: what the server says of itself and of the tool, and one call that nothing
 * disturbs. If the counting command does not see exactly that one effect, nothing can be audited.
 */
#ifndef HX_APP_AUDIT_FIRST_H
#define HX_APP_AUDIT_FIRST_H

#include <stdbool.h>

struct hx_audit_stage;
struct hx_audit_trial;

bool hx_audit_play_first(struct hx_audit_stage *stage, const struct hx_audit_trial *trial);

#endif
