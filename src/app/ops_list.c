/* SPDX-License-Identifier: MIT */
/*
 * `hapax ops list`. Arguments, results and keys are never in a list: it is what people paste into
 * tickets.
 */
#include "app/ops.h"

#include <inttypes.h>
#include <string.h>

#include "app/ops_text.h"
#include "app/table.h"
#include "base/alloc.h"
#include "base/crash.h"
#include "core/words.h"

struct group {
    struct hx_ops *ops;
    struct hx_store_found *rows; /* newest first */
    size_t count;
    size_t capacity;
    size_t max;
    const struct group *before; /* read before this one; NULL: none */
    size_t at_before;
    bool is_short; /* memory ended before the rows did */
};

/* It has moved from the one group into the other since that was read. Both are in one order. */
static bool is_shown_already(struct group *group, const struct hx_store_found *found)
{
    const struct group *before = group->before;
    if (before == NULL)
        return false;
    while (group->at_before < before->count && before->rows[group->at_before].rowid > found->rowid)
        group->at_before++;
    return group->at_before < before->count && before->rows[group->at_before].rowid == found->rowid;
}

/* Keeps a row, without what a list does not show. */
static bool keep(void *context, const struct hx_store_found *found)
{
    struct group *group = context;
    struct hx_ops *ops = group->ops;
    if (ops->options.older_than_ms > 0 &&
        hx_age_ms(&found->record.created, &ops->now) < ops->options.older_than_ms)
        return true;
    if (ops->options.needs_human && found->record.is_superseded)
        return true;
    if (is_shown_already(group, found))
        return true;
    if (group->count == group->capacity) {
        size_t capacity = group->capacity ? 2 * group->capacity : 64;
        struct hx_store_found *rows = hx_realloc(group->rows, capacity * sizeof(rows[0]));
        if (rows == NULL) {
            group->is_short = true;
            return false;
        }
        group->rows = rows;
        group->capacity = capacity;
    }
    struct hx_store_found *kept = &group->rows[group->count];
    *kept = *found;
    kept->record.key = kept->record.arguments = kept->record.outcome.bytes = HX_SPAN_NONE;
    struct hx_record record = kept->record;
    if (!hx_record_copy(&ops->arena, &record, &kept->record)) {
        group->is_short = true;
        return false;
    }
    group->count++;
    return group->count < group->max;
}

static int read_group(struct group *group, uint32_t states)
{
    const struct hx_ops_options *options = &group->ops->options;
    struct hx_inspect_filter filter = {
        .states = states,
        .tool_glob = options->tool,
        .server = options->server,
        .since = options->since,
        .needs_human = options->needs_human,
        .is_newest_first = true,
    };
    return hx_inspect_list(group->ops->inspect, &filter, keep, group, NULL);
}

static enum hx_cell_style state_style(const struct hx_record *record)
{
    switch (record->state) {
    case HX_OP_UNKNOWN:
        return record->is_superseded ? HX_CELL_FAINT : HX_CELL_BAD;
    case HX_OP_SUCCEEDED:
        return record->is_disputed ? HX_CELL_BAD : HX_CELL_GOOD;
    case HX_OP_CANCELLED:
    case HX_OP_EXPIRED:
        return HX_CELL_FAINT;
    default:
        return HX_CELL_PLAIN;
    }
}

static const char *remark(const struct hx_record *record)
{
    if (record->is_disputed)
        return "; DISPUTED";
    if (record->state == HX_OP_UNKNOWN && record->needs_human && !record->is_superseded)
        return "; NEEDS A PERSON";
    return record->is_cancel_requested && !hx_op_state_is_final(record->state)
               ? "; cancel requested"
               : "";
}

/* What a narrow terminal has no room for comes last here: the columns up to `reason` say what to
 * look at, and show tells the rest. */
static const char *const titles[] = {"id",     "age",    "state",    "tool", "server",   "who",
                                     "reason", "effect", "delivery", "key",  ">attempts"};
enum { COLUMNS = sizeof(titles) / sizeof(titles[0]), COLUMNS_NARROW = 7, WIDTH_OF_ALL = 118 };

static void add_more(struct hx_table *table, const struct hx_record *record)
{
    hx_table_add(table, hx_span_cstr(hx_effect_state_name(hx_record_effect(record))),
                 HX_CELL_PLAIN);
    hx_table_add(table, hx_span_cstr(hx_ops_words(hx_delivery_name(hx_record_delivery(record)))),
                 HX_CELL_PLAIN);
    hx_table_add(table, hx_span_cstr(hx_key_source_name(record->key_source)), HX_CELL_PLAIN);
    hx_table_addf(table, HX_CELL_PLAIN, "%" PRIu32, record->attempt.number);
}

static void add_row(struct hx_table *table, const struct hx_ops *ops,
                    const struct hx_store_found *found, bool is_wide)
{
    const struct hx_record *record = &found->record;
    char id[HX_ID_TEXT_SIZE], age[HX_OPS_AGE_SIZE];
    hx_ops_short_id(&record->id, id);
    hx_ops_age(hx_age_ms(&record->created, &ops->now), age);
    bool is_left = record->state == HX_OP_RUNNING && found->owner_fact == HX_OWNER_DEAD;
    hx_table_add(table, hx_span_cstr(id), HX_CELL_HEAD);
    hx_table_add(table, hx_span_cstr(age), HX_CELL_PLAIN);
    hx_table_addf(table, state_style(record), "%s%s", hx_op_state_name(record->state),
                  is_left ? ", left" : "");
    hx_table_add(table, record->tool, HX_CELL_PLAIN);
    hx_table_add(table, record->server, HX_CELL_PLAIN);
    hx_table_add(table, record->principal, HX_CELL_PLAIN);
    hx_table_addf(table, HX_CELL_PLAIN, "%s%s", hx_ops_words(hx_reason_name(record->reason)),
                  remark(record));
    if (is_wide)
        add_more(table, record);
}

