/* SPDX-License-Identifier: MIT */
/*
 * Small histories of `hapax serve`, each the core of one that a seed has found. The checks of the
 * simulator run in all of them; a broken promise ends the program with the trace.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "sim/scenario_kit.h"

static void kill_and_restart(struct sim *sim)
{
    sim_life_kill(at_port(sim));
    sim_run_for(sim, 6000);
    for (uint32_t i = 1; i <= sim->host_count; i++)
        assert_true(sim->hosts[i].is_ready);
    assert_int_equal(sim->marks[SIM_RESTORED], sim->host_count);
}

/* Seeds 7, 8, 22, 24 and 34: the request that a resumed call is given is longer than the one that
 * was counted. The count is compared after every turn. */
static void a_stream_is_resumed_after_a_crash(void **state)
{
    (void)state;
    struct sim *sim = begin_serve(SIM_SHARE_NOTHING, false);
    the_tool_is_silent(5);
    want(sim, 1, SIM_PAY, "key-1");
    sim_run_for(sim, 1000); /* long enough to be named in the ledger */
    kill_and_restart(sim);
    sim_run_for(sim, 60 * 1000);
    assert_int_equal(sim->marks[SIM_CAME_BACK], 1);
    assert_int_equal(sim->marks[SIM_UNKNOWN], 1);
    assert_int_equal(answers(sim, 1), 1);
    assert_int_equal(effects(sim), 1);
    end(sim);
}

/* Seeds 12, 109 and 119: the answer to a request that its transport repeated comes on the later
 * connection, so it is that one's name which the ledger must know. With a key each is a call, and
 * both are of one operation. */
static void a_repeated_request_is_resumed_by_the_name_of_its_last_stream(void **state)
{
    static const char *const keys[] = {"", "key-1"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct sim *sim = begin_serve(SIM_SHARE_NOTHING, false);
        the_tool_is_silent(5);
        sim->weather.double_send = 1000;
        want(sim, 1, SIM_PAY, keys[i]);
        sim_run_for(sim, 3000);
        assert_int_equal(sim_call_get(sim, 1)->arrivals, 2);
        sim->weather.double_send = 0;
        kill_and_restart(sim);
        sim_run_for(sim, 60 * 1000);
        assert_int_equal(sim->marks[SIM_CAME_BACK], 1);
        assert_int_equal(sim->marks[SIM_NO_STREAM], 0);
        assert_int_equal(effects(sim), 1);
        end(sim);
    }
}

/* Seed 2207: two clients that want the same thing each for himself, the second while the first has
 * waited for long. */
static void a_client_that_waits_is_no_reason_to_take_another_for_its_repeat(void **state)
{
    (void)state;
    struct sim *sim = begin_serve(SIM_SHARE_ALL, false);
    tool.act_ms = 2500;
    tool.answer_ms = 3000;
    want(sim, 1, SIM_PAY, "");
    sim_run_for(sim, 1000);
    want(sim, 2, SIM_PAY, "");
    sim_run_for(sim, 1000);
    assert_int_equal(sim->run_count, 2);
    sim_run_for(sim, 5000);
    assert_int_equal(effects(sim), 2);
    end(sim);
}

/* A key joins across sessions all the same. */
static void a_key_joins_what_another_session_began(void **state)
{
    (void)state;
    struct sim *sim = begin_serve(SIM_SHARE_ALL, false);
    tool.answer_ms = 3000;
    uint32_t number = want(sim, 1, SIM_PAY, "key-1");
    sim_run_for(sim, 1000);
    sim_host_call(sim, &sim->hosts[2], sim_intent_get(sim, number), false);
    sim_run_for(sim, 5000);
    assert_int_equal(answers(sim, 1), 1);
    assert_int_equal(answers(sim, 2), 1);
    assert_int_equal(sim->marks[SIM_CROSS_SESSION], 1);
    assert_int_equal(effects(sim), 1);
    end(sim);
}

/* Seeds 843 and 882: the kernel takes the last byte of an answer after its client said that it does
 * not want it. */
