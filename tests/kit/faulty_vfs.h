/* SPDX-License-Identifier: MIT */
/*
 * A SQLite VFS that passes everything on to the default one, and fails when it is told to.
 */
#ifndef HX_TESTS_KIT_FAULTY_VFS_H
#define HX_TESTS_KIT_FAULTY_VFS_H

#include <stdbool.h>

#define FAULTY_VFS_NAME "hapax-faulty"

enum faulty_op {
    FAULTY_WRITE,    /* fails with SQLITE_IOERR_WRITE, nothing written */
    FAULTY_FULL,     /* a write fails with SQLITE_FULL */
    FAULTY_SYNC,     /* SQLITE_IOERR_FSYNC; the bytes are in the file all the same */
    FAULTY_READ,     /* SQLITE_IOERR_READ */
    FAULTY_TRUNCATE, /* SQLITE_IOERR_TRUNCATE */
    FAULTY_SHM       /* SQLITE_IOERR_SHMMAP */
};

/* Registers the VFS; once is enough. */
void faulty_vfs_register(void);
/* The n-th operation of that kind from now fails (1 = the next), and `times` - 1 after it.
 * 0 turns it off. */
void faulty_vfs_arm(enum faulty_op op, unsigned long countdown, unsigned long times);
/* True when the armed fault has struck at least once. */
bool faulty_vfs_has_struck(void);

#endif
