/* SPDX-License-Identifier: MIT */
/*
 * The simulator: real gateways on one simulated ledger, with clients, tool servers, clocks and
 * deaths that follow a seed. One thread, virtual time; the same seed gives the same history, byte
 * for byte.
 *
 *   host     a client application: wants intents, sends calls, times out, retries, vanishes
 *   intent   one effect that somebody wants once; its calls are retries of each other. The truth
 *            against which everything is judged
 *   life     one gateway process, from its start to its end, orderly or not: a `run` with one
 *            client, or a `serve` at a port, which begins again there when it has died
 *   door     one client at one life: its pipes, or its session over HTTP
 *   process  one run of the tool server, child of a life; may outlive it for a moment. Of a server
 *            over HTTP: one session with it, which outlives whoever began it
 *   job      one tools/call that reached a process
 *   effect   what the tool did outside; counted where no crash can reach
 *
 * The product's objects are used as they are; only the adapters are ours. Files that include
 * engine/internal.h look, and never touch.
 */
#ifndef HX_SIM_SIM_H
#define HX_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "adapter/store_memory/store_memory.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/list.h"
#include "engine/gateway.h"
#include "wire/jsonrpc.h"
#include "json/reader.h"

/* ---- chance: rng.c ---- */

struct sim_rng {
    uint64_t state;
};

uint64_t sim_random(struct sim_rng *rng);
/* 0 <= n < bound; 0 for a bound of 0. */
uint32_t sim_below(struct sim_rng *rng, uint32_t bound);
int64_t sim_between(struct sim_rng *rng, int64_t low, int64_t high);
bool sim_chance(struct sim_rng *rng, unsigned per_mille);

/* ---- branches that are rare and must happen ---- */

#define SIM_MARKS(X)                                                                               \
    X(TAKEOVER, "takeover")                                                                        \
    X(RESEND, "resend")                                                                            \
    X(BECAME_UNKNOWN, "became unknown")                                                            \
    X(STALE_WRITE, "stale write")                                                                  \
    X(REPLAYED, "replay")                                                                          \
    X(JOINED, "join")                                                                              \
    X(ADOPTED, "adoption")                                                                         \
    X(REKEYED, "keyless operation taken over by a key")                                            \
    X(CONFLICT, "conflict")                                                                        \
    X(SPOOLED, "answer from the spool")                                                            \
    X(LATE_EVIDENCE, "late evidence")                                                              \
    X(TAKEN_BACK, "answer taken back")                                                             \
    X(BUSY, "busy")                                                                                \
    X(UNKNOWN, "unknown told")                                                                     \
    X(FAILED, "failed told")                                                                       \
    X(NO_SERVER, "server unavailable told")                                                        \
    X(NO_LEDGER, "ledger unavailable told")                                                        \
    X(PARALLEL, "two wanted equal calls side by side")                                             \
    X(LATE_ANSWER, "answer to a call silently given up")                                           \
    X(TRANSPORT_REPEAT, "one request sent twice")                                                  \
    X(BATCH, "batch")                                                                              \
    X(PERSON, "a person decided")                                                                  \
    X(KILL, "keeper killed")                                                                       \
    X(FRONT_KILL, "front killed")                                                                  \
    X(CRASH, "host crash")                                                                         \
    X(SERVER_DEATH, "server died")                                                                 \
    X(PAUSE, "keeper paused")                                                                      \
    X(STALLED, "server stopped reading")                                                           \
    X(DOUBT, "commit in doubt")                                                                    \
    X(REFUSED_COMMIT, "commit refused")                                                            \
    X(FULL, "ledger full")                                                                         \
    X(DRAIN, "drained to its end")                                                                 \
    X(STOPPED, "drain stopped")                                                                    \
    X(NEEDS_HUMAN, "needs a person")                                                               \
    X(CLOCK_JUMP, "wall clock jump")                                                               \
    X(RESTORED, "session restored")                                                                \
    X(ENDED, "session ended by its client")                                                        \
    X(IDLE, "idle session put away")                                                               \
    X(RELOADED, "server retired, another one of its name begun")                                   \
    X(VANISHED, "client never came back")                                                          \
    X(CUT, "exchange cut")                                                                         \
    X(CAME_BACK, "client came back to a stream")                                                   \
    X(RESUMED, "stream resumed")                                                                   \
    X(NO_STREAM, "no such stream told")                                                            \
    X(SHARED, "shared link")                                                                       \
    X(CROSS_SESSION, "cross-session join")                                                         \
    X(STRANGER, "another principal refused")                                                       \
    X(ANSWER_LOST, "answer of a remote server lost")                                               \
    X(REJECTED, "request rejected by a remote server")                                             \
    X(SESSION_LOST, "session forgotten by a remote server")                                        \
    X(POINT, "resume point given")                                                                 \
    X(POINT_USED, "resume point used")                                                             \
    X(POINT_EVIDENCE, "resume point used, with evidence")                                          \
    X(POINT_LOST, "resume point used in vain")                                                     \
    X(EXPIRED, "key older than the low-water mark refused")                                        \
    X(PROBED, "probe sent")                                                                        \
    X(PROBE_UNCLEAR, "probe told nothing that can be judged")                                      \
    X(PROBE_FOUND, "probe found it")                                                               \
    X(PROBE_ABSENT, "absence proved by probes")                                                    \
    X(PROBE_AGAIN, "ready again after a proof of absence")                                         \
    X(EVENT, "event received")                                                                     \
    X(EVENT_AGAIN, "event received again")                                                         \
    X(NO_MEMORY, "memory refused")

