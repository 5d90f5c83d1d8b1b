/* SPDX-License-Identifier: MIT */
/*
 * One cell of the matrix: an operation in a state and phase, and an event. Whatever a guard of the
 * core may look at is a dimension with a few values; an assignment picks one value of each. The
 * list of dimensions of a cell is written by hand, and checked: no other one may change its result.
 */
#ifndef HX_TEST_OP_CELLS_H
#define HX_TEST_OP_CELLS_H

#include "core/op.h"

/* DIMENSION(NAME, text, values...) in the order in which guards are printed. Value 0 is the one
 * that a cell takes when it does not list the dimension. */
#define DIMENSIONS(DIMENSION)                                                                      \
    DIMENSION(WRITE, "write", "", "absent", "awaiting_approval", "ready", "running",               \
              "input_required", "succeeded", "failed", "unknown", "cancelled", "expired")          \
    DIMENSION(FRESH, "row", "none", "running", "unknown", "succeeded", "succeeded+successor",      \
              "failed")                                                                            \
    DIMENSION(FOLLOW, "successor_written", "no", "yes")                                            \
    DIMENSION(VERB, "verb", "no", "yes", "late")                                                   \
    DIMENSION(SUPERSEDED, "superseded", "no", "yes")                                               \
    DIMENSION(SUCCESSOR, "successor", "no", "yes")                                                 \
    DIMENSION(TOMBSTONE, "tombstone", "no", "yes")                                                 \
    DIMENSION(DISPUTED, "disputed", "no", "yes")                                                   \
    DIMENSION(NEEDS_HUMAN, "needs_human", "no", "yes")                                             \
    DIMENSION(HANDS, "hands", "nobody", "mine", "alive", "dead", "elsewhere", "lapsed")            \
    DIMENSION(MARKED, "marked", "no", "yes")                                                       \
    DIMENSION(EPOCH, "epoch", "old", "current")                                                    \
    DIMENSION(MARK_DURABLE, "marks_durable", "no", "yes")                                          \
    DIMENSION(ATTEMPT, "attempt", "", "none", "open", "asked", "refused", "dead")                  \
    DIMENSION(EARLIER, "earlier", "none", "open", "asked", "refused")                              \
    DIMENSION(WAITERS, "waiters", "0", "1")                                                        \
    DIMENSION(APPROVED, "approved", "no", "yes")                                                   \
    DIMENSION(FOR_CALLER, "caller_must_mend", "no", "yes")                                         \
    DIMENSION(NEEDS_APPROVAL, "needs_approval", "no", "yes")                                       \
    DIMENSION(FROM_GAP, "from_gap", "no", "yes")                                                   \
    DIMENSION(RESTORED, "restored_copy", "no", "yes")                                              \
    DIMENSION(ASKED_FOR, "asked_for", "<24h", ">=24h")                                             \
    DIMENSION(DUE, "not_before", "passed", "soon", "late")                                         \
    DIMENSION(STARTS, "failed_starts", "0", "1", "3")                                              \
    DIMENSION(START_AGE, "starting_for", "<2s", ">=2s")                                            \
    DIMENSION(LEFT, "attempts_left", "yes", "no")                                                  \
    DIMENSION(TARGET, "target", "same", "other")                                                   \
    DIMENSION(TOOL, "tool", "opaque", "probeable", "idempotent", "reorder_safe", "keyed",          \
              "keyed,horizon_over", "keyed,no_horizon")                                            \
    DIMENSION(SENDER_GONE, "sender_gone", "no", "yes")                                             \
    DIMENSION(DELTA, "in_flight", "undeclared", "waiting", "over")                                 \
    DIMENSION(SEEN, "decided_on", "any attempt", "present attempt", "older attempt")               \
    DIMENSION(FORCED, "forced", "no", "yes")                                                       \
    DIMENSION(RECEIVERS_WORD, "receivers_word", "no", "yes")                                       \
    DIMENSION(RETRIES, "retries_after_proof", "no", "yes")                                         \
    DIMENSION(OPERATOR, "by", "caller", "operator")                                                \
    DIMENSION(ROUND, "round", "none", "repeated", "continues", "differs")                          \
    DIMENSION(IS_ERROR, "is_error", "no", "yes")                                                   \
    DIMENSION(GONE, "payload", "kept", "gone")                                                     \
    DIMENSION(RECONSTRUCTED, "reconstructed", "no", "yes")                                         \
    DIMENSION(OUTCOME, "outcome", "other", "same")                                                 \
    DIMENSION(SPOOLED, "spooled", "no", "yes")                                                     \
    DIMENSION(RETRY_DUE, "commit", "in_flight", "failed")

enum dimension {
#define NAME_OF(NAME, text, ...) D_##NAME,
    DIMENSIONS(NAME_OF)
#undef NAME_OF
        D_COUNT
};

enum { VALUES_MAX = 12 };

struct dimension_info {
    const char *name;
    const char *values[VALUES_MAX];
};

extern const struct dimension_info cell_dimensions[D_COUNT];
unsigned cell_value_count(enum dimension dimension);

struct cell {
    enum hx_op_state state;
    enum hx_op_phase phase;
    enum hx_event_type event;
};

typedef uint64_t dimension_set;
#define D_BIT(NAME) ((dimension_set)1 << D_##NAME)

/* The dimensions that may change the result of this cell. */
dimension_set cell_dimensions_of(const struct cell *cell);

/* Builds what the assignment says. False when no such operation can exist. */
bool cell_build(const struct cell *cell, const unsigned char assignment[D_COUNT],
                struct hx_op *ret_op, struct hx_event *ret_event, struct hx_record *fresh);

#endif