static void an_answer_that_is_written_after_its_cancel_is_lost(void **state)
{
    (void)state;
    struct sim *sim = begin_serve(SIM_SHARE_NOTHING, false);
    sim->script_write_ms = 2000;
    uint32_t number = want(sim, 1, SIM_PAY, "");
    sim_run_for(sim, 500);
    assert_int_equal(answers(sim, 1), 1);
    sim_host_cancel(sim, sim_call_get(sim, 1));
    sim_run_for(sim, 4000);
    sim->script_write_ms = 0;
    want_again(sim, number);
    sim_run_for(sim, 1000);
    assert_int_equal(sim->marks[SIM_REPLAYED] + answers(sim, 2), 1);
    assert_int_equal(effects(sim), 1);
    end(sim);
}

/* Seed 17852: it comes back for the stream, the kernel takes the answer once more, and then it does
 * not want it. */
static void a_cancel_counts_after_a_client_came_back(void **state)
{
    (void)state;
    struct sim *sim = begin_serve(SIM_SHARE_NOTHING, false);
    sim->hosts[1].is_slow = true;
    tool.answer_ms = 1000;
    uint32_t number = want(sim, 1, SIM_PAY, "");
    while (sim->call_count == 0 || answers(sim, 1) == 0)
        sim_run_for(sim, 1);
    sim_web_cut(sim, sim_exchange_find(sim, sim_call_get(sim, 1)->exchange), true);
    while (sim->marks[SIM_CAME_BACK] == 0)
        sim_run_for(sim, 1);
    sim_run_for(sim, 1);
    assert_int_equal(sim_call_get(sim, 1)->state, SIM_CALL_OPEN);
    sim_host_cancel(sim, sim_call_get(sim, 1));
    sim_run_for(sim, 3000);
    sim->hosts[1].is_slow = false;
    want_again(sim, number);
    sim_run_for(sim, 3000);
    assert_int_equal(answers(sim, 2), 1);
    assert_int_equal(effects(sim), 1);
    end(sim);
}

/* Seeds 52, 89 and others: what a stream brought that was taken up after a crash. */
static void evidence_from_a_stream_ends_the_search(void **state)
{
    (void)state;
    struct sim *sim = begin_serve(SIM_SHARE_NOTHING, true);
    sim->weather.point = 1000;
    tool.act_ms = 100;
    tool.answer_ms = 9000;
    want(sim, 1, SIM_PAY, "key-1");
    sim_run_for(sim, 1000);
    kill_and_restart(sim);
    sim_run_for(sim, 60 * 1000);
    assert_int_equal(sim->marks[SIM_POINT_EVIDENCE], 1);
    assert_int_equal(last_row(sim)->state, HX_OP_SUCCEEDED);
    assert_null(sim_look_idle(at_port(sim)->gateway));
    assert_int_equal(answers(sim, 1), 1);
    assert_int_equal(effects(sim), 1);
    end(sim);
}

static void ask_twice(int64_t apart_ms)
{
    struct sim *sim = begin_serve(SIM_SHARE_NOTHING, true);
    sim->contracts[SIM_PAY].timeout_ms = 1000;
    sim->weather.point = 1000;
    tool.act_ms = 100;
    tool.answer_ms = 30 * 1000;
    uint32_t number = want(sim, 1, SIM_PAY, "key-1");
    sim_run_for(sim, 2000);
    assert_int_equal(last_row(sim)->state, HX_OP_UNKNOWN);
    kill_and_restart(sim);
    sim->script_disk_ms = 20;
    want_again(sim, number);
    sim_run_for(sim, apart_ms);
    sim_host_call(sim, &sim->hosts[2], sim_intent_get(sim, number), false);
    sim_run_for(sim, 60 * 1000);
    assert_int_equal(sim->marks[SIM_POINT_EVIDENCE], 1);
    assert_int_equal(last_row(sim)->state, HX_OP_SUCCEEDED);
    assert_null(sim_look_idle(at_port(sim)->gateway));
    assert_int_equal(effects(sim), 1);
    end(sim);
}

/* Seed 13588: a second client comes before the connection that is to listen is there. */
static void who_asks_does_not_take_the_search_away(void **state)
{
    (void)state;
    for (int64_t apart_ms = 0; apart_ms <= 160; apart_ms += 4)
        ask_twice(apart_ms);
}

