/* SPDX-License-Identifier: MIT */
/*
 * Operations in this process's hands: the core's state and what waits for it. Internal to engine/.
 */
#ifndef HX_ENGINE_WORK_H
#define HX_ENGINE_WORK_H

#include "core/op.h"
#include "core/recover.h"
#include "engine/call.h"
#include "engine/link.h"

/* Something to hand to the core later. */
struct hx_deferred {
    struct hx_list node;
    struct hx_event event;
    struct hx_call *call; /* NULL when it has none */
};

/* An answer of the tool, kept whole while the work lives. */
struct hx_reply {
    struct hx_list node;
    struct hx_buf line;
};

/* The task that the server made of the attempt. */
struct hx_task {
    struct hx_span id;       /* raw; absent = there is none */
    struct hx_timer poll;    /* when it may be asked about again */
    int64_t poll_ms;         /* as often */
    uint64_t progress_route; /* whose token its progress carries */
    bool is_status_asked;    /* the question in hand is for its state, not for its result */
    bool has_ended;
    bool has_failed;
    bool was_refused; /* its result was asked for in vain */
};

#define HX_WORK_MAGIC 0x776f726bu

/* How far the search for a lost outcome has come. */
enum hx_search {
    HX_SEARCH_NONE,
    HX_SEARCH_LOOKING,   /* for a resume point */
    HX_SEARCH_STARTING,  /* of the link that will listen */
    HX_SEARCH_LISTENING, /* on the stream, and nowhere else */
    HX_SEARCH_ASKING,    /* an inner gateway, or about a task: `route` is for it */
    HX_SEARCH_PROBING,   /* by a tool that looks, now and then, beside a stream perhaps */
    HX_SEARCH_OVER
};

struct hx_work {
    uint32_t magic;
    struct hx_gateway *gateway;
    struct hx_link *link;     /* over which its attempt goes; NULL = not chosen yet */
    struct hx_list link_node; /* link->works */
    struct hx_map_node by_id;
    struct hx_list node; /* gateway->works */
    struct hx_op op;
    struct hx_arena arena; /* what the record's spans point at */
    struct hx_tool *tool;
    struct hx_list calls;      /* struct hx_call that wait */
    struct hx_list deferred;   /* struct hx_deferred */
    struct hx_list ready_node; /* gateway->ready: has deferred events to take */
    struct hx_facts facts;     /* as last looked up */
    struct hx_event verb;      /* the one whose write is in flight: op.has_verb */
    uint32_t writes_open;      /* store requests under way */
    bool is_reading;           /* a FIND for it is under way */
    bool needs_approval;       /* of a person, before it runs */

    /* The attempt in hand. */
    struct hx_buf message;  /* the request to send, as the first caller wrote it */
    struct hx_route *route; /* set while an answer may come, or what a search asked for */
    uint32_t generation;    /* of the upstream process the claim was made for */
    bool is_send_waiting;   /* marked, and the upstream is not ready */
    bool is_cancel_forwarded;
    struct hx_list replies; /* struct hx_reply: lines that outcomes point into */
    struct hx_timer limit;  /* timeout, orphan_timeout */
    struct hx_timer idle;   /* idle_timeout */
    struct hx_timer cancel; /* cancel_timeout */
    struct hx_timer look;   /* LOOK_LATER */
    struct hx_timer poll;   /* WATCH */
    struct hx_timer inner_poll;
    bool is_inner;         /* the attempt went to a gateway of our kind, under the effect key */
    bool has_polled;       /* which has said that it is not over */
    uint32_t polled;       /* in this generation of the link */
    bool was_called_again; /* an inner gateway recognised the key */
    struct hx_task task;

    enum hx_search search;
    struct hx_span handle; /* what is searched by */
    bool is_listening;     /* `route` is of a stream that was taken up */
    struct hx_timer listen;
    struct hx_timer probe; /* the next one is due */
    struct hx_route
        *probe_route; /* set while one is being answered; an answer that is late may come
                                     meanwhile on `route` */
    unsigned probe_tries;
    struct hx_negatives negatives;
    bool is_scheduled;    /* `rung` is armed: the ladder is looked at without a caller */
    bool is_rung_due;     /* this look has yet to ask the core whether it may be sent again */
    struct hx_timer rung; /* the next look */
    unsigned rung_tries;
    unsigned rung_waits; /* for the server, at this look */
    uint32_t probed;     /* number of the attempt that these two are of */
    bool was_provable;   /* when the probe in hand was sent */
    struct hx_ask *ask;  /* a person is being asked */
    bool was_asked;      /* a person has been asked in this state and left it open */
    char *decider;       /* owned: who gave the decision that has no answer yet; NULL = nobody */
    enum hx_event_type decision;
    char ledger_error[256]; /* why the last write failed; empty = it did not */
    bool is_told;           /* is_told_pending was written */
    int64_t twin_seen;
    struct hx_store_request *payload; /* a stored result that was read back for an answer */
    bool is_payload_reading;
    bool is_lost_waiting; /* its transport is lost; when the server is back it may be sent again */
    bool is_look_waiting; /* ready to run; waits for the server */
    bool is_down_known;   /* in vain; whoever waits is told, if the row still says so */
    enum hx_reason lost_reason;
};

