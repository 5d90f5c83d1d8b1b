/* SPDX-License-Identifier: MIT */
/*
 * Small histories written by hand, each the core of one that a seed has found. The checks of the
 * simulator run in all of them; a broken promise ends the program with the trace.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "sim/scenario_kit.h"

/* Seeds 12 and 24. */
static void a_request_that_comes_twice_acts_once(void **state)
{
    (void)state;
    struct sim *sim = begin();
    sim->weather.double_send = 1000; /* the second copy up to 900 ms later */
    want(sim, 1, SIM_PAY, "");
    sim_run_for(sim, 2000);
    assert_int_equal(effects(sim), 1);
    assert_true(answers(sim, 1) >= 1);
    end(sim);
}

/* Seed 30255: the id of a promise is remembered as well. */
static void a_request_that_comes_twice_after_a_promise_acts_once(void **state)
{
    (void)state;
    struct sim *sim = begin();
    the_tool_works();
    tool.style = SIM_ANSWER_GARBAGE;
    sim->weather.double_send = 1000;
    want(sim, 1, SIM_NOTE, "");
    sim_run_for(sim, 2000);
    assert_int_equal(effects(sim), 1);
    end(sim);
}

/* Seed 5370: the first copy left it unknown, and a person wants it done again before the second. */
static void a_request_that_comes_twice_may_run_a_successor(void **state)
{
    (void)state;
    struct sim *sim = begin();
    sim->contracts[SIM_PAY].timeout_ms = 1000;
    sim->hosts[3].can_elicit = true;
    sim->person_says = "leave";
    sim_host_connect(sim, &sim->hosts[3]);
    sim_run_for(sim, 500);
    the_tool_is_silent(-1);
    uint32_t number = want(sim, 1, SIM_PAY, "");
    sim_run_for(sim, 3000);
    assert_int_equal(answers(sim, 1), 1);
    assert_int_equal(last_row(sim)->state, HX_OP_UNKNOWN);
    sim->weather.double_send = 1000;
    sim_host_call(sim, &sim->hosts[3], sim_intent_get(sim, number), false);
    while (answers(sim, 2) == 0)
        sim_run_for(sim, 1);
    assert_int_equal(sim_call_get(sim, 2)->arrivals, 1);
    the_tool_works();
    sim->person_says = "again";
    sim_run_for(sim, 2000);
    assert_int_equal(answers(sim, 2), 2); /* a note in it would have been judged */
    assert_int_equal(effects(sim), 1);
    assert_int_equal(last_row(sim)->generation, 1);
    assert_int_equal(sim_call_get(sim, 2)->replays, 0);
    end(sim);
}

/* Seed 942: what is durable only in the spool is a replay for the second copy. */
static void a_spooled_outcome_is_replayed(void **state)
{
    (void)state;
    struct sim *sim = begin();
    sim->weather.double_send = 1000;
    want(sim, 1, SIM_PAY, "");
    while (sim->run_count == 0)
        sim_run_for(sim, 1);
    hx_memory_ledger_break(sim->ledger, true, false);
    while (answers(sim, 1) == 0)
        sim_run_for(sim, 1);
    assert_int_equal(sim_call_get(sim, 1)->arrivals, 1);
    assert_int_equal(sim->marks[SIM_SPOOLED], 1);
    sim_run_for(sim, 1000);
    assert_int_equal(answers(sim, 1), 2);
    assert_int_equal(sim->marks[SIM_SPOOLED], 2);
    assert_int_equal(sim_call_get(sim, 1)->replays, 1); /* the second; the first was its own */
    assert_int_equal(effects(sim), 1);
    hx_memory_ledger_break(sim->ledger, false, false);
    sim_run_for(sim, 3000);
    assert_int_equal(last_row(sim)->state, HX_OP_SUCCEEDED);
    end(sim);
}