/* Seeds 1784 and 2069: a tool that may be called again is, while its old stream is listened to. */
static void who_is_sent_again_is_listened_to_no_more(void **state)
{
    (void)state;
    struct sim *sim = begin_serve(SIM_SHARE_NOTHING, true);
    sim->weather.point = 1000;
    the_tool_is_silent(100);
    want(sim, 1, SIM_BANK, "key-1");
    sim_run_for(sim, 150); /* not yet named, so its client will call again */
    sim_life_kill(at_port(sim));
    sim_run_for(sim, 30);
    for (int i = 0; i < 6000 && sim->marks[SIM_POINT_USED] == 0; i++)
        sim_run_for(sim, 1);
    assert_int_equal(sim->marks[SIM_POINT_USED], 1);
    the_tool_works();
    sim_run_for(sim, 20 * 1000);
    want_again(sim, 1);
    sim_run_for(sim, 20 * 1000);
    assert_int_equal(last_row(sim)->state, HX_OP_SUCCEEDED);
    assert_null(sim_look_idle(at_port(sim)->gateway));
    assert_int_equal(effects(sim), 1);
    end(sim);
}

/* A caller of the second `serve` waits for what the first one is told to stop waiting for; then he
 * leaves, while the search for its outcome listens. */
static void leave_during_the_search(int64_t after_ms)
{
    struct sim *sim = begin_serve(SIM_SHARE_NOTHING, true);
    struct sim_life *first = at_port(sim);
    sim->weather.point = 1000;
    the_tool_is_silent(100);
    uint32_t number = want(sim, 1, SIM_BANK, "key-1");
    sim_run_for(sim, 1000);
    sim_intent_get(sim, number)->retries_left = 0;
    sim_web_vanish(sim, &sim->hosts[1]);
    hx_gateway_drain(first->gateway);
    sim_port_open(sim, 1);
    sim_run_for(sim, 2000);
    assert_int_equal(sim->hosts[2].life, at_port(sim)->number);
    sim_host_call(sim, &sim->hosts[2], sim_intent_get(sim, number), false);
    uint32_t call = sim->call_count;
    sim_run_for(sim, 1050); /* in the middle between two of his polls */
    assert_int_equal(last_row(sim)->attempt.number, 1);
    hx_gateway_stop(first->gateway);
    first->wake_at = sim->now;
    while (sim->marks[SIM_POINT_USED] == 0)
        sim_run_for(sim, 1);
    the_tool_works();
    sim_run_for(sim, after_ms);
    sim_host_cancel(sim, sim_call_get(sim, call));
    sim_run_for(sim, 60 * 1000);
    assert_int_equal(effects(sim), 1);
    end(sim);
}

/* Seed 11453: the look that ends his polls sent the operation again over the session that only
 * listens, in which nobody had greeted the server. */
static void nothing_is_sent_where_the_search_listens(void **state)
{
    (void)state;
    for (int64_t after_ms = 0; after_ms <= 200; after_ms += 4)
        leave_during_the_search(after_ms);
}

/* Seed 7898: an attempt that waits for one server while an earlier one was sent to another, which
 * then dies or answers. */
static void a_new_attempt_hears_no_other_server(void **state)
{
    (void)state;
    struct sim *sim = begin_serve(SIM_SHARE_NOTHING, false);
    sim->contracts[SIM_BANK].timeout_ms = 1000;
    the_tool_is_silent(-1);
    uint32_t number = want(sim, 1, SIM_BANK, "key-1");
    sim_run_for(sim, 3000);
    assert_int_equal(last_row(sim)->state, HX_OP_UNKNOWN);
    struct sim_process *first = sim_process_find(sim, sim_run_get(sim, 1)->process);
    hx_list_for_each_safe (at, &sim->processes) {
        struct sim_process *process = hx_container_of(at, struct sim_process, node);
        if (process != first)
            sim_process_die(sim, process, 9);
    }
    sim_run_for(sim, 100);
    sim->weather.bad_start = 1000;
    sim_web_end(sim, &sim->hosts[1]);
    sim_host_call(sim, &sim->hosts[2], sim_intent_get(sim, number), false);
    for (int i = 0; i < 100 && last_row(sim)->attempt.number < 2; i++)
        sim_run_for(sim, 1);
    assert_int_equal(last_row(sim)->attempt.number, 2);
    assert_int_equal(sim->run_count, 1);
    sim_process_die(sim, first, 9);
    sim_run_for(sim, 2000);
    sim->weather.bad_start = 0;
    the_tool_works();
    want_again(sim, number);
    sim_run_for(sim, 5000);
    assert_int_equal(last_row(sim)->state, HX_OP_SUCCEEDED);
    assert_int_equal(effects(sim), 1);
    end(sim);
}

