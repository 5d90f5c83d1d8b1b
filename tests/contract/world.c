/* SPDX-License-Identifier: MIT */
#include "world.h"

#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"

static struct hx_now clock_now(struct hx_clock *clock)
{
    return hx_container_of(clock, struct world, clock)->now;
}

/* Ids, owner tokens and blob numbers: nothing that a test may depend on. */
static void rand_fill(struct hx_rand *rand, uint8_t *ret_bytes, size_t len)
{
    ssize_t count = getrandom(ret_bytes, len, 0);
    hx_assert(count == (ssize_t)len);
}

uint64_t world_random(struct world *world)
{
    uint64_t x = world->seed += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

static bool is_transport_gone(void *context, const char *transport)
{
    struct world *world = context;
    return world->gone_transport != NULL && strcmp(world->gone_transport, transport) == 0;
}

struct world *world_new(enum world_adapter adapter)
{
    struct world *world = hx_new(struct world);
    world->adapter = adapter;
    world->clock.now = clock_now;
    world->rand.fill = rand_fill;
    world->seed = 1;
    world->now.wall.ms = 1795980000000;
    world->now.mono.ms = 1000000;
    memset(&world->now.boot, 7, sizeof(world->now.boot));
    world->hasher = hx_hasher_new();
    if (adapter == WORLD_MEMORY) {
        world->memory = hx_memory_ledger_new(&world->clock);
        return world;
    }
    const char *base = getenv("TMPDIR");
    snprintf(world->directory, sizeof(world->directory), "%s/hapax-store-XXXXXX",
             base != NULL ? base : "/tmp");
    hx_assert(mkdtemp(world->directory) != NULL);
    snprintf(world->path, sizeof(world->path), "%s/ledger.db", world->directory);
    world->options = (struct hx_store_sqlite_options){
        .path = world->path,
        .clock = &world->clock,
        .rand = &world->rand,
        .is_transport_gone = is_transport_gone,
        .transport_context = world,
    };
    return world;
}

void world_remove_directory(const char *path)
{
    DIR *directory = opendir(path);
    if (directory == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char name[512];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
        if (unlink(name) < 0)
            world_remove_directory(name);
    }
    closedir(directory);
    rmdir(path);
}

struct world *world_free(struct world *world)
{
    for (int i = 0; i < WORLD_PROCESSES; i++) {
        if (world->stores[i] != NULL)
            world_close(world, i);
    }
    hx_memory_ledger_free(world->memory);
    if (world->adapter == WORLD_SQLITE)
        world_remove_directory(world->directory);
    hx_hasher_free(world->hasher);
    return hx_free(world);
}

struct hx_store *world_open(struct world *world, int process)
{
    hx_assert(world->stores[process] == NULL);
    if (world->adapter == WORLD_MEMORY) {
        uint8_t random[10];
        rand_fill(&world->rand, random, sizeof(random));
        world->stores[process] =
            hx_store_memory_open(world->memory, hx_id_make(world->now.wall, random));
        return world->stores[process];
    }
    int rc = hx_store_sqlite_open(&world->options, &world->stores[process]);
    if (rc < 0)
        fprintf(stderr, "open: %s\n", hx_fault_last()->text);
    hx_assert(rc == 0);
    return world->stores[process];
}

void world_close(struct world *world, int process)
{
    world->stores[process]->ops->close(world->stores[process]);
    world->stores[process] = NULL;
}

void world_kill(struct world *world, int process)
{
    if (world->adapter == WORLD_MEMORY)
        hx_store_memory_kill(world->stores[process]);
    else
        hx_store_sqlite_abandon(world->stores[process]);
    world->stores[process] = NULL;
}

void world_transport_gone(struct world *world, const char *name)
{
    world->gone_transport = name;
    if (world->adapter == WORLD_MEMORY)
        hx_memory_ledger_transport_gone(world->memory, name);
}

struct hx_record world_record(struct world *world, int process, unsigned number)
{
    struct hx_record record = {
        .tenant = HX_SPAN_LIT("local"),
        .principal = HX_SPAN_LIT("1000"),
        .server = HX_SPAN_LIT("bank"),
        .tool = HX_SPAN_LIT("charge"),
        .key_source = HX_KEY_META,
        .contract = hx_contract_default(),
        .state = HX_OP_RUNNING,
        .reason = HX_REASON_CLAIMED,
        .fence = 1,
        .sends = 1,
        .created = world->now,
        .updated = world->now,
        .owner_boot = world->now.boot,
        .arguments = HX_SPAN_LIT("{\"amount\":1.10}"),
    };
    static char keys[4096][16];
    hx_assert(number < 4096);
    int len = snprintf(keys[number], sizeof(keys[number]), "key-%u", number);
    record.key = hx_span(keys[number], (size_t)len);
    uint8_t random[10];
    rand_fill(&world->rand, random, sizeof(random));
    memcpy(random, &number, sizeof(number));
    record.id = hx_id_make(world->now.wall, random);
    random[9] ^= 0x55;
    record.effect_key = hx_id_make(world->now.wall, random);
    if (world->stores[process] != NULL)
        record.owner = world->stores[process]->ops->owner(world->stores[process]);
    record.holder = record.owner;
    record.fingerprint.bytes[0] = (uint8_t)number;
    record.fingerprint.bytes[1] = (uint8_t)(number >> 8);
    record.fingerprint.bytes[31] = 1;
    record.identity = hx_record_identity(world->hasher, &record, false);
    record.twin = hx_record_twin(world->hasher, &record);
    record.attempt.number = 1;
    record.attempt.state = HX_ATTEMPT_OPEN;
    record.attempt.claimed_at = world->now;
    snprintf(record.attempt.transport, sizeof(record.attempt.transport), "transport-%u", number);
    return record;
}

struct hx_store_request *world_take(struct hx_store *store)
{
    for (;;) {
        struct hx_store_request *request = store->ops->take_done(store);
        if (request != NULL)
            return request;
        struct pollfd wait = {.fd = store->ops->wake_fd(store), .events = POLLIN};
        hx_assert(wait.fd >= 0);
        int count = poll(&wait, 1, 30000);
        hx_assert(count == 1);
    }
}

struct hx_store_request *world_run(struct hx_store *store, struct hx_store_request *request)
{
    store->ops->submit(store, request);
    store->ops->flush(store);
    struct hx_store_request *done = world_take(store);
    hx_assert(done == request);
    return done;
}

struct hx_store_request *world_insert(struct hx_store *store, const struct hx_record *record)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_INSERT, NULL);
    request->record = *record;
    return world_run(store, request);
}