/* Seed 30: the receipt of the first answer meets a full disk. */
static void a_refused_receipt_makes_no_repeat_of_a_wanted_call(void **state)
{
    (void)state;
    struct sim *sim = begin();
    want(sim, 1, SIM_PAY, "");
    sim_run_for(sim, 15); /* answered; what became of the answer is not written yet */
    hx_memory_ledger_fail_at(sim->ledger, 1, HX_MEMORY_REFUSE);
    sim_run_for(sim, 3000);
    want(sim, 2, SIM_PAY, "");
    sim_run_for(sim, 1000);
    assert_int_equal(effects(sim), 2);
    end(sim);
}

/* The same for a neighbour who asks before the receipt is written. */
static void an_answer_given_a_moment_ago_is_no_lost_one(void **state)
{
    (void)state;
    struct sim *sim = begin();
    want(sim, 1, SIM_PAY, "");
    while (sim->call_count == 0 || answers(sim, 1) == 0)
        sim_run_for(sim, 1);
    want(sim, 2, SIM_PAY, "");
    sim_run_for(sim, 1000);
    assert_int_equal(effects(sim), 2);
    end(sim);
}

/* Seed 6128: the keeper leaves while the ledger does not take that its last answer was lost. */
static void a_keeper_that_leaves_says_what_became_of_its_answers(void **state)
{
    (void)state;
    struct sim *sim = begin();
    sim->hosts[1].is_slow = true;
    uint32_t number = want(sim, 1, SIM_PAY, "");
    while (sim->call_count == 0 || answers(sim, 1) == 0)
        sim_run_for(sim, 1);
    hx_memory_ledger_break(sim->ledger, true, true);
    sim_host_hang_up(sim, &sim->hosts[1], SIM_CLOSE_PIPES); /* the answer is unread */
    sim_run_for(sim, 3000);
    hx_memory_ledger_break(sim->ledger, false, false);
    sim_run_for(sim, 4000);
    struct sim_intent *intent = sim_intent_get(sim, number);
    intent->state = SIM_INTENT_PLANNED;
    sim_host_begin(sim, intent);
    sim_run_for(sim, 3000);
    assert_int_equal(sim_intent_get(sim, number)->effects, 1);
    end(sim);
}

/* Seed 258021: the machine stops when the ledger has known for long that an answer was lost, and
 * only the receipt before it went with a commit that was synced. */
static void a_loss_survives_the_machine(void **state)
{
    (void)state;
    struct sim *sim = begin();
    sim->hosts[1].is_slow = true;
    uint32_t number = want(sim, 1, SIM_PAY, "");
    while (sim->call_count == 0 || answers(sim, 1) == 0)
        sim_run_for(sim, 1);
    sim_run_for(sim, 20); /* the receipt is written */
    want(sim, 2, SIM_NOTE, "");
    sim_run_for(sim, 40);
    assert_int_equal(answers(sim, 2), 1);
    sim_host_hang_up(sim, &sim->hosts[1], SIM_CLOSE_PIPES); /* the answer is unread */
    sim_run_for(sim, 10000);
    sim_host_crash(sim);
    sim_run_for(sim, 5000);
    want_again(sim, number);
    sim_run_for(sim, 3000);
    assert_int_equal(sim_intent_get(sim, number)->effects, 1);
    end(sim);
}

/* A key takes a keyless call over while a person says that it is to be done again. */
static void give_a_key_during_a_decision(int64_t after_ms)
{
    struct sim *sim = begin();
    sim->contracts[SIM_PAY].timeout_ms = 1000;
    sim->hosts[3].can_elicit = true;
    sim->person_says = "again";
    sim_host_connect(sim, &sim->hosts[3]);
    sim_run_for(sim, 500);
    sim->script_disk_ms = 20;
    the_tool_is_silent(-1);
    want(sim, 3, SIM_PAY, "");
    sim_run_for(sim, 1000 + after_ms);
    the_tool_works();
    want(sim, 3, SIM_PAY, "key-1");
    sim_run_for(sim, 30 * 1000);
    assert_int_equal(answers(sim, 2), 1);
    assert_null(sim_look_idle(sim_life_find(sim, sim->hosts[3].life)->gateway));
    end(sim);
}