/* Seed 2579: the client whose person was asked is gone, and so is the question. */
static void a_question_goes_with_the_session_of_whom_it_was_asked(void **state)
{
    (void)state;
    struct sim *sim = begin_serve(SIM_SHARE_NOTHING, false);
    sim->contracts[SIM_PAY].timeout_ms = 1000;
    sim->is_person_away = true;
    the_tool_is_silent(5);
    uint32_t number = want(sim, 3, SIM_PAY, "key-1");
    sim_run_for(sim, 2000);
    assert_int_equal(last_row(sim)->state, HX_OP_UNKNOWN);
    sim_host_call(sim, &sim->hosts[1], sim_intent_get(sim, number), false);
    sim_run_for(sim, 2000);
    assert_int_equal(answers(sim, 2), 0); /* it waits for the person's answer */
    sim_intent_get(sim, number)->retries_left = 0;
    sim_web_end(sim, &sim->hosts[3]);
    sim_run_for(sim, 2000);
    assert_int_equal(answers(sim, 2), 1);
    sim_process_die(sim, hx_container_of(hx_list_first(&sim->processes), struct sim_process, node),
                    9);
    sim_run_for(sim, 10 * 1000);
    hx_list_for_each_safe (at, &sim->processes)
        sim_process_die(sim, hx_container_of(at, struct sim_process, node), 9);
    sim_run_for(sim, 10 * 1000);
    assert_null(sim_look_idle(at_port(sim)->gateway));
    end(sim);
}

/* Its client waits for the successor that a person wanted, and the ledger is slow to say where that
 * is, when another client wants the same for himself. */
static void want_equal_while_one_follows(int64_t after_ms)
{
    struct sim *sim = begin_serve(SIM_SHARE_NOTHING, false);
    sim->contracts[SIM_PAY].timeout_ms = 1000;
    sim->person_says = "again";
    the_tool_is_silent(-1);
    want(sim, 3, SIM_PAY, "");
    for (int i = 0; i < 3000 && sim->marks[SIM_PERSON] == 0; i++)
        sim_run_for(sim, 1);
    assert_int_equal(sim->marks[SIM_PERSON], 1);
    sim->script_disk_ms = 20;
    the_tool_works();
    sim_run_for(sim, after_ms);
    want(sim, 1, SIM_PAY, "");
    sim_run_for(sim, 5000);
    assert_int_equal(answers(sim, 1), 1);
    assert_int_equal(answers(sim, 2), 1);
    assert_int_equal(effects(sim), 2);
    end(sim);
}

/* Seed 201269: the server of a lost attempt was waited for when the attempt ran out of time. The
 * next one goes over another connection, and must not be told that it is lost. */
static void an_attempt_that_waited_for_its_server_and_timed_out_is_over(void **state)
{
    (void)state;
    struct sim *sim = begin_serve(SIM_SHARE_NOTHING, false);
    sim->contracts[SIM_SET].timeout_ms = 1000;
    the_tool_is_silent(-1);
    uint32_t number = want(sim, 1, SIM_SET, "key-1");
    sim_run_for(sim, 700);
    sim->weather.slow_start = 1000; /* half a second at least */
    sim_process_die(sim, sim_process_find(sim, sim_run_get(sim, 1)->process), 9);
    sim_run_for(sim, 400);
    sim->weather.slow_start = 0;
    assert_int_equal(last_row(sim)->state, HX_OP_UNKNOWN);
    sim_intent_get(sim, number)->retries_left = 0;
    sim_web_end(sim, &sim->hosts[1]);
    the_tool_works();
    sim_host_call(sim, &sim->hosts[2], sim_intent_get(sim, number), false);
    sim_run_for(sim, 20 * 1000);
    assert_int_equal(last_row(sim)->state, HX_OP_SUCCEEDED);
    assert_null(sim_look_idle(at_port(sim)->gateway));
    assert_int_equal(effects(sim), 1);
    end(sim);
}

/* Seed 31443 and others: the ledger is full, so the outcome stands in the spool of the first one
 * when its client has it, and the second one is asked. */
