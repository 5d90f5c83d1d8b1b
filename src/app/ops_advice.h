/* SPDX-License-Identifier: MIT */
/*
 * What a state means to a person, and what he can do about it.
 */
#ifndef HX_APP_OPS_ADVICE_H
#define HX_APP_OPS_ADVICE_H

#include "app/ops.h"

/* One clause about the state: "it may have happened, and nobody knows". */
const char *hx_ops_state_sentence(const struct hx_store_found *found);
/* The commands that can be given now, as they have to be typed. */
void hx_ops_print_advice(const struct hx_ops *ops, const struct hx_store_found *found);
/* Why 'absent' is not believed yet, and until when, in one sentence without its full stop. False
 * when it would be believed. */
bool hx_ops_absence_doubt(const struct hx_store_found *found, const struct hx_now *now,
                          struct hx_buf *ret_sentence);
/* A line of the history by which somebody decided about the operation, and it counted. */
bool hx_ops_is_decision(const struct hx_history_line *line);
/* What a line of the history tells. */
void hx_ops_history_words(const struct hx_history_line *line, struct hx_buf *ret_words);
/* " --ledger '…'" when the ledger is not where it is looked for without being told. */
void hx_ops_ledger_option(const struct hx_ops *ops, struct hx_buf *ret_option);

#endif
