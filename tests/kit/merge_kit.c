/* SPDX-License-Identifier: MIT */
#include "merge_kit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "wire/jsonrpc.h"

static const char own_id_start[] = "\"hx-0000000000000000-list-";

static struct merge_kit *kit_of(struct hx_downstream *outer)
{
    return hx_container_of(outer, struct merge_kit, outer);
}

static struct merge_kit_word *word_new(struct hx_list *words, struct hx_span text)
{
    struct merge_kit_word *word = hx_new(struct merge_kit_word);
    word->text = hx_span_strdup(text);
    hx_list_init(&word->node);
    hx_list_append(words, &word->node);
    return word;
}

void merge_kit_word_free(struct merge_kit_word *word)
{
    hx_list_unlink(&word->node);
    hx_free(word->text);
    hx_free(word);
}

struct merge_kit_word *merge_kit_take(struct hx_list *words)
{
    struct hx_list *node = hx_list_take_first(words);
    return node != NULL ? hx_container_of(node, struct merge_kit_word, node) : NULL;
}

static void free_words(struct hx_list *words)
{
    struct merge_kit_word *word;
    while ((word = merge_kit_take(words)) != NULL)
        merge_kit_word_free(word);
}

/* --- the client's end --- */

static void outer_send(struct hx_downstream *outer, struct hx_buf *line,
                       const struct hx_sending *sending)
{
    struct merge_kit *kit = kit_of(outer);
    struct merge_kit_word *word = word_new(&kit->said, hx_buf_span(line));

    word->kind = sending->kind == HX_SENDING_ASIDE   ? MERGE_KIT_ASIDE
                 : sending->kind == HX_SENDING_FAULT ? MERGE_KIT_FAULT
                                                     : MERGE_KIT_ANSWER;
    word->exchange = sending->exchange;
    word->tag = sending->tag;
    if (sending->tag != 0)
        kit->last_outer_tag = sending->tag;
    hx_buf_fini(line);
}

static uint64_t outer_queued(struct hx_downstream *outer)
{
    (void)outer;
    return 17;
}

static bool outer_is_alive(struct hx_downstream *outer, uint64_t exchange)
{
    (void)outer;
    return exchange != 99;
}

static void outer_hold(struct hx_downstream *outer, bool is_held)
{
    kit_of(outer)->is_held = is_held;
    kit_of(outer)->hold_count++;
}

static void outer_close(struct hx_downstream *outer)
{
    kit_of(outer)->is_closed = true;
}

static void outer_settle(struct hx_downstream *outer, uint64_t exchange, enum hx_settling settling)
{
    struct merge_kit_word *word = word_new(&kit_of(outer)->said, HX_SPAN_LIT(""));
    (void)settling;
    word->kind = MERGE_KIT_SETTLED;
    word->exchange = exchange;
}

static struct hx_span outer_stream_name(struct hx_downstream *outer, uint64_t exchange)
{
    (void)outer;
    return exchange == 7 ? HX_SPAN_LIT("stream-7") : HX_SPAN_NONE;
}

static void outer_stream_kept(struct hx_downstream *outer, uint64_t exchange)
{
    (void)outer;
    (void)exchange;
}

static const struct hx_downstream_ops plain_ops = {
    .send = outer_send,
    .queued_bytes = outer_queued,
    .is_reader_alive = outer_is_alive,
    .hold = outer_hold,
    .close = outer_close,
};
static const struct hx_downstream_ops exchange_ops = {
    .send = outer_send,
    .queued_bytes = outer_queued,
    .is_reader_alive = outer_is_alive,
    .hold = outer_hold,
    .close = outer_close,
    .settle = outer_settle,
    .stream_name = outer_stream_name,
    .stream_kept = outer_stream_kept,
};

static void fill_zero(struct hx_rand *rand, uint8_t *ret_bytes, size_t len)
{
    (void)rand;
    memset(ret_bytes, 0, len);
}