enum sim_mark {
#define SIM_MARK_ENUM(NAME, text) SIM_##NAME,
    SIM_MARKS(SIM_MARK_ENUM)
#undef SIM_MARK_ENUM
        SIM_MARK_COUNT
};

extern const char *const sim_mark_names[SIM_MARK_COUNT];

struct sim_answer;

/* ---- what is wanted and what came of it ---- */

enum sim_tool {
    SIM_PAY,    /* opaque, repeat: lost */
    SIM_SET,    /* idempotent */
    SIM_BANK,   /* keyed */
    SIM_MAIL,   /* opaque, repeat: window */
    SIM_NOTE,   /* opaque, repeat: separate */
    SIM_STRICT, /* opaque, repeat: require_key */
    SIM_LOOK,   /* read only */
    SIM_TOOL_COUNT
};

extern const char *const sim_tool_names[SIM_TOOL_COUNT];

enum sim_give_up { SIM_WAIT_ON, SIM_CANCEL, SIM_SILENT };

enum sim_intent_state { SIM_INTENT_PLANNED, SIM_INTENT_OPEN, SIM_INTENT_DONE, SIM_INTENT_LEFT };

struct sim_intent {
    uint32_t number; /* from 1 */
    uint32_t host;
    enum sim_tool tool;
    uint32_t group; /* equal arguments */
    char key[40];   /* empty = keyless */
    bool is_param_key;
    enum sim_give_up give_up;
    int64_t patience_ms;
    uint32_t retries_left;
    enum sim_intent_state state;
    int64_t began;

    /* The truth. */
    uint32_t effects;
    uint32_t allowed_more; /* effects beyond one that the contract's named limits allow */
    bool was_disturbed;    /* some answer of it was lost, or may have been */
    bool was_told_success;
    int64_t told_at; /* first */
    bool was_told_failed;
    bool is_person_decided;
    bool is_ancient;         /* its key is older than what the ledger knows of */
    bool may_have_been_sent; /* some call of it was not told "nothing was sent" */
    struct hx_id told_operation;
    uint32_t told_run; /* the run whose result it was told; 0 = none */
};

enum sim_call_state {
    SIM_CALL_OPEN,
    SIM_CALL_ANSWERED,
    SIM_CALL_ABANDONED, /* the client waits no more, and did not say so */
    SIM_CALL_CANCELLED,
    SIM_CALL_LOST /* its connection is gone */
};

struct sim_call {
    uint32_t number; /* from 1; travels in _meta.sim */
    uint32_t intent; /* 0 for conflict probes */
    uint32_t host;
    uint32_t life;     /* which has it, or had it last */
    uint32_t session;  /* its ids are this one's */
    uint64_t exchange; /* the latest one that it came on; 0 = pipes */
    bool is_adrift;    /* its exchange is gone, and its client can come back for the answer */
    char stream[24];   /* the name under which; empty = it was told none */
    uint32_t id;       /* JSON-RPC id */
    bool is_probe;
    bool is_conflict;
    bool is_text_id;
    enum sim_call_state state;
    int64_t sent_at;
    int64_t arrived_at;  /* its latest copy */
    uint32_t arrivals;   /* how often the gateway was given it */
    bool is_cancel_near; /* its cancel stands in the gateway's inbox */
    bool cancel_arrived; /* the gateway has read its cancel */
    uint32_t answers;
    uint32_t replays;       /* answers that said "replayed" */
    struct hx_id operation; /* the last one that it was told about */
    bool is_allowed;        /* its lost answer was counted among the named limits */
    bool was_turned_away;  /* told that nothing was sent; whoever repeats it may be somebody else */
    bool is_limit_pending; /* so is its late one, unless he who came back for it is told as well */
};

