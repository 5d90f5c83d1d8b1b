/* SPDX-License-Identifier: MIT */
/*
 * The parts of a merge. Internal to adapter/merge.
 *
 *   leg      one server, and the downstream that the engine has for it
 *   request  one JSON-RPC request of the client, or one of ours, that is not answered yet
 *   ticket   one message to a leg that will be answered. Its number is the exchange under which the
 *            leg gets it, so an answer is known by that, without reading it.
 *   batch    several requests that came, and are answered, as one array
 *   ask      a request of a server to the client
 *
 * A tag that the engine gives an answer goes to the outer downstream with the leg's number in its
 * low bits, so a fate finds its way back without a table. Number 0 means an array of ours.
 */
#ifndef HX_ADAPTER_MERGE_INTERNAL_H
#define HX_ADAPTER_MERGE_INTERNAL_H

#include "adapter/merge/merge.h"
#include "base/arena.h"
#include "base/digest.h"
#include "base/map.h"
#include "wire/jsonrpc.h"
#include "wire/mcp.h"

/* The number of an answer in our own name, as the engine has it. */
enum {
#define HX_ANSWER(name, shape, code, same_key, new_key, http_status, sentence)                     \
    MERGE_##name = (code),
#include "tables/errors.def"
};
enum { MERGE_NOT_FOUND = -32002, MERGE_NO_METHOD = -32601 };

enum { MERGE_REASON_MAX = 300, MERGE_ID_SIZE = 64, MERGE_VERSION_SIZE = 11 };

enum list_kind { LIST_TOOLS, LIST_PROMPTS, LIST_RESOURCES, LIST_TEMPLATES };
enum { LIST_KINDS = 4 };

/* How one list is read and written. */
struct list_facts {
    struct hx_span method;
    struct hx_span member; /* of the result: the array */
    struct hx_span key;    /* of an item: what it is called by */
    bool has_prefix;       /* the key gets the server's prefix */
};
extern const struct list_facts list_facts[LIST_KINDS];

enum leg_state {
    LEG_NEW,       /* nobody has shaken hands with it */
    LEG_GREETED,   /* its answer to initialize is not there yet */
    LEG_READY,     /* it takes part */
    LEG_MISSING,   /* it could not be reached */
    LEG_UNFITTING, /* it speaks no version that the client does */
    LEG_OVER       /* nobody serves it any more */
};

/* Something that a leg has listed: a URI, a template, or a name that had to be shortened. */
struct known {
    struct hx_map_node by_text; /* merge->known */
    struct hx_list node;        /* leg->known[kind] */
    struct leg *leg;
    enum list_kind kind;
    struct hx_span text; /* what the client says */
    struct hx_span name; /* what the server says, when that is another text */
    char *own_text;
    char *own_name;
};

struct leg {
    struct hx_downstream downstream;
    struct merge *merge;
    uint32_t index;
    struct hx_span name;
    struct hx_span prefix;
    char *own_name;
    char *own_prefix;
    enum leg_state state;
    char version[MERGE_VERSION_SIZE]; /* that it chose */
    bool is_held;
    bool is_probed;            /* somebody looks whether it is back */
    struct hx_buf welcome;     /* its answer to initialize, or the last reason why it is missing */
    bool has_list[LIST_KINDS]; /* as far as its capabilities are known; else true */
    bool has_subscribe;
    bool has_completions;
    bool has_logging;
    bool is_learned[LIST_KINDS];
    struct hx_list known[LIST_KINDS];
    struct hx_list asks; /* oldest first */
    uint32_t ask_count;
};

struct ask {
    struct hx_map_node by_id; /* merge->asks */
    struct hx_list node;
    struct leg *leg;
    struct hx_buf id_key;
    struct hx_buf token; /* progress token of the server's own, under its key; empty = none */
};

struct batch {
    struct hx_list node; /* merge->batches */
    uint64_t exchange;
    uint32_t open_count;
    bool is_complete; /* all elements have been taken in */
    bool is_abandoned;
    struct hx_list answers;
};

