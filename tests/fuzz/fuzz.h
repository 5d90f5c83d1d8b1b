/* SPDX-License-Identifier: MIT */
/*
 * What the fuzz targets share. Each target is one function of bytes; with libFuzzer it is fed at
 * random, without it replay.c feeds it the files of its corpus, so that every finding stays a
 * test.
 */
#ifndef HX_TESTS_FUZZ_H
#define HX_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "json/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct hx_json_limits fuzz_limits = {
    .depth_max = 64, .tokens_max = 1 << 16, .text_max = 1 << 20};

/* A stream of small numbers out of the input, for choices that the input makes. Repeatable. */
struct fuzz_dice {
    uint64_t state;
};

static inline struct fuzz_dice fuzz_dice(const uint8_t *data, size_t size)
{
    struct fuzz_dice dice = {0xcbf29ce484222325u};
    for (size_t i = 0; i < size; i++)
        dice.state = (dice.state ^ data[i]) * 0x100000001b3u;
    return dice;
}

static inline uint32_t fuzz_roll(struct fuzz_dice *dice, uint32_t sides)
{
    dice->state = dice->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(dice->state >> 33) % sides;
}

#endif
