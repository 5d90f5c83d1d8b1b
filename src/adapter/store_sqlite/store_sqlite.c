/* SPDX-License-Identifier: MIT */
/*
 * The port's side: two queues and the one thread that owns the connection.
 *
 * The loop thread collects requests and hands them over at flush; the store's thread takes all that
 * is queued as one batch, so that batches grow by themselves while a commit is under way. Between
 * batches it does the ledger's housekeeping.
 */
#include "adapter/store_sqlite/store_sqlite.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "adapter/store_sqlite/batch.h"
#include "adapter/store_sqlite/outbox.h"
#include "adapter/store_sqlite/retention.h"
#include "base/alloc.h"
#include "base/shell.h"

enum {
    BATCH_MAX = 512,
    WAL_PAGES_IDLE = 1024,     /* 4 MiB: moved when nothing else is to be done */
    WAL_PAGES_MAX = 16 * 1024, /* 64 MiB: moved even under load */
    IDLE_MS = 50,
    MOVE_PAUSE_MIN_MS = 1000, /* while a reader keeps the log; doubled up to the other */
    MOVE_PAUSE_MAX_MS = 30 * 1000,
    HOUSEKEEPING_MS = 1000,
    SPOOL_RETRY_MS = 250,
    SWEEP_MS = 30 * 1000,
    CLOSE_WAIT_MS = 200
};

struct sqlite_store {
    struct hx_store store;
    struct hx_ledger ledger;
    struct hx_batcher batcher;
    pthread_t thread;
    int wake_fd;
    uint64_t sequence;
    struct hx_id owner;

    /* The loop thread's alone. */
    struct hx_list submitted;
    struct hx_list taken;
    char shown_refusal[HX_FAULT_TEXT_MAX + 64];

    pthread_mutex_t mutex;
    pthread_cond_t wake_up;
    /* Under the mutex. */
    struct hx_list queued;
    struct hx_list done;
    bool is_stopping;
    char refusal[HX_FAULT_TEXT_MAX + 64];
    struct hx_gap gap;

    _Atomic int foreign_pages; /* in the log, after a commit of a guest */
    _Atomic bool has_done;
    _Atomic bool is_refusing;
    _Atomic int64_t low_water_ms;

    /* The store thread's alone. */
    int64_t housekept_ms;
    int64_t move_due_ms;
    int64_t move_pause_ms; /* 0 = the log was moved when it was last tried */
    int64_t spool_tried_ms;
    uint32_t spool_entries;
    int64_t swept_ms;
    struct hx_sweep sweep;
    bool has_more_to_sweep;
};

