/* SPDX-License-Identifier: MIT */
/*
 * `hapax call`: from words to an intent, and from intents that are open back to words. What happens
 * then is in call.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adapter/clock_os/clock_os.h"
#include "adapter/store_sqlite/files.h"
#include "adapter/store_sqlite/inspect.h"
#include "app/call_intent.h"
#include "app/call_options.h"
#include "app/call_report.h"
#include "app/commands.h"
#include "app/help.h"
#include "app/server_name.h"
#include "app/settings_show.h"
#include "base/fault.h"
#include "base/shell.h"
#include "json/fingerprint.h"

enum { ARGUMENTS_MAX = 64 << 20, ARENA_MAX = INT_MAX };

static int fail(int status, const char *text)
{
    fprintf(stderr, "hapax call: %s.\n", text);
    return status;
}

/* ---- the ledger's place ---- */

/* Absolute, since a call that is taken up goes back to its own directory first. */
static int find_ledger(const struct hx_settings *given, char ret_path[PATH_MAX])
{
    char wanted[PATH_MAX];
    if (given->ledger != NULL) {
        snprintf(wanted, sizeof(wanted), "%s", given->ledger);
    } else {
        const struct passwd *user = getpwuid(getuid());
        if (user == NULL || user->pw_dir == NULL || user->pw_dir[0] != '/')
            return fail(HX_CALL_EXIT_NO_LEDGER, "this user has no home directory, so the ledger "
                                                "needs a place: --ledger DIRECTORY");
        snprintf(wanted, sizeof(wanted), "%s/.local/state/hapax/call", user->pw_dir);
    }
    if (hx_directory_make(wanted) < 0)
        return fail(HX_CALL_EXIT_NO_LEDGER, hx_fault_last()->text);
    if (realpath(wanted, ret_path) == NULL)
        return fail(HX_CALL_EXIT_NO_LEDGER, strerror(errno));
    return 0;
}

/* ---- a new call ---- */

static int read_stream(int fd, const char *name, struct hx_buf *out)
{
    ssize_t len;
    do {
        if (hx_buf_reserve(out, 65536) < 0) {
            fprintf(stderr, "hapax call: the arguments in %s are too large.\n", name);
            return HX_CALL_EXIT_USAGE;
        }
        len = read(fd, out->data + out->len, 65536);
        if (len > 0)
            out->len += (size_t)len;
    } while (len > 0 || (len < 0 && errno == EINTR));
    if (len == 0)
        return 0;
    fprintf(stderr, "hapax call: %s cannot be read: %s.\n", name, strerror(errno));
    return HX_CALL_EXIT_USAGE;
}

static int read_arguments(const char *json, struct hx_buf *out)
{
    if (json == NULL)
        return hx_buf_append_cstr(out, "{}") == 0 ? 0 : HX_CALL_EXIT_USAGE;
    if (strcmp(json, "-") == 0)
        return read_stream(STDIN_FILENO, "standard input", out);
    if (json[0] != '@')
        return hx_buf_append_cstr(out, json) == 0 ? 0 : HX_CALL_EXIT_USAGE;
    int fd = open(json + 1, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        fprintf(stderr, "hapax call: %s cannot be read: %s.\n", json + 1, strerror(errno));
        return HX_CALL_EXIT_USAGE;
    }
    int status = read_stream(fd, json + 1, out);
    (void)close(fd);
    return status;
}

static struct hx_span trim(struct hx_span text)
{
    static const char blanks[] = " \t\r\n";
    while (text.len > 0 && memchr(blanks, text.ptr[0], sizeof(blanks) - 1) != NULL)
        text = hx_span(text.ptr + 1, text.len - 1);
    while (text.len > 0 && memchr(blanks, text.ptr[text.len - 1], sizeof(blanks) - 1) != NULL)
        text.len--;
    return text;
}

/* What the gateway would refuse is said before anything is written down. */
static int check_arguments(struct hx_span arguments)
{
    const struct hx_json_limits limits = HX_JSON_LIMITS_DEFAULT;
    struct hx_fingerprinter fingerprinter;
    struct hx_digest digest;
    size_t offset = 0;
    if (arguments.len == 0 || arguments.ptr[0] != '{')
        return fail(HX_CALL_EXIT_USAGE, "the arguments of a tool are one JSON object, like "
                                        "'{\"amount\": 3}'");
    hx_fingerprinter_init(&fingerprinter);
    int rc = hx_fingerprint(&fingerprinter, arguments, &limits, NULL, &digest, &offset);
    hx_fingerprinter_fini(&fingerprinter);
    if (rc == 0)
        return 0;
    fprintf(stderr, "hapax call: %s (at byte %zu of the arguments)\n",
            rc > 0 ? hx_fingerprint_outcome_text(rc) : "There is not enough memory.", offset);
    return HX_CALL_EXIT_USAGE;
}