/* One tools/call as a process got it. */
struct sim_run {
    uint32_t number; /* from 1; stands in its result */
    uint32_t process;
    uint32_t call;
    enum sim_tool tool;
    struct hx_id operation;
    uint32_t attempt;
    char effect_key[40];
    char route_id[24];
    char token[80];
    bool has_acted;
    bool is_over;
    bool is_cancelled;
    struct hx_buf result; /* exact bytes of `result` or `error` that it answers with */
    /* Of a server over HTTP: who listens for its answer. */
    uint32_t heard_by; /* upstream; 0 = nobody */
    uint64_t heard_as; /* tag */
    uint32_t heard_generation;
    bool has_point; /* a resume point was given */
    bool is_taken_up;
    int64_t began;
    int64_t acts_at; /* -1 = never */
    int64_t seen_at; /* by a probe, once it has acted */
    bool is_rpc_error;
    bool is_refusal; /* a listed error: proves that nothing happened */
    enum {
        SIM_ANSWER_ONCE,
        SIM_ANSWER_TWICE,
        SIM_ANSWER_NEVER,
        SIM_ANSWER_GARBAGE,
        SIM_ANSWER_TASK
    } style;
};

/* ---- time ---- */

struct sim;
struct sim_event {
    int64_t at;
    uint64_t sequence;
    void (*fire)(struct sim *sim, struct sim_event *event);
    uint32_t a, b;
    uint64_t tag;
    struct hx_id id;
    struct hx_buf line;
};

/* ---- processes and lives ---- */

enum { SIM_QUEUED_MAX = 64 };

struct sim_process {
    struct hx_list node;
    uint32_t number;
    uint32_t life; /* who started it; 0 = that one is dead */
    uint32_t upstream;
    uint32_t generation;
    char name[40];
    bool is_remote;
    bool is_forgotten; /* its session; the gateway does not know yet */
    bool is_lost;      /* and now it does */
    bool is_running;
    bool is_dead;
    bool is_ending;
    bool is_stalled; /* reads nothing more */
    uint64_t stalled_tag;
    uint64_t queued[SIM_QUEUED_MAX];
    unsigned queued_count;
    bool is_input_closed;
    bool is_initialized;
    uint32_t wire_count;  /* lines of it on their way to the gateway */
    int64_t last_wire_at; /* keeps them in order */
    int64_t last_read_at;
};

/* A gateway's way to a tool server: a child that it starts, or a remote one. */
struct sim_upstream {
    struct hx_list node; /* life->upstreams */
    uint32_t number;
    struct sim_life *life;
    struct hx_upstream upstream;
    uint32_t process; /* 0 = none */
    char transport[40];
};

/* A line from a gateway on its way to the client. */
struct sim_line {
    struct hx_list node;
    uint64_t tag;
    uint32_t life;
    uint32_t session;
    uint64_t exchange; /* 0 = the pipe, or whatever stream there is */
    bool is_held;      /* its stream is cut, and its client may come back */
    bool is_recalled;  /* it was told to be taken back */
    struct hx_buf line;
    int64_t read_at;
    bool is_written;
};

/* One message of a client over HTTP, and the stream on which it is answered. */
struct sim_exchange {
    struct hx_list node;
    uint64_t number;
    uint32_t life, session;
    uint32_t call; /* 0 = a batch, or no call at all */
    bool is_cancel, is_batch;
    bool is_initialize;
    bool is_connected;
    bool has_arrived;
    bool is_answered; /* or settled */
    bool is_named;    /* the gateway has asked for its name, and tells it when it is kept */
    bool is_told;     /* the client knows the name */
    bool is_resume;
    char name[24];
};

/* What a client speaks through. */
struct sim_door {
    struct hx_list node; /* life->doors */
    struct sim_life *life;
    uint32_t host;
    uint32_t session;
    struct hx_downstream downstream;
    struct hx_session *engine;
    const struct hx_server *server; /* with which it began; only to be compared */
    bool is_closed;                 /* the gateway closed it */
    bool is_reader_gone;            /* the client closed its end */
    bool is_front_dead;
    int64_t last_read_at;
    int64_t last_heard_at;
};

