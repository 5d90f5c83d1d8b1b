/* SPDX-License-Identifier: MIT */
/*
 * Questions with a deadline, watchers with a lifetime, and limits on both.
 *
 * A kernel may queue as few as ten datagrams, so any message can be refused. A question is
 * therefore asked again until its answer or its deadline comes, and may be heard twice; a lost
 * CHANGED costs the watcher one poll.
 */
#include "adapter/neighbour_unix/neighbour_unix.h"

#include "adapter/neighbour_unix/socket.h"
#include "base/alloc.h"
#include "base/list.h"

enum {
    ANSWER_TIMEOUT_MS = 2000,
    ASK_AGAIN_MS = 100,
    WATCH_MS = 120000, /* longer than anybody waits without watching again */
    RECEIVE_MAX = 64,  /* in one turn */
    ASKED_MAX = 256,
    WATCHERS_MAX = 1024
};

/* Ours. */
struct question {
    struct hx_list node;
    uint64_t ticket;   /* the caller's */
    uint64_t sequence; /* ours, on the wire */
    struct hx_id who;
    struct hx_id operation;
    struct hx_mono deadline;
};

/* A neighbour's, until it is replied to. */
struct asked {
    struct hx_list node;
    uint64_t ticket;   /* ours, for the caller */
    uint64_t sequence; /* the neighbour's */
    struct hx_id who;
};

struct watcher {
    struct hx_list node;
    struct hx_id who;
    struct hx_id operation;
    struct hx_mono until;
};

struct neighbours {
    struct hx_neighbourhood port;
    struct hx_loop *loop;
    struct hx_neighbour_socket socket;
    struct hx_loop_fd *watch;
    struct hx_loop_timer *timer; /* runs while there are questions */
    int64_t answer_timeout_ms;
    uint64_t next_number; /* of tickets and sequences */
    struct hx_list questions;
    struct hx_list asked;    /* oldest first */
    struct hx_list watchers; /* the one that ends first is first */
    unsigned asked_count;
    unsigned watcher_count;
};

static struct neighbours *neighbours_of(struct hx_neighbourhood *port)
{
    return hx_container_of(port, struct neighbours, port);
}

static struct question *question_of(struct hx_list *node)
{
    return hx_container_of(node, struct question, node);
}

static struct asked *asked_of(struct hx_list *node)
{
    return hx_container_of(node, struct asked, node);
}

static struct watcher *watcher_of(struct hx_list *node)
{
    return hx_container_of(node, struct watcher, node);
}

static struct hx_neighbour_event *append(struct neighbours *all, enum hx_neighbour_event_type type)
{
    struct hx_neighbour_event *event = hx_neighbour_event_new(type);

    hx_list_append(all->port.inbox, &event->node);
    return event;
}

static int say(struct neighbours *all, enum hx_neighbour_message_type type, const struct hx_id *to,
               const struct hx_id *operation, uint64_t sequence, bool is_live)
{
    struct hx_neighbour_message message = {.type = type, .is_live = is_live, .sequence = sequence};

    if (operation != NULL)
        message.operation = *operation;
    return hx_neighbour_socket_send(&all->socket, to, &message);
}

/* --- our questions --- */

static void question_end(struct neighbours *all, struct question *question, bool is_live)
{
    struct hx_neighbour_event *event = append(all, HX_NEIGHBOUR_ANSWER);

    event->ticket = question->ticket;
    event->operation = question->operation;
    event->is_live = is_live;
    hx_list_unlink(&question->node);
    hx_free(question);
}

/* Asks, or asks again. Nobody there is an answer too. */
static void question_ask(struct neighbours *all, struct question *question)
{
    if (say(all, HX_NEIGHBOUR_SAYS_ASK, &question->who, &question->operation, question->sequence,
            false) == HX_NEIGHBOUR_DEAD)
        question_end(all, question, false);
}

static void timer_due(void *arg)
{
    struct neighbours *all = arg;
    struct hx_mono now = hx_loop_now(all->loop);

    hx_list_for_each_safe (node, &all->questions) {
        struct question *question = question_of(node);
        if (hx_mono_reached(now, question->deadline))
            question_end(all, question, false);
        else
            question_ask(all, question);
    }
    if (!hx_list_is_empty(&all->questions))
        hx_loop_timer_set(all->timer, ASK_AGAIN_MS);
}

