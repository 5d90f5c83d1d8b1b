/* SPDX-License-Identifier: MIT */
/*
 * The changes a gateway makes to messages. All of them are splices: bytes that no change names come
 * out as they went in, numbers, escapes, white space and member order included.
 *
 * Each function takes a whole message (or a raw result) as text, reads it onto scratch memory of
 * its own and appends the changed text to `out`, without a newline. When it cannot, `out` is cut
 * back to what it was.
 */
#ifndef HX_WIRE_REWRITE_H
#define HX_WIRE_REWRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "wire/jsonrpc.h"
#include "json/reader.h"

enum hx_rewrite_outcome {
    HX_REWRITE_NO_PLACE = 1, /* a parent that must hold the change is of the wrong type */
    HX_REWRITE_BAD_TEXT /* not the kind of message that the function changes, or over the limits */
};

/* Scratch memory, reused; one per thread. */
struct hx_rewrite {
    struct hx_json_tape tape;
    struct hx_arena arena;
    struct hx_json_limits limits;
};

void hx_rewrite_init(struct hx_rewrite *rewrite, const struct hx_json_limits *limits);
void hx_rewrite_fini(struct hx_rewrite *rewrite);

/* All return 0, HX_E_NOMEM, HX_E_LIMIT (of `out`) or an outcome. Absent spans mean "leave as it
 * is". */

/* Replaces the id of any request or response. Needs no read: `msg` is the classified message. */
int hx_rewrite_id(const struct hx_rpc_msg *msg, struct hx_span new_id,
                  struct hx_buf *out) HX_MUST_CHECK;

/* A request (tools/call or another with params) on its way upstream. */
struct hx_rewrite_call {
    struct hx_span id;             /* raw new id */
    struct hx_span progress_token; /* raw: set, also where there was none */
    bool drop_progress_token;
    bool drop_hapax_meta;         /* every _meta member that starts with "dev.hapax/" */
    bool drop_param_key;          /* params.idempotencyKey */
    bool drop_task;               /* params.task */
    struct hx_span task;          /* raw: in its place; absent = none */
    struct hx_span drop_argument; /* JSON pointer into arguments: an injected or consumed key */
    struct hx_span effect_key;    /* plain text, put wherever the next three say */
    struct hx_span effect_key_argument; /* JSON pointer into arguments; only its last member may be
                                           missing */
    struct hx_span effect_key_meta;     /* name of a member of _meta */
    bool effect_key_param;              /* params.idempotencyKey (after drop_param_key) */
};
int hx_rewrite_call(struct hx_rewrite *rewrite, struct hx_span message,
                    const struct hx_rewrite_call *change, struct hx_buf *out) HX_MUST_CHECK;

/* notifications/progress: another progressToken. */
int hx_rewrite_progress(struct hx_rewrite *rewrite, struct hx_span message, struct hx_span token,
                        struct hx_buf *out) HX_MUST_CHECK;
/* notifications/cancelled: another requestId. */
int hx_rewrite_cancelled(struct hx_rewrite *rewrite, struct hx_span message,
                         struct hx_span request_id, struct hx_buf *out) HX_MUST_CHECK;

struct hx_rewrite_initialize {
    struct hx_span id;
    struct hx_span operations_extension; /* raw JSON of settings: we advertise
                                            capabilities.extensions["dev.hapax/operations"] */
    struct hx_span revision;             /* in place of the server's; absent = as it is */
};

/* Response to initialize: those changes, and capabilities.tasks.requests.tools withheld together
 * with parents that this leaves empty. */
int hx_rewrite_initialize_result(struct hx_rewrite *rewrite, struct hx_span message,
                                 const struct hx_rewrite_initialize *change,
                                 struct hx_buf *out) HX_MUST_CHECK;

/* Response to tools/list: another id, and for each tool that `wants_key` names a property at the
 * (one-step) pointer `property` in its inputSchema, unless one of that name exists. */
struct hx_rewrite_own_tool {
    struct hx_span name;
    struct hx_span json; /* raw: the element of `tools` */
};
struct hx_rewrite_tools {
    struct hx_span id;
    bool (*wants_key)(void *context, struct hx_span tool_name, struct hx_span *ret_property);
    void *context;
    /* Added to the last page of the list, but for those whose name stands on that page. */
    const struct hx_rewrite_own_tool *own;
    size_t own_count;
};
int hx_rewrite_tools_result(struct hx_rewrite *rewrite, struct hx_span message,
                            const struct hx_rewrite_tools *change,
                            struct hx_buf *out) HX_MUST_CHECK;

/* Changes inside a result of tools/call. */
struct hx_rewrite_result {
    struct hx_span id;        /* raw; for hx_rewrite_result_message only */
    struct hx_span operation; /* raw JSON for _meta["dev.hapax/operation"]; replaces an inner one */
    struct hx_span note;      /* plain text: one text block at the end of `content` */
};
/* On a whole response. */
int hx_rewrite_result_message(struct hx_rewrite *rewrite, struct hx_span message,
                              const struct hx_rewrite_result *change,
                              struct hx_buf *out) HX_MUST_CHECK;
/* From a stored raw result: builds the response around it. */
int hx_rewrite_result_build(struct hx_rewrite *rewrite, struct hx_span result,
                            const struct hx_rewrite_result *change,
                            struct hx_buf *out) HX_MUST_CHECK;

/* The response with a tool's raw error: without our envelope in its data, which would make it our
 * word to a gateway that hears it. */
int hx_rewrite_tool_error_build(struct hx_rewrite *rewrite, struct hx_span error, struct hx_span id,
                                struct hx_buf *out) HX_MUST_CHECK;

/* {"jsonrpc":"2.0","id":ID,"result":RESULT}; both raw. */
int hx_rewrite_build_result(struct hx_buf *out, struct hx_span id,
                            struct hx_span result) HX_MUST_CHECK;
/* An error with a plain message; `data` is raw JSON or absent. An absent id is written as null, or
 * left out when `may_omit_id`. */
int hx_rewrite_build_error(struct hx_buf *out, struct hx_span id, bool may_omit_id, int64_t code,
                           struct hx_span message, struct hx_span data) HX_MUST_CHECK;
/* A request or notification (absent id) of ours; `params` is raw JSON or absent. */
int hx_rewrite_build_request(struct hx_buf *out, struct hx_span id, struct hx_span method,
                             struct hx_span params) HX_MUST_CHECK;

#endif