static void a_spooled_outcome_is_told_by_another_process_too(void **state)
{
    (void)state;
    struct sim *sim = begin_serve(SIM_SHARE_NOTHING, false);
    struct sim_life *first = at_port(sim);
    tool.answer_ms = 300;
    uint32_t number = want(sim, 1, SIM_PAY, "key-1");
    sim_run_for(sim, 100);
    the_tool_is_silent(5);
    want(sim, 3, SIM_NOTE, ""); /* so that the first one drains for long */
    sim_run_for(sim, 100);
    hx_memory_ledger_break(sim->ledger, true, false);
    sim_run_for(sim, 500);
    assert_int_equal(sim->marks[SIM_SPOOLED], 1);
    hx_gateway_drain(first->gateway);
    sim_port_open(sim, 1);
    sim_run_for(sim, 5000);
    assert_int_equal(sim->hosts[2].life, at_port(sim)->number);
    sim_host_call(sim, &sim->hosts[2], sim_intent_get(sim, number), false);
    sim_run_for(sim, 1000);
    assert_int_equal(answers(sim, sim->call_count), 1);
    assert_int_equal(sim_call_get(sim, sim->call_count)->replays, 1);
    end(sim);
}

/* Seed 95558: it was taken for an operation that nobody waits for, and both got the one outcome. */
static void who_follows_to_a_successor_waits_for_it(void **state)
{
    (void)state;
    for (int64_t after_ms = 0; after_ms <= 120; after_ms++)
        want_equal_while_one_follows(after_ms);
}

/* Seeds 268914 and 294858: the client comes back for its stream and then does not want the answer
 * any more, while the ledger is still being asked whose stream it is. */
static void a_cancel_overtakes_the_search_for_a_stream(void **state)
{
    (void)state;
    struct sim *sim = begin_serve(SIM_SHARE_NOTHING, false);
    tool.answer_ms = 1000;
    uint32_t number = want(sim, 1, SIM_PAY, "");
    sim_run_for(sim, 500);
    sim_intent_get(sim, number)->retries_left = 0;
    sim_web_cut(sim, sim_exchange_find(sim, sim_call_get(sim, 1)->exchange), true);
    sim_run_for(sim, 600);
    sim_life_kill(at_port(sim));
    sim_run_for(sim, 30);
    sim->script_disk_ms = 500;
    for (int i = 0; i < 20000 && sim->marks[SIM_CAME_BACK] == 0; i++)
        sim_run_for(sim, 1);
    sim_run_for(sim, 100);
    assert_int_equal(answers(sim, 1), 1); /* to a connection that was broken */
    sim_host_cancel(sim, sim_call_get(sim, 1));
    sim_run_for(sim, 5000);
    assert_int_equal(answers(sim, 1), 1);
    sim->script_disk_ms = 0;
    want_again(sim, number);
    sim_run_for(sim, 3000);
    assert_int_equal(answers(sim, 2), 1);
    assert_int_equal(effects(sim), 1);
    end(sim);
}

/* Its client comes back to the stream of a call that it has cancelled, as clients do that read
 * streams and time calls in different places: at once, in the next process, or when the ledger did
 * not take it that the stream is given up. */
static void come_back_after_a_cancel(bool is_next_process, bool is_ledger_full)
{
    struct sim *sim = begin_serve(SIM_SHARE_NOTHING, false);
    tool.answer_ms = 3000;
    uint32_t number = want(sim, 1, SIM_PAY, "");
    sim_run_for(sim, 1000); /* long enough to be named in the ledger */
    sim_intent_get(sim, number)->retries_left = 0;
    struct sim_exchange *exchange = sim_exchange_find(sim, sim_call_get(sim, 1)->exchange);
    assert_true(exchange->is_told);
    char name[sizeof(exchange->name)];
    snprintf(name, sizeof(name), "%s", exchange->name);
    hx_memory_ledger_break(sim->ledger, is_ledger_full, false);
    sim_host_cancel(sim, sim_call_get(sim, 1));
    sim_run_for(sim, 100);
    hx_memory_ledger_break(sim->ledger, false, false);
    if (is_next_process) {
        sim_run_for(sim, 1400);
        kill_and_restart(sim);
    }
    exchange = sim_web_resume(sim, &sim->hosts[1], hx_span_cstr(name));
    assert_non_null(exchange);
    exchange->call = 1;
    sim_run_for(sim, 20 * 1000);
    assert_int_equal(answers(sim, 1), 0);
    assert_int_equal(sim->marks[SIM_NO_STREAM], 1);
    want_again(sim, number);
    sim_run_for(sim, 3000);
    assert_int_equal(answers(sim, 2), 1);
    assert_int_equal(effects(sim), 1);
    end(sim);
}

