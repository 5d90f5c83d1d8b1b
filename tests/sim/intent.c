/* SPDX-License-Identifier: MIT */
/*
 * What is wanted: intents, the tools' contracts, and a plan from the seed.
 */
#include "sim/sim.h"

const char *const sim_tool_names[SIM_TOOL_COUNT] = {"pay",  "set",    "bank", "mail",
                                                    "note", "strict", "look"};

/* Arrays that grow; pointers into them are good until the next addition. */
static void *grow(void *items, uint32_t count, uint32_t *capacity, size_t size)
{
    if (count < *capacity)
        return items;
    *capacity = *capacity == 0 ? 32 : 2 * *capacity;
    void *grown = hx_realloc(items, *capacity * size);
    hx_assert(grown != NULL);
    return grown;
}

struct sim_intent *sim_intent_add(struct sim *sim, uint32_t host, enum sim_tool tool,
                                  uint32_t group, const char *key)
{
    sim->intents =
        grow(sim->intents, sim->intent_count, &sim->intent_capacity, sizeof(sim->intents[0]));
    struct sim_intent *intent = &sim->intents[sim->intent_count++];
    *intent = (struct sim_intent){
        .number = sim->intent_count, .host = host, .tool = tool, .group = group};
    snprintf(intent->key, sizeof(intent->key), "%s", key);
    return intent;
}

struct sim_intent *sim_intent_get(struct sim *sim, uint32_t number)
{
    hx_assert(number >= 1 && number <= sim->intent_count);
    return &sim->intents[number - 1];
}

struct sim_call *sim_call_add(struct sim *sim)
{
    sim->calls = grow(sim->calls, sim->call_count, &sim->call_capacity, sizeof(sim->calls[0]));
    struct sim_call *call = &sim->calls[sim->call_count++];
    *call = (struct sim_call){.number = sim->call_count};
    return call;
}

struct sim_call *sim_call_get(struct sim *sim, uint32_t number)
{
    hx_assert(number >= 1 && number <= sim->call_count);
    return &sim->calls[number - 1];
}

struct sim_run *sim_run_add(struct sim *sim)
{
    sim->runs = grow(sim->runs, sim->run_count, &sim->run_capacity, sizeof(sim->runs[0]));
    struct sim_run *run = &sim->runs[sim->run_count++];
    *run = (struct sim_run){.number = sim->run_count};
    return run;
}

struct sim_run *sim_run_get(struct sim *sim, uint32_t number)
{
    hx_assert(number >= 1 && number <= sim->run_count);
    return &sim->runs[number - 1];
}

void sim_contracts(struct sim *sim)
{
    static const enum hx_tool_class classes[SIM_TOOL_COUNT] = {[SIM_SET] = HX_CLASS_IDEMPOTENT,
                                                               [SIM_BANK] = HX_CLASS_KEYED,
                                                               [SIM_LOOK] = HX_CLASS_READ_ONLY};
    static const enum hx_repeat repeats[SIM_TOOL_COUNT] = {[SIM_MAIL] = HX_REPEAT_WINDOW,
                                                           [SIM_NOTE] = HX_REPEAT_SEPARATE,
                                                           [SIM_STRICT] = HX_REPEAT_REQUIRE_KEY};
    static const int64_t timeouts_ms[] = {0, 0, 2000, 20000};
    static const int64_t orphans_ms[] = {3000, 30000, 900000};
    static const int64_t joins_ms[] = {1000, 5000, 45000};
    for (int i = 0; i < SIM_TOOL_COUNT; i++) {
        struct hx_contract *contract = &sim->contracts[i];
        *contract = hx_contract_default();
        contract->tool_class = classes[i];
        contract->repeat = repeats[i];
        if (i == SIM_BANK)
            contract->dedupe_horizon_ms = (int64_t)24 * 3600 * 1000;
        if (sim->options.is_scripted)
            continue;
        contract->timeout_ms = timeouts_ms[sim_below(&sim->plan, 4)];
        contract->idle_timeout_ms = timeouts_ms[sim_below(&sim->plan, 4)];
        contract->orphan_timeout_ms = orphans_ms[sim_below(&sim->plan, 3)];
        contract->join_wait_ms = joins_ms[sim_below(&sim->plan, 3)];
        contract->cancel_upstream = (enum hx_cancel_upstream)sim_below(&sim->plan, 3);
    }
}

void sim_rules_for(struct sim *sim, struct hx_span tool, struct hx_tool_rules *ret_rules)
{
    static const struct hx_no_effect_rule no_effect[] = {
        {.is_code = true, .code = -32010}, {.is_code = true, .code = -32011, .is_transient = true}};
    struct hx_tool_rules rules = {
        .contract = hx_contract_default(),
        .is_class_declared = true,
        .has_replay_note = true,
        .has_stored_arguments = true,
        .no_effect = no_effect,
        .no_effect_count = 2,
        .result_max = 1 << 20,
        .cancel_timeout_ms = 5000,
    };
    for (int i = 0; i < SIM_TOOL_COUNT; i++) {
        if (hx_span_eq_cstr(tool, sim_tool_names[i]))
            rules.contract = sim->contracts[i];
    }
    if (rules.contract.tool_class == HX_CLASS_KEYED)
        rules.effect_key_meta = HX_SPAN_LIT("effectKey");
    if (rules.contract.has_probe)
        sim_probe_rules(sim, &rules);
    *ret_rules = rules;
}

static void on_begin(struct sim *sim, struct sim_event *event)
{
    sim_host_begin(sim, sim_intent_get(sim, event->b));
}

/* One to three intents with equal arguments; most often one. */
static void plan_group(struct sim *sim, uint32_t group)
{
    struct sim_rng *rng = &sim->plan;
    enum sim_tool tool = (enum sim_tool)sim_below(rng, SIM_TOOL_COUNT);
    if (sim_chance(rng, 400))
        tool = SIM_PAY;
    if (sim->form.has_probe && tool == SIM_PAY && sim_chance(&sim->extra, 600))
        tool = SIM_BANK; /* so that the probe has something to do */
    uint32_t count = sim_chance(rng, 650) ? 1 : 2 + sim_below(rng, 2);
    int64_t at = sim_between(rng, 0, 40000);
    uint32_t host = 1 + sim_below(rng, sim->host_count);
    bool is_side_by_side = sim_chance(rng, 400);
    for (uint32_t i = 0; i < count; i++) {
        char key[40] = "";
        if (sim_chance(rng, 450))
            snprintf(key, sizeof(key), "key-%u-%u", group, i);
        struct sim_intent *intent = sim_intent_add(sim, host, tool, group, key);
        intent->is_param_key = sim_chance(rng, 250);
        intent->give_up = (enum sim_give_up)sim_below(rng, 3);
        if (intent->give_up == SIM_SILENT && !sim_chance(rng, sim->weather.silent))
            intent->give_up = SIM_CANCEL;
        intent->patience_ms =
            sim_chance(rng, 400) ? sim_between(rng, 800, 3000) : sim_between(rng, 5000, 60000);
        intent->retries_left = sim_below(rng, 6);
        sim_after(sim, at, on_begin)->b = intent->number;
        if (!is_side_by_side)
            at += sim_between(rng, 0, 15000);
        if (sim_chance(rng, 500))
            host = 1 + sim_below(rng, sim->host_count);
    }
}

void sim_plan(struct sim *sim)
{
    uint32_t groups = 2 + sim_below(&sim->plan, 9);
    for (uint32_t i = 1; i <= groups; i++)
        plan_group(sim, i);
}