/* Seed 18931: the two had different names then, and who followed from the one to the other came
 * back to where he was, without end. */
static void who_follows_finds_the_successor_under_any_name(void **state)
{
    (void)state;
    for (int64_t after_ms = 0; after_ms <= 240; after_ms += 4)
        give_a_key_during_a_decision(after_ms);
}

/* Seed 30548: the server of one process cannot be had when that of another has got the call. */
static void nothing_sent_is_said_of_the_row_as_it_is(void **state)
{
    (void)state;
    struct sim *sim = begin();
    tool.is_refused = true; /* later */
    uint32_t number = want(sim, 1, SIM_PAY, "key-1");
    sim_run_for(sim, 100);
    assert_int_equal(last_row(sim)->state, HX_OP_READY);
    sim->weather.bad_start = 1000;
    sim->weather.slow_start = 1000;
    sim_process_die(sim, sim_process_find(sim, sim_run_get(sim, 1)->process), 9);
    the_tool_works();
    tool.answer_ms = 60 * 1000;
    sim_run_for(sim, 1000);
    sim_host_call(sim, &sim->hosts[2], sim_intent_get(sim, number), false);
    sim_run_for(sim, 20 * 1000);
    assert_int_equal(effects(sim), 1);
    end(sim);
}

static void look_for_a_silent_one(struct sim *sim, int64_t act_ms)
{
    the_tool_is_probed(sim);
    the_tool_is_silent(act_ms);
    want(sim, 1, SIM_BANK, "key-1");
    sim_run_for(sim, 1500);
    assert_int_equal(last_row(sim)->state, HX_OP_UNKNOWN);
}

static void a_probe_finds_what_was_lost(void **state)
{
    (void)state;
    struct sim *sim = begin();
    look_for_a_silent_one(sim, 5);
    sim_run_for(sim, 20 * 1000);
    assert_int_equal(last_row(sim)->state, HX_OP_SUCCEEDED);
    assert_int_equal(sim->marks[SIM_PROBE_FOUND], 1);
    assert_int_equal(answers(sim, 1), 1);
    assert_int_equal(effects(sim), 1);
    end(sim);
}

/* The process that got it lives, and could still act, however long nothing is found. */
static void nothing_found_proves_nothing_while_the_server_lives(void **state)
{
    (void)state;
    struct sim *sim = begin();
    look_for_a_silent_one(sim, 40 * 60 * 1000);
    sim_run_for(sim, 30 * 60 * 1000);
    assert_true(sim->marks[SIM_PROBED] > 3);
    assert_int_equal(last_row(sim)->state, HX_OP_UNKNOWN);
    sim_process_die(sim, sim_process_find(sim, sim_run_get(sim, 1)->process), 9);
    sim_run_for(sim, 30 * 60 * 1000);
    assert_int_equal(last_row(sim)->state, HX_OP_FAILED);
    assert_int_equal(sim->marks[SIM_PROBE_ABSENT], 1);
    assert_int_equal(effects(sim), 0);
    end(sim);
}

/* An answer that is longer than a message may be is an outcome, but not when it is the probe's. */
static void a_long_answer_of_a_probe_says_nothing(void **state)
{
    (void)state;
    struct sim *sim = begin();
    sim->is_script_long = true;
    look_for_a_silent_one(sim, -1);
    sim_run_for(sim, 60 * 1000);
    assert_true(sim->marks[SIM_PROBE_UNCLEAR] > 1);
    assert_int_equal(last_row(sim)->state, HX_OP_UNKNOWN);
    end(sim);
}

