/* SPDX-License-Identifier: MIT */
#include "app/ops_options.h"

#include <string.h>

#include "app/help.h"
#include "app/nearest.h"
#include "app/ops_value.h"
#include "json/redact.h"

static const char *const command_names[HX_OPS_COMMAND_COUNT] = {
    [HX_OPS_LIST] = "list",       [HX_OPS_SHOW] = "show",     [HX_OPS_WATCH] = "watch",
    [HX_OPS_RESOLVE] = "resolve", [HX_OPS_CANCEL] = "cancel", [HX_OPS_APPROVE] = "approve",
    [HX_OPS_DENY] = "deny",       [HX_OPS_EXPORT] = "export", [HX_OPS_VERIFY] = "verify",
    [HX_OPS_RECOVER] = "recover", [HX_OPS_OUTBOX] = "outbox", [HX_OPS_SIZE] = "size",
};

#define ON(name) (1u << HX_OPS_##name)
#define ON_ALL ((1u << HX_OPS_COMMAND_COUNT) - 1)
#define ON_VERBS (ON(RESOLVE) | ON(CANCEL) | ON(APPROVE) | ON(DENY))

enum option {
    OPTION_STATE,
    OPTION_TOOL,
    OPTION_SERVER,
    OPTION_OLDER_THAN,
    OPTION_NEEDS_HUMAN,
    OPTION_SINCE,
    OPTION_LIMIT,
    OPTION_ARGUMENTS,
    OPTION_WITHOUT_PAYLOAD,
    OPTION_REDACT,
    OPTION_RAW,
    OPTION_FORCE,
    OPTION_NOTE,
    OPTION_RESULT,
    OPTION_KEY,
    OPTION_KEY_SCOPE,
    OPTION_BACKUP,
    OPTION_ALL,
    OPTION_AGAIN,
    OPTION_PARKED,
    OPTION_DROP,
    OPTION_END,
    OPTION_LEDGER,
    OPTION_JSON,
    OPTION_HELP,
    OPTION_COUNT
};

struct option_row {
    const char *name;
    const char *value; /* NULL = it is a flag */
    unsigned commands;
    const char *help;
};

static const struct option_row rows[OPTION_COUNT] = {
    [OPTION_STATE] = {"--state", "STATE[,STATE...]", ON(LIST) | ON(EXPORT),
                      "only these: awaiting_approval, ready, running, input_required, succeeded, "
                      "failed, unknown, cancelled, expired; 'open' means all that are not final"},
    [OPTION_TOOL] =
        {"--tool", "NAME", ON(LIST) | ON(EXPORT) | ON(WATCH) | ON(CANCEL),
         "only calls of this tool; except for cancel, * and ? stand for any characters"},
    [OPTION_SERVER] = {"--server", "NAME", ON(LIST) | ON(EXPORT) | ON(WATCH) | ON(CANCEL),
                       "only calls of this server, as --name of hapax run says it"},
    [OPTION_OLDER_THAN] = {"--older-than", "TIME", ON(LIST), "only calls that came before that"},
    [OPTION_NEEDS_HUMAN] =
        {"--needs-human", NULL, ON(LIST),
         "only those that have been unknown for so long that a person must look"},
    [OPTION_SINCE] = {"--since", "TIME", ON(LIST) | ON(EXPORT),
                      "only calls that came since: 2026-11-29T03:00:00Z, or 2h for two hours ago"},
    [OPTION_LIMIT] = {"--limit", "N", ON(LIST) | ON(OUTBOX),
                      "at most so many, the newest, of events the oldest; 0 = all [50]"},
    [OPTION_ARGUMENTS] = {"--arguments", NULL, ON(SHOW),
                          "arguments and result too when the output is no terminal"},
    [OPTION_WITHOUT_PAYLOAD] = {"--without-payload", NULL, ON(SHOW) | ON(EXPORT),
                                "leave out arguments, results and keys"},
    [OPTION_REDACT] = {"--redact", "NAME", ON(SHOW) | ON(EXPORT),
                       "members of this name become \"" HX_REDACTED "\", beside those that the "
                       "settings of this ledger's processes name; may be said several times"},
    [OPTION_RAW] = {"--raw", NULL, ON(SHOW) | ON(EXPORT),
                    "everything as it is kept, also what is named to be redacted"},
    [OPTION_FORCE] = {"--force", NULL, ON(RESOLVE),
                      "for 'absent': do not wait until nothing can be under way any more"},
    [OPTION_NOTE] = {"--note", "TEXT", ON_VERBS | ON(OUTBOX),
                     "why; it is kept in the operation's history, or with the event"},
    [OPTION_RESULT] =
        {"--result", "JSON", ON(RESOLVE),
         "for 'happened': what repeats of the call get: a tool result with content, or "
         "anything else, which becomes its text"},
    [OPTION_KEY] = {"--key", "KEY", ON(CANCEL), "the caller's key; with --server and --tool"},
    [OPTION_KEY_SCOPE] = {"--key-scope", "tenant|principal", ON(CANCEL),
                          "what --key-scope of that hapax run says [tenant]"},
    [OPTION_BACKUP] = {"--backup-taken-at", "TIME", ON(RECOVER),
                       "when the copy was made that stands here now: 2026-11-29T03:00:00Z, or 9h "
                       "for nine hours ago. In doubt say an earlier time"},
    [OPTION_ALL] = {"--all", NULL, ON(OUTBOX), "also what was delivered or dropped"},
    [OPTION_AGAIN] = {"--again", NULL, ON(OUTBOX),
                      "try that event from the beginning; with --parked, all that are parked"},
    [OPTION_PARKED] = {"--parked", NULL, ON(OUTBOX), "only what is parked"},
    [OPTION_DROP] = {"--drop", NULL, ON(OUTBOX),
                     "never deliver that event; what waits behind it goes on. Needs --note"},
    [OPTION_END] = {"--end", NULL, ON(OUTBOX),
                    "announce nothing any more, and drop what waits. Needs --note"},
    [OPTION_LEDGER] = {"--ledger", "DIRECTORY", ON_ALL,
                       "where the ledger is [~/.local/state/hapax]"},
    [OPTION_JSON] = {"--json", NULL, ON_ALL & ~ON(EXPORT), "for programs; nothing is cut"},
    [OPTION_HELP] = {"--help", NULL, ON_ALL, "this text"},
};