struct sim_life {
    struct hx_list node;
    uint32_t number;
    struct sim *sim;
    uint32_t port; /* of `serve`; 0 = `run` */
    struct hx_id owner;
    struct hx_gateway *gateway;
    struct hx_server *server;

    struct hx_store *disk;
    struct hx_store store; /* delays what goes to the disk and comes back */
    struct hx_list store_batch;
    struct hx_list store_in_flight;
    struct hx_list store_done;
    int64_t store_last_at;

    struct hx_list upstreams;
    struct hx_list upstream_inbox;

    struct hx_list doors;
    struct hx_list downstream_inbox;

    struct hx_neighbourhood neighbours;
    struct hx_list neighbour_inbox;

    struct hx_courier courier;
    struct hx_list courier_reports;

    bool is_frozen; /* being freed: its ports do nothing */
    bool is_paused;
    int64_t resumed_at;
    bool has_cancel_near;
    int64_t wake_at; /* -1 = only when something arrives */
};

/* Where `hapax serve` listens, whichever life that is. */
struct sim_port {
    uint32_t life; /* 0 = nobody */
    bool is_coming;
};

/* A client's session, for as long as the client believes in it. */
struct sim_session {
    uint32_t host;
    uint32_t port; /* 0 = the pipes of one life */
    bool is_kept;  /* it stood in the ledger when its client was told of it */
    bool is_ended; /* by its client, or by a failed handshake */
};

struct sim_host {
    uint32_t number; /* from 1 */
    uint32_t port;   /* of the `serve` that it speaks to; 0 = it has a `run` of its own */
    const char *principal;
    uint32_t life;    /* 0 = not connected */
    uint32_t session; /* 0 = none */
    bool is_ready;    /* the handshake is over */
    bool has_session; /* it was told the id, and can come back with it */
    bool has_vanished;
    uint64_t connecting; /* the latest plan to connect */
    uint32_t next_id;
    uint32_t initialize_id;
    const char *revision;
    bool can_elicit;
    bool is_slow;
    struct hx_list unread; /* of sim_line */
    struct hx_buf batch;   /* calls that wait to leave together */
};

struct sim_watch {
    uint32_t life;
    struct hx_id operation;
};

/* How bad the weather is: chances in a thousand, 0 = never. */
struct sim_weather {
    unsigned keeper_kill, front_kill, host_crash, server_death, pause, server_stop;
    unsigned commit_refuse, commit_doubt, ledger_full, slow_disk;
    unsigned slow_tool, never_answers, answers_twice, garbage, task, tool_error, refusal;
    unsigned stall, slow_start, bad_start, progress, server_asks, noise;
    unsigned double_send, batch, conflict, clock_jump, silent, orderly_end;
    unsigned cut, session_end, session_idle, vanish, stranger, move;
    unsigned answer_lost, rejected, session_lost, point, resume_loss;
    unsigned no_memory;
};

enum sim_share { SIM_SHARE_NOTHING, SIM_SHARE_ALL, SIM_SHARE_PRINCIPAL };

/* Which kinds of gateways a world has. */
struct sim_form {
    uint32_t port_count; /* 0 = each client starts a `run` */
    enum sim_share share;
    bool is_remote; /* the tool server is reached over HTTP */
    bool has_probe; /* the keyed tool is looked after by another one, find */
    enum hx_probe_match match;
    uint32_t pad; /* bytes that arguments and results are longer by */
};

struct sim_options {
    uint64_t seed;
    bool is_tracing;
    bool is_scripted; /* nothing happens by itself */
};

enum {
    SIM_HOSTS_MAX = 6,
    SIM_RUN_HOSTS_MAX = 3,
    SIM_PORTS_MAX = 2,
    SIM_TRACE_LINES = 400,
    SIM_TRACE_WIDTH = 220,
    SIM_WATCHES_MAX = 256
};

struct sim_shadow; /* what each row said last: check.c */

struct sim {
    struct sim_options options;
    struct sim_rng plan;   /* what is wanted */
    struct sim_rng luck;   /* what happens to it */
    struct sim_rng engine; /* what the gateways are given */
    struct sim_rng shape;  /* which gateways there are, and what only some of them meet */
    struct sim_rng extra;  /* what came later: histories without it stay as they were */
    struct sim_form form;
    struct sim_weather weather;
    bool is_calm;         /* faults are over */
    bool is_memory_short; /* a refusal is ordered for the turn that runs */