struct hx_store_request *world_claim(struct hx_store *store, const struct hx_record *record)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_INSERT, NULL);
    request->record = *record;
    request->mark_after = true;
    return world_run(store, request);
}

struct hx_store_request *world_update(struct hx_store *store, const struct hx_record *record,
                                      uint64_t expected_fence)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_UPDATE, NULL);
    request->record = *record;
    request->expected_fence = expected_fence;
    return world_run(store, request);
}

struct hx_store_request *world_mark(struct world *world, struct hx_store *store,
                                    const struct hx_record *record)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_MARK, NULL);
    request->record = *record;
    request->record.attempt.marked_at = world->now;
    request->expected_fence = record->fence;
    return world_run(store, request);
}

struct hx_store_request *world_find_id(struct hx_store *store, const struct hx_id *id)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_FIND, NULL);
    request->record.id = *id;
    request->find_id = true;
    return world_run(store, request);
}

struct hx_store_request *world_find(struct hx_store *store, const struct hx_record *record,
                                    bool by_identity, bool by_twin)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_FIND, NULL);
    request->record.identity = record->identity;
    request->record.twin = record->twin;
    request->find_identity = by_identity;
    request->find_twin = by_twin;
    return world_run(store, request);
}

struct hx_store_request *world_touch(struct hx_store *store, const struct hx_id *id,
                                     struct hx_store_touch touch)
{
    struct hx_store_request *request = hx_store_request_new(HX_STORE_TOUCH, NULL);
    request->record.id = *id;
    request->touch = touch;
    return world_run(store, request);
}
