/* SPDX-License-Identifier: MIT */
#include "host_crash.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

enum { SECTOR = 512, LINES_MAX = 65536, PATH_LEN = 512 };

struct line {
    char kind;
    bool is_safe; /* it was synced later */
    unsigned long long inode;
    long long offset, size;
    char *text; /* the bytes in hex, or the paths */
};

struct log {
    struct line *lines;
    unsigned count;
};

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

static bool is_in(const char *path, const char *directory)
{
    const char *slash = strrchr(path, '/');
    size_t len = slash != NULL ? (size_t)(slash - path) : 0;
    return strlen(directory) == len && strncmp(path, directory, len) == 0;
}

/* `C PATH`, `U PATH SAVED`, `R OLD NEW`: the first word of its text. */
static void first_path(const struct line *line, char ret_path[PATH_LEN])
{
    (void)sscanf(line->text, "%511s", ret_path);
}

static void mark_safe(struct log *log, const struct line *sync)
{
    char path[PATH_LEN];
    for (unsigned i = 0; i < log->count; i++) {
        struct line *line = &log->lines[i];
        if (sync->kind == 'S' && line->kind == 'W' && line->inode == sync->inode)
            line->is_safe = true;
        if (sync->kind != 'D' || strchr("CUR", line->kind) == NULL)
            continue;
        first_path(line, path);
        line->is_safe |= is_in(path, sync->text);
    }
}

static struct log read_log(const char *name)
{
    struct log log = {.lines = hx_new_bytes(LINES_MAX * sizeof(struct line))};
    char *text = NULL;
    size_t size = 0;
    FILE *file = fopen(name, "re");
    for (ssize_t len; file != NULL && (len = getline(&text, &size, file)) > 0;) {
        hx_assert(log.count < LINES_MAX);
        text[len - 1] = '\0';
        struct line line = {.kind = text[0]};
        int at = 2;
        if (line.kind == 'W')
            (void)sscanf(text, "W %llu %lld %lld %n", &line.inode, &line.offset, &line.size, &at);
        else if (line.kind == 'S')
            (void)sscanf(text, "S %llu", &line.inode);
        line.text = hx_strdup(text + at);
        if (line.kind == 'S' || line.kind == 'D')
            mark_safe(&log, &line);
        log.lines[log.count++] = line;
    }
    free(text);
    if (file != NULL)
        fclose(file);
    return log;
}

static int digit(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

struct bytes {
    char *data;
    size_t len;
};

static struct bytes read_file(const char *path, size_t room)
{
    struct stat info = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    hx_assert(fd >= 0 && fstat(fd, &info) == 0);
    struct bytes file = {hx_new_bytes(room + (size_t)info.st_size + 1), (size_t)info.st_size};
    hx_assert(read(fd, file.data, file.len) == info.st_size);
    close(fd);
    return file;
}

/* As it was before everything that was not synced. */
static struct bytes before_all(const struct log *log, unsigned long long inode, const char *path,
                               unsigned *ret_count)
{
    size_t room = 0;
    for (unsigned i = 0; i < log->count; i++) {
        if (log->lines[i].kind == 'W' && (size_t)log->lines[i].size > room)
            room = (size_t)log->lines[i].size;
    }
    struct bytes file = read_file(path, room);
    for (unsigned i = log->count; i-- > 0;) {
        const struct line *line = &log->lines[i];
        if (line->kind != 'W' || line->is_safe || line->inode != inode)
            continue;
        ++*ret_count;
        if ((size_t)line->size > file.len)
            memset(file.data + file.len, 0, (size_t)line->size - file.len);
        file.len = (size_t)line->size;
        for (size_t k = 0; line->text[2 * k] != '\0'; k++) {
            int high = digit(line->text[2 * k]), low = digit(line->text[2 * k + 1]);
            file.data[(size_t)line->offset + k] = (char)(high * 16 + low);
        }
    }
    return file;
}

static struct bytes torn(struct bytes old, struct bytes new, uint64_t seed)
{
    size_t len = (mix(seed) & 1) != 0 ? new.len : old.len;
    struct bytes out = {hx_new_bytes(len + 1), len};
    for (size_t at = 0; at < len; at += SECTOR) {
        struct bytes side = (mix(seed + 1 + at) & 1) != 0 ? new : old;
        size_t wanted = len - at < SECTOR ? len - at : SECTOR;
        size_t there = side.len > at ? side.len - at : 0;
        memcpy(out.data + at, side.data + at, there < wanted ? there : wanted);
    }
    return out;
}

static unsigned take_back(const struct log *log, const char *path, unsigned long long inode,
                          bool is_torn, uint64_t seed)
{
    unsigned count = 0;
    struct bytes result = before_all(log, inode, path, &count);
    if (count > 0) {
        if (is_torn) {
            struct bytes old = result, new = read_file(path, 0);
            result = torn(old, new, seed + inode);
            hx_free(old.data);
            hx_free(new.data);
        }
        int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
        hx_assert(fd >= 0 && write(fd, result.data, result.len) == (ssize_t)result.len);
        close(fd);
    }
    hx_free(result.data);
    return count;
}

static unsigned walk(const struct log *log, const char *directory, bool is_torn, uint64_t seed)
{
    unsigned count = 0;
    char path[PATH_LEN];
    DIR *listing = opendir(directory);
    for (struct dirent *entry; listing != NULL && (entry = readdir(listing)) != NULL;) {
        struct stat info;
        snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
        size_t len = strlen(path);
        if (entry->d_name[0] == '.' || stat(path, &info) < 0)
            continue;
        if (S_ISDIR(info.st_mode))
            count += walk(log, path, is_torn, seed);
        else if (strcmp(path + len - 4, "-shm") == 0)
            (void)unlink(path); /* memory */
        else
            count += take_back(log, path, info.st_ino, is_torn, seed);
    }
    if (listing != NULL)
        closedir(listing);
    return count;
}

static void rename_back(const struct line *line)
{
    char first[PATH_LEN] = "", second[PATH_LEN] = "";
    (void)sscanf(line->text, "%511s %511s", first, second);
    if (line->kind == 'C')
        (void)unlink(first);
    else if (line->kind == 'U')
        (void)!link(second, first);
    else if (line->kind == 'R')
        (void)rename(second, first);
}

unsigned host_crash(const char *directory, const char *name, bool is_torn, uint64_t seed)
{
    struct log log = read_log(name);
    unsigned count = walk(&log, directory, is_torn, seed);
    for (unsigned i = log.count; i-- > 0;) {
        if (!is_torn && !log.lines[i].is_safe)
            rename_back(&log.lines[i]);
    }
    for (unsigned i = 0; i < log.count; i++)
        hx_free(log.lines[i].text);
    hx_free(log.lines);
    (void)unlink(name);
    return count;
}
