/* SPDX-License-Identifier: MIT */
#include "kit/ops.h"

struct hx_id kit_id(unsigned number)
{
    struct hx_id id = {{0}};
    id.bytes[0] = 0xee;
    id.bytes[14] = (uint8_t)(number >> 8);
    id.bytes[15] = (uint8_t)number;
    return id;
}

struct hx_digest kit_digest(unsigned number)
{
    struct hx_digest digest = {{0}};
    digest.bytes[0] = 0xdd;
    digest.bytes[31] = (uint8_t)number;
    return digest;
}

struct hx_now kit_now(unsigned boot, int64_t ms)
{
    const int64_t epoch_ms = 1700000000000;
    const int64_t hour_ms = 3600000;
    struct hx_now now = {.mono = {ms}, .wall = {epoch_ms + (int64_t)boot * hour_ms + ms}};
    now.boot.bytes[0] = (uint8_t)boot;
    return now;
}

struct hx_contract kit_contract(enum hx_tool_class tool_class)
{
    struct hx_contract contract = hx_contract_default();
    contract.tool_class = tool_class;
    contract.timeout_ms = 60 * 1000;
    contract.in_flight_bound_ms = 60 * 1000;
    if (tool_class == HX_CLASS_KEYED)
        contract.dedupe_horizon_ms = (int64_t)24 * 60 * 60 * 1000;
    return contract;
}

struct hx_record kit_record(const struct hx_contract *contract)
{
    return (struct hx_record){
        .id = kit_id(1),
        .tenant = HX_SPAN_LIT("local"),
        .principal = HX_SPAN_LIT("1000"),
        .server = HX_SPAN_LIT("bank"),
        .tool = HX_SPAN_LIT("charge"),
        .key = HX_SPAN_LIT("order-7"),
        .key_source = HX_KEY_META,
        .identity = kit_digest(1),
        .twin = kit_digest(2),
        .fingerprint = kit_digest(3),
        .effect_key = kit_id(2),
        .created = kit_now(1, 1000),
        .updated = kit_now(1, 1000),
        .arguments = HX_SPAN_LIT("{}"),
        .contract = *contract,
    };
}

void kit_claim(struct hx_record *record, unsigned owner, struct hx_now now)
{
    record->state = HX_OP_RUNNING;
    record->reason = HX_REASON_CLAIMED;
    record->fence++;
    record->owner = kit_id(owner);
    record->owner_boot = now.boot;
    record->attempt = (struct hx_attempt){
        .number = record->attempt.number + 1, .state = HX_ATTEMPT_OPEN, .claimed_at = now};
    record->sends++;
}

void kit_mark(struct hx_record *record, struct hx_now now)
{
    record->attempt.is_marked = true;
    record->attempt.marked_at = now;
    if (record->first_mark.wall.ms == 0)
        record->first_mark = now;
}

struct hx_outcome kit_outcome(const char *text)
{
    struct hx_outcome outcome = {.kind = HX_OUTCOME_RESULT, .bytes = hx_span_cstr(text)};
    outcome.size = outcome.bytes.len;
    for (size_t i = 0; i < outcome.bytes.len; i++)
        outcome.digest.bytes[i % HX_DIGEST_SIZE] ^= (uint8_t)text[i];
    return outcome;
}
