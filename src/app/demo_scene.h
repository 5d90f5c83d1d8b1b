/* SPDX-License-Identifier: MIT */
/*
 * The scenes of the demo: each stages one failure against a real server, bare or through Hapax, and
 * says how often the tool acted and what the caller was told.
 */
#ifndef HX_APP_DEMO_SCENE_H
#define HX_APP_DEMO_SCENE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the last caller was told. */
enum hx_demo_told {
    HX_TOLD_NOTHING,
    HX_TOLD_FIRST,    /* the result of the one charge that happened first */
    HX_TOLD_NEW,      /* the result of another charge */
    HX_TOLD_EACH_OWN, /* every caller the result of a charge of his own */
    HX_TOLD_ALL_SAME, /* every caller the result of the same charge */
    HX_TOLD_UNKNOWN,  /* it may have happened; do not repeat */
    HX_TOLD_CONFLICT, /* the key belongs to another call */
    HX_TOLD_OTHER
};

/* What one run needs and finds out. Plain bytes: it crosses a process boundary. */
struct hx_demo_run {
    size_t scene;
    bool is_guarded; /* through Hapax */
    int calls;
    int effects;
    enum hx_demo_told told;
    unsigned left_behind; /* processes that had to be killed at the end */
    int64_t elapsed_ms;
    char problem[256]; /* why the scene could not be staged; else empty */
};

struct hx_demo_paths {
    char hapax[512];
    char server[512];
    char directory[512]; /* of this run alone */
};

struct hx_demo_stage;

struct hx_demo_scene {
    const char *name;  /* for --only and --json */
    const char *title; /* for the table */
    int effects_bare;  /* -1 = there is no such failure without Hapax */
    int effects_guarded;
    enum hx_demo_told told_guarded;
    int delay_ms; /* between effect and answer */
    bool (*play)(struct hx_demo_stage *stage);
};

size_t hx_demo_scene_count(void);
const struct hx_demo_scene *hx_demo_scene(size_t index);
const char *hx_demo_told_text(enum hx_demo_told told);

/* Plays run->scene in this process, which must be a fresh one: it adopts and ends every process
 * that the run starts. */
void hx_demo_scene_play(struct hx_demo_run *run, const struct hx_demo_paths *paths);

#endif
