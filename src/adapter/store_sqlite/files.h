/* SPDX-License-Identifier: MIT */
/*
 * The files beside a ledger: their names, safe creation, and whole reads and writes.
 *
 *   LEDGER           the database; LEDGER-wal and LEDGER-shm are SQLite's
 *   LEDGER-lock      who may write it now
 *   LEDGER-counter   how many synced commits there were
 *   LEDGER-owners/   one locked file per living process, and the locks of their transports
 *   LEDGER-spool/    outcomes that could not be committed, one file per process
 *   LEDGER-blobs/    outcomes too large for a row
 *
 * All are named after the ledger, so it must have one name: under a second one it would have
 * another log, another lock and none of the living owners.
 *
 * No file of ours is the database: SQLite's locks on it are lost when any descriptor of it is
 * closed.
 */
#ifndef HX_ADAPTER_STORE_SQLITE_FILES_H
#define HX_ADAPTER_STORE_SQLITE_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/id.h"
#include "base/span.h"

struct hx_paths {
    char *ledger; /* a symbolic link is followed, once, when this is made */
    char *directory;
    char *link_directory; /* where that link is, or NULL */
    char *lock;
    char *counter;
    char *owners;
    char *spool;
    char *blobs;
};

void hx_paths_init(struct hx_paths *paths, const char *ledger);
void hx_paths_fini(struct hx_paths *paths);
/* What a symbolic link to a ledger leads to, or a copy of `path`; to be freed. A link that leads
 * nowhere stays, for hx_file_check_name to refuse. */
char *hx_path_true_name(const char *path);
/* Returns "DIRECTORY/NAME", to be freed. */
char *hx_path_join(const char *directory, const char *name);
char *hx_path_of_id(const char *directory, const struct hx_id *id);

/* Makes the directory and those above it that are missing, 0700. */
int hx_directory_make(const char *path);
/* Syncs the directory itself, so that names made or removed in it are durable. */
int hx_directory_sync(const char *path);
/* Refuses file systems on which locks or syncs cannot be trusted. `allow_any` skips it. */
int hx_filesystem_check(const char *directory, bool allow_any);
/* Makes an empty 0600 file if there is none; tightens the mode of one that others could read. */
int hx_file_ensure_private(const char *path);

/* Refuses a ledger that may be known to others by another name: a hard link, or a mount of the file
 * itself (Linux 5.8 tells). 0 also when there is none yet. */
int hx_file_check_name(const char *path);

int hx_write_all(int fd, const void *bytes, size_t len, int64_t offset);
/* 0, or 1 when the file ends before `len` bytes. */
int hx_read_all(int fd, void *ret_bytes, size_t len, int64_t offset);

#endif