static void a_cancelled_call_is_not_answered_on_its_stream(void **state)
{
    (void)state;
    come_back_after_a_cancel(false, false);
    come_back_after_a_cancel(true, false);
    come_back_after_a_cancel(false, true);
    come_back_after_a_cancel(true, true);
}

/* Seeds 132, 667 and others: whoever could say what became of an answer is gone with its session.
 */
static void an_answer_of_a_session_that_is_over_gets_a_fate(void **state)
{
    (void)state;
    struct sim *sim = begin_serve(SIM_SHARE_NOTHING, false);
    sim->script_write_ms = 5000;
    tool.answer_ms = 1000; /* so that its stream is named, and its fate waits for its client */
    uint32_t number = want(sim, 1, SIM_PAY, "");
    sim_run_for(sim, 1500);
    assert_int_equal(answers(sim, 1), 1);
    sim_web_end(sim, &sim->hosts[1]);
    sim->script_write_ms = 0;
    sim_run_for(sim, 5000);
    assert_null(sim_look_idle(at_port(sim)->gateway));
    want_again(sim, number);
    sim_run_for(sim, 5000);
    assert_int_equal(effects(sim), 1);
    end(sim);
}

/* Over HTTP too the same key goes again when the sender is dead: his sockets died with him. */
static void an_idempotent_call_is_sent_again_after_a_crash(void **state)
{
    (void)state;
    struct sim *sim = begin_serve(SIM_SHARE_NOTHING, true);
    the_tool_is_silent(100);
    uint32_t number = want(sim, 1, SIM_SET, "key-1");
    sim_run_for(sim, 150);
    sim_life_kill(at_port(sim));
    sim_run_for(sim, 6000);
    the_tool_works();
    want_again(sim, number);
    sim_run_for(sim, 5000);
    assert_int_equal(sim->run_count, 2);
    assert_int_equal(last_row(sim)->state, HX_OP_SUCCEEDED);
    assert_int_equal(effects(sim), 1);
    end(sim);
}

static void on_found(void *context, uint64_t ticket, enum hx_store_result result,
                     const struct hx_store_session *found)
{
    (void)ticket;
    assert_true((found != NULL) == (result == HX_STORE_DONE));
    *(int *)context = (int)result;
}

static int kept_as(struct sim *sim, uint32_t session)
{
    int result = -1;
    struct hx_digest key = sim_session_key(session);
    hx_gateway_find_session(at_port(sim)->gateway, &key, on_found, &result, 0);
    at_port(sim)->wake_at = sim->now;
    sim_run_for(sim, 100);
    return result;
}

/* An id that its client gave up opens nothing, whoever asks. */
static void an_ended_session_is_not_found(void **state)
{
    (void)state;
    struct sim *sim = begin_serve(SIM_SHARE_NOTHING, false);
    uint32_t session = sim->hosts[1].session;
    sim_web_end(sim, &sim->hosts[1]);
    sim_run_for(sim, 5000);
    assert_true(sim->hosts[1].session != session);
    assert_true(sim_session_get(sim, session)->is_ended);
    sim_life_kill(at_port(sim));
    sim_run_for(sim, 6000);
    assert_int_equal(sim->marks[SIM_RESTORED], 3);
    assert_int_equal(kept_as(sim, session), HX_STORE_STALE);
    end(sim);
}

/* Killed at the moment at which the end is told: the ledger had it before. */
static void an_end_that_was_told_lasts(void **state)
{
    (void)state;
    struct sim *sim = begin_serve(SIM_SHARE_NOTHING, false);
    uint32_t session = sim->hosts[1].session;
    sim->script_disk_ms = 20;
    sim_web_end(sim, &sim->hosts[1]);
    for (int ms = 0; ms < 5000 && !sim_session_get(sim, session)->is_ended; ms++)
        sim_run_for(sim, 1);
    assert_true(sim_session_get(sim, session)->is_ended);
    sim_life_kill(at_port(sim));
    sim_run_for(sim, 6000);
    assert_int_equal(kept_as(sim, session), HX_STORE_STALE);
    end(sim);
}