static void ask(struct hx_neighbourhood *port, const struct hx_id *who,
                const struct hx_id *operation, uint64_t ticket)
{
    struct neighbours *all = neighbours_of(port);
    struct question *question = hx_new(struct question);

    question->ticket = ticket;
    question->sequence = ++all->next_number;
    question->who = *who;
    question->operation = *operation;
    question->deadline = hx_mono_after(hx_loop_now(all->loop), all->answer_timeout_ms);
    hx_list_append(&all->questions, &question->node);
    question_ask(all, question);
    if (!hx_list_is_empty(&all->questions) && !hx_loop_timer_is_set(all->timer))
        hx_loop_timer_set(all->timer, ASK_AGAIN_MS);
}

static void heard_answer(struct neighbours *all, const struct hx_neighbour_message *message)
{
    hx_list_for_each_safe (node, &all->questions) {
        struct question *question = question_of(node);
        if (question->sequence == message->sequence && hx_id_eq(&question->who, &message->from)) {
            question_end(all, question, message->is_live);
            return;
        }
    }
}

/* --- theirs --- */

static void asked_drop(struct neighbours *all, struct asked *asked)
{
    hx_list_unlink(&asked->node);
    all->asked_count--;
    hx_free(asked);
}

static void heard_ask(struct neighbours *all, const struct hx_neighbour_message *message)
{
    struct hx_neighbour_event *event;
    struct asked *asked;

    hx_list_for_each (node, &all->asked) {
        asked = asked_of(node);
        if (asked->sequence == message->sequence && hx_id_eq(&asked->who, &message->from))
            return; /* asked again while the reply is being found */
    }
    if (all->asked_count == ASKED_MAX)
        asked_drop(all, asked_of(hx_list_first(&all->asked)));
    asked = hx_new(struct asked);
    asked->ticket = ++all->next_number;
    asked->sequence = message->sequence;
    asked->who = message->from;
    hx_list_append(&all->asked, &asked->node);
    all->asked_count++;
    event = append(all, HX_NEIGHBOUR_ASKED);
    event->ticket = asked->ticket;
    event->operation = message->operation;
}

static void reply(struct hx_neighbourhood *port, uint64_t ticket, bool is_live)
{
    struct neighbours *all = neighbours_of(port);

    hx_list_for_each_safe (node, &all->asked) {
        struct asked *asked = asked_of(node);
        if (asked->ticket != ticket)
            continue;
        /* Refused, it is asked again; dead, nobody needs it. */
        (void)!say(all, HX_NEIGHBOUR_SAYS_ANSWER, &asked->who, NULL, asked->sequence, is_live);
        asked_drop(all, asked);
        return;
    }
}

/* --- watchers --- */

static void watcher_drop(struct neighbours *all, struct watcher *watcher)
{
    hx_list_unlink(&watcher->node);
    all->watcher_count--;
    hx_free(watcher);
}

static struct watcher *watcher_find(struct neighbours *all, const struct hx_id *who,
                                    const struct hx_id *operation)
{
    hx_list_for_each (node, &all->watchers) {
        struct watcher *watcher = watcher_of(node);
        if (hx_id_eq(&watcher->operation, operation) && hx_id_eq(&watcher->who, who))
            return watcher;
    }
    return NULL;
}

static void heard_watch(struct neighbours *all, const struct hx_neighbour_message *message)
{
    struct watcher *watcher = watcher_find(all, &message->from, &message->operation);

    if (watcher == NULL) {
        if (all->watcher_count == WATCHERS_MAX)
            watcher_drop(all, watcher_of(hx_list_first(&all->watchers)));
        watcher = hx_new(struct watcher);
        hx_list_init(&watcher->node);
        watcher->who = message->from;
        watcher->operation = message->operation;
        all->watcher_count++;
    }
    watcher->until = hx_mono_after(hx_loop_now(all->loop), WATCH_MS);
    hx_list_unlink(&watcher->node);
    hx_list_append(&all->watchers, &watcher->node);
}

static void watch(struct hx_neighbourhood *port, const struct hx_id *who,
                  const struct hx_id *operation)
{
    /* Refused or dead: the caller polls anyway. */
    (void)!say(neighbours_of(port), HX_NEIGHBOUR_SAYS_WATCH, who, operation, 0, false);
}

