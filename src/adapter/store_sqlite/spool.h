/* SPDX-License-Identifier: MIT */
/*
 * The synced spool of one process: outcomes that could not be committed to the ledger, kept beside
 * it so that they survive this process. Whoever finds the owner dead applies them first.
 *
 * Room is reserved before an intent becomes durable, so that a full disk is noticed while nothing
 * has been sent, and not when the outcome is here.
 */
#ifndef HX_ADAPTER_STORE_SQLITE_SPOOL_H
#define HX_ADAPTER_STORE_SQLITE_SPOOL_H

#include "base/arena.h"
#include "base/digest.h"
#include "base/id.h"
#include "core/record.h"

struct hx_spool {
    char *path;
    const char *directory; /* borrowed */
    struct hx_hasher *hasher;
    int fd;                  /* -1 until something is reserved */
    uint64_t generation;     /* of the newest header that was synced */
    bool must_write_header;  /* before the next entry: the last try failed */
    int64_t used_bytes;      /* header and entries */
    int64_t allocated_bytes; /* what the file system has promised */
    uint32_t entry_count;
    bool is_abandoned; /* test seam: closes as death would */
};

/* Borrows `directory` and `hasher`. Makes no file yet. */
void hx_spool_init(struct hx_spool *spool, const char *directory, const struct hx_id *owner,
                   struct hx_hasher *hasher);
/* Removes the file when it is empty; one with entries stays for others. */
void hx_spool_close(struct hx_spool *spool);

/* Makes sure that `outcome_count` more outcomes of HX_STORE_INLINE_MAX fit. */
int hx_spool_reserve(struct hx_spool *spool, uint32_t outcome_count) HX_MUST_CHECK;
/* Appends and syncs. */
int hx_spool_append(struct hx_spool *spool, const struct hx_record *record,
                    uint64_t expected_fence) HX_MUST_CHECK;
/* Forgets all entries, which must have been committed; also when the file could not be told. */
int hx_spool_empty(struct hx_spool *spool) HX_MUST_CHECK;

/* Gives back room that is not needed while nothing is reserved. */
void hx_spool_trim(struct hx_spool *spool);

/* Calls `visit` for every whole entry in the file at `path`, oldest first; the record has its id
 * and its changing parts only, valid during the call. Stops when visit returns nonzero, and returns
 * that. A torn tail is what a crash leaves, and ends the reading. 0 also when there is no file. */
int hx_spool_read(const char *path, struct hx_hasher *hasher,
                  int (*visit)(void *context, const struct hx_record *record,
                               uint64_t expected_fence),
                  void *context) HX_MUST_CHECK;

/* Makes sure that what was read from the file at `path` is on the disk. */
int hx_spool_sync(const char *path) HX_MUST_CHECK;

#endif
