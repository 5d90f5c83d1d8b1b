/* SPDX-License-Identifier: MIT */
/*
 * `hapax ops outbox`: events that wait for their receiver, and what a person decides about them.
 */
#include "app/ops.h"

#include <inttypes.h>
#include <string.h>

#include "app/ops_text.h"
#include "app/table.h"
#include "base/fault.h"

#define IN(place) (1U << HX_OUTBOX_##place)

enum { ERROR_COLUMNS = 60 };

/* ---- as text ---- */

static void add_row(struct hx_table *table, const struct hx_ops *ops,
                    const struct hx_store_event *event)
{
    char id[HX_ID_TEXT_SIZE], op[HX_ID_TEXT_SIZE], age[HX_OPS_AGE_SIZE], next[HX_TIME_TEXT_SIZE];
    bool is_bad = event->place == HX_OUTBOX_PARKED;
    hx_ops_short_id(&event->id, id);
    hx_ops_short_id(&event->op, op);
    int64_t age_ms = ops->now.wall.ms - event->at.ms;
    hx_ops_age(age_ms > 0 ? age_ms : 0, age);
    hx_ops_moment(event->not_before, next);
    hx_table_add(table, hx_span_cstr(id), HX_CELL_HEAD);
    hx_table_add(table, hx_span_cstr(age), HX_CELL_PLAIN);
    hx_table_add(table, hx_span_cstr(hx_outbox_place_name(event->place)),
                 is_bad ? HX_CELL_BAD : HX_CELL_PLAIN);
    hx_table_add(table, hx_span_cstr(hx_ops_words(hx_outbox_kind_name(event->kind))),
                 HX_CELL_PLAIN);
    hx_table_add(table, event->tool, HX_CELL_PLAIN);
    hx_table_add(table, event->server, HX_CELL_PLAIN);
    hx_table_add(table, hx_span_cstr(op), HX_CELL_PLAIN);
    hx_table_addf(table, HX_CELL_PLAIN, "%" PRIu32, event->tries);
    bool is_waiting = event->place == HX_OUTBOX_PENDING && event->tries > 0;
    hx_table_add(table, hx_span_cstr(is_waiting ? next : "-"), HX_CELL_PLAIN);
    struct hx_span error = event->error;
    if (error.len > ERROR_COLUMNS)
        error.len = hx_text_fit(error, ERROR_COLUMNS);
    hx_table_add(table, hx_span_is_absent(error) ? HX_SPAN_LIT("-") : error, HX_CELL_PLAIN);
}

static void print_state(struct hx_ops *ops, const struct hx_inspect_outbox *outbox)
{
    char since[HX_TIME_TEXT_SIZE];
    if (outbox->since.ms == 0) {
        fputs("This ledger has no outbox: nothing is announced. outbox_url of hapax run or hapax "
              "serve begins one.\n",
              ops->out);
        return;
    }
    hx_ops_moment(outbox->since, since);
    fprintf(ops->out, "%" PRIu64 " waiting, %" PRIu64 " parked; announcing since %s; %s\n",
            outbox->pending, outbox->parked, since,
            outbox->has_publisher ? "a running Hapax publishes"
                                  : "nobody publishes now: no running Hapax has outbox_url");
}

void hx_ops_print_outbox(struct hx_ops *ops)
{
    struct hx_inspect_outbox outbox;
    if (hx_inspect_outbox(ops->inspect, &outbox) < 0 || outbox.pending + outbox.parked == 0)
        return; /* a courtesy */
    fprintf(ops->out,
            "Outbox: %" PRIu64 " events waiting, %" PRIu64 " parked ('hapax ops outbox').\n",
            outbox.pending, outbox.parked);
}

/* ---- as JSON ---- */