const char *hx_ops_command_name(enum hx_ops_command command)
{
    return command_names[command];
}

void hx_ops_help_options(FILE *out, enum hx_ops_command command)
{
    enum { INDENT = 8 };
    fputs("\nOptions\n", out);
    for (int i = 0; i < OPTION_COUNT; i++) {
        if ((rows[i].commands >> command & 1) == 0)
            continue;
        fprintf(out, "  %s%s%s\n%*s", rows[i].name, rows[i].value ? " " : "",
                rows[i].value ? rows[i].value : "", INDENT, "");
        hx_help_wrap(out, rows[i].help, INDENT, INDENT);
    }
}

static int add_name(struct hx_ops_options *options, const char *name,
                    struct hx_complaint *complaint)
{
    if (!hx_redact_name_is_good(hx_span_cstr(name)))
        return hx_complain(complaint,
                           "--redact: '%.40s' is not possible; give the name of a member, such as "
                           "password: no pointer, no pattern, and one each time",
                           name);
    if (options->redact_count == HX_OPS_REDACT_MAX)
        return hx_complain(complaint, "--redact may be given at most %d times", HX_OPS_REDACT_MAX);
    options->redact[options->redact_count++] = name;
    return 0;
}

static int set(struct hx_ops_options *options, enum option option, const char *value,
               struct hx_wall now, struct hx_complaint *complaint)
{
    switch (option) {
    case OPTION_STATE:
        return hx_ops_parse_states(value, &options->states, complaint);
    case OPTION_TOOL:
        options->tool = value;
        return 0;
    case OPTION_SERVER:
        options->server = value;
        return 0;
    case OPTION_OLDER_THAN:
        return hx_ops_parse_duration("--older-than", value, &options->older_than_ms, complaint);
    case OPTION_NEEDS_HUMAN:
        options->needs_human = true;
        return 0;
    case OPTION_SINCE:
        return hx_ops_parse_moment("--since", value, now, &options->since, complaint);
    case OPTION_LIMIT:
        return hx_ops_parse_limit(value, &options->limit, complaint);
    case OPTION_ARGUMENTS:
        options->has_arguments = true;
        return 0;
    case OPTION_WITHOUT_PAYLOAD:
        options->without_payload = true;
        return 0;
    case OPTION_REDACT:
        return add_name(options, value, complaint);
    case OPTION_RAW:
        options->is_raw = true;
        return 0;
    case OPTION_FORCE:
        options->is_forced = true;
        return 0;
    case OPTION_NOTE:
        options->note = value;
        return 0;
    case OPTION_RESULT:
        options->result = value;
        return 0;
    case OPTION_KEY:
        options->key = value;
        return 0;
    case OPTION_KEY_SCOPE:
        return hx_ops_parse_key_scope(value, &options->is_key_principal_scoped, complaint);
    case OPTION_BACKUP:
        return hx_ops_parse_moment("--backup-taken-at", value, now, &options->backup_taken_at,
                                   complaint);
    case OPTION_ALL:
        options->is_all = true;
        return 0;
    case OPTION_AGAIN:
        options->is_again = true;
        return 0;
    case OPTION_PARKED:
        options->is_parked = true;
        return 0;
    case OPTION_DROP:
        options->is_drop = true;
        return 0;
    case OPTION_END:
        options->is_end = true;
        return 0;
    case OPTION_LEDGER:
        options->ledger = value;
        return 0;
    case OPTION_JSON:
        options->is_json = true;
        return 0;
    case OPTION_HELP:
        return HX_OPS_HELP;
    case OPTION_COUNT:
        break;
    }
    hx_assert(!"option");
    return 1;
}

