/* SPDX-License-Identifier: MIT */
/*
 * `hapax ops verify` and `hapax ops recover`.
 */
#include "app/ops.h"

#include <inttypes.h>
#include <unistd.h>

#include "app/ops_text.h"

/* --- verify --- */

struct verification {
    struct hx_ops *ops;
    struct hx_buf *findings; /* JSON */
    struct hx_json_writer *writer;
    bool has_progress; /* a line of progress stands on the terminal */
};

static void clear_progress(struct verification *verification)
{
    if (verification->has_progress)
        fputs("\r\033[K", stderr);
    verification->has_progress = false;
}

static void on_finding(void *context, bool is_problem, const char *text)
{
    struct verification *verification = context;
    struct hx_ops *ops = verification->ops;
    if (ops->options.is_json) {
        hx_json_open_object(verification->writer);
        hx_json_put_name(verification->writer, "is_problem");
        hx_json_put_bool(verification->writer, is_problem);
        hx_json_put_name(verification->writer, "text");
        hx_json_put_cstr(verification->writer, text);
        hx_json_close_object(verification->writer);
        return;
    }
    clear_progress(verification);
    fprintf(ops->out, "%s: ", is_problem ? "WRONG" : "note");
    hx_ops_print_plain(ops->out, hx_span_cstr(text), SIZE_MAX);
    fputc('\n', ops->out);
}

static void on_progress(void *context, const char *stage, uint64_t done)
{
    struct verification *verification = context;
    if (isatty(STDERR_FILENO) != 1)
        return;
    fprintf(stderr, "\r\033[K%s: %" PRIu64, stage, done);
    fflush(stderr);
    verification->has_progress = true;
}

static int finish_json(struct verification *verification, const struct hx_verify_report *report)
{
    struct hx_json_writer *writer = verification->writer;
    hx_json_close_array(writer);
    hx_json_add_uint(writer, "rows", report->rows);
    hx_json_add_uint(writer, "problems", report->problems);
    hx_json_add_uint(writer, "notes", report->notes);
    hx_json_close_object(writer);
    if (!hx_ops_print_json(verification->ops->out, verification->findings))
        return hx_ops_fault(verification->ops, HX_EXIT_FAILED);
    return report->problems > 0 ? HX_EXIT_FAILED : HX_EXIT_DONE;
}

static int finish_text(struct hx_ops *ops, const struct hx_verify_report *report)
{
    const char *plural = report->rows == 1 ? "" : "s";
    if (report->problems == 0)
        fprintf(ops->out, "%" PRIu64 " operation%s read; nothing is wrong.\n", report->rows,
                plural);
    else
        fprintf(ops->out,
                "%" PRIu64 " operation%s read; %" PRIu64
                " thing%s wrong. Keep a copy of %s and the "
                "files beside it before anything else is done.\n",
                report->rows, plural, report->problems, report->problems == 1 ? " is" : "s are",
                ops->path);
    return report->problems > 0 ? HX_EXIT_FAILED : HX_EXIT_DONE;
}

int hx_ops_verify(struct hx_ops *ops)
{
    struct hx_verify_report report;
    struct hx_buf buf;
    struct hx_json_writer writer;
    struct verification verification = {.ops = ops, .findings = &buf, .writer = &writer};
    struct hx_verify_listener listener = {on_finding, on_progress, &verification};
    hx_buf_init(&buf, SIZE_MAX / 2);
    hx_json_writer_init(&writer, &buf);
    hx_json_open_object(&writer);
    hx_json_put_name(&writer, "ledger");
    hx_json_put_cstr(&writer, ops->path);
    hx_json_put_name(&writer, "findings");
    hx_json_open_array(&writer);
    int rc = hx_inspect_verify(ops->inspect, &listener, &report);
    clear_progress(&verification);
    int status = rc < 0                 ? hx_ops_fault(ops, HX_EXIT_FAILED)
                 : ops->options.is_json ? finish_json(&verification, &report)
                                        : finish_text(ops, &report);
    hx_buf_fini(&buf);
    return status;
}