/* work.c: operations in hand. */
/* Of what is small. */
struct hx_span hx_work_keep_span(struct hx_work *work, struct hx_span span);
/* Makes the work own everything that a record points at. False: there is no memory. */
bool hx_work_keep_record(struct hx_work *work, const struct hx_record *record,
                         struct hx_record *ret_record) HX_MUST_CHECK;
void hx_work_look_again_later(struct hx_work *work);
/* The core looks at it; what would run waits for its server before. */
void hx_work_look(struct hx_work *work);
/* NULL: there is no memory for its arguments. */
struct hx_work *hx_work_new_absent(struct hx_call *call);
/* From now on by the rules of the server that is in the place of a retired one. */
void hx_work_renew_rules(struct hx_work *work);
/* `link` may be NULL: it is chosen when an attempt begins. NULL: there is no memory for the row. */
struct hx_work *hx_work_load(struct hx_gateway *gateway, const struct hx_record *record,
                             struct hx_link *link);
/* The link over which an attempt would go, chosen now if it was not; NULL when there is none. */
struct hx_link *hx_work_link(struct hx_work *work);
struct hx_work *hx_work_find(struct hx_gateway *gateway, const struct hx_id *id);
void hx_work_step(struct hx_work *work, const struct hx_event *event, struct hx_call *call);
void hx_work_event(struct hx_work *work, enum hx_event_type type);
void hx_work_lost(struct hx_work *work, enum hx_reason reason, bool is_sender_gone);
/* The operation is known under the caller's key from now on. `work` may be NULL. */
void hx_work_rekey(struct hx_work *work, struct hx_record *record, const struct hx_record *wanted);
void hx_work_upstream_ready(struct hx_work *work);
void hx_work_upstream_failed(struct hx_work *work);
/* Whoever waits for it to run is told that the server cannot be had. */
void hx_work_tell_down(struct hx_work *work);
void hx_work_call_left(struct hx_work *work, struct hx_call *call);
void hx_work_take_ready(struct hx_gateway *gateway);
bool hx_work_has_attempt(const struct hx_work *work);
void hx_work_retire(struct hx_work *work);
struct hx_event hx_work_make_event(struct hx_work *work, enum hx_event_type type);
/* The claim that is about to be written is of an attempt over `link`, whichever link there was when
 * the core was asked: whoever asks later whether the sender is gone asks by this name. */
void hx_work_name_transport(struct hx_work *work, const struct hx_link *link);
/* Does the server's name still stand for what this operation went to? */
bool hx_is_same_target(struct hx_gateway *gateway, const struct hx_record *record);
/* All but that. */
struct hx_facts hx_facts_of(enum hx_owner_fact owner, bool is_sender_gone, bool is_epoch_current);

void hx_work_use_link(struct hx_work *work, struct hx_link *link);

/* approval.c: is a person's word needed? */
bool hx_needs_approval(struct hx_gateway *gateway, const struct hx_tool *tool,
                       struct hx_span arguments);
bool hx_work_needs_approval(struct hx_work *work);

/* probe.c: a tool that looks whether it happened. */
bool hx_probe_is_possible(const struct hx_work *work);
/* False when there is none, or too many are looked after already. */
bool hx_probe_begin(struct hx_work *work);
void hx_probe_end(struct hx_work *work);
void hx_probe_due(struct hx_work *work);
void hx_probe_answered(struct hx_route *route, const struct hx_rpc_msg *msg);
/* Its answer will not come. */
void hx_probe_failed(struct hx_work *work);

/* schedule.c: the ladder without a caller. Begins it, or ends it where there is nothing to look for
 * any more. */
void hx_schedule_begin(struct hx_work *work);
void hx_schedule_end(struct hx_work *work);
void hx_schedule_due(struct hx_work *work);
/* Over which it is looked: somebody's who waits, else one of our own; NULL when none can be had. */
struct hx_link *hx_schedule_link(struct hx_work *work);

/* probe_rule.c: what is asked, and what the answer means. False: a place of the rule has no value
 * in this operation, so nothing can be asked. */
bool hx_probe_rule_write(struct hx_work *work, const char *id, struct hx_buf *line);
/* After YES and NO the gateway's scratch tape holds the result that was judged. */
enum hx_holds hx_probe_rule_judge(struct hx_work *work, const struct hx_rpc_msg *msg);

