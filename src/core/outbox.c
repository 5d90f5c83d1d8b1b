/* SPDX-License-Identifier: MIT */
#include "core/outbox.h"

static const char *const kind_names[HX_OUTBOX_KIND_COUNT] = {
    [HX_OUTBOX_NOTHING] = "nothing",
#define HX_OUTBOX_KIND(NAME, text, doc) [HX_OUTBOX_##NAME] = (text),
#include "core/outbox.def"
};

static const char *const place_names[HX_OUTBOX_PLACE_COUNT] = {
    [HX_OUTBOX_PENDING] = "pending",
    [HX_OUTBOX_PARKED] = "parked",
    [HX_OUTBOX_DELIVERED] = "delivered",
    [HX_OUTBOX_DROPPED] = "dropped",
};

/* Every state has a row in the table, or the number of rows is another. */
static const enum hx_outbox_kind kinds_of_states[HX_OP_STATE_COUNT] = {
#define HX_OUTBOX_ENTERS(STATE, KIND, doc) [HX_OP_##STATE] = HX_OUTBOX_##KIND,
#define HX_OUTBOX_SILENT(STATE, doc) [HX_OP_##STATE] = HX_OUTBOX_NOTHING,
#include "core/outbox.def"
};
enum {
    ROWS_OF_STATES = 0
#define HX_OUTBOX_ENTERS(STATE, KIND, doc) +1
#define HX_OUTBOX_SILENT(STATE, doc) +1
#include "core/outbox.def"
};
_Static_assert((int)ROWS_OF_STATES == (int)HX_OP_STATE_COUNT, "a state is not in outbox.def");

const char *hx_outbox_kind_name(enum hx_outbox_kind kind)
{
    hx_assert(kind < HX_OUTBOX_KIND_COUNT);
    return kind_names[kind];
}

const char *hx_outbox_place_name(enum hx_outbox_place place)
{
    hx_assert(place < HX_OUTBOX_PLACE_COUNT);
    return place_names[place];
}

struct hx_outbox_view hx_outbox_view_of(const struct hx_record *record)
{
    return (struct hx_outbox_view){
        .state = record->state,
        .reason = record->reason,
        .needs_human = record->needs_human,
        .is_superseded = record->is_superseded,
        .is_disputed = record->is_disputed,
    };
}

/* A row may stay in its state and still be written for another reason: then it is the flags that
 * changed, or the successor, and nothing new is to be said of the state. */
static enum hx_outbox_kind kind_of_state(const struct hx_outbox_view *before,
                                         const struct hx_outbox_view *after)
{
    if (before->state == after->state)
        return HX_OUTBOX_NOTHING;
    if (after->state == HX_OP_EXPIRED && after->reason == HX_REASON_RETENTION)
        return HX_OUTBOX_NOTHING;
    if (after->state == HX_OP_READY && before->state == HX_OP_AWAITING_APPROVAL)
        return HX_OUTBOX_APPROVED;
    if (after->state == HX_OP_READY && before->state == HX_OP_UNKNOWN)
        return HX_OUTBOX_ABSENT;
    return kinds_of_states[after->state];
}

unsigned hx_outbox_kinds(const struct hx_outbox_view *before, const struct hx_outbox_view *after,
                         enum hx_outbox_kind ret_kinds[HX_OUTBOX_KINDS_MAX])
{
    unsigned count = 0;
    enum hx_outbox_kind kind = kind_of_state(before, after);
    if (kind != HX_OUTBOX_NOTHING)
        ret_kinds[count++] = kind;
    if (after->needs_human && !before->needs_human)
        ret_kinds[count++] = HX_OUTBOX_NEEDS_HUMAN;
    if (after->is_superseded && !before->is_superseded)
        ret_kinds[count++] = HX_OUTBOX_RESOLVED;
    if (after->is_disputed && !before->is_disputed)
        ret_kinds[count++] = HX_OUTBOX_DISPUTED;
    return count;
}

bool hx_outbox_is_used_up(uint32_t tries)
{
    return tries >= HX_OUTBOX_TRIES_MAX;
}

int64_t hx_outbox_wait_ms(uint32_t tries, int64_t base_ms, int64_t max_ms, int64_t retry_after_ms,
                          uint64_t random)
{
    int64_t bound_ms = base_ms > 0 ? base_ms : 1;
    for (uint32_t i = 1; i < tries && bound_ms < max_ms; i++)
        bound_ms = bound_ms <= max_ms / 2 ? 2 * bound_ms : max_ms;
    if (bound_ms > max_ms)
        bound_ms = max_ms > 0 ? max_ms : 1;
    /* Full jitter: many events that failed together do not come back together. */
    int64_t wait_ms = 1 + (int64_t)(random % (uint64_t)bound_ms);
    if (wait_ms < retry_after_ms)
        wait_ms = retry_after_ms;
    return wait_ms < HX_OUTBOX_WAIT_MAX_MS ? wait_ms : HX_OUTBOX_WAIT_MAX_MS;
}
