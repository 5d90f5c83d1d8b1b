/* SPDX-License-Identifier: MIT */
/*
 * What people see of a ledger, and what verify and recover find in it.
 */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <sqlite3.h>

#include "adapter/store_sqlite/inspect.h"
#include "base/alloc.h"
#include "base/fault.h"
#include "kept.h"
#include "world.h"

static struct hx_inspect *open_inspect(struct world *world)
{
    struct hx_inspect *inspect = NULL;
    int rc = hx_inspect_open(&world->options, &inspect);
    if (rc < 0)
        print_error("inspect: %s\n", hx_fault_last()->text);
    assert_int_equal(rc, 0);
    return inspect;
}

static void done(struct hx_store_request *request)
{
    if (request->result != HX_STORE_DONE)
        print_error("%d: %s\n", (int)request->result, request->error);
    assert_int_equal(request->result, HX_STORE_DONE);
    hx_store_request_free(request);
}

static struct hx_record succeed(struct world *world, struct hx_store *store,
                                const struct hx_record *record, struct hx_span bytes)
{
    struct hx_record next = *record;
    next.state = HX_OP_SUCCEEDED;
    next.reason = HX_REASON_ANSWERED;
    next.attempt.state = HX_ATTEMPT_CONFIRMED;
    next.outcome.kind = HX_OUTCOME_RESULT;
    next.outcome.size = bytes.len;
    next.outcome.bytes = bytes;
    hx_hasher_begin(world->hasher);
    hx_hasher_add(world->hasher, bytes);
    next.outcome.digest = hx_hasher_end(world->hasher);
    done(world_update(store, &next, record->fence));
    return next;
}

struct seen {
    unsigned count;
    struct hx_id ids[64];
};

/* A result in a row, one in a row of the payloads, one in a file: each is counted where it is. */
static void tells_its_size(void **state)
{
    enum { IN_ROW = 100, IN_PAYLOAD = 100 * 1024, IN_FILE = 4 * 1024 * 1024 };
    static const size_t sizes[] = {IN_ROW, IN_PAYLOAD, IN_FILE};
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    char *bytes = hx_new_bytes(IN_FILE);
    struct hx_wall first = world->now.wall;
    memset(bytes, '7', IN_FILE);
    for (unsigned i = 0; i < 4; i++) {
        struct hx_record record = world_record(world, 0, i);
        done(world_insert(store, &record));
        if (i < 3)
            succeed(world, store, &record, hx_span(bytes, sizes[i]));
        world->now.wall.ms += 1000;
    }
    struct hx_inspect *inspect = open_inspect(world);
    struct hx_inspect_size size;
    assert_int_equal(hx_inspect_size(inspect, &size), 0);
    assert_int_equal(size.facts.counts[HX_OP_SUCCEEDED], 3);
    assert_int_equal(size.facts.counts[HX_OP_RUNNING], 1);
    assert_int_equal(size.oldest.ms, first.ms);
    assert_true(size.history >= 7);
    assert_int_equal(size.payloads.count + size.blobs.count, 2);
    assert_true(size.blobs.bytes >= IN_FILE || size.payloads.bytes >= IN_FILE);
    assert_true(size.payloads.bytes >= IN_PAYLOAD);
    assert_int_equal(size.spools.count, 1); /* with the room that the process keeps */
    assert_true(size.database_bytes >= size.payloads.bytes + size.free_bytes);
    assert_true(size.log_bytes > 0);
    hx_inspect_close(inspect);
    hx_free(bytes);
    world_close(world, 0);
}

static bool see(void *context, const struct hx_store_found *found)
{
    struct seen *seen = context;
    assert_true(seen->count < 64);
    seen->ids[seen->count++] = found->record.id;
    return true;
}