static struct sqlite_store *sqlite_store(struct hx_store *store)
{
    return hx_container_of(store, struct sqlite_store, store);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- the loop thread ---- */

static void submit(struct hx_store *base, struct hx_store_request *request)
{
    struct sqlite_store *store = sqlite_store(base);
    request->sequence = ++store->sequence;
    hx_list_append(&store->submitted, &request->node);
}

static void flush(struct hx_store *base)
{
    struct sqlite_store *store = sqlite_store(base);
    if (hx_list_is_empty(&store->submitted))
        return;
    pthread_mutex_lock(&store->mutex);
    bool was_empty = hx_list_is_empty(&store->queued);
    hx_list_splice(&store->queued, &store->submitted);
    pthread_mutex_unlock(&store->mutex);
    /* After unlocking, or the thread would wake only to wait for the mutex. */
    if (was_empty)
        pthread_cond_signal(&store->wake_up);
}

static struct hx_store_request *take_done(struct hx_store *base)
{
    struct sqlite_store *store = sqlite_store(base);
    if (hx_list_is_empty(&store->taken) && atomic_load(&store->has_done)) {
        uint64_t count;
        /* Before the list is taken: what comes after writes anew. */
        ssize_t ignored = read(store->wake_fd, &count, sizeof(count));
        (void)ignored;
        pthread_mutex_lock(&store->mutex);
        hx_list_splice(&store->taken, &store->done);
        atomic_store(&store->has_done, false);
        pthread_mutex_unlock(&store->mutex);
    }
    struct hx_list *node = hx_list_take_first(&store->taken);
    return node != NULL ? hx_container_of(node, struct hx_store_request, node) : NULL;
}

static int wake_fd(struct hx_store *base)
{
    return sqlite_store(base)->wake_fd;
}

static struct hx_id owner(struct hx_store *base)
{
    return sqlite_store(base)->owner;
}

static struct hx_wall low_water(struct hx_store *base)
{
    return (struct hx_wall){atomic_load(&sqlite_store(base)->low_water_ms)};
}

static const char *refusal(struct hx_store *base)
{
    struct sqlite_store *store = sqlite_store(base);
    if (!atomic_load(&store->is_refusing))
        return NULL;
    pthread_mutex_lock(&store->mutex);
    memcpy(store->shown_refusal, store->refusal, sizeof(store->shown_refusal));
    pthread_mutex_unlock(&store->mutex);
    return store->shown_refusal[0] != '\0' ? store->shown_refusal : NULL;
}

static struct hx_gap gap(struct hx_store *base)
{
    struct sqlite_store *store = sqlite_store(base);
    pthread_mutex_lock(&store->mutex);
    struct hx_gap gap = store->gap;
    pthread_mutex_unlock(&store->mutex);
    return gap;
}

const char *hx_store_sqlite_owners_directory(struct hx_store *base)
{
    return sqlite_store(base)->ledger.paths.owners;
}

const struct hx_store_sqlite_options *hx_store_sqlite_options(struct hx_store *base)
{
    return sqlite_store(base)->ledger.options;
}

long hx_store_sqlite_owner_pid(struct hx_store *base, const struct hx_id *owner)
{
    return hx_owners_pid(sqlite_store(base)->ledger.paths.owners, owner);
}

void hx_store_sqlite_log_grew(struct hx_store *base, int pages)
{
    struct sqlite_store *store = sqlite_store(base);
    if (pages < WAL_PAGES_IDLE)
        return;
    pthread_mutex_lock(&store->mutex);
    atomic_store(&store->foreign_pages, pages);
    pthread_cond_signal(&store->wake_up);
    pthread_mutex_unlock(&store->mutex);
}

/* ---- the store's thread ---- */

static void say_restored(struct sqlite_store *store, struct hx_span path)
{
    struct hx_buf word;
    hx_buf_init(&word, sizeof(store->refusal));
    (void)hx_shell_word(&word, path);
    snprintf(store->refusal, sizeof(store->refusal),
             "The ledger %.*s is older than its counter: a copy was restored. Tell when it was "
             "taken: hapax ops recover --backup-taken-at TIME --ledger %.*s",
             HX_SPAN_FMT(path), HX_SPAN_FMT(hx_buf_span(&word)));
    hx_buf_fini(&word);
}

/* Lets the loop thread see what the newest transaction read. */
static void publish(struct sqlite_store *store)
{
    struct hx_ledger *ledger = &store->ledger;
    bool is_refusing = ledger->is_restored_copy || ledger->is_ill;
    atomic_store(&store->low_water_ms, ledger->meta.low_water.ms);
    /* It ages with each transaction; what is younger than it is only makes more cautious. */
    struct hx_gap gap = hx_ledger_gap(ledger);
    bool has_new_gap = memcmp(&store->gap, &gap, sizeof(gap)) != 0;
    if (!is_refusing && !has_new_gap && !atomic_load(&store->is_refusing))
        return;
    pthread_mutex_lock(&store->mutex);
    store->gap = gap;
    store->refusal[0] = '\0';
    if (ledger->is_restored_copy)
        say_restored(store, hx_span_cstr(ledger->paths.ledger));
    else if (ledger->is_ill)
        snprintf(store->refusal, sizeof(store->refusal), "%s", ledger->illness);
    pthread_mutex_unlock(&store->mutex);
    atomic_store(&store->is_refusing, is_refusing);
}

static void deliver(struct sqlite_store *store, struct hx_list *batch)
{
    pthread_mutex_lock(&store->mutex);
    bool was_empty = hx_list_is_empty(&store->done);
    hx_list_splice(&store->done, batch);
    atomic_store(&store->has_done, true);
    pthread_mutex_unlock(&store->mutex);
    if (was_empty) {
        uint64_t one = 1;
        ssize_t ignored = write(store->wake_fd, &one, sizeof(one)); /* full = readable already */
        (void)ignored;
    }
}

static bool wait_until(struct sqlite_store *store, int64_t deadline_ms)
{
    struct timespec deadline = {.tv_sec = deadline_ms / 1000,
                                .tv_nsec = deadline_ms % 1000 * 1000000};
    return pthread_cond_timedwait(&store->wake_up, &store->mutex, &deadline) == ETIMEDOUT;
}

/* For the batcher: waits while a commit is in doubt. */
static bool wait_in_doubt(void *context, int64_t ms)
{
    struct sqlite_store *store = context;
    publish(store);
    int64_t deadline_ms = now_ms() + ms;
    pthread_mutex_lock(&store->mutex);
    while (!store->is_stopping && !wait_until(store, deadline_ms)) {
    }
    bool is_stopping = store->is_stopping;
    pthread_mutex_unlock(&store->mutex);
    return !is_stopping;
}

static void recheck(struct sqlite_store *store)
{
    struct hx_ledger *ledger = &store->ledger;
    if (ledger->is_ill)
        hx_ledger_ignore(hx_ledger_heal(ledger)); /* tried again in a second */
    if (ledger->is_restored_copy)
        hx_ledger_recheck_copy(ledger);
}

/* A reader may keep the log for as long as it likes, and every process that has committed sees how
 * long the log is: they do not all try without a pause. */
static void move_log(struct sqlite_store *store, int64_t now)
{
    struct hx_ledger *ledger = &store->ledger;
    if (now < store->move_due_ms)
        return;
    hx_ledger_ignore(hx_ledger_checkpoint(ledger, false));
    int64_t pause_ms = 0;
    if (ledger->wal_pages > 0) {
        pause_ms = store->move_pause_ms > 0 ? 2 * store->move_pause_ms : MOVE_PAUSE_MIN_MS;
        pause_ms = pause_ms < MOVE_PAUSE_MAX_MS ? pause_ms : MOVE_PAUSE_MAX_MS;
    }
    store->move_pause_ms = pause_ms;
    store->move_due_ms = now_ms() + pause_ms;
}

/* What is due by time; cheap when nothing is. Errors are met again by the next request. */
static void housekeep(struct sqlite_store *store, bool is_idle)
{
    struct hx_ledger *ledger = &store->ledger;
    int64_t now = now_ms();
    int foreign_pages = atomic_exchange(&store->foreign_pages, 0);
    if (foreign_pages > ledger->wal_pages)
        ledger->wal_pages = foreign_pages;
    if (ledger->wal_pages >= (is_idle ? WAL_PAGES_IDLE : WAL_PAGES_MAX))
        move_log(store, now);
    if (ledger->spool.entry_count != store->spool_entries) {
        /* A new entry: its commit has only just failed. */
        store->spool_entries = ledger->spool.entry_count;
        store->spool_tried_ms = now;
    }
    if (ledger->spool.entry_count > 0 && now - store->spool_tried_ms >= SPOOL_RETRY_MS) {
        store->spool_tried_ms = now;
        hx_ledger_ignore(hx_batch_apply_own_spool(&store->batcher));
    }
    if (now - store->housekept_ms >= HOUSEKEEPING_MS) {
        store->housekept_ms = now;
        recheck(store);
    }
    if ((is_idle && (store->has_more_to_sweep || now - store->swept_ms >= SWEEP_MS)) ||
        now - store->swept_ms >= 4 * SWEEP_MS) {
        int rc = hx_sweep_step(&store->sweep, ledger, &store->batcher.aftermath);
        store->has_more_to_sweep = rc == HX_SWEEP_MORE;
        if (ledger->reserved > 0 || ledger->spool.fd >= 0)
            hx_ledger_ignore(hx_row_recount_claims(ledger)); /* too much room is no harm */
        store->swept_ms = now;
    }
    publish(store);
}

static int64_t idle_wait_ms(const struct sqlite_store *store)
{
    const struct hx_ledger *ledger = &store->ledger;
    int64_t wait_ms = SWEEP_MS;
    if (store->has_more_to_sweep)
        wait_ms = IDLE_MS;
    else if (ledger->spool.entry_count > 0)
        wait_ms = SPOOL_RETRY_MS;
    else if (ledger->is_ill || ledger->is_restored_copy)
        wait_ms = HOUSEKEEPING_MS;
    if (ledger->wal_pages >= WAL_PAGES_IDLE) {
        int64_t due_ms = store->move_due_ms - now_ms();
        due_ms = due_ms > IDLE_MS ? due_ms : IDLE_MS;
        wait_ms = due_ms < wait_ms ? due_ms : wait_ms;
    }
    return wait_ms;
}

/* Takes at most BATCH_MAX requests. False = the store is being closed and nothing is left. */
static bool next_batch(struct sqlite_store *store, struct hx_list *ret_batch)
{
    pthread_mutex_lock(&store->mutex);
    while (hx_list_is_empty(&store->queued) && !store->is_stopping) {
        bool is_late = wait_until(store, now_ms() + idle_wait_ms(store));
        /* Guests that commit without a pause would else put it off for ever. */
        if (is_late || atomic_load(&store->foreign_pages) > 0) {
            pthread_mutex_unlock(&store->mutex);
            housekeep(store, true);
            pthread_mutex_lock(&store->mutex);
        }
    }
    for (int i = 0; i < BATCH_MAX && !hx_list_is_empty(&store->queued); i++)
        hx_list_append(ret_batch, hx_list_take_first(&store->queued));
    pthread_mutex_unlock(&store->mutex);
    return !hx_list_is_empty(ret_batch);
}

static void *thread_main(void *context)
{
    struct sqlite_store *store = context;
    struct hx_list batch;
    /* The pauses of the lock file are short; the default slack would make them 50 us longer. */
    (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
    hx_list_init(&batch);
    while (next_batch(store, &batch)) {
        bool is_known = hx_batch_run(&store->batcher, &batch);
        publish(store);
        if (!is_known)
            break;
        deliver(store, &batch);
        housekeep(store, false);
    }
    /* In doubt to the end: their submitters never hear of them, which is what doubt means. */
    pthread_mutex_lock(&store->mutex);
    hx_list_splice(&store->queued, &batch);
    pthread_mutex_unlock(&store->mutex);
    return NULL;
}

/* ---- opening and closing ---- */

static void free_requests(struct hx_list *list)
{
    for (struct hx_list *node; (node = hx_list_take_first(list)) != NULL;)
        hx_store_request_free(hx_container_of(node, struct hx_store_request, node));
}

static void free_store(struct sqlite_store *store)
{
    free_requests(&store->submitted);
    free_requests(&store->queued);
    free_requests(&store->done);
    free_requests(&store->taken);
    hx_aftermath_fini(&store->batcher.aftermath);
    if (store->wake_fd >= 0)
        close(store->wake_fd);
    pthread_cond_destroy(&store->wake_up);
    pthread_mutex_destroy(&store->mutex);
    hx_free(store);
}

static void stop_thread(struct sqlite_store *store)
{
    pthread_mutex_lock(&store->mutex);
    store->is_stopping = true;
    pthread_cond_signal(&store->wake_up);
    pthread_mutex_unlock(&store->mutex);
    pthread_join(store->thread, NULL);
}

void hx_store_sqlite_abandon(struct hx_store *base)
{
    struct sqlite_store *store = sqlite_store(base);
    stop_thread(store);
    store->ledger.spool.is_abandoned = true;
    store->ledger.owners.is_abandoned = true;
    hx_ledger_close(&store->ledger);
    free_store(store);
}

static void store_close(struct hx_store *base)
{
    struct sqlite_store *store = sqlite_store(base);
    struct hx_ledger *ledger = &store->ledger;
    flush(base);
    stop_thread(store);
    ledger->lock_wait_ms = CLOSE_WAIT_MS;
    if (ledger->spool.entry_count > 0)
        hx_ledger_ignore(
            hx_batch_apply_own_spool(&store->batcher)); /* else the next process does it */
    if (ledger->wal_pages > 0 && !ledger->is_ill)
        hx_ledger_ignore(hx_ledger_checkpoint(ledger, true));
    hx_ledger_close(ledger);
    free_store(store);
}

static const struct hx_store_ops ops = {
    .submit = submit,
    .flush = flush,
    .take_done = take_done,
    .wake_fd = wake_fd,
    .owner = owner,
    .low_water = low_water,
    .refusal = refusal,
    .gap = gap,
    .close = store_close,
};

static void init_threads(struct sqlite_store *store)
{
    pthread_condattr_t attributes;
    pthread_mutex_init(&store->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&store->wake_up, &attributes);
    pthread_condattr_destroy(&attributes);
}

int hx_store_sqlite_open(const struct hx_store_sqlite_options *options, struct hx_store **ret_store)
{
    struct sqlite_store *store = hx_new(struct sqlite_store);
    uint8_t random[10];
    uint32_t spools_applied;
    store->store.ops = &ops;
    store->ledger.counter.fd = -1;
    store->swept_ms = now_ms();
    store->housekept_ms = store->swept_ms;
    hx_list_init(&store->submitted);
    hx_list_init(&store->queued);
    hx_list_init(&store->done);
    hx_list_init(&store->taken);
    init_threads(store);
    hx_rand_fill(options->rand, random, sizeof(random));
    store->owner = hx_id_make(hx_clock_now(options->clock).wall, random);
    store->batcher =
        (struct hx_batcher){.ledger = &store->ledger, .wait = wait_in_doubt, .wait_context = store};
    store->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = store->wake_fd < 0 ? HX_RAISE_ERRNO("eventfd") : 0;
    if (rc == 0)
        rc = hx_ledger_open(&store->ledger, options, &store->owner);
    if (rc == 0)
        rc = hx_outbox_begin(&store->ledger);
    /* An outcome whose row a restored copy lacks would be lost: recover settles, on an order. */
    if (rc == 0 && !store->ledger.is_restored_copy)
        rc = hx_batch_settle_dead(&store->batcher, &spools_applied);
    if (rc == 0) {
        publish(store);
        int error = pthread_create(&store->thread, NULL, thread_main, store);
        errno = error;
        rc = error != 0 ? HX_RAISE_ERRNO("thread") : 0;
    }
    if (rc < 0) {
        hx_ledger_close(&store->ledger);
        free_store(store);
        return HX_TRACE(rc);
    }
    *ret_store = &store->store;
    return 0;
}
