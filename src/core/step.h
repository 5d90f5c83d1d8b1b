/* SPDX-License-Identifier: MIT */
/*
 * What the files of the step function share: the running step, and the few moves all of them make.
 * Internal to core/.
 */
#ifndef HX_CORE_STEP_H
#define HX_CORE_STEP_H

#include "core/op.h"

struct hx_step {
    struct hx_op *op;
    const struct hx_event *event;
    struct hx_effects *effects;
};

void hx_step_do(struct hx_step *step, enum hx_effect_type type);
void hx_step_answer(struct hx_step *step, enum hx_effect_type type, enum hx_answer answer);
void hx_step_count(struct hx_step *step, enum hx_counter counter);
void hx_step_look_later(struct hx_step *step, int64_t delay_ms);

/* Starts op->next from op->durable. */
struct hx_record *hx_step_begin(struct hx_step *step);
/* The only place that writes a state: asserts the move (I4) and notes reason and time. */
void hx_op_move(struct hx_step *step, enum hx_op_state to, enum hx_reason reason);
/* Commits op->next. UPDATE is guarded by the durable fence. */
void hx_step_persist(struct hx_step *step, enum hx_write write, enum hx_op_phase phase);
/* Raises the fence of op->next: whoever held the old one can change nothing any more (I7). */
void hx_step_raise_fence(struct hx_step *step);

/* core/attempt.c: how attempts begin and end. Each ends with a PERSIST. */
void hx_step_claim(struct hx_step *step, enum hx_reason reason);
void hx_step_close_unsent(struct hx_step *step, enum hx_reason reason);
void hx_step_settle(struct hx_step *step, enum hx_reason reason);
void hx_step_become_unknown(struct hx_step *step, enum hx_reason reason);
void hx_step_attempt_ended(struct hx_step *step);
/* A running operation that nobody here works on: taken over, sent again, settled, or left alone. */
void hx_step_judge_running(struct hx_step *step);

/* core/op.c: a caller arrives; an outcome comes by another way; a write is in flight. */
void hx_step_call(struct hx_step *step);
void hx_step_evidence(struct hx_step *step);
bool hx_op_is_writing(const struct hx_op *op);

/* core/write.c: a write has ended. */
void hx_step_stored(struct hx_step *step);
void hx_step_stale(struct hx_step *step);
void hx_step_store_failed(struct hx_step *step);
void hx_step_spooled(struct hx_step *step);
/* A ready operation for which somebody waits here: begins the next attempt, now or when due. */
void hx_step_run_when_due(struct hx_step *step);

/* core/verb.c: what a person or an explicit request decides. */
void hx_step_verb(struct hx_step *step);
/* What a person was asked and did not answer in time ends: begins that write. False: not so. */
bool hx_step_end_unanswered(struct hx_step *step);

/* core/answer.c: the answer that the durable state gives to anybody who asks now; and the assertion
 * that nothing else is told of a success. */
void hx_op_check_answers(const struct hx_op *op, const struct hx_effects *effects);
enum hx_answer hx_op_current_answer(const struct hx_record *record);

#endif