static void lists_by_filter(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_record records[10];
    for (unsigned i = 0; i < 10; i++) {
        records[i] = world_record(world, 0, i);
        records[i].tool = i % 2 == 0 ? HX_SPAN_LIT("charge_card") : HX_SPAN_LIT("send_mail");
        done(world_insert(store, &records[i]));
        if (i < 4)
            succeed(world, store, &records[i], HX_SPAN_LIT("{}"));
        world->now.wall.ms += 1000;
    }
    done(world_touch(store, &records[9].id, (struct hx_store_touch){.set_needs_human = true}));
    struct hx_inspect *inspect = open_inspect(world);
    struct {
        struct hx_inspect_filter filter;
        unsigned expected;
    } cases[] = {
        {{.limit = 0}, 10},
        {{.states = 1U << HX_OP_SUCCEEDED}, 4},
        {{.states = 1U << HX_OP_RUNNING}, 6},
        {{.tool_glob = "charge*"}, 5},
        {{.tool_glob = "charge"}, 0},
        {{.principal = "1000", .server = "bank"}, 10},
        {{.principal = "1001"}, 0},
        {{.since = records[8].created.wall}, 2},
        {{.until = records[2].created.wall}, 2},
        {{.needs_human = true}, 0}, /* it is not unknown */
        {{.limit = 3}, 3},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct seen seen = {0};
        assert_int_equal(hx_inspect_list(inspect, &cases[i].filter, see, &seen, NULL), 0);
        if (seen.count != cases[i].expected)
            print_error("case %zu\n", i);
        assert_int_equal(seen.count, cases[i].expected);
    }
    struct hx_inspect_filter paged = {.limit = 4, .is_newest_first = true};
    struct seen seen = {0};
    do {
        int rc = hx_inspect_list(inspect, &paged, see, &seen, &paged.after);
        assert_int_equal(rc, 0);
    } while (paged.after != 0);
    assert_int_equal(seen.count, 10);
    for (unsigned i = 0; i < 10; i++)
        assert_memory_equal(&seen.ids[i], &records[9 - i].id, sizeof(struct hx_id));
    hx_inspect_close(inspect);
}

static void finds_by_what_people_have(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 7);
    done(world_insert(store, &record));
    struct hx_inspect *inspect = open_inspect(world);
    struct hx_arena arena;
    struct hx_store_found found;
    char text[HX_ID_TEXT_SIZE];
    hx_id_format(&record.id, text);
    hx_arena_init(&arena, 1 << 20);
    assert_int_equal(hx_inspect_by_text(inspect, hx_span_cstr(text), &arena, &found), 1);
    assert_memory_equal(&found.record.id, &record.id, sizeof(record.id));
    assert_int_equal(found.owner_fact, HX_OWNER_ALIVE);
    assert_int_equal(hx_inspect_by_text(inspect, hx_span(text + 28, 8), &arena, &found), 1);
    assert_int_equal(hx_inspect_by_text(inspect, HX_SPAN_LIT("key-7"), &arena, &found), 1);
    assert_int_equal(hx_inspect_by_text(inspect, HX_SPAN_LIT("key-8"), &arena, &found), 0);
    assert_int_equal(hx_inspect_by_id(inspect, &record.effect_key, &arena, &found), 0);
    /* Whoever takes the end of another operation's id as his key does not come in its place. */
    struct hx_record thief = world_record(world, 0, 9);
    thief.key = hx_span(text + 28, 8);
    done(world_insert(store, &thief));
    assert_int_equal(hx_inspect_by_text(inspect, hx_span(text + 28, 8), &arena, &found), 1);
    assert_memory_equal(&found.record.id, &record.id, sizeof(record.id));
    succeed(world, store, &record, HX_SPAN_LIT("{}"));
    done(world_touch(store, &record.id, (struct hx_store_touch){.cool = true}));
    assert_int_equal(hx_inspect_by_text(inspect, hx_span(text + 28, 8), &arena, &found), 2);
    hx_arena_fini(&arena);
    hx_inspect_close(inspect);
}

struct lines {
    unsigned count;
    char text[16][64];
};

static bool see_line(void *context, const struct hx_history_line *line)
{
    struct lines *lines = context;
    assert_true(lines->count < 16);
    assert_int_equal(line->seq, lines->count + 1);
    snprintf(lines->text[lines->count++], 64, "%s %s>%s %s %u", line->what,
             hx_op_state_name(line->from), hx_op_state_name(line->to), hx_reason_name(line->reason),
             line->attempt);
    return true;
}

static void tells_history_and_attempts(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    done(world_insert(store, &record));
    struct hx_record second = record;
    second.attempt.number = 2;
    second.fence = 2;
    second.reason = HX_REASON_TAKEN_OVER;
    done(world_update(store, &second, 1));
    world->now.wall.ms += 5;
    done(world_mark(world, store, &second));
    struct hx_record third = second;
    third.attempt.number = 3;
    third.fence = 3;
    third.earlier.open = 1;
    third.reason = HX_REASON_SENT_AGAIN;
    snprintf(third.attempt.transport, sizeof(third.attempt.transport), "transport-x");
    done(world_update(store, &third, 2));
    struct hx_store_request *note = hx_store_request_new(HX_STORE_NOTE, NULL);
    note->record.id = record.id;
    note->note = HX_SPAN_LIT("{\"what\":\"repeat\"}");
    done(world_run(store, note));
    succeed(world, store, &third, HX_SPAN_LIT("{}"));
    struct hx_inspect *inspect = open_inspect(world);
    struct lines lines = {0};
    assert_int_equal(hx_inspect_history(inspect, 1, see_line, &lines), 0);
    static const char *const expected[] = {
        "insert absent>running claimed 1", "update running>running taken_over 2",
        "mark running>running none 2",     "update running>running sent_again 3",
        "note running>running none 3",     "update running>succeeded answered 3",
    };
    assert_int_equal(lines.count, 6);
    for (unsigned i = 0; i < 6; i++)
        assert_string_equal(lines.text[i], expected[i]);
    struct hx_inspect_attempt attempts[8];
    uint32_t count;
    assert_int_equal(hx_inspect_attempts(inspect, 1, attempts, 8, &count), 0);
    assert_int_equal(count, 3);
    assert_int_equal(attempts[0].state, HX_ATTEMPT_DEAD);
    assert_false(attempts[0].is_marked);
    assert_int_equal(attempts[1].state, HX_ATTEMPT_OPEN);
    assert_true(attempts[1].is_marked);
    assert_int_equal(attempts[1].marked.ms, world->now.wall.ms);
    assert_int_equal(attempts[2].state, HX_ATTEMPT_CONFIRMED);
    assert_string_equal(attempts[2].transport, "transport-x");
    hx_inspect_close(inspect);
}

