/* SPDX-License-Identifier: MIT */
/* Claims and what they answer, in one process. */
#include "lib_kit.h"

#include <malloc.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void a_finished_call_is_replayed_byte_for_byte(void **state)
{
    struct bench *bench = *state;
    static const char outcome[] = "{\"n\":9007199254740993,\"x\":\"\\u00e9\0\"}";
    struct hapax_call *call = claim(bench, "order-1", HAPAX_RUN);
    char effect_key[40];
    snprintf(effect_key, sizeof(effect_key), "%s", info_of(call).effect_key);
    assert_int_equal(info_of(call).attempt, 1);
    assert_int_equal(strlen(effect_key), 36);
    assert_ok(bench, hapax_finish(call, NULL, outcome, sizeof(outcome), 1, &bench->error));
    hapax_call_free(call);

    for (int again = 0; again < 2; again++) {
        call = claim(bench, "order-1", HAPAX_REPLAY);
        struct hapax_info info = info_of(call);
        assert_int_equal(info.outcome_size, sizeof(outcome));
        assert_memory_equal(info.outcome, outcome, sizeof(outcome));
        assert_int_equal(info.is_error, 1);
        assert_int_equal(info.is_reconstructed, 0);
        assert_string_equal(info.effect_key, effect_key);
        hapax_call_free(call);
        if (again == 0) {
            bench_close(bench);
            bench_open(bench);
        }
    }
}

static void a_large_outcome_is_replayed(void **state)
{
    struct bench *bench = *state;
    size_t size = 3 * 1024 * 1024;
    char *outcome = malloc(size);
    assert_non_null(outcome);
    for (size_t i = 0; i < size; i++)
        outcome[i] = (char)(i * 7 + i / 251);
    struct hapax_call *call = claim(bench, "large", HAPAX_RUN);
    assert_ok(bench, hapax_finish(call, NULL, outcome, size, 0, &bench->error));
    hapax_call_free(call);
    call = claim(bench, "large", HAPAX_REPLAY);
    assert_int_equal(info_of(call).outcome_size, size);
    assert_memory_equal(info_of(call).outcome, outcome, size);
    hapax_call_free(call);
    free(outcome);
}

static void an_outcome_too_large_to_keep_is_told_as_gone(void **state)
{
    struct bench *bench = *state;
    size_t size = 64 * 1024 * 1024 + 1;
    char *outcome = calloc(1, size);
    assert_non_null(outcome);
    struct hapax_call *call = claim(bench, "huge", HAPAX_RUN);
    assert_ok(bench, hapax_finish(call, NULL, outcome, size, 0, &bench->error));
    hapax_call_free(call);
    free(outcome);
    call = claim(bench, "huge", HAPAX_GONE);
    assert_string_equal(info_of(call).code, "RESULT_UNAVAILABLE");
    assert_int_equal(info_of(call).is_new_key_allowed, 0);
    hapax_call_free(call);
}

static void whoever_comes_while_it_runs_hears_busy(void **state)
{
    struct bench *bench = *state;
    struct hapax_call *call = claim(bench, "order-2", HAPAX_RUN);
    struct hapax_call *second = claim(bench, "order-2", HAPAX_BUSY);
    struct hapax_info info = info_of(second);
    assert_string_equal(info.code, "BUSY");
    assert_int_equal(info.owner_pid, getpid());
    assert_int_equal(strlen(info.owner), 36);
    assert_true(info.retry_after_ms > 0);
    assert_int_equal(info.is_new_key_allowed, 0);
    hapax_call_free(second);
    finish(bench, call, NULL, "done");
    hapax_call_free(call);
    hapax_call_free(claim(bench, "order-2", HAPAX_REPLAY));
}

static void another_ones_arguments_or_principal_are_a_conflict(void **state)
{
    struct bench *bench = *state;
    struct hapax_call *call = claim(bench, "order-3", HAPAX_RUN);
    struct hapax_request request;
    hapax_request_init(&request);
    request.tool = "charge";
    request.key = "order-3";
    request.arguments = "{\"amount\": 2}";
    request.arguments_size = strlen(request.arguments);
    struct hapax_call *other = NULL;
    assert_int_equal(hapax_claim(bench->hapax, NULL, &request, &other, NULL), HAPAX_CONFLICT);
    assert_string_equal(info_of(other).code, "KEY_CONFLICT");
    assert_string_equal(info_of(other).id, "");
    hapax_call_free(other);
    request.arguments = "{ \"amount\" : 1e0 }"; /* equal, in other words */
    request.arguments_size = strlen(request.arguments);
    request.principal = "mallory";
    assert_int_equal(hapax_claim(bench->hapax, NULL, &request, &other, NULL), HAPAX_CONFLICT);
    hapax_call_free(other);
    request.principal = NULL;
    assert_int_equal(hapax_claim(bench->hapax, NULL, &request, &other, NULL), HAPAX_BUSY);
    hapax_call_free(other);
    hapax_call_free(call);
}