void merge_kit_init(struct merge_kit *kit, bool has_exchanges, const char *const *servers,
                    const struct hx_merge_options *given)
{
    struct hx_merge_options options = given != NULL ? *given : hx_merge_defaults();
    struct hx_merge_leg_options legs[MERGE_KIT_LEGS_MAX];

    *kit = (struct merge_kit){.next_tag = 1};
    hx_list_init(&kit->outer_inbox);
    hx_list_init(&kit->leg_inbox);
    hx_list_init(&kit->said);
    kit->rand.fill = fill_zero;
    kit->outer.ops = has_exchanges ? &exchange_ops : &plain_ops;
    kit->outer.inbox = &kit->outer_inbox;
    for (; servers[kit->leg_count] != NULL; kit->leg_count++) {
        struct hx_span both = hx_span_cstr(servers[kit->leg_count]);
        const char *cut = memchr(both.ptr, '=', both.len);
        size_t name_len = (size_t)(cut - both.ptr);
        legs[kit->leg_count] = (struct hx_merge_leg_options){
            .name = hx_span(both.ptr, name_len),
            .prefix = hx_span(cut + 1, both.len - name_len - 1),
        };
        hx_list_init(&kit->legs[kit->leg_count].got);
        hx_list_init(&kit->legs[kit->leg_count].open);
    }
    options.leg_inbox = &kit->leg_inbox;
    options.outer_inbox = &kit->outer_inbox;
    options.rand = &kit->rand;
    kit->merge = hx_merge_new(&options, &kit->outer, legs, kit->leg_count);
}

static void drop_events(struct hx_list *inbox)
{
    struct hx_list *node;
    while ((node = hx_list_take_first(inbox)) != NULL)
        hx_peer_event_free(hx_container_of(node, struct hx_peer_event, node));
}

void merge_kit_fini(struct merge_kit *kit)
{
    hx_merge_free(kit->merge);
    drop_events(&kit->outer_inbox);
    drop_events(&kit->leg_inbox);
    free_words(&kit->said);
    for (size_t i = 0; i < kit->leg_count; i++) {
        free_words(&kit->legs[i].got);
        free_words(&kit->legs[i].open);
    }
}

void merge_kit_client(struct merge_kit *kit, enum hx_peer_event_type type, uint64_t exchange,
                      uint64_t tag, const char *text)
{
    struct hx_peer_event *event = hx_peer_event_new(type, 0);

    event->downstream = &kit->outer;
    event->exchange = exchange;
    event->tag = tag;
    hx_assert(hx_buf_append_cstr(&event->line, text) == 0);
    hx_list_append(kit->outer.inbox, &event->node);
    hx_assert(hx_merge_take(&kit->outer_inbox));
    merge_kit_collect(kit);
}

/* --- the servers' ends --- */

static void take_event(struct merge_kit *kit, const struct hx_peer_event *event)
{
    struct merge_kit_leg *leg = NULL;
    if (event->downstream == NULL) {
        hx_assert(event->type == HX_PEER_TAKEN_BACK);
        kit->taken_back_later++;
        kit->last_tag_later = event->tag;
        return;
    }
    for (size_t i = 0; i < kit->leg_count; i++) {
        if (hx_merge_leg(kit->merge, i) == event->downstream)
            leg = &kit->legs[i];
    }
    hx_assert(leg != NULL && !leg->is_over);
    if (event->type == HX_PEER_WRITTEN || event->type == HX_PEER_NOT_SENT ||
        event->type == HX_PEER_CUT || event->type == HX_PEER_TAKEN_BACK) {
        leg->fates[event->type == HX_PEER_TAKEN_BACK ? 3 : event->type - HX_PEER_WRITTEN]++;
        leg->last_fate_tag = event->tag;
        return;
    }
    if (event->type == HX_PEER_EXCHANGE_GONE) {
        hx_list_for_each_safe (node, &leg->open) {
            struct merge_kit_word *open = hx_container_of(node, struct merge_kit_word, node);
            if (open->exchange == event->exchange)
                merge_kit_word_free(open);
        }
    }
    struct merge_kit_word *got = word_new(&leg->got, hx_buf_span(&event->line));
    got->type = event->type;
    got->exchange = event->exchange;
    if (event->exchange != 0 && (event->type == HX_PEER_MESSAGE || event->type == HX_PEER_RESUME)) {
        struct merge_kit_word *open = word_new(&leg->open, hx_buf_span(&event->line));
        open->exchange = event->exchange;
    }
}

void merge_kit_collect(struct merge_kit *kit)
{
    struct hx_list *node;
    while ((node = hx_list_take_first(&kit->leg_inbox)) != NULL) {
        struct hx_peer_event *event = hx_container_of(node, struct hx_peer_event, node);
        take_event(kit, event);
        hx_peer_event_free(event);
    }
}

void merge_kit_answer(struct merge_kit *kit, size_t leg, uint64_t exchange,
                      enum hx_sending_kind kind, const char *text)
{
    struct hx_downstream *downstream = hx_merge_leg(kit->merge, leg);
    struct hx_buf line;

