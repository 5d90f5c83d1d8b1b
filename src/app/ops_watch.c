/* SPDX-License-Identifier: MIT */
/*
 * `hapax ops watch`: every change as one line. What is open when it starts is followed from its
 * newest line of history on; what comes later, from its first. Nothing is missed between two looks,
 * since the history tells every step.
 */
#include "app/ops.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "app/ops_advice.h"
#include "app/ops_text.h"
#include "base/alloc.h"
#include "base/fault.h"

enum { LOOK_MS = 200, LOOKS_AFTER_END = 10, FOLLOWED_MAX = 10000, NAME_SIZE = 128 };

struct followed {
    int64_t rowid;
    int64_t seq; /* of the last line told */
    struct hx_id id;
    unsigned looks_left; /* counts down once it has ended */
    bool has_ended;
    char tool[NAME_SIZE];
    char server[NAME_SIZE];
};

struct watch {
    struct hx_ops *ops;
    struct followed *list;
    size_t count;
    size_t capacity;
    int64_t newest; /* row up to which calls are known */
    bool is_first;  /* the first look tells nothing of the past */
    bool is_crowded;
};

static bool follow(void *context, const struct hx_store_found *found)
{
    struct watch *watch = context;
    const struct hx_record *record = &found->record;
    if (found->rowid > watch->newest)
        watch->newest = found->rowid;
    if (watch->count == FOLLOWED_MAX) {
        watch->is_crowded = true;
        return true;
    }
    if (watch->count == watch->capacity) {
        size_t capacity = watch->capacity ? 2 * watch->capacity : 64;
        struct followed *list = hx_realloc(watch->list, capacity * sizeof(list[0]));
        if (list == NULL)
            return false;
        watch->list = list;
        watch->capacity = capacity;
    }
    struct followed *followed = &watch->list[watch->count++];
    *followed =
        (struct followed){.rowid = found->rowid, .id = record->id, .looks_left = LOOKS_AFTER_END};
    snprintf(followed->tool, sizeof(followed->tool), "%.*s", HX_SPAN_FMT(record->tool));
    snprintf(followed->server, sizeof(followed->server), "%.*s", HX_SPAN_FMT(record->server));
    return true;
}

struct telling {
    struct watch *watch;
    struct followed *followed;
    bool is_silent;
};

static bool tell_json(struct hx_ops *ops, const struct followed *followed,
                      const struct hx_history_line *line)
{
    struct hx_json_writer writer;
    struct hx_buf buf;
    char id[HX_ID_TEXT_SIZE];
    hx_buf_init(&buf, 64 * 1024);
    hx_id_format(&followed->id, id);
    hx_json_writer_init(&writer, &buf);
    hx_json_open_object(&writer);
    hx_json_put_name(&writer, "id");
    hx_json_put_cstr(&writer, id);
    hx_json_put_name(&writer, "tool");
    hx_json_put_cstr(&writer, followed->tool);
    hx_json_put_name(&writer, "server");
    hx_json_put_cstr(&writer, followed->server);
    hx_ops_put_history_line(&writer, line);
    hx_json_close_object(&writer);
    bool is_printed = hx_ops_print_json(ops->out, &buf);
    hx_buf_fini(&buf);
    return is_printed;
}

static bool tell_text(struct hx_ops *ops, const struct followed *followed,
                      const struct hx_history_line *line)
{
    struct hx_buf words;
    char id[HX_ID_TEXT_SIZE], at[HX_TIME_TEXT_SIZE];
    hx_buf_init(&words, 8192);
    hx_ops_short_id(&followed->id, id);
    hx_ops_moment(line->at, at);
    fprintf(ops->out, "%s  %s  ", at, id);
    hx_ops_print_plain(ops->out, hx_span_cstr(followed->tool), NAME_SIZE);
    fputs("  ", ops->out);
    hx_ops_history_words(line, &words);
    hx_ops_print_plain(ops->out, hx_buf_span(&words), 8192);
    fputc('\n', ops->out);
    hx_buf_fini(&words);
    return true;
}

