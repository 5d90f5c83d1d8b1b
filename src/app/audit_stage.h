/* SPDX-License-Identifier: MIT */
/*
 * The parts that trials are made of: a client, a call, a cut, a look at the number of effects.
 *
 * A part that can fail writes into seen->problem why and returns false; a trial is over then.
 */
#ifndef HX_APP_AUDIT_STAGE_H
#define HX_APP_AUDIT_STAGE_H

#include "app/audit.h"
#include "app/mcp_client.h"

struct hx_audit_stage {
    const struct hx_audit_plan *plan;
    struct hx_audit_seen *seen;
    struct hx_mcp_client client;     /* the latest */
    int64_t before;                  /* what the command printed before the first call */
    struct hx_mono sent;             /* when the first call had left */
    const char *key;                 /* of calls from now on; NULL: none */
    char name[HX_AUDIT_VALUE_SIZE];  /* of the trial; what all its values begin with */
    char value[HX_AUDIT_VALUE_SIZE]; /* in the arguments of calls from now on */
    uint64_t number;
    char keys[2][40];
};

bool hx_audit_fail(struct hx_audit_stage *stage, const char *format, ...) HX_PRINTF(2, 3);
/* Begins with the number of effects before anything is sent. */
bool hx_audit_begin(struct hx_audit_stage *stage);
/* Makes calls from now on another intent's. */
void hx_audit_other_arguments(struct hx_audit_stage *stage);
/* A new process of the server, or a new session; and the handshake. */
bool hx_audit_connect(struct hx_audit_stage *stage);
/* Sends the call under this id and reads nothing. Over stdio `count` calls with rising ids leave in
 * one piece. */
bool hx_audit_call(struct hx_audit_stage *stage, unsigned id, unsigned count);
/* Tells the server that nobody waits for `id` any more. */
bool hx_audit_cancel(struct hx_audit_stage *stage, unsigned id);
/* Reads until there is an answer to `id`; takes it down as what the last caller was told, also that
 * there is none. */
void hx_audit_listen(struct hx_audit_stage *stage, unsigned id);
/* Is an answer to `id` there already? Reads what has come. */
bool hx_audit_is_answered(struct hx_audit_stage *stage, unsigned id);

/* The number of effects by now, into seen->effects. */
bool hx_audit_look(struct hx_audit_stage *stage);
/* Looks until there are `count`, or an undisturbed call would have been over long ago. */
bool hx_audit_look_for(struct hx_audit_stage *stage, int64_t count);
/* Looks until the number has stood still for as long as a call takes and more. */
bool hx_audit_settle(struct hx_audit_stage *stage);

#endif
