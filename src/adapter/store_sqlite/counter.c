/* SPDX-License-Identifier: MIT */
#include "adapter/store_sqlite/counter.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "adapter/store_sqlite/files.h"
#include "base/fault.h"

struct counter_file {
    char magic[8];
    struct hx_id instance;
    uint8_t count[8]; /* little endian */
    uint8_t check[16];
};

_Static_assert(sizeof(struct counter_file) == 48, "the file has no padding");

/* Two of them: of all commits, and of those that are in the database's own file. */
static const char magic[8] = {'H', 'A', 'P', 'A', 'X', 'C', 'N', 'T'};
static const char moved_magic[8] = {'H', 'A', 'P', 'A', 'X', 'M', 'O', 'V'};
enum { MOVED_OFFSET = sizeof(struct counter_file) };

static void seal(struct hx_counter *counter, const struct counter_file *file, uint8_t ret_check[16])
{
    hx_hasher_begin(counter->hasher);
    hx_hasher_add(counter->hasher,
                  hx_span((const char *)file, offsetof(struct counter_file, check)));
    struct hx_digest digest = hx_hasher_end(counter->hasher);
    memcpy(ret_check, digest.bytes, 16);
}

int hx_counter_open(struct hx_counter *counter, const char *path, struct hx_hasher *hasher)
{
    counter->hasher = hasher;
    counter->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return counter->fd < 0 ? HX_RAISE_ERRNO("The file %s cannot be opened", path) : 0;
}

void hx_counter_close(struct hx_counter *counter)
{
    if (counter->fd >= 0)
        close(counter->fd);
    counter->fd = -1;
}

static bool read_at(struct hx_counter *counter, int64_t offset, const char expected_magic[8],
                    struct hx_id *ret_instance, uint64_t *ret_count)
{
    struct counter_file file;
    uint8_t check[16];
    if (hx_read_all(counter->fd, &file, sizeof(file), offset) != 0)
        return false;
    seal(counter, &file, check);
    if (memcmp(file.magic, expected_magic, sizeof(file.magic)) != 0 ||
        memcmp(file.check, check, sizeof(check)) != 0)
        return false;
    *ret_instance = file.instance;
    *ret_count = 0;
    for (int i = 7; i >= 0; i--)
        *ret_count = *ret_count << 8 | file.count[i];
    return true;
}

static void write_at(struct hx_counter *counter, int64_t offset, const char own_magic[8],
                     const struct hx_id *instance, uint64_t count)
{
    struct counter_file file = {.instance = *instance};
    memcpy(file.magic, own_magic, sizeof(file.magic));
    for (int i = 0; i < 8; i++)
        file.count[i] = (uint8_t)(count >> (8 * i));
    seal(counter, &file, file.check);
    (void)hx_write_all(counter->fd, &file, sizeof(file), offset);
}

bool hx_counter_read(struct hx_counter *counter, struct hx_id *ret_instance, uint64_t *ret_count)
{
    return read_at(counter, 0, magic, ret_instance, ret_count);
}

void hx_counter_write(struct hx_counter *counter, const struct hx_id *instance, uint64_t count)
{
    write_at(counter, 0, magic, instance, count);
}

bool hx_counter_read_moved(struct hx_counter *counter, struct hx_id *ret_instance,
                           uint64_t *ret_count)
{
    return read_at(counter, MOVED_OFFSET, moved_magic, ret_instance, ret_count);
}

void hx_counter_write_moved(struct hx_counter *counter, const struct hx_id *instance,
                            uint64_t count)
{
    write_at(counter, MOVED_OFFSET, moved_magic, instance, count);
}
