/* SPDX-License-Identifier: MIT */
/*
 * The merge from its beginning to its end.
 */
#include "adapter/merge/internal.h"
#include "base/alloc.h"

/* Kept between two messages, of which there are as many as sessions. */
enum { ARENA_MAX = 64 << 20, ARENA_KEPT = 4096, TOKENS_KEPT = 128 };

struct hx_merge_options hx_merge_defaults(void)
{
    return (struct hx_merge_options){
        .version = HX_SPAN_LIT("0"),
        .start_wait_ms = 20 * 1000,
        .list_wait_ms = 10 * 1000,
        .message_max_bytes = (size_t)64 << 20,
        .requests_max = 1024,
        .request_bytes_max = (size_t)64 << 20,
        .items_max = 10000,
        .pages_max = 1000,
        .known_max = 20000,
    };
}

int merge_read(struct merge *merge, struct hx_span text, struct hx_rpc_msg *ret_msg)
{
    return hx_rpc_read(&merge->tape, text, &merge->limits, &merge->arena, ret_msg);
}

void merge_tell_left_out(struct merge *merge, const struct leg *leg, struct hx_span reason)
{
    if (merge->options.left_out != NULL)
        merge->options.left_out(merge->options.context, leg->name, reason);
}

void merge_rest(struct merge *merge)
{
    hx_json_tape_trim(&merge->tape, TOKENS_KEPT);
    hx_json_tape_trim(&merge->scratch, TOKENS_KEPT);
    if (merge->arena.used > ARENA_KEPT) {
        hx_arena_fini(&merge->arena);
        hx_arena_init(&merge->arena, ARENA_MAX);
    } else {
        hx_arena_reset(&merge->arena);
    }
}

static void on_start_limit(void *arg)
{
    struct merge *merge = arg;

    /* Sends only downwards, so it need not wait for an inbox to be read. */
    greet_limit(merge);
    merge_rest(merge);
}

static void check_prefixes(const struct hx_merge_leg_options *legs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++)
            hx_assert(i == j || !hx_span_starts_with(legs[i].prefix, legs[j].prefix));
    }
}

static void init_maps(struct merge *merge)
{
    uint64_t secret[2];
    uint8_t random[8];

    hx_rand_fill(merge->options.rand, (uint8_t *)secret, sizeof secret);
    hx_rand_fill(merge->options.rand, random, sizeof random);
    hx_hex_encode(random, sizeof random, merge->secret);
    hx_map_init(&merge->requests_by_id, secret);
    hx_map_init(&merge->tickets, secret);
    hx_map_init(&merge->asks, secret);
    hx_map_init(&merge->known, secret);
    hx_map_init(&merge->receipts_by_number, secret);
}

/* From now on the client's words are read by us. */
static void take_outer(struct merge *merge, struct hx_downstream *outer)
{
    struct hx_list *before = outer->inbox;

    merge->outer = outer;
    merge->has_exchanges = outer->ops->settle != NULL;
    outer->owner = merge;
    outer->inbox = merge->options.outer_inbox;
    if (before == outer->inbox)
        return;
    hx_list_for_each_safe (node, before) {
        struct hx_peer_event *event = hx_container_of(node, struct hx_peer_event, node);
        if (event->downstream != outer)
            continue;
        hx_list_unlink(&event->node);
        hx_list_append(outer->inbox, &event->node);
    }
}

struct hx_merge *hx_merge_new(const struct hx_merge_options *options, struct hx_downstream *outer,
                              const struct hx_merge_leg_options *legs, size_t count)
{
    struct hx_merge *opaque = hx_new(struct hx_merge);
    struct merge *merge = &opaque->merge;

    hx_assert(count > 0 && count <= HX_MERGE_LEGS_MAX);
    check_prefixes(legs, count);
    merge->magic = MERGE_MAGIC;
    merge->options = *options;
    init_maps(merge);
    hx_list_init(&merge->requests);
    hx_list_init(&merge->waiting);
    hx_list_init(&merge->batches);
    hx_list_init(&merge->receipts);
    hx_buf_init(&merge->initialized, options->message_max_bytes);
    hx_buf_init(&merge->level, options->message_max_bytes);
    hx_json_tape_init(&merge->tape);
    hx_json_tape_init(&merge->scratch);
    hx_arena_init(&merge->arena, ARENA_MAX);
    merge->hasher = hx_hasher_new();
    merge->era = hx_mcp_facts(HX_MCP_UNKNOWN);
    merge->limits = HX_JSON_LIMITS_DEFAULT;
    if (options->loop != NULL)
        merge->start_limit = hx_loop_timer_new(options->loop, on_start_limit, merge);
    merge->legs = hx_new_bytes(count * sizeof(*merge->legs));
    merge->leg_count = count;
    for (size_t i = 0; i < count; i++)
        leg_init(merge, (uint32_t)i, &legs[i]);
    take_outer(merge, outer);
    return opaque;
}

