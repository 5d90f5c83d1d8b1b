/* SPDX-License-Identifier: MIT */
/*
 * The command line of `hapax ops`: what is understood, what is refused and with which words, and
 * that the help of each command knows its options.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "app/ops_options.h"
#include "app/ops_outcome.h"

enum { WORDS_MAX = 12 };

static struct hx_ops_options options;
static struct hx_complaint complaint;
static const struct hx_wall now = {INT64_C(1796000000000)};

static int parse(const char *const *words)
{
    char *argv[WORDS_MAX + 2] = {(char *)(uintptr_t) "ops"};
    int argc = 1;
    for (size_t i = 0; words[i]; i++)
        argv[argc++] = (char *)(uintptr_t)words[i];
    complaint.text[0] = '\0';
    return hx_ops_parse(argc, argv, now, &options, &complaint);
}

#define PARSE(...) parse((const char *const[WORDS_MAX]){__VA_ARGS__})

static void understands(void **state)
{
    (void)state;
    assert_int_equal(PARSE("list"), 0);
    assert_int_equal(options.command, HX_OPS_LIST);
    assert_int_equal(options.limit, HX_OPS_LIST_LIMIT);
    assert_int_equal(PARSE("list", "--state=unknown,running", "--tool", "charge*", "--older-than",
                           "10m", "--limit", "0", "--json", "--ledger", "/l"),
                     0);
    assert_int_equal(options.states, 1u << HX_OP_UNKNOWN | 1u << HX_OP_RUNNING);
    assert_string_equal(options.tool, "charge*");
    assert_int_equal(options.older_than_ms, 600000);
    assert_int_equal(options.limit, 0);
    assert_true(options.is_json);
    assert_string_equal(options.ledger, "/l");
    assert_int_equal(PARSE("list", "--state", "open"), 0);
    assert_true((options.states & 1u << HX_OP_INPUT_REQUIRED) != 0);
    assert_true((options.states & 1u << HX_OP_SUCCEEDED) == 0);
    assert_int_equal(PARSE("resolve", "5d1c2a90", "again", "--note", "x"), 0);
    assert_int_equal(options.decision, HX_EV_RESOLVE_AGAIN);
    assert_string_equal(options.id, "5d1c2a90");
    assert_int_equal(PARSE("resolve", "--force", "5d1c2a90", "absent"), 0);
    assert_true(options.is_forced);
    assert_int_equal(PARSE("cancel", "--server", "s", "--tool", "t", "--key", "k1"), 0);
    assert_null(options.id);
    assert_int_equal(PARSE("show", "--", "-odd-key"), 0);
    assert_string_equal(options.id, "-odd-key");
    assert_int_equal(PARSE("export", "--since", "2h"), 0);
    assert_int_equal(options.since.ms, now.ms - 7200000);
    assert_int_equal(PARSE("export", "--redact", "password", "--redact=api_key"), 0);
    assert_int_equal(options.redact_count, 2);
    assert_string_equal(options.redact[1], "api_key");
    assert_false(options.is_raw);
    assert_int_equal(PARSE("show", "5d1c2a90", "--raw"), 0);
    assert_true(options.is_raw);
    assert_int_equal(PARSE("recover", "--backup-taken-at", "2026-11-29T03:00:00+01:00"), 0);
    assert_int_equal(options.backup_taken_at.ms, INT64_C(1795917600000));
}

static void reads_what_is_decided_about_events(void **state)
{
    (void)state;
    assert_int_equal(PARSE("outbox"), 0);
    assert_int_equal(options.command, HX_OPS_OUTBOX);
    assert_null(options.id);
    assert_int_equal(PARSE("outbox", "5d1c2a90"), 0);
    assert_string_equal(options.id, "5d1c2a90");
    assert_int_equal(PARSE("outbox", "--again", "5d1c2a90"), 0);
    assert_true(options.is_again);
    assert_string_equal(options.id, "5d1c2a90");
    assert_int_equal(PARSE("outbox", "--again", "--parked"), 0);
    assert_true(options.is_parked);
    assert_int_equal(PARSE("outbox", "--drop", "5d1c2a90", "--note", "by hand"), 0);
    assert_true(options.is_drop);
    assert_string_equal(options.note, "by hand");
    assert_int_equal(PARSE("outbox", "--end", "--note", "no receiver"), 0);
    assert_true(options.is_end);
    assert_int_equal(PARSE("outbox", "--all", "--limit", "9", "--json"), 0);
    assert_true(options.is_all);
}

static void refuses(void **state)
{
    static const struct {
        const char *words[WORDS_MAX];
        const char *says;
    } rows[] = {
        {{NULL}, "hapax ops list"},
        {{"lst"}, "did you mean 'list'?"},
        {{"list", "--stat", "unknown"}, "did you mean --state"},
        {{"list", "--state", "unknwon"}, "did you mean 'unknown'?"},
        {{"list", "--state", "absent"}, "there is no state 'absent'"},
        {{"list", "--older-than", "10"}, "'10' is not possible"},
        {{"list", "--limit", "-1"}, "'-1' is not possible"},
        {{"list", "--limit"}, "--limit needs a value: --limit N"},
        {{"list", "--json=yes"}, "--json takes no value"},
        {{"list", "--force"}, "list has no option '--force'"},
        {{"list", "x"}, "'x' is too much"},
        {{"show"}, "hapax ops show ID"},
        {{"show", "a", "b"}, "'b' is too much"},
        {{"resolve", "a"}, "happened|absent|again"},
        {{"resolve", "a", "hapened"}, "did you mean 'happened'?"},
        {{"resolve", "a", "--happened"}, "no option '--happened'"},
        {{"resolve", "a", "happened", "--force"}, "--force goes with 'absent'"},
        {{"resolve", "a", "again", "--result", "{}"}, "--result goes with 'happened'"},
        {{"cancel"}, "or --server S --tool T --key K"},
        {{"cancel", "--key", "k"}, "a key belongs to a tool of a server"},
        {{"cancel", "a", "--key", "k", "--server", "s", "--tool", "t"}, "not by both"},
        {{"cancel", "a", "--tool", "t"}, "--server and --tool go with --key"},
        {{"export", "--json"}, "export has no option '--json'"},
        {{"export", "--since", "yesterday"}, "'yesterday' is not possible"},
        {{"export", "--redact", "a,b"}, "'a,b' is not possible"},
        {{"export", "--redact", "*key*"}, "no pattern"},
        {{"show", "a", "--raw", "--redact", "b"}, "--raw and --redact are opposites"},
        {{"list", "--raw"}, "list has no option '--raw'"},
        {{"recover", "--backup-taken-at", "2026-11-29"}, "a moment with its zone"},
        {{"outbox", "--again"}, "say which event"},
        {{"outbox", "--again", "5d1c2a90", "--parked"}, "say which event"},
        {{"outbox", "--drop", "--note", "x"}, "say which event"},
        {{"outbox", "--drop", "5d1c2a90"}, "say why, with --note"},
        {{"outbox", "--drop", "5d1c2a90", "--note", ""}, "say why, with --note"},
        {{"outbox", "--end", "5d1c2a90", "--note", "x"}, "--end is about the whole outbox"},
        {{"outbox", "--end"}, "say why, with --note"},
        {{"outbox", "--again", "--drop", "5d1c2a90"}, "three things"},
        {{"outbox", "5d1c2a90", "--note", "x"}, "--note goes with"},
        {{"outbox", "5d1c2a90", "--all"}, "choose what is listed"},
        {{"outbox", "--all", "--parked"}, "two lists"},
        {{"list", "--again"}, "list has no option '--again'"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int rc = parse(rows[i].words);
        if (rc != 1 || !strstr(complaint.text, rows[i].says))
            fail_msg("row %zu: %d, '%s', without '%s'", i, rc, complaint.text, rows[i].says);
    }
}

/* Every command explains itself, names its own options and the exit status. */
static void teaches(void **state)
{
    (void)state;
    assert_int_equal(PARSE("--help"), HX_OPS_HELP);
    assert_int_equal(options.command, HX_OPS_COMMAND_COUNT);
    assert_int_equal(PARSE("resolve", "--help"), HX_OPS_HELP);
    assert_int_equal(options.command, HX_OPS_RESOLVE);
    for (int command = 0; command <= HX_OPS_COMMAND_COUNT; command++) {
        char *text = NULL;
        size_t len = 0;
        FILE *out = open_memstream(&text, &len);
        assert_non_null(out);
        hx_ops_help(out, (enum hx_ops_command)command);
        fclose(out);
        assert_non_null(strstr(text, "Exit status"));
        assert_non_null(strstr(text, "--ledger DIRECTORY"));
        if (command < HX_OPS_COMMAND_COUNT)
            assert_non_null(strstr(text, hx_ops_command_name((enum hx_ops_command)command)));
        for (const char *line = text; *line; line = strchr(line, '\n') + 1)
            if (strcspn(line, "\n") > 100)
                fail_msg("a line of %zu columns: %.40s", strcspn(line, "\n"), line);
        free(text);
    }
}

