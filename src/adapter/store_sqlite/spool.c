/* SPDX-License-Identifier: MIT */
/*
 * File: a header (magic, generation), then entries. Each entry names the generation of its header,
 * so that what lies behind the newest entry, from before the spool was emptied, is not taken for
 * one.
 */
#include "adapter/store_sqlite/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "adapter/store_sqlite/columns.h"
#include "adapter/store_sqlite/files.h"
#include "base/alloc.h"
#include "base/crash.h"
#include "base/fault.h"
#include "port/store.h"

struct spool_header {
    char magic[8];
    uint64_t generation;
};

struct entry_header {
    char magic[4];
    uint32_t reserved;
    uint64_t generation;
    uint64_t len; /* of what follows */
    uint8_t check[32];
};

_Static_assert(sizeof(struct spool_header) == 16, "the header has no padding");
_Static_assert(sizeof(struct entry_header) == 56, "the header has no padding");

static const char spool_magic[8] = {'H', 'A', 'P', 'A', 'X', 'S', 'P', '1'};
static const char entry_magic[4] = {'E', 'N', 'T', 'R'};

/* An outcome that fits a row, its record, and the header. */
enum { SLOT_SIZE = HX_STORE_INLINE_MAX + 2048, CHUNK_SLOTS = 4 };
/* Larger results than this are never accepted. */
#define ENTRY_LEN_MAX ((uint64_t)128 * 1024 * 1024)

void hx_spool_init(struct hx_spool *spool, const char *directory, const struct hx_id *owner,
                   struct hx_hasher *hasher)
{
    *spool = (struct hx_spool){
        .path = hx_path_of_id(directory, owner),
        .directory = directory,
        .hasher = hasher,
        .fd = -1,
        .used_bytes = sizeof(struct spool_header),
    };
}

void hx_spool_close(struct hx_spool *spool)
{
    if (spool->path == NULL)
        return;
    if (spool->fd >= 0) {
        if (spool->entry_count == 0 && !spool->is_abandoned)
            (void)unlink(spool->path);
        close(spool->fd);
        spool->fd = -1;
    }
    spool->path = hx_free(spool->path);
}

static int write_header(struct hx_spool *spool, uint64_t generation)
{
    struct spool_header header = {.generation = generation};
    memcpy(header.magic, spool_magic, sizeof(spool_magic));
    int rc = hx_write_all(spool->fd, &header, sizeof(header), 0);
    if (rc == 0 && fdatasync(spool->fd) < 0)
        rc = HX_RAISE_ERRNO("sync");
    if (rc == 0)
        spool->generation = generation;
    spool->must_write_header = rc < 0;
    return rc;
}

