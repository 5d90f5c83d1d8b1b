/* SPDX-License-Identifier: MIT */
#include "app/call_intent.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/crash.h"
#include "base/digest.h"
#include "base/fault.h"
#include "json/reader.h"
#include "json/writer.h"

enum { FILE_MAX = 256 << 20, OPEN_MAX = 100 * 1000, WORDS_MAX = 4096 };

static const char suffix[] = ".json";

void hx_call_intents_init(struct hx_call_intents *intents, const char *ledger)
{
    snprintf(intents->directory, sizeof(intents->directory), "%s/calls", ledger);
}

static void path_of(const struct hx_call_intents *intents, const struct hx_call_intent *intent,
                    char *ret_path, size_t size)
{
    char hex[HX_DIGEST_HEX_SIZE];
    struct hx_hasher *hasher = hx_hasher_new();
    hx_hasher_begin(hasher);
    hx_hasher_add_field(hasher, intent->server);
    hx_hasher_add_field(hasher, intent->tool);
    hx_hasher_add_field(hasher, intent->key);
    struct hx_digest digest = hx_hasher_end(hasher);
    hx_hasher_free(hasher);
    hx_digest_hex(&digest, hex);
    snprintf(ret_path, size, "%s/%.32s%s", intents->directory, hex, suffix);
}

/* ---- bytes ---- */

static void put(struct hx_json_writer *writer, const char *name, struct hx_span text)
{
    hx_json_put_name(writer, name);
    hx_json_put_string(writer, text);
}

static void write_bytes(const struct hx_call_intent *intent, struct hx_buf *out)
{
    struct hx_json_writer writer;
    char first_sent[HX_TIME_TEXT_SIZE];
    hx_wall_format(intent->first_sent, first_sent);
    hx_json_writer_init(&writer, out);
    hx_json_open_object(&writer);
    hx_json_put_name(&writer, "version");
    hx_json_put_int(&writer, 1);
    put(&writer, "key", intent->key);
    put(&writer, "server", intent->server);
    put(&writer, "tool", intent->tool);
    put(&writer, "first_sent", hx_span_cstr(first_sent));
    put(&writer, "directory", intent->directory);
    hx_json_put_name(&writer, "words");
    hx_json_open_array(&writer);
    for (int i = 0; i < intent->word_count; i++)
        hx_json_put_cstr(&writer, intent->words[i]);
    hx_json_close_array(&writer);
    hx_json_put_name(&writer, "arguments");
    hx_json_put_raw(&writer, intent->arguments);
    hx_json_close_object(&writer);
}

/* With a NUL behind it: words without escapes are borrowed by the reader, and their NUL is not
 * there. */
static bool text_of(const struct hx_json_tape *tape, uint32_t at, struct hx_arena *arena,
                    struct hx_span *ret_text)
{
    struct hx_span text;
    if (!hx_json_is(tape, at, HX_JSON_STRING) || hx_json_string(tape, at, arena, &text) != 0)
        return false;
    *ret_text = hx_arena_dup(arena, text);
    return !hx_span_is_absent(*ret_text);
}

static bool words_of(const struct hx_json_tape *tape, uint32_t list, struct hx_arena *arena,
                     struct hx_call_intent *ret_intent)
{
    if (!hx_json_is(tape, list, HX_JSON_ARRAY) || hx_json_at(tape, list)->count > WORDS_MAX)
        return false;
    char **words = hx_arena_alloc(arena, (hx_json_at(tape, list)->count + 1) * sizeof(*words));
    int count = 0;
    if (words == NULL)
        return false;
    hx_json_for_each(at, tape, list)
    {
        struct hx_span word;
        if (!text_of(tape, at, arena, &word))
            return false;
        /* Parsers of a command line take char ** and change nothing. */
        memcpy(&words[count++], &word.ptr, sizeof(word.ptr));
    }
    words[count] = NULL;
    ret_intent->words = words;
    ret_intent->word_count = count;
    return true;
}