static void changed(struct hx_neighbourhood *port, const struct hx_id *operation)
{
    struct neighbours *all = neighbours_of(port);
    struct hx_mono now = hx_loop_now(all->loop);

    hx_list_for_each_safe (node, &all->watchers) {
        struct watcher *watcher = watcher_of(node);
        if (hx_mono_reached(now, watcher->until))
            watcher_drop(all, watcher);
        else if (hx_id_eq(&watcher->operation, operation) &&
                 say(all, HX_NEIGHBOUR_SAYS_CHANGED, &watcher->who, operation, 0, false) ==
                     HX_NEIGHBOUR_DEAD)
            watcher_drop(all, watcher);
    }
}

static void tell(struct hx_neighbourhood *port, const struct hx_id *who,
                 const struct hx_id *operation)
{
    /* He may be gone, or looks for himself. */
    (void)!say(neighbours_of(port), HX_NEIGHBOUR_SAYS_CHANGED, who, operation, 0, false);
}

/* --- the socket --- */

static void heard(struct neighbours *all, const struct hx_neighbour_message *message)
{
    switch (message->type) {
    case HX_NEIGHBOUR_SAYS_ASK:
        heard_ask(all, message);
        break;
    case HX_NEIGHBOUR_SAYS_ANSWER:
        heard_answer(all, message);
        break;
    case HX_NEIGHBOUR_SAYS_WATCH:
        heard_watch(all, message);
        break;
    case HX_NEIGHBOUR_SAYS_CHANGED:
        append(all, HX_NEIGHBOUR_CHANGED)->operation = message->operation;
        break;
    case HX_NEIGHBOUR_SAYS_STOP:
        append(all, HX_NEIGHBOUR_STOP);
        break;
    }
}

static void socket_ready(void *arg, unsigned events)
{
    struct neighbours *all = arg;
    struct hx_neighbour_message message;

    (void)events;
    for (unsigned i = 0; i < RECEIVE_MAX; i++) {
        int rc = hx_neighbour_socket_receive(&all->socket, &message);
        if (rc == HX_NEIGHBOUR_EMPTY)
            return;
        if (rc == 0)
            heard(all, &message);
    }
}

/* --- the whole --- */

static const struct hx_neighbourhood_ops neighbourhood_ops = {
    .ask = ask,
    .reply = reply,
    .watch = watch,
    .changed = changed,
    .tell = tell,
};

struct hx_neighbourhood *hx_neighbour_unix_new(struct hx_loop *loop, struct hx_list *inbox,
                                               const struct hx_neighbour_unix_options *options)
{
    struct neighbours *all = hx_new(struct neighbours);

    if (hx_neighbour_socket_open(&all->socket, options->dir, &options->self) != 0) {
        hx_free(all);
        return NULL;
    }
    all->port = (struct hx_neighbourhood){.ops = &neighbourhood_ops, .inbox = inbox};
    all->loop = loop;
    all->answer_timeout_ms =
        options->answer_timeout_ms > 0 ? options->answer_timeout_ms : ANSWER_TIMEOUT_MS;
    hx_list_init(&all->questions);
    hx_list_init(&all->asked);
    hx_list_init(&all->watchers);
    all->timer = hx_loop_timer_new(loop, timer_due, all);
    all->watch = hx_loop_fd_new(loop, all->socket.fd, socket_ready, all);
    hx_loop_fd_want(all->watch, HX_LOOP_READ);
    return &all->port;
}

struct hx_neighbourhood *hx_neighbour_unix_free(struct hx_neighbourhood *port)
{
    struct neighbours *all;
    struct hx_list *node;

    if (port == NULL)
        return NULL;
    all = neighbours_of(port);
    while ((node = hx_list_take_first(&all->questions)) != NULL)
        hx_free(question_of(node));
    while ((node = hx_list_first(&all->asked)) != NULL)
        asked_drop(all, asked_of(node));
    while ((node = hx_list_first(&all->watchers)) != NULL)
        watcher_drop(all, watcher_of(node));
    hx_loop_fd_free(all->watch);
    hx_loop_timer_free(all->timer);
    hx_neighbour_socket_close(&all->socket);
    hx_free(all);
    return NULL;
}

void hx_neighbour_unix_stop(struct hx_neighbourhood *port, const struct hx_id *who)
{
    /* Not heard, it is told again by the next one that counts the drainers. */
    (void)!say(neighbours_of(port), HX_NEIGHBOUR_SAYS_STOP, who, NULL, 0, false);
}