struct findings {
    unsigned problems;
    unsigned notes;
    char text[4096]; /* everything that was found */
};

static void hear(void *context, bool is_problem, const char *text)
{
    struct findings *findings = context;
    findings->problems += is_problem;
    findings->notes += !is_problem;
    size_t len = strlen(findings->text);
    snprintf(findings->text + len, sizeof(findings->text) - len, "%s\n", text);
}

static struct findings verify(struct world *world)
{
    struct findings findings = {0};
    struct hx_verify_listener listener = {.finding = hear, .context = &findings};
    struct hx_verify_report report;
    struct hx_inspect *inspect = open_inspect(world);
    int rc = hx_inspect_verify(inspect, &listener, &report);
    if (rc < 0)
        print_error("verify: %s\n", hx_fault_last()->text);
    assert_int_equal(rc, 0);
    assert_int_equal(report.problems, findings.problems);
    hx_inspect_close(inspect);
    return findings;
}

static void fill(struct world *world, struct hx_store *store)
{
    static char large[HX_STORE_INLINE_MAX + 100];
    for (unsigned i = 0; i < 6; i++) {
        struct hx_record record = world_record(world, 0, i);
        done(world_insert(store, &record));
        size_t sizes[] = {2, 5000, sizeof(large)};
        memset(large, 'a' + (int)i, sizeof(large));
        if (i < 3)
            succeed(world, store, &record, hx_span(large, sizes[i]));
    }
}

static void a_sound_ledger_verifies(void **state)
{
    struct world *world = *state;
    fill(world, world_open(world, 0));
    struct findings findings = verify(world);
    if (findings.problems + findings.notes > 0)
        print_error("%s\n", findings.text);
    assert_int_equal(findings.problems, 0);
    assert_int_equal(findings.notes, 0);
}