/* The ledger is full when a client ends its session: it is not told that it has. */
static void an_end_that_failed_is_not_told(void **state)
{
    (void)state;
    struct sim *sim = begin_serve(SIM_SHARE_NOTHING, false);
    uint32_t session = sim->hosts[1].session;
    hx_memory_ledger_break(sim->ledger, true, false);
    sim_web_end(sim, &sim->hosts[1]);
    sim_run_for(sim, 2000);
    assert_false(sim_session_get(sim, session)->is_ended);
    hx_memory_ledger_break(sim->ledger, false, false);
    assert_int_equal(kept_as(sim, session), HX_STORE_DONE);
    end(sim);
}

/* A client's end, or that of its connection, is no cancel: the tool's answer is kept for whoever
 * asks again. */
static void what_a_session_began_outlives_it(void **state)
{
    (void)state;
    struct sim *sim = begin_serve(SIM_SHARE_NOTHING, false);
    tool.act_ms = 2000;
    tool.answer_ms = 2500;
    uint32_t number = want(sim, 1, SIM_PAY, "");
    sim_run_for(sim, 1000);
    sim_web_end(sim, &sim->hosts[1]);
    sim_run_for(sim, 500);
    assert_int_equal(last_row(sim)->state, HX_OP_RUNNING);
    sim_run_for(sim, 5000);
    assert_int_equal(last_row(sim)->state, HX_OP_SUCCEEDED);
    want_again(sim, number);
    sim_run_for(sim, 1000);
    assert_int_equal(answers(sim, 2), 1);
    assert_int_equal(sim_call_get(sim, 2)->replays, 1);
    assert_int_equal(effects(sim), 1);
    end(sim);
}

/* So that the repeat of a call without a key finds an operation that nobody waits for. */
static void who_dropped_his_connection_waits_no_more(void **state)
{
    (void)state;
    struct sim *sim = begin_serve(SIM_SHARE_NOTHING, false);
    tool.act_ms = 2000;
    tool.answer_ms = 2500;
    uint32_t number = want(sim, 1, SIM_PAY, "");
    sim_run_for(sim, 100);
    sim_web_cut(sim, sim_exchange_find(sim, sim_call_get(sim, 1)->exchange), false);
    sim_run_for(sim, 100);
    sim_intent_get(sim, number)->host = 2;
    want_again(sim, number);
    sim_run_for(sim, 5000);
    assert_int_equal(answers(sim, 2), 1);
    assert_int_equal(effects(sim), 1);
    /* And work that nobody waits for has its bound. */
    the_tool_is_silent(5);
    want(sim, 1, SIM_PAY, "key-1");
    sim_run_for(sim, 100);
    sim_web_cut(sim, sim_exchange_find(sim, sim_call_get(sim, 3)->exchange), false);
    sim_run_for(sim, 16 * 60 * 1000);
    assert_int_equal(last_row(sim)->state, HX_OP_UNKNOWN);
    end(sim);
}

/* Seeds 4042, 4658: the one before it left, and there was no memory for the one that was let in. */
static void who_is_let_in_is_not_refused_on_the_spot(void **state)
{
    (void)state;
    struct sim *sim = begin_serve(SIM_SHARE_NOTHING, false);
    sim->form.pad = 2 * HX_ALLOC_SMALL_MAX;
    sim->script_disk_ms = 100;
    want(sim, 1, SIM_PAY, "");
    want(sim, 1, SIM_PAY, "");
    sim_run_for(sim, 20);
    sim_web_cut(sim, sim_exchange_find(sim, sim_call_get(sim, 1)->exchange), false);
    for (int i = 0; i < 20; i++) {
        hx_alloc_fail_large_at(1);
        sim_run_for(sim, 1);
    }
    hx_alloc_fail_at(0);
    sim_run_for(sim, 5000);
    assert_int_equal(answers(sim, 2), 1);
    end(sim);
}

/* Seed 48772: what is between the two sends the request again when its connection dies. */
static void a_request_that_comes_again_after_its_connection_died_acts_once(void **state)
{
    (void)state;
    struct sim *sim = begin_serve(SIM_SHARE_NOTHING, false);
    tool.act_ms = 900;
    tool.answer_ms = 1500;
    sim->weather.double_send = 1000; /* up to 900 ms later */
    want(sim, 1, SIM_NOTE, "");
    while (sim->run_count == 0)
        sim_run_for(sim, 1);
    sim->weather.double_send = 0;
    hx_list_for_each (at, &sim->exchanges) {
        struct sim_exchange *exchange = hx_container_of(at, struct sim_exchange, node);
        if (exchange->call != 1 || !exchange->has_arrived)
            continue;
        sim_web_cut(sim, exchange, false);
        break;
    }
    sim_run_for(sim, 5000);
    assert_int_equal(sim_call_get(sim, 1)->arrivals, 2);
    assert_int_equal(effects(sim), 1);
    end(sim);
}

