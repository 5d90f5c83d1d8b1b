/* SPDX-License-Identifier: MIT */
#include "port/neighbour.h"

#include "base/alloc.h"

struct hx_neighbour_event *hx_neighbour_event_new(enum hx_neighbour_event_type type)
{
    struct hx_neighbour_event *event = hx_new(struct hx_neighbour_event);
    hx_list_init(&event->node);
    event->type = type;
    return event;
}

struct hx_neighbour_event *hx_neighbour_event_free(struct hx_neighbour_event *event)
{
    if (event != NULL)
        hx_list_unlink(&event->node);
    return hx_free(event);
}
