/* SPDX-License-Identifier: MIT */
/*
 * What people and log readers see: tables keep their columns whatever stands in them, and a log
 * line is one line.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "app/log.h"
#include "app/nearest.h"
#include "app/table.h"

static void print(struct hx_table *table, size_t columns, bool has_color, char *text, size_t size)
{
    FILE *out = fmemopen(text, size, "w");
    assert_non_null(out);
    hx_table_print(table, out, (struct hx_table_options){columns, has_color});
    fclose(out);
}

static struct hx_table *sample(const char *tool)
{
    static const char *const titles[] = {"tool", ">count", "state"};
    struct hx_table *table = hx_table_new(titles, 3);
    hx_table_add(table, hx_span_cstr(tool), HX_CELL_PLAIN);
    hx_table_addf(table, HX_CELL_PLAIN, "%d", 12);
    hx_table_add(table, HX_SPAN_LIT("unknown"), HX_CELL_BAD);
    hx_table_add(table, HX_SPAN_LIT("x"), HX_CELL_PLAIN);
    hx_table_addf(table, HX_CELL_PLAIN, "%d", 1);
    hx_table_add(table, HX_SPAN_LIT("ok"), HX_CELL_GOOD);
    return table;
}

static void columns_line_up(void **state)
{
    char text[512];
    struct hx_table *table = sample("charge");
    (void)state;
    print(table, 0, false, text, sizeof(text));
    assert_string_equal(text, "tool    count  state\n"
                              "charge     12  unknown\n"
                              "x           1  ok\n");
    assert_int_equal(hx_table_row_count(table), 2);
    hx_table_free(table);

    /* Two columns for each of these two signs, one for the letter with its accent apart. */
    table = sample("\xe4\xbb\x98\xe6\xac\xbe"
                   "e\xcc\x81");
    print(table, 0, false, text, sizeof(text));
    assert_string_equal(text, "tool   count  state\n"
                              "\xe4\xbb\x98\xe6\xac\xbe"
                              "e\xcc\x81     12  unknown\n"
                              "x          1  ok\n");
    hx_table_free(table);
}

static void too_wide_is_cut_at_a_sign(void **state)
{
    char text[512];
    struct hx_table *table = sample("a_tool_with_a_long_name");
    (void)state;
    print(table, 24, false, text, sizeof(text));
    assert_string_equal(text, "tool      count  state\n"
                              "a_tool_\xe2\x80\xa6     12  unknown\n"
                              "x             1  ok\n");
    hx_table_free(table);
    assert_int_equal(hx_text_fit(HX_SPAN_LIT("\xe4\xbb\x98\xe6\xac\xbe"), 3), 3);
}

static void nothing_moves_the_cursor(void **state)
{
    char text[512];
    struct hx_table *table = sample("a\033[2Jb\xff\xc2\x9b\n");
    (void)state;
    print(table, 0, false, text, sizeof(text));
    assert_non_null(strstr(text, "a?[2Jb???  "));
    hx_table_free(table);
}

static void colour_only_when_asked(void **state)
{
    char text[512];
    struct hx_table *table = sample("charge");
    (void)state;
    print(table, 0, true, text, sizeof(text));
    assert_non_null(strstr(text, "\033[1;31munknown\033[0m\n"));
    hx_table_free(table);
}

static size_t read_file(const char *path, char *text, size_t size)
{
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    size_t len = fread(text, 1, size - 1, in);
    text[len] = '\0';
    fclose(in);
    return len;
}

static void a_log_line_is_one_line(void **state)
{
    char path[] = "hapax-test-log-XXXXXX";
    char text[8192];
    struct stat info;
    struct hx_log_line line;
    (void)state;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    unlink(path);
    struct hx_log_options options = {HX_LOG_INFO, path};
    assert_int_equal(hx_log_open(&options), 0);
    hx_log_begin(&line, HX_LOG_INFO, "attempt");
    hx_log_cstr(&line, "tool", "a b\"\n");
    hx_log_number(&line, "attempt", 2);
    hx_log_key(&line, "key", HX_SPAN_LIT("secret-key"));
    hx_log_end(&line);
    hx_log_begin(&line, HX_LOG_DEBUG, "step");
    hx_log_end(&line);
    size_t len = read_file(path, text, sizeof(text));
    assert_non_null(strstr(text, " level=info event=attempt tool=\"a b\\\"\\x0a\" attempt=2 key="));
    assert_null(strstr(text, "secret"));
    assert_null(strstr(text, "step"));
    assert_ptr_equal(strchr(text, '\n'), text + len - 1);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);

    /* Too much for a line is cut and marked, and still one line. */
    hx_log_begin(&line, HX_LOG_ERROR, "long");
    for (int i = 0; i < 100; i++)
        hx_log_cstr(&line, "filler", "0123456789012345678901234567890123456789");
    hx_log_end(&line);
    size_t longer = read_file(path, text, sizeof(text));
    assert_true(longer - len < HX_LOG_LINE_MAX);
    assert_string_equal(text + longer - 4, "...\n");
    hx_log_close();
    unlink(path);
}

static void slips_of_the_finger(void **state)
{
    static const char *const names[] = {"repeat", "repeat_window", "retention", "timeout"};
    (void)state;
    assert_string_equal(hx_nearest(HX_SPAN_LIT("repaet"), names, 4), "repeat");
    assert_string_equal(hx_nearest(HX_SPAN_LIT("repeat-windw"), names, 4), "repeat_window");
    assert_string_equal(hx_nearest(HX_SPAN_LIT("Timeout"), names, 4), "timeout");
    assert_null(hx_nearest(HX_SPAN_LIT("xyz"), names, 4));
    assert_null(hx_nearest(HX_SPAN_LIT(""), names, 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_line_up),          cmocka_unit_test(too_wide_is_cut_at_a_sign),
        cmocka_unit_test(nothing_moves_the_cursor), cmocka_unit_test(colour_only_when_asked),
        cmocka_unit_test(a_log_line_is_one_line),   cmocka_unit_test(slips_of_the_finger),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