/* Seeds 895 and 1105: two processes look for it, and one of them finds out. */
static void who_waits_hears_what_another_process_found_out(void **state)
{
    (void)state;
    struct sim *sim = begin();
    look_for_a_silent_one(sim, 5);
    sim_life_kill(sim_life_find(sim, sim->hosts[1].life)); /* so nobody is told by its owner */
    sim_host_connect(sim, &sim->hosts[3]);
    sim_run_for(sim, 500);
    sim->script_deaf = sim->hosts[2].life;
    sim_host_call(sim, &sim->hosts[2], sim_intent_get(sim, 1), false);
    sim_host_call(sim, &sim->hosts[3], sim_intent_get(sim, 1), false);
    sim_run_for(sim, 1000);
    assert_int_equal(answers(sim, 2), 0);
    for (int i = 0; i < 20000 && last_row(sim)->state == HX_OP_UNKNOWN; i++)
        sim_run_for(sim, 1);
    assert_int_equal(last_row(sim)->state, HX_OP_SUCCEEDED);
    sim_run_for(sim, 1000);
    assert_int_equal(answers(sim, 2), 1);
    end(sim);
}

/* Seeds 217 and 690: a claim on a row that is there already, and no mark. */
static void a_mark_that_cannot_be_written_gives_the_claim_back(void **state)
{
    (void)state;
    struct sim *sim = begin();
    tool.is_refused = true;
    uint32_t number = want(sim, 1, SIM_PAY, "key-1");
    sim_run_for(sim, 100); /* refused for a second */
    sim_host_cancel(sim, sim_call_get(sim, 1));
    sim_run_for(sim, 3000);
    assert_int_equal(last_row(sim)->state, HX_OP_READY);
    the_tool_works();
    hx_memory_ledger_fail_at(sim->ledger, 2, HX_MEMORY_REFUSE); /* claim, mark */
    sim_intent_get(sim, number)->state = SIM_INTENT_PLANNED;
    sim_host_begin(sim, sim_intent_get(sim, number));
    sim_run_for(sim, 100);
    assert_int_equal(effects(sim), 0);
    sim_run_for(sim, 5000);
    assert_int_equal(last_row(sim)->state, HX_OP_READY);
    end(sim);
}

/* Seed 9. */
static void a_person_who_never_answers_keeps_no_call_open(void **state)
{
    (void)state;
    struct sim *sim = begin();
    sim->contracts[SIM_PAY].timeout_ms = 1000;
    sim->hosts[3].can_elicit = true;
    sim->is_person_away = true;
    sim_host_connect(sim, &sim->hosts[3]);
    sim_run_for(sim, 500);
    the_tool_is_silent(5);
    want(sim, 3, SIM_PAY, "key-1");
    sim_run_for(sim, 10 * 60 * 1000);
    assert_int_equal(answers(sim, 1), 0);
    sim_run_for(sim, 6 * 60 * 1000);
    assert_int_equal(answers(sim, 1), 1);
    end(sim);
}

/* Seed 29816: a key that took over a successor. */
static void a_key_that_took_over_a_successor_still_conflicts(void **state)
{
    (void)state;
    struct sim *sim = begin();
    sim->contracts[SIM_PAY].timeout_ms = 1000;
    sim->hosts[3].can_elicit = true;
    sim_host_connect(sim, &sim->hosts[3]);
    sim_run_for(sim, 500);
    the_tool_is_silent(-1);
    sim->person_says = "again"; /* first generation: superseded by the second, unknown as well */
    want(sim, 3, SIM_PAY, "");
    sim_run_for(sim, 1500);
    sim->person_says = "leave";
    sim_run_for(sim, 3000);
    assert_int_equal(last_row(sim)->state, HX_OP_UNKNOWN);
    assert_int_equal(last_row(sim)->generation, 1);
    uint32_t keyed = want(sim, 3, SIM_PAY, "key-1");
    sim_run_for(sim, 3000);
    assert_int_equal(last_row(sim)->key_source, HX_KEY_META);
    assert_int_equal(last_row(sim)->generation, 1);
    the_tool_works();
    sim_host_call(sim, &sim->hosts[2], sim_intent_get(sim, keyed), true);
    sim_run_for(sim, 3000);
    assert_int_equal(sim->marks[SIM_CONFLICT], 1);
    end(sim);
}

