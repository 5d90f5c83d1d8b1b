/* SPDX-License-Identifier: MIT */
#include "port/web.h"

#include "base/alloc.h"

struct hx_web_event *hx_web_event_new(enum hx_web_event_type type)
{
    struct hx_web_event *event = hx_new(struct hx_web_event);

    hx_list_init(&event->node);
    event->type = type;
    return event;
}

struct hx_web_event *hx_web_event_free(struct hx_web_event *event)
{
    if (event == NULL)
        return NULL;
    hx_list_unlink(&event->node);
    event->request = hx_web_request_free(event->request);
    return hx_free(event);
}

struct hx_web_request *hx_web_request_new(size_t head_max, size_t body_max)
{
    struct hx_web_request *request = hx_new(struct hx_web_request);

    hx_buf_init(&request->head, head_max);
    hx_buf_init(&request->body, body_max);
    return request;
}

struct hx_web_request *hx_web_request_free(struct hx_web_request *request)
{
    if (request == NULL)
        return NULL;
    request->headers = hx_free(request->headers);
    hx_buf_fini(&request->head);
    hx_buf_fini(&request->body);
    return hx_free(request);
}

struct hx_span hx_web_request_find(const struct hx_web_request *request, const char *name)
{
    for (uint32_t i = 0; i < request->header_count; i++) {
        if (hx_span_eq_nocase(request->headers[i].name, hx_span_cstr(name)))
            return request->headers[i].value;
    }
    return HX_SPAN_NONE;
}

uint32_t hx_web_request_count(const struct hx_web_request *request, const char *name)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < request->header_count; i++)
        count += hx_span_eq_nocase(request->headers[i].name, hx_span_cstr(name));
    return count;
}
