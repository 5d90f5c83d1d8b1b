/* SPDX-License-Identifier: MIT */
#include "core/retention.h"

#define DAY_MS ((int64_t)24 * 60 * 60 * 1000)
#define TOMBSTONE_MS (400 * DAY_MS)

bool hx_retention_may_fade(enum hx_op_state state, bool is_disputed)
{
    return hx_op_state_is_final(state) && !is_disputed;
}

bool hx_retention_is_key_timed(enum hx_key_source source, struct hx_span key)
{
    struct hx_id id;
    struct hx_wall wall;
    return source == HX_KEY_NONE || (hx_id_parse(key, &id) && hx_id_time(&id, &wall));
}

struct hx_wall hx_retention_newest(struct hx_span key, struct hx_wall first_sent,
                                   struct hx_wall updated)
{
    struct hx_id id;
    struct hx_wall inside;
    struct hx_wall newest = first_sent.ms > updated.ms ? first_sent : updated;
    bool is_later = hx_id_parse(key, &id) && hx_id_time(&id, &inside) && inside.ms > newest.ms;
    return is_later ? inside : newest;
}

struct hx_wall hx_retention_low_water(const struct hx_old_row *row)
{
    return (struct hx_wall){row->newest.ms + 1};
}

static bool is_payload_over(const struct hx_contract *contract, int64_t age_ms)
{
    return age_ms > contract->payload_retention_ms;
}

bool hx_retention_is_payload_over(const struct hx_record *record, int64_t age_ms)
{
    return hx_retention_may_fade(record->state, record->is_disputed) &&
           is_payload_over(&record->contract, age_ms);
}

enum hx_row_fate hx_retention_fate(const struct hx_old_row *row, struct hx_wall now)
{
    const struct hx_contract *contract = row->contract;
    if (!hx_retention_may_fade(row->state, row->is_disputed))
        return HX_ROW_STAY;
    if (row->state == HX_OP_EXPIRED)
        return row->age_ms > TOMBSTONE_MS && !row->is_named ? HX_ROW_GO : HX_ROW_STAY;
    /* The mark may never come near the present, or fresh keys would be refused: a row that
     * claims to have been used just now, or in the future, waits. */
    bool is_behind = row->newest.ms < now.ms - DAY_MS;
    if (row->age_ms > contract->row_retention_ms && is_behind)
        return row->is_key_timed && !row->is_named ? HX_ROW_GO : HX_ROW_TOMBSTONE;
    if (is_payload_over(contract, row->age_ms) && (row->has_payload || row->is_hot))
        return HX_ROW_LOSE_PAYLOAD;
    bool is_window_over = row->age_ms > DAY_MS && row->age_ms > contract->repeat_window_ms;
    return row->is_hot && is_window_over && !row->is_told_pending ? HX_ROW_COOL : HX_ROW_STAY;
}

enum hx_row_fate hx_retention_fate_behind(const struct hx_old_row *row, struct hx_wall now,
                                          struct hx_wall low_water)
{
    enum hx_row_fate fate = hx_retention_fate(row, now);
    bool makes_unknown = fate == HX_ROW_GO || fate == HX_ROW_TOMBSTONE;
    return makes_unknown && low_water.ms < hx_retention_low_water(row).ms ? HX_ROW_STAY : fate;
}
