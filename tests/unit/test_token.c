/* SPDX-License-Identifier: MIT */
/*
 * Bearer tokens: made, hashed, found, and what they open.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "app/admin_token.h"
#include "app/config.h"
#include "app/token.h"

static uint8_t fill_byte;

static void fill(struct hx_rand *rand, uint8_t *ret_bytes, size_t len)
{
    (void)rand;
    memset(ret_bytes, fill_byte, len);
}

/* Base64url of 32 bytes, without padding. */
static void made_of_256_bits(void **state)
{
    struct hx_rand rand = {.fill = fill};
    char token[HX_TOKEN_SIZE];
    (void)state;
    fill_byte = 0xff;
    hx_token_make(&rand, token);
    assert_string_equal(token, "hpx_"
                               "__________________________________________8");
    fill_byte = 0x00;
    hx_token_make(&rand, token);
    assert_string_equal(token, "hpx_"
                               "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    fill_byte = 0xa5;
    hx_token_make(&rand, token);
    assert_string_equal(token, "hpx_"
                               "paWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaU");
    assert_true(hx_token_is_good(hx_span_cstr(token)));
}

static void what_can_be_a_token(void **state)
{
    (void)state;
    assert_true(hx_token_is_good(HX_SPAN_LIT("0123456789abcdef.~+/")));
    assert_false(hx_token_is_good(HX_SPAN_LIT("0123456789abcdef.~+")));
    assert_false(hx_token_is_good(HX_SPAN_LIT("0123456789 abcdef.~+/")));
    assert_false(hx_token_is_good(HX_SPAN_LIT("0123456789\xc3\xa9"
                                              "abcdef.~+/")));
    assert_true(hx_span_eq_cstr(hx_token_trim(HX_SPAN_LIT(" \r\na b\t\n")), "a b"));
    assert_int_equal(hx_token_trim(HX_SPAN_LIT(" \n")).len, 0);
}

static void load(struct hx_config *config, const char *text)
{
    struct hx_complaint complaint;
    hx_config_init(config);
    if (hx_config_parse(config, "f", hx_span_cstr(text), &complaint) != 0 ||
        hx_config_check(config, &complaint) != 0)
        fail_msg("refused: %s", complaint.text);
}

/* Each of many is found by exactly its own text, and tells who came. */
static void found_by_its_own_text(void **state)
{
    enum { COUNT = 40 };
    char text[COUNT * 160];
    char token[64];
    char hex[HX_DIGEST_HEX_SIZE];
    struct hx_hasher *hasher = hx_hasher_new();
    struct hx_config config;
    (void)state;
    size_t used = (size_t)snprintf(text, sizeof(text), "upstreams: {a: {command: x}}\ntokens:\n");
    for (int i = 0; i < COUNT; i++) {
        snprintf(token, sizeof(token), "hpx_token-of-principal-%d", i);
        struct hx_digest hash = hx_token_hash(hasher, hx_span_cstr(token));
        hx_digest_hex(&hash, hex);
        used += (size_t)snprintf(text + used, sizeof(text) - used,
                                 "  p%d: {sha256: %s, tenant: t%d}\n", i, hex, i % 3);
    }
    hx_hasher_free(hasher);
    load(&config, text);
    assert_int_equal(config.token_count, COUNT);
    for (int i = 0; i < COUNT; i++) {
        char name[16];
        snprintf(token, sizeof(token), "hpx_token-of-principal-%d", i);
        snprintf(name, sizeof(name), "p%d", i);
        const struct hx_config_token *found = hx_tokens_find(&config, hx_span_cstr(token));
        assert_non_null(found);
        assert_string_equal(found->principal, name);
        snprintf(name, sizeof(name), "t%d", i % 3);
        assert_string_equal(found->tenant, name);
        token[4] ^= 1;
        assert_null(hx_tokens_find(&config, hx_span_cstr(token)));
    }
    assert_null(hx_tokens_find(&config, HX_SPAN_LIT("")));
    assert_null(hx_tokens_find(&config, hx_span_cstr("hpx_token-of-principal-")));
    hx_config_fini(&config);
    hx_config_init(&config);
    assert_null(hx_tokens_find(&config, HX_SPAN_LIT("hpx_token-of-principal-1")));
    hx_config_fini(&config);
}

static void digests_differ_at_any_byte(void **state)
{
    (void)state;
    struct hx_digest a = {{0}};
    assert_int_equal(hx_digest_eq_secret(&a, &a), 1);
    for (size_t i = 0; i < HX_DIGEST_SIZE; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            struct hx_digest b = a;
            b.bytes[i] ^= (uint8_t)(1u << bit);
            assert_int_equal(hx_digest_eq_secret(&a, &b), 0);
        }
    }
}

