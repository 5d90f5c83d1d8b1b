/* SPDX-License-Identifier: MIT */
/*
 * What histories written by hand have in common.
 */
#ifndef HX_SIM_SCENARIO_KIT_H
#define HX_SIM_SCENARIO_KIT_H

#include "sim/sim.h"

/* How the tool takes its next calls. */
struct scenario_tool {
    int style;
    int64_t act_ms; /* -1 = never */
    int64_t answer_ms;
    bool is_refused;
};

extern struct scenario_tool tool;

void the_tool_works(void);
void the_tool_is_silent(int64_t act_ms);

/* Two clients with a `run` each. */
struct sim *begin(void);
/* Three clients of one `serve`. */
struct sim *begin_serve(enum sim_share share, bool is_remote);
void end(struct sim *sim);

/* The keyed tool is never sent again, and looked for; no call is under way longer than 2 s. */
void the_tool_is_probed(struct sim *sim);

/* Numbers of intents, since the array may move. */
uint32_t want(struct sim *sim, uint32_t host, enum sim_tool which, const char *key);
/* The same is wanted still. */
void want_again(struct sim *sim, uint32_t number);
uint32_t effects(struct sim *sim);
uint32_t answers(struct sim *sim, uint32_t call);
const struct hx_record *last_row(struct sim *sim);
/* The life that listens at the port. */
struct sim_life *at_port(struct sim *sim);

#endif
