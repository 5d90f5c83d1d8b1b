/* SPDX-License-Identifier: MIT */
/*
 * The names that are kept beside a ledger: what one process was told, the next one knows; and what
 * cannot be read is a fault, never "nothing is to be hidden".
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/redaction.h"
#include "base/fault.h"
#include "tests/kit/text_kit.h"

static char directory[64];
static char ledger[80];
static char path[96];

static int begin(void **state)
{
    (void)state;
    snprintf(directory, sizeof(directory), "/tmp/hapax-redaction-XXXXXX");
    assert_non_null(mkdtemp(directory));
    snprintf(ledger, sizeof(ledger), "%s/ledger.db", directory);
    snprintf(path, sizeof(path), "%s-redact", ledger);
    return 0;
}

static int end(void **state)
{
    (void)state;
    (void)unlink(path);
    (void)rmdir(path);
    return rmdir(directory);
}

static void write_file(const char *text, int flags)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static struct hx_span read_file(void)
{
    static char text[8192];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    ssize_t len = read(fd, text, sizeof(text));
    close(fd);
    assert_true(len >= 0);
    return hx_span(text, (size_t)len);
}

/* Keeps these, and says what is known then: "a b c". `names` ends with NULL. */
static const char *keep(const char *const *names)
{
    static char known[4096];
    struct hx_redaction redaction;
    size_t len = 0;
    hx_redaction_init(&redaction);
    for (; *names; names++)
        assert_int_equal(hx_redaction_add(&redaction, hx_span_cstr(*names)), 0);
    known[0] = '\0';
    if (hx_redaction_keep(&redaction, ledger) < 0)
        len = (size_t)snprintf(known, sizeof(known), "fault: %s", hx_fault_last()->text);
    else
        for (size_t i = 0; i < redaction.names.count; i++)
            len += (size_t)snprintf(known + len, sizeof(known) - len, "%s%.*s", i > 0 ? " " : "",
                                    HX_SPAN_FMT(redaction.names.items[i]));
    assert_true(len < sizeof(known));
    hx_redaction_fini(&redaction);
    return known;
}

#define KEEP(...) keep((const char *const[]){__VA_ARGS__})

static void one_is_told_and_all_know(void **state)
{
    struct stat info;
    (void)state;
    assert_string_equal(KEEP(NULL), "");
    assert_int_equal(access(path, F_OK), -1); /* who names nothing makes no file */
    assert_string_equal(KEEP("password", "api_key", "PassWord", NULL), "password api_key");
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_string_equal(KEEP(NULL), "password api_key");
    assert_string_equal(KEEP("iban", "apiKey", NULL), "iban apiKey password");
    struct hx_span text = read_file();
    assert_true(hx_span_starts_with(text, HX_SPAN_LIT("# ")));
    assert_true(hx_span_contains(text, HX_SPAN_LIT("\npassword\napi_key\niban\n")));
    assert_string_equal(KEEP("iban", NULL), "iban password api_key");
    assert_true(hx_span_eq(read_file(), text));
}

static void lines_of_people_and_torn_ones(void **state)
{
    (void)state;
    write_file("\n# a note\r\n  \npassword \r\ncard number\ntok", O_TRUNC);
    assert_string_equal(KEEP(NULL), "password card number tok");
    assert_string_equal(KEEP("iban", NULL), "iban password card number tok");
    assert_true(hx_span_contains(read_file(), HX_SPAN_LIT("\ntok\niban\n")));
}

static void what_cannot_be_read_is_a_fault(void **state)
{
    (void)state;
    write_file("password\n*key*\n", O_TRUNC);
    assert_non_null(strstr(KEEP(NULL), "line 2"));
    assert_non_null(strstr(KEEP("iban", NULL), "line 2"));
    assert_span_equal(read_file(), "password\n*key*\n");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_non_null(strstr(KEEP(NULL), "fault: cannot read"));
    assert_non_null(strstr(KEEP("iban", NULL), "fault: cannot write"));
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(symlink("/dev/null", path), 0);
    assert_non_null(strstr(KEEP(NULL), "fault: cannot read"));
    assert_int_equal(unlink(path), 0);
    write_file("", O_TRUNC);
    assert_int_equal(truncate(path, 65537), 0);
    assert_non_null(strstr(KEEP(NULL), "larger than 65536 bytes"));
}

static void there_is_a_most(void **state)
{
    struct hx_redaction redaction;
    char name[16];
    (void)state;
    write_file("", O_TRUNC);
    for (int i = 0; i <= HX_REDACTION_NAMES_MAX; i++) {
        snprintf(name, sizeof(name), "n%d\n", i);
        write_file(name, O_APPEND);
    }
    assert_non_null(strstr(KEEP(NULL), "more than 256 names"));
    hx_redaction_init(&redaction);
    for (int i = 0; i < HX_REDACTION_NAMES_MAX; i++) {
        snprintf(name, sizeof(name), "m%d", i);
        assert_int_equal(hx_redaction_add(&redaction, hx_span_cstr(name)), 0);
    }
    assert_int_equal(hx_redaction_add(&redaction, HX_SPAN_LIT("M0")), 0);
    assert_true(hx_redaction_add(&redaction, HX_SPAN_LIT("m256")) < 0);
    hx_redaction_fini(&redaction);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_is_told_and_all_know, begin, end),
        cmocka_unit_test_setup_teardown(lines_of_people_and_torn_ones, begin, end),
        cmocka_unit_test_setup_teardown(what_cannot_be_read_is_a_fault, begin, end),
        cmocka_unit_test_setup_teardown(there_is_a_most, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
