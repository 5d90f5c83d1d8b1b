/* SPDX-License-Identifier: MIT */
/*
 * Where randomness comes from: the kernel in the product, a seed in the simulator.
 */
#ifndef HX_PORT_RAND_H
#define HX_PORT_RAND_H

#include <stddef.h>
#include <stdint.h>

struct hx_rand {
    /* Fills `len` bytes; cannot fail. */
    void (*fill)(struct hx_rand *rand, uint8_t *ret_bytes, size_t len);
};

static inline void hx_rand_fill(struct hx_rand *rand, uint8_t *ret_bytes, size_t len)
{
    rand->fill(rand, ret_bytes, len);
}

#endif