/* --- recover --- */

static void put_gap(struct hx_json_writer *writer, const struct hx_gap *gap)
{
    hx_json_put_name(writer, "gap");
    if (gap->from.ms == 0) {
        hx_json_put_null(writer);
        return;
    }
    hx_json_open_object(writer);
    hx_json_add_wall(writer, "from", gap->from);
    hx_json_add_wall(writer, "to", gap->to);
    hx_json_add_wall(writer, "until", gap->until);
    hx_json_close_object(writer);
}

static int recovered_json(struct hx_ops *ops, const struct hx_recover_report *report)
{
    struct hx_buf buf;
    struct hx_json_writer writer;
    hx_buf_init(&buf, 16384);
    hx_json_writer_init(&writer, &buf);
    hx_json_open_object(&writer);
    hx_json_put_name(&writer, "ledger");
    hx_json_put_cstr(&writer, ops->path);
    hx_json_put_name(&writer, "was_restored_copy");
    hx_json_put_bool(&writer, report->was_restored_copy);
    hx_json_add_uint(&writer, "spools_applied", report->spools_applied);
    hx_json_add_uint(&writer, "files_removed", report->blobs_removed);
    hx_json_add_uint(&writer, "operations_unknown", report->rows_doubted);
    hx_json_add_uint(&writer, "rows_damaged", report->rows_damaged);
    put_gap(&writer, &report->gap);
    hx_json_close_object(&writer);
    bool is_printed = hx_ops_print_json(ops->out, &buf);
    hx_buf_fini(&buf);
    return is_printed ? HX_EXIT_DONE : hx_ops_fault(ops, HX_EXIT_FAILED);
}

static void recovered_text(struct hx_ops *ops, const struct hx_recover_report *report)
{
    char from[HX_TIME_TEXT_SIZE], to[HX_TIME_TEXT_SIZE], until[HX_TIME_TEXT_SIZE];
    fprintf(ops->out,
            "%" PRIu32 " outcome file%s of killed processes applied, %" PRIu32
            " file%s that nothing names removed.\n",
            report->spools_applied, report->spools_applied == 1 ? "" : "s", report->blobs_removed,
            report->blobs_removed == 1 ? "" : "s");
    if (report->gap.from.ms == 0) {
        fputs("The ledger is not a restored copy; nothing else had to be done.\n", ops->out);
        return;
    }
    hx_ops_moment(report->gap.from, from);
    hx_ops_moment(report->gap.to, to);
    hx_ops_moment(report->gap.until, until);
    fprintf(
        ops->out,
        "Guarded calls run again. What happened between %s and %s is not in this copy: until %s\n"
        "a call with a key from that time, or with a key that tells no time and is not known, is\n"
        "taken as unknown instead of being run; 'hapax ops list --state unknown' shows such "
        "calls.\n",
        from, to, until);
    fprintf(ops->out,
            "Of the operations in this copy %" PRIu64
            " had not ended. They may have gone on after it "
            "was\nmade, so they are unknown now.\n",
            report->rows_doubted);
    if (report->rows_damaged > 0)
        fprintf(ops->out,
                "%" PRIu64 " more had not ended and cannot be read (the first is row %" PRIi64
                "): they were\nleft as they are, and calls that mean them are refused. See 'hapax "
                "ops verify'.\n",
                report->rows_damaged, report->first_damaged);
}

int hx_ops_recover(struct hx_ops *ops)
{
    struct hx_recover_report report;
    if (hx_inspect_recover(ops->inspect, ops->options.backup_taken_at, &report) < 0)
        return hx_ops_fault(ops, HX_EXIT_FAILED);
    if (ops->options.is_json)
        return recovered_json(ops, &report);
    recovered_text(ops, &report);
    return HX_EXIT_DONE;
}