static const char *make_key(struct hx_wall now, struct hx_arena *arena)
{
    uint8_t random[10];
    char text[HX_ID_TEXT_SIZE];
    hx_rand_fill(hx_rand_os(), random, sizeof(random));
    struct hx_id id = hx_id_make(now, random);
    hx_id_format(&id, text);
    return hx_arena_dup(arena, hx_span_cstr(text)).ptr;
}

/* The same words without the arguments, which are kept as they are. */
static char **words_without(int argc, char **argv, int left_out, struct hx_arena *arena)
{
    char **words = hx_arena_alloc(arena, ((size_t)argc + 1) * sizeof(*words));
    int count = 0;
    for (int i = 0; words != NULL && i < argc; i++)
        if (i != left_out || left_out == 0)
            words[count++] = argv[i];
    if (words != NULL)
        words[count] = NULL;
    return words;
}

static void name_server(const struct hx_call_options *options, char *ret_name)
{
    /* exec's type again; nothing is changed. */
    char *url[] = {NULL, NULL};
    memcpy(&url[0], &options->url, sizeof(url[0]));
    hx_server_name(options->name != NULL ? options->name : options->settings->name, "call",
                   options->command != NULL ? options->command : url, ret_name);
}

static int call_new(int argc, char **argv, const struct hx_call_options *options,
                    struct hx_arena *arena)
{
    char ledger[PATH_MAX], directory[PATH_MAX], server[HX_SERVER_NAME_SIZE];
    struct hx_clock_os clock;
    struct hx_buf arguments;
    hx_clock_os_init(&clock);
    hx_buf_init(&arguments, ARGUMENTS_MAX);
    int status = find_ledger(&options->given, ledger);
    if (status == 0)
        status = read_arguments(options->json, &arguments);
    struct hx_span trimmed = trim(hx_buf_span(&arguments));
    if (status == 0)
        status = check_arguments(trimmed);
    if (status == 0 && getcwd(directory, sizeof(directory)) == NULL)
        status = fail(HX_CALL_EXIT_USAGE, "the working directory is gone");
    if (status == 0) {
        struct hx_wall now = hx_clock_now(&clock.clock).wall;
        name_server(options, server);
        struct hx_call_intent intent = {
            .key = hx_span_cstr(options->key != NULL ? options->key : make_key(now, arena)),
            .server = hx_span_cstr(server),
            .tool = hx_span_cstr(options->tool),
            .arguments = trimmed,
            .first_sent = now,
            .directory = hx_span_cstr(directory),
            .words = words_without(argc, argv, options->json_at, arena),
            .word_count = argc - (options->json_at > 0),
        };
        status = intent.words != NULL ? hx_call_run(options, &intent, ledger)
                                      : fail(HX_CALL_EXIT_USAGE, "there is not enough memory");
    }
    hx_buf_fini(&arguments);
    return status;
}

/* ---- calls that are open ---- */

struct open_calls {
    struct hx_call_intent *items;
    size_t count;
    size_t unread; /* there are so many more that could not be read */
};

/* In a process of its own when there are several: each goes to its own directory. */
static int take_up(const struct hx_call_options *options, const struct hx_call_intent *intent,
                   const char *ledger)
{
    struct hx_call_options first; /* what was said when the call was made */
    struct hx_complaint complaint;
    hx_call_options_init(&first);
    int status = HX_CALL_EXIT_STILL_RUNNING; /* what became of it is not known here */
    int rc = 1;
    if (chdir(intent->directory.ptr) < 0)
        snprintf(complaint.text, sizeof(complaint.text), "%.500s: %s", intent->directory.ptr,
                 strerror(errno));
    else
        rc = hx_call_options_parse(intent->word_count, intent->words, &first, &complaint);
    first.action = HX_CALL_RESUME;
    first.wait_ms = options->wait_ms;
    first.is_wait_given = options->is_wait_given;
    first.is_json = options->is_json;
    if (rc != 0)
        fprintf(stderr, "hapax call: the call under the key %.*s cannot be taken up: %s.\n",
                HX_SPAN_FMT(intent->key),
                rc == 1 ? complaint.text : "its words say something else");
    else
        status = hx_call_run(&first, intent, ledger);
    hx_call_options_fini(&first);
    return status;
}

