/* SPDX-License-Identifier: MIT */
/*
 * The file of secrets: what it may hold, how it is exchanged, and what is signed by it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/http_client/secrets.h"
#include "base/fault.h"

static char path[64];

static void write_file(const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static void sign(const struct hx_http_secrets *secrets, struct hx_buf *out)
{
    hx_buf_init(out, 1024);
    assert_int_equal(hx_http_secrets_sign(secrets, HX_SPAN_LIT("msg_p5jXN8AQM9LWM0D4loKWxJek"),
                                          HX_SPAN_LIT("1614265330"),
                                          HX_SPAN_LIT("{\"test\": 2432232314}"), out),
                     0);
}

/* The example that the Standard Webhooks give. */
static void signs_as_others_do(void **state)
{
    (void)state;
    struct hx_http_secrets secrets;
    struct hx_buf out;
    write_file("# exchanged in May\n\nwhsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\r\n");
    hx_http_secrets_init(&secrets, path);
    assert_int_equal(hx_http_secrets_refresh(&secrets), 0);
    sign(&secrets, &out);
    assert_true(
        hx_span_eq_cstr(hx_buf_span(&out), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="));
    hx_buf_fini(&out);
    hx_http_secrets_fini(&secrets);
}

static void every_line_signs_and_a_change_is_seen(void **state)
{
    (void)state;
    struct hx_http_secrets secrets;
    struct hx_buf one, two;
    write_file("a-secret-of-some-length\n");
    hx_http_secrets_init(&secrets, path);
    assert_int_equal(hx_http_secrets_refresh(&secrets), 0);
    sign(&secrets, &one);
    write_file("another-one-of-some-length\na-secret-of-some-length");
    assert_int_equal(hx_http_secrets_refresh(&secrets), 0);
    assert_int_equal(secrets.count, 2);
    sign(&secrets, &two);
    assert_int_equal(two.len, 2 * one.len + 1);
    assert_memory_equal(two.data + one.len + 1, one.data, one.len);
    /* Half an exchange: the last good ones count on. */
    write_file("short");
    assert_int_equal(hx_http_secrets_refresh(&secrets), 0);
    assert_int_equal(secrets.count, 2);
    unlink(path);
    assert_int_equal(hx_http_secrets_refresh(&secrets), 0);
    assert_int_equal(secrets.count, 2);
    hx_buf_fini(&one);
    hx_buf_fini(&two);
    hx_http_secrets_fini(&secrets);
}

static void what_is_no_secret_is_refused(void **state)
{
    (void)state;
    static char long_line[HX_HTTP_SECRET_MAX + 2];
    memset(long_line, 'a', sizeof(long_line) - 1);
    const char *const texts[] = {"",
                                 "# nothing but words\n",
                                 "too-short\n",
                                 "whsec_c2hvcnQ=\n",
                                 "whsec_no base64 at all, however long\n",
                                 long_line,
                                 "aaaaaaaaaaaaaaaa\nbbbbbbbbbbbbbbbb\ncccccccccccccccc\n"
                                 "dddddddddddddddd\neeeeeeeeeeeeeeee\n"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct hx_http_secrets secrets;
        write_file(texts[i]);
        hx_http_secrets_init(&secrets, path);
        assert_true(hx_http_secrets_refresh(&secrets) < 0);
        /* What it says is for people, and holds nothing of the file. */
        assert_non_null(strstr(hx_fault_last()->text, path));
        assert_null(strstr(hx_fault_last()->text, "too-short"));
        hx_http_secrets_fini(&secrets);
    }
}

static void no_file_signs_nothing(void **state)
{
    (void)state;
    struct hx_http_secrets secrets;
    struct hx_buf out;
    hx_http_secrets_init(&secrets, NULL);
    assert_int_equal(hx_http_secrets_refresh(&secrets), 0);
    sign(&secrets, &out);
    assert_int_equal(out.len, 0);
    hx_buf_fini(&out);
    hx_http_secrets_fini(&secrets);
}

int main(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(path, sizeof(path), "%.30s/hapax-secrets-XXXXXX", base != NULL ? base : "/tmp");
    int fd = mkstemp(path);
    if (fd < 0)
        return 1;
    close(fd);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signs_as_others_do),
        cmocka_unit_test(every_line_signs_and_a_change_is_seen),
        cmocka_unit_test(what_is_no_secret_is_refused),
        cmocka_unit_test(no_file_signs_nothing),
    };
    int rc = cmocka_run_group_tests_name("http secrets", tests, NULL, NULL);
    unlink(path);
    return rc;
}
