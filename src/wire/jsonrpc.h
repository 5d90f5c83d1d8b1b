/* SPDX-License-Identifier: MIT */
/*
 * One line, or one element of a batch, as a JSON-RPC 2.0 message. All slices are the peer's own
 * bytes.
 *
 * Ids keep their type and spelling: "1" and 1 are two ids, and an answer carries the id as it came.
 */
#ifndef HX_WIRE_JSONRPC_H
#define HX_WIRE_JSONRPC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/digest.h"
#include "base/span.h"
#include "json/reader.h"

/* What a tape of a message records: the message, its params or result, and two levels below, also
 * as an element of a batch; and no long arrays. So a result of any size costs little. */
#define HX_RPC_RECORD_DEPTH 5
#define HX_RPC_ELEMENTS_MAX 1024
/* Less than that when a message holds more values than the tape may: enough to classify it. */
#define HX_RPC_RECORD_DEPTH_LEAST 3

enum hx_rpc_kind {
    HX_RPC_INVALID,
    HX_RPC_REQUEST,
    HX_RPC_NOTIFICATION,
    HX_RPC_RESULT, /* a response that holds a result */
    HX_RPC_ERROR,  /* a response that holds an error */
    HX_RPC_BATCH   /* a non-empty array; its elements are classified one by one */
};

/* Why a message is invalid. */
enum hx_rpc_fault {
    HX_RPC_FAULT_NONE,
    HX_RPC_EMPTY,       /* nothing but white space: noise, not worth an answer */
    HX_RPC_PARSE_ERROR, /* not JSON; -32700 */
    HX_RPC_BAD_UTF8,    /* -32700 */
    HX_RPC_OVER_LIMIT,  /* too deep or too many values; -32700 */
    HX_RPC_NOT_MESSAGE, /* JSON, but neither object nor array; -32600 from here on */
    HX_RPC_BATCH_EMPTY,
    HX_RPC_BATCH_NESTED,   /* an array in a batch */
    HX_RPC_DUPLICATE_NAME, /* two members of one name in the envelope: readers would disagree */
    HX_RPC_BAD_VERSION,    /* "jsonrpc" is not "2.0" */
    HX_RPC_NULL_ID,        /* a request or result with id null */
    HX_RPC_BAD_ID,     /* fraction, exponent, boolean, array, object, lone surrogate, or too long */
    HX_RPC_BAD_METHOD, /* not a string */
    HX_RPC_BAD_PARAMS, /* neither object nor array */
    HX_RPC_BAD_ERROR,  /* not an object with an integer code */
    HX_RPC_BOTH,       /* result and error, or method and one of them */
    HX_RPC_NEITHER     /* no method, result or error; or a result without an id */
};

enum hx_rpc_id_type {
    HX_RPC_ID_NONE,
    HX_RPC_ID_NULL, /* only in an error response */
    HX_RPC_ID_INTEGER,
    HX_RPC_ID_STRING
};

enum { HX_RPC_ID_MAX = 4096 }; /* bytes of raw text */

/* JSON-RPC's own error codes. */
enum {
    HX_RPC_PARSE_FAILED = -32700,
    HX_RPC_INVALID_REQUEST = -32600,
    HX_RPC_INVALID_PARAMS = -32602,
    HX_RPC_INTERNAL_ERROR = -32603
};

struct hx_rpc_id {
    enum hx_rpc_id_type type;
    struct hx_span raw; /* absent for NONE */
};

struct hx_rpc_msg {
    enum hx_rpc_kind kind;
    enum hx_rpc_fault fault;  /* INVALID only */
    const char *fault_detail; /* PARSE_ERROR: the reader's words */
    size_t fault_offset;
    struct hx_span raw;    /* the whole message */
    struct hx_rpc_id id;   /* also of an invalid message, when it could be read */
    struct hx_span method; /* decoded; absent in responses */
    struct hx_span params; /* raw slices, absent when not there */
    struct hx_span result;
    struct hx_span error;
    uint32_t root; /* token indexes on the tape; HX_JSON_NONE when not there */
    uint32_t params_token;
    uint32_t result_token;
    uint32_t error_token;
    uint32_t id_token;
};

/*
 * Reads `text` onto `tape` and classifies it. What is wrong with the text is in *ret_msg, never in
 * the return: 0 or HX_E_NOMEM. Of `limits`, depth_max, tokens_max and text_max count. Slices borrow
 * `text`; a method with escapes, and the id of what could not be read, borrow `arena`.
 */
int hx_rpc_read(struct hx_json_tape *tape, struct hx_span text, const struct hx_json_limits *limits,
                struct hx_arena *arena, struct hx_rpc_msg *ret_msg) HX_MUST_CHECK;
/* Classifies one value of a tape, such as an element of a batch. 0 or HX_E_NOMEM. */
int hx_rpc_classify(const struct hx_json_tape *tape, uint32_t index, struct hx_arena *arena,
                    struct hx_rpc_msg *ret_msg) HX_MUST_CHECK;

/* -32700 or -32600, and a sentence for the peer. */
int hx_rpc_fault_code(enum hx_rpc_fault fault);
const char *hx_rpc_fault_text(enum hx_rpc_fault fault);

/* The id, or token with the syntax of an id, that stands at `index`; NONE when it is none. */
struct hx_rpc_id hx_rpc_id_at(const struct hx_json_tape *tape, uint32_t index);
/* Classifies a raw id text that stands alone (an oversize line's, a cancel's requestId). */
struct hx_rpc_id hx_rpc_id_parse(struct hx_span raw);
/* Same type and same meaning: integers by value (-0 is 0), strings with their escapes resolved. */
bool hx_rpc_id_eq(const struct hx_rpc_id *a, const struct hx_rpc_id *b);
/* Appends a key under which equal ids meet, for use in a table: type byte and meaning. */
void hx_rpc_id_key(const struct hx_rpc_id *id, struct hx_buf *out);

#endif