/* What the client is told when the leg that has the request ends. */
enum request_risk {
    RISK_NONE,   /* it reads, or sets what may be set twice */
    RISK_CALL,   /* a tool may have run; the ledger knows */
    RISK_UNKNOWN /* a method that we do not know: nobody knows */
};

/* What a request is told in place of an answer that there is no room for. */
struct owed {
    struct hx_buf raw_id; /* empty: it was no request */
    enum request_risk risk;
    bool has_param_key;
};

struct batch_answer {
    struct hx_list node;
    struct hx_buf id_key;
    struct hx_buf line;
    struct owed owed;
    struct leg *leg; /* whose tag it is; NULL = nobody's */
    uint64_t tag;
};

/* An array that left: whose fates are those of its one tag. */
struct receipt {
    struct hx_map_node by_number;
    struct hx_list node; /* merge->receipts, oldest first */
    uint64_t number;
    bool has_fate;
    struct hx_list answers; /* struct batch_answer */
};

/* A request of the client that was answered: by whom, should a cancel of it come too late. Clients
 * use an id again for another server. */
struct answered {
    uint64_t id;     /* the hash of its key */
    struct leg *leg; /* NULL: we answered it ourselves */
};
enum { ANSWERED_MAX = 128 };

enum request_kind {
    REQUEST_ONE,        /* one leg, whose answer goes out as it is */
    REQUEST_TRY,        /* one leg after another, until one has it */
    REQUEST_ALL,        /* several legs; the first result counts, else the first error */
    REQUEST_INITIALIZE, /* all legs */
    REQUEST_LIST,       /* the legs that have such a list, page by page */
    REQUEST_RESUME      /* all legs: which of them had that stream? */
};

enum request_wants { WANTS_RESOURCE, WANTS_COMPLETION, WANTS_OPERATION };

/* One leg's share of a list. */
struct part {
    struct leg *leg;
    uint32_t pages;
    bool has_failed;
    struct hx_list items; /* struct item */
};

struct item {
    struct hx_list node;
    struct known *known; /* what it is called by */
    bool is_known;       /* that belongs to the merge now; else to the item */
    bool is_shortened;
    struct hx_buf json; /* as the client is to see it */
};

struct request {
    struct hx_map_node by_id; /* merge->requests_by_id; not linked for our own */
    struct hx_list node;      /* merge->requests */
    struct hx_list wait_node; /* merge->waiting, until lists are known */
    struct merge *merge;
    enum request_kind kind;
    enum request_risk risk;
    bool has_param_key; /* to its client a result would mean "done" */
    bool is_own;        /* no client waits for it */
    bool is_learned;    /* lists were asked for on its behalf */
    uint64_t exchange;
    struct batch *batch;
    struct hx_buf id_key;
    struct hx_buf raw_id;
    struct hx_buf message; /* until it is sent; TRY: for the next leg too */
    struct hx_buf key;     /* the header */
    uint32_t key_count;
    struct hx_list tickets;
    struct hx_buf error;       /* TRY, ALL, LIST: the first one */
    bool has_result;           /* ALL */
    bool is_short;             /* ALL: there was no memory to ask some leg */
    uint32_t at_leg;           /* TRY: the next one */
    enum request_wants wants;  /* TRY */
    const struct leg *unasked; /* TRY: one that might have it, and did not say */
    /* LIST */
    enum list_kind list;
    bool is_probe;
    struct hx_loop_timer *list_limit; /* owned; NULL without a loop */
    struct part *parts;               /* owned */
    size_t part_count;
    size_t bytes;
    uint32_t items;
    bool is_too_large;
};

struct ticket {
    struct hx_map_node by_number;
    struct hx_list node; /* request->tickets */
    uint64_t number;
    struct leg *leg;
    struct request *request;
    char id[MERGE_ID_SIZE]; /* raw id of ours; empty = the client's own */
};

