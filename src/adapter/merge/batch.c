/* SPDX-License-Identifier: MIT */
/*
 * Arrays: what answers the requests that came as one, and who is told what became of it.
 */
#include "adapter/merge/internal.h"
#include "base/alloc.h"

enum {
    RECEIPTS_MAX = 1024,
    SHORT_MAX = 1024 /* an answer no longer than that gives way to no word */
};

static void answer_free(struct batch_answer *answer)
{
    hx_list_unlink(&answer->node);
    hx_buf_fini(&answer->id_key);
    hx_buf_fini(&answer->line);
    hx_buf_fini(&answer->owed.raw_id);
    hx_free(answer);
}

void receipt_free(struct merge *merge, struct receipt *receipt)
{
    struct hx_list *node;

    while ((node = hx_list_first(&receipt->answers)) != NULL)
        answer_free(hx_container_of(node, struct batch_answer, node));
    hx_list_unlink(&receipt->node);
    hx_map_remove(&merge->receipts_by_number, &receipt->by_number);
    merge->receipt_count--;
    hx_free(receipt);
}

static struct receipt *receipt_find(const struct merge *merge, uint64_t number)
{
    struct hx_map_node *node =
        hx_map_find(&merge->receipts_by_number, hx_span((const char *)&number, sizeof number));

    return node != NULL ? hx_container_of(node, struct receipt, by_number) : NULL;
}

size_t receipt_tags(const struct merge *merge, uint64_t number, uint64_t *ret_tags, size_t max)
{
    struct receipt *receipt = receipt_find(merge, number);
    size_t count = 0;

    if (receipt == NULL)
        return 0;
    hx_list_for_each (at, &receipt->answers) {
        const struct batch_answer *answer = hx_container_of(at, struct batch_answer, node);
        if (answer->leg != NULL && answer->tag != 0 && count < max)
            ret_tags[count++] = answer->tag;
    }
    return count;
}

void receipt_fate(struct merge *merge, uint64_t number, enum hx_peer_event_type fate)
{
    struct receipt *receipt = receipt_find(merge, number);

    if (receipt == NULL)
        return;
    receipt->has_fate = true;
    hx_list_for_each (at, &receipt->answers) {
        struct batch_answer *answer = hx_container_of(at, struct batch_answer, node);
        if (answer->leg != NULL)
            leg_tell_fate(answer->leg, answer->tag, fate);
    }
}

/* An array may be taken back long after it was written, so its receipt is kept, within bounds. */
static struct receipt *receipt_new(struct merge *merge)
{
    struct receipt *receipt = hx_new(struct receipt);
    struct hx_list *oldest;

    receipt->number = ++merge->next_number;
    hx_list_init(&receipt->answers);
    hx_list_append(&merge->receipts, &receipt->node);
    hx_map_insert(&merge->receipts_by_number, &receipt->by_number,
                  hx_span((const char *)&receipt->number, sizeof receipt->number));
    merge->receipt_count++;
    while (merge->receipt_count > RECEIPTS_MAX &&
           (oldest = hx_list_first(&merge->receipts)) != NULL &&
           hx_container_of(oldest, struct receipt, node)->has_fate)
        receipt_free(merge, hx_container_of(oldest, struct receipt, node));
    return receipt;
}

/* Appends the array, and takes the lines. False: there is no memory for it, and nothing changed. */
static bool write_array(struct batch *batch, struct hx_buf *line)
{
    size_t size = 2;

    hx_list_for_each (node, &batch->answers)
        size += hx_container_of(node, struct batch_answer, node)->line.len + 1;
    hx_buf_init(line, size);
    if (hx_buf_reserve(line, size) < 0)
        return false;
    hx_list_for_each (node, &batch->answers) {
        struct batch_answer *answer = hx_container_of(node, struct batch_answer, node);
        (void)hx_buf_append_char(line, line->len == 0 ? '[' : ','); /* there is room for all */
        (void)hx_buf_append_span(line, hx_buf_span(&answer->line));
        hx_buf_fini(&answer->line);
    }
    (void)hx_buf_append_char(line, ']');
    return true;
}

/* Puts a word in the place of every answer that is longer than `len_max`. Who asks again for what
 * became of it is told by the ledger. */
