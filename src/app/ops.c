/* SPDX-License-Identifier: MIT */
/*
 * `hapax ops`: from words to a command on an open ledger. A ledger is only looked for, never made,
 * and what is printed arrives whole, however slowly it is read; a reader who has gone is no error.
 */
#include "app/ops.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "adapter/stdio_child/transport.h"
#include "base/fault.h"

enum { ARENA_MAX = 512 * 1024 * 1024, OUT_BUFFER_SIZE = 64 * 1024 };

/* --- the way out --- */

static bool takes_signals;
static volatile sig_atomic_t is_interrupted;

static void interrupt(int number)
{
    (void)number;
    is_interrupted = 1;
}

void hx_ops_take_signals(void)
{
    struct sigaction action = {.sa_handler = interrupt};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    takes_signals = true;
}

bool hx_ops_is_interrupted(void)
{
    return is_interrupted;
}

/* Standard output may be a pipe that others have set not to block: whoever shares it decides that,
 * so we wait instead of losing bytes. Where there is room for this much a write does not wait, so
 * an interrupt that is only noted ends the waiting whenever it comes. */
enum { WRITE_MAX = PIPE_BUF, WAIT_MS = 250 };

static ssize_t write_out(void *cookie, const char *bytes, size_t len)
{
    size_t done = 0;
    int *ret_errno = cookie;
    while (done < len) {
        struct pollfd room = {.fd = STDOUT_FILENO, .events = POLLOUT};
        int ready = poll(&room, 1, WAIT_MS);
        if (is_interrupted && ready <= 0) {
            errno = EINTR;
            break;
        }
        if (ready <= 0)
            continue; /* no room, or interrupted by what does not end us */
        size_t part = len - done;
        if (takes_signals && part > WRITE_MAX)
            part = WRITE_MAX;
        ssize_t put = write(STDOUT_FILENO, bytes + done, part);
        if (put >= 0)
            done += (size_t)put;
        else if (errno != EAGAIN && errno != EINTR)
            break;
    }
    if (done < len)
        *ret_errno = errno;
    return done < len ? 0 : (ssize_t)len; /* for this kind of stream 0 is the error */
}

static FILE *open_out(int *write_errno)
{
    cookie_io_functions_t functions = {.write = write_out};
    FILE *out = fopencookie(write_errno, "w", functions);
    hx_assert(out != NULL);
    setvbuf(out, NULL, _IOFBF, OUT_BUFFER_SIZE);
    return out;
}

/* A closed pipe is somebody who has read enough. Anything else that could not be written is lost,
 * and must not look like success. */
static int close_out(struct hx_ops *ops, const int *write_errno, int status)
{
    bool is_lost = fflush(ops->out) != 0 || ferror(ops->out) != 0;
    fclose(ops->out);
    ops->out = NULL;
    if (!is_lost || *write_errno == EPIPE)
        return status;
    return hx_ops_fail(ops, HX_EXIT_FAILED, "the output is not complete: %s",
                       strerror(*write_errno));
}

int hx_ops_fail(const struct hx_ops *ops, int status, const char *format, ...)
{
    va_list args;
    enum hx_ops_command command = ops->options.command;
    bool has_command = command != HX_OPS_COMMAND_COUNT;
    if (ops->out != NULL)
        (void)fflush(ops->out); /* what was said before stands before; its failure is told later */
    fprintf(stderr, "hapax ops%s%s: ", has_command ? " " : "",
            has_command ? hx_ops_command_name(command) : "");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputs(".\n", stderr);
    return status;
}

/* The sentences of faults have their own full stop, or not. */
int hx_ops_fault(const struct hx_ops *ops, int status)
{
    const struct hx_fault *fault = hx_fault_last();
    size_t len = strlen(fault->text);
    if (len > 0 && fault->text[len - 1] == '.')
        len--;
    if (fault->system_errno != 0)
        return hx_ops_fail(ops, status, "%.*s: %s", (int)len, fault->text,
                           strerror(fault->system_errno));
    return hx_ops_fail(ops, status, "%.*s", (int)len, fault->text);
}

/* --- the ledger --- */

static bool is_transport_gone(void *context, const char *transport)
{
    return hx_transport_probe(context, transport) == HX_TRANSPORT_GONE;
}

/* The directory, or, as messages of the ledger name it, the file in it. */
static struct hx_span ledger_directory(const char *given)
{
    struct hx_span path = hx_span_cstr(given);
    struct hx_span file = HX_SPAN_LIT("/ledger.db");
    bool has_file = path.len > file.len && strcmp(given + path.len - file.len, file.ptr) == 0;
    return has_file ? hx_span(path.ptr, path.len - file.len) : path;
}

static int find_path(struct hx_ops *ops)
{
    struct hx_settings settings;
    struct hx_complaint complaint;
    hx_settings_init(&settings);
    int rc = 0;
    if (ops->options.ledger != NULL)
        rc = hx_settings_set(&settings, HX_SPAN_LIT("ledger"),
                             ledger_directory(ops->options.ledger), &complaint);
    if (rc == 0)
        rc = hx_ledger_path(&settings, HX_LEDGER_ANYWHERE, ops->path, ops->transport_dir,
                            &complaint);
    hx_settings_fini(&settings);
    return rc == 0 ? 0 : hx_ops_fail(ops, HX_EXIT_USAGE, "%s", complaint.text);
}

