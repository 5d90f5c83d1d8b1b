/* SPDX-License-Identifier: MIT */
/*
 * An event in the words of CloudEvents 1.0, structured mode. Internal to engine/.
 */
#ifndef HX_ENGINE_PUBLISH_EVENT_H
#define HX_ENGINE_PUBLISH_EVENT_H

#include "base/buf.h"
#include "port/store.h"

enum { HX_PUBLISH_EVENT_MAX = 16 * 1024 };

/* Appends the JSON. False when the names in it are longer than is sane. */
bool hx_publish_write(const struct hx_store_event *event, const struct hx_id *ledger,
                      struct hx_buf *out) HX_MUST_CHECK;

#endif
