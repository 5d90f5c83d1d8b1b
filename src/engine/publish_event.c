/* SPDX-License-Identifier: MIT */
#include "engine/publish_event.h"

#include <inttypes.h>
#include <stdio.h>

#include "json/writer.h"

/* Everything that a receiver is told of the operation. Never arguments, results or keys: whoever
 * wants those asks the ledger by the operation's id, under his own rights. */
static void put_data(struct hx_json_writer *writer, const struct hx_store_event *event)
{
    hx_json_put_name(writer, "data");
    hx_json_open_object(writer);
    hx_json_add_id(writer, "operation", &event->op);
    hx_json_add_string(writer, "server", event->server);
    hx_json_add_string(writer, "tool", event->tool);
    hx_json_add_cstr(writer, "state", hx_op_state_name(event->state));
    hx_json_add_cstr(writer, "reason", hx_reason_name(event->reason));
    hx_json_put_name(writer, "attempt");
    hx_json_put_uint(writer, event->attempt);
    hx_json_add_wall(writer, "created", event->created);
    if (event->settled.ms != 0)
        hx_json_add_wall(writer, "settled", event->settled);
    hx_json_close_object(writer);
}

bool hx_publish_write(const struct hx_store_event *event, const struct hx_id *ledger,
                      struct hx_buf *out)
{
    struct hx_json_writer writer;
    char source[HX_ID_TEXT_SIZE + 16], type[64], sequence[32], id[HX_ID_TEXT_SIZE];
    hx_id_format(ledger, id);
    snprintf(source, sizeof(source), "urn:uuid:%s", id);
    snprintf(type, sizeof(type), HX_OUTBOX_TYPE_PREFIX "%s", hx_outbox_kind_name(event->kind));
    /* Of one length, since the extension says that its texts are compared as such. */
    snprintf(sequence, sizeof(sequence), "%016" PRId64, event->number);
    hx_json_writer_init(&writer, out);
    hx_json_open_object(&writer);
    hx_json_add_cstr(&writer, "specversion", "1.0");
    hx_json_add_id(&writer, "id", &event->id);
    hx_json_add_cstr(&writer, "source", source);
    hx_json_add_cstr(&writer, "type", type);
    hx_json_add_id(&writer, "subject", &event->op);
    hx_json_add_wall(&writer, "time", event->at);
    hx_json_add_cstr(&writer, "datacontenttype", "application/json");
    hx_json_add_cstr(&writer, "sequence", sequence);
    put_data(&writer, event);
    hx_json_close_object(&writer);
    return hx_buf_ok(out);
}
