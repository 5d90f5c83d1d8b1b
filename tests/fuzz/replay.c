/* SPDX-License-Identifier: MIT */
/*
 * Feeds every file of the given directories to one fuzz target, without libFuzzer. Each prefix of a
 * small file is fed too: truncation is what the network does to us most.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

enum { PREFIXES_MAX = 512, FILE_MAX = 1 << 20 };

static void feed(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);
    hx_assert(exact != NULL);
    if (size > 0)
        memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static bool feed_file(int directory, const char *name)
{
    static uint8_t data[FILE_MAX];
    int file = openat(directory, name, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    ssize_t size = read(file, data, sizeof(data));
    close(file);
    if (size < 0)
        return false;
    feed(data, (size_t)size);
    for (size_t len = 0; len < (size_t)size && len < PREFIXES_MAX; len++)
        feed(data, len);
    return true;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

int main(int argc, char **argv)
{
    unsigned passed = 0;
    unsigned failed = 0;
    for (int i = 1; i < argc; i++) {
        struct dirent **entries;
        int directory = open(argv[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int count = directory < 0 ? -1 : scandir(argv[i], &entries, NULL, by_name);
        if (count < 0) {
            fprintf(stderr, "%s: cannot be read\n", argv[i]);
            return 2;
        }
        for (int k = 0; k < count; k++) {
            if (entries[k]->d_name[0] != '.') {
                printf("# %s\n", entries[k]->d_name);
                fflush(stdout); /* so that the last line names the file that ended us */
                if (feed_file(directory, entries[k]->d_name))
                    passed++;
                else
                    failed++;
            }
            free(entries[k]);
        }
        free(entries);
        close(directory);
    }
    printf("%u passed, %u failed\n", passed, failed);
    return failed > 0 || passed == 0;
}
