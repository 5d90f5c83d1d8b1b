/* SPDX-License-Identifier: MIT */
/*
 * What became of an answer. An answer counts as sent when the kernel took its last byte, and is
 * taken back when we learn that nobody read it: the reader closed with it unread, a cancel came for
 * a request already answered (the client had given up), or the process that the client started was
 * killed within seconds.
 *
 * Over HTTP a client may come back for a stream and read what it had missed; then the loss is taken
 * back in its turn.
 *
 * Delivery never influences execution (I17): all this does is let a repeat of a lost call find its
 * answer.
 */
#include "engine/internal.h"

/* The count bounds the memory of a busy client; what falls out of it just cannot be taken back. */
enum { REMEMBERED_MS = 60 * 1000, REMEMBERED_MAX = 2048, FRONT_DEATH_MS = 5 * 1000 };

/* What was promised for this very call; others may have been asked under the same id. */
static struct hx_delivery_note *find_promise(const struct hx_call *call,
                                             const struct hx_record *record)
{
    struct hx_map_node *node =
        hx_map_find(&call->session->answered, hx_buf_span(&call->request->id_key));
    for (; node != NULL; node = hx_map_find_next(node)) {
        struct hx_delivery_note *note = hx_container_of(node, struct hx_delivery_note, by_id);
        if (note->wanted == HX_RECEIPT_NONE && hx_digest_eq(&note->cold_record.twin, &record->twin))
            return note;
    }
    return NULL;
}

struct hx_delivery_note *hx_delivery_new(struct hx_call *call, const struct hx_record *record)
{
    struct hx_gateway *gateway = call->gateway;
    struct hx_session *session = call->session;
    struct hx_delivery_note *promise = find_promise(call, record);
    if (promise != NULL)
        hx_delivery_free(gateway, promise);
    struct hx_delivery_note *note = hx_new(struct hx_delivery_note);
    note->session = session;
    note->exchange = call->request->exchange;
    note->tag = gateway->next_tag++;
    memcpy(note->tag_key, &note->tag, sizeof(note->tag_key));
    note->operation = record->id;
    note->sent = gateway->now.mono;
    note->arrived = call->arrived.mono;
    note->cold_record = *record;
    /* The copy serves hx_repeat_is_cold and the digests only; nothing looks at its texts. */
    note->cold_record.tenant = note->cold_record.principal = note->cold_record.server =
        HX_SPAN_NONE;
    note->cold_record.tool = note->cold_record.key = note->cold_record.arguments = HX_SPAN_NONE;
    note->cold_record.outcome.bytes = HX_SPAN_NONE;
    hx_buf_init(&note->id_key, HX_RPC_ID_MAX + 16);
    (void)hx_buf_append_span(&note->id_key, hx_buf_span(&call->request->id_key));
    hx_list_append(&gateway->deliveries, &note->node);
    gateway->delivery_count++;
    hx_map_insert(&gateway->deliveries_by_tag, &note->by_tag,
                  hx_span(note->tag_key, sizeof(note->tag_key)));
    hx_map_insert(&session->answered, &note->by_id, hx_buf_span(&note->id_key));
    return note;
}

void hx_delivery_remember(struct hx_call *call, const struct hx_record *record)
{
    struct hx_delivery_note *note = hx_delivery_new(call, record);
    note->wanted = note->submitted = note->stored = HX_RECEIPT_NONE;
    hx_map_remove(&call->gateway->deliveries_by_tag, &note->by_tag);
}

/* Its request counts as answered no more: a cancel or a repeat of it is a new matter. */
static void forget_request(struct hx_delivery_note *note)
{
    if (note->session != NULL)
        hx_map_remove(&note->session->answered, &note->by_id);
}

/* Known here, and not in the ledger yet. */
static bool is_open_loss(const struct hx_delivery_note *note)
{
    return note->wanted == HX_RECEIPT_LOST && note->stored != HX_RECEIPT_LOST;
}

void hx_delivery_free(struct hx_gateway *gateway, struct hx_delivery_note *note)
{
    if (is_open_loss(note))
        gateway->losses_open--;
    hx_list_unlink(&note->node);
    gateway->delivery_count--;
    hx_map_remove(&gateway->deliveries_by_tag, &note->by_tag);
    forget_request(note);
    if (note->batch_answer != NULL)
        note->batch_answer->note = NULL;
    hx_buf_fini(&note->id_key);
    hx_free(note);
}