static int refuse_option(enum hx_ops_command command, struct hx_span name, bool is_elsewhere,
                         struct hx_complaint *complaint)
{
    const char *names[OPTION_COUNT];
    size_t count = 0;
    for (int i = 0; i < OPTION_COUNT; i++)
        if ((rows[i].commands >> command & 1) != 0)
            names[count++] = rows[i].name;
    const char *near = is_elsewhere ? NULL : hx_nearest(name, names, count);
    return hx_complain(complaint, "%s has no option '%.*s'%s%s. 'hapax ops %s --help' lists them",
                       command_names[command], (int)(name.len < 60 ? name.len : 60), name.ptr,
                       near ? "; did you mean " : "", near ? near : "", command_names[command]);
}

static int parse_option(int argc, char **argv, int *at, struct hx_ops_options *options,
                        struct hx_wall now, struct hx_complaint *complaint)
{
    const char *word = argv[*at];
    const char *equals = strchr(word, '=');
    struct hx_span name = equals ? hx_span(word, (size_t)(equals - word)) : hx_span_cstr(word);
    if (hx_span_eq_cstr(name, "-h"))
        return HX_OPS_HELP;
    for (int i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = &rows[i];
        if (!hx_span_eq_cstr(name, row->name))
            continue;
        if ((row->commands >> options->command & 1) == 0)
            return refuse_option(options->command, name, true, complaint);
        if (row->value == NULL) {
            if (equals)
                return hx_complain(complaint, "%s takes no value", row->name);
            return set(options, (enum option)i, NULL, now, complaint);
        }
        const char *value = equals ? equals + 1 : NULL;
        if (!value && *at + 1 < argc)
            value = argv[++*at];
        if (!value)
            return hx_complain(complaint, "%s needs a value: %s %s", row->name, row->name,
                               row->value);
        return set(options, (enum option)i, value, now, complaint);
    }
    return refuse_option(options->command, name, false, complaint);
}

