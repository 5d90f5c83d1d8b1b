/* SPDX-License-Identifier: MIT */
/* The counting command is a stranger's: what it prints is looked at, and it never outlives us. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "app/audit_count.h"
#include "app/mcp_client.h"
#include "app/offspring.h"

enum { LONG_MS = 20000 };

static void one_whole_number_counts(void **state)
{
    (void)state;
    static const struct {
        const char *command;
        int64_t number;
        const char *says;
    } rows[] = {
        {"echo 7", 7, NULL},
        {"printf ' 12 '", 12, NULL},
        {"printf '\\n3\\n\\n'", 3, NULL},
        {"echo 0; exit 1", 0, NULL}, /* as grep -c does */
        {"printf '%s' \"$" HX_AUDIT_VALUE_VARIABLE "\" | wc -c", 5, NULL},
        {"cat; echo 2", 2, NULL}, /* nothing is on its standard input */
        {"echo many", -1, "'many'"},
        {"echo 1; echo 2", -1, "no number"},
        {"echo -1", -1, "'-1'"},
        {"echo 1.5", -1, "'1.5'"},
        {"echo 99999999999999999999", -1, "no number"},
        {"true", -1, "no number"},
        {"echo lost >&2; exit 3", -1, "lost"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t number = -1;
        char problem[200] = "";
        bool is_good =
            hx_audit_count(rows[i].command, "value", LONG_MS, &number, problem, sizeof(problem));
        if (is_good != (rows[i].says == NULL) || number != rows[i].number)
            fail_msg("%s: %lld, wanted %lld: %s", rows[i].command, (long long)number,
                     (long long)rows[i].number, problem);
        if (rows[i].says && strstr(problem, rows[i].says) == NULL)
            fail_msg("%s: '%s' does not say '%s'", rows[i].command, problem, rows[i].says);
    }
}

static void one_that_does_not_end_is_killed_with_what_it_started(void **state)
{
    (void)state;
    int64_t number;
    char problem[200] = "";
    struct hx_mono start = hx_mcp_now();
    assert_true(hx_offspring_adopt());
    assert_false(
        hx_audit_count("sleep 100 & sleep 100", "v", 200, &number, problem, sizeof(problem)));
    assert_non_null(strstr(problem, "did not end"));
    /* And one that ends and leaves something behind: the number stands, the rest goes. */
    assert_true(
        hx_audit_count("sleep 100 & echo 4", "v", LONG_MS, &number, problem, sizeof(problem)));
    assert_int_equal(number, 4);
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        ;
    assert_int_equal(errno, ECHILD);
    assert_true(hx_mono_since_ms(hx_mcp_now(), start) < LONG_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_whole_number_counts),
        cmocka_unit_test(one_that_does_not_end_is_killed_with_what_it_started),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
