/* SPDX-License-Identifier: MIT */
#include "app/audit_report.h"

#include <inttypes.h>
#include <string.h>

#include "app/table.h"
#include "json/scan.h"
#include "json/writer.h"

enum { REPORT_MAX = 4 << 20 };

/* ---- for a person ---- */

static void add_sent(struct hx_table *table, const struct hx_audit_row *row)
{
    int calls = row->seen.calls;
    if (calls == 0)
        hx_table_add(table, HX_SPAN_LIT("-"), HX_CELL_FAINT);
    else
        hx_table_addf(table, HX_CELL_PLAIN, "%d call%s%s", calls, calls == 1 ? "" : "s",
                      row->has_key ? " with keys" : "");
}

static void add_row(struct hx_table *table, const struct hx_audit_row *row)
{
    static const enum hx_cell_style styles[] = {HX_CELL_GOOD, HX_CELL_BAD, HX_CELL_FAINT};
    const struct hx_audit_seen *seen = &row->seen;
    hx_table_add(table, hx_span_cstr(row->title), HX_CELL_PLAIN);
    add_sent(table, row);
    hx_table_addf(table, HX_CELL_PLAIN, "%" PRId64, seen->wanted);
    if (seen->is_counted && seen->calls > 0)
        hx_table_addf(table, HX_CELL_PLAIN, "%" PRId64, seen->effects);
    else
        hx_table_add(table, HX_SPAN_LIT("-"), HX_CELL_FAINT);
    hx_table_add(table, hx_span_cstr(seen->words[0] ? seen->words : "-"), HX_CELL_PLAIN);
    hx_table_add(table, hx_span_cstr(hx_audit_verdict_text(row->verdict)), styles[row->verdict]);
}

/* Names with the same reason stand together: eight rows may want nothing but a key. */
static void print_reasons(const struct hx_audit_report *report, enum hx_audit_verdict verdict,
                          const char *title, FILE *out)
{
    bool has_title = false;
    for (size_t i = 0; i < report->row_count; i++) {
        const struct hx_audit_row *row = &report->rows[i];
        bool is_first = row->is_chosen && row->verdict == verdict && row->reason[0] != '\0';
        for (size_t j = 0; j < i && is_first; j++)
            is_first = !(report->rows[j].is_chosen && report->rows[j].verdict == verdict &&
                         strcmp(report->rows[j].reason, row->reason) == 0);
        if (!is_first)
            continue;
        fprintf(out, "%s  ", has_title ? "" : title);
        has_title = true;
        for (size_t j = i; j < report->row_count; j++)
            if (report->rows[j].is_chosen && report->rows[j].verdict == verdict &&
                strcmp(report->rows[j].reason, row->reason) == 0)
                fprintf(out, "%s%s", j > i ? ", " : "", report->rows[j].name);
        fprintf(out, ":\n      %s\n", row->reason);
    }
}

void hx_audit_print_table(const struct hx_audit_report *report, FILE *out)
{
    static const char *const titles[] = {
        "trial", "sent", ">wanted", ">seen", "the caller was told", "verdict"};
    struct hx_table *table = hx_table_new(titles, sizeof(titles) / sizeof(titles[0]));
    for (size_t i = 0; i < report->row_count; i++)
        if (report->rows[i].is_chosen &&
            (report->rows[i].seen.calls > 0 || !report->rows[i].is_inapplicable))
            add_row(table, &report->rows[i]);
    hx_table_print(table, out, hx_table_options_for(out));
    hx_table_free(table);
    print_reasons(report, HX_AUDIT_BROKEN, "\nBroken\n", out);
    print_reasons(report, HX_AUDIT_NOT_SHOWN, "\nNot shown\n", out);
    for (size_t i = 0; i < report->row_count; i++)
        if (report->rows[i].is_chosen && report->rows[i].seen.left_behind > 0)
            fprintf(out,
                    "\n%s: %u of its processes did not end with their client, and were "
                    "killed.\n",
                    report->rows[i].name, report->rows[i].seen.left_behind);
    const struct hx_audit_sum *sum = &report->sum;
    fprintf(out, "\n%u kept, %u broken, %u not shown, in %" PRId64 " s.\n", sum->kept, sum->broken,
            sum->missed + sum->inapplicable, report->elapsed_ms / 1000);
}