void hx_delivery_session_over(struct hx_session *session)
{
    hx_list_for_each_safe (node, &session->gateway->deliveries) {
        struct hx_delivery_note *note = hx_container_of(node, struct hx_delivery_note, node);
        if (note->session != session)
            continue;
        forget_request(note);
        note->session = NULL;
        note->over = session;
    }
}

/* Takes the counts of the row from one receipt on to the next. */
static void count(struct hx_record *record, enum hx_receipt from, enum hx_receipt to)
{
    if (to == HX_RECEIPT_SENT)
        record->sent_count++;
    if (to == HX_RECEIPT_LOST)
        record->lost_count++;
    if (from == HX_RECEIPT_SENT && record->sent_count > 0)
        record->sent_count--;
}

/* Writes the difference between what is known and what the row was told. A loss is not kept until
 * the receipt before it is durable: a repeat that comes right behind it must find it. */
static void store_receipt(struct hx_gateway *gateway, struct hx_delivery_note *note)
{
    if (note->submitted == note->wanted || (note->has_failed && note->open_count > 0))
        return;
    struct hx_store_request *request = hx_store_make(gateway, HX_STORE_TOUCH);
    struct hx_record after = note->cold_record;
    count(&after, note->submitted, note->wanted);
    bool is_cold = hx_repeat_is_cold(&after, &gateway->now);
    request->record.id = note->operation;
    if (note->wanted == HX_RECEIPT_SENT) {
        request->touch.add_sent = 1;
        request->touch.cool = is_cold;
    } else {
        request->touch.add_lost = 1;
        request->touch.subtract_sent = note->submitted == HX_RECEIPT_SENT ? 1 : 0;
        /* The row left the twin index when its answer was sent; a repeat must find it again. */
        request->touch.warm = !is_cold;
    }
    note->cold_record = after;
    note->submitted = note->wanted;
    note->open_count++;
    hx_store_submit_for_note(gateway, note, request);
}

void hx_delivery_stored(struct hx_gateway *gateway, struct hx_delivery_note *note,
                        enum hx_receipt receipt, enum hx_store_result result)
{
    bool was_open_loss = is_open_loss(note);
    note->open_count--;
    if (result == HX_STORE_NOT_DONE)
        note->has_failed = true;
    else
        note->stored = receipt;
    if (was_open_loss && !is_open_loss(note))
        gateway->losses_open--;
    if (note->open_count > 0)
        return;
    if (note->has_failed && note->stored != note->wanted) {
        /* From what the row says now on to what it ought to say. */
        note->has_failed = false;
        count(&note->cold_record, note->submitted, note->stored);
        note->submitted = note->stored;
        hx_store_try_again(gateway);
        return;
    }
    note->has_failed = false;
    if (note->stored == HX_RECEIPT_LOST && !note->may_be_read)
        hx_delivery_free(gateway, note);
}

void hx_delivery_again(struct hx_gateway *gateway)
{
    hx_list_for_each (node, &gateway->deliveries)
        store_receipt(gateway, hx_container_of(node, struct hx_delivery_note, node));
}

static void lose(struct hx_gateway *gateway, struct hx_delivery_note *note, bool may_be_read)
{
    if (note->wanted == HX_RECEIPT_NONE)
        return;
    note->may_be_read = may_be_read;
    if (!may_be_read) {
        hx_map_remove(&gateway->deliveries_by_tag, &note->by_tag);
        forget_request(note);
    }
    if (note->wanted == HX_RECEIPT_LOST)
        return;
    note->wanted = HX_RECEIPT_LOST;
    if (is_open_loss(note))
        gateway->losses_open++;
    hx_tell(gateway, HX_TELL_INFO, "answer_lost", "reason=taken_back");
    store_receipt(gateway, note);
}

/* For good: its client does not want it, or is dead. That the kernel takes it afterwards says
 * nothing. */
void hx_delivery_take_back(struct hx_gateway *gateway, struct hx_delivery_note *note)
{
    lose(gateway, note, false);
}

void hx_delivery_session_freed(const struct hx_session *session)
{
    struct hx_gateway *gateway = session->gateway;
    hx_list_for_each_safe (node, &gateway->deliveries) {
        struct hx_delivery_note *note = hx_container_of(node, struct hx_delivery_note, node);
        if (note->over != session)
            continue;
        note->over = NULL;
        if (note->wanted == HX_RECEIPT_OPEN)
            lose(gateway, note, false);
    }
}