void merge_drop(struct merge *merge)
{
    struct hx_list *node;

    merge->is_gone = true;
    while ((node = hx_list_first(&merge->requests)) != NULL) {
        struct request *request = hx_container_of(node, struct request, node);
        struct batch *batch = request->batch;
        if (batch != NULL)
            batch_abandon(merge, batch);
        else
            request_free(request);
    }
    merge->greeting = NULL;
    merge->learning = 0;
    memset(merge->is_learning, 0, sizeof merge->is_learning);
    if (merge->start_limit != NULL)
        hx_loop_timer_clear(merge->start_limit);
}

struct hx_merge *hx_merge_free(struct hx_merge *opaque)
{
    struct merge *merge;
    struct hx_list *node;

    if (opaque == NULL)
        return NULL;
    merge = &opaque->merge;
    hx_check(merge, MERGE_MAGIC);
    for (size_t i = 0; i < merge->leg_count; i++)
        merge->legs[i].state = LEG_OVER; /* nobody reads what is said of them */
    merge_drop(merge);
    while ((node = hx_list_first(&merge->receipts)) != NULL)
        receipt_free(merge, hx_container_of(node, struct receipt, node));
    for (size_t i = 0; i < merge->leg_count; i++)
        leg_fini(&merge->legs[i]);
    merge->outer->owner = NULL;
    hx_loop_timer_free(merge->start_limit);
    hx_map_fini(&merge->requests_by_id);
    hx_map_fini(&merge->tickets);
    hx_map_fini(&merge->asks);
    hx_map_fini(&merge->known);
    hx_map_fini(&merge->receipts_by_number);
    hx_buf_fini(&merge->initialized);
    hx_buf_fini(&merge->level);
    hx_json_tape_fini(&merge->tape);
    hx_json_tape_fini(&merge->scratch);
    hx_arena_fini(&merge->arena);
    hx_hasher_free(merge->hasher);
    hx_free(merge->legs);
    merge->magic = 0;
    return hx_free(opaque);
}

struct hx_downstream *hx_merge_leg(struct hx_merge *merge, size_t index)
{
    hx_assert(index < merge->merge.leg_count);
    return &merge->merge.legs[index].downstream;
}

struct hx_downstream *hx_merge_outer(struct hx_merge *merge)
{
    return merge->merge.outer;
}

struct hx_merge *hx_merge_of_leg(struct hx_downstream *downstream)
{
    if (downstream->ops != &leg_ops)
        return NULL;
    struct leg *leg = hx_container_of(downstream, struct leg, downstream);
    return hx_container_of(leg->merge, struct hx_merge, merge);
}

void hx_merge_resume(struct hx_merge *opaque, struct hx_span revision)
{
    greet_resumed(&opaque->merge, revision);
}

/* --- legs that are over --- */

static struct ticket *find_ticket_of(struct merge *merge, const struct leg *leg)
{
    hx_list_for_each (node, &merge->requests) {
        struct request *request = hx_container_of(node, struct request, node);
        hx_list_for_each (at, &request->tickets) {
            struct ticket *ticket = hx_container_of(at, struct ticket, node);
            if (ticket->leg == leg)
                return ticket;
        }
    }
    return NULL;
}

void hx_merge_leg_over(struct hx_merge *opaque, struct hx_downstream *downstream)
{
    struct merge *merge = &opaque->merge;
    struct leg *leg = hx_container_of(downstream, struct leg, downstream);
    struct ticket *ticket;

    hx_check(merge, MERGE_MAGIC);
    hx_assert(downstream->ops == &leg_ops && leg->merge == merge);
    if (leg_is_over(leg))
        return;
    bool took_part = leg_takes_part(leg);
    leg->state = LEG_OVER;
    /* An end of one may free others that wait for it, so the search begins anew each time. */
    while ((ticket = find_ticket_of(merge, leg)) != NULL)
        ticket_lost(ticket);
    leg_forget(leg);
    if (took_part)
        leg_tell_changed(leg);
    merge_rest(merge);
}

bool hx_merge_is_over(const struct hx_merge *opaque)
{
    const struct merge *merge = &opaque->merge;

    for (size_t i = 0; i < merge->leg_count; i++) {
        if (!leg_is_over(&merge->legs[i]))
            return false;
    }
    return true;
}