static void print_summary(const struct hx_ops *ops, const struct group *groups, size_t group_count,
                          bool is_cut)
{
    uint64_t counts[HX_OP_STATE_COUNT] = {0};
    const char *comma = "";
    for (size_t g = 0; g < group_count; g++)
        for (size_t i = 0; i < groups[g].count; i++)
            counts[groups[g].rows[i].record.state]++;
    for (int state = 0; state < HX_OP_STATE_COUNT; state++) {
        if (counts[state] == 0)
            continue;
        fprintf(ops->out, "%s%" PRIu64 " %s", comma, counts[state],
                hx_ops_words(hx_op_state_name((enum hx_op_state)state)));
        comma = ", ";
    }
    if (*comma == '\0')
        fputs("There is no such call.", ops->out);
    fputs(is_cut ? "; --limit 0 shows all\n" : "\n", ops->out);
    if (hx_inspect_is_restored_copy(ops->inspect))
        fputs("This ledger was restored from a copy; guarded calls are refused until "
              "'hapax ops recover --backup-taken-at TIME'.\n",
              ops->out);
}

static int print_table(struct hx_ops *ops, const struct group *groups, size_t group_count)
{
    struct hx_table_options options = hx_table_options_for(stdout);
    bool is_wide = options.columns == 0 || options.columns >= WIDTH_OF_ALL;
    struct hx_table *table = hx_table_new(titles, is_wide ? COLUMNS : COLUMNS_NARROW);
    for (size_t g = 0; g < group_count; g++)
        for (size_t i = groups[g].count; i > 0; i--)
            add_row(table, ops, &groups[g].rows[i - 1], is_wide);
    size_t shown = hx_table_row_count(table);
    if (shown > 0)
        hx_table_print(table, ops->out, options);
    hx_table_free(table);
    print_summary(ops, groups, group_count,
                  ops->options.limit > 0 && shown >= (size_t)ops->options.limit);
    hx_ops_print_outbox(ops);
    return HX_EXIT_DONE;
}

static int print_json(struct hx_ops *ops, const struct group *groups, size_t group_count)
{
    struct hx_ops_json options = {.now = ops->now, .has_age = true};
    struct hx_json_writer writer;
    struct hx_buf buf;
    hx_buf_init(&buf, SIZE_MAX / 2);
    hx_json_writer_init(&writer, &buf);
    hx_json_open_object(&writer);
    hx_json_put_name(&writer, "ledger");
    hx_json_put_cstr(&writer, ops->path);
    hx_json_put_name(&writer, "operations");
    hx_json_open_array(&writer);
    for (size_t g = 0; g < group_count; g++) {
        for (size_t i = groups[g].count; i > 0; i--) {
            hx_json_open_object(&writer);
            hx_ops_put_operation(&writer, &groups[g].rows[i - 1], &options);
            hx_json_close_object(&writer);
        }
    }
    hx_json_close_array(&writer);
    hx_json_close_object(&writer);
    bool is_printed = hx_ops_print_json(ops->out, &buf);
    hx_buf_fini(&buf);
    return is_printed ? HX_EXIT_DONE : hx_ops_fault(ops, HX_EXIT_FAILED);
}

int hx_ops_list(struct hx_ops *ops)
{
    enum { OPEN, ENDED, GROUP_COUNT };
    struct group groups[GROUP_COUNT] = {{.ops = ops}, {.ops = ops}};
    uint32_t open = 0, ended = 0;
    for (int state = HX_OP_ABSENT + 1; state < HX_OP_STATE_COUNT; state++) {
        bool is_final = hx_op_state_is_final((enum hx_op_state)state);
        bool is_wanted = ops->options.states == 0 || (ops->options.states >> state & 1) != 0;
        if (is_wanted)
            *(is_final ? &ended : &open) |= 1u << state;
    }
    size_t max = ops->options.limit > 0 ? (size_t)ops->options.limit : SIZE_MAX;
    int rc = 0;
    groups[OPEN].max = max;
    if (open != 0)
        rc = read_group(&groups[OPEN], open);
    groups[ENDED].max = max - groups[OPEN].count;
    groups[ENDED].before = &groups[OPEN];
    HX_CRASH_POINT("list-open-read");
    if (rc == 0 && ended != 0 && groups[ENDED].max > 0 && !ops->options.needs_human)
        rc = read_group(&groups[ENDED], ended);
    int status = HX_EXIT_FAILED;
    if (rc < 0)
        status = hx_ops_fault(ops, HX_EXIT_FAILED);
    else if (groups[OPEN].is_short || groups[ENDED].is_short)
        status = hx_ops_fail(ops, HX_EXIT_FAILED,
                             "too many operations for one list; use --limit, or "
                             "hapax ops export");
    else if (ops->options.is_json)
        status = print_json(ops, groups, GROUP_COUNT);
    else
        status = print_table(ops, groups, GROUP_COUNT);
    hx_free(groups[OPEN].rows);
    hx_free(groups[ENDED].rows);
    return status;
}