static bool read_tape(const struct hx_json_tape *tape, struct hx_arena *arena,
                      struct hx_call_intent *ret_intent)
{
    struct hx_span first_sent;
    uint32_t arguments = hx_json_member(tape, 0, HX_SPAN_LIT("arguments"));
    int64_t version = 0;
    uint32_t version_at = hx_json_member(tape, 0, HX_SPAN_LIT("version"));
    *ret_intent = (struct hx_call_intent){0};
    if (version_at == HX_JSON_NONE || !hx_json_int64(tape, version_at, &version) || version != 1 ||
        arguments == HX_JSON_NONE)
        return false;
    ret_intent->arguments = hx_arena_dup(arena, hx_json_raw(tape, arguments));
    return !hx_span_is_absent(ret_intent->arguments) &&
           text_of(tape, hx_json_member(tape, 0, HX_SPAN_LIT("key")), arena, &ret_intent->key) &&
           text_of(tape, hx_json_member(tape, 0, HX_SPAN_LIT("server")), arena,
                   &ret_intent->server) &&
           text_of(tape, hx_json_member(tape, 0, HX_SPAN_LIT("tool")), arena, &ret_intent->tool) &&
           text_of(tape, hx_json_member(tape, 0, HX_SPAN_LIT("directory")), arena,
                   &ret_intent->directory) &&
           text_of(tape, hx_json_member(tape, 0, HX_SPAN_LIT("first_sent")), arena, &first_sent) &&
           hx_wall_parse(first_sent.ptr, first_sent.len, &ret_intent->first_sent) &&
           words_of(tape, hx_json_member(tape, 0, HX_SPAN_LIT("words")), arena, ret_intent);
}

static bool read_bytes(struct hx_span bytes, struct hx_arena *arena,
                       struct hx_call_intent *ret_intent)
{
    struct hx_json_tape tape;
    struct hx_json_limits limits = HX_JSON_LIMITS_DEFAULT;
    limits.record_depth_max = 3;
    hx_json_tape_init(&tape);
    bool is_good = hx_json_read(&tape, bytes, &limits) == 0 && read_tape(&tape, arena, ret_intent);
    hx_json_tape_fini(&tape);
    return is_good;
}

/* ---- files ---- */

static int read_file(int fd, const char *path, struct hx_buf *out)
{
    ssize_t len;
    do {
        int rc = hx_buf_reserve(out, 65536);
        if (rc < 0)
            return HX_RAISE(rc, "%s is too large", path);
        len = pread(fd, out->data + out->len, 65536, (off_t)out->len);
        if (len > 0)
            out->len += (size_t)len;
    } while (len > 0 || (len < 0 && errno == EINTR));
    return len < 0 ? HX_RAISE_ERRNO("%s cannot be read", path) : 0;
}

static int read_intent(int fd, const char *path, struct hx_arena *arena,
                       struct hx_call_intent *ret_intent)
{
    struct hx_buf bytes;
    hx_buf_init(&bytes, FILE_MAX);
    int rc = read_file(fd, path, &bytes);
    if (rc == 0 && !read_bytes(hx_buf_span(&bytes), arena, ret_intent))
        rc = HX_RAISE(HX_E_SYNTAX, "%s is not an open call of this version", path);
    hx_buf_fini(&bytes);
    return rc;
}

static int write_all(int fd, struct hx_span bytes)
{
    while (bytes.len > 0) {
        ssize_t len = write(fd, bytes.ptr, bytes.len);
        if (len < 0 && errno == EINTR)
            continue;
        if (len <= 0)
            return -1;
        bytes = hx_span(bytes.ptr + len, bytes.len - (size_t)len);
    }
    return fsync(fd);
}

static int sync_directory(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd < 0 || fsync(fd) < 0 ? HX_RAISE_ERRNO("%s cannot be synced", path) : 0;
    if (fd >= 0)
        (void)close(fd);
    return rc;
}