    struct hx_clock clock;
    struct hx_rand rand;
    int64_t now; /* since the beginning; never set back */
    int64_t boot_began;
    unsigned boot;
    int64_t wall_offset;

    struct sim_event **events; /* heap */
    size_t event_count, event_capacity;
    uint64_t event_sequence;

    struct hx_memory_ledger *ledger;
    bool is_ledger_broken;
    bool has_receiver; /* of events */
    bool *received;    /* by number - 1 */
    size_t received_count;
    struct hx_list lives;
    uint32_t life_count;
    struct hx_list processes;
    uint32_t process_count;
    struct sim_host hosts[SIM_HOSTS_MAX + 1];
    uint32_t host_count;
    struct sim_port ports[SIM_PORTS_MAX + 1];
    struct sim_session *sessions;
    uint32_t session_count, session_capacity;
    struct hx_list exchanges; /* of sim_exchange */
    uint64_t exchange_count;
    uint32_t upstream_count;
    int64_t remote_down_until;
    struct hx_list questions; /* neighbours.c */
    uint64_t question_count;
    struct sim_watch watches[SIM_WATCHES_MAX];
    unsigned watch_count;

    struct sim_intent *intents;
    uint32_t intent_count, intent_capacity;
    struct sim_call *calls;
    uint32_t call_count, call_capacity;
    struct sim_run *runs;
    uint32_t run_count, run_capacity;
    struct hx_contract contracts[SIM_TOOL_COUNT];

    struct sim_shadow *shadows;
    size_t shadow_count, shadow_capacity;

    uint64_t marks[SIM_MARK_COUNT];
    uint64_t turns;
    char trace[SIM_TRACE_LINES][SIM_TRACE_WIDTH];
    size_t trace_count;

    /* Scratch for reading messages. */
    struct hx_json_tape tape;
    struct hx_json_tape tape2;
    struct hx_json_limits limits;
    struct hx_arena arena;

    /* Scripted runs say here how the next jobs go, and what a person answers (NULL = the truth). */
    const char *person_says;
    bool is_person_away;
    int64_t script_disk_ms;  /* to the ledger, and back */
    bool is_front_careless;  /* the front lets anybody into a session whose id he knows */
    bool is_script_long;     /* probes are answered at too great length */
    uint32_t script_deaf;    /* this life's probes are not answered */
    int64_t script_write_ms; /* how long the kernel takes no byte of an answer; 0 = by luck */
    void (*script_run)(struct sim *sim, struct sim_run *run, int64_t *act_ms, int64_t *answer_ms);
};

/* ---- world.c ---- */

struct sim *sim_new(const struct sim_options *options);
void sim_free(struct sim *sim);
struct sim_event *sim_after(struct sim *sim, int64_t delay_ms,
                            void (*fire)(struct sim *sim, struct sim_event *event));
/* Lets time pass. */
void sim_run_for(struct sim *sim, int64_t ms);
/* The whole history of one seed, with its checks. */
void sim_history(struct sim *sim);

/* ---- life.c ---- */

struct sim_life *sim_life_new(struct sim *sim, uint32_t port);
/* Its server is retired, and another one begins in its place. */
void sim_life_reload(struct sim_life *life);
struct sim_life *sim_life_find(struct sim *sim, uint32_t number);
struct sim_life *sim_life_of_owner(struct sim *sim, const struct hx_id *owner);
void sim_life_turn(struct sim_life *life);
bool sim_life_is_due(const struct sim_life *life);
/* SIGKILL. */
void sim_life_kill(struct sim_life *life);
void sim_life_free(struct sim_life *life);
void sim_host_crash(struct sim *sim);
/* A `serve` begins at the port, if none is there. */
void sim_port_open(struct sim *sim, uint32_t port);
void sim_port_open_later(struct sim *sim, uint32_t port, int64_t delay_ms);

/* ---- disk.c: the store between a life and the ledger ---- */

void sim_disk_open(struct sim_life *life);
void sim_disk_kill(struct sim_life *life);
void sim_disk_close(struct sim_life *life);

/* ---- server.c: what the tool server does ---- */

struct sim_process *sim_process_new(struct sim_upstream *upstream, uint32_t generation);
struct sim_process *sim_process_find(struct sim *sim, uint32_t number);
void sim_processes_free(struct sim *sim);
/* A line has come to it. `event` says which process, operation and attempt. */
void sim_process_hear(struct sim *sim, struct sim_event *event);
/* The bytes of its answer. */
void sim_run_write(const struct sim_run *run, struct hx_buf *line);
struct sim_upstream *sim_upstream_of(struct hx_upstream *upstream);
struct sim_upstream *sim_upstream_find(struct sim *sim, uint32_t number);
struct hx_peer_event *sim_upstream_event(struct sim_upstream *upstream,
                                         enum hx_peer_event_type type, uint32_t generation,
                                         uint64_t tag, struct hx_span line);
