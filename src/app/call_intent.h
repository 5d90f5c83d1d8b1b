/* SPDX-License-Identifier: MIT */
/*
 * What `hapax call` writes down before it asks anything: the key, the tool, the exact bytes of the
 * arguments, when it was first meant, and how the target is reached. One file per call, in the
 * directory "calls" beside the ledger, synced; it goes when its caller has been given the answer.
 * So the files are the list of what is open, and any later process can go on with one.
 *
 * The target is kept as the words that named it. A secret does not stand among them unless
 * somebody wrote it there: headers come from --headers-file, by name.
 */
#ifndef HX_APP_CALL_INTENT_H
#define HX_APP_CALL_INTENT_H

#include "base/arena.h"
#include "base/time.h"

/* Texts have a NUL behind them. */
struct hx_call_intent {
    struct hx_span key;
    struct hx_span server;
    struct hx_span tool;
    struct hx_span arguments; /* raw JSON */
    struct hx_wall first_sent;
    struct hx_span directory; /* the working directory */
    char **words;             /* of the command line, without the arguments; ended by NULL */
    int word_count;
};

struct hx_call_intents {
    char directory[4096];
};

/* `ledger` is the ledger's directory. */
void hx_call_intents_init(struct hx_call_intents *intents, const char *ledger);

#define HX_CALL_INTENT_KNOWN 1 /* it is there already; *ret_known is what it says */

/* One that is held: nobody takes its file away, and nobody else knows that we gave it up. */
struct hx_call_hold {
    int fd;
    char path[4096 + 80];
};

#define HX_CALL_INTENT_STAYS 2 /* it is there, and may not be begun; the fault says why */

/* Writes and holds it. 0, HX_CALL_INTENT_KNOWN (held too), HX_CALL_INTENT_STAYS (not held), or an
 * error with a fault: then this left nothing that somebody could take up. */
int hx_call_intent_keep(const struct hx_call_intents *intents, const struct hx_call_intent *intent,
                        struct hx_arena *arena, struct hx_call_hold *ret_hold,
                        struct hx_call_intent *ret_known) HX_MUST_CHECK;
/* Nothing is open any more. Left where it is while another process holds it too. Returns whether it
 * is gone for good; a caller who said that nothing of it will run must know. */
bool hx_call_intent_remove(struct hx_call_hold *hold);
void hx_call_intent_release(struct hx_call_hold *hold);

/* What names a call that is open. In a search each may be absent, and stands for any then. */
struct hx_call_name {
    struct hx_span key;
    struct hx_span server;
    struct hx_span tool;
    bool is_shared; /* there are others under its key */
};

/* The open ones of this name, oldest first, into the arena. *ret_unread: how many are there that
 * cannot be read, and may have the name; nobody may call such a one settled. 0, or an error with a
 * fault. */
int hx_call_intents_list(const struct hx_call_intents *intents, const struct hx_call_name *name,
                         struct hx_arena *arena, struct hx_call_intent **ret_items,
                         size_t *ret_count, size_t *ret_unread) HX_MUST_CHECK;
/* Are there several under this key, as far as that can be told? */
bool hx_call_intents_share(const struct hx_call_intents *intents, struct hx_span key);
/* Forgets it: 0, or an error. */
int hx_call_intent_forget(const struct hx_call_intents *intents,
                          const struct hx_call_intent *intent) HX_MUST_CHECK;

#endif