/* ---- for a program ---- */

/* Words of servers and commands may hold any byte, and may have been cut inside a character. */
static void make_utf8(char *text)
{
    unsigned char *at = (unsigned char *)text;
    const unsigned char *end = at + strlen(text);
    while (at < end) {
        unsigned len = *at < 0x80 ? 1 : hx_json_utf8_len(at, end);
        if (len == 0)
            *at = '?';
        at += len == 0 ? 1 : len;
    }
}

static void put_text(struct hx_json_writer *writer, const char *name, const char *text)
{
    char clean[1024];
    hx_json_put_name(writer, name);
    snprintf(clean, sizeof(clean), "%s", text ? text : "");
    make_utf8(clean);
    if (clean[0])
        hx_json_put_cstr(writer, clean);
    else
        hx_json_put_null(writer);
}

static void put_int(struct hx_json_writer *writer, const char *name, int64_t value)
{
    hx_json_put_name(writer, name);
    hx_json_put_int(writer, value);
}

static void put_row(struct hx_json_writer *writer, const struct hx_audit_row *row)
{
    const struct hx_audit_seen *seen = &row->seen;
    hx_json_open_object(writer);
    put_text(writer, "name", row->name);
    put_text(writer, "title", row->title);
    put_int(writer, "calls", seen->calls);
    hx_json_put_name(writer, "keyed");
    hx_json_put_bool(writer, row->has_key);
    put_int(writer, "effects_wanted", seen->wanted);
    hx_json_put_name(writer, "effects_seen");
    if (seen->is_counted && seen->calls > 0)
        hx_json_put_int(writer, seen->effects);
    else
        hx_json_put_null(writer);
    put_text(writer, "told", seen->words);
    put_text(writer, "verdict", hx_audit_verdict_text(row->verdict));
    put_text(writer, "reason", row->reason);
    hx_json_put_name(writer, "applies");
    hx_json_put_bool(writer, !row->is_inapplicable);
    put_int(writer, "left_behind", seen->left_behind);
    put_int(writer, "elapsed_ms", seen->elapsed_ms);
    hx_json_close_object(writer);
}

static void put_plan(struct hx_json_writer *writer, const struct hx_audit_plan *plan)
{
    put_text(writer, "target", plan->url ? plan->url : plan->command[0]);
    put_text(writer, "server", plan->facts.server);
    put_text(writer, "tool", plan->tool);
    put_text(writer, "advertises",
             plan->facts.has_idempotency  ? "tools.idempotency"
             : plan->facts.has_operations ? "dev.hapax/operations"
                                          : "");
    put_int(writer, "answer_ms", plan->facts.answer_ms);
}

void hx_audit_print_json(const struct hx_audit_report *report, FILE *out)
{
    struct hx_json_writer writer;
    struct hx_buf buf;
    const struct hx_audit_sum *sum = &report->sum;
    hx_buf_init(&buf, REPORT_MAX);
    hx_json_writer_init(&writer, &buf);
    hx_json_open_object(&writer);
    put_plan(&writer, report->plan);
    hx_json_put_name(&writer, "trials");
    hx_json_open_array(&writer);
    for (size_t i = 0; i < report->row_count; i++)
        if (report->rows[i].is_chosen)
            put_row(&writer, &report->rows[i]);
    hx_json_close_array(&writer);
    put_int(&writer, "kept", sum->kept);
    put_int(&writer, "broken", sum->broken);
    put_int(&writer, "not_shown", (int64_t)sum->missed + sum->inapplicable);
    put_int(&writer, "exit_status", hx_audit_exit_status(sum, report->is_strict));
    put_int(&writer, "elapsed_ms", report->elapsed_ms);
    hx_json_close_object(&writer);
    fwrite(buf.data, 1, buf.len, out);
    fputc('\n', out);
    hx_buf_fini(&buf);
}
