/* SPDX-License-Identifier: MIT */
/*
 * Whole sessions of `hapax serve`: several clients whose messages are exchanges, before a child or
 * a server over HTTP. The first byte says which, and whether they share the way to it.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/world/world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world world;
    if (size == 0)
        return 0;
    world = (struct world){
        .is_web = true, .is_remote = data[0] % 2 == 1, .is_shared = data[0] / 2 % 2 == 1};
    world_init(&world);
    world_play(&world, data + 1, size - 1);
    world_calm(&world);
    world_fini(&world);
    return 0;
}