/* Only a test may open the database beside Hapax, and only while nobody uses it. */
static void spoil(struct world *world, const char *sql)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(world->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void verify_finds_what_is_wrong(void **state)
{
    struct world *world = *state;
    static const struct {
        const char *sql;
        const char *needle;
    } cases[] = {
        {"UPDATE op SET state = 99 WHERE row = 4", "state"},
        {"UPDATE op SET outcome = x'00' WHERE row = 1", "digest"},
        {"DELETE FROM payload", "payload"},
        {"UPDATE op SET outcome_blob = outcome_blob + 1 WHERE row = 3", "stored result"},
        {"UPDATE op SET hot = 0 WHERE row = 5", "would not meet it"},
        {"UPDATE op SET tool = 'other' WHERE row = 5", "do not belong together"},
        {"UPDATE op SET attempt_state = 0, attempt = 0 WHERE row = 5", "no open attempt"},
        {"DELETE FROM history WHERE op = 2", "no history"},
        {"INSERT INTO history SELECT 77, seq, at, who, kind, from_state, to_state, reason, fence,"
         " attempt, attempt_state, earlier, text FROM history WHERE op = 1",
         "not there"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct world *fresh = world_new(WORLD_SQLITE);
        fill(fresh, world_open(fresh, 0));
        world_close(fresh, 0);
        spoil(fresh, cases[i].sql);
        struct findings findings = verify(fresh);
        if (findings.problems == 0 || strstr(findings.text, cases[i].needle) == NULL)
            print_error("case %zu: %u problems: %s\n", i, findings.problems, findings.text);
        assert_true(findings.problems > 0);
        world_free(fresh);
    }
    (void)world;
}

/* A row under another one's name, as a damaged disk or a careless hand leaves it: nobody gets
 * its answer, and nobody takes it for an equal call. */
static void a_strange_row_is_handed_to_nobody(void **state)
{
    struct world *world = *state;
    static const char *const damages[] = {"UPDATE op SET principal = '1001' WHERE row = 2",
                                          "UPDATE op SET key = 'other' WHERE row = 2"};
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        struct world *fresh = world_new(WORLD_SQLITE);
        struct hx_store *store = world_open(fresh, 0);
        struct hx_record records[2] = {world_record(fresh, 0, 1), world_record(fresh, 0, 2)};
        done(world_insert(store, &records[0]));
        done(world_insert(store, &records[1]));
        world_close(fresh, 0);
        spoil(fresh, damages[i]);
        store = world_open(fresh, 0);
        struct hx_store_request *request = world_find(store, &records[1], i == 1, i == 0);
        assert_int_equal(request->result, HX_STORE_NOT_DONE);
        assert_non_null(strstr(request->error, "hapax ops verify"));
        hx_store_request_free(request);
        request = world_find(store, &records[0], true, true);
        assert_int_equal(request->result, HX_STORE_DONE);
        hx_store_request_free(request);
        world_free(fresh);
    }
    (void)world;
}

static void copy_file(const char *from, const char *to)
{
    char bytes[65536];
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(in >= 0 && out >= 0);
    for (ssize_t len; (len = read(in, bytes, sizeof(bytes))) > 0;)
        assert_int_equal(write(out, bytes, (size_t)len), len);
    close(in);
    close(out);
}

static void a_restored_copy_is_noticed(void **state)
{
    struct world *world = *state;
    char copy[160], wal[160];
    struct hx_store *store = world_open(world, 0);
    fill(world, store);
    world_close(world, 0);
    snprintf(copy, sizeof(copy), "%s/copy", world->directory);
    snprintf(wal, sizeof(wal), "%s-wal", world->path);
    copy_file(world->path, copy);
    struct hx_wall taken_at = world->now.wall;
    world->now.wall.ms += 3600000;
    store = world_open(world, 0);
    assert_null(store->ops->refusal(store));
    struct hx_record lost = world_record(world, 0, 20);
    done(world_insert(store, &lost));
    world_close(world, 0);
    copy_file(copy, world->path);
    unlink(wal);
    store = world_open(world, 0);
    const char *refusal = store->ops->refusal(store);
    assert_non_null(refusal);
    assert_non_null(strstr(refusal, "hapax ops recover --backup-taken-at"));
    assert_true(verify(world).problems > 0);
    struct hx_inspect *inspect = open_inspect(world);
    struct hx_recover_report report;
    assert_true(hx_inspect_recover(inspect, (struct hx_wall){0}, &report) < 0);
    assert_int_equal(hx_inspect_recover(inspect, taken_at, &report), 0);
    assert_true(report.was_restored_copy);
    hx_inspect_close(inspect);
    /* The running gateway notices by itself, within a second or with its next commit. */
    for (unsigned i = 0; i < 1000000 && store->ops->refusal(store) != NULL; i++)
        hx_store_request_free(world_find_id(store, &lost.id));
    assert_null(store->ops->refusal(store));
    struct hx_gap gap = store->ops->gap(store);
    assert_int_equal(gap.from.ms, taken_at.ms);
    assert_int_equal(gap.to.ms, world->now.wall.ms);
    assert_true(gap.until.ms > gap.to.ms);
    world->now.wall.ms += 2 * HX_GAP_CAUTION_MS; /* a jump ends nothing, whoever looks then */
    world_close(world, 0);
    store = world_open(world, 0);
    assert_null(store->ops->refusal(store));
    assert_int_equal(store->ops->gap(store).from.ms, taken_at.ms);
    assert_true(store->ops->gap(store).age_ms < HX_GAP_CAUTION_MS);
    assert_int_equal(verify(world).problems, 0);
}

/* The rows of `open_rows_...`: many of each state, so that they are more than one page. */
enum { COPY_ROWS = 60 * 7 };
static const enum hx_op_state copy_states[] = {
    HX_OP_AWAITING_APPROVAL, HX_OP_READY,     HX_OP_RUNNING,   HX_OP_INPUT_REQUIRED,
    HX_OP_UNKNOWN,           HX_OP_SUCCEEDED, HX_OP_CANCELLED,
};

static struct hx_record copy_row(struct world *world, unsigned number)
{
    struct hx_record record = world_record(world, 0, number);
    record.state = copy_states[number % (sizeof(copy_states) / sizeof(copy_states[0]))];
    if (record.state != HX_OP_RUNNING && record.state != HX_OP_UNKNOWN) {
        record.attempt = (struct hx_attempt){0};
        record.sends = 0;
    }
    if (record.state == HX_OP_INPUT_REQUIRED) {
        record.attempt.number = 1;
        record.attempt.state = HX_ATTEMPT_ASKED;
        record.sends = 1;
    }
    record.is_tombstone = record.state == HX_OP_CANCELLED;
    if (record.state == HX_OP_SUCCEEDED || record.state == HX_OP_INPUT_REQUIRED) {
        record.outcome.kind = HX_OUTCOME_RESULT;
        record.outcome.bytes = HX_SPAN_LIT("{}");
        record.outcome.size = 2;
    }
    return record;
}

static void check_copy_row(struct hx_store *store, const struct hx_record *record, bool is_doubted)
{
    struct hx_store_request *request = world_find_id(store, &record->id);
    assert_int_equal(request->record_count, 1);
    const struct hx_record *now = &request->records[0].record;
    assert_null(hx_record_flaw(now));
    is_doubted = is_doubted && !hx_op_state_is_final(record->state);
    assert_int_equal(now->state, is_doubted ? HX_OP_UNKNOWN : record->state);
    assert_int_equal(now->reason, is_doubted ? HX_REASON_RESTORED_COPY : record->reason);
    assert_int_equal(now->fence, record->fence + is_doubted);
    assert_int_equal(now->outcome.size, is_doubted ? 0 : record->outcome.size);
    assert_int_equal(now->attempt.state, record->attempt.state);
    hx_store_request_free(request);
}

static void open_rows_of_a_restored_copy_become_unknown(void **state)
{
    struct world *world = *state;
    struct hx_record records[COPY_ROWS];
    char copy[160], wal[160];
    struct hx_store *store = world_open(world, 0);
    for (unsigned i = 0; i < COPY_ROWS; i++) {
        records[i] = copy_row(world, i);
        done(world_insert(store, &records[i]));
    }
    world_close(world, 0);
    snprintf(copy, sizeof(copy), "%s/copy", world->directory);
    snprintf(wal, sizeof(wal), "%s-wal", world->path);
    copy_file(world->path, copy);
    struct hx_wall taken_at = world->now.wall;
    store = world_open(world, 0);
    struct hx_record since = world_record(world, 0, COPY_ROWS);
    done(world_insert(store, &since));
    world_close(world, 0);
    copy_file(copy, world->path);
    unlink(wal);
    world->now.wall.ms += 3600000;
    store = world_open(world, 0);
    /* Until a person said when it was taken, nothing in it begins and nothing ends. */
    struct hx_record begun = records[1];
    begun.state = HX_OP_RUNNING;
    begun.fence++;
    struct hx_store_request *request = world_update(store, &begun, records[1].fence);
    assert_int_equal(request->result, HX_STORE_NOT_DONE);
    hx_store_request_free(request);
    request = world_insert(store, &since);
    assert_int_equal(request->result, HX_STORE_NOT_DONE);
    hx_store_request_free(request);
    struct hx_inspect *inspect = open_inspect(world);
    struct hx_recover_report report;
    assert_true(hx_inspect_recover(inspect, (struct hx_wall){0}, &report) < 0);
    for (unsigned i = 0; i < COPY_ROWS; i++)
        check_copy_row(store, &records[i], false);
    assert_int_equal(hx_inspect_recover(inspect, taken_at, &report), 0);
    assert_int_equal(report.rows_doubted, COPY_ROWS / 7 * 5);
    for (unsigned i = 0; i < COPY_ROWS; i++)
        check_copy_row(store, &records[i], true);
    /* Tidying up afterwards doubts nothing. */
    assert_int_equal(hx_inspect_recover(inspect, (struct hx_wall){0}, &report), 0);
    assert_int_equal(report.rows_doubted, 0);
    hx_inspect_close(inspect);
}

/* One row that cannot be read must not keep all others from being taken into use. */
static void recover_leaves_damaged_rows_where_they_are(void **state)
{
    struct world *world = *state;
    struct hx_record records[3];
    char copy[160], wal[160];
    struct hx_store *store = world_open(world, 0);
    for (unsigned i = 0; i < 3; i++) {
        records[i] = world_record(world, 0, i + 1);
        done(world_insert(store, &records[i]));
    }
    world_close(world, 0);
    snprintf(copy, sizeof(copy), "%s/copy", world->directory);
    snprintf(wal, sizeof(wal), "%s-wal", world->path);
    copy_file(world->path, copy);
    struct hx_wall taken_at = world->now.wall;
    store = world_open(world, 0);
    struct hx_record since = world_record(world, 0, 4);
    done(world_insert(store, &since));
    world_close(world, 0);
    copy_file(copy, world->path);
    unlink(wal);
    spoil(world, "UPDATE op SET attempt_state = 99 WHERE row = 2");
    world->now.wall.ms += 3600000;
    store = world_open(world, 0);
    struct hx_inspect *inspect = open_inspect(world);
    struct hx_recover_report report;
    assert_int_equal(hx_inspect_recover(inspect, taken_at, &report), 0);
    assert_int_equal(report.rows_doubted, 2);
    assert_int_equal(report.rows_damaged, 1);
    assert_int_equal(report.first_damaged, 2);
    hx_inspect_close(inspect);
    for (unsigned i = 0; i < 3; i++) {
        struct hx_store_request *request = world_find(store, &records[i], true, false);
        assert_int_equal(request->result, i == 1 ? HX_STORE_NOT_DONE : HX_STORE_DONE);
        if (i != 1)
            assert_int_equal(request->records[0].record.state, HX_OP_UNKNOWN);
        hx_store_request_free(request);
    }
}

/* A ledger that was never this one's, with more commits than the counter counts: what it does
 * not know may still have run. */
static void another_ledger_is_noticed(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    done(world_insert(store, &record));
    world_close(world, 0);
    struct world *other = world_new(WORLD_SQLITE);
    store = world_open(other, 0);
    fill(other, store);
    world_close(other, 0);
    char wal[160], counter[160];
    snprintf(wal, sizeof(wal), "%s-wal", world->path);
    snprintf(counter, sizeof(counter), "%s-counter", world->path);
    copy_file(other->path, world->path);
    unlink(wal);
    /* By the counter alone, as an older version left it: without what was noted behind it. */
    assert_int_equal(truncate(counter, 48), 0);
    world_free(other);
    store = world_open(world, 0);
    assert_non_null(store->ops->refusal(store));
}

static void spool_success(struct hx_store *store, const struct hx_record *record)
{
    struct hx_store_request *spool = hx_store_request_new(HX_STORE_SPOOL, NULL);
    spool->record = *record;
    spool->record.state = HX_OP_SUCCEEDED;
    spool->record.attempt.state = HX_ATTEMPT_CONFIRMED;
    spool->record.outcome.kind = HX_OUTCOME_RESULT;
    spool->record.outcome.bytes = HX_SPAN_LIT("{}");
    spool->record.outcome.size = 2;
    spool->expected_fence = 1;
    done(world_run(store, spool));
}

static void assert_state(struct hx_store *store, const struct hx_id *id, enum hx_op_state expected)
{
    struct hx_store_request *request = world_find_id(store, id);
    assert_int_equal(request->result, HX_STORE_DONE);
    assert_int_equal(request->record_count, 1);
    assert_int_equal(request->records[0].record.state, expected);
    hx_store_request_free(request);
}

/* A copy that was put back: row `early` is in it, running; its owner has died since and left the
 * outcome in its spool. Row `since` was claimed after the copy, and is one of the few commits that
 * the counter knows of and the copy does not. */
struct restored {
    struct world *world;
    struct hx_record early, since;
    struct hx_wall taken_at;
    uint64_t commits; /* of what was put away for it */
};

static uint64_t commits_of(struct world *world)
{
    struct hx_inspect *inspect = open_inspect(world);
    struct hx_inspect_facts facts;
    assert_int_equal(hx_inspect_facts(inspect, &facts), 0);
    hx_inspect_close(inspect);
    return facts.synced_commits;
}

static void restore(struct world *world, struct restored *ret_restored)
{
    char copy[160], wal[160];
    snprintf(copy, sizeof(copy), "%s/copy", world->directory);
    snprintf(wal, sizeof(wal), "%s-wal", world->path);
    world_open(world, 0);
    struct hx_store *mortal = world_open(world, 1);
    struct restored restored = {.world = world, .early = world_record(world, 1, 1)};
    done(world_insert(mortal, &restored.early));
    world_close(world, 0); /* moves the log */
    copy_file(world->path, copy);
    restored.taken_at = world->now.wall;
    world->now.wall.ms += 3600000;
    struct hx_store *store = world_open(world, 0);
    restored.since = world_record(world, 0, 2);
    done(world_insert(store, &restored.since));
    for (unsigned i = 0; i < 3; i++) {
        struct hx_record record = world_record(world, 0, 3 + i);
        done(world_insert(store, &record));
    }
    spool_success(mortal, &restored.early);
    world_kill(world, 1);
    world_close(world, 0);
    restored.commits = commits_of(world);
    copy_file(copy, world->path);
    unlink(wal);
    *ret_restored = restored;
}

static void assert_is_copy(struct hx_store *store, const struct restored *restored)
{
    assert_non_null(store->ops->refusal(store));
    struct hx_store_request *request = world_insert(store, &restored->since);
    assert_int_equal(request->result, HX_STORE_NOT_DONE);
    hx_store_request_free(request);
}

/* Until the running gateway has looked again whether it is a copy, which it does each second. */
static void let_it_look_again(struct hx_store *store, const struct hx_id *id)
{
    struct timespec began, now;
    clock_gettime(CLOCK_MONOTONIC, &began);
    do {
        hx_store_request_free(world_find_id(store, id));
        (void)poll(NULL, 0, 20);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - began.tv_sec) * 1000 + (now.tv_nsec - began.tv_nsec) / 1000000 < 1100);
    /* The looking came behind the answer to a batch; this one is behind the looking. */
    hx_store_request_free(world_find_id(store, id));
    hx_store_request_free(world_find_id(store, id));
}

