/* SPDX-License-Identifier: MIT */
/*
 * How large the ledger is, and of what.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "adapter/store_sqlite/inspect_ledger.h"

/* One row of one or two numbers, in a transaction of its own. */
static int read_numbers(struct hx_inspect *inspect, const char *sql, uint64_t *ret_first,
                        uint64_t *ret_second)
{
    int rc = hx_inspect_begin(inspect);
    if (rc < 0)
        return HX_TRACE(rc);
    sqlite3_stmt *stmt = hx_inspect_prepare(inspect, sql);
    rc = stmt != NULL ? hx_ledger_step(&inspect->ledger, stmt) : HX_E_STORE;
    if (rc == 1) {
        *ret_first = (uint64_t)sqlite3_column_int64(stmt, 0);
        if (ret_second != NULL)
            *ret_second = (uint64_t)sqlite3_column_int64(stmt, 1);
        rc = 0;
    }
    sqlite3_finalize(stmt);
    hx_ledger_rollback(&inspect->ledger);
    return HX_TRACE(rc);
}

static uint64_t file_bytes(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (uint64_t)info.st_size : 0;
}

/* A file may go while it is counted; then it is not counted. */
static int count_files(const char *path, struct hx_inspect_files *ret_files)
{
    DIR *directory = opendir(path);
    *ret_files = (struct hx_inspect_files){0};
    if (directory == NULL)
        return HX_RAISE_ERRNO("The directory %s cannot be read", path);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        struct stat info;
        if (entry->d_name[0] == '.' || fstatat(dirfd(directory), entry->d_name, &info, 0) != 0)
            continue;
        ret_files->count++;
        ret_files->bytes += (uint64_t)info.st_size;
    }
    closedir(directory);
    return 0;
}

static int count_rows(struct hx_inspect *inspect, struct hx_inspect_size *size)
{
    struct {
        const char *sql;
        uint64_t *first;
        uint64_t *second;
    } rows[] = {
        {"SELECT count(*), sum(length(bytes)) FROM payload", &size->payloads.count,
         &size->payloads.bytes},
        {"SELECT count(*) FROM history", &size->history, NULL},
        {"SELECT count(*) FROM session", &size->sessions, NULL},
        {"SELECT count(*) FILTER (WHERE place < 2), count(*) FILTER (WHERE place >= 2)"
         " FROM outbox",
         &size->events_open, &size->events_over},
        {"SELECT page_count * page_size, freelist_count * page_size FROM pragma_page_count,"
         " pragma_page_size, pragma_freelist_count",
         &size->database_bytes, &size->free_bytes},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int rc = read_numbers(inspect, rows[i].sql, rows[i].first, rows[i].second);
        if (rc < 0)
            return HX_TRACE(rc);
    }
    return 0;
}

int hx_inspect_size(struct hx_inspect *inspect, struct hx_inspect_size *ret_size)
{
    const struct hx_paths *paths = &inspect->ledger.paths;
    uint64_t oldest_ms = 0;
    *ret_size = (struct hx_inspect_size){0};
    int rc = hx_inspect_facts(inspect, &ret_size->facts);
    if (rc == 0)
        rc = count_rows(inspect, ret_size);
    if (rc == 0)
        rc = read_numbers(inspect,
                          "SELECT min(created) FROM op WHERE row = (SELECT min(row) FROM op)",
                          &oldest_ms, NULL);
    if (rc == 0)
        rc = count_files(paths->blobs, &ret_size->blobs);
    if (rc == 0)
        rc = count_files(paths->spool, &ret_size->spools);
    if (rc < 0)
        return HX_TRACE(rc);
    ret_size->oldest.ms = (int64_t)oldest_ms;
    char log[PATH_MAX];
    snprintf(log, sizeof(log), "%s-wal", paths->ledger);
    ret_size->log_bytes = file_bytes(log);
    return 0;
}
