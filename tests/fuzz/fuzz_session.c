/* SPDX-License-Identifier: MIT */
/*
 * Whole sessions of `hapax run`: one client and one child, bytes in on either side. What is
 * promised is checked in world/judge.c.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/world/world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world world;
    world = (struct world){0};
    world_init(&world);
    world_play(&world, data, size);
    world_calm(&world);
    world_fini(&world);
    return 0;
}
