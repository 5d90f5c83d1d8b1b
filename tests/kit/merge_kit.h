/* SPDX-License-Identifier: MIT */
/*
 * A merge between a client and servers that are lines of a script. Nothing waits and nothing is
 * random, so that a conversation is a text:
 *
 *     c 7 TEXT     the client says this on exchange 7
 *     c gone 7     the exchange is gone
 *     0 < TEXT     server 0 gets exactly this, as its next message
 *     0 > TEXT     it answers: the open request of this id
 *     0 ! TEXT     it says this aside
 *     0 - ID       the engine lets go of the open request of this id without an answer
 *     0 x ID       its session had ended before it read that request
 *     0 over       its session is over
 *     k 7 TEXT     the client gets exactly this answer on exchange 7, as the next that it gets
 *     k TEXT       it gets this aside
 *     k done 7     exchange 7 is settled
 *
 * In texts "@1" stands for the first id that the merge makes for itself, and "~" for the member
 * "jsonrpc".
 */
#ifndef HX_TESTS_MERGE_KIT_H
#define HX_TESTS_MERGE_KIT_H

#include "adapter/merge/merge.h"

/* What came to the client, or to a server. */
struct merge_kit_word {
    struct hx_list node;
    enum { MERGE_KIT_ANSWER, MERGE_KIT_FAULT, MERGE_KIT_ASIDE, MERGE_KIT_SETTLED } kind;
    enum hx_peer_event_type type; /* to a server */
    uint64_t exchange;
    uint64_t tag;
    char *text; /* owned */
};

enum { MERGE_KIT_LEGS_MAX = 8 };

struct merge_kit_leg {
    struct hx_list got;  /* MESSAGE and other events, not looked at yet */
    struct hx_list open; /* requests that are not answered */
    uint64_t fates[4];   /* how many: WRITTEN, NOT_SENT, CUT, TAKEN_BACK */
    uint64_t last_fate_tag;
    bool is_over;
};

struct merge_kit {
    struct hx_downstream outer;
    struct hx_rand rand;
    struct hx_list outer_inbox;
    struct hx_list leg_inbox;
    struct hx_list said; /* to the client, not looked at yet */
    struct hx_merge *merge;
    size_t leg_count;
    struct merge_kit_leg legs[MERGE_KIT_LEGS_MAX];
    uint64_t next_tag;
    uint64_t last_outer_tag;
    bool is_closed;
    bool is_held;
    unsigned hold_count;
    uint64_t taken_back_later; /* of messages of legs that were over */
    uint64_t last_tag_later;
};

/* `servers`: "name=prefix" each, ended by NULL. `options` may be NULL. */
void merge_kit_init(struct merge_kit *kit, bool has_exchanges, const char *const *servers,
                    const struct hx_merge_options *options);
void merge_kit_fini(struct merge_kit *kit);

void merge_kit_client(struct merge_kit *kit, enum hx_peer_event_type type, uint64_t exchange,
                      uint64_t tag, const char *text);
void merge_kit_answer(struct merge_kit *kit, size_t leg, uint64_t exchange,
                      enum hx_sending_kind kind, const char *text);
void merge_kit_over(struct merge_kit *kit, size_t leg);
/* Sorts what is in the legs' inbox by leg. */
void merge_kit_collect(struct merge_kit *kit);
struct merge_kit_word *merge_kit_take(struct hx_list *words);
void merge_kit_word_free(struct merge_kit_word *word);

/* Runs lines until one does not come true. Returns its number, or 0; then there is nothing that no
 * line expected. */
int merge_kit_run(struct merge_kit *kit, const char *script);

#endif