static int make_directory(const char *path)
{
    if (mkdir(path, 0700) < 0)
        return errno == EEXIST ? 0 : HX_RAISE_ERRNO("%s cannot be made", path);
    char parent[4096];
    snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(path, '/') - path), path);
    return sync_directory(parent);
}

static bool remove_named(const char *path)
{
    char directory[sizeof(((struct hx_call_hold *)NULL)->path)];
    snprintf(directory, sizeof(directory), "%.*s", (int)(strrchr(path, '/') - path), path);
    if (unlink(path) < 0 && errno != ENOENT)
        return HX_RAISE_ERRNO("%s cannot be removed", path) == 0;
    return sync_directory(directory) == 0;
}

/* Whole, synced and held under another name first, then linked: a name that is there is a whole
 * file, and of two processes one makes it. What fails after that takes it back, since our caller
 * says that nothing was sent, and nothing of that may run later. Returns HX_CALL_INTENT_KNOWN when
 * it was there, HX_CALL_INTENT_STAYS when it cannot be taken back. */
static int make_file(const struct hx_call_intents *intents, const char *path, struct hx_span bytes,
                     struct hx_call_hold *ret_hold)
{
    char partial[sizeof(intents->directory) + 64];
    snprintf(partial, sizeof(partial), "%s/new-XXXXXX", intents->directory);
    int fd = mkostemp(partial, O_CLOEXEC);
    if (fd < 0)
        return HX_RAISE_ERRNO("no file can be made in %s", intents->directory);
    int rc = 0;
    HX_CRASH_POINT("call-intent-begun");
    if (write_all(fd, bytes) < 0)
        rc = HX_RAISE_ERRNO("%s cannot be written", partial);
    else if (flock(fd, LOCK_SH) < 0)
        rc = HX_RAISE_ERRNO("%s cannot be held", partial);
    else if (link(partial, path) < 0)
        rc = errno == EEXIST ? HX_CALL_INTENT_KNOWN : HX_RAISE_ERRNO("%s cannot be made", path);
    bool is_linked = rc == 0;
    HX_CRASH_POINT("call-intent-linked");
    (void)unlink(partial);
    /* Also when somebody else made it: he may not have come to this. */
    if (rc >= 0 && sync_directory(intents->directory) < 0)
        rc = HX_E_SYSTEM;
    HX_CRASH_POINT("call-intent-kept");
    if (!is_linked) {
        (void)close(fd);
        return rc;
    }
    ret_hold->fd = fd;
    snprintf(ret_hold->path, sizeof(ret_hold->path), "%s", path);
    if (rc < 0 && !hx_call_intent_remove(ret_hold))
        rc = HX_CALL_INTENT_STAYS;
    return rc;
}

/* Words that are no UTF-8 would come back as others, and mean another target. */
static int check_words(const struct hx_call_intent *intent, struct hx_span bytes,
                       struct hx_arena *arena)
{
    struct hx_call_intent same;
    bool is_good = read_bytes(bytes, arena, &same) && same.word_count == intent->word_count &&
                   hx_span_eq(same.directory, intent->directory);
    for (int i = 0; is_good && i < intent->word_count; i++)
        is_good = strcmp(same.words[i], intent->words[i]) == 0;
    return is_good ? 0
                   : HX_RAISE(HX_E_SYNTAX, "a word of the command line, or the working directory, "
                                           "is not UTF-8 and cannot be kept");
}

/* The file may be removed between its making and our hold; then it is made once more. */
static int hold_file(const char *path, struct hx_call_hold *ret_hold)
{
    struct stat held, named;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? HX_CALL_INTENT_KNOWN : HX_RAISE_ERRNO("%s cannot be read", path);
    if (flock(fd, LOCK_SH) < 0 || fstat(fd, &held) < 0) {
        int rc = HX_RAISE_ERRNO("%s cannot be held", path);
        (void)close(fd);
        return rc;
    }
    if (stat(path, &named) < 0 || named.st_ino != held.st_ino) {
        (void)close(fd);
        return HX_CALL_INTENT_KNOWN;
    }
    ret_hold->fd = fd;
    snprintf(ret_hold->path, sizeof(ret_hold->path), "%s", path);
    return 0;
}