static void one_that_was_never_finished_is_unknown(void **state)
{
    struct bench *bench = *state;
    struct hapax_call *call = claim(bench, "order-4", HAPAX_RUN);
    assert_ok(bench, hapax_receipt(call, NULL, "payment 77", &bench->error));
    hapax_call_free(call);
    call = claim(bench, "order-4", HAPAX_UNKNOWN);
    struct hapax_info info = info_of(call);
    assert_string_equal(info.code, "OUTCOME_UNKNOWN");
    assert_string_equal(info.receipt, "payment 77");
    assert_int_equal(info.may, HAPAX_MAY_FIND | HAPAX_MAY_ASK);
    assert_non_null(strstr(info.text, "hapax ops resolve "));
    assert_non_null(strstr(info.text, info.id));
    assert_non_null(strstr(info.text, bench->path));
    assert_int_equal(info.is_new_key_allowed, 0);

    assert_int_equal(hapax_absent(call, NULL, &bench->error), HAPAX_E_STATE);
    assert_non_null(strstr(bench->error.text, "in_flight_bound_ms"));
    assert_ok(bench, hapax_happened(call, NULL, "found", 5, 0, &bench->error));
    hapax_call_free(call);
    call = claim(bench, "order-4", HAPAX_REPLAY);
    assert_int_equal(info_of(call).is_reconstructed, 1);
    assert_memory_equal(info_of(call).outcome, "found", 5);
    hapax_call_free(call);
}

static struct hapax_contract contract_of(int tool_class)
{
    struct hapax_contract contract;
    hapax_contract_init(&contract);
    contract.tool_class = tool_class;
    return contract;
}

static void a_keyed_one_runs_again_under_the_same_effect_key(void **state)
{
    struct bench *bench = *state;
    struct hapax_contract contract = contract_of(HAPAX_KEYED);
    contract.dedupe_horizon_ms = 24 * 60 * 60 * 1000;
    struct hapax_call *call = claim_as(bench, NULL, "keyed", &contract, HAPAX_RUN);
    char effect_key[40];
    snprintf(effect_key, sizeof(effect_key), "%s", info_of(call).effect_key);
    assert_ok(bench, hapax_receipt(call, NULL, "sent to bank", &bench->error));
    assert_ok(bench, hapax_lost(call, NULL, &bench->error));
    hapax_call_free(call);
    call = claim_as(bench, NULL, "keyed", &contract, HAPAX_RUN);
    assert_string_equal(info_of(call).effect_key, effect_key);
    assert_int_equal(info_of(call).attempt, 2);
    assert_string_equal(info_of(call).receipt, "sent to bank");
    finish(bench, call, NULL, "paid");
    hapax_call_free(call);
}

static void an_undeclared_horizon_allows_no_second_attempt(void **state)
{
    struct bench *bench = *state;
    struct hapax_contract contract = contract_of(HAPAX_KEYED);
    hapax_call_free(claim_as(bench, NULL, "short", &contract, HAPAX_RUN));
    hapax_call_free(claim_as(bench, NULL, "short", &contract, HAPAX_UNKNOWN));
}

static void attempts_end(void **state)
{
    struct bench *bench = *state;
    struct hapax_contract contract = contract_of(HAPAX_IDEMPOTENT);
    contract.attempts_max = 3;
    for (int attempt = 0; attempt < 3; attempt++)
        hapax_call_free(claim_as(bench, NULL, "again", &contract, HAPAX_RUN));
    hapax_call_free(claim_as(bench, NULL, "again", &contract, HAPAX_UNKNOWN));
}

/* What is counted of earlier attempts has sixteen bits: past that "none may have acted" would be
 * believed of many that may. */
