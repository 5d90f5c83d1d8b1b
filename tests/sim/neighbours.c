/* SPDX-License-Identifier: MIT */
/*
 * Gateways asking each other, over a way that delays and loses.
 */
#include "sim/sim.h"

static struct sim_life *life_of(struct hx_neighbourhood *neighbours)
{
    return hx_container_of(neighbours, struct sim_life, neighbours);
}

static void deliver(struct sim_life *life, enum hx_neighbour_event_type type, uint64_t ticket,
                    const struct hx_id *operation, bool is_live)
{
    struct hx_neighbour_event *event = hx_neighbour_event_new(type);
    event->ticket = ticket;
    event->operation = *operation;
    event->is_live = is_live;
    hx_list_append(&life->neighbour_inbox, &event->node);
}

/* Each question is answered once: by the one asked, or by two seconds of silence. */
struct question {
    struct hx_list node;
    uint64_t ticket; /* our own, given to the one asked */
    uint32_t asker;
    uint64_t asker_ticket;
    struct hx_id operation;
};

static void answer(struct sim *sim, struct question *question, bool is_live)
{
    struct sim_life *asker = sim_life_find(sim, question->asker);
    if (asker != NULL)
        deliver(asker, HX_NEIGHBOUR_ANSWER, question->asker_ticket, &question->operation, is_live);
    hx_list_unlink(&question->node);
    hx_free(question);
}

static struct question *find(struct sim *sim, uint64_t ticket)
{
    hx_list_for_each (at, &sim->questions) {
        struct question *question = hx_container_of(at, struct question, node);
        if (question->ticket == ticket)
            return question;
    }
    return NULL;
}

static void on_silence(struct sim *sim, struct sim_event *event)
{
    struct question *question = find(sim, event->tag);
    if (question != NULL)
        answer(sim, question, false);
}

static void on_asked(struct sim *sim, struct sim_event *event)
{
    struct question *question = find(sim, event->tag);
    struct sim_life *asked = sim_life_find(sim, event->a);
    if (question == NULL)
        return;
    if (asked == NULL)
        answer(sim, question, false); /* nobody listens there */
    else
        deliver(asked, HX_NEIGHBOUR_ASKED, question->ticket, &question->operation, false);
}

static void ask(struct hx_neighbourhood *neighbours, const struct hx_id *who,
                const struct hx_id *operation, uint64_t ticket)
{
    struct sim_life *life = life_of(neighbours);
    struct sim *sim = life->sim;
    struct sim_life *asked = sim_life_of_owner(sim, who);
    if (life->is_frozen)
        return;
    struct question *question = hx_new(struct question);
    question->ticket = ++sim->question_count;
    question->asker = life->number;
    question->asker_ticket = ticket;
    question->operation = *operation;
    hx_list_append(&sim->questions, &question->node);
    struct sim_event *event = sim_after(sim, sim_between(&sim->luck, 0, 4), on_asked);
    event->tag = question->ticket;
    event->a = asked != NULL ? asked->number : 0;
    sim_after(sim, 2000, on_silence)->tag = question->ticket;
}

static void on_reply(struct sim *sim, struct sim_event *event)
{
    struct question *question = find(sim, event->tag);
    if (question != NULL)
        answer(sim, question, event->a != 0);
}

static void reply(struct hx_neighbourhood *neighbours, uint64_t ticket, bool is_live)
{
    struct sim_life *life = life_of(neighbours);
    struct sim_event *event = sim_after(life->sim, sim_between(&life->sim->luck, 0, 4), on_reply);
    event->tag = ticket;
    event->a = is_live;
}

static void watch(struct hx_neighbourhood *neighbours, const struct hx_id *who,
                  const struct hx_id *operation)
{
    struct sim_life *life = life_of(neighbours);
    struct sim *sim = life->sim;
    (void)who; /* whoever changes it tells */
    for (unsigned i = 0; i < sim->watch_count; i++) {
        if (sim->watches[i].life == life->number && hx_id_eq(&sim->watches[i].operation, operation))
            return;
    }
    if (sim->watch_count < SIM_WATCHES_MAX)
        sim->watches[sim->watch_count++] = (struct sim_watch){life->number, *operation};
}

static void on_changed(struct sim *sim, struct sim_event *event)
{
    struct sim_life *life = sim_life_find(sim, event->a);
    if (life != NULL)
        deliver(life, HX_NEIGHBOUR_CHANGED, 0, &event->id, false);
}

static void changed(struct hx_neighbourhood *neighbours, const struct hx_id *operation)
{
    struct sim_life *life = life_of(neighbours);
    struct sim *sim = life->sim;
    for (unsigned i = 0; i < sim->watch_count;) {
        struct sim_watch watch = sim->watches[i];
        if (!hx_id_eq(&watch.operation, operation) || watch.life == life->number) {
            i++;
            continue;
        }
        sim->watches[i] = sim->watches[--sim->watch_count];
        if (sim_chance(&sim->luck, 200))
            continue; /* a lost hint costs one poll */
        struct sim_event *event = sim_after(sim, sim_between(&sim->luck, 0, 4), on_changed);
        event->a = watch.life;
        event->id = *operation;
    }
}

static const struct hx_neighbourhood_ops ops = {
    .ask = ask, .reply = reply, .watch = watch, .changed = changed};

void sim_neighbours_open(struct sim_life *life)
{
    hx_list_init(&life->neighbour_inbox);
    life->neighbours = (struct hx_neighbourhood){&ops, &life->neighbour_inbox};
}

void sim_neighbours_free(struct sim *sim)
{
    struct hx_list *node;
    while ((node = hx_list_take_first(&sim->questions)) != NULL)
        hx_free(hx_container_of(node, struct question, node));
}
