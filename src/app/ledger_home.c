/* SPDX-License-Identifier: MIT */
#include "app/ledger_home.h"

#include <stdio.h>
#include <string.h>

#include "adapter/neighbour_unix/neighbour_unix.h"
#include "adapter/stdio_child/transport.h"
#include "app/log.h"
#include "app/no_ledger.h"
#include "base/fault.h"
#include "base/shell.h"

/* A path of quotation marks, each as four bytes. */
enum { OPTIONS_MAX = 4 * HX_LEDGER_PATH_MAX + 32 };

static bool is_transport_gone(void *context, const char *transport)
{
    return hx_transport_probe(context, transport) == HX_TRANSPORT_GONE;
}

static void on_store(void *arg, unsigned events)
{
    (void)arg; /* the turn that follows takes what is done */
    (void)events;
}

int hx_ledger_home_redact(struct hx_ledger_home *home, const struct hx_text_list *names,
                          struct hx_complaint *complaint)
{
    for (size_t i = 0; i < names->count; i++)
        if (hx_redaction_add(&home->redaction, names->items[i]) < 0)
            return hx_complain(complaint, "redact: %s", hx_fault_last()->text);
    if (home->has_ledger && hx_redaction_keep(&home->redaction, home->path) < 0)
        return hx_complain(complaint, "redact: %s", hx_fault_last()->text);
    return 0;
}

/* Whoever reads it in an answer stands in a directory of his own. The directory of the ledger is
 * its name, unless the file in it is a link to one elsewhere. */
static void name_for_ops(struct hx_ledger_home *home)
{
    static const char file[] = "/ledger.db";
    struct hx_span name = hx_span_cstr(home->path);
    size_t len = sizeof(file) - 1;
    if (name.len > len && memcmp(name.ptr + name.len - len, file, len) == 0)
        name.len -= len;
    (void)hx_buf_append_cstr(&home->ops_options, "--ledger ");
    (void)hx_shell_word(&home->ops_options, name);
}

int hx_ledger_home_find(struct hx_ledger_home *home, const struct hx_settings *settings,
                        struct hx_complaint *complaint)
{
    hx_list_init(&home->neighbour_inbox);
    hx_redaction_init(&home->redaction);
    home->keeps_outbox = settings->outbox_url != NULL;
    home->event_keep_ms = settings->outbox_retention;
    hx_buf_init(&home->ops_options, OPTIONS_MAX);
    int rc = hx_ledger_home_redact(home, &settings->redact, complaint);
    if (rc == 0)
        rc =
            hx_ledger_path(settings, HX_LEDGER_OF_OURS, home->path, home->transport_dir, complaint);
    if (rc == 0 && settings->ledger != NULL)
        name_for_ops(home);
    return rc;
}

static void warn(const char *command, const char *path)
{
    char text[2048];
    if (hx_store_sqlite_warning(path, text, sizeof(text)))
        fprintf(stderr, "hapax %s: warning: %s\n", command, text);
}

static void open_store(struct hx_ledger_home *home, const char *command, int64_t session_idle_ms)
{
    struct hx_fault fault;
    home->store_options = (struct hx_store_sqlite_options){
        .path = home->path,
        .clock = &home->clock->clock,
        .rand = hx_rand_os(),
        .is_transport_gone = is_transport_gone,
        .transport_context = home->transport_dir,
        .session_idle_ms = session_idle_ms,
        .keeps_outbox = home->keeps_outbox,
        .event_keep_ms = home->event_keep_ms,
    };
    warn(command, home->path);
    home->has_ledger = hx_store_sqlite_open(&home->store_options, &home->store) == 0;
    /* What a call writes there could be shown by others, who would not know what to hide. */
    if (home->has_ledger && hx_redaction_keep(&home->redaction, home->path) < 0) {
        fault = *hx_fault_last();
        home->store->ops->close(home->store);
        home->has_ledger = false;
    } else {
        fault = *hx_fault_last();
    }
    if (home->has_ledger) {
        home->has_secret = hx_issue_secret_get(home->path, hx_rand_os(), home->secret) == 0;
        if (!home->has_secret)
            fprintf(stderr, "hapax %s: no keys can be handed out: %s.\n", command,
                    hx_fault_last()->text);
        return;
    }
    const char *reason = fault.text;
    size_t len = strlen(reason);
    fprintf(stderr,
            "hapax %s: %s%s Guarded calls are refused until this is mended and %s started again.\n",
            command, reason, len > 0 && reason[len - 1] == '.' ? "" : ".",
            strcmp(command, "run") == 0 ? "the server" : "Hapax");
    home->store = hx_no_ledger_new(reason);
}

void hx_ledger_home_open(struct hx_ledger_home *home, struct hx_clock_os *clock,
                         struct hx_loop *loop, const char *command, int64_t session_idle_ms)
{
    home->clock = clock;
    open_store(home, command, session_idle_ms);
    const struct hx_neighbour_unix_options options = {
        .dir = home->transport_dir,
        .self = home->store->ops->owner(home->store),
    };
    home->neighbours = hx_neighbour_unix_new(loop, &home->neighbour_inbox, &options);
    if (home->neighbours == NULL) {
        struct hx_log_line line;
        hx_log_begin(&line, HX_LOG_WARN, "no_neighbours");
        hx_log_cstr(&line, "action", "poll");
        hx_log_end(&line);
    }
    int fd = home->store->ops->wake_fd(home->store);
    if (fd >= 0) {
        home->watch = hx_loop_fd_new(loop, fd, on_store, home);
        hx_loop_fd_want(home->watch, HX_LOOP_READ);
    }
}

struct hx_span hx_ledger_home_secret(const struct hx_ledger_home *home)
{
    return home->has_secret ? hx_span(home->secret, sizeof(home->secret)) : HX_SPAN_NONE;
}

void hx_ledger_home_close(struct hx_ledger_home *home)
{
    hx_loop_fd_free(home->watch);
    hx_neighbour_unix_free(home->neighbours);
    if (home->store != NULL)
        home->store->ops->close(home->store);
    home->store = NULL;
    hx_buf_fini(&home->ops_options);
    hx_redaction_fini(&home->redaction);
}