static void put_event(struct hx_json_writer *writer, const struct hx_store_event *event)
{
    hx_json_open_object(writer);
    hx_json_add_id(writer, "id", &event->id);
    hx_json_put_name(writer, "sequence");
    hx_json_put_int(writer, event->number);
    hx_json_add_cstr(writer, "type", hx_outbox_kind_name(event->kind));
    hx_json_add_cstr(writer, "place", hx_outbox_place_name(event->place));
    hx_json_add_wall(writer, "at", event->at);
    hx_json_add_id(writer, "operation", &event->op);
    hx_json_add_string(writer, "server", event->server);
    hx_json_add_string(writer, "tool", event->tool);
    hx_json_add_cstr(writer, "state", hx_op_state_name(event->state));
    hx_json_add_cstr(writer, "reason", hx_reason_name(event->reason));
    hx_json_put_name(writer, "attempt");
    hx_json_put_uint(writer, event->attempt);
    hx_json_put_name(writer, "tries");
    hx_json_put_uint(writer, event->tries);
    hx_json_add_wall(writer, "not_before", event->not_before);
    hx_json_add_wall(writer, "tried", event->tried);
    hx_json_add_string(writer, "error", event->error);
    hx_json_close_object(writer);
}

/* ---- the list ---- */

struct list {
    struct hx_ops *ops;
    struct hx_table *table;
    struct hx_json_writer *writer; /* NULL: the table */
    size_t count;
};

static bool show_one(void *context, const struct hx_store_event *event)
{
    struct list *list = context;
    list->count++;
    if (list->writer != NULL)
        put_event(list->writer, event);
    else
        add_row(list->table, list->ops, event);
    return true;
}

/* What waits comes first, the oldest at the top; the limit must not hide it behind what is over, of
 * which the newest is shown. */
static int list_events(struct hx_ops *ops, struct list *list)
{
    const struct hx_ops_options *options = &ops->options;
    bool has_limit = options->limit > 0 && options->limit < UINT32_MAX;
    uint32_t limit = has_limit ? (uint32_t)options->limit : 0;
    unsigned open = options->is_parked ? IN(PARKED) : IN(PENDING) | IN(PARKED);
    int rc = hx_inspect_events(ops->inspect, open, NULL, false, limit, show_one, list);
    if (rc < 0 || !options->is_all || options->is_parked || (has_limit && list->count >= limit))
        return HX_TRACE(rc);
    return HX_TRACE(hx_inspect_events(ops->inspect, IN(DELIVERED) | IN(DROPPED), NULL, true,
                                      has_limit ? limit - (uint32_t)list->count : 0, show_one,
                                      list));
}

static int list_table(struct hx_ops *ops, const struct hx_inspect_outbox *outbox)
{
    static const char *const titles[] = {"id",     "age",       "place",  "event",    "tool",
                                         "server", "operation", ">tries", "next try", "last error"};
    struct list list = {.ops = ops,
                        .table = hx_table_new(titles, sizeof(titles) / sizeof(titles[0]))};
    int rc = list_events(ops, &list);
    if (rc == 0 && list.count > 0)
        hx_table_print(list.table, ops->out, hx_table_options_for(stdout));
    hx_table_free(list.table);
    if (rc < 0)
        return hx_ops_fault(ops, HX_EXIT_FAILED);
    print_state(ops, outbox);
    return HX_EXIT_DONE;
}

static int list_json(struct hx_ops *ops, const struct hx_inspect_outbox *outbox)
{
    struct hx_buf buf;
    struct hx_json_writer writer;
    struct list list = {.ops = ops, .writer = &writer};
    hx_buf_init(&buf, SIZE_MAX / 2);
    hx_json_writer_init(&writer, &buf);
    hx_json_open_object(&writer);
    hx_json_add_cstr(&writer, "ledger", ops->path);
    hx_json_add_wall(&writer, "since", outbox->since);
    hx_json_put_name(&writer, "has_publisher");
    hx_json_put_bool(&writer, outbox->has_publisher);
    hx_json_put_name(&writer, "pending");
    hx_json_put_uint(&writer, outbox->pending);
    hx_json_put_name(&writer, "parked");
    hx_json_put_uint(&writer, outbox->parked);
    hx_json_put_name(&writer, "events");
    hx_json_open_array(&writer);
    int rc = list_events(ops, &list);
    hx_json_close_array(&writer);
    hx_json_close_object(&writer);
    bool is_printed = rc == 0 && hx_ops_print_json(ops->out, &buf);
    hx_buf_fini(&buf);
    return is_printed ? HX_EXIT_DONE : hx_ops_fault(ops, HX_EXIT_FAILED);
}