bool hx_delivery_find_repeated(const struct hx_call *call, struct hx_id *ret_operation)
{
    const struct hx_gateway *gateway = call->gateway;
    if (gateway->losses_open == 0 && gateway->batch_answer_count == 0)
        return false;
    hx_list_for_each (node, &gateway->deliveries) {
        const struct hx_delivery_note *note = hx_container_of(node, struct hx_delivery_note, node);
        bool is_waiting =
            note->batch_answer != NULL && note->session == call->session &&
            hx_mono_since_ms(call->arrived.mono, note->arrived) >= call->wanted.contract.overlap_ms;
        if ((is_open_loss(note) || is_waiting) &&
            hx_digest_eq(&note->cold_record.twin, &call->wanted.twin)) {
            *ret_operation = note->operation;
            return true;
        }
    }
    return false;
}

bool hx_delivery_is_live(struct hx_gateway *gateway, const struct hx_id *operation)
{
    hx_list_for_each (node, &gateway->deliveries) {
        const struct hx_delivery_note *note = hx_container_of(node, struct hx_delivery_note, node);
        if (!hx_id_eq(&note->operation, operation))
            continue;
        if (note->wanted == HX_RECEIPT_SENT ||
            (note->wanted == HX_RECEIPT_OPEN && hx_session_hears(note->session, note->exchange)))
            return true;
    }
    return false;
}

static void was_read(struct hx_gateway *gateway, struct hx_delivery_note *note)
{
    bool was_open_loss = is_open_loss(note);
    if (note->wanted != HX_RECEIPT_OPEN && note->wanted != HX_RECEIPT_LOST)
        return;
    note->wanted = HX_RECEIPT_SENT;
    if (was_open_loss)
        gateway->losses_open--;
    store_receipt(gateway, note);
}

void hx_delivery_fate(struct hx_gateway *gateway, uint64_t tag, enum hx_peer_event_type fate)
{
    struct hx_span key = hx_span((const char *)&tag, sizeof(tag));
    struct hx_map_node *node = hx_map_find(&gateway->deliveries_by_tag, key);
    while (node != NULL) {
        /* The answers of a batch share its tag. */
        struct hx_map_node *next = hx_map_find_next(node);
        struct hx_delivery_note *note = hx_container_of(node, struct hx_delivery_note, by_tag);
        if (fate == HX_PEER_WRITTEN)
            was_read(gateway, note);
        else
            lose(gateway, note, fate == HX_PEER_TAKEN_BACK && note->exchange != 0);
        node = next;
    }
}

struct hx_delivery_note *hx_delivery_find(struct hx_session *session, const struct hx_rpc_id *id)
{
    struct hx_buf key;
    hx_buf_init(&key, HX_RPC_ID_MAX + 16);
    hx_rpc_id_key(id, &key);
    struct hx_map_node *node = hx_map_find(&session->answered, hx_buf_span(&key));
    hx_buf_fini(&key);
    /* Who numbers everything alike means the last that he asked. */
    for (struct hx_map_node *next = node; next != NULL; next = hx_map_find_next(next))
        node = next;
    return node ? hx_container_of(node, struct hx_delivery_note, by_id) : NULL;
}

void hx_delivery_front_gone(struct hx_session *session)
{
    struct hx_gateway *gateway = session->gateway;
    hx_list_for_each_safe (node, &gateway->deliveries) {
        struct hx_delivery_note *note = hx_container_of(node, struct hx_delivery_note, node);
        if (note->session == session &&
            hx_mono_since_ms(gateway->now.mono, note->sent) <= FRONT_DEATH_MS)
            hx_delivery_take_back(gateway, note);
    }
}

void hx_delivery_forget_old(struct hx_gateway *gateway)
{
    /* One that a client is slow to read does not keep all the later ones. */
    hx_list_for_each_safe (node, &gateway->deliveries) {
        struct hx_delivery_note *note = hx_container_of(node, struct hx_delivery_note, node);
        bool is_old = hx_mono_since_ms(gateway->now.mono, note->sent) > REMEMBERED_MS ||
                      gateway->delivery_count > REMEMBERED_MAX;
        bool is_settled = note->wanted != HX_RECEIPT_OPEN && note->stored == note->wanted;
        if (!is_old)
            break;
        if (is_settled && note->open_count == 0)
            hx_delivery_free(gateway, note);
    }
}

bool hx_delivery_has_unsaved(const struct hx_gateway *gateway)
{
    hx_list_for_each (node, &gateway->deliveries) {
        const struct hx_delivery_note *note = hx_container_of(node, struct hx_delivery_note, node);
        if (note->wanted != note->stored)
            return true;
    }
    return false;
}