#define MERGE_MAGIC 0x6d657267u

struct merge {
    uint32_t magic;
    struct hx_merge_options options;
    struct hx_downstream *outer;
    struct leg *legs;
    size_t leg_count;
    bool has_exchanges; /* the outer one */
    bool is_gone;       /* nothing can be said to the client any more */
    bool is_closed;
    uint64_t taking; /* the exchange of the message in hand; 0 once something answers for it */

    const struct hx_mcp_facts *era;
    struct request *greeting;       /* initialize, not answered yet */
    bool is_start_over;             /* servers have had their time to start */
    char asked[MERGE_VERSION_SIZE]; /* the version that the client asked for; empty = none */
    char agreed[MERGE_VERSION_SIZE];
    struct hx_buf initialized; /* the client's notification; empty = not said yet */
    struct hx_buf level;       /* its last logging/setLevel */
    bool told[LIST_KINDS];     /* capabilities that the client was told */
    struct hx_loop_timer *start_limit;

    struct hx_map requests_by_id;
    struct hx_map tickets;
    struct hx_map asks;
    struct hx_map known;
    struct hx_map receipts_by_number;
    struct hx_list requests;
    struct hx_list waiting;
    struct hx_list batches;
    struct hx_list receipts;
    struct answered answered[ANSWERED_MAX]; /* the newest ones, in a ring */
    uint32_t answered_count;                /* ever */
    uint32_t request_count;
    uint32_t receipt_count;
    uint32_t known_count;
    uint32_t learning; /* lists asked for on behalf of those that wait */
    bool is_learning[LIST_KINDS];
    size_t kept_bytes;
    uint64_t next_number;
    uint64_t next_id;
    char secret[17];

    struct hx_json_limits limits;
    struct hx_json_tape tape;
    struct hx_json_tape scratch;
    struct hx_arena arena;
    struct hx_hasher *hasher;
};

struct hx_merge {
    struct merge merge;
};

/* merge.c */
int merge_read(struct merge *merge, struct hx_span text, struct hx_rpc_msg *ret_msg) HX_MUST_CHECK;
void merge_tell_left_out(struct merge *merge, const struct leg *leg, struct hx_span reason);
/* The client is gone. */
void merge_drop(struct merge *merge);
/* Every way in ends with this: what was read is needed no more. */
void merge_rest(struct merge *merge);

/* leg.c: the engine's side, and what legs say. */
extern const struct hx_downstream_ops leg_ops;
void leg_init(struct merge *merge, uint32_t index, const struct hx_merge_leg_options *options);
void leg_fini(struct leg *leg);
/* Its capabilities are not known, so it is asked. */
void leg_know_nothing(struct leg *leg);
void leg_forget(struct leg *leg);
/* Appends an event of the leg; NULL when nobody would read it. */
struct hx_peer_event *leg_tell(struct leg *leg, enum hx_peer_event_type type);
void leg_tell_fate(struct leg *leg, uint64_t tag, enum hx_peer_event_type fate);
/* Takes the content of `line`. */
void leg_message(struct leg *leg, struct hx_buf *line, uint64_t exchange);
void leg_message_copy(struct leg *leg, struct hx_span text);
/* The client's cancel `text` of that request; without memory for all of it, what counts. */
void leg_cancel(struct leg *leg, struct hx_span text, struct hx_span request_id);
void leg_message_copy_as(struct leg *leg, struct hx_span text, uint64_t exchange);
static inline bool leg_is_over(const struct leg *leg)
{
    return leg->state == LEG_OVER;
}
/* May it be asked for lists, and its answer waited for? */
static inline bool leg_takes_part(const struct leg *leg)
{
    return leg->state == LEG_NEW || leg->state == LEG_READY;
}
/* A server in the middle of its handshake might run what it is sent, or choke on it. */
static inline bool leg_may_be_sent_to(const struct leg *leg)
{
    return !leg_is_over(leg) && leg->state != LEG_UNFITTING && leg->state != LEG_GREETED;
}
struct ask *ask_find(struct merge *merge, const struct hx_rpc_id *id);
void ask_free(struct ask *ask);
/* The client has answered it, and there is no memory for the answer. */
void ask_lose(struct ask *ask, struct hx_span raw_id);

