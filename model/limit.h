/* SPDX-License-Identifier: MIT */
/*
 * What a verifier is given by its environment: the limits of the world that it walks, and the name
 * of the file for the numbers of the transitions that were taken. Spin counts those with -DPEG;
 * what it says of unreached states is silent about the options of a choice.
 */
#include <stdio.h>
#include <stdlib.h>

static int limit(const char *name)
{
    const char *value = getenv(name);
    if (value == NULL || value[0] < '0' || value[0] > '9' || value[1] != '\0') {
        fprintf(stderr, "the limit %s is no digit\n", name);
        exit(2);
    }
    return value[0] - '0';
}

static const long *taken_counts;
static int taken_size;

static void write_taken(void)
{
    FILE *file = fopen(getenv("TAKEN_FILE"), "w");
    for (int i = 0; file != NULL && i < taken_size; i++) {
        if (taken_counts[i] > 0)
            fprintf(file, "%d\n", i);
    }
    if (file == NULL || fclose(file) != 0)
        abort();
}

static void keep_counts(const long *counts, int size)
{
    taken_counts = counts;
    taken_size = size;
    atexit(write_taken);
}

#ifdef PEG
#define keep_taken() keep_counts(peg, NTRANS)
#else
#define keep_taken() (void)0
#endif