struct hx_upstream *sim_upstream_new(struct sim_life *life);
void sim_upstream_free(struct sim_upstream *upstream);

/* Says a whole answer to the request `id`, which came under that number. */
void sim_process_answer(struct sim *sim, struct sim_process *process, struct hx_span id,
                        struct hx_span line);

/* ---- probe.c: the tool that looks whether it happened ---- */

void sim_probe_choose(struct sim *sim);
void sim_probe_rules(const struct sim *sim, struct hx_tool_rules *rules);
/* It is called. */
void sim_probe_take(struct sim *sim, struct sim_process *process, const struct hx_rpc_msg *msg);
/* A row says that it was looked for. */
void sim_probe_check(struct sim *sim, const struct hx_record *row);

/* ---- refused.c: calls that must be refused ---- */

void sim_refused_plan(struct sim *sim);
/* Somebody uses the key of this one for something else. */
void sim_refused_probe(struct sim *sim, const struct sim_intent *intent);
void sim_refused_check(struct sim *sim, const struct sim_call *call,
                       const struct sim_answer *answer);

/* ---- child.c: a server behind pipes ---- */

extern const struct hx_upstream_ops sim_child_ops;
/* Ends it; what it wrote is still read, then CLOSED. */
void sim_process_die(struct sim *sim, struct sim_process *process, int status);
void sim_child_say(struct sim *sim, struct sim_process *process, struct hx_span line);

/* ---- remote.c: a server over HTTP ---- */

extern const struct hx_upstream_ops sim_remote_ops;
/* It says something on the exchange of request `tag`. */
void sim_remote_say(struct sim *sim, struct sim_process *process, struct hx_span line, uint64_t tag,
                    bool is_answer);
/* It has got this call; its stream begins. */
void sim_remote_begin(struct sim *sim, struct sim_run *run);
void sim_remote_answer(struct sim *sim, struct sim_run *run);
/* Its machine is started again: every session and everything in hand is gone. */
void sim_remote_restart(struct sim *sim);
/* Nobody listens on this way any more. */
void sim_remote_detach(struct sim *sim, uint32_t upstream);

/* ---- client.c: what clients want, send and understand ---- */

void sim_host_begin(struct sim *sim, struct sim_intent *intent);
void sim_host_call(struct sim *sim, struct sim_host *host, struct sim_intent *intent,
                   bool is_conflict);
void sim_host_send(struct sim *sim, struct sim_host *host, struct hx_span line);
void sim_host_cancel(struct sim *sim, struct sim_call *call);
/* A keeper that is paused does not say that somebody waits: its callers may be thought lost. */
void sim_host_silence(struct sim *sim, uint32_t life);
void sim_host_allow_unread(struct sim *sim, uint32_t life);
/* The call's connection is gone, and its client tries again. */
void sim_call_lost(struct sim *sim, struct sim_call *call);
/* Its cancel never arrives: to the gateway it is as if its client had said nothing. */
void sim_call_cancel_lost(struct sim *sim, struct sim_call *call);
/* Its cancel came first. What repeats requests keeps their order, except for calls with a key, to
 * which it does no harm. */
bool sim_call_is_overtaken(struct sim *sim, const struct sim_call *call);
/* The gateway is given it, or its cancel. */
void sim_call_arrives(struct sim *sim, struct sim_life *life, struct sim_call *call,
                      bool is_cancel);
/* The client reads a line. */
void sim_host_take(struct sim *sim, struct sim_host *host, uint32_t session, struct hx_span line);

/* ---- door.c: what is common to pipes and sessions ---- */

struct sim_door *sim_door_new(struct sim_life *life, uint32_t host, uint32_t session,
                              const struct hx_store_session *kept);
struct sim_door *sim_door_find(struct sim *sim, uint32_t life, uint32_t session);
struct sim_door *sim_door_of(struct hx_downstream *downstream);
void sim_door_free(struct sim_door *door);
void sim_door_append(struct sim_door *door, enum hx_peer_event_type type, uint64_t tag,
                     uint64_t exchange, struct hx_span line);