/* What a gateway writes into a copy all the same: each of it in a synced commit. */
static void write_much(struct restored *restored, struct hx_store *store)
{
    for (unsigned i = 0; i < 10; i++) {
        struct hx_store_session session = kept_session(restored->world, i);
        assert_kept(kept_put_session(store, &session), HX_STORE_DONE);
        if (i % 2 == 0)
            assert_kept(kept_end(store, &session.key), HX_STORE_DONE);
        done(world_touch(store, &restored->early.id, (struct hx_store_touch){.subtract_sent = 1}));
    }
}

static void recover_copy(struct restored *restored, struct hx_recover_report *ret_report)
{
    struct hx_inspect *inspect = open_inspect(restored->world);
    assert_int_equal(hx_inspect_recover(inspect, restored->taken_at, ret_report), 0);
    assert_true(ret_report->was_restored_copy);
    assert_false(hx_inspect_is_restored_copy(inspect));
    hx_inspect_close(inspect);
    /* Else what was put away, or another copy of it, could come back unnoticed. */
    assert_true(commits_of(restored->world) > restored->commits);
}

/* Its commits must not bring it up to its counter: it would be believed, and `since` run again. */
static void a_copy_that_is_written_stays_one(void **state)
{
    struct restored restored;
    struct hx_recover_report report;
    restore(*state, &restored);
    struct hx_store *store = world_open(restored.world, 0);
    assert_is_copy(store, &restored);
    write_much(&restored, store);
    let_it_look_again(store, &restored.early.id);
    assert_is_copy(store, &restored);
    assert_is_copy(world_open(restored.world, 2), &restored);
    recover_copy(&restored, &report);
    world_close(restored.world, 0);
    store = world_open(restored.world, 0);
    assert_null(store->ops->refusal(store));
    done(world_insert(store, &restored.since));
}

