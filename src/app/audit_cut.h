/* SPDX-License-Identifier: MIT */
/*
 * The trials in which an answer is lost: a call, a cut, a retry.
 */
#ifndef HX_APP_AUDIT_CUT_H
#define HX_APP_AUDIT_CUT_H

#include <stdbool.h>

struct hx_audit_stage;
struct hx_audit_trial;

bool hx_audit_play_cut(struct hx_audit_stage *stage, const struct hx_audit_trial *trial);

#endif