static void outcome_of(const char *given, const char *expected, bool is_error)
{
    struct hx_arena arena;
    struct hx_outcome outcome = {0};
    hx_arena_init(&arena, 1 << 20);
    const char *flaw = hx_ops_outcome(hx_span_cstr(given), &arena, &outcome);
    if (expected == NULL) {
        assert_non_null(flaw);
    } else {
        if (flaw != NULL || !hx_span_eq_cstr(outcome.bytes, expected))
            fail_msg("'%s' gave %s'%.*s', not '%s'", given ? given : "(nothing)", flaw ? flaw : "",
                     HX_SPAN_FMT(outcome.bytes), expected);
        assert_int_equal(outcome.is_error, is_error);
        assert_true(outcome.is_reconstructed);
        assert_int_equal(outcome.size, outcome.bytes.len);
    }
    hx_arena_fini(&arena);
}

/* What a person tells has the shape of a tool's answer, on one line. */
static void words_become_a_result(void **state)
{
    (void)state;
    outcome_of(NULL,
               "{\"content\":[{\"type\":\"text\",\"text\":\"A person confirmed that this call "
               "happened. Its own result was lost.\"}]}",
               false);
    outcome_of("\"receipt 7\"", "{\"content\":[{\"type\":\"text\",\"text\":\"receipt 7\"}]}",
               false);
    outcome_of("{\"id\":7}", "{\"content\":[{\"type\":\"text\",\"text\":\"{\\\"id\\\":7}\"}]}",
               false);
    outcome_of("{\"content\":[],\n\"isError\":true}", "{\"content\":[], \"isError\":true}", true);
    outcome_of("receipt 7", NULL, false);
    outcome_of("{\"content\":[],\"isError\":\"no\"}", NULL, false);
    outcome_of("{\"content\":[],\"content\":[]}", NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(understands),
        cmocka_unit_test(reads_what_is_decided_about_events),
        cmocka_unit_test(refuses),
        cmocka_unit_test(teaches),
        cmocka_unit_test(words_become_a_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
