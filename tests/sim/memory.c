/* SPDX-License-Identifier: MIT */
/*
 * Memory that a gateway is refused. What is small never is (base/alloc.h), so in these worlds the
 * arguments and results are large. A refusal falls on one allocation of one turn, and never on what
 * is ours: the ways out of a gateway are its edge.
 */
#include "sim/sim.h"

enum { PAD_SMALLEST = HX_ALLOC_SMALL_MAX + 4096, PAD_IN_FILE = HX_STORE_INLINE_MAX + 4096 };

void sim_memory_choose(struct sim *sim)
{
    if (sim->options.is_scripted || sim->options.seed % 11 != 5)
        return;
    sim->weather.no_memory = 1 + sim_below(&sim->extra, 900);
    sim->weather.batch = 0; /* what becomes of an array that cannot be written a test tells */
    sim->form.pad = sim_chance(&sim->extra, 300) ? PAD_IN_FILE : PAD_SMALLEST;
}

void sim_memory_pad(const struct sim *sim, struct hx_buf *json)
{
    if (sim->form.pad == 0)
        return;
    (void)hx_buf_append_cstr(json, ",\"pad\":\"");
    for (uint32_t i = 0; i < sim->form.pad; i += 16)
        (void)hx_buf_append_cstr(json, "0123456789abcdef");
    (void)hx_buf_append_char(json, '"');
}

void sim_memory_turn(struct sim_life *life)
{
    enum { LARGE_IN_A_TURN = 12 };
    struct sim *sim = life->sim;
    if (!sim->is_calm && sim->weather.no_memory > 0 &&
        sim_chance(&sim->extra, sim->weather.no_memory))
        hx_alloc_fail_large_at(1 + sim_below(&sim->extra, LARGE_IN_A_TURN));
    sim->is_memory_short = hx_alloc_fail_left() > 0;
}

void sim_memory_turn_over(struct sim_life *life)
{
    struct sim *sim = life->sim;
    if (sim->is_memory_short && hx_alloc_fail_left() == 0) {
        sim_mark(sim, SIM_NO_MEMORY);
        sim_trace(sim, "life %u was refused memory", life->number);
    }
    sim->is_memory_short = false;
    hx_alloc_fail_at(0);
}

unsigned long sim_memory_leave(void)
{
    unsigned long left = hx_alloc_fail_left();
    hx_alloc_fail_at(0);
    return left;
}

void sim_memory_return(unsigned long left)
{
    if (left > 0)
        hx_alloc_fail_large_at(left);
}
