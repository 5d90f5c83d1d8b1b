/* SPDX-License-Identifier: MIT */
/*
 * `hapax audit`: asks whether it may, plays the trials one after the other, and says what came of
 * it. Their effects are counted by one command of the user's, so no two trials run at once.
 *
 * Each trial is a process of its own that adopts and ends what it starts (as with `hapax demo`);
 * this process adopts what an interrupted one leaves.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "adapter/clock_os/clock_os.h"
#include "app/audit_help.h"
#include "app/audit_options.h"
#include "app/audit_report.h"
#include "app/audit_trial.h"
#include "app/commands.h"
#include "app/mcp_client.h"
#include "app/nearest.h"
#include "app/offspring.h"
#include "app/scratch.h"

enum {
    TRIAL_MS = 300000, /* each step has its own bound; this one is for many slow ones */
    CALLS_PER_TRIAL = 3
};

struct audit {
    struct hx_audit_options options;
    struct hx_audit_plan plan;
    struct hx_audit_row rows[HX_AUDIT_TRIALS_MAX];
    size_t row_count;
    char directory[HX_SCRATCH_SIZE];
    int signal_fd;
    bool is_interrupted;
    struct hx_mono start;
};

/* ---- before ---- */

static bool is_among(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static bool refuse_unknown(const char *const *chosen, size_t count)
{
    const char *names[HX_AUDIT_TRIALS_MAX];
    for (size_t i = 0; i < hx_audit_trial_count(); i++)
        names[i] = hx_audit_trial(i)->name;
    for (size_t i = 0; i < count; i++) {
        if (is_among(names, hx_audit_trial_count(), chosen[i]))
            continue;
        const char *near = hx_nearest(hx_span_cstr(chosen[i]), names, hx_audit_trial_count());
        fprintf(stderr, "hapax audit: there is no trial '%s'%s%s%s. See hapax audit --list.\n",
                chosen[i], near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
        return true;
    }
    return false;
}

static bool choose(struct audit *audit)
{
    const struct hx_audit_options *options = &audit->options;
    if (refuse_unknown(options->only, options->only_count) ||
        refuse_unknown(options->skipped, options->skipped_count))
        return false;
    audit->row_count = hx_audit_trial_count();
    for (size_t i = 0; i < audit->row_count; i++) {
        const struct hx_audit_trial *trial = hx_audit_trial(i);
        struct hx_audit_row *row = &audit->rows[i];
        row->name = trial->name;
        row->title = trial->title;
        row->has_key = trial->has_key;
        row->is_chosen =
            i == 0 || ((options->only_count == 0 ||
                        is_among(options->only, options->only_count, trial->name)) &&
                       !is_among(options->skipped, options->skipped_count, trial->name));
    }
    return true;
}

static void make_plan(struct audit *audit)
{
    const struct hx_audit_options *options = &audit->options;
    uint8_t bytes[8];
    uint32_t random[2];
    hx_rand_fill(hx_rand_os(), bytes, sizeof(bytes));
    memcpy(random, bytes, sizeof(random));
    audit->plan = (struct hx_audit_plan){
        .command = options->command,
        .url = options->url,
        .settings = &options->given,
        .tool = options->tool,
        .arguments = options->arguments,
        .count = options->count,
        .timeout_ms = options->timeout_ms,
        .settle_ms = options->settle_ms,
        .key = options->key,
        .has_key = options->key.kind != HX_KEY_PLACE_NONE,
        .is_idempotent = options->is_idempotent,
        .number = random[1] % 10000000,
    };
    snprintf(audit->plan.run, sizeof(audit->plan.run), "audit-%08x", random[0]);
}

/* What the first call has found out. */
static void learn(struct audit *audit, const struct hx_audit_facts *facts)
{
    struct hx_audit_plan *plan = &audit->plan;
    plan->facts = *facts;
    plan->is_idempotent = plan->is_idempotent || facts->is_idempotent;
    if (audit->options.is_key_given)
        return;
    plan->has_key = facts->has_idempotency || facts->has_operations;
    if (facts->has_idempotency)
        plan->key = (struct hx_key_place){HX_KEY_PLACE_SEP3182, NULL};
    else if (facts->has_operations)
        plan->key = (struct hx_key_place){HX_KEY_PLACE_META, "dev.hapax/idempotencyKey"};
}

static bool may_go_on(const struct audit *audit)
{
    size_t chosen = 0;
    char line[16];
    for (size_t i = 0; i < audit->row_count; i++)
        chosen += audit->rows[i].is_chosen;
    fprintf(stderr,
            "hapax audit calls the tool '%s' of %s for real, up to %zu times. What it does then "
            "stays done.\n",
            audit->plan.tool, audit->plan.url ? audit->plan.url : audit->plan.command[0],
            chosen * CALLS_PER_TRIAL);
    if (audit->options.is_yes)
        return true;
    if (!isatty(STDIN_FILENO)) {
        fputs("hapax audit: nothing was called: nobody is there to agree. Say --yes.\n", stderr);
        return false;
    }
    fputs("Go on? [y/N] ", stderr);
    if (fgets(line, sizeof(line), stdin) && (line[0] == 'y' || line[0] == 'Y'))
        return true;
    fputs("hapax audit: nothing was called.\n", stderr);
    return false;
}

/* ---- the trials ---- */

static void be_trial(struct audit *audit, struct hx_audit_seen *seen, int told_fd, pid_t parent)
{
    sigset_t none;
    /* Killed with us; the pipes of what it started then close, and that ends them. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(1);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGINT, SIG_IGN); /* the parent ends us, and after us our processes */
    hx_audit_trial_play(&audit->plan, seen);
    ssize_t written = write(told_fd, seen, sizeof(*seen)); /* less than a pipe holds: one piece */
    _exit(written == (ssize_t)sizeof(*seen) ? 0 : 1);
}

static void play(struct audit *audit, struct hx_audit_seen *seen)
{
    int fds[2];
    pid_t self = getpid();
    struct hx_audit_seen told;
    snprintf(seen->problem, sizeof(seen->problem), "the trial ended early");
    if (pipe2(fds, O_CLOEXEC) != 0)
        return;
    pid_t pid = fork();
    if (pid == 0) {
        seen->problem[0] = '\0';
        be_trial(audit, seen, fds[1], self);
    }
    close(fds[1]);
    struct pollfd ends[2] = {{fds[0], POLLIN, 0}, {audit->signal_fd, POLLIN, 0}};
    int ready = pid < 0 ? 0 : poll(ends, 2, TRIAL_MS);
    if (ready > 0 && ends[1].revents != 0)
        audit->is_interrupted = true;
    else if (ready > 0 && read(fds[0], &told, sizeof(told)) == (ssize_t)sizeof(told))
        *seen = told;
    else if (ready == 0)
        snprintf(seen->problem, sizeof(seen->problem), "the trial took too long");
    close(fds[0]);
    /* One that is over has left nothing; what a stopped one has started comes to us. */
    (void)hx_offspring_end(hx_mcp_now());
}

static void judge(struct audit *audit, struct hx_audit_row *row, struct hx_audit_sum *sum)
{
    enum hx_audit_kind kind = hx_audit_trial((size_t)(row - audit->rows))->kind;
    row->verdict = hx_audit_judge(kind, &row->seen, row->reason);
    row->is_inapplicable = row->verdict == HX_AUDIT_NOT_SHOWN && row->seen.does_not_apply;
    sum->kept += row->verdict == HX_AUDIT_KEPT;
    sum->broken += row->verdict == HX_AUDIT_BROKEN;
    sum->missed += row->verdict == HX_AUDIT_NOT_SHOWN && !row->is_inapplicable;
    sum->inapplicable += row->is_inapplicable;
}

static void play_row(struct audit *audit, size_t index, struct hx_audit_sum *sum)
{
    struct hx_audit_row *row = &audit->rows[index];
    const struct hx_audit_trial *trial = hx_audit_trial(index);
    const char *refusal = hx_audit_trial_refusal(trial, &audit->plan);
    row->seen = (struct hx_audit_seen){.trial = index, .wanted = trial->wanted};
    if (refusal != NULL) {
        row->seen.does_not_apply = true;
        snprintf(row->seen.problem, sizeof(row->seen.problem), "%s", refusal);
    } else {
        fprintf(stderr, "  %2zu/%zu  %-46s ", index + 1, audit->row_count, trial->title);
        play(audit, &row->seen);
    }
    judge(audit, row, sum);
    if (refusal == NULL)
        fprintf(stderr, "%s\n", audit->is_interrupted ? "" : hx_audit_verdict_text(row->verdict));
}

/* False when nothing can be said of this server at all. */
static bool play_all(struct audit *audit, struct hx_audit_sum *sum)
{
    for (size_t i = 0; i < audit->row_count && !audit->is_interrupted; i++) {
        struct hx_audit_row *row = &audit->rows[i];
        if (!row->is_chosen)
            continue;
        play_row(audit, i, sum);
        if (i > 0 || audit->is_interrupted)
            continue;
        if (row->verdict != HX_AUDIT_KEPT) {
            fprintf(stderr, "hapax audit: this cannot be audited: %s.\n", row->reason);
            return false;
        }
        learn(audit, &row->seen.facts);
    }
    return true;
}

/* ---- after ---- */

/* The server's last words, when it seems to have said why. */
static void show_errors(const struct audit *audit)
{
    char line[512];
    FILE *in = fopen(audit->plan.errors, "re");
    if (in == NULL)
        return;
    (void)fseek(in, -400, SEEK_END); /* a shorter file is read from its beginning */
    while (fgets(line, sizeof(line), in))
        fprintf(stderr, "  server: %s%s", line, strchr(line, '\n') ? "" : "\n");
    fclose(in);
}

static int run(struct audit *audit)
{
    struct hx_audit_sum sum = {0};
    audit->start = hx_mcp_now();
    bool can_be_audited = play_all(audit, &sum);
    (void)hx_offspring_end(hx_mcp_now());
    if (!can_be_audited)
        show_errors(audit);
    if (audit->is_interrupted) {
        fputs("hapax audit: stopped before the end; everything it started is gone.\n", stderr);
        return HX_AUDIT_EXIT_NOT_SHOWN;
    }
    if (!can_be_audited)
        for (size_t i = 1; i < audit->row_count; i++)
            audit->rows[i].is_chosen = false;
    struct hx_audit_report report = {
        .plan = &audit->plan,
        .rows = audit->rows,
        .row_count = audit->row_count,
        .sum = sum,
        .is_strict = audit->options.is_strict,
        .elapsed_ms = hx_mono_since_ms(hx_mcp_now(), audit->start),
    };
    if (audit->options.is_json)
        hx_audit_print_json(&report, stdout);
    else if (can_be_audited)
        hx_audit_print_table(&report, stdout);
    return hx_audit_exit_status(&sum, audit->options.is_strict);
}

static int prepare_and_run(struct audit *audit)
{
    sigset_t stops;
    if (!choose(audit))
        return HX_AUDIT_EXIT_USAGE;
    make_plan(audit);
    sigemptyset(&stops);
    sigaddset(&stops, SIGINT);
    sigaddset(&stops, SIGTERM);
    sigaddset(&stops, SIGHUP);
    if (!may_go_on(audit))
        return HX_AUDIT_EXIT_USAGE;
    audit->signal_fd =
        sigprocmask(SIG_BLOCK, &stops, NULL) == 0 ? signalfd(-1, &stops, SFD_CLOEXEC) : -1;
    if (audit->signal_fd < 0 || !hx_offspring_adopt()) {
        fputs("hapax audit: the processes of trials cannot be watched.\n", stderr);
        return HX_AUDIT_EXIT_NOT_SHOWN;
    }
    /* From here on no signal ends us before it is removed. */
    if (!hx_scratch_make("audit", audit->directory))
        return HX_AUDIT_EXIT_NOT_SHOWN;
    snprintf(audit->plan.errors, sizeof(audit->plan.errors), "%s/stderr", audit->directory);
    int status = run(audit);
    hx_scratch_remove(audit->directory);
    return status;
}

int hx_cmd_audit(int argc, char **argv)
{
    static struct audit audit; /* rows are large */
    struct hx_complaint complaint;
    int status = HX_AUDIT_EXIT_USAGE;
    hx_audit_options_init(&audit.options);
    int rc = hx_audit_options_parse(argc, argv, &audit.options, &complaint);
    if (rc == HX_OPTIONS_HELP || (rc == 0 && audit.options.is_list)) {
        rc == 0 ? hx_audit_list(stdout) : hx_help_audit(stdout);
        status = HX_EXIT_DONE;
    } else if (rc != 0) {
        fprintf(stderr, "hapax audit: %s%s\n", complaint.text, hx_sentence_end(complaint.text));
    } else {
        status = prepare_and_run(&audit);
    }
    hx_audit_options_fini(&audit.options);
    return status;
}