    hx_buf_init(&line, 1 << 20);
    hx_assert(hx_buf_append_cstr(&line, text) == 0);
    downstream->ops->send(
        downstream, &line,
        &(struct hx_sending){.tag = kit->next_tag++, .exchange = exchange, .kind = kind});
    hx_buf_fini(&line);
    merge_kit_collect(kit);
}

void merge_kit_over(struct merge_kit *kit, size_t leg)
{
    merge_kit_collect(kit);
    kit->legs[leg].is_over = true;
    free_words(&kit->legs[leg].open);
    hx_merge_leg_over(kit->merge, hx_merge_leg(kit->merge, leg));
    merge_kit_collect(kit);
}

/* --- scripts --- */

/* "@12" becomes the id that the merge makes for the twelfth time, "~" what every message has. */
static char *expand(const char *text)
{
    struct hx_buf out;
    hx_buf_init(&out, 1 << 20);
    while (*text != '\0') {
        if (text[0] == '@' && text[1] >= '0' && text[1] <= '9') {
            char *end;
            unsigned long number = strtoul(text + 1, &end, 10);
            hx_assert(hx_buf_printf(&out, "%s%lu\"", own_id_start, number) == 0);
            text = end;
        } else if (text[0] == '~') {
            hx_assert(hx_buf_append_cstr(&out, "\"jsonrpc\":\"2.0\"") == 0);
            text++;
        } else {
            hx_assert(hx_buf_append_char(&out, *text++) == 0);
        }
    }
    char *copy = hx_span_strdup(hx_buf_span(&out));
    hx_buf_fini(&out);
    return copy;
}

static bool has_id(const char *text, const struct hx_rpc_id *id)
{
    struct hx_json_limits limits = HX_JSON_LIMITS_DEFAULT;
    struct hx_json_tape tape;
    struct hx_arena arena;
    struct hx_rpc_msg msg;

    hx_json_tape_init(&tape);
    hx_arena_init(&arena, 1 << 20);
    bool is_it = hx_rpc_read(&tape, hx_span_cstr(text), &limits, &arena, &msg) == 0 &&
                 msg.id.type != HX_RPC_ID_NONE && hx_rpc_id_eq(&msg.id, id);
    hx_json_tape_fini(&tape);
    hx_arena_fini(&arena);
    return is_it;
}

/* The open request of that raw id; takes it. */
static struct merge_kit_word *take_open(struct merge_kit_leg *leg, struct hx_span raw_id)
{
    struct hx_rpc_id id = hx_rpc_id_parse(raw_id);
    hx_list_for_each (node, &leg->open) {
        struct merge_kit_word *open = hx_container_of(node, struct merge_kit_word, node);
        if (has_id(open->text, &id)) {
            hx_list_unlink(&open->node);
            return open;
        }
    }
    return NULL;
}

static bool leg_answers(struct merge_kit *kit, size_t at, const char *text)
{
    struct hx_json_limits limits = HX_JSON_LIMITS_DEFAULT;
    struct hx_json_tape tape;
    struct hx_arena arena;
    struct hx_rpc_msg msg;

    hx_json_tape_init(&tape);
    hx_arena_init(&arena, 1 << 20);
    hx_assert(hx_rpc_read(&tape, hx_span_cstr(text), &limits, &arena, &msg) == 0);
    struct merge_kit_word *open = take_open(&kit->legs[at], msg.id.raw);
    if (open != NULL) {
        merge_kit_answer(kit, at, open->exchange, HX_SENDING_ANSWER, text);
        merge_kit_word_free(open);
    }
    hx_json_tape_fini(&tape);
    hx_arena_fini(&arena);
    return open != NULL;
}

static bool leg_settles(struct merge_kit *kit, size_t at, const char *raw_id,
                        enum hx_settling settling)
{
    struct merge_kit_word *open = take_open(&kit->legs[at], hx_span_cstr(raw_id));
    struct hx_downstream *leg = hx_merge_leg(kit->merge, at);
    if (open == NULL)
        return false;
    leg->ops->settle(leg, open->exchange, settling);
    merge_kit_word_free(open);
    merge_kit_collect(kit);
    return true;
}

static bool is_expected(const char *expected, struct merge_kit_word *word)
{
    bool is_it = word != NULL && strcmp(word->text, expected) == 0;
    if (!is_it)
        fprintf(stderr, "  expected: %s\n  actual:   %s\n", expected,
                word != NULL ? word->text : "(nothing)");
    if (word != NULL)
        merge_kit_word_free(word);
    return is_it;
}

