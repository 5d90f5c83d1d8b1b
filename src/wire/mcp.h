/* SPDX-License-Identifier: MIT */
/*
 * What a gateway reads in MCP messages: revisions and their differences, method names, and the few
 * members of each message that decide something. Everything else passes unread.
 *
 * Slices are the peer's bytes; decoded text that held escapes borrows the arena. Members that have
 * the wrong type count as absent unless a field says otherwise: strictness towards other people's
 * messages is the peers' business, not a gateway's.
 */
#ifndef HX_WIRE_MCP_H
#define HX_WIRE_MCP_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/span.h"
#include "wire/jsonrpc.h"
#include "json/reader.h"

enum hx_mcp_revision {
    HX_MCP_UNKNOWN, /* a revision that we have never heard of */
    HX_MCP_2024_11_05,
    HX_MCP_2025_03_26,
    HX_MCP_2025_06_18,
    HX_MCP_2025_11_25,
    HX_MCP_2026_07_28 /* reserved: no handshake, metadata in every request */
};

/* What differs between revisions, as far as a gateway cares. */
struct hx_mcp_facts {
    enum hx_mcp_revision revision;
    struct hx_span name;    /* "2025-06-18" */
    bool has_handshake;     /* `initialize`; without it each request describes itself */
    bool may_batch;         /* JSON-RPC arrays must be accepted */
    bool may_omit_error_id; /* an error response may leave the id out, else it is null */
    bool has_elicitation;
    bool has_progress_message;
    bool has_server_requests; /* the server may send requests of its own */
    bool has_core_tasks;      /* params.task, tasks/get, ... */
    bool has_result_type;     /* resultType in every result */
};

/* Of UNKNOWN: the facts of the newest revision with a handshake, under an absent name. */
const struct hx_mcp_facts *hx_mcp_facts(enum hx_mcp_revision revision);
enum hx_mcp_revision hx_mcp_revision_parse(struct hx_span name);

enum hx_mcp_method {
    HX_MCP_METHOD_OTHER, /* vendor methods, and all that a gateway passes without a thought */
    HX_MCP_INITIALIZE,
    HX_MCP_INITIALIZED,
    HX_MCP_PING,
    HX_MCP_TOOLS_LIST,
    HX_MCP_TOOLS_CALL,
    HX_MCP_TOOLS_LIST_CHANGED,
    HX_MCP_CANCELLED,
    HX_MCP_PROGRESS,
    HX_MCP_LOG_MESSAGE,
    HX_MCP_SET_LEVEL,
    HX_MCP_ELICITATION_CREATE,
    HX_MCP_SAMPLING_CREATE,
    HX_MCP_ROOTS_LIST,
    HX_MCP_ROOTS_LIST_CHANGED,
    HX_MCP_RESOURCES_SUBSCRIBE,
    HX_MCP_TASKS_GET,
    HX_MCP_TASKS_RESULT,
    HX_MCP_TASKS_LIST,
    HX_MCP_TASKS_CANCEL,
    HX_MCP_TASKS_STATUS, /* the notification */
    HX_MCP_HAPAX_GET,    /* hapax/operations/... */
    HX_MCP_HAPAX_LIST,
    HX_MCP_HAPAX_CANCEL,
    HX_MCP_HAPAX_ACKNOWLEDGE,
    HX_MCP_HAPAX_BEGIN,
    HX_MCP_METHOD_COUNT
};

enum hx_mcp_method hx_mcp_method_parse(struct hx_span method);
/* A request that changes nothing, or sets what may be set twice: asked again it harms nobody.
 * `name` is the method's; of OTHER it tells more. */
bool hx_mcp_is_harmless(enum hx_mcp_method method, struct hx_span name);
/* Absent for OTHER. */
struct hx_span hx_mcp_method_name(enum hx_mcp_method method);

/* Names of our members in `_meta`. */
#define HX_MCP_META_KEY "dev.hapax/idempotencyKey"
#define HX_MCP_META_FIRST_SENT "dev.hapax/firstSent"
#define HX_MCP_META_RETRY "dev.hapax/retry"
#define HX_MCP_META_OPERATION "dev.hapax/operation"
/* The data of an error in our own name. The envelope tells it from a tool's error, which may call
 * its own words as we do: that one is never passed on with an envelope. */
