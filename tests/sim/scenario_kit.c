/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sim/scenario_kit.h"

struct scenario_tool tool;

static void run_as_told(struct sim *sim, struct sim_run *run, int64_t *act_ms, int64_t *answer_ms)
{
    (void)sim;
    run->style = tool.style;
    *act_ms = tool.act_ms;
    *answer_ms = tool.answer_ms;
    if (!tool.is_refused)
        return;
    run->is_refusal = run->is_rpc_error = true;
    hx_buf_reset(&run->result);
    (void)hx_buf_printf(
        &run->result, "{\"code\":-32011,\"message\":\"later\",\"data\":{\"run\":%u}}", run->number);
}

void the_tool_works(void)
{
    tool.style = SIM_ANSWER_ONCE;
    tool.act_ms = 5;
    tool.answer_ms = 10;
    tool.is_refused = false;
}

void the_tool_is_silent(int64_t act_ms)
{
    the_tool_works();
    tool.style = SIM_ANSWER_NEVER;
    tool.act_ms = act_ms;
}

static struct sim *begin_empty(void)
{
    struct sim_options options = {
        .seed = 1, .is_scripted = true, .is_tracing = getenv("SIM_TRACE") != NULL};
    struct sim *sim = sim_new(&options);
    the_tool_works();
    sim->script_run = run_as_told;
    return sim;
}

struct sim *begin(void)
{
    struct sim *sim = begin_empty();
    sim_host_connect(sim, &sim->hosts[1]);
    sim_host_connect(sim, &sim->hosts[2]);
    sim_run_for(sim, 500);
    assert_true(sim->hosts[1].is_ready);
    assert_true(sim->hosts[2].is_ready);
    return sim;
}

struct sim *begin_serve(enum sim_share share, bool is_remote)
{
    struct sim *sim = begin_empty();
    sim->form = (struct sim_form){.port_count = 1, .share = share, .is_remote = is_remote};
    sim->host_count = 3;
    sim_port_open(sim, 1);
    for (uint32_t i = 1; i <= sim->host_count; i++) {
        sim->hosts[i].port = 1;
        sim->hosts[i].can_elicit = i == 3;
        sim_host_connect(sim, &sim->hosts[i]);
    }
    sim_run_for(sim, 500);
    for (uint32_t i = 1; i <= sim->host_count; i++)
        assert_true(sim->hosts[i].is_ready);
    for (uint32_t i = 1; i <= sim->host_count; i++)
        assert_true(sim_session_get(sim, sim->hosts[i].session)->is_kept);
    return sim;
}

void the_tool_is_probed(struct sim *sim)
{
    struct hx_contract *contract = &sim->contracts[SIM_BANK];
    sim->form.has_probe = contract->has_probe = true;
    contract->dedupe_horizon_ms = HX_UNDECLARED_MS;
    contract->in_flight_bound_ms = 2000;
    contract->timeout_ms = 1000;
}

void end(struct sim *sim)
{
    sim_free(sim);
}

uint32_t want(struct sim *sim, uint32_t host, enum sim_tool which, const char *key)
{
    struct sim_intent *intent = sim_intent_add(sim, host, which, 1, key);
    sim_host_begin(sim, intent);
    return intent->number;
}

void want_again(struct sim *sim, uint32_t number)
{
    sim_intent_get(sim, number)->state = SIM_INTENT_PLANNED;
    sim_host_begin(sim, sim_intent_get(sim, number));
}

uint32_t effects(struct sim *sim)
{
    uint32_t sum = 0;
    for (uint32_t i = 1; i <= sim->intent_count; i++)
        sum += sim_intent_get(sim, i)->effects;
    return sum;
}

uint32_t answers(struct sim *sim, uint32_t call)
{
    return sim_call_get(sim, call)->answers;
}

const struct hx_record *last_row(struct sim *sim)
{
    const struct hx_record *row = NULL;
    for (size_t i = 0; hx_memory_ledger_row(sim->ledger, i) != NULL; i++)
        row = hx_memory_ledger_row(sim->ledger, i);
    assert_non_null(row);
    return row;
}

struct sim_life *at_port(struct sim *sim)
{
    struct sim_life *life = sim_life_find(sim, sim->ports[1].life);
    assert_non_null(life);
    return life;
}
