/* SPDX-License-Identifier: MIT */
/*
 * Plays back what host_disk.c wrote down, as tests/e2e/kit/hostcrash.py does: what a host crash
 * leaves of a directory.
 */
#ifndef HX_TESTS_KIT_HOST_CRASH_H
#define HX_TESTS_KIT_HOST_CRASH_H

#include <stdbool.h>
#include <stdint.h>

/* No process that uses the directory may live. Not torn: nothing that was not synced is there,
 * neither bytes nor names. Torn: of the bytes that were not synced each sector of 512 is or is not,
 * as `seed` decides, and all names are there. The log is emptied. Returns how many changes were
 * looked at. */
unsigned host_crash(const char *directory, const char *log, bool is_torn, uint64_t seed);

#endif
