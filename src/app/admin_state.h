/* SPDX-License-Identifier: MIT */
/*
 * What the files of the admin API share. Internal to admin*.c.
 */
#ifndef HX_APP_ADMIN_STATE_H
#define HX_APP_ADMIN_STATE_H

#include "app/admin.h"
#include "app/admin_token.h"
#include "base/arena.h"
#include "port/web.h"
#include "json/reader.h"
#include "json/writer.h"

struct hx_admin {
    struct hx_admin_options options;
    struct hx_admin_tokens tokens;
    struct hx_hasher *hasher;
    struct hx_web *web;
    struct hx_list inbox; /* struct hx_web_event */
    struct hx_list asked; /* struct admin_ask: those that are not answered yet */
    struct hx_json_tape tape;
};

/* One request that the ledger is asked for. Its client may be gone: then the answer goes nowhere,
 * and what was decided is decided all the same. */
struct admin_ask {
    struct hx_list node;
    struct hx_admin *admin;
    uint64_t exchange;
    struct hx_arena arena;
    const char *who; /* the name of the token */

    /* A decision. */
    enum hx_event_type decision;
    struct hx_outcome outcome;
    struct hx_span words;
    bool is_forced;
    struct hx_id effect_key; /* evidence: looked for among the rows of `state` */

    enum hx_op_state state; /* of the rows that are read; ABSENT: all that have not ended */

    bool is_without_payload; /* one operation */

    /* A list. */
    struct hx_buf json;
    struct hx_json_writer writer;
    struct hx_span tool;
    struct hx_span server;
    uint32_t limit;
    uint32_t count;
    uint32_t reads;
};

struct admin_ask *admin_ask_new(struct hx_admin *admin, uint64_t exchange, const char *who);
void admin_ask_free(struct admin_ask *ask);

/* Takes the content of `json`. */
void admin_answer(struct hx_admin *admin, uint64_t exchange, uint32_t status, struct hx_buf *json);
/* {"error": code, "sentence": …} */
void admin_refuse(struct hx_admin *admin, uint64_t exchange, uint32_t status, const char *code,
                  const char *sentence);

/* Members of the object that admin->tape holds. A text is in the arena; absent when it is not
 * there, or no text. */
struct hx_span admin_text(struct admin_ask *ask, const char *name);
struct hx_span admin_raw(struct admin_ask *ask, const char *name);
bool admin_flag(struct admin_ask *ask, const char *name);

/* admin_look.c: GET. `query` may be absent. */
void admin_list(struct hx_admin *admin, uint64_t exchange, const char *who, struct hx_span query);
void admin_show(struct hx_admin *admin, uint64_t exchange, const char *who, const struct hx_id *id,
                struct hx_span query);

/* admin_decide.c: POST, of the object that admin->tape holds. Each answers and ends the ask. */
void admin_decide(struct admin_ask *ask, const struct hx_id *id);
void admin_cancel(struct admin_ask *ask);
void admin_evidence(struct admin_ask *ask);

#endif
