/* SPDX-License-Identifier: MIT */
/*
 * `hapax ops size`: figures about the ledger.
 */
#include <inttypes.h>

#include "app/ops.h"
#include "app/ops_text.h"
#include "app/table.h"

/* For people: three digits are enough. */
static void add_bytes(struct hx_table *table, uint64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    double value = (double)bytes;
    while (value >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1024;
        unit++;
    }
    hx_table_addf(table, HX_CELL_PLAIN, "%.*f %s", unit == 0 || value >= 100 ? 0 : 1, value,
                  units[unit]);
}

static void add_count(struct hx_table *table, const char *what, uint64_t count)
{
    hx_table_add(table, hx_span_cstr(what), HX_CELL_PLAIN);
    hx_table_addf(table, HX_CELL_PLAIN, "%" PRIu64, count);
    hx_table_add(table, HX_SPAN_LIT(""), HX_CELL_PLAIN);
}

static void add_files(struct hx_table *table, const char *what,
                      const struct hx_inspect_files *files)
{
    hx_table_add(table, hx_span_cstr(what), HX_CELL_PLAIN);
    hx_table_addf(table, HX_CELL_PLAIN, "%" PRIu64, files->count);
    add_bytes(table, files->bytes);
}

static void add_size(struct hx_table *table, const char *what, uint64_t bytes)
{
    hx_table_add(table, hx_span_cstr(what), HX_CELL_PLAIN);
    hx_table_add(table, HX_SPAN_LIT(""), HX_CELL_PLAIN);
    add_bytes(table, bytes);
}

static uint64_t operation_count(const struct hx_inspect_size *size)
{
    uint64_t count = 0;
    for (int state = 0; state < HX_OP_STATE_COUNT; state++)
        count += size->facts.counts[state];
    return count;
}

static void print_text(struct hx_ops *ops, const struct hx_inspect_size *size)
{
    static const char *const titles[] = {"WHAT", ">COUNT", ">SIZE"};
    struct hx_table *table = hx_table_new(titles, 3);
    char when[HX_TIME_TEXT_SIZE];
    add_count(table, "operations", operation_count(size));
    for (int state = 0; state < HX_OP_STATE_COUNT; state++) {
        if (size->facts.counts[state] == 0)
            continue;
        hx_table_addf(table, HX_CELL_PLAIN, "  %s", hx_op_state_name((enum hx_op_state)state));
        hx_table_addf(table, HX_CELL_PLAIN, "%" PRIu64, size->facts.counts[state]);
        hx_table_add(table, HX_SPAN_LIT(""), HX_CELL_PLAIN);
    }
    add_count(table, "lines of history", size->history);
    add_count(table, "sessions", size->sessions);
    add_count(table, "events not delivered", size->events_open);
    add_count(table, "events that are over", size->events_over);
    add_files(table, "large arguments and results in the database", &size->payloads);
    add_files(table, "results in files", &size->blobs);
    add_files(table, "room for outcomes before their commit", &size->spools);
    add_size(table, "database", size->database_bytes);
    add_size(table, "  of it free", size->free_bytes);
    add_size(table, "log", size->log_bytes);
    hx_table_print(table, ops->out, hx_table_options_for(ops->out));
    hx_table_free(table);
    if (size->oldest.ms == 0)
        return;
    hx_wall_format(size->oldest, when);
    fprintf(ops->out, "The oldest operation came at %s.\n", when);
}

static void put_files(struct hx_json_writer *writer, const char *name,
                      const struct hx_inspect_files *files)
{
    hx_json_put_name(writer, name);
    hx_json_open_object(writer);
    hx_json_add_uint(writer, "count", files->count);
    hx_json_add_uint(writer, "bytes", files->bytes);
    hx_json_close_object(writer);
}

static int print_json(struct hx_ops *ops, const struct hx_inspect_size *size)
{
    enum { REPORT_MAX = 64 * 1024 };
    struct hx_buf buf;
    struct hx_json_writer writer;
    hx_buf_init(&buf, REPORT_MAX);
    hx_json_writer_init(&writer, &buf);
    hx_json_open_object(&writer);
    hx_json_add_cstr(&writer, "ledger", ops->path);
    hx_json_put_name(&writer, "operations");
    hx_json_open_object(&writer);
    for (int state = 0; state < HX_OP_STATE_COUNT; state++)
        if (state != HX_OP_ABSENT)
            hx_json_add_uint(&writer, hx_op_state_name((enum hx_op_state)state),
                             size->facts.counts[state]);
    hx_json_close_object(&writer);
    hx_json_add_wall(&writer, "oldest", size->oldest);
    hx_json_add_uint(&writer, "history", size->history);
    hx_json_add_uint(&writer, "sessions", size->sessions);
    hx_json_add_uint(&writer, "events_open", size->events_open);
    hx_json_add_uint(&writer, "events_over", size->events_over);
    put_files(&writer, "payloads", &size->payloads);
    put_files(&writer, "blobs", &size->blobs);
    put_files(&writer, "spools", &size->spools);
    hx_json_add_uint(&writer, "database_bytes", size->database_bytes);
    hx_json_add_uint(&writer, "free_bytes", size->free_bytes);
    hx_json_add_uint(&writer, "log_bytes", size->log_bytes);
    hx_json_close_object(&writer);
    bool is_printed = hx_ops_print_json(ops->out, &buf);
    hx_buf_fini(&buf);
    return is_printed ? HX_EXIT_DONE : hx_ops_fault(ops, HX_EXIT_FAILED);
}

int hx_ops_size(struct hx_ops *ops)
{
    struct hx_inspect_size size;
    if (hx_inspect_size(ops->inspect, &size) < 0)
        return hx_ops_fault(ops, HX_EXIT_FAILED);
    if (ops->options.is_json)
        return print_json(ops, &size);
    print_text(ops, &size);
    return HX_EXIT_DONE;
}