static int parse_decision(const char *word, struct hx_ops_options *options,
                          struct hx_complaint *complaint)
{
    static const struct {
        const char *name;
        enum hx_event_type type;
    } decisions[] = {{"happened", HX_EV_RESOLVE_HAPPENED},
                     {"absent", HX_EV_RESOLVE_ABSENT},
                     {"again", HX_EV_RESOLVE_AGAIN}};
    const char *names[3];
    for (size_t i = 0; i < 3; i++) {
        names[i] = decisions[i].name;
        if (strcmp(word, names[i]) == 0) {
            options->decision = decisions[i].type;
            return 0;
        }
    }
    const char *near = hx_nearest(hx_span_cstr(word), names, 3);
    return hx_complain(
        complaint,
        "'%.40s' is no decision%s%s%s. Say happened (it did), absent (it did not) or "
        "again (do it again)",
        word, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static int take_words(char **words, int count, struct hx_ops_options *options,
                      struct hx_complaint *complaint)
{
    static const int words_max[HX_OPS_COMMAND_COUNT] = {
        [HX_OPS_SHOW] = 1,    [HX_OPS_RESOLVE] = 2, [HX_OPS_CANCEL] = 1,
        [HX_OPS_APPROVE] = 1, [HX_OPS_DENY] = 1,    [HX_OPS_OUTBOX] = 1,
    };
    enum hx_ops_command command = options->command;
    bool takes_id = words_max[command] > 0;
    if (count > words_max[command])
        return hx_complain(complaint, "'%.60s' is too much. See 'hapax ops %s --help'",
                           words[words_max[command]], command_names[command]);
    if (takes_id && count > 0)
        options->id = words[0];
    if (command == HX_OPS_RESOLVE && count < 2)
        return hx_complain(complaint,
                           "say which operation and what became of it: hapax ops resolve ID "
                           "happened|absent|again. 'hapax ops list' shows the ids");
    if (takes_id && count == 0 && options->key == NULL && command != HX_OPS_OUTBOX)
        return hx_complain(complaint,
                           "say which operation: hapax ops %s ID%s. 'hapax ops list' shows "
                           "the ids",
                           command_names[command],
                           command == HX_OPS_CANCEL ? ", or --server S --tool T --key K" : "");
    return command == HX_OPS_RESOLVE ? parse_decision(words[1], options, complaint) : 0;
}

static int check_outbox(const struct hx_ops_options *options, struct hx_complaint *complaint)
{
    bool has_reason = options->note != NULL && options->note[0] != '\0';
    if (options->is_again + options->is_drop + options->is_end > 1)
        return hx_complain(complaint, "--again, --drop and --end are three things; say one");
    if (options->is_again && (options->id != NULL) == options->is_parked)
        return hx_complain(complaint, "say which event: --again ID, or --again --parked for all "
                                      "that are parked. 'hapax ops outbox' shows the ids");
    if (options->is_drop && options->id == NULL)
        return hx_complain(complaint, "say which event: --drop ID --note REASON. 'hapax ops "
                                      "outbox' shows the ids");
    if (options->is_end && options->id != NULL)
        return hx_complain(complaint, "--end is about the whole outbox; one event is dropped by "
                                      "--drop ID");
    if ((options->is_drop || options->is_end) && !has_reason)
        return hx_complain(complaint, "say why, with --note: whoever misses the event later asks");
    if (options->note != NULL && !options->is_drop && !options->is_end)
        return hx_complain(complaint, "--note goes with --drop and --end only");
    bool is_list = options->id == NULL && !options->is_again && !options->is_end;
    if ((options->is_all || (options->is_parked && !options->is_again)) && !is_list)
        return hx_complain(complaint, "--all and --parked choose what is listed");
    if (options->is_all && options->is_parked)
        return hx_complain(complaint, "--all and --parked are two lists; say one");
    return 0;
}

/* Options that mean nothing, or the contrary, beside each other. */
static int check(const struct hx_ops_options *options, struct hx_complaint *complaint)
{
    bool has_key_form = options->key != NULL;
    if (options->command == HX_OPS_OUTBOX)
        return check_outbox(options, complaint);
    if (options->command == HX_OPS_CANCEL && has_key_form) {
        if (options->id != NULL)
            return hx_complain(complaint,
                               "name the operation by its id or by its key, not by both");
        if (options->server == NULL || options->tool == NULL)
            return hx_complain(complaint,
                               "a key belongs to a tool of a server: --server S --tool T "
                               "--key K");
    } else if (options->command == HX_OPS_CANCEL && (options->server || options->tool)) {
        return hx_complain(complaint, "--server and --tool go with --key; an id needs neither");
    }
    if (options->is_raw && options->redact_count > 0)
        return hx_complain(complaint, "--raw and --redact are opposites; say one");
    if (options->is_forced && options->decision != HX_EV_RESOLVE_ABSENT)
        return hx_complain(complaint,
                           "--force goes with 'absent' only; the others need no waiting");
    if (options->result && options->decision != HX_EV_RESOLVE_HAPPENED)
        return hx_complain(complaint, "--result goes with 'happened' only");
    return 0;
}

static int parse_command(const char *word, struct hx_ops_options *options,
                         struct hx_complaint *complaint)
{
    for (int i = 0; i < HX_OPS_COMMAND_COUNT; i++) {
        if (strcmp(word, command_names[i]) == 0) {
            options->command = (enum hx_ops_command)i;
            return 0;
        }
    }
    const char *near = hx_nearest(hx_span_cstr(word), command_names, HX_OPS_COMMAND_COUNT);
    return hx_complain(complaint,
                       "there is no 'hapax ops %.40s'%s%s%s. 'hapax ops --help' lists all", word,
                       near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

int hx_ops_parse(int argc, char **argv, struct hx_wall now, struct hx_ops_options *ret_options,
                 struct hx_complaint *complaint)
{
    enum { WORDS_MAX = 4 };
    struct hx_ops_options options = {.command = HX_OPS_COMMAND_COUNT, .limit = HX_OPS_LIST_LIMIT};
    char *words[WORDS_MAX];
    int word_count = 0;
    *ret_options = options;
    if (argc < 2)
        return hx_complain(complaint,
                           "say what to do, such as 'hapax ops list'. 'hapax ops --help' "
                           "lists all");
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return HX_OPS_HELP;
    int rc = parse_command(argv[1], &options, complaint);
    bool is_word_only = false;
    for (int at = 2; rc == 0 && at < argc; at++) {
        if (!is_word_only && strcmp(argv[at], "--") == 0)
            is_word_only = true;
        else if (!is_word_only && argv[at][0] == '-' && argv[at][1] != '\0')
            rc = parse_option(argc, argv, &at, &options, now, complaint);
        else if (word_count < WORDS_MAX)
            words[word_count++] = argv[at];
    }
    if (options.command == HX_OPS_CANCEL)
        options.decision = HX_EV_CANCEL;
    if (options.command == HX_OPS_APPROVE)
        options.decision = HX_EV_APPROVE;
    if (options.command == HX_OPS_DENY)
        options.decision = HX_EV_DENY;
    if (rc == 0)
        rc = take_words(words, word_count, &options, complaint);
    if (rc == 0)
        rc = check(&options, complaint);
    *ret_options = options;
    return rc;
}