/* inner.c: upstreams that are gateways too. True: the answer was one of theirs, not the tool's. */
bool hx_inner_take(struct hx_work *work, const struct hx_mcp_call_result *result,
                   const struct hx_mcp_error *error, const struct hx_outcome *outcome);
/* Asks again, under the same key. */
void hx_inner_poll(struct hx_work *work);
/* Asks what became of it; false when nobody can be asked now. */
bool hx_inner_ask(struct hx_work *work);
void hx_inner_answered(struct hx_route *route, const struct hx_rpc_msg *msg, struct hx_buf *line);

/* task.c: calls that the server runs as tasks. */
bool hx_task_is_wanted(const struct hx_link *link, const struct hx_tool *tool);
/* The server has made a task of the attempt in hand, in answer to `request`; false: it cannot be
 * followed. */
bool hx_task_accepted(struct hx_work *work, struct hx_link *link, struct hx_span task,
                      uint64_t request);
/* Its handle is in the ledger, or cannot be put there: that costs a later process the answer, and
 * this one nothing. */
void hx_task_kept(struct hx_work *work);
void hx_task_answered(struct hx_route *route, const struct hx_rpc_msg *msg, struct hx_buf *line);
void hx_task_due(struct hx_work *work);
/* Is what answers the question in hand the tool's own word? */
bool hx_task_is_outcome(const struct hx_work *work, bool is_error);
void hx_task_forget(struct hx_work *work);
/* False: there is none. */
bool hx_task_cancel(struct hx_work *work);
/* Whose progress token this was, once the request that carried it has its answer. */
struct hx_work *hx_task_find(struct hx_link *link, struct hx_span request_id);
/* What is kept of it in the ledger, and asking by that after the attempt was lost; false: nobody
 * can be asked. */
bool hx_task_is_handle(struct hx_span text);
bool hx_task_follow(struct hx_work *work, struct hx_span handle);

/* ladder.c: how a lost outcome is searched for. */
void hx_ladder_begin(struct hx_work *work);
/* It is under way: whoever waits may get more than "unknown". */
bool hx_ladder_is_climbed(const struct hx_work *work);
void hx_ladder_found(struct hx_work *work, struct hx_store_request *done);
/* The link that it waited for is ready. */
void hx_ladder_go_on(struct hx_work *work);
/* Its route is for the search, not for an attempt. */
bool hx_ladder_has_route(const struct hx_work *work);
/* It brought nothing. */
void hx_ladder_over(struct hx_work *work);
/* It has brought nothing for so long that nobody waits for it. */
void hx_ladder_listened(struct hx_work *work);
/* The operation is sent again instead; nobody listens for what the earlier attempt brings. */
void hx_ladder_leave(struct hx_work *work);
/* The attempt that is being claimed goes to a gateway of our kind, which can be asked about it. */
void hx_ladder_keep_inner(struct hx_work *work);
/* From here the answer could be taken up again, should this process die. */
void hx_ladder_keep_point(struct hx_work *work, struct hx_span text);
/* A handle that must be there before anything is made of it: then hx_task_kept. */
void hx_ladder_keep_task(struct hx_work *work, struct hx_span handle);

/* work_ledger.c: what the ledger answers about them. */
void hx_work_read_again(struct hx_work *work);
void hx_work_found(struct hx_work *work, struct hx_store_request *done);
void hx_work_stored(struct hx_work *work, struct hx_store_request *done);
bool hx_is_row_sound(struct hx_gateway *gateway, const struct hx_record *record);

/* limits.c: their clocks. */
void hx_work_set_timers(struct hx_work *work);
/* A sign of life of the tool. */
void hx_work_heard(struct hx_work *work);

/* dispatch.c: the request of an attempt. Sends it, or waits for a server that is being started. */
void hx_work_send_now(struct hx_work *work);
/* Writes the request of the attempt under an id of its own; false when it cannot be written. */
bool hx_work_put_on_wire(struct hx_work *work, struct hx_link *link);
/* Is there a request to write: of somebody who waits, or in the row? */
bool hx_work_can_be_written(const struct hx_work *work);
/* A tools/call made from what the row holds; false when memory ran out. */
bool hx_write_call(struct hx_buf *out, struct hx_span id, const struct hx_record *record);

/* effects.c: carrying out what the core decided. */
/* Asks a person about it, or tells those who cannot be asked what its state says. */
void hx_work_ask_person(struct hx_work *work);
/* Forwards a cancel to the tool, once, if its contract allows that. */
void hx_work_cancel_upstream(struct hx_work *work);
void hx_effect_run(struct hx_work *work, const struct hx_effect *effect,
                   const struct hx_event *event, struct hx_call *call);

#endif