static bool run_leg(struct merge_kit *kit, size_t at, const char *line)
{
    if (strcmp(line, "over") == 0) {
        merge_kit_over(kit, at);
        return true;
    }
    if (strncmp(line, "< ", 2) == 0)
        return is_expected(line + 2, merge_kit_take(&kit->legs[at].got));
    if (strncmp(line, "> ", 2) == 0)
        return leg_answers(kit, at, line + 2);
    if (strncmp(line, "- ", 2) == 0)
        return leg_settles(kit, at, line + 2, HX_SETTLING_TAKEN);
    if (strncmp(line, "x ", 2) == 0)
        return leg_settles(kit, at, line + 2, HX_SETTLING_UNREAD);
    if (strncmp(line, "! ", 2) == 0) {
        merge_kit_answer(kit, at, 0, HX_SENDING_ASIDE, line + 2);
        return true;
    }
    return false;
}

static bool run_client(struct merge_kit *kit, const char *line)
{
    char *text;
    bool is_gone = strncmp(line, "gone ", 5) == 0;
    uint64_t exchange = strtoull(is_gone ? line + 5 : line, &text, 10);

    text += *text == ' ';
    merge_kit_client(kit, is_gone ? HX_PEER_EXCHANGE_GONE : HX_PEER_MESSAGE, exchange, 0, text);
    return true;
}

static bool run_said(struct merge_kit *kit, const char *line)
{
    struct merge_kit_word *word = merge_kit_take(&kit->said);
    char *end;

    if (strncmp(line, "done ", 5) == 0) {
        uint64_t exchange = strtoull(line + 5, &end, 10);
        bool is_it = word != NULL && word->kind == MERGE_KIT_SETTLED && word->exchange == exchange;
        if (!is_it)
            fprintf(stderr, "  expected: done %" PRIu64 "\n  actual:   %s\n", exchange,
                    word != NULL ? word->text : "(nothing)");
        if (word != NULL)
            merge_kit_word_free(word);
        return is_it;
    }
    bool is_answer = line[0] >= '0' && line[0] <= '9';
    uint64_t exchange = is_answer ? strtoull(line, &end, 10) : 0;
    if (word != NULL && (is_answer != (word->kind <= MERGE_KIT_FAULT) ||
                         (is_answer && word->exchange != exchange))) {
        fprintf(stderr, "  on exchange %" PRIu64 ", kind %d\n", word->exchange, word->kind);
        (void)is_expected(is_answer ? end + 1 : line, word);
        return false;
    }
    return is_expected(is_answer ? end + 1 : line, word);
}

static bool run_line(struct merge_kit *kit, const char *line)
{
    if (strncmp(line, "c ", 2) == 0)
        return run_client(kit, line + 2);
    if (strncmp(line, "k ", 2) == 0)
        return run_said(kit, line + 2);
    return line[0] >= '0' && line[0] < '0' + (int)kit->leg_count && line[1] == ' ' &&
           run_leg(kit, (size_t)(line[0] - '0'), line + 2);
}

static bool is_all_looked_at(struct merge_kit *kit)
{
    bool is_clean = true;
    struct merge_kit_word *word;
    while ((word = merge_kit_take(&kit->said)) != NULL) {
        fprintf(stderr, "  the client also got: kind %d, %" PRIu64 " %s\n", word->kind,
                word->exchange, word->text);
        merge_kit_word_free(word);
        is_clean = false;
    }
    for (size_t i = 0; i < kit->leg_count; i++) {
        while ((word = merge_kit_take(&kit->legs[i].got)) != NULL) {
            fprintf(stderr, "  server %zu also got: %s\n", i, word->text);
            merge_kit_word_free(word);
            is_clean = false;
        }
    }
    return is_clean;
}

int merge_kit_run(struct merge_kit *kit, const char *script)
{
    int number = 0;
    while (*script != '\0') {
        size_t len = strcspn(script, "\n");
        char *raw = hx_span_strdup(hx_span(script, len));
        char *line = expand(raw);
        bool is_true = len == 0 || run_line(kit, line);
        number++;
        if (!is_true)
            fprintf(stderr, "  line %d: %s\n", number, line);
        hx_free(raw);
        hx_free(line);
        if (!is_true)
            return number;
        script += len + (script[len] == '\n');
    }
    return is_all_looked_at(kit) ? 0 : number + 1;
}