static void attempts_beyond_what_is_counted_are_refused(void **state)
{
    struct bench *bench = *state;
    struct hapax_contract contract = contract_of(HAPAX_IDEMPOTENT);
    contract.attempts_max = 65536;
    assert_int_equal(verdict_of(bench, bench->hapax, "many", &contract), HAPAX_E_MISUSE);
    assert_non_null(strstr(bench->error.text, "65535"));
    contract.attempts_max = 65535;
    assert_int_equal(verdict_of(bench, bench->hapax, "many", &contract), HAPAX_RUN);
}

static void what_was_given_back_or_refused_for_now_runs_again(void **state)
{
    struct bench *bench = *state;
    struct hapax_call *call = claim(bench, "back", HAPAX_RUN);
    assert_ok(bench, hapax_give_back(call, NULL, &bench->error));
    assert_int_equal(hapax_finish(call, NULL, "x", 1, 0, &bench->error), HAPAX_E_STATE);
    hapax_call_free(call);
    call = claim(bench, "back", HAPAX_RUN);
    assert_ok(bench, hapax_refuse(call, NULL, 60000, &bench->error));
    hapax_call_free(call);
    call = claim(bench, "back", HAPAX_BUSY);
    assert_in_range(info_of(call).retry_after_ms, 50000, 60000);
    hapax_call_free(call);

    call = claim(bench, "soon", HAPAX_RUN);
    assert_ok(bench, hapax_refuse(call, NULL, 0, &bench->error));
    hapax_call_free(call);
    hapax_call_free(claim(bench, "soon", HAPAX_RUN));
}

static void what_was_refused_for_good_failed(void **state)
{
    struct bench *bench = *state;
    struct hapax_call *call = claim(bench, "never", HAPAX_RUN);
    assert_ok(bench, hapax_refuse(call, NULL, -1, &bench->error));
    hapax_call_free(call);
    call = claim(bench, "never", HAPAX_REFUSED);
    assert_string_equal(info_of(call).code, "FAILED");
    assert_int_equal(info_of(call).is_new_key_allowed, 1);
    hapax_call_free(call);
}

/* Attempt 1 may have acted, so that a refusal of attempt 2 proves nothing. */
static void a_later_refusal_is_no_proof(void **state)
{
    struct bench *bench = *state;
    struct hapax_contract contract = contract_of(HAPAX_IDEMPOTENT);
    hapax_call_free(claim_as(bench, NULL, "twice", &contract, HAPAX_RUN));
    struct hapax_call *call = claim_as(bench, NULL, "twice", &contract, HAPAX_RUN);
    assert_ok(bench, hapax_refuse(call, NULL, -1, &bench->error));
    hapax_call_free(call);
    assert_int_not_equal(verdict_of(bench, bench->hapax, "twice", &contract), HAPAX_REFUSED);
}

static void keys_that_are_none_are_refused(void **state)
{
    struct bench *bench = *state;
    static const char *const bad[] = {
        "", "null", "aaaa", "with space", "\x80\x80z", "00000000-0000-0000-0000-000000000000"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct hapax_call *call = claim(bench, bad[i], HAPAX_REFUSED);
        assert_string_equal(info_of(call).code, "KEY_INVALID");
        hapax_call_free(call);
    }
    struct hapax_call *call = claim(bench, NULL, HAPAX_REFUSED);
    assert_string_equal(info_of(call).code, "KEY_REQUIRED");
    hapax_call_free(call);
    /* A UUIDv7 of the year 2200. */
    call = claim(bench, "06988ad3-a800-7000-8000-0123456789ab", HAPAX_REFUSED);
    assert_string_equal(info_of(call).code, "KEY_INVALID");
    hapax_call_free(call);
}