/* aside.c: what servers say of themselves, and to whom the client's words belong. */
/* Tells the client that the lists that this leg has a part in are others now. */
void leg_tell_changed(const struct leg *leg);
void aside_take(struct leg *leg, struct hx_buf *line, const struct hx_sending *sending);
struct ask *ask_find_token(struct merge *merge, const struct hx_rpc_id *token);

/* client.c: what the client says. */
void client_message(struct merge *merge, struct hx_peer_event *event);
void client_oversize(struct merge *merge, const struct hx_peer_event *event);

/* route.c: which leg a request is for. */
void route_request(struct request *request, const struct hx_rpc_msg *msg);
void route_waiting(struct merge *merge);

/* request.c */
struct request *request_new(struct merge *merge, enum request_kind kind,
                            const struct hx_rpc_msg *msg);
struct request *request_new_own(struct merge *merge, enum request_kind kind);
/* Lets go of the tickets; nobody is told. */
void request_free(struct request *request);
/* Nobody waits for it any more: the legs are told so. */
void request_leave(struct request *request);
struct request *request_find(struct merge *merge, const struct hx_rpc_id *id);
/* It is being answered, by this leg or (NULL) by us. */
void request_remember(const struct request *request, struct leg *leg);
/* Who answered the last request of that id. False: it is not known. */
bool request_was_answered(const struct merge *merge, const struct hx_rpc_id *id,
                          struct leg **ret_leg);
struct ticket *ticket_new(struct request *request, struct leg *leg);
struct ticket *ticket_find(struct merge *merge, uint64_t number);
void ticket_free(struct ticket *ticket);
/* Sends the request's message, or a copy of it. */
void request_send(struct request *request, struct leg *leg);
/* False: there is no memory for the copy, and nothing was sent. */
bool request_send_copy(struct request *request, struct leg *leg);
/* Asks those that take part and fit. May answer and free the request at once. */
void request_send_all(struct request *request, bool (*is_asked)(const struct leg *leg));
void request_try_next(struct request *request);
/* Takes the line as the request's message. */
void request_keep(struct request *request, struct hx_buf *line);
void request_replace(struct request *request, struct hx_buf *line);
/* Takes the line. */
void request_answered(struct ticket *ticket, struct hx_buf *line, uint64_t tag);
/* Its answer will not come. */
void ticket_lost(struct ticket *ticket);
/* The same, and the message went nowhere. */
void ticket_unread(struct ticket *ticket);
/* The leg gave no answer, and there will be none. */
void ticket_settled(struct ticket *ticket);

/* resume.c: a client that comes back for a stream that this process does not know. */
void resume_take(struct merge *merge, const struct hx_peer_event *event);
void resume_answered(struct ticket *ticket, struct hx_buf *line, uint64_t tag);
void resume_unknown(struct request *request);

/* reply.c: lines to the client. Each takes the line and frees the request. */
void reply_line(struct request *request, struct hx_buf *line, struct leg *leg, uint64_t tag);
void reply_error(struct request *request, int64_t code, struct hx_span text, struct hx_span data);
void reply_result(struct request *request, struct hx_span result);
/* There was no memory for a request that nobody was sent. */
void reply_no_memory(struct request *request);
/* A message that there was no memory to read. `id`: its raw id, or none. */
void reply_unread(struct merge *merge, struct batch *batch, struct hx_span id);
void reply_invalid(struct merge *merge, struct batch *batch, const struct hx_rpc_msg *msg);
/* Of an error to what would be refused again as it is, and was not sent. */
extern const struct hx_span refused_data;
void reply_fault(struct merge *merge, struct hx_span id, int64_t code, const char *text);
/* Words of a call of which nobody here knows what came: as the engine says it. */
void reply_unknown(struct request *request, struct hx_span text);
/* Puts a word in the place of an answer that there is no room for. It leaves open what became of
 * the request. */
