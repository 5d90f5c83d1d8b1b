/* SPDX-License-Identifier: MIT */
/*
 * For tests with real processes: a loop, an inbox, and the certainty that nothing is left behind.
 *
 * Every process that a test starts inherits an environment variable with a value of its own; after
 * the test no process on the host may carry it, and the test program may have no child left, dead
 * or alive.
 */
#ifndef HX_TESTS_PROCESS_KIT_H
#define HX_TESTS_PROCESS_KIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "loop/loop.h"
#include "port/peer.h"

struct process_kit {
    struct hx_loop *loop;
    struct hx_list inbox;
    struct hx_list seen; /* events in order, as far as a wait has looked */
    char mark[64];
    char dir[32]; /* a scratch directory, removed at the end */
};

void process_kit_init(struct process_kit *kit);
/* Asserts that nothing is left. */
void process_kit_fini(struct process_kit *kit);

/* How long a test waits before it fails: 15 s, or HX_KIT_LIMIT_MS where most waits are in vain. */
int64_t process_kit_wait_ms(void);
/* Runs the loop until `is_true`; fails the test when it waits in vain. */
void process_kit_until(struct process_kit *kit, bool (*is_true)(void *arg), void *arg,
                       const char *what);
/* Runs the loop until an event of this type is in the inbox, and takes it; earlier ones of other
 * types stay. The test owns it. */
struct hx_peer_event *process_kit_take(struct process_kit *kit, enum hx_peer_event_type type);
/* True when one is in the inbox now. */
bool process_kit_has(const struct process_kit *kit, enum hx_peer_event_type type);
/* Takes one and compares tag or line. */
void process_kit_expect_tag(struct process_kit *kit, enum hx_peer_event_type type, uint64_t tag);
void process_kit_expect_line(struct process_kit *kit, enum hx_peer_event_type type,
                             const char *line);
/* A line for send(). */
struct hx_buf process_kit_line(const char *text);
struct hx_buf process_kit_filled_line(size_t len);

/* Those of the living processes that carry the mark, at most `count_max` of them; returns how many
 * there are. */
size_t process_kit_list(const struct process_kit *kit, pid_t *ret_pids, size_t count_max);
size_t process_kit_count(const struct process_kit *kit);
/* The first of them whose command line holds `word`; 0 when there is none. */
pid_t process_kit_find(const struct process_kit *kit, const char *word);
/* Waits until none is left, without running the loop; fails the test after `limit_ms`. */
void process_kit_none_left(const struct process_kit *kit, int64_t limit_ms);

#endif