static int look_at_file(struct hx_ops *ops)
{
    struct stat info;
    if (stat(ops->path, &info) == 0) {
        snprintf(ops->principal, sizeof(ops->principal), "%lu", (unsigned long)info.st_uid);
        return 0;
    }
    if (errno != ENOENT && errno != ENOTDIR)
        return hx_ops_fail(ops, HX_EXIT_NO_LEDGER, "%s: %s", ops->path, strerror(errno));
    return hx_ops_fail(
        ops, HX_EXIT_NO_LEDGER,
        "there is no ledger at %s. It comes into being when a server is first started "
        "through Hapax (hapax run -- COMMAND); one that is kept elsewhere is named "
        "with --ledger DIRECTORY",
        ops->path);
}

int hx_ops_open(struct hx_ops *ops)
{
    ops->store_options = (struct hx_store_sqlite_options){
        .path = ops->path,
        .clock = &ops->clock.clock,
        .rand = hx_rand_os(),
        .is_transport_gone = is_transport_gone,
        .transport_context = ops->transport_dir,
    };
    if (hx_inspect_open(&ops->store_options, &ops->inspect) < 0)
        return hx_ops_fault(ops, HX_EXIT_NO_LEDGER);
    return 0;
}

void hx_ops_close(struct hx_ops *ops)
{
    ops->inspect = hx_inspect_close(ops->inspect);
}

int hx_ops_read_redaction(struct hx_ops *ops)
{
    const struct hx_ops_options *options = &ops->options;
    bool has_no_need = options->is_raw || options->without_payload;
    int rc = has_no_need ? 0 : hx_redaction_read(&ops->redaction, ops->path);
    for (int i = 0; rc == 0 && i < options->redact_count; i++)
        rc = hx_redaction_add(&ops->redaction, hx_span_cstr(options->redact[i]));
    return rc == 0 ? 0 : hx_ops_fault(ops, HX_EXIT_FAILED);
}

int hx_ops_find(struct hx_ops *ops, struct hx_store_found *ret_found)
{
    const char *text = ops->options.id;
    int rc = hx_inspect_by_text(ops->inspect, hx_span_cstr(text), &ops->arena, ret_found);
    if (rc < 0)
        return hx_ops_fault(ops, HX_EXIT_FAILED);
    if (rc == 0)
        return hx_ops_fail(
            ops, HX_EXIT_ABSENT,
            "there is no operation '%.60s' in %s. An operation is named by its id, by "
            "the last 6 or more digits of it, or by the caller's key; 'hapax ops list' "
            "shows them",
            text, ops->path);
    if (rc > 1)
        return hx_ops_fail(ops, HX_EXIT_ABSENT,
                           "'%.60s' fits several operations; give the whole id", text);
    return 0;
}

/* --- running a command --- */

static int run(struct hx_ops *ops)
{
    static int (*const commands[HX_OPS_COMMAND_COUNT])(struct hx_ops *) = {
        [HX_OPS_LIST] = hx_ops_list,     [HX_OPS_SHOW] = hx_ops_show,
        [HX_OPS_WATCH] = hx_ops_watch,   [HX_OPS_RESOLVE] = hx_ops_decide,
        [HX_OPS_CANCEL] = hx_ops_decide, [HX_OPS_APPROVE] = hx_ops_decide,
        [HX_OPS_DENY] = hx_ops_decide,   [HX_OPS_EXPORT] = hx_ops_export,
        [HX_OPS_VERIFY] = hx_ops_verify, [HX_OPS_RECOVER] = hx_ops_recover,
        [HX_OPS_OUTBOX] = hx_ops_outbox, [HX_OPS_SIZE] = hx_ops_size,
    };
    int status = find_path(ops);
    if (status == 0)
        status = look_at_file(ops);
    if (status == 0)
        status = hx_ops_open(ops);
    if (status != 0)
        return status;
    /* Which ledger it was is the first thing to know when the answer surprises. On standard error
     * it is in nobody's way who reads the output. */
    bool is_for_people = !ops->options.is_json && ops->options.command != HX_OPS_EXPORT;
    if (is_for_people)
        fprintf(stderr, "ledger: %s\n", ops->path);
    status = commands[ops->options.command](ops);
    hx_ops_close(ops);
    return status;
}

int hx_cmd_ops(int argc, char **argv)
{
    struct hx_complaint complaint;
    struct hx_ops ops = {.is_terminal = isatty(STDOUT_FILENO) == 1};
    int write_errno = 0;
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, NULL);
    hx_clock_os_init(&ops.clock);
    ops.now = hx_clock_now(&ops.clock.clock);
    int rc = hx_ops_parse(argc, argv, ops.now.wall, &ops.options, &complaint);
    ops.out = open_out(&write_errno);
    hx_arena_init(&ops.arena, ARENA_MAX);
    hx_redaction_init(&ops.redaction);
    int status = HX_EXIT_DONE;
    if (rc == HX_OPS_HELP)
        hx_ops_help(ops.out, ops.options.command);
    else if (rc != 0)
        status = hx_ops_fail(&ops, HX_EXIT_USAGE, "%s", complaint.text);
    else
        status = run(&ops);
    status = close_out(&ops, &write_errno, status);
    hx_redaction_fini(&ops.redaction);
    hx_arena_fini(&ops.arena);
    return status;
}
