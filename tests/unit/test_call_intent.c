/* SPDX-License-Identifier: MIT */
/* What `hapax call` writes down: whatever fails, a call of which is said that nothing was sent is
 * not found by who takes up what is open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "app/call_intent.h"
#include "base/fault.h"
#include "nth.h"

struct world {
    char ledger[64];
    struct hx_call_intents intents;
    struct hx_arena arena;
    struct hx_call_hold hold;
    char *words[3];
    struct hx_call_intent intent;
};

static void world_init(struct world *world)
{
    static char call[] = "call", tool[] = "charge";
    *world = (struct world){.hold = {.fd = -1}, .words = {call, tool, NULL}};
    (void)snprintf(world->ledger, sizeof(world->ledger), "/tmp/hapax-intent-XXXXXX");
    assert_non_null(mkdtemp(world->ledger));
    hx_call_intents_init(&world->intents, world->ledger);
    hx_arena_init(&world->arena, 16 << 20);
    world->intent = (struct hx_call_intent){
        .key = HX_SPAN_INIT("order-17"),
        .server = HX_SPAN_INIT("bank"),
        .tool = HX_SPAN_INIT("charge"),
        .arguments = HX_SPAN_INIT("{}"),
        .first_sent = {.ms = 1700000000000},
        .directory = HX_SPAN_INIT("/"),
        .words = world->words,
        .word_count = 2,
    };
}

static size_t count_open(struct world *world)
{
    struct hx_call_intent *items;
    size_t count = 0, unread = 0;
    assert_int_equal(hx_call_intents_list(&world->intents, &(struct hx_call_name){0}, &world->arena,
                                          &items, &count, &unread),
                     0);
    assert_int_equal(unread, 0);
    return count;
}

static int keep(struct world *world)
{
    struct hx_call_intent known;
    return hx_call_intent_keep(&world->intents, &world->intent, &world->arena, &world->hold,
                               &known);
}

static void world_fini(struct world *world)
{
    char path[sizeof(world->hold.path)];
    hx_call_intent_release(&world->hold);
    if (count_open(world) > 0)
        assert_int_equal(hx_call_intent_forget(&world->intents, &world->intent), 0);
    (void)snprintf(path, sizeof(path), "%s", world->intents.directory);
    (void)rmdir(path);
    (void)rmdir(world->ledger);
    hx_arena_fini(&world->arena);
}

static void what_was_not_kept_is_not_there(void **state)
{
    unsigned refused = 0;
    bool has_fired = true;
    (void)state;
    for (unsigned long number = 1; has_fired; number++) {
        struct world world;
        world_init(&world);
        nth_arm(number);
        int rc = keep(&world);
        nth_disarm();
        has_fired = nth_fired()[0] != '\0';
        size_t count = count_open(&world);
        if (rc < 0 && count != 0)
            fail_msg("call %lu (%s): nothing was kept, it is said (%s), and it is there", number,
                     nth_fired(), hx_fault_last()->text);
        if (rc >= 0 && count != 1)
            fail_msg("call %lu (%s): it is not there", number, nth_fired());
        refused += rc < 0;
        world_fini(&world);
    }
    assert_true(refused >= 3); /* the directory, the file, and the name */
}

/* Whoever is told that it is gone tells a caller that nothing of it will run. */
static void what_is_said_to_be_gone_is_gone(void **state)
{
    unsigned refused = 0;
    bool has_fired = true;
    (void)state;
    for (unsigned long number = 1; has_fired; number++) {
        struct world world;
        world_init(&world);
        assert_int_equal(keep(&world), 0);
        nth_arm(number);
        bool is_gone = hx_call_intent_remove(&world.hold);
        nth_disarm();
        has_fired = nth_fired()[0] != '\0';
        if (is_gone && count_open(&world) != 0)
            fail_msg("call %lu (%s): it is there", number, nth_fired());
        refused += !is_gone;
        world_fini(&world);
    }
    assert_true(refused >= 2); /* the name, and the directory */
}

static void what_another_process_works_on_stays(void **state)
{
    struct world world;
    struct hx_call_hold other = {.fd = -1};
    struct hx_call_intent known;
    (void)state;
    world_init(&world);
    assert_int_equal(keep(&world), 0);
    assert_int_equal(
        hx_call_intent_keep(&world.intents, &world.intent, &world.arena, &other, &known),
        HX_CALL_INTENT_KNOWN);
    assert_false(hx_call_intent_remove(&world.hold));
    assert_int_equal(count_open(&world), 1);
    assert_true(hx_call_intent_remove(&other));
    assert_int_equal(count_open(&world), 0);
    world_fini(&world);
}

static size_t count_named(struct world *world, const char *tool, size_t *ret_unread)
{
    const struct hx_call_name name = {
        .key = world->intent.key, .server = world->intent.server, .tool = hx_span_cstr(tool)};
    struct hx_call_intent *items;
    size_t count = 0;
    assert_int_equal(
        hx_call_intents_list(&world->intents, &name, &world->arena, &items, &count, ret_unread), 0);
    return count;
}

static void a_key_names_a_call_of_one_tool(void **state)
{
    struct world world;
    struct hx_call_hold other = {.fd = -1};
    struct hx_call_intent known;
    size_t unread = 0;
    (void)state;
    world_init(&world);
    struct hx_call_intent ship = world.intent;
    ship.tool = HX_SPAN_LIT("ship");
    assert_int_equal(keep(&world), 0);
    assert_int_equal(count_named(&world, "ship", &unread), 0);
    assert_false(hx_call_intents_share(&world.intents, world.intent.key));
    assert_int_equal(hx_call_intent_keep(&world.intents, &ship, &world.arena, &other, &known), 0);
    assert_int_equal(count_named(&world, "ship", &unread), 1);
    assert_int_equal(count_named(&world, "charge", &unread), 1);
    assert_true(hx_call_intents_share(&world.intents, world.intent.key));
    assert_false(hx_call_intents_share(&world.intents, HX_SPAN_LIT("order-1")));
    assert_true(hx_call_intent_remove(&other));
    world_fini(&world);
}

static void what_cannot_be_read_is_counted(void **state)
{
    struct world world;
    char path[sizeof(world.intents.directory) + 16];
    size_t unread = 0;
    (void)state;
    world_init(&world);
    assert_int_equal(keep(&world), 0);
    (void)snprintf(path, sizeof(path), "%s/other.json", world.intents.directory);
    FILE *out = fopen(path, "we");
    assert_non_null(out);
    (void)fputs("{\"version\":2}", out);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(count_named(&world, "charge", &unread), 1);
    assert_int_equal(unread, 1);
    assert_int_equal(count_named(&world, "ship", &unread), 0);
    assert_int_equal(unread, 1);
    assert_int_equal(unlink(path), 0);
    world_fini(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_not_kept_is_not_there),
        cmocka_unit_test(what_is_said_to_be_gone_is_gone),
        cmocka_unit_test(what_another_process_works_on_stays),
        cmocka_unit_test(a_key_names_a_call_of_one_tool),
        cmocka_unit_test(what_cannot_be_read_is_counted),
    };
    return cmocka_run_group_tests_name("call_intent", tests, NULL, NULL);
}