static void misuse_is_told(void **state)
{
    struct bench *bench = *state;
    struct hapax_request request = {0};
    struct hapax_call *call = NULL;
    assert_int_equal(hapax_claim(bench->hapax, NULL, &request, &call, &bench->error),
                     HAPAX_E_MISUSE);
    hapax_request_init(&request);
    assert_int_equal(hapax_claim(bench->hapax, NULL, &request, &call, &bench->error),
                     HAPAX_E_MISUSE);
    request.tool = "charge";
    request.key = "json";
    request.arguments = "{\"a\":1,\"a\":2}";
    request.arguments_size = strlen(request.arguments);
    assert_int_equal(hapax_claim(bench->hapax, NULL, &request, &call, &bench->error),
                     HAPAX_E_MISUSE);
    assert_int_equal(bench->error.code, HAPAX_E_MISUSE);
    assert_int_equal(hapax_claim(NULL, NULL, &request, &call, NULL), HAPAX_E_MISUSE);
    struct hapax_contract contract = contract_of(77);
    request.arguments_size = 0;
    request.arguments = NULL;
    request.contract = &contract;
    assert_int_equal(hapax_claim(bench->hapax, NULL, &request, &call, NULL), HAPAX_E_MISUSE);

    struct hapax_call *open = claim(bench, "open", HAPAX_RUN);
    assert_int_equal(hapax_close(bench->hapax, &bench->error), HAPAX_E_MISUSE);
    assert_int_equal(hapax_receipt(open, NULL, "two\nlines", &bench->error), HAPAX_E_MISUSE);
    assert_int_equal(hapax_happened(open, NULL, "x", 1, 0, &bench->error), HAPAX_E_STATE);
    assert_int_equal(hapax_finish(open, NULL, NULL, 1, 0, &bench->error), HAPAX_E_MISUSE);
    finish(bench, open, NULL, "");
    hapax_call_free(open);
    hapax_call_free(claim(bench, "open", HAPAX_REPLAY));
}