/* The front has been fooled; the gateway judges everybody anew. */
static void a_stream_is_not_given_to_another_principal(void **state)
{
    (void)state;
    struct sim *sim = begin_serve(SIM_SHARE_NOTHING, false);
    the_tool_is_silent(5);
    want(sim, 1, SIM_PAY, "key-1");
    sim_run_for(sim, 1000);
    sim->is_front_careless = true;
    sim->hosts[1].principal = "2000";
    kill_and_restart(sim);
    sim_run_for(sim, 1000);
    assert_int_equal(sim->marks[SIM_NO_STREAM], 1);
    assert_int_equal(answers(sim, 1), 0);
    end(sim);
}

/* Seed 2113: the server asks about a call whose own client has left, and another's, with another
 * server, still waits for it. */
static void a_question_is_answered_where_it_was_asked(void **state)
{
    (void)state;
    struct sim *sim = begin_serve(SIM_SHARE_NOTHING, true);
    tool.act_ms = 3000;
    tool.answer_ms = 4000;
    sim->weather.server_asks = 1000; /* after 2000 ms */
    uint32_t number = want(sim, 1, SIM_PAY, "key-1");
    sim_run_for(sim, 500);
    sim_host_call(sim, &sim->hosts[2], sim_intent_get(sim, number), false);
    sim_run_for(sim, 500);
    sim_intent_get(sim, number)->retries_left = 0;
    sim_host_cancel(sim, sim_call_get(sim, 1));
    sim_run_for(sim, 8000);
    assert_int_equal(answers(sim, 2), 1);
    assert_int_equal(effects(sim), 1);
    end(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_is_resumed_after_a_crash),
        cmocka_unit_test(a_repeated_request_is_resumed_by_the_name_of_its_last_stream),
        cmocka_unit_test(a_client_that_waits_is_no_reason_to_take_another_for_its_repeat),
        cmocka_unit_test(a_key_joins_what_another_session_began),
        cmocka_unit_test(an_answer_that_is_written_after_its_cancel_is_lost),
        cmocka_unit_test(a_cancel_counts_after_a_client_came_back),
        cmocka_unit_test(evidence_from_a_stream_ends_the_search),
        cmocka_unit_test(who_asks_does_not_take_the_search_away),
        cmocka_unit_test(who_is_sent_again_is_listened_to_no_more),
        cmocka_unit_test(nothing_is_sent_where_the_search_listens),
        cmocka_unit_test(a_new_attempt_hears_no_other_server),
        cmocka_unit_test(a_question_goes_with_the_session_of_whom_it_was_asked),
        cmocka_unit_test(an_attempt_that_waited_for_its_server_and_timed_out_is_over),
        cmocka_unit_test(a_spooled_outcome_is_told_by_another_process_too),
        cmocka_unit_test(who_follows_to_a_successor_waits_for_it),
        cmocka_unit_test(a_cancel_overtakes_the_search_for_a_stream),
        cmocka_unit_test(a_cancelled_call_is_not_answered_on_its_stream),
        cmocka_unit_test(an_answer_of_a_session_that_is_over_gets_a_fate),
        cmocka_unit_test(an_ended_session_is_not_found),
        cmocka_unit_test(an_end_that_was_told_lasts),
        cmocka_unit_test(an_end_that_failed_is_not_told),
        cmocka_unit_test(what_a_session_began_outlives_it),
        cmocka_unit_test(who_dropped_his_connection_waits_no_more),
        cmocka_unit_test(a_request_that_comes_again_after_its_connection_died_acts_once),
        cmocka_unit_test(a_stream_is_not_given_to_another_principal),
        cmocka_unit_test(an_idempotent_call_is_sent_again_after_a_crash),
        cmocka_unit_test(a_question_is_answered_where_it_was_asked),
        cmocka_unit_test(who_is_let_in_is_not_refused_on_the_spot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
