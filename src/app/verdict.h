/* SPDX-License-Identifier: MIT */
/*
 * What came of a decision, as the JSON that `hapax ops --json` and the admin API both give.
 */
#ifndef HX_APP_VERDICT_H
#define HX_APP_VERDICT_H

#include "engine/decide.h"
#include "json/writer.h"

/* One object. `sentence`: what came of it in words. The operation is shown without key, arguments
 * and result, as it is at `now`; null when it could not be read. */
void hx_verdict_put(struct hx_json_writer *writer, enum hx_event_type decision,
                    const struct hx_verdict *verdict, struct hx_span sentence,
                    const struct hx_now *now);

#endif
