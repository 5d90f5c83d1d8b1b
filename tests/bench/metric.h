/* SPDX-License-Identifier: MIT */
/*
 * Figures for the table of budgets: one line "NAME VALUE" each, appended to the file that
 * HAPAX_BENCH_METRICS names; tests/bench/budgets reads them. Without it nothing is written.
 * HAPAX_BENCH_PREFIX goes before each name.
 */
#ifndef HX_TESTS_BENCH_METRIC_H
#define HX_TESTS_BENCH_METRIC_H

#include <stdio.h>
#include <stdlib.h>

static inline void metric(const char *name, double value)
{
    const char *path = getenv("HAPAX_BENCH_METRICS");
    FILE *file = path != NULL ? fopen(path, "ae") : NULL;
    if (file == NULL)
        return;
    const char *prefix = getenv("HAPAX_BENCH_PREFIX");
    fprintf(file, "%s%s %.6g\n", prefix != NULL ? prefix : "", name, value);
    fclose(file);
}

#endif