/* Seed 110: attempts that were given up while their requests stood behind a line half out. */
static void a_queue_behind_a_stalled_server_ends_without_harm(void **state)
{
    (void)state;
    struct sim *sim = begin();
    sim->contracts[SIM_PAY].timeout_ms = 1000;
    sim->weather.stall = 1000;
    want(sim, 1, SIM_PAY, "key-1");
    sim_run_for(sim, 100);
    sim->weather.stall = 0;
    want(sim, 1, SIM_PAY, "key-2");
    sim_run_for(sim, 3 * 60 * 1000);
    assert_true(answers(sim, 1) >= 1);
    assert_true(answers(sim, 2) >= 1);
    assert_int_equal(effects(sim), 0);
    end(sim);
}

/* Seeds 21 and 31: what a dead server leaves in memory is not answered from there. */
static void what_another_process_found_out_is_told(void **state)
{
    (void)state;
    struct sim *sim = begin();
    sim->contracts[SIM_PAY].timeout_ms = 1000;
    the_tool_works();
    tool.answer_ms = 5000; /* late: unknown by then, and evidence when it comes */
    uint32_t number = want(sim, 1, SIM_PAY, "key-1");
    sim_run_for(sim, 2000);
    assert_int_equal(last_row(sim)->state, HX_OP_UNKNOWN);
    sim_intent_get(sim, number)->host = 2;
    sim_intent_get(sim, number)->state = SIM_INTENT_PLANNED;
    sim_host_begin(sim, sim_intent_get(sim, number)); /* the other gateway sees "unknown" */
    sim_run_for(sim, 5000);
    assert_int_equal(last_row(sim)->state, HX_OP_SUCCEEDED);
    sim_intent_get(sim, number)->state = SIM_INTENT_PLANNED;
    sim_host_begin(sim, sim_intent_get(sim, number));
    sim_run_for(sim, 1000);
    assert_true(sim_intent_get(sim, number)->was_told_success);
    end(sim);
}

/* The simulated gateways take four waiters. */
static void more_waiters_than_allowed_are_told_busy(void **state)
{
    (void)state;
    struct sim *sim = begin();
    tool.act_ms = 5;
    tool.answer_ms = 3000;
    uint32_t number = want(sim, 1, SIM_PAY, "key-1");
    for (int i = 0; i < 7; i++) {
        sim_run_for(sim, 50);
        sim_host_call(sim, &sim->hosts[1], sim_intent_get(sim, number), false);
    }
    sim_run_for(sim, 500);
    assert_int_equal(sim->marks[SIM_BUSY], 4);
    sim_run_for(sim, 5000);
    assert_int_equal(effects(sim), 1);
    end(sim);
}

static void after_a_restore_keys_without_time_open_as_unknown(void **state)
{
    (void)state;
    struct sim *sim = begin();
    struct hx_wall now = hx_clock_now(&sim->clock).wall;
    const int64_t hour_ms = 3600 * 1000;
    hx_memory_ledger_set_gap(sim->ledger, (struct hx_gap){.from = {now.ms - 2 * hour_ms},
                                                          .to = {now.ms},
                                                          .until = {now.ms + 24 * hour_ms}});
    want(sim, 1, SIM_PAY, "key-1");
    want(sim, 1, SIM_PAY, "");
    sim_run_for(sim, 1000);
    assert_int_equal(effects(sim), 0);
    assert_int_equal(last_row(sim)->state, HX_OP_UNKNOWN);
    assert_int_equal(last_row(sim)->reason, HX_REASON_RESTORED_COPY);
    assert_int_equal(sim->marks[SIM_UNKNOWN], 1);
    assert_true(answers(sim, 2) == 1); /* REPEAT_SUSPECTED */
    /* A quarter of an hour later calls without a key run again. */
    sim_run_for(sim, 16 * 60 * 1000);
    struct sim_intent *keyless = sim_intent_add(sim, 2, SIM_PAY, 2, "");
    sim_host_begin(sim, keyless);
    sim_run_for(sim, 1000);
    assert_int_equal(effects(sim), 1);
    end(sim);
}

