/* SPDX-License-Identifier: MIT */
/*
 * The ledger in a SQLite file: port/store.h with one writer thread and group commit.
 *
 * Several processes may use one ledger. All of them must be this program: nothing else may open the
 * database file while a process uses it (docs/ledger-format.md says why).
 */
#ifndef HX_ADAPTER_STORE_SQLITE_STORE_SQLITE_H
#define HX_ADAPTER_STORE_SQLITE_STORE_SQLITE_H

#include <stdbool.h>

#include "base/assert.h"
#include "port/clock.h"
#include "port/rand.h"
#include "port/store.h"

/* Borrowed for the life of the store. Clock, randomness and the question are used from the store's
 * thread too. */
struct hx_store_sqlite_options {
    const char *path;
    struct hx_clock *clock;
    struct hx_rand *rand;
    /* Asks whether the transport that an attempt names is gone with its process group. NULL = it is
     * never known to be gone. */
    bool (*is_transport_gone)(void *context, const char *transport);
    void *transport_context;
    int64_t lock_wait_ms;    /* before an intent; 0 = 2,000 */
    int64_t session_idle_ms; /* sessions unused for so long go; 0 = 7 days */
    /* From the opening on the ledger announces its transitions, for every process on it, until a
     * person ends that. Nothing changes where it does so already. */
    bool keeps_outbox;
    int64_t event_keep_ms; /* events that were delivered go after so long; 0 = 7 days */
    bool allow_any_filesystem;
    /* SQLite's settings for the whole process are the host program's: this is a library in it. */
    bool is_guest_of_process;
    const char *vfs_name; /* test seam; NULL = the default */
    /* Test seam: so many commits happen, and their answers are lost. NULL = none. */
    _Atomic int *lost_answers;
};

/* Opens the ledger, making it and its directory if they are missing; settles what dead processes
 * left in their spools; starts the thread. HX_E_STORE, HX_E_SYSTEM with a sentence for people:
 * what, which file, what to do. */
int hx_store_sqlite_open(const struct hx_store_sqlite_options *options,
                         struct hx_store **ret_store) HX_MUST_CHECK;

/* Before it is opened: what a person should hear of the rights that others have or had. False:
 * nothing. */
bool hx_store_sqlite_warning(const char *path, char *ret_text, size_t size);

/* Where locks of transports may be kept beside those of the owners. Valid until close. */
const char *hx_store_sqlite_owners_directory(struct hx_store *store);

/* For connections of others to the same file (guest.h): as it was opened, and that the log has
 * grown to so many pages by a commit which the store did not see. From any thread. */
const struct hx_store_sqlite_options *hx_store_sqlite_options(struct hx_store *store);
/* The process that holds this owner token, for people; 0 = not known. */
long hx_store_sqlite_owner_pid(struct hx_store *store, const struct hx_id *owner);
void hx_store_sqlite_log_grew(struct hx_store *store, int pages);

/* Test seam: leaves the files as the death of the process would, and frees the store. */
void hx_store_sqlite_abandon(struct hx_store *store);

#endif