static void shorten(struct merge *merge, struct batch *batch, size_t len_max)
{
    hx_list_for_each (node, &batch->answers) {
        struct batch_answer *answer = hx_container_of(node, struct batch_answer, node);
        const struct owed *owed = &answer->owed;
        if (answer->line.len <= len_max || owed->raw_id.len == 0)
            continue;
        if (answer->leg != NULL)
            leg_tell_fate(answer->leg, answer->tag, HX_PEER_NOT_SENT);
        answer->leg = NULL;
        reply_too_much(merge, hx_buf_span(&owed->raw_id), owed->risk, owed->has_param_key,
                       &answer->line);
    }
}

static void send_batch(struct merge *merge, struct batch *batch)
{
    struct receipt *receipt = receipt_new(merge);
    struct hx_buf line;
    bool is_written = write_array(batch, &line);

    if (!is_written) {
        shorten(merge, batch, SHORT_MAX);
        is_written = write_array(batch, &line);
    }
    hx_list_splice(&receipt->answers, &batch->answers);
    if (is_written) {
        reply_send(merge, &line,
                   &(struct hx_sending){.tag = receipt->number << 16, .exchange = batch->exchange});
        return;
    }
    /* Not even words have room: one word is for all of them. */
    receipt_fate(merge, receipt->number, HX_PEER_NOT_SENT);
    reply_too_much(merge, HX_SPAN_NONE, RISK_UNKNOWN, false, &line);
    reply_send(merge, &line, &(struct hx_sending){.exchange = batch->exchange});
}

static void drop_answers(struct batch *batch)
{
    hx_list_for_each_safe (node, &batch->answers) {
        struct batch_answer *answer = hx_container_of(node, struct batch_answer, node);
        if (answer->leg != NULL)
            leg_tell_fate(answer->leg, answer->tag, HX_PEER_NOT_SENT);
        answer_free(answer);
    }
}

void batch_release(struct merge *merge, struct batch *batch)
{
    if (batch->open_count > 0 || !batch->is_complete)
        return;
    hx_list_unlink(&batch->node);
    if (merge->is_gone || batch->is_abandoned)
        drop_answers(batch);
    else if (!hx_list_is_empty(&batch->answers))
        send_batch(merge, batch);
    else if (merge->taking != batch->exchange)
        exchange_settle(merge, batch->exchange, HX_SETTLING_TAKEN); /* all was cancelled */
    hx_free(batch);
}

/* Nobody waits for any of it. */
void batch_abandon(struct merge *merge, struct batch *batch)
{
    batch->is_abandoned = true;
    batch->is_complete = false; /* so that it lives until we are through */
    hx_list_for_each_safe (node, &merge->requests) {
        struct request *request = hx_container_of(node, struct request, node);
        if (request->batch == batch && merge->is_gone)
            request_free(request);
        else if (request->batch == batch)
            request_leave(request);
    }
    batch->is_complete = true;
    batch_release(merge, batch);
}

void batch_add(struct merge *merge, struct batch *batch, const struct request *request,
               struct hx_buf *line, struct leg *leg, uint64_t tag)
{
    struct batch_answer *answer = hx_new(struct batch_answer);

    merge->taking = 0;
    answer->line = *line;
    hx_buf_init(line, answer->line.len_max);
    answer->leg = leg;
    answer->tag = tag;
    hx_buf_init(&answer->id_key, HX_RPC_ID_MAX + 16);
    hx_buf_init(&answer->owed.raw_id, HX_RPC_ID_MAX);
    hx_list_append(&batch->answers, &answer->node);
    if (request == NULL)
        return;
    (void)hx_buf_append_span(&answer->id_key, hx_buf_span(&request->id_key));
    (void)hx_buf_append_span(&answer->owed.raw_id, hx_buf_span(&request->raw_id));
    answer->owed.risk = request->risk;
    answer->owed.has_param_key = request->has_param_key;
}

bool batch_withdraw(struct merge *merge, const struct hx_rpc_id *id)
{
    struct batch_answer *found = NULL;
    struct hx_buf key;

    hx_buf_init(&key, HX_RPC_ID_MAX + 16);
    hx_rpc_id_key(id, &key);
    hx_list_for_each (node, &merge->batches) {
        struct batch *batch = hx_container_of(node, struct batch, node);
        hx_list_for_each (at, &batch->answers) {
            struct batch_answer *answer = hx_container_of(at, struct batch_answer, node);
            if (hx_span_eq(hx_buf_span(&answer->id_key), hx_buf_span(&key)))
                found = answer;
        }
    }
    hx_buf_fini(&key);
    if (found == NULL)
        return false;
    if (found->leg != NULL)
        leg_tell_fate(found->leg, found->tag, HX_PEER_NOT_SENT);
    answer_free(found);
    return true;
}