void reply_too_much(struct merge *merge, struct hx_span id, enum request_risk risk,
                    bool has_param_key, struct hx_buf *line);
/* Takes the line. */
void reply_send(struct merge *merge, struct hx_buf *line, const struct hx_sending *sending);
void reply_aside(struct merge *merge, struct hx_buf *line, uint64_t exchange, uint64_t tag);
void reply_notice(struct merge *merge, const char *method);
void exchange_settle(struct merge *merge, uint64_t exchange, enum hx_settling settling);
static inline uint64_t outer_tag(const struct leg *leg, uint64_t tag)
{
    return tag == 0 || leg == NULL ? 0 : tag << 16 | (leg->index + 1);
}

/* batch.c */
/* Takes the line. `request`: NULL for what is none. */
void batch_add(struct merge *merge, struct batch *batch, const struct request *request,
               struct hx_buf *line, struct leg *leg, uint64_t tag);
void batch_release(struct merge *merge, struct batch *batch);
bool batch_withdraw(struct merge *merge, const struct hx_rpc_id *id);
void batch_abandon(struct merge *merge, struct batch *batch);
void receipt_fate(struct merge *merge, uint64_t number, enum hx_peer_event_type fate);
/* The tags of what is in it. */
size_t receipt_tags(const struct merge *merge, uint64_t number, uint64_t *ret_tags, size_t max);
void receipt_free(struct merge *merge, struct receipt *receipt);

/* greet.c: initialize. */
void greet(struct request *request, const struct hx_rpc_msg *msg);
/* Servers have had the time that they are given. */
void greet_limit(struct merge *merge);
/* The handshake was made with an earlier process. */
void greet_resumed(struct merge *merge, struct hx_span revision);
void greet_answered(struct ticket *ticket, struct hx_buf *line);
void greet_lost(struct ticket *ticket);
/* It takes part from now on; `is_new`: it has not been told yet what the client has said. */
void leg_joins(struct leg *leg, bool is_new);
void leg_is_missing(struct leg *leg, struct hx_span reason);

/* welcome.c: what the servers' answers come to. */
void welcome_write(struct merge *merge, struct hx_buf *out);
/* Why there is no server, for an error. */
void welcome_write_missing(const struct merge *merge, struct hx_buf *out);

/* list.c */
void list_begin(struct request *request, enum list_kind kind, struct leg *only);
void list_answered(struct ticket *ticket, struct hx_buf *line);
void list_lost(struct ticket *ticket);
void list_free_parts(struct request *request);
/* All parts are there. list_answer.c */
void list_finish(struct request *request);
void leg_probe(struct leg *leg);
int list_kind_of(struct hx_span method); /* LIST_KINDS = none */

/* names.c */
/* How the client sees a name of this leg. Returns whether it had to be shortened. */
bool name_expose(struct leg *leg, struct hx_span name, struct hx_buf *out);
struct leg *name_leg(struct merge *merge, struct hx_span exposed);
/* Could it be one that had to be shortened? */
bool name_may_be_short(const struct leg *leg, struct hx_span exposed);
/* Copies the texts; `name` may be absent. */
struct known *known_new(struct leg *leg, enum list_kind kind, struct hx_span text,
                        struct hx_span name);
void known_free(struct known *known);
/* The first leg's. */
struct known *known_find(struct merge *merge, enum list_kind kind, struct hx_span text);
/* False: there are too many, and it stays the caller's. */
bool known_add(struct known *known);
void known_clear(struct leg *leg, enum list_kind kind);
/* The leg whose template has the longest text before its first variable that `uri` begins with. */
struct leg *template_leg(struct merge *merge, struct hx_span uri);

#endif