#define HX_MCP_OWN_ERROR(code, retry_safe, new_key_allowed)                                        \
    "{\"code\":\"" code "\",\"retry_safe\":" retry_safe ",\"" HX_MCP_META_OPERATION "\":{"         \
    "\"code\":\"" code                                                                             \
    "\",\"replayed\":false,\"joined\":false,\"new_key_allowed\":" new_key_allowed "}}"
#define HX_MCP_META_PREFIX "dev.hapax/"
#define HX_MCP_EXTENSION "dev.hapax/operations"

/* A string that a peer put somewhere, with the three ways it can be there. */
enum hx_mcp_text_state {
    HX_MCP_TEXT_ABSENT,
    HX_MCP_TEXT_GIVEN,
    HX_MCP_TEXT_BAD /* present, but no string, or one that no UTF-8 exists for */
};

struct hx_mcp_text {
    enum hx_mcp_text_state state;
    struct hx_span text; /* decoded; GIVEN only */
};

/* The string that stands at `index`, which may be HX_JSON_NONE. 0 or HX_E_NOMEM. */
int hx_mcp_text_at(const struct hx_json_tape *tape, uint32_t index, struct hx_arena *arena,
                   struct hx_mcp_text *ret_text) HX_MUST_CHECK;

/* params of tools/call. */
struct hx_mcp_call {
    struct hx_mcp_text name;
    struct hx_span arguments;      /* raw; absent when not there */
    bool arguments_is_object;      /* false also when absent */
    struct hx_span meta;           /* raw `_meta` object */
    struct hx_span progress_token; /* raw: string or integer; else absent */
    struct hx_mcp_text meta_key;   /* _meta["dev.hapax/idempotencyKey"] */
    struct hx_mcp_text first_sent;
    struct hx_mcp_text retry;
    struct hx_mcp_text param_key; /* params.idempotencyKey */
    bool has_task;                /* params.task is there */
    bool has_duplicates; /* in params or _meta: readers could disagree, refuse a guarded call */
};

/* `msg` is a request of method tools/call on `tape` (recorded to HX_RPC_RECORD_DEPTH).
 * 0 or HX_E_NOMEM. */
int hx_mcp_call_read(const struct hx_json_tape *tape, const struct hx_rpc_msg *msg,
                     struct hx_arena *arena, struct hx_mcp_call *ret_call) HX_MUST_CHECK;

/* The string at a JSON pointer in raw `arguments` (`key_argument`, `inject_key`). `tape` is
 * scratch. 0 or HX_E_NOMEM. */
int hx_mcp_argument_read(struct hx_json_tape *tape, struct hx_span arguments,
                         struct hx_span pointer, const struct hx_json_limits *limits,
                         struct hx_arena *arena, struct hx_mcp_text *ret_text) HX_MUST_CHECK;

/* params of initialize. */
struct hx_mcp_initialize {
    struct hx_mcp_text protocol_version;
    enum hx_mcp_revision revision;
    struct hx_mcp_text client_name;
    struct hx_mcp_text client_version;
    bool can_elicit;      /* capabilities.elicitation */
    bool can_elicit_form; /* form mode: {} or {"form":...} */
    bool can_elicit_url;
    bool can_sample;
    bool has_roots;
    bool has_tasks;
    bool has_operations_extension; /* capabilities.extensions["dev.hapax/operations"] */
};

/* Result of initialize. */
struct hx_mcp_initialize_result {
    struct hx_mcp_text protocol_version;
    enum hx_mcp_revision revision;
    struct hx_mcp_text server_name;
    struct hx_mcp_text server_version;
    bool has_tools;
    bool tools_list_changed;
    bool has_idempotency; /* capabilities.tools.idempotency */
    bool has_tasks;
    bool has_task_calls; /* capabilities.tasks.requests.tools */
    bool has_operations_extension;
};

/* These read their raw slice again, to any depth, onto `tape`, which is scratch: not the tape that
 * the message came on. A slice that is refused (limits) gives empty answers. 0 or HX_E_NOMEM. */
int hx_mcp_initialize_read(struct hx_json_tape *tape, struct hx_span params,
                           const struct hx_json_limits *limits, struct hx_arena *arena,
                           struct hx_mcp_initialize *ret_initialize) HX_MUST_CHECK;
int hx_mcp_initialize_result_read(struct hx_json_tape *tape, struct hx_span result,
                                  const struct hx_json_limits *limits, struct hx_arena *arena,
                                  struct hx_mcp_initialize_result *ret_result) HX_MUST_CHECK;