int hx_call_intent_keep(const struct hx_call_intents *intents, const struct hx_call_intent *intent,
                        struct hx_arena *arena, struct hx_call_hold *ret_hold,
                        struct hx_call_intent *ret_known)
{
    enum { TRIES_MAX = 100 };
    struct hx_buf bytes;
    char path[sizeof(ret_hold->path)];
    hx_buf_init(&bytes, FILE_MAX);
    path_of(intents, intent, path, sizeof(path));
    write_bytes(intent, &bytes);
    int rc = hx_buf_ok(&bytes) ? check_words(intent, hx_buf_span(&bytes), arena)
                               : HX_RAISE(HX_E_LIMIT, "the arguments are too large to be kept");
    if (rc == 0)
        rc = make_directory(intents->directory);
    int held = HX_CALL_INTENT_KNOWN;
    for (int i = 0; rc == 0 && held == HX_CALL_INTENT_KNOWN && i < TRIES_MAX; i++) {
        int made = make_file(intents, path, hx_buf_span(&bytes), ret_hold);
        if (made != HX_CALL_INTENT_KNOWN) {
            hx_buf_fini(&bytes);
            return made;
        }
        held = hold_file(path, ret_hold);
    }
    hx_buf_fini(&bytes);
    if (rc < 0 || held < 0)
        return rc < 0 ? rc : held;
    if (held != 0)
        return HX_RAISE(HX_E_SYSTEM, "%s does not stay", path);
    rc = read_intent(ret_hold->fd, path, arena, ret_known);
    return rc < 0 ? rc : HX_CALL_INTENT_KNOWN;
}

void hx_call_intent_release(struct hx_call_hold *hold)
{
    if (hold->fd >= 0)
        (void)close(hold->fd);
    hold->fd = -1;
}

bool hx_call_intent_remove(struct hx_call_hold *hold)
{
    bool is_gone = false;
    if (hold->fd >= 0 && flock(hold->fd, LOCK_EX | LOCK_NB) == 0)
        is_gone = remove_named(hold->path);
    else if (hold->fd >= 0)
        (void)HX_RAISE_ERRNO("%s is held by another process", hold->path);
    hx_call_intent_release(hold);
    return is_gone;
}

int hx_call_intent_forget(const struct hx_call_intents *intents,
                          const struct hx_call_intent *intent)
{
    char path[sizeof(((struct hx_call_hold *)NULL)->path)];
    path_of(intents, intent, path, sizeof(path));
    return remove_named(path) ? 0 : HX_E_SYSTEM;
}

/* ---- the list ---- */

static int by_age(const void *one, const void *other)
{
    int64_t a = ((const struct hx_call_intent *)one)->first_sent.ms;
    int64_t b = ((const struct hx_call_intent *)other)->first_sent.ms;
    return a < b ? -1 : a > b;
}

static bool is_intent(const char *name)
{
    size_t len = strlen(name);
    return len > sizeof(suffix) && strcmp(name + len - (sizeof(suffix) - 1), suffix) == 0;
}

/* One that is taken away meanwhile is none; one that cannot be read is told and passed over, so
 * that it does not keep the others from being settled. */
