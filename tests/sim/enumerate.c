/* SPDX-License-Identifier: MIT */
/*
 * Every history of the small world of model.h, for each class of tool, with up to N crashes.
 *
 *   enumerate [CRASHES] [CLASS]
 *
 * A depth-first walk over all actions in all states; a state that was seen is not walked again, so
 * the number of states bounds the work and every history is covered. When an invariant breaks, the
 * actions that led there are printed, and the program ends with status 1.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "model.h"

enum { DEPTH_MAX = 400 };

struct seen {
    uint64_t key;     /* 0 = free */
    double histories; /* ways to go on from here to an end; -1 while it is being walked */
};

struct walk {
    struct seen *table;
    size_t capacity; /* a power of two */
    size_t states;
    size_t transitions;
    size_t ends;
    size_t longest;
};

static struct walk walk;
static struct action trail[DEPTH_MAX];
static unsigned trail_len;

static void print_trail(void)
{
    for (unsigned i = 0; i < trail_len; i++) {
        fprintf(stderr, "  %2u %-20s process %u, %u, variant %u\n", i + 1,
                action_name(trail[i].kind), trail[i].process, trail[i].row, trail[i].variant);
    }
}

void sim_fail(const char *invariant, const char *what)
{
    fprintf(stderr, "%s is broken: %s\nafter:\n", invariant, what);
    print_trail();
    exit(1);
}

static void on_abort(int number)
{
    (void)number;
    fprintf(stderr, "an assertion of the core failed after:\n");
    print_trail();
    _exit(1);
}

static struct seen *find(uint64_t key)
{
    size_t at = key & (walk.capacity - 1);
    while (walk.table[at].key != 0 && walk.table[at].key != key)
        at = (at + 1) & (walk.capacity - 1);
    return &walk.table[at];
}

static void grow(void)
{
    struct seen *old = walk.table;
    size_t old_capacity = walk.capacity;
    walk.capacity = old_capacity == 0 ? 1u << 16 : old_capacity * 2;
    walk.table = hx_new_bytes(walk.capacity * sizeof(struct seen));
    for (size_t i = 0; i < old_capacity; i++) {
        if (old[i].key != 0)
            *find(old[i].key) = old[i];
    }
    hx_free(old);
}

static uint64_t key_of(const struct world *world)
{
    uint64_t key = world_hash(world, 0x1234567u);
    return key != 0 ? key : 1;
}

static double explore(const struct world *world, uint64_t key);

/* One action from one state; adds to what is known of the state. Returns true if it was possible
 * and led anywhere. */
static bool follow(const struct world *world, uint64_t key, struct world *scratch,
                   struct action action, double *histories)
{
    trail[trail_len++] = action;
    if (trail_len == DEPTH_MAX)
        sim_fail("I24", "this goes on for ever");
    bool is_possible = world_act(scratch, action);
    bool is_move = false;
    if (is_possible) {
        uint64_t next = key_of(scratch);
        is_move = next != key;
        if (is_move) {
            walk.transitions++;
            *histories += explore(scratch, next);
        }
        *scratch = *world;
    }
    trail_len--;
    return is_move;
}

static double explore(const struct world *world, uint64_t key)
{
    struct seen *seen = find(key);
    if (seen->key != 0)
        return seen->histories > 0 ? seen->histories : 0;
    *seen = (struct seen){key, -1};
    if (++walk.states * 2 > walk.capacity)
        grow();
    if (trail_len > walk.longest)
        walk.longest = trail_len;
    struct world *scratch = hx_new(struct world);
    *scratch = *world;
    double histories = 0;
    bool must_go_on = false;
    for (int kind = 0; kind < ACT_KIND_COUNT; kind++) {
        struct action limits = action_limits((enum action_kind)kind);
        for (unsigned p = 0; p < limits.process; p++) {
            for (unsigned row = 0; row < limits.row; row++) {
                for (unsigned v = 0; v < limits.variant; v++) {
                    struct action action = {(enum action_kind)kind, (uint8_t)p, (uint8_t)row,
                                            (uint8_t)v};
                    bool is_move = follow(world, key, scratch, action, &histories);
                    must_go_on = must_go_on || (is_move && !action_is_optional(action.kind));
                }
            }
        }
    }
    hx_free(scratch);
    if (!must_go_on) {
        check_settled(world);
        walk.ends++;
        histories += 1;
    }
    find(key)->histories = histories;
    return histories;
}

static void run_class(const char *plan, enum hx_tool_class tool_class, struct budget budget)
{
    walk = (struct walk){0};
    grow();
    struct world *world = hx_new(struct world);
    world_init(world, tool_class, budget);
    double histories = explore(world, key_of(world));
    printf("%-14s %-10s %zu states, %zu steps, %.3g histories, %zu ends, longest %zu\n", plan,
           hx_tool_class_name(tool_class), walk.states, walk.transitions, histories, walk.ends,
           walk.longest);
    fflush(stdout);
    hx_free(world);
    walk.table = hx_free(walk.table);
}

int main(int argc, char **argv)
{
    unsigned crashes = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 2;
    if (crashes > 3) {
        fprintf(stderr, "usage: enumerate [CRASHES 0-3] [CLASS]\n");
        return 2;
    }
    signal(SIGABRT, on_abort);
    /* All faults at once are too many to walk, and say little more than these. */
    const uint8_t n = (uint8_t)crashes, few = crashes > 0, calls = crashes > 2 ? 2 : 1;
    const uint8_t resolve = 1 << VERB_CANCEL | 1 << VERB_HAPPENED | 1 << VERB_ABSENT;
    const uint8_t anew = 1 << VERB_AGAIN | 1 << VERB_RETRY;
    const struct {
        const char *name;
        struct budget budget;
    } plans[] = {
        {"crashes", {.crashes = n, .calls = 2}},
        {"time", {.crashes = few, .calls = calls, .jumps = 1}},
        {"refusals", {.crashes = few, .calls = calls, .not_sent = 1, .refusals = 1}},
        {"ledger errors", {.crashes = few, .calls = calls, .store_errors = 1}},
        {"people", {.crashes = few, .calls = calls, .verbs = 1, .verb_set = resolve}},
        {"successors",
         {.crashes = crashes > 2, .calls = 1, .verbs = 1, .verb_set = anew, .refusals = 1}},
    };
    static const enum hx_tool_class classes[] = {HX_CLASS_OPAQUE, HX_CLASS_IDEMPOTENT,
                                                 HX_CLASS_KEYED};
    unsigned passed = 0;
    for (unsigned plan = 0; plan < sizeof(plans) / sizeof(plans[0]); plan++) {
        for (unsigned i = 0; i < 3; i++) {
            if (argc > 2 && strcmp(argv[2], hx_tool_class_name(classes[i])) != 0)
                continue;
            run_class(plans[plan].name, classes[i], plans[plan].budget);
            passed++;
        }
    }
    printf("%u passed, 0 failed\n", passed);
    return passed > 0 ? 0 : 2;
}