/* A clock that jumps ahead makes nothing older: neither for keys nor for calls without one. */
static void after_a_restore_a_jumping_clock_ends_no_caution(void **state)
{
    (void)state;
    struct sim *sim = begin();
    struct hx_wall now = hx_clock_now(&sim->clock).wall;
    const int64_t hour_ms = 3600 * 1000;
    hx_memory_ledger_set_gap(sim->ledger, (struct hx_gap){.from = {now.ms - 2 * hour_ms},
                                                          .to = {now.ms},
                                                          .until = {now.ms + HX_GAP_CAUTION_MS}});
    sim->wall_offset += 31 * 24 * hour_ms;
    want(sim, 1, SIM_PAY, "key-1");
    want(sim, 2, SIM_PAY, "");
    sim_run_for(sim, 1000);
    assert_int_equal(effects(sim), 0);
    assert_int_equal(last_row(sim)->reason, HX_REASON_RESTORED_COPY);
    end(sim);
}

/* A key whose own time lies outside the gap was not lost with it. */
static void after_a_restore_new_keys_run(void **state)
{
    (void)state;
    struct sim *sim = begin();
    struct hx_wall now = hx_clock_now(&sim->clock).wall;
    const int64_t hour_ms = 3600 * 1000;
    hx_memory_ledger_set_gap(sim->ledger, (struct hx_gap){.from = {now.ms - 2 * hour_ms},
                                                          .to = {now.ms},
                                                          .until = {now.ms + 24 * hour_ms}});
    sim_run_for(sim, 10 * 60 * 1000); /* clocks may differ by some minutes */
    char key[HX_ID_TEXT_SIZE];
    uint8_t random[10] = {1, 2, 3};
    struct hx_id id = hx_id_make(hx_clock_now(&sim->clock).wall, random);
    hx_id_format(&id, key);
    want(sim, 1, SIM_PAY, key);
    sim_run_for(sim, 1000);
    assert_int_equal(effects(sim), 1);
    end(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_that_comes_twice_acts_once),
        cmocka_unit_test(a_request_that_comes_twice_after_a_promise_acts_once),
        cmocka_unit_test(a_request_that_comes_twice_may_run_a_successor),
        cmocka_unit_test(a_spooled_outcome_is_replayed),
        cmocka_unit_test(a_refused_receipt_makes_no_repeat_of_a_wanted_call),
        cmocka_unit_test(an_answer_given_a_moment_ago_is_no_lost_one),
        cmocka_unit_test(a_keeper_that_leaves_says_what_became_of_its_answers),
        cmocka_unit_test(a_loss_survives_the_machine),
        cmocka_unit_test(who_follows_finds_the_successor_under_any_name),
        cmocka_unit_test(nothing_sent_is_said_of_the_row_as_it_is),
        cmocka_unit_test(a_probe_finds_what_was_lost),
        cmocka_unit_test(nothing_found_proves_nothing_while_the_server_lives),
        cmocka_unit_test(a_long_answer_of_a_probe_says_nothing),
        cmocka_unit_test(who_waits_hears_what_another_process_found_out),
        cmocka_unit_test(a_mark_that_cannot_be_written_gives_the_claim_back),
        cmocka_unit_test(a_person_who_never_answers_keeps_no_call_open),
        cmocka_unit_test(a_key_that_took_over_a_successor_still_conflicts),
        cmocka_unit_test(a_queue_behind_a_stalled_server_ends_without_harm),
        cmocka_unit_test(what_another_process_found_out_is_told),
        cmocka_unit_test(more_waiters_than_allowed_are_told_busy),
        cmocka_unit_test(after_a_restore_keys_without_time_open_as_unknown),
        cmocka_unit_test(after_a_restore_a_jumping_clock_ends_no_caution),
        cmocka_unit_test(after_a_restore_new_keys_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