static void a_forked_child_is_turned_away(void **state)
{
    struct bench *bench = *state;
    pid_t pid = fork();
    if (pid == 0) {
        struct hapax_request request;
        struct hapax_call *call = NULL;
        (void)alarm(20); /* nobody would answer it */
        hapax_request_init(&request);
        request.tool = "charge";
        request.key = "child";
        _exit(hapax_claim(bench->hapax, NULL, &request, &call, NULL) == HAPAX_E_MISUSE ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    hapax_call_free(claim(bench, "child", HAPAX_RUN));
}

static void an_older_info_struct_is_not_overrun(void **state)
{
    struct bench *bench = *state;
    struct hapax_call *call = claim(bench, "small", HAPAX_RUN);
    struct {
        struct hapax_info info;
    } room;
    memset(&room, 0x55, sizeof(room));
    room.info.size = offsetof(struct hapax_info, text);
    hapax_call_info(call, &room.info);
    assert_int_equal(room.info.verdict, HAPAX_RUN);
    assert_int_equal(((unsigned char *)&room.info.text)[0], 0x55);
    finish(bench, call, NULL, "x");
    hapax_call_free(call);
}

static void delivery_is_kept_for_people(void **state)
{
    struct bench *bench = *state;
    struct hapax_call *call = claim(bench, "sent", HAPAX_RUN);
    finish(bench, call, NULL, "x");
    assert_ok(bench, hapax_delivered(call, 1, &bench->error));
    hapax_call_free(call);
    bench_close(bench);
    assert_int_equal(ledger_number(bench, "SELECT sent_count FROM op"), 1);
    assert_int_equal(ledger_number(bench, "SELECT hot FROM op"), 0);
    bench_open(bench);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void a_claim_may_wait_and_no_longer(void **state)
{
    struct bench *bench = *state;
    struct hapax_call *call = claim(bench, "waited", HAPAX_RUN);
    struct hapax_request request;
    struct hapax_call *second = NULL;
    hapax_request_init(&request);
    request.tool = "charge";
    request.key = "waited";
    request.arguments = "{\"amount\": 1}";
    request.arguments_size = strlen(request.arguments);
    request.wait_ms = 250;
    int64_t began_ms = now_ms();
    assert_int_equal(hapax_claim(bench->hapax, NULL, &request, &second, NULL), HAPAX_BUSY);
    assert_true(now_ms() - began_ms >= 250);
    hapax_call_free(second);
    finish(bench, call, NULL, "x");
    hapax_call_free(call);
}

/* Each tenth of a second it looks again; what one look found is some 6 KiB. */
static void a_claim_that_waits_does_not_grow(void **state)
{
    struct bench *bench = *state;
    struct hapax_call *call = claim(bench, "grows", HAPAX_RUN), *second = NULL;
    struct hapax_request request;
    hapax_request_init(&request);
    request.tool = "charge";
    request.key = "grows";
    request.arguments = "{\"amount\": 1}";
    request.arguments_size = strlen(request.arguments);
    size_t used[2];
    for (int round = 0; round < 2; round++) {
        request.wait_ms = round == 0 ? 250 : 4000;
        assert_int_equal(hapax_claim(bench->hapax, NULL, &request, &second, NULL), HAPAX_BUSY);
        used[round] = mallinfo2().uordblks; /* 0 where the allocator is another one */
        assert_string_equal(info_of(second).code, "BUSY");
        hapax_call_free(second);
    }
    print_message("%zu bytes, then %zu\n", used[0], used[1]);
    assert_true(used[1] < used[0] + (size_t)64 * 1024);
    hapax_call_free(call);
}

static void absence_is_proved_by_three_looks(void **state)
{
    struct bench *bench = *state;
    struct hapax_contract contract = contract_of(HAPAX_PROBEABLE);
    contract.in_flight_bound_ms = 0;
    hapax_call_free(claim_as(bench, NULL, "looked", &contract, HAPAX_RUN));
    struct hapax_call *call = claim_as(bench, NULL, "looked", &contract, HAPAX_UNKNOWN);
    assert_int_equal(info_of(call).may, HAPAX_MAY_FIND | HAPAX_MAY_ABSENT | HAPAX_MAY_ASK);
    assert_int_equal(hapax_absent(call, NULL, &bench->error), HAPAX_E_STATE);
    assert_non_null(strstr(bench->error.text, "1 of 3"));
    /* Too soon: it does not count. */
    assert_int_equal(hapax_absent(call, NULL, &bench->error), HAPAX_E_STATE);
    assert_non_null(strstr(bench->error.text, "1 of 3"));
    hapax_call_free(call);
}

/* Sweeps of before took a successor's row ahead of the one that names it. */
static void a_successor_that_is_gone_has_expired(void **state)
{
    struct bench *bench = *state;
    struct hapax_call *call = claim(bench, "order-9", HAPAX_RUN);
    assert_ok(bench, hapax_lost(call, NULL, &bench->error));
    hapax_call_free(call);
    bench_close(bench);
    sqlite3 *db = db_open(bench->path);
    db_run(db, "UPDATE op SET is_superseded = 1, successor = randomblob(16)");
    sqlite3_close(db);
    bench_open(bench);
    call = claim(bench, "order-9", HAPAX_EXPIRED);
    assert_string_equal(info_of(call).code, "KEY_EXPIRED");
    hapax_call_free(call);
}

static void a_name_or_a_tenant_of_its_own_is_another_operation(void **state)
{
    struct bench *bench = *state;
    struct hapax_options options;
    struct hapax *other = NULL;
    struct hapax_call *call = claim(bench, "same", HAPAX_RUN);
    finish(bench, call, NULL, "x");
    hapax_call_free(call);
    hapax_options_init(&options);
    options.path = bench->path;
    options.server = "billing";
    options.tenant = "acme";
    assert_ok(bench, hapax_open(&options, &other, &bench->error));
    assert_int_equal(verdict_of(bench, other, "same", NULL), HAPAX_RUN);
    assert_ok(bench, hapax_close(other, &bench->error));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, bench_setup, bench_teardown)
        TEST(a_finished_call_is_replayed_byte_for_byte),
        TEST(a_large_outcome_is_replayed),
        TEST(an_outcome_too_large_to_keep_is_told_as_gone),
        TEST(whoever_comes_while_it_runs_hears_busy),
        TEST(another_ones_arguments_or_principal_are_a_conflict),
        TEST(one_that_was_never_finished_is_unknown),
        TEST(a_keyed_one_runs_again_under_the_same_effect_key),
        TEST(an_undeclared_horizon_allows_no_second_attempt),
        TEST(attempts_end),
        TEST(attempts_beyond_what_is_counted_are_refused),
        TEST(what_was_given_back_or_refused_for_now_runs_again),
        TEST(what_was_refused_for_good_failed),
        TEST(a_later_refusal_is_no_proof),
        TEST(keys_that_are_none_are_refused),
        TEST(misuse_is_told),
        TEST(a_forked_child_is_turned_away),
        TEST(an_older_info_struct_is_not_overrun),
        TEST(delivery_is_kept_for_people),
        TEST(a_claim_may_wait_and_no_longer),
        TEST(a_claim_that_waits_does_not_grow),
        TEST(absence_is_proved_by_three_looks),
        TEST(a_successor_that_is_gone_has_expired),
        TEST(a_name_or_a_tenant_of_its_own_is_another_operation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