static void spool_path_of(const struct world *world, const struct hx_id *token, char ret_path[220])
{
    char owner[HX_ID_TEXT_SIZE];
    hx_id_format(token, owner);
    snprintf(ret_path, 220, "%s-spool/%s", world->path, owner);
}

/* The first who asks for its row would apply a dead process's spool and remove it; but in the copy
 * the spool is that of the ledger which the copy took the place of. */
static void a_look_into_a_copy_leaves_the_spools(void **state)
{
    struct restored restored;
    struct hx_recover_report report;
    struct stat before, after;
    char path[220];
    restore(*state, &restored);
    spool_path_of(restored.world, &restored.early.owner, path);
    assert_int_equal(stat(path, &before), 0);
    struct hx_store *store = world_open(restored.world, 0);
    struct world *world = restored.world;
    /* By each way that looks at the row: a find, and what a stale request is told. */
    assert_state(store, &restored.early.id, HX_OP_SUCCEEDED);
    hx_store_request_free(world_find(store, &restored.early, true, true));
    struct hx_record other = restored.early;
    other.attempt.number = 7;
    struct hx_store_request *stale = world_mark(world, store, &other);
    assert_int_equal(stale->result, HX_STORE_STALE);
    hx_store_request_free(stale);
    stale = world_touch(
        store, &other.id,
        (struct hx_store_touch){.adopt = true, .expect_adoptions = true, .seen_adoptions = 7});
    assert_int_equal(stale->result, HX_STORE_STALE);
    hx_store_request_free(stale);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(after.st_size, before.st_size);
    assert_is_copy(store, &restored);
    assert_is_copy(world_open(world, 2), &restored);
    /* It was shown and not written: the row is what recover makes of it. */
    struct hx_inspect *inspect = open_inspect(world);
    struct hx_inspect_facts facts;
    assert_int_equal(hx_inspect_facts(inspect, &facts), 0);
    assert_int_equal(facts.counts[HX_OP_SUCCEEDED], 0);
    assert_int_equal(facts.counts[HX_OP_RUNNING], 1);
    hx_inspect_close(inspect);
    recover_copy(&restored, &report);
    assert_int_equal(report.spools_applied, 1);
    assert_int_equal(report.rows_doubted, 0);
    assert_int_equal(access(path, F_OK), -1);
    store = world_open(world, 1);
    assert_null(store->ops->refusal(store));
    assert_state(store, &restored.early.id, HX_OP_SUCCEEDED);
}