static int take_up_apart(const struct hx_call_options *options, const struct hx_call_intent *intent,
                         const char *ledger)
{
    int status = 0;
    (void)fflush(NULL);
    pid_t self = getpid();
    pid_t pid = fork();
    if (pid < 0)
        return fail(HX_CALL_EXIT_STILL_RUNNING, strerror(errno));
    if (pid == 0) {
        /* It is the front of its call: whoever kills us by our pid has killed it too, and nobody
         * holds his pipes any more. The keeper goes on. */
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        exit(getppid() == self ? take_up(options, intent, ledger) : HX_CALL_EXIT_STILL_RUNNING);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : HX_CALL_EXIT_KEEPER_LOST;
}

/* What a script must know of many: the worst of them. An error of a tool is an answer. */
static int worse(int one, int other)
{
    static const int order[] = {HX_CALL_EXIT_UNKNOWN,       HX_CALL_EXIT_KEEPER_LOST,
                                HX_CALL_EXIT_STILL_RUNNING, HX_CALL_EXIT_NO_LEDGER,
                                HX_CALL_EXIT_NO_SERVER,     HX_CALL_EXIT_USAGE,
                                HX_CALL_EXIT_NOT_HAPPENED,  HX_CALL_EXIT_TOOL_ERROR};
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
        if (one == order[i] || other == order[i])
            return order[i];
    return HX_CALL_EXIT_DONE;
}

/* The commands that take up each of them alone. */
static void print_open(const struct open_calls *open, const char *verb, const char *ledger)
{
    char when[HX_TIME_TEXT_SIZE];
    for (size_t i = 0; i < open->count; i++) {
        const struct hx_call_intent *item = &open->items[i];
        const struct hx_call_name name = {
            .key = item->key, .server = item->server, .tool = item->tool, .is_shared = true};
        struct hx_buf command;
        hx_buf_init(&command, 16 * 1024);
        hx_call_open_command(&command, verb, &name, "");
        (void)hx_buf_append_cstr(&command, " --ledger ");
        (void)hx_shell_word(&command, hx_span_cstr(ledger));
        hx_wall_format(item->first_sent, when);
        fprintf(stderr, "  %s  %.*s\n", when, HX_SPAN_FMT(hx_buf_span(&command)));
        hx_buf_fini(&command);
    }
}

static int resume_all(const struct hx_call_options *options, const struct open_calls *open,
                      const char *ledger)
{
    const struct hx_call_intent *items = open->items;
    int status = open->unread > 0 ? HX_CALL_EXIT_STILL_RUNNING : HX_CALL_EXIT_DONE;
    for (size_t i = 0; i < open->count; i++) {
        if (!options->is_json)
            fprintf(stderr, "hapax call: %.*s of %.*s, key %.*s\n", HX_SPAN_FMT(items[i].tool),
                    HX_SPAN_FMT(items[i].server), HX_SPAN_FMT(items[i].key));
        status = worse(status, take_up_apart(options, &items[i], ledger));
    }
    return status;
}

/* What the operation of this id, which the answer of a call told, was called. 1, 0 when there is
 * none, or an error with a fault: a ledger that cannot be read does not say that there is none. */
static int name_of_id(const struct hx_id *id, const char *ledger, struct hx_arena *arena,
                      struct hx_call_name *ret_name)
{
    char path[PATH_MAX + 16];
    struct hx_clock_os clock;
    struct hx_inspect *inspect;
    struct hx_store_found found;
    hx_clock_os_init(&clock);
    snprintf(path, sizeof(path), "%s/ledger.db", ledger);
    const struct hx_store_sqlite_options options = {
        .path = path, .clock = &clock.clock, .rand = hx_rand_os()};
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return 0;
    int rc = hx_inspect_open(&options, &inspect);
    if (rc < 0)
        return HX_TRACE(rc);
    rc = hx_inspect_by_id(inspect, id, arena, &found);
    if (rc == 1)
        *ret_name = (struct hx_call_name){
            .key = found.record.key, .server = found.record.server, .tool = found.record.tool};
    hx_inspect_close(inspect);
    return HX_TRACE(rc);
}

static struct hx_span span_or_none(const char *text)
{
    return text != NULL ? hx_span_cstr(text) : HX_SPAN_NONE;
}

static int list_open(const struct hx_call_options *options, const char *ledger,
                     struct hx_arena *arena, struct open_calls *ret_open)
{
    struct hx_call_intents intents;
    struct hx_id id;
    struct hx_call_name name = {.key = span_or_none(options->key),
                                .tool = span_or_none(options->tool),
                                .server = span_or_none(options->server)};
    hx_call_intents_init(&intents, ledger);
    int rc = hx_call_intents_list(&intents, &name, arena, &ret_open->items, &ret_open->count,
                                  &ret_open->unread);
    if (rc < 0 || ret_open->count > 0 || options->key == NULL || options->tool != NULL ||
        !hx_id_parse(name.key, &id))
        return HX_TRACE(rc);
    rc = name_of_id(&id, ledger, arena, &name);
    return rc == 1 ? hx_call_intents_list(&intents, &name, arena, &ret_open->items,
                                          &ret_open->count, &ret_open->unread)
                   : HX_TRACE(rc);
}

static int find_open(const struct hx_call_options *options, const char *ledger,
                     struct hx_arena *arena, struct open_calls *ret_open)
{
    if (list_open(options, ledger, arena, ret_open) < 0)
        return fail(HX_CALL_EXIT_NO_LEDGER, hx_fault_last()->text);
    if (ret_open->count > 0 || options->action == HX_CALL_RESUME_ALL)
        return 0;
    if (ret_open->unread > 0)
        return fail(HX_CALL_EXIT_NO_LEDGER, "what is open could not all be read, so it cannot be "
                                            "said whether this call is");
    if (options->key != NULL)
        fprintf(stderr,
                "hapax call: no call with the key or id %s is open in %s: it was answered, or was "
                "never begun there.\n",
                options->key, ledger);
    else
        fprintf(stderr, "hapax call: no call is open in %s.\n", ledger);
    return options->key != NULL ? HX_CALL_EXIT_ABSENT : HX_CALL_EXIT_DONE;
}

static int give_up(const struct hx_call_intent *intent, const char *ledger)
{
    struct hx_call_intents intents;
    hx_call_intents_init(&intents, ledger);
    if (hx_call_intent_forget(&intents, intent) < 0)
        return fail(HX_CALL_EXIT_NO_LEDGER, hx_fault_last()->text);
    fputs(
        "hapax call: given up; it will not be asked for again. What the ledger knows of it stays: "
        "hapax ops list --ledger ",
        stderr);
    fprintf(stderr, "%s\n", ledger);
    return HX_CALL_EXIT_DONE;
}

static int call_open(const struct hx_call_options *options, struct hx_arena *arena)
{
    char ledger[PATH_MAX];
    struct open_calls open = {0};
    bool is_give_up = options->action == HX_CALL_GIVE_UP;
    int status = find_ledger(&options->given, ledger);
    if (status == 0)
        status = find_open(options, ledger, arena, &open);
    if (status != 0 || (open.count == 0 && options->action != HX_CALL_RESUME_ALL))
        return status;
    if (options->action == HX_CALL_RESUME_ALL)
        return resume_all(options, &open, ledger);
    if (open.count > 1 || (options->key == NULL && open.unread > 0)) {
        fputs("hapax call: several calls are open; name one, or say --resume --all:\n", stderr);
        print_open(&open, is_give_up ? "--give-up" : "--resume", ledger);
        return HX_CALL_EXIT_USAGE;
    }
    return is_give_up ? give_up(open.items, ledger) : take_up(options, open.items, ledger);
}

int hx_cmd_call(int argc, char **argv)
{
    struct hx_call_options options;
    struct hx_complaint complaint;
    struct hx_arena arena;
    int status = HX_EXIT_USAGE;
    hx_call_options_init(&options);
    hx_arena_init(&arena, ARENA_MAX);
    int rc = hx_call_options_parse(argc, argv, &options, &complaint);
    if (rc == HX_OPTIONS_HELP) {
        hx_help_call(stdout);
        status = HX_EXIT_DONE;
    } else if (rc == HX_OPTIONS_SHOW) {
        hx_settings_show(&options.given, stdout);
        status = HX_EXIT_DONE;
    } else if (rc != 0) {
        fprintf(stderr, "hapax call: %s%s\n", complaint.text, hx_sentence_end(complaint.text));
    } else if (options.action == HX_CALL_NEW) {
        status = call_new(argc, argv, &options, &arena);
    } else {
        status = call_open(&options, &arena);
    }
    hx_arena_fini(&arena);
    hx_call_options_fini(&options);
    return status;
}
