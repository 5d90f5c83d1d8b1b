/* SPDX-License-Identifier: MIT */
/*
 * What the operator said, in the form the engine works with. The application fills these from its
 * settings; spans are borrowed and live as long as the gateway.
 */
#ifndef HX_ENGINE_RULES_H
#define HX_ENGINE_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "core/contract.h"
#include "wire/mcp.h"
#include "json/canon.h"
#include "json/compare.h"
#include "json/redact.h"

/* An error by which a tool proves that it did nothing. */
struct hx_no_effect_rule {
    bool is_transient;
    bool is_code;
    int64_t code;
    const char *pattern; /* glob over the message, when not is_code */
};

enum hx_probe_match {
    HX_PROBE_VALUE, /* what stands at the pointer compares so to the value */
    HX_PROBE_COUNT, /* the number of elements there does */
    HX_PROBE_TEXT   /* the value is part of a text block of the answer */
};

/* A read-only tool that can tell whether a call happened. Texts are templates (json/template.h)
 * over ${effect_key}, ${key}, ${operation} and ${/pointer} into the call's arguments. */
struct hx_probe {
    struct hx_span tool; /* absent = there is none */
    struct hx_span arguments;
    enum hx_probe_match match;
    struct hx_span pointer; /* into the result of tools/call */
    enum hx_comparison comparison;
    struct hx_span value;
    struct hx_span result; /* pointer to what is told as the result; absent = the whole answer */
};

/* When a call is sent as a task, to a server that has them. */
enum hx_task_use {
    HX_TASK_USE_REQUIRED, /* where the tool cannot be called otherwise */
    HX_TASK_USE_OFFERED,  /* also where it may */
    HX_TASK_USE_NEVER
};

enum { HX_RULE_HEADER_NAME_MAX = 64 };

/* What holds for one tool. */
struct hx_tool_rules {
    struct hx_contract contract;
    bool is_class_declared; /* by the operator: the server's annotations do not count then */
    bool has_replay_note;
    bool has_stored_arguments;
    bool has_issued_keys_only;
    struct hx_span key_argument; /* JSON pointers into the arguments; absent = none */
    struct hx_span inject_key;
    struct hx_span effect_key_argument; /* at most one of these four */
    struct hx_span effect_key_meta;
    struct hx_span effect_key_header; /* only over transports that have headers */
    bool is_effect_key_param;
    struct hx_span approval_pointer; /* approval when: what stands there compares so to this */
    enum hx_comparison approval_comparison;
    struct hx_span approval_value;
    struct hx_probe probe;
    enum hx_task_use task_use;
    struct hx_canon_ignore ignore;
    const struct hx_no_effect_rule *no_effect;
    size_t no_effect_count;
    uint64_t result_max;
    int64_t cancel_timeout_ms;
};

enum hx_tell { HX_TELL_ERROR, HX_TELL_WARN, HX_TELL_INFO, HX_TELL_DEBUG };

enum hx_hints { HX_HINTS_READ_ONLY, HX_HINTS_TRUST, HX_HINTS_IGNORE };

/* What a tool is taken for: the operator's word, else the server's as far as it is believed. */
enum hx_tool_class hx_rules_class(const struct hx_tool_rules *rules, enum hx_hints believed,
                                  enum hx_mcp_hint read_only, enum hx_mcp_hint idempotent);

struct hx_upstream;
struct hx_downstream;

/* What holds for the whole process. */
struct hx_gateway_options {
    /* Keys that we hand out are made by it, and it must be the same for all on one ledger; absent:
     * none are handed out, and none is recognised. */
    struct hx_span issue_secret;
    struct hx_span ops_options; /* what a person must add to "hapax ops …" to read this ledger */
    bool logs_arguments;        /* the operator allows that arguments are told, see `tell` */
    /* Members whose values nobody is shown; NULL = none. Callers and servers get them. */
    const struct hx_redact_names *redact;
    bool ends_with_client; /* `hapax run`: its one client's end is the gateway's */
    size_t message_max;
    int64_t orphan_timeout_ms;  /* for work of which no tool rule speaks */
    uint32_t waiters_max;       /* per operation, then BUSY */
    uint32_t requests_max;      /* in flight from one client */
    uint64_t request_bytes_max; /* of theirs, in all; one request is always taken */
    struct {
        uint32_t in_flight_max; /* events on their way at once */
        int64_t wait_ms;        /* after the first try that came to nothing; doubled with each */
        int64_t wait_max_ms;
    } outbox;           /* of no meaning without a courier */
    uint64_t queue_max; /* bytes waiting for a slow client before we stop reading its server */

    /* One event worth telling an operator: a word, and "name=value" pairs ready for a log line.
     * Never arguments (but for `logs_arguments`), results or whole keys. */
    enum hx_tell tell_max; /* what is less grave is not even put into words */
    void (*tell)(void *context, enum hx_tell tell, const char *event, const char *pairs);
    /* A session is over, and nothing here points at its downstream any more. `is_ended`: by its
     * client, for good. NULL = nobody asks. */
    void (*session_over)(void *context, struct hx_downstream *downstream, bool is_ended);
    void *context;
};

/* What holds for one server. */
struct hx_server_options {
    struct hx_span name;
    int64_t target; /* digest of what the name stands for: another one gets no re-send (I14) */
    enum hx_hints hints;
    bool is_key_principal_scoped;
    bool is_sep3182_strict;
    bool never_asks_client; /* only operators decide, not whoever sits at a client */
    bool offers_operation;  /* the tool hapax_operation */
    bool offers_begin;      /* hapax_begin */
    bool offers_resolve;    /* hapax_resolve: its callers may settle what is unknown */
    int64_t issued_key_lifetime_ms;
    int64_t stuck_timeout_ms;
    int64_t start_timeout_ms; /* for the answer to initialize */
    bool is_remote;           /* its transport has exchanges, and streams that can be taken up */

    /* Fills the rules for a tool; called once per tool name. */
    void (*rules_for)(void *context, struct hx_span tool, struct hx_tool_rules *ret_rules);
    /* Is an older gateway of this server still finishing its work? Then a start that fails may only
     * mean that the two cannot run side by side, and is tried again. */
    bool (*is_predecessor_draining)(void *context);
    /* One line of the server's standard error. */
    void (*relay)(void *context, struct hx_span line);
    /* A way to the server, not started yet; NULL with a fault when there is none. */
    struct hx_upstream *(*make_upstream)(void *context);
    void (*free_upstream)(void *context, struct hx_upstream *upstream);
    /* It was retired and is freed; may be NULL. */
    void (*over)(void *context);
    void *context;
};

#endif