uint64_t sim_door_queued_bytes(struct hx_downstream *downstream);
/* Takes a line on its way to the client. */
struct sim_line *sim_line_new(struct sim_door *door, struct hx_span bytes, uint64_t tag);
void sim_line_write(struct sim_door *door, struct sim_line *line);
void sim_line_free(struct sim_line *line);
void sim_host_drop_unread(struct sim *sim, struct sim_host *host);
uint32_t sim_session_add(struct sim *sim, uint32_t host, uint32_t port);
struct sim_session *sim_session_get(struct sim *sim, uint32_t number);
void sim_host_connect(struct sim *sim, struct sim_host *host);
void sim_host_connect_later(struct sim *sim, struct sim_host *host, int64_t delay_ms);
void sim_host_greet(struct sim *sim, struct sim_host *host);
/* The connection ended by itself. */
void sim_host_cut(struct sim *sim, uint32_t life);
void sim_host_after_cut(struct sim *sim, struct sim_host *host);

/* ---- pipe.c: clients of `run` ---- */

extern const struct hx_downstream_ops sim_pipe_ops;
struct sim_event *sim_pipe_post(struct sim *sim, uint32_t life, struct hx_span line);
/* The same again, later. */
struct sim_event *sim_pipe_repeat(struct sim *sim, uint32_t life, struct hx_span line,
                                  int64_t delay_ms);
/* The client ends the connection. */
enum sim_hang_up { SIM_KILL_FRONT, SIM_CLOSE_PIPES, SIM_END_OF_INPUT };
void sim_host_hang_up(struct sim *sim, struct sim_host *host, enum sim_hang_up how);

/* ---- web.c: clients of `serve` ---- */

extern const struct hx_downstream_ops sim_web_ops;
struct sim_exchange *sim_exchange_find(struct sim *sim, uint64_t number);
/* A message leaves for the host's session, after `delay_ms`; 0 = it has none. */
struct sim_exchange *sim_web_post(struct sim *sim, struct sim_host *host, struct hx_span line,
                                  int64_t delay_ms);
struct sim_exchange *sim_web_resume(struct sim *sim, struct sim_host *host, struct hx_span name);
void sim_exchange_free(struct sim_exchange *exchange);
/* The answer to this call is to come on it. */
bool sim_exchange_carries(const struct sim_exchange *exchange, const struct sim_call *call);
struct hx_digest sim_session_key(uint32_t session);
/* Its handshake is over. */
void sim_web_greeted(struct sim *sim, struct sim_host *host);
/* The host comes to its port, with its session if it has one. */
void sim_web_connect(struct sim *sim, struct sim_host *host);
/* A connection breaks. The client may come back for the answer, unless it does not want to. */
void sim_web_cut(struct sim *sim, struct sim_exchange *exchange, bool may_come_back);
/* Every connection that its answer could come on. */
void sim_web_drop(struct sim *sim, const struct sim_call *call);
void sim_web_cut_later(struct sim *sim, const struct sim_exchange *exchange, int64_t delay_ms);
/* What its client makes of that: it waits for a chance to come back, or takes its calls for
 * lost. */
void sim_web_lose(struct sim *sim, struct sim_exchange *exchange, bool may_come_back);
/* All of the host's connections are gone. */
void sim_web_after_cut(struct sim *sim, struct sim_host *host, uint32_t life);
void sim_web_read(struct sim *sim, uint64_t exchange);
/* The client ends its session. */
void sim_web_end(struct sim *sim, struct sim_host *host);
/* It is never seen again. */
void sim_web_vanish(struct sim *sim, struct sim_host *host);
void sim_web_session_over(void *context, struct hx_downstream *downstream, bool is_ended);
/* The keeper puts away a session that nobody uses. */
void sim_web_put_away(struct sim *sim, struct sim_life *life);
/* The weather of those clients. */
void sim_web_strike(struct sim *sim);
/* Its answer could still reach it. */
bool sim_call_is_heard(struct sim *sim, const struct sim_call *call);
void sim_exchanges_free(struct sim *sim);

/* ---- answer.c: what a client is told, judged when it is told ---- */

struct sim_answer {
    uint32_t call; /* 0 = not an answer to a call */
    uint32_t id;   /* JSON-RPC id; 0 = none */
    bool is_text_id;
    bool has_code;
    char code[32]; /* our own codes; empty for the tool's outcome */
    bool has_operation;
    struct hx_id operation;
    uint32_t run; /* the tool's outcome: whose */
    bool is_replayed, is_joined;
};

