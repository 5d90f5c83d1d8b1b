/* SPDX-License-Identifier: MIT */
/*
 * The words that carry safety, each in one place: dead, nothing sent, sender gone, elapsed,
 * horizon. Every rule of the core is built from these; none of them is spelled out a second time
 * anywhere.
 */
#ifndef HX_CORE_WORDS_H
#define HX_CORE_WORDS_H

#include "core/op.h"

/* "Elapsed": within one boot the suspend-counting clock. Across boots nothing is known for certain,
 * so the caller says which answer is the careful one for him. */
enum hx_across_boots { HX_ACROSS_COUNTS_AS_OVER, HX_ACROSS_STARTS_AGAIN };
bool hx_has_elapsed(const struct hx_now *since, const struct hx_now *now, int64_t span_ms,
                    enum hx_across_boots across);
/* The age of a row: monotonic within a boot, plus at most one day for a gap between boots. */
int64_t hx_age_ms(const struct hx_now *since, const struct hx_now *now);

/* A ready operation that a person approved runs though nobody waits for it; but not one that was
 * refused with what only its caller can mend (a URL to open, a login): that used up no attempt, so
 * there are more refusals than sends, and it waits for its caller, approved as it is. */
bool hx_runs_alone(const struct hx_record *record);
/* A person was asked, to approve it or by the tool, and has not answered for a day. To believe that
 * too early, because a clock jumped between two boots, runs nothing. */
bool hx_is_unanswered(const struct hx_record *record, const struct hx_now *now);

/* "Unsent": the present attempt provably left not one byte: it is dead or refused or there is none,
 * or it is unmarked and the absence of its mark proves something. */
bool hx_attempt_is_unsent(const struct hx_record *record, const struct hx_facts *facts);
/* "Nothing sent": every attempt of the operation is dead or refused, or is the present one,
 * unmarked, in a current epoch. Moves to ready, failed and cancelled require it. */
bool hx_nothing_sent(const struct hx_record *record, const struct hx_facts *facts);
/* The same if the present attempt should turn out dead or refused: do the earlier ones allow it? */
bool hx_nothing_sent_before(const struct hx_record *record);

#endif
