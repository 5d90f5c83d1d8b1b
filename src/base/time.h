/* SPDX-License-Identifier: MIT */
/*
 * Two kinds of time that must never be mixed up, so they are two types.
 *
 * Monotonic time is the suspend-counting clock of one boot (CLOCK_BOOTTIME): it measures how long
 * something took and means nothing after a reboot. Wall time is what people read (CLOCK_REALTIME):
 * it may jump, so no rule about running a tool rests on it alone.
 *
 * Durations are plain int64_t milliseconds and say so in their names.
 */
#ifndef HX_BASE_TIME_H
#define HX_BASE_TIME_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct hx_mono {
    int64_t ms; /* since boot */
};

struct hx_wall {
    int64_t ms; /* since 1970-01-01T00:00:00Z; 0 = never or not known */
};

/* One boot of one host: the 16 bytes of the kernel's boot id. All zero = not known. */
struct hx_boot {
    uint8_t bytes[16];
};

/* One reading of both clocks, with the boot that the monotonic one belongs to. This is also how a
 * moment is kept in the ledger. */
struct hx_now {
    struct hx_mono mono;
    struct hx_wall wall;
    struct hx_boot boot;
};

#define HX_TIME_TEXT_SIZE 32

static inline bool hx_boot_eq(const struct hx_boot *a, const struct hx_boot *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

static inline bool hx_boot_is_known(const struct hx_boot *boot)
{
    static const struct hx_boot none;
    return !hx_boot_eq(boot, &none);
}

static inline int64_t hx_mono_since_ms(struct hx_mono later, struct hx_mono earlier)
{
    return later.ms - earlier.ms;
}

static inline struct hx_mono hx_mono_after(struct hx_mono start, int64_t ms)
{
    return (struct hx_mono){start.ms + ms};
}

static inline bool hx_mono_reached(struct hx_mono now, struct hx_mono deadline)
{
    return now.ms >= deadline.ms;
}

/* Writes RFC 3339 in UTC with milliseconds ("2026-11-29T19:16:34.123Z") into `text`, which has
 * HX_TIME_TEXT_SIZE bytes. Years outside 0-9999 print as "-". */
void hx_wall_format(struct hx_wall wall, char *text);

/* Reads RFC 3339 with any offset and up to nine fraction digits. Returns false and leaves *ret_wall
 * alone when `text` of `len` bytes is anything else. */
bool hx_wall_parse(const char *text, unsigned long len, struct hx_wall *ret_wall);

#endif
