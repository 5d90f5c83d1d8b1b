/* SPDX-License-Identifier: MIT */
/*
 * Chance from a seed: splitmix64. Each use has a stream of its own, so that one more draw by the
 * engine does not change what the clients want.
 */
#include "sim/sim.h"

uint64_t sim_random(struct sim_rng *rng)
{
    uint64_t z = (rng->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint32_t sim_below(struct sim_rng *rng, uint32_t bound)
{
    return bound == 0 ? 0 : (uint32_t)(sim_random(rng) % bound);
}

int64_t sim_between(struct sim_rng *rng, int64_t low, int64_t high)
{
    return low >= high ? low : low + (int64_t)(sim_random(rng) % (uint64_t)(high - low + 1));
}

bool sim_chance(struct sim_rng *rng, unsigned per_mille)
{
    return per_mille > 0 && sim_below(rng, 1000) < per_mille;
}