#define INTENT_GONE 1
static int read_named(const struct hx_call_intents *intents, const char *name,
                      struct hx_arena *arena, struct hx_call_intent *ret_intent)
{
    char path[sizeof(intents->directory) + 300];
    snprintf(path, sizeof(path), "%s/%s", intents->directory, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return INTENT_GONE;
    int rc = fd < 0 ? HX_RAISE_ERRNO("%s cannot be read", path)
                    : read_intent(fd, path, arena, ret_intent);
    if (fd >= 0)
        (void)close(fd);
    if (rc < 0)
        fprintf(stderr, "hapax call: %s.\n", hx_fault_last()->text);
    return rc;
}

static bool is_named(const struct hx_call_intent *intent, const struct hx_call_name *name)
{
    return (hx_span_is_absent(name->key) || hx_span_eq(name->key, intent->key)) &&
           (hx_span_is_absent(name->tool) || hx_span_eq(name->tool, intent->tool)) &&
           (hx_span_is_absent(name->server) || hx_span_eq(name->server, intent->server));
}

struct found {
    struct hx_call_intent *items;
    size_t count;
    size_t capacity;
};

static int add_found(struct found *found, const struct hx_call_intent *one, struct hx_arena *arena)
{
    if (found->count == found->capacity) {
        size_t capacity = found->capacity == 0 ? 16 : found->capacity * 2;
        struct hx_call_intent *more = hx_arena_alloc(arena, capacity * sizeof(*more));
        if (more == NULL)
            return HX_RAISE(HX_E_NOMEM, "there is not enough memory for all open calls");
        if (found->count > 0)
            memcpy(more, found->items, found->count * sizeof(*more));
        found->items = more;
        found->capacity = capacity;
    }
    found->items[found->count++] = *one;
    return 0;
}

int hx_call_intents_list(const struct hx_call_intents *intents, const struct hx_call_name *name,
                         struct hx_arena *arena, struct hx_call_intent **ret_items,
                         size_t *ret_count, size_t *ret_unread)
{
    DIR *directory = opendir(intents->directory);
    struct found found = {0};
    struct dirent *entry;
    int rc = 0;
    *ret_items = NULL;
    *ret_count = 0;
    *ret_unread = 0;
    if (directory == NULL)
        return errno == ENOENT ? 0 : HX_RAISE_ERRNO("%s cannot be read", intents->directory);
    while (rc == 0 && (errno = 0, entry = readdir(directory)) != NULL) {
        struct hx_call_intent one;
        if (!is_intent(entry->d_name))
            continue;
        int read = found.count < OPEN_MAX ? read_named(intents, entry->d_name, arena, &one) : -1;
        if (read < 0)
            ++*ret_unread;
        else if (read == 0 && is_named(&one, name))
            rc = add_found(&found, &one, arena);
    }
    if (rc == 0 && errno != 0)
        rc = HX_RAISE_ERRNO("%s cannot be read", intents->directory);
    (void)closedir(directory);
    if (found.count > 0)
        qsort(found.items, found.count, sizeof(*found.items), by_age);
    *ret_items = found.items;
    *ret_count = found.count;
    return rc;
}

/* Each file begins with its key (write_bytes), so the rest is not read: a command that is printed
 * must not cost what all open calls weigh. */
bool hx_call_intents_share(const struct hx_call_intents *intents, struct hx_span key)
{
    enum { HEAD_MAX = 1024 };
    char head[HEAD_MAX], path[sizeof(intents->directory) + 300];
    struct hx_buf wanted;
    struct hx_json_writer writer;
    struct dirent *entry;
    size_t count = 0;
    DIR *directory = opendir(intents->directory);
    if (directory == NULL)
        return false;
    hx_buf_init(&wanted, HEAD_MAX);
    hx_json_writer_init(&writer, &wanted);
    hx_json_open_object(&writer);
    hx_json_put_name(&writer, "version");
    hx_json_put_int(&writer, 1);
    put(&writer, "key", key);
    (void)hx_buf_append_char(&wanted, ',');
    while (hx_buf_ok(&wanted) && count < 2 && (entry = readdir(directory)) != NULL) {
        snprintf(path, sizeof(path), "%s/%s", intents->directory, entry->d_name);
        int fd = is_intent(entry->d_name) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        if (fd < 0)
            continue;
        count += read(fd, head, wanted.len) == (ssize_t)wanted.len &&
                 memcmp(head, wanted.data, wanted.len) == 0;
        (void)close(fd);
    }
    hx_buf_fini(&wanted);
    (void)closedir(directory);
    return count > 1;
}