/* The copy lacks the row: the outcome would be dropped for want of it. */
static void an_own_spool_beside_a_copy_waits_too(void **state)
{
    struct restored restored;
    char path[220];
    restore(*state, &restored);
    struct hx_store *store = world_open(restored.world, 0);
    assert_is_copy(store, &restored);
    struct hx_id owner = store->ops->owner(store);
    spool_path_of(restored.world, &owner, path);
    spool_success(store, &restored.since);
    let_it_look_again(store, &restored.early.id);
    world_close(restored.world, 0);
    assert_int_equal(access(path, F_OK), 0);
}

/* Who opens a copy does not settle: the ledger may yet be put back, and lack what was dropped. */
static void spools_beside_a_copy_wait_for_recover(void **state)
{
    struct restored restored;
    struct hx_recover_report report;
    restore(*state, &restored);
    world_open(restored.world, 0);
    assert_is_copy(world_open(restored.world, 2), &restored);
    recover_copy(&restored, &report);
    assert_int_equal(report.spools_applied, 1);
    assert_int_equal(report.rows_doubted, 0);
    struct hx_store *store = world_open(restored.world, 1);
    assert_null(store->ops->refusal(store));
    assert_state(store, &restored.early.id, HX_OP_SUCCEEDED);
    done(world_insert(store, &restored.since));
}