void sim_answer_sent(struct sim_door *door, struct hx_span line);
bool sim_answer_read(struct sim *sim, uint32_t session, const struct hx_rpc_msg *msg,
                     struct sim_answer *ret_answer);

/* ---- neighbours.c ---- */

void sim_neighbours_open(struct sim_life *life);
void sim_neighbours_free(struct sim *sim);

/* ---- intent.c ---- */

struct sim_intent *sim_intent_add(struct sim *sim, uint32_t host, enum sim_tool tool,
                                  uint32_t group, const char *key);
struct sim_intent *sim_intent_get(struct sim *sim, uint32_t number);
struct sim_call *sim_call_add(struct sim *sim);
struct sim_call *sim_call_get(struct sim *sim, uint32_t number);
struct sim_run *sim_run_add(struct sim *sim);
struct sim_run *sim_run_get(struct sim *sim, uint32_t number);
void sim_plan(struct sim *sim);
void sim_rules_for(struct sim *sim, struct hx_span tool, struct hx_tool_rules *ret_rules);
void sim_contracts(struct sim *sim);

/* ---- check.c ---- */

const struct hx_record *sim_row(struct sim *sim, const struct hx_id *operation);
/* The outcome waits in the spool of somebody. */
const struct hx_record *sim_spooled(struct sim *sim, const struct hx_id *operation);
/* The call that made the operation; 0 = not known. */
uint32_t sim_creator(struct sim *sim, const struct hx_id *operation);
void sim_check_rows(struct sim *sim);
void sim_check_send(struct sim_upstream *upstream, const struct hx_id *operation, uint32_t attempt);
void sim_check_act(struct sim *sim, struct sim_run *run);
void sim_check_end(struct sim *sim);

/* ---- post.c ---- */

/* What of a row is announced when it changes. */
struct sim_told {
    enum hx_op_state state;
    bool needs_human, is_superseded, is_disputed;
};

/* How many events the change to `row` must have made. */
unsigned sim_events_due(const struct sim_told *before, const struct hx_record *row);
/* The row has so many events, and the newest agrees with it. */
void sim_check_events(struct sim *sim, const struct hx_record *row, unsigned expected);
void sim_check_event_total(struct sim *sim, size_t expected);
/* NULL in a world without a receiver. */
struct hx_courier *sim_courier_open(struct sim_life *life);
void sim_courier_close(struct sim_life *life);
void sim_check_published(struct sim *sim);
void sim_shadows_free(struct sim *sim);

/* ---- look.c: into the engine ---- */

bool sim_look_route(const struct hx_upstream *upstream, uint64_t tag, struct hx_id *ret_operation,
                    uint32_t *ret_attempt);
/* Who waits for it where it runs; 0 = nobody, or nobody knows. */
uint32_t sim_look_caller(struct sim *sim, const struct hx_record *row);
/* A person has been asked about it, and may still answer. */
bool sim_look_is_asked(struct sim *sim, const struct sim_call *call);
void sim_look_check(struct hx_gateway *gateway);
/* Several sessions speak over one link. */
bool sim_look_is_shared(struct hx_gateway *gateway);
/* Nothing is in hand: no request, no work, no write. Else a sentence. */
/* The ledger does not know yet what became of some answer. */
bool sim_look_has_unsaved(struct hx_gateway *gateway);
const char *sim_look_idle(struct hx_gateway *gateway);
void sim_look_dump(struct hx_gateway *gateway, FILE *out);

/* ---- trace.c ---- */

void sim_trace(struct sim *sim, const char *format, ...) HX_PRINTF(2, 3);
void sim_mark(struct sim *sim, enum sim_mark mark);
/* A promise was broken: prints the seed and the last lines, and ends the program. */
_Noreturn void sim_fail(struct sim *sim, const char *format, ...) HX_PRINTF(2, 3);
void sim_print_trace(const struct sim *sim, FILE *out, size_t lines);
const char *sim_short_id(const struct hx_id *id);

/* ---- memory.c: what a gateway is refused ---- */

void sim_memory_choose(struct sim *sim);
/* A member that makes an object large, behind another one. */
void sim_memory_pad(const struct sim *sim, struct hx_buf *json);
/* Before and after a turn of a gateway. */
void sim_memory_turn(struct sim_life *life);
void sim_memory_turn_over(struct sim_life *life);
/* Around what is done outside of the gateway while it is in a turn. */
unsigned long sim_memory_leave(void);
void sim_memory_return(unsigned long left);

#endif