/* ---- those of one operation ---- */

enum { EVERY_PLACE = IN(PENDING) | IN(PARKED) | IN(DELIVERED) | IN(DROPPED) };

static bool print_short(void *context, const struct hx_store_event *event)
{
    struct list *list = context;
    char id[HX_ID_TEXT_SIZE], at[HX_TIME_TEXT_SIZE];
    hx_ops_short_id(&event->id, id);
    hx_ops_moment(event->at, at);
    if (list->count++ == 0)
        fputc('\n', list->ops->out);
    fprintf(list->ops->out, "told  %s  %s (event %s, %s)\n", at,
            hx_ops_words(hx_outbox_kind_name(event->kind)), id, hx_outbox_place_name(event->place));
    return true;
}

int hx_ops_print_events(struct hx_ops *ops, const struct hx_id *op)
{
    struct list list = {.ops = ops};
    return HX_TRACE(hx_inspect_events(ops->inspect, EVERY_PLACE, op, false, 0, print_short, &list));
}

int hx_ops_put_events(struct hx_ops *ops, const struct hx_id *op, struct hx_json_writer *writer)
{
    struct list list = {.ops = ops, .writer = writer};
    hx_json_put_name(writer, "events");
    hx_json_open_array(writer);
    int rc = hx_inspect_events(ops->inspect, EVERY_PLACE, op, false, 0, show_one, &list);
    hx_json_close_array(writer);
    return HX_TRACE(rc);
}

/* ---- one event ---- */

static int find_event(struct hx_ops *ops, struct hx_store_event *ret_event)
{
    const char *id = ops->options.id;
    int rc = hx_inspect_event(ops->inspect, hx_span_cstr(id), &ops->arena, ret_event);
    if (rc < 0)
        return hx_ops_fault(ops, HX_EXIT_FAILED);
    if (rc == 0)
        return hx_ops_fail(
            ops, HX_EXIT_ABSENT,
            "there is no event '%.60s' in %s. An event is named by its id, or by the "
            "last 6 or more digits of it; 'hapax ops outbox --all' shows them",
            id, ops->path);
    if (rc > 1)
        return hx_ops_fail(ops, HX_EXIT_ABSENT, "'%.60s' fits several events; give the whole id",
                           id);
    return 0;
}

static void print_line(struct hx_ops *ops, const char *name, struct hx_span text)
{
    fprintf(ops->out, "%-11s", name);
    hx_ops_print_plain(ops->out, text, SIZE_MAX);
    fputc('\n', ops->out);
}

static void print_moment(struct hx_ops *ops, const char *name, struct hx_wall wall)
{
    char text[HX_TIME_TEXT_SIZE];
    hx_ops_moment(wall, text);
    print_line(ops, name, hx_span_cstr(text));
}

static void print_event(struct hx_ops *ops, const struct hx_store_event *event)
{
    char id[HX_ID_TEXT_SIZE], short_id[HX_ID_TEXT_SIZE];
    hx_id_format(&event->id, id);
    print_line(ops, "event", hx_span_cstr(id));
    fprintf(ops->out, "%-11s" HX_OUTBOX_TYPE_PREFIX "%s\n", "type",
            hx_outbox_kind_name(event->kind));
    hx_id_format(&event->op, id);
    print_line(ops, "operation", hx_span_cstr(id));
    print_line(ops, "tool", event->tool);
    print_line(ops, "server", event->server);
    fprintf(ops->out, "%-11s%s (%s), attempt %" PRIu32 "\n", "state",
            hx_op_state_name(event->state), hx_ops_words(hx_reason_name(event->reason)),
            event->attempt);
    print_moment(ops, "at", event->at);
    fprintf(ops->out, "%-11s%s, tried %" PRIu32 " time%s\n", "place",
            hx_outbox_place_name(event->place), event->tries, event->tries == 1 ? "" : "s");
    print_moment(ops, "last try", event->tried);
    if (event->place == HX_OUTBOX_PENDING)
        print_moment(ops, "next try", event->not_before);
    if (!hx_span_is_absent(event->error))
        print_line(ops, event->place == HX_OUTBOX_DROPPED ? "dropped" : "error", event->error);
    if (event->place >= HX_OUTBOX_DELIVERED)
        return;
    hx_ops_short_id(&event->id, short_id);
    fprintf(ops->out,
            "\nWhat can be done\n  hapax ops outbox --again %s\n"
            "  hapax ops outbox --drop %s --note REASON\n",
            short_id, short_id);
}

