/* SPDX-License-Identifier: MIT */
/*
 * A tool that looks whether a call of the keyed one happened, by the effect key that went with it.
 * It shows what happened some time later, tells the truth or nothing that can be judged, and is
 * sometimes silent.
 */
#include "sim/sim.h"

/* A stream of chance of its own decides, so that the other worlds stay as they are. */
void sim_probe_choose(struct sim *sim)
{
    struct sim_rng *rng = &sim->extra;
    struct hx_contract *contract = &sim->contracts[SIM_BANK];
    sim->form.has_probe = sim_chance(rng, 400);
    if (!sim->form.has_probe)
        return;
    sim->form.match = (enum hx_probe_match)sim_below(rng, 3);
    contract->has_probe = true;
    /* No call is longer under way: what is slow takes 90 s to act. */
    contract->in_flight_bound_ms = 100 * 1000;
    contract->visibility_lag_ms = sim_between(rng, 0, 20000);
    contract->retries_after_proof = sim_chance(rng, 500);
    if (sim_chance(rng, 850))
        contract->dedupe_horizon_ms = HX_UNDECLARED_MS; /* looking is all that can be done */
}

void sim_probe_rules(const struct sim *sim, struct hx_tool_rules *rules)
{
    rules->probe = (struct hx_probe){
        .tool = HX_SPAN_LIT("find"),
        .arguments = HX_SPAN_LIT("{\"key\":\"${effect_key}\"}"),
        .match = sim->form.match,
        .comparison = HX_CMP_GE,
        .value = HX_SPAN_LIT("1"),
    };
    switch (sim->form.match) {
    case HX_PROBE_VALUE:
        rules->probe.pointer = HX_SPAN_LIT("/structuredContent/count");
        return;
    case HX_PROBE_COUNT:
        rules->probe.pointer = HX_SPAN_LIT("/structuredContent/runs");
        return;
    case HX_PROBE_TEXT:
        rules->probe.value = HX_SPAN_LIT("found ${effect_key}");
        return;
    }
}

static bool is_seen(struct sim *sim, struct hx_span key)
{
    for (uint32_t i = 1; i <= sim->run_count; i++) {
        const struct sim_run *run = sim_run_get(sim, i);
        if (run->has_acted && run->seen_at <= sim->now && hx_span_eq_cstr(key, run->effect_key))
            return true;
    }
    return false;
}

static void write_unclear(struct sim *sim, struct hx_buf *line)
{
    static const char *const answers[] = {
        "\"result\":{\"content\":\"?\"}",
        "\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"no books\"}],\"isError\":true}",
        "\"error\":{\"code\":-32603,\"message\":\"the books are closed\"}"};
    sim_mark(sim, SIM_PROBE_UNCLEAR);
    (void)hx_buf_append_cstr(line, answers[sim_below(&sim->extra, 3)]);
}

/* Its answer is longer than a message may be: all that comes of it is whose it was. */
static void answer_at_length(struct sim *sim, const struct sim_process *process,
                             const struct hx_rpc_msg *msg)
{
    struct sim_upstream *upstream = sim_upstream_find(sim, process->upstream);
    if (upstream == NULL || process->life == 0)
        return;
    struct hx_peer_event *event =
        sim_upstream_event(upstream, HX_PEER_OVERSIZE, process->generation, 0, msg->id.raw);
    event->size = (uint64_t)1 << 30;
    event->has_result = true;
}

void sim_probe_take(struct sim *sim, struct sim_process *process, const struct hx_rpc_msg *msg)
{
    struct hx_buf line;
    uint32_t arguments = hx_json_member(&sim->tape, msg->params_token, HX_SPAN_LIT("arguments"));
    struct hx_span key =
        hx_json_content(&sim->tape, hx_json_member(&sim->tape, arguments, HX_SPAN_LIT("key")));
    bool is_found = is_seen(sim, key);
    sim_mark(sim, SIM_PROBED);
    sim_trace(sim, "process %u looks for %.*s%s", process->number, HX_SPAN_FMT(key),
              is_found ? " and finds it" : "");
    bool is_silent = sim->options.is_scripted ? process->life == sim->script_deaf
                                              : !sim->is_calm && sim_chance(&sim->extra, 100);
    if (is_silent)
        return;
    if (sim->options.is_scripted ? sim->is_script_long : sim_chance(&sim->extra, 50)) {
        sim_mark(sim, SIM_PROBE_UNCLEAR);
        answer_at_length(sim, process, msg);
        return;
    }
    hx_buf_init(&line, 1 << 20);
    (void)hx_buf_printf(&line, "{\"jsonrpc\":\"2.0\",\"id\":%.*s,", HX_SPAN_FMT(msg->id.raw));
    if (!sim->options.is_scripted && sim_chance(&sim->extra, sim->is_calm ? 50 : 200))
        write_unclear(sim, &line);
    else
        (void)hx_buf_printf(&line,
                            "\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"%s %.*s\"}],"
                            "\"structuredContent\":{\"count\":%d,\"runs\":[%s]}}",
                            is_found ? "found" : "no", HX_SPAN_FMT(key), is_found ? 1 : 0,
                            is_found ? "{}" : "");
    (void)hx_buf_append_char(&line, '}');
    sim_process_answer(sim, process, msg->id.raw, hx_buf_span(&line));
    hx_buf_fini(&line);
}

/* ---- what came of it ---- */

static bool will_act(struct sim *sim, const struct sim_run *run)
{
    const struct sim_process *process = sim_process_find(sim, run->process);
    return !run->has_acted && !run->is_cancelled && run->acts_at >= 0 && process != NULL &&
           !process->is_dead;
}

/* That nothing happened is judged by the row's own check; here, that nothing will. */
void sim_probe_check(struct sim *sim, const struct hx_record *row)
{
    bool has_acted = false;
    for (uint32_t i = 1; i <= sim->run_count; i++) {
        const struct sim_run *run = sim_run_get(sim, i);
        if (!hx_id_eq(&run->operation, &row->id))
            continue;
        has_acted |= run->has_acted;
        if (row->reason == HX_REASON_ABSENCE_PROVED && will_act(sim, run))
            sim_fail(sim, "operation %s is proved absent, and run %u will act",
                     sim_short_id(&row->id), run->number);
    }
    if (row->reason == HX_REASON_ABSENCE_PROVED)
        sim_mark(sim, row->state == HX_OP_READY ? SIM_PROBE_AGAIN : SIM_PROBE_ABSENT);
    if (row->state != HX_OP_SUCCEEDED || !row->outcome.is_reconstructed ||
        row->reason != HX_REASON_EVIDENCE)
        return;
    if (!has_acted)
        sim_fail(sim, "operation %s was found by a probe, and did not happen",
                 sim_short_id(&row->id));
    sim_mark(sim, SIM_PROBE_FOUND);
}