static void opens_what_it_names(void **state)
{
    struct hx_config config;
    (void)state;
    load(&config,
         "upstreams: {a: {command: x}, b: {command: y}}\n"
         "tokens:\n"
         "  all: {sha256: "
         "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855}\n"
         "  one: {sha256: "
         "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae, servers: b}\n"
         "  none: {sha256: "
         "fcde2b2edba56bf408601fb721fe9b5c338d10ee429ea04fae5511b68fbf8fb9, servers: []}\n");
    assert_true(hx_token_opens(&config.tokens[0], "a"));
    assert_false(hx_token_opens(&config.tokens[1], "a"));
    assert_true(hx_token_opens(&config.tokens[1], "b"));
    assert_false(hx_token_opens(&config.tokens[2], "b"));
    hx_config_fini(&config);
}

/* A token may stand in a file of its own, with a newline behind it. */
static void out_of_a_file(void **state)
{
    char path[] = "/tmp/hapax-test-token-XXXXXX";
    char text[256];
    struct hx_config config;
    (void)state;
    int fd = mkostemp(path, O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "hpx_from-a-file-00001\n", 22), 22);
    close(fd);
    snprintf(text, sizeof(text), "upstreams: {a: {command: x}}\ntokens: {ci: {token_file: %s}}\n",
             path);
    load(&config, text);
    unlink(path);
    const struct hx_config_token *found =
        hx_tokens_find(&config, HX_SPAN_LIT("hpx_from-a-file-00001"));
    assert_non_null(found);
    assert_string_equal(found->principal, "ci");
    assert_string_equal(found->tenant, HX_TENANT_DEFAULT);
    hx_config_fini(&config);
}

static void admin_tokens_are_names_and_hashes(void **state)
{
    (void)state;
    static const char hex[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    static const char *const bad[] = {
        "ann",      "ann:",          ":%s",           "a b:%s",
        "ann:%sff", "ann:%s,ann:%s", "ann:%s bob:%s", "hpx_secretsecretsecretsecret"};
    struct hx_admin_tokens tokens;
    struct hx_complaint complaint;
    struct hx_hasher *hasher = hx_hasher_new();
    char text[512], digest[HX_DIGEST_HEX_SIZE];
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(text, sizeof(text), bad[i], hex, hex);
        assert_int_equal(hx_admin_tokens_read(text, &tokens, &complaint), 1);
        assert_null(strstr(complaint.text, "secretsecret"));
    }
    struct hx_digest hash = hx_token_hash(hasher, HX_SPAN_LIT("hpx_one"));
    hx_digest_hex(&hash, digest);
    snprintf(text, sizeof(text), "ann:%s, bob@x:%s", hex, digest);
    assert_int_equal(hx_admin_tokens_read(text, &tokens, &complaint), 0);
    assert_int_equal(tokens.count, 2);
    assert_string_equal(hx_admin_tokens_find(&tokens, hasher, HX_SPAN_LIT("hpx_one")), "bob@x");
    assert_null(hx_admin_tokens_find(&tokens, hasher, HX_SPAN_LIT("hpx_two")));
    assert_null(hx_admin_tokens_find(&tokens, hasher, HX_SPAN_LIT("")));
    hx_hasher_free(hasher);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(admin_tokens_are_names_and_hashes),
        cmocka_unit_test(made_of_256_bits),
        cmocka_unit_test(what_can_be_a_token),
        cmocka_unit_test(found_by_its_own_text),
        cmocka_unit_test(digests_differ_at_any_byte),
        cmocka_unit_test(opens_what_it_names),
        cmocka_unit_test(out_of_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