/* A hint has three values: a tool that says nothing is not a tool that says no. */
enum hx_mcp_hint { HX_MCP_HINT_ABSENT, HX_MCP_HINT_FALSE, HX_MCP_HINT_TRUE };

/* execution.taskSupport of a tool (2025-11-25); absent is FORBIDDEN. */
enum hx_mcp_task_support { HX_MCP_TASK_FORBIDDEN, HX_MCP_TASK_OPTIONAL, HX_MCP_TASK_REQUIRED };

struct hx_mcp_tool {
    struct hx_span name; /* decoded */
    enum hx_mcp_hint read_only;
    enum hx_mcp_hint idempotent;
    enum hx_mcp_hint destructive;
    enum hx_mcp_task_support task_support;
    struct hx_span input_schema; /* raw */
    struct hx_span raw;          /* the whole tool */
};

/* A page of a tools/list answer. Tools without a usable name are left out. */
struct hx_mcp_tools {
    const struct hx_json_tape *tape;
    uint32_t array;
    uint32_t at;
    bool has_more; /* nextCursor is there, even if empty */
    struct hx_mcp_text next_cursor;
};

int hx_mcp_tools_read(struct hx_json_tape *tape, struct hx_span result,
                      const struct hx_json_limits *limits, struct hx_arena *arena,
                      struct hx_mcp_tools *ret_tools) HX_MUST_CHECK;
/* 1 and a tool, 0 at the end, HX_E_NOMEM. */
int hx_mcp_tools_next(struct hx_mcp_tools *tools, struct hx_arena *arena,
                      struct hx_mcp_tool *ret_tool) HX_MUST_CHECK;

/* params of notifications/cancelled. */
struct hx_mcp_cancelled {
    struct hx_rpc_id request_id; /* NONE when absent or no id */
    struct hx_mcp_text reason;
};
int hx_mcp_cancelled_read(const struct hx_json_tape *tape, const struct hx_rpc_msg *msg,
                          struct hx_arena *arena,
                          struct hx_mcp_cancelled *ret_cancelled) HX_MUST_CHECK;

/* params of notifications/progress. The token has the syntax of an id. */
struct hx_rpc_id hx_mcp_progress_token(const struct hx_json_tape *tape,
                                       const struct hx_rpc_msg *msg);

/* Result of tools/call. */
struct hx_mcp_call_result {
    bool is_error; /* isError: true */
    bool is_task;  /* a CreateTaskResult of 2025-11-25 ("task" object) or resultType "task" */
    bool is_input_required; /* resultType "input_required" */
    struct hx_span task;    /* raw "task" object */
    struct hx_span code;    /* raw string: `code` of our own member in `_meta`; else absent */
};
struct hx_mcp_call_result hx_mcp_call_result_read(const struct hx_json_tape *tape,
                                                  const struct hx_rpc_msg *msg);

/* A task of 2025-11-25: the "task" object of an acceptance, or the result of tasks/get. One that
 * waits for input works on, for us: who asks for its result is asked in turn. */
enum hx_mcp_task_status {
    HX_MCP_TASK_WORKING,
    HX_MCP_TASK_COMPLETED,
    HX_MCP_TASK_FAILED,
    HX_MCP_TASK_CANCELLED,
    HX_MCP_TASK_OTHER
};
struct hx_mcp_task {
    struct hx_span id; /* raw string, in the text that was read */
    enum hx_mcp_task_status status;
    int64_t poll_ms; /* 0 = not said */
};
/* 1: it is none. */
int hx_mcp_task_read(struct hx_json_tape *tape, struct hx_span object,
                     const struct hx_json_limits *limits,
                     struct hx_mcp_task *ret_task) HX_MUST_CHECK;

/* error of a response. */
struct hx_mcp_error {
    int64_t code;
    bool has_code; /* an integer inside int64 */
    struct hx_mcp_text message;
    struct hx_mcp_text data_type; /* error.data.type */
    struct hx_mcp_text data_code; /* error.data.code */
    bool is_own_word;    /* our envelope beside it says the same: no tool's error has one */
    bool is_said_unsafe; /* error.data.retry_safe is false: it may have happened */
};
int hx_mcp_error_read(const struct hx_json_tape *tape, const struct hx_rpc_msg *msg,
                      struct hx_arena *arena, struct hx_mcp_error *ret_error) HX_MUST_CHECK;

#endif