static bool tell(void *context, const struct hx_history_line *line)
{
    struct telling *telling = context;
    struct followed *followed = telling->followed;
    struct hx_ops *ops = telling->watch->ops;
    bool is_row_change = strcmp(line->what, "note") != 0 && strcmp(line->what, "evidence") != 0;
    if (is_row_change)
        followed->has_ended = hx_op_state_is_final(line->to);
    if (line->seq <= followed->seq)
        return true;
    followed->seq = line->seq;
    followed->looks_left = LOOKS_AFTER_END;
    if (telling->is_silent)
        return true;
    bool is_told =
        ops->options.is_json ? tell_json(ops, followed, line) : tell_text(ops, followed, line);
    return is_told && hx_ops_is_read(ops);
}

static int look(struct watch *watch)
{
    struct hx_ops *ops = watch->ops;
    struct hx_inspect_filter filter = {
        .tool_glob = ops->options.tool, .server = ops->options.server, .after = watch->newest};
    int rc = hx_inspect_list(ops->inspect, &filter, follow, watch, NULL);
    if (rc < 0)
        return HX_TRACE(rc);
    size_t kept = 0;
    for (size_t i = 0; i < watch->count; i++) {
        struct followed *followed = &watch->list[i];
        struct telling telling = {watch, followed, watch->is_first};
        rc = hx_inspect_history(ops->inspect, followed->rowid, tell, &telling);
        if (rc < 0)
            return HX_TRACE(rc);
        if (followed->has_ended && followed->looks_left > 0)
            followed->looks_left--;
        if (!followed->has_ended || followed->looks_left > 0)
            watch->list[kept++] = *followed;
    }
    watch->count = kept;
    watch->is_first = false;
    return 0;
}

static bool note_newest(void *context, const struct hx_store_found *found)
{
    *(int64_t *)context = found->rowid;
    return false;
}

/* What is open now, and the row after which all is new. */
static int begin(struct watch *watch)
{
    struct hx_ops *ops = watch->ops;
    struct hx_inspect_filter newest = {.is_newest_first = true, .limit = 1};
    struct hx_inspect_filter open = {.tool_glob = ops->options.tool, .server = ops->options.server};
    int64_t row = 0;
    for (int state = HX_OP_ABSENT + 1; state < HX_OP_STATE_COUNT; state++)
        if (!hx_op_state_is_final((enum hx_op_state)state))
            open.states |= 1u << state;
    int rc = hx_inspect_list(ops->inspect, &newest, note_newest, &row, NULL);
    if (rc == 0)
        rc = hx_inspect_list(ops->inspect, &open, follow, watch, NULL);
    if (rc < 0)
        return HX_TRACE(rc);
    if (row > watch->newest)
        watch->newest = row;
    if (!ops->options.is_json && ops->is_terminal)
        fprintf(ops->out, "%zu open or unknown now; Ctrl-C ends this.\n", watch->count);
    return 0;
}

/* Waits for the next look. False when nobody reads any more. */
static bool wait_a_little(const struct watch *watch)
{
    struct pollfd reader = {.fd = STDOUT_FILENO};
    /* A look costs more the more is open. */
    int wait_ms = LOOK_MS + (int)(watch->count / 5);
    if (poll(&reader, 1, wait_ms) > 0 && (reader.revents & (POLLERR | POLLHUP)) != 0)
        return false;
    return true;
}

int hx_ops_watch(struct hx_ops *ops)
{
    struct watch watch = {.ops = ops, .is_first = true};
    hx_ops_take_signals();
    int rc = begin(&watch);
    bool is_read = true;
    while (rc == 0 && !hx_ops_is_interrupted() && is_read) {
        rc = look(&watch);
        is_read = fflush(ops->out) == 0 && wait_a_little(&watch);
        if (watch.is_crowded) {
            fprintf(stderr, "hapax ops watch: more than %d calls are open; not all are followed.\n",
                    FOLLOWED_MAX);
            watch.is_crowded = false;
        }
    }
    hx_free(watch.list);
    return rc < 0 ? hx_ops_fault(ops, HX_EXIT_FAILED) : HX_EXIT_DONE;
}