/* It says nothing then, also not that the copy is none. */
static void a_counter_that_is_torn_ends_no_copy(void **state)
{
    struct restored restored;
    char counter[160];
    restore(*state, &restored);
    struct hx_store *store = world_open(restored.world, 0);
    assert_is_copy(store, &restored);
    snprintf(counter, sizeof(counter), "%s-counter", restored.world->path);
    assert_int_equal(truncate(counter, 20), 0);
    let_it_look_again(store, &restored.early.id);
    assert_is_copy(store, &restored);
}

static void recover_applies_spools(void **state)
{
    struct world *world = *state;
    struct hx_store *store = world_open(world, 0);
    struct hx_record record = world_record(world, 0, 1);
    done(world_insert(store, &record));
    spool_success(store, &record);
    world_kill(world, 0);
    struct findings findings = verify(world);
    assert_int_equal(findings.problems, 0);
    assert_int_equal(findings.notes, 1);
    struct hx_inspect *inspect = open_inspect(world);
    struct hx_recover_report report;
    assert_int_equal(hx_inspect_recover(inspect, (struct hx_wall){0}, &report), 0);
    assert_int_equal(report.spools_applied, 1);
    struct hx_arena arena;
    struct hx_store_found found;
    hx_arena_init(&arena, 1 << 20);
    assert_int_equal(hx_inspect_by_id(inspect, &record.id, &arena, &found), 1);
    assert_int_equal(found.record.state, HX_OP_SUCCEEDED);
    struct hx_inspect_facts facts;
    assert_int_equal(hx_inspect_facts(inspect, &facts), 0);
    assert_int_equal(facts.counts[HX_OP_SUCCEEDED], 1);
    hx_arena_fini(&arena);
    hx_inspect_close(inspect);
    assert_int_equal(verify(world).notes, 0);
}

static int setup(void **state)
{
    *state = world_new(WORLD_SQLITE);
    return 0;
}

static int teardown(void **state)
{
    *state = world_free(*state);
    return 0;
}

#define ON_WORLD(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_WORLD(tells_its_size),
        ON_WORLD(lists_by_filter),
        ON_WORLD(finds_by_what_people_have),
        ON_WORLD(tells_history_and_attempts),
        ON_WORLD(a_sound_ledger_verifies),
        ON_WORLD(verify_finds_what_is_wrong),
        ON_WORLD(a_restored_copy_is_noticed),
        ON_WORLD(open_rows_of_a_restored_copy_become_unknown),
        ON_WORLD(recover_leaves_damaged_rows_where_they_are),
        ON_WORLD(a_strange_row_is_handed_to_nobody),
        ON_WORLD(another_ledger_is_noticed),
        ON_WORLD(a_copy_that_is_written_stays_one),
        ON_WORLD(a_look_into_a_copy_leaves_the_spools),
        ON_WORLD(an_own_spool_beside_a_copy_waits_too),
        ON_WORLD(spools_beside_a_copy_wait_for_recover),
        ON_WORLD(a_counter_that_is_torn_ends_no_copy),
        ON_WORLD(recover_applies_spools),
    };
    return cmocka_run_group_tests_name("store inspection", tests, NULL, NULL);
}
