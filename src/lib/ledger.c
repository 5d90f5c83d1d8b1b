/* SPDX-License-Identifier: MIT */
/*
 * The opened ledger, and how many threads share its store: one of those that wait listens at the
 * store's descriptor and hands the others what came back, so that their writes meet in one commit.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "adapter/store_sqlite/files.h"
#include "base/alloc.h"
#include "base/fault.h"
#include "lib/internal.h"

enum { LISTEN_MS = 1000 };

/* What is put by for a guest is there as long as any ledger is open. The two change together, or
 * the last to close would take it from one that opens at that moment. */
static pthread_mutex_t guest_mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned open_count;
static bool is_fork_handled;

static void before_fork(void)
{
    pthread_mutex_lock(&guest_mutex);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&guest_mutex);
}

/* Under the mutex. A child that was forked while another thread had it could open nothing. */
static bool handle_forks(void)
{
    if (!is_fork_handled)
        is_fork_handled = pthread_atfork(before_fork, after_fork, after_fork) == 0;
    return is_fork_handled;
}

struct waiting {
    bool is_done;
};

_Static_assert(HAPAX_VERSION_MAJOR * 1000000 + HAPAX_VERSION_MINOR * 1000 + HAPAX_VERSION_PATCH ==
                   HX_VERSION_EXPECTED,
               "the header and the project tell different versions");

unsigned hapax_version(void)
{
    return HAPAX_VERSION_MAJOR * 1000000U + HAPAX_VERSION_MINOR * 1000U + HAPAX_VERSION_PATCH;
}

void hapax_options_init(struct hapax_options *options)
{
    *options = (struct hapax_options){.size = sizeof(*options)};
}

static const char *options_flaw(const struct hapax_options *options)
{
    if (options == NULL || options->size < sizeof(*options))
        return "The options have no size: begin with hapax_options_init.";
    if (options->path == NULL || options->path[0] == '\0')
        return "The options name no path for the ledger.";
    if (options->server == NULL || options->server[0] == '\0')
        return "The options name no server.";
    if (options->lock_wait_ms < 0)
        return "lock_wait_ms is negative.";
    return NULL;
}

static bool guest_comes(void)
{
    pthread_mutex_lock(&guest_mutex);
    bool is_welcome = handle_forks() && hx_alloc_be_guest();
    if (is_welcome)
        open_count++;
    else if (open_count == 0)
        hx_alloc_guest_over(); /* the part of it that could be had */
    pthread_mutex_unlock(&guest_mutex);
    return is_welcome;
}

static void guest_goes(void)
{
    pthread_mutex_lock(&guest_mutex);
    if (--open_count == 0)
        hx_alloc_guest_over();
    pthread_mutex_unlock(&guest_mutex);
}

/* The thread that the store starts must not take the program's signals. */
static int open_store(struct hapax *hapax)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = hx_store_sqlite_open(&hapax->options, &hapax->store);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return HX_TRACE(rc);
}

static void free_hapax(struct hapax *hapax)
{
    pthread_cond_destroy(&hapax->came_back);
    pthread_cond_destroy(&hapax->ended);
    pthread_mutex_destroy(&hapax->mutex);
    for (struct hx_list *node; (node = hx_list_take_first(&hapax->ghosts)) != NULL;)
        hx_free(hx_container_of(node, struct hx_lib_ghost, node));
    hx_free(hapax->path);
    hx_free(hapax->server);
    hx_free(hapax->tenant);
    hapax->magic = 0;
    hx_free(hapax);
    guest_goes();
}

/* The program may go elsewhere, and whoever reads the path in a text stands in a directory of his
 * own. */
static char *absolute(const char *path)
{
    char *here = path[0] == '/' ? NULL : getcwd(NULL, 0);
    char *whole = here != NULL ? hx_path_join(here, path) : hx_strdup(path);
    free(here); /* style-ok: getcwd's own */
    return whole;
}

int hapax_open(const struct hapax_options *options, struct hapax **ret_hapax,
               struct hapax_error *ret_error)
{
    const char *flaw = options_flaw(options);
    if (flaw != NULL)
        return hx_lib_fail(ret_error, HAPAX_E_MISUSE, "%s", flaw);
    if (!guest_comes())
        return hx_lib_fail_memory(ret_error);
    struct hapax *hapax = hx_new(struct hapax);
    pthread_condattr_t attributes;
    hapax->magic = HX_LIB_MAGIC;
    hapax->pid = getpid();
    hapax->path = absolute(options->path);
    hapax->server = hx_strdup(options->server);
    hapax->tenant = hx_strdup(options->tenant != NULL ? options->tenant : "local");
    hx_list_init(&hapax->calls);
    hx_list_init(&hapax->ghosts);
    pthread_mutex_init(&hapax->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&hapax->came_back, &attributes);
    pthread_cond_init(&hapax->ended, &attributes);
    pthread_condattr_destroy(&attributes);
    hx_clock_os_init(&hapax->clock);
    hapax->options = (struct hx_store_sqlite_options){
        .path = hapax->path,
        .clock = &hapax->clock.clock,
        .rand = hx_rand_os(),
        .lock_wait_ms = options->lock_wait_ms,
        .keeps_outbox = options->keeps_outbox != 0,
        .is_guest_of_process = true,
    };
    if (open_store(hapax) < 0) {
        free_hapax(hapax);
        return hx_lib_fail_fault(ret_error, HAPAX_E_LEDGER);
    }
    hapax->owner = hapax->store->ops->owner(hapax->store);
    hx_id_format(&hapax->owner, hapax->owner_text);
    *ret_hapax = hapax;
    return 0;
}

