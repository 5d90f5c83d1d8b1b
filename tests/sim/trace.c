/* SPDX-License-Identifier: MIT */
/*
 * What happened, for people: the last lines of a history, and the count of rare branches.
 */
#include "sim/sim.h"

#include <stdarg.h>
#include <unistd.h>

const char *const sim_mark_names[SIM_MARK_COUNT] = {
#define SIM_MARK_NAME(NAME, text) [SIM_##NAME] = text,
    SIM_MARKS(SIM_MARK_NAME)
#undef SIM_MARK_NAME
};

void sim_trace(struct sim *sim, const char *format, ...)
{
    char *line = sim->trace[sim->trace_count++ % SIM_TRACE_LINES];
    int len = snprintf(line, SIM_TRACE_WIDTH, "%9lld.%03lld ", (long long)sim->now / 1000,
                       (long long)sim->now % 1000);
    va_list args;
    va_start(args, format);
    vsnprintf(line + len, SIM_TRACE_WIDTH - (size_t)len, format, args);
    va_end(args);
    if (sim->options.is_tracing)
        printf("%s\n", line);
}

void sim_mark(struct sim *sim, enum sim_mark mark)
{
    sim->marks[mark]++;
}

void sim_print_trace(const struct sim *sim, FILE *out, size_t lines)
{
    size_t kept = sim->trace_count < SIM_TRACE_LINES ? sim->trace_count : SIM_TRACE_LINES;
    size_t shown = lines < kept ? lines : kept;
    for (size_t i = sim->trace_count - shown; i < sim->trace_count; i++)
        fprintf(out, "%s\n", sim->trace[i % SIM_TRACE_LINES]);
}

void sim_fail(struct sim *sim, const char *format, ...)
{
    char what[600];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    fflush(stdout);
    if (!sim->options.is_tracing)
        sim_print_trace(sim, stderr, 60);
    hx_list_for_each (at, &sim->lives) {
        const struct sim_life *life = hx_container_of(at, struct sim_life, node);
        fprintf(stderr, "life %u%s\n", life->number, life->is_paused ? ", paused" : "");
        sim_look_dump(life->gateway, stderr);
    }
    fprintf(stderr, "%9lld.%03lld BROKEN: %s\nseed %llu\n", (long long)sim->now / 1000,
            (long long)sim->now % 1000, what, (unsigned long long)sim->options.seed);
    /* Nothing is freed: the world is as it was when the promise broke. */
    _exit(1);
}

const char *sim_short_id(const struct hx_id *id)
{
    static char texts[8][HX_ID_TEXT_SIZE];
    static unsigned next;
    char *text = texts[next++ % 8];
    hx_id_format(id, text);
    return text + 28; /* the random end of it */
}
