/* SPDX-License-Identifier: MIT */
#include "faulty_vfs.h"

#include <pthread.h>
#include <sqlite3.h>
#include <string.h>

struct faulty_file {
    sqlite3_file base;
    sqlite3_file *real; /* behind this struct */
};

static sqlite3_vfs faulty;
static sqlite3_vfs *real_vfs;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static enum faulty_op armed_op;
static unsigned long countdown;
static unsigned long times_left;
static bool has_struck;

void faulty_vfs_arm(enum faulty_op op, unsigned long new_countdown, unsigned long times)
{
    pthread_mutex_lock(&mutex);
    armed_op = op;
    countdown = new_countdown;
    times_left = new_countdown > 0 ? times : 0;
    has_struck = false;
    pthread_mutex_unlock(&mutex);
}

bool faulty_vfs_has_struck(void)
{
    pthread_mutex_lock(&mutex);
    bool answer = has_struck;
    pthread_mutex_unlock(&mutex);
    return answer;
}

static bool strikes(enum faulty_op op)
{
    bool answer = false;
    pthread_mutex_lock(&mutex);
    if (times_left > 0 && op == armed_op) {
        if (countdown > 1) {
            countdown--;
        } else {
            times_left--;
            has_struck = answer = true;
        }
    }
    pthread_mutex_unlock(&mutex);
    return answer;
}

static sqlite3_file *real_of(sqlite3_file *file)
{
    return ((struct faulty_file *)file)->real;
}

static int file_close(sqlite3_file *file)
{
    return real_of(file)->pMethods->xClose(real_of(file));
}

static int file_read(sqlite3_file *file, void *bytes, int len, sqlite3_int64 offset)
{
    if (strikes(FAULTY_READ))
        return SQLITE_IOERR_READ;
    return real_of(file)->pMethods->xRead(real_of(file), bytes, len, offset);
}

static int file_write(sqlite3_file *file, const void *bytes, int len, sqlite3_int64 offset)
{
    if (strikes(FAULTY_FULL))
        return SQLITE_FULL;
    if (strikes(FAULTY_WRITE))
        return SQLITE_IOERR_WRITE;
    return real_of(file)->pMethods->xWrite(real_of(file), bytes, len, offset);
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    if (strikes(FAULTY_TRUNCATE))
        return SQLITE_IOERR_TRUNCATE;
    return real_of(file)->pMethods->xTruncate(real_of(file), size);
}

static int file_sync(sqlite3_file *file, int flags)
{
    if (strikes(FAULTY_SYNC))
        return SQLITE_IOERR_FSYNC;
    return real_of(file)->pMethods->xSync(real_of(file), flags);
}

static int file_size(sqlite3_file *file, sqlite3_int64 *size)
{
    return real_of(file)->pMethods->xFileSize(real_of(file), size);
}

static int file_lock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xLock(real_of(file), level);
}

static int file_unlock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xUnlock(real_of(file), level);
}

static int file_check_lock(sqlite3_file *file, int *answer)
{
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), answer);
}

static int file_control(sqlite3_file *file, int op, void *argument)
{
    return real_of(file)->pMethods->xFileControl(real_of(file), op, argument);
}

static int file_sector_size(sqlite3_file *file)
{
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int file_device(sqlite3_file *file)
{
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int file_shm_map(sqlite3_file *file, int page, int page_size, int extend,
                        void volatile **memory)
{
    if (strikes(FAULTY_SHM))
        return SQLITE_IOERR_SHMMAP;
    return real_of(file)->pMethods->xShmMap(real_of(file), page, page_size, extend, memory);
}

static int file_shm_lock(sqlite3_file *file, int offset, int count, int flags)
{
    return real_of(file)->pMethods->xShmLock(real_of(file), offset, count, flags);
}

static void file_shm_barrier(sqlite3_file *file)
{
    real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int file_shm_unmap(sqlite3_file *file, int remove)
{
    return real_of(file)->pMethods->xShmUnmap(real_of(file), remove);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_check_lock,
    .xFileControl = file_control,
    .xSectorSize = file_sector_size,
    .xDeviceCharacteristics = file_device,
    .xShmMap = file_shm_map,
    .xShmLock = file_shm_lock,
    .xShmBarrier = file_shm_barrier,
    .xShmUnmap = file_shm_unmap,
};

static int faulty_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                       int *ret_flags)
{
    struct faulty_file *own = (struct faulty_file *)file;
    own->real = (sqlite3_file *)(own + 1);
    own->real->pMethods = NULL;
    int code = real_vfs->xOpen(real_vfs, name, own->real, flags, ret_flags);
    own->base.pMethods = own->real->pMethods != NULL ? &methods : NULL;
    return code;
}

void faulty_vfs_register(void)
{
    if (real_vfs != NULL)
        return;
    sqlite3_initialize();
    real_vfs = sqlite3_vfs_find(NULL);
    faulty = *real_vfs;
    faulty.zName = FAULTY_VFS_NAME;
    faulty.szOsFile = (int)sizeof(struct faulty_file) + real_vfs->szOsFile;
    faulty.xOpen = faulty_open;
    faulty.pNext = NULL;
    sqlite3_vfs_register(&faulty, 0);
}
