/* SPDX-License-Identifier: MIT */
/*
 * Comparing a value of a message with one that an operator wrote. Numbers are compared by their
 * exact value, strings by their code points, everything else only for being equal. Values of
 * different types are not told apart by that: whether 100 is "100" cannot be said.
 */
#ifndef HX_JSON_COMPARE_H
#define HX_JSON_COMPARE_H

#include "json/tape.h"

enum hx_comparison { HX_CMP_EQ, HX_CMP_NE, HX_CMP_LT, HX_CMP_LE, HX_CMP_GT, HX_CMP_GE };

/* Nothing is said of a value of another type, nor of which is larger when one is missing. What that
 * means is the caller's to say: for a guard it is as good as a yes. */
enum hx_holds { HX_HOLDS_NO, HX_HOLDS_YES, HX_HOLDS_CANNOT_SAY };

/* Whether `wanted` can be read in one way: what begins with a quote is a whole JSON string, and all
 * is UTF-8. An operator's text for which this is false is refused when it is read. */
bool hx_json_wanted_is_good(struct hx_span wanted);

/* Whether the value at `index` (HX_JSON_NONE: there is none) stands in this relation to `wanted`:
 * JSON text of a scalar; anything else is taken for a string of these bytes. Nothing is said of one
 * that is not good. */
enum hx_holds hx_json_holds(const struct hx_json_tape *tape, uint32_t index,
                            enum hx_comparison comparison, struct hx_span wanted);

#endif