/* A file that could not be finished is removed: it must not look like room that is there. */
static int make_file(struct hx_spool *spool)
{
    spool->fd = open(spool->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (spool->fd < 0)
        return HX_RAISE_ERRNO("The spool %s cannot be made", spool->path);
    int rc = write_header(spool, 1);
    if (rc == 0)
        rc = hx_directory_sync(spool->directory);
    if (rc == 0)
        return 0;
    (void)unlink(spool->path);
    close(spool->fd);
    spool->fd = -1;
    return HX_RAISE_ERRNO("The spool %s cannot be made", spool->path);
}

int hx_spool_reserve(struct hx_spool *spool, uint32_t outcome_count)
{
    int64_t wanted = spool->used_bytes + (int64_t)outcome_count * SLOT_SIZE;
    if (wanted <= spool->allocated_bytes)
        return 0;
    if (spool->fd < 0) {
        int rc = make_file(spool);
        if (rc < 0)
            return HX_TRACE(rc);
    }
    wanted += (int64_t)(CHUNK_SLOTS - 1) * SLOT_SIZE;
    int error = posix_fallocate(spool->fd, 0, wanted);
    if (error != 0) {
        errno = error;
        return HX_RAISE_ERRNO("There is no room to keep an outcome safe in %s: free some space",
                              spool->path);
    }
    spool->allocated_bytes = wanted;
    HX_CRASH_POINT("spool-reserved");
    return 0;
}

static void seal(struct hx_hasher *hasher, const struct entry_header *header, struct hx_span body,
                 uint8_t ret_check[32])
{
    hx_hasher_begin(hasher);
    hx_hasher_add(hasher, hx_span((const char *)header, offsetof(struct entry_header, check)));
    hx_hasher_add(hasher, body);
    struct hx_digest digest = hx_hasher_end(hasher);
    memcpy(ret_check, digest.bytes, sizeof(digest.bytes));
}

static int pack_entry(struct hx_spool *spool, struct hx_buf *entry, const struct hx_record *record,
                      uint64_t expected_fence)
{
    struct entry_header header = {.generation = spool->generation};
    uint64_t bytes_len =
        hx_span_is_absent(record->outcome.bytes) ? UINT64_MAX : record->outcome.bytes.len;
    uint64_t place = (uint64_t)record->outcome.place;
    (void)hx_buf_append(entry, &header, sizeof(header));
    (void)hx_buf_append(entry, &record->id, sizeof(record->id));
    (void)hx_buf_append(entry, &expected_fence, sizeof(expected_fence));
    (void)hx_buf_append(entry, &place, sizeof(place));
    (void)hx_buf_append(entry, &bytes_len, sizeof(bytes_len));
    hx_columns_pack(entry, record);
    (void)hx_buf_append_span(entry, record->outcome.bytes);
    if (!hx_buf_ok(entry))
        return HX_RAISE(HX_E_NOMEM, "There is not enough memory to spool the outcome.");
    memcpy(header.magic, entry_magic, sizeof(entry_magic));
    header.len = entry->len - sizeof(header);
    seal(spool->hasher, &header, hx_span(entry->data + sizeof(header), header.len), header.check);
    memcpy(entry->data, &header, sizeof(header));
    return 0;
}

int hx_spool_append(struct hx_spool *spool, const struct hx_record *record, uint64_t expected_fence)
{
    struct hx_buf entry;
    hx_buf_init(&entry, ENTRY_LEN_MAX);
    int rc = spool->fd < 0 ? make_file(spool) : 0;
    /* Under the header of another generation nobody would find it. */
    if (rc == 0 && spool->must_write_header && write_header(spool, spool->generation + 1) < 0)
        rc = HX_RAISE_ERRNO("The spool %s cannot be written", spool->path);
    if (rc == 0)
        rc = pack_entry(spool, &entry, record, expected_fence);
    if (rc == 0) {
        HX_CRASH_POINT("spool-before-write");
        rc = hx_write_all(spool->fd, entry.data, entry.len, spool->used_bytes);
        HX_CRASH_POINT("spool-written");
        if (rc == 0 && fdatasync(spool->fd) < 0)
            rc = HX_RAISE_ERRNO("sync");
        HX_CRASH_POINT("spool-synced");
        if (rc < 0)
            rc = HX_RAISE_ERRNO("The spool %s cannot be written", spool->path);
    }
    if (rc == 0) {
        spool->used_bytes += (int64_t)entry.len;
        spool->entry_count++;
    }
    hx_buf_fini(&entry);
    return HX_TRACE(rc);
}

int hx_spool_empty(struct hx_spool *spool)
{
    hx_assert(spool->fd >= 0);
    /* Whatever becomes of the header, the next entry takes the place of these: to apply them again
     * would change nothing, and one behind them, of another generation, nobody would find. */
    spool->used_bytes = sizeof(struct spool_header);
    spool->entry_count = 0;
    int rc = write_header(spool, spool->generation + 1);
    if (rc == 0)
        HX_CRASH_POINT("spool-emptied");
    return HX_TRACE(rc);
}

void hx_spool_trim(struct hx_spool *spool)
{
    if (spool->fd < 0 || spool->entry_count > 0 ||
        spool->allocated_bytes <= (int64_t)CHUNK_SLOTS * SLOT_SIZE)
        return;
    if (ftruncate(spool->fd, (off_t)sizeof(struct spool_header)) == 0)
        spool->allocated_bytes = 0;
}

static uint64_t take_u64(struct hx_span *bytes)
{
    uint64_t value;
    memcpy(&value, bytes->ptr, sizeof(value));
    bytes->ptr += sizeof(value);
    bytes->len -= sizeof(value);
    return value;
}

/* False when the bytes, though whole, are not what this version writes. */
static bool unpack_entry(struct hx_span body, struct hx_record *ret_record, uint64_t *ret_fence)
{
    if (body.len < sizeof(struct hx_id) + 3 * sizeof(uint64_t))
        return false;
    *ret_record = (struct hx_record){0};
    memcpy(&ret_record->id, body.ptr, sizeof(struct hx_id));
    body = hx_span(body.ptr + sizeof(struct hx_id), body.len - sizeof(struct hx_id));
    *ret_fence = take_u64(&body);
    uint64_t place = take_u64(&body);
    uint64_t bytes_len = take_u64(&body);
    if (place > HX_OUTCOME_GONE || !hx_columns_unpack(&body, ret_record))
        return false;
    ret_record->outcome.place = (enum hx_outcome_place)place;
    ret_record->outcome.bytes = HX_SPAN_NONE;
    if (bytes_len == UINT64_MAX)
        return body.len == 0;
    ret_record->outcome.bytes = body;
    return body.len == bytes_len;
}

/* Reads the entry at `offset`. 0 and a body to free, or 1 when there is no whole entry. */
static int read_entry(int fd, struct hx_hasher *hasher, uint64_t generation, int64_t offset,
                      char **ret_body, uint64_t *ret_len)
{
    struct entry_header header;
    uint8_t check[32];
    int rc = hx_read_all(fd, &header, sizeof(header), offset);
    if (rc != 0)
        return HX_TRACE(rc);
    if (memcmp(header.magic, entry_magic, sizeof(entry_magic)) != 0 ||
        header.generation != generation || header.len == 0 || header.len > ENTRY_LEN_MAX)
        return 1;
    char *body = hx_alloc(header.len);
    if (body == NULL)
        return HX_RAISE(HX_E_NOMEM, "a spool entry of %llu bytes", (unsigned long long)header.len);
    rc = hx_read_all(fd, body, header.len, offset + (int64_t)sizeof(header));
    if (rc == 0) {
        seal(hasher, &header, hx_span(body, header.len), check);
        rc = memcmp(check, header.check, sizeof(check)) == 0 ? 0 : 1;
    }
    if (rc != 0) {
        hx_free(body);
        return HX_TRACE(rc);
    }
    *ret_body = body;
    *ret_len = header.len;
    return 0;
}

int hx_spool_read(const char *path, struct hx_hasher *hasher,
                  int (*visit)(void *context, const struct hx_record *record,
                               uint64_t expected_fence),
                  void *context)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? 0 : HX_RAISE_ERRNO("The spool %s cannot be read", path);
    struct spool_header header;
    int rc = hx_read_all(fd, &header, sizeof(header), 0);
    if (rc == 0 && memcmp(header.magic, spool_magic, sizeof(spool_magic)) != 0)
        rc = 1;
    int64_t offset = sizeof(header);
    while (rc == 0) {
        char *body = NULL;
        uint64_t len = 0;
        rc = read_entry(fd, hasher, header.generation, offset, &body, &len);
        if (rc != 0)
            break;
        struct hx_record record;
        uint64_t fence;
        if (unpack_entry(hx_span(body, len), &record, &fence))
            rc = visit(context, &record, fence);
        hx_free(body);
        offset += (int64_t)sizeof(struct entry_header) + (int64_t)len;
    }
    close(fd);
    /* 1 says here: no further whole entry. */
    return rc == 1 ? 0 : HX_TRACE(rc);
}

int hx_spool_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return HX_RAISE_ERRNO("The spool %s cannot be read", path);
    int rc = fdatasync(fd) < 0 ? HX_RAISE_ERRNO("The spool %s cannot be synced", path) : 0;
    close(fd);
    return rc;
}