/* What came back. Under the mutex. */
static void take_all(struct hapax *hapax)
{
    struct hx_store_request *done;
    while ((done = hapax->store->ops->take_done(hapax->store)) != NULL) {
        struct waiting *waiting = done->context;
        if (waiting == NULL)
            hx_store_request_free(done);
        else
            waiting->is_done = true;
    }
}

int hapax_close(struct hapax *hapax, struct hapax_error *ret_error)
{
    if (hapax == NULL)
        return 0;
    int rc = hx_lib_check(hapax, ret_error);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&hapax->mutex);
    bool is_used = !hx_list_is_empty(&hapax->calls) || hapax->conn_count > 0;
    pthread_mutex_unlock(&hapax->mutex);
    if (is_used)
        return hx_lib_fail(
            ret_error, HAPAX_E_MISUSE,
            "The ledger is in use: free its calls and detach its connections first.");
    hapax->store->ops->close(hapax->store);
    free_hapax(hapax);
    return 0;
}

/* Waits at the store's descriptor without the mutex, and hands out what came. */
static void listen_once(struct hapax *hapax, const struct waiting *waiting)
{
    hapax->has_reader = true;
    take_all(hapax);
    if (!waiting->is_done) {
        struct pollfd wake = {.fd = hapax->store->ops->wake_fd(hapax->store), .events = POLLIN};
        pthread_mutex_unlock(&hapax->mutex);
        (void)poll(&wake, 1, LISTEN_MS); /* interrupted or late: it is asked again */
        pthread_mutex_lock(&hapax->mutex);
        take_all(hapax);
    }
    hapax->has_reader = false;
    pthread_cond_broadcast(&hapax->came_back);
}

static void run_on_store(struct hapax *hapax, struct hx_store_request *request)
{
    struct waiting waiting = {0};
    request->context = &waiting;
    pthread_mutex_lock(&hapax->mutex);
    hapax->store->ops->submit(hapax->store, request);
    hapax->store->ops->flush(hapax->store);
    /* Without end: while a commit is in doubt the store knows nothing, and neither would we. */
    while (!waiting.is_done) {
        if (hapax->has_reader)
            pthread_cond_wait(&hapax->came_back, &hapax->mutex);
        else
            listen_once(hapax, &waiting);
    }
    pthread_mutex_unlock(&hapax->mutex);
    request->context = NULL;
}

void hx_lib_run(struct hapax *hapax, struct hapax_conn *conn, struct hx_store_request *request)
{
    if (conn != NULL)
        hx_guest_run(conn->guest, request);
    else
        run_on_store(hapax, request);
    if (request->result == HX_STORE_NOT_DONE)
        (void)HX_RAISE(HX_E_STORE, "%s", request->error);
}

void hx_lib_run_later(struct hapax *hapax, struct hapax_conn *conn,
                      struct hx_store_request *request)
{
    if (conn != NULL) {
        hx_guest_run(conn->guest, request);
        hx_store_request_free(request);
        return;
    }
    request->context = NULL;
    pthread_mutex_lock(&hapax->mutex);
    hapax->store->ops->submit(hapax->store, request);
    hapax->store->ops->flush(hapax->store);
    take_all(hapax);
    pthread_mutex_unlock(&hapax->mutex);
}

void hx_lib_wait(struct hapax *hapax, int64_t wait_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + wait_ms % 1000 * 1000000;
    until.tv_sec += (time_t)(wait_ms / 1000 + ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    pthread_mutex_lock(&hapax->mutex);
    (void)pthread_cond_timedwait(&hapax->ended, &hapax->mutex, &until);
    pthread_mutex_unlock(&hapax->mutex);
}

struct hx_id hx_lib_mint(struct hapax *hapax)
{
    uint8_t random[10];
    hx_rand_fill(hapax->options.rand, random, sizeof(random));
    return hx_id_make(hx_clock_now(hapax->options.clock).wall, random);
}

struct hx_now hx_lib_now(struct hapax *hapax)
{
    return hx_clock_now(hapax->options.clock);
}
