/* SPDX-License-Identifier: MIT */
/* Ids and digests: their text forms and the known answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/digest.h"
#include "base/id.h"

static void ids_carry_their_time_and_sort_by_it(void **state)
{
    (void)state;
    const uint8_t random[10] = {0xff, 0xff, 0xff, 1, 2, 3, 4, 5, 6, 7};
    struct hx_id id = hx_id_make((struct hx_wall){1700000000123}, random);
    char text[HX_ID_TEXT_SIZE];
    hx_id_format(&id, text);
    assert_string_equal(text, "018bcfe5-687b-7fff-bf01-020304050607");
    struct hx_wall wall;
    assert_true(hx_id_time(&id, &wall));
    assert_int_equal(wall.ms, 1700000000123);
    struct hx_id later = hx_id_make((struct hx_wall){1700000000124}, random);
    assert_true(memcmp(&id, &later, sizeof(id)) < 0);
    assert_false(hx_id_eq(&id, &later));
    struct hx_id early = hx_id_make((struct hx_wall){-5}, random);
    assert_true(hx_id_time(&early, &wall));
    assert_int_equal(wall.ms, 0);
    id.bytes[6] = 0x40;
    assert_false(hx_id_time(&id, &wall));
    id.bytes[6] = 0x70;
    id.bytes[8] = 0xc0;
    assert_false(hx_id_time(&id, &wall));
}

static void ids_are_read_in_their_36_byte_form_only(void **state)
{
    (void)state;
    struct hx_id id;
    assert_true(hx_id_parse(HX_SPAN_LIT("018BCFE5-687b-7fff-bf01-020304050607"), &id));
    char text[HX_ID_TEXT_SIZE];
    hx_id_format(&id, text);
    assert_string_equal(text, "018bcfe5-687b-7fff-bf01-020304050607");
    static const char *const bad[] = {
        "",
        "018bcfe5-687b-7fff-bf01-02030405060",
        "018bcfe5-687b-7fff-bf01-0203040506070",
        "018bcfe5687b-7fff-bf01-0203040506070-",
        "018bcfe5-687b-7fff-bf01-02030405060g",
        "018bcfe5-687b-7fff-bf01+020304050607",
        "0-8bcfe5-687b-7fff-bf01-020304050607",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(hx_id_parse(hx_span_cstr(bad[i]), &id));
    assert_false(hx_id_is_nil(&id));
    assert_true(hx_id_parse(HX_SPAN_LIT("00000000-0000-0000-0000-000000000000"), &id));
    assert_true(hx_id_is_nil(&id));
}

static void digests_have_the_known_answers(void **state)
{
    (void)state;
    struct hx_hasher *hasher = hx_hasher_new();
    char hex[HX_DIGEST_HEX_SIZE];
    hx_hasher_begin(hasher);
    hx_hasher_add(hasher, HX_SPAN_LIT("a"));
    hx_hasher_add(hasher, HX_SPAN_LIT("bc"));
    struct hx_digest digest = hx_hasher_end(hasher);
    hx_digest_hex(&digest, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    hx_hasher_free(hasher);
    assert_null(hx_hasher_free(NULL));
}

static void fields_cannot_run_together(void **state)
{
    (void)state;
    struct hx_hasher *hasher = hx_hasher_new();
    const struct hx_span pairs[][2] = {
        {HX_SPAN_LIT("ab"), HX_SPAN_LIT("c")}, {HX_SPAN_LIT("a"), HX_SPAN_LIT("bc")},
        {HX_SPAN_LIT("abc"), HX_SPAN_LIT("")}, {HX_SPAN_LIT("abc"), HX_SPAN_NONE},
        {HX_SPAN_LIT(""), HX_SPAN_LIT("abc")},
    };
    struct hx_digest digests[5];
    for (int i = 0; i < 5; i++) {
        hx_hasher_begin(hasher);
        hx_hasher_add_field(hasher, pairs[i][0]);
        hx_hasher_add_field(hasher, pairs[i][1]);
        digests[i] = hx_hasher_end(hasher);
        for (int j = 0; j < i; j++)
            assert_false(hx_digest_eq(&digests[i], &digests[j]));
    }
    hx_hasher_free(hasher);
}

static void hex_is_read_exactly(void **state)
{
    (void)state;
    uint8_t bytes[3];
    assert_true(hx_hex_decode(HX_SPAN_LIT("00fFa9"), bytes, 3));
    assert_int_equal(bytes[1], 0xff);
    char text[7];
    hx_hex_encode(bytes, 3, text);
    assert_string_equal(text, "00ffa9");
    static const char *const bad[] = {"00ffa",  "00ffa9a", "00ffg0", "0Gffa9",
                                      "00f:a9", "00f/a9",  "00@fa9", "00`fa9"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(hx_hex_decode(hx_span_cstr(bad[i]), bytes, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_carry_their_time_and_sort_by_it),
        cmocka_unit_test(ids_are_read_in_their_36_byte_form_only),
        cmocka_unit_test(digests_have_the_known_answers),
        cmocka_unit_test(fields_cannot_run_together),
        cmocka_unit_test(hex_is_read_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
