/* SPDX-License-Identifier: MIT */
/*
 * Calls that must be refused, whatever else happens: with a key that stands for another call, or is
 * somebody else's, or is older than all that the ledger remembers.
 */
#include "adapter/store_memory/ledger.h"
#include "sim/sim.h"

/* ---- a key that is taken ---- */

static void on_conflict_probe(struct sim *sim, struct sim_event *event)
{
    struct sim_intent *intent = sim_intent_get(sim, event->b);
    struct sim_host *host = &sim->hosts[intent->host];
    if (sim->form.port_count > 0 && sim_chance(&sim->shape, 500))
        host = &sim->hosts[1 + sim_below(&sim->shape, sim->host_count)];
    if (host->life == 0 || !host->is_ready)
        return;
    for (size_t i = 0;; i++) {
        const struct hx_record *row = hx_memory_ledger_row(sim->ledger, i);
        if (row == NULL)
            return; /* the key is not taken yet, so nothing would conflict */
        if (hx_span_eq_cstr(row->key, intent->key) &&
            hx_span_eq_cstr(row->tool, sim_tool_names[intent->tool]))
            break;
    }
    sim_host_call(sim, host, intent, true);
}

void sim_refused_probe(struct sim *sim, const struct sim_intent *intent)
{
    sim_after(sim, sim_between(&sim->luck, 0, 3000), on_conflict_probe)->b = intent->number;
}

/* ---- a key from before the ledger's memory ---- */

static void on_ancient(struct sim *sim, struct sim_event *event)
{
    struct sim_intent *intent = sim_intent_get(sim, event->b);
    struct sim_host *host = &sim->hosts[intent->host];
    if (host->life != 0 && host->is_ready)
        sim_host_call(sim, host, intent, true);
}

/* The mark stands where it stood at the beginning: rows go behind it in months, not in an hour. */
void sim_refused_plan(struct sim *sim)
{
    const int64_t day_ms = 24 * 3600 * 1000;
    struct sim_rng *rng = &sim->extra;
    if (!sim_chance(rng, 250))
        return;
    struct hx_wall mark = hx_clock_now(&sim->clock).wall;
    mark.ms -= 30 * day_ms;
    hx_memory_ledger_set_low_water(sim->ledger, mark);
    for (uint32_t i = 1 + sim_below(rng, 2); i > 0; i--) {
        uint8_t random[10] = {0};
        char key[HX_ID_TEXT_SIZE];
        random[9] = (uint8_t)i;
        struct hx_wall begun = {mark.ms - sim_between(rng, 1, 30 * day_ms)};
        struct hx_id id = hx_id_make(begun, random);
        hx_id_format(&id, key);
        struct sim_intent *intent =
            sim_intent_add(sim, 1 + sim_below(rng, sim->host_count),
                           (enum sim_tool)sim_below(rng, SIM_LOOK), 1000 + i, key);
        intent->is_ancient = true;
        sim_after(sim, sim_between(rng, 1000, 89000), on_ancient)->b = intent->number;
    }
}

/* ---- what they are told ---- */

static bool is_told(const struct sim_answer *answer, const char *code)
{
    return answer->has_code && strcmp(answer->code, code) == 0;
}

static void check_ancient(struct sim *sim, const struct sim_call *call,
                          const struct sim_answer *answer)
{
    if (is_told(answer, "KEY_EXPIRED"))
        sim_mark(sim, SIM_EXPIRED);
    else if (!is_told(answer, "LEDGER_UNAVAILABLE") && !is_told(answer, "REFUSED"))
        sim_fail(sim, "call %u with a key of long ago was answered with %s", call->number,
                 answer->has_code ? answer->code : "an outcome");
}

static void check_conflict(struct sim *sim, const struct sim_call *call,
                           const struct sim_answer *answer)
{
    static const char *const fine[] = {"KEY_CONFLICT", "LEDGER_UNAVAILABLE", "REFUSED"};
    if (answer->has_operation && sim_row(sim, &answer->operation) != NULL)
        sim_fail(sim, "conflict %u was told about an operation", call->number);
    for (size_t i = 0; i < 3; i++) {
        if (answer->has_code && strcmp(answer->code, fine[i]) == 0) {
            const struct sim_intent *intent = sim_intent_get(sim, call->intent);
            sim_mark(sim, SIM_CONFLICT);
            if (strcmp(sim->hosts[call->host].principal, sim->hosts[intent->host].principal) != 0)
                sim_mark(sim, SIM_STRANGER);
            return;
        }
    }
    sim_fail(sim, "conflict %u was answered with %s", call->number,
             answer->has_code ? answer->code : "an outcome");
}

void sim_refused_check(struct sim *sim, const struct sim_call *call,
                       const struct sim_answer *answer)
{
    if (sim_intent_get(sim, call->intent)->is_ancient)
        check_ancient(sim, call, answer);
    else
        check_conflict(sim, call, answer);
}