static int show(struct hx_ops *ops)
{
    struct hx_store_event event;
    int status = find_event(ops, &event);
    if (status != 0)
        return status;
    if (!ops->options.is_json) {
        print_event(ops, &event);
        return HX_EXIT_DONE;
    }
    struct hx_buf buf;
    struct hx_json_writer writer;
    hx_buf_init(&buf, SIZE_MAX / 2);
    hx_json_writer_init(&writer, &buf);
    put_event(&writer, &event);
    bool is_printed = hx_ops_print_json(ops->out, &buf);
    hx_buf_fini(&buf);
    return is_printed ? HX_EXIT_DONE : hx_ops_fault(ops, HX_EXIT_FAILED);
}

/* ---- deciding ---- */

static int report(struct hx_ops *ops, const char *done, uint64_t count)
{
    if (ops->options.is_json) {
        fprintf(ops->out, "{\"done\":%s,\"count\":%" PRIu64 "}\n", count > 0 ? "true" : "false",
                count);
    } else if (count > 0 || ops->options.is_end || ops->options.is_parked) {
        fprintf(ops->out, "%" PRIu64 " %s.\n", count, done);
    }
    if (count > 0 || ops->options.is_parked || ops->options.is_end)
        return HX_EXIT_DONE;
    return hx_ops_fail(ops, HX_EXIT_FAILED,
                       "nothing changed: the event was delivered or dropped already");
}

static int decide(struct hx_ops *ops)
{
    const struct hx_ops_options *options = &ops->options;
    const char *done = options->is_again ? "to be tried again"
                       : options->is_end ? "dropped; nothing is announced from now on"
                                         : "dropped";
    struct hx_store_event event = {0};
    uint64_t count = 0;
    int rc;
    if (options->id != NULL) {
        int status = find_event(ops, &event);
        if (status != 0)
            return status;
    }
    if (options->is_again)
        rc = hx_inspect_events_again(ops->inspect, event.number, &count);
    else if (options->is_drop)
        rc = hx_inspect_event_drop(ops->inspect, event.number, hx_span_cstr(options->note), &count);
    else
        rc = hx_inspect_outbox_end(ops->inspect, hx_span_cstr(options->note), &count);
    return rc < 0 ? hx_ops_fault(ops, HX_EXIT_FAILED) : report(ops, done, count);
}

int hx_ops_outbox(struct hx_ops *ops)
{
    const struct hx_ops_options *options = &ops->options;
    struct hx_inspect_outbox outbox;
    if (options->note != NULL && strlen(options->note) > HX_STORE_OUTBOX_ERROR_MAX)
        return hx_ops_fail(ops, HX_EXIT_USAGE, "--note is too long; %d bytes are kept",
                           HX_STORE_OUTBOX_ERROR_MAX);
    if (options->is_again || options->is_drop || options->is_end)
        return decide(ops);
    if (options->id != NULL)
        return show(ops);
    if (hx_inspect_outbox(ops->inspect, &outbox) < 0)
        return hx_ops_fault(ops, HX_EXIT_FAILED);
    return options->is_json ? list_json(ops, &outbox) : list_table(ops, &outbox);
}
