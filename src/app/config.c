/* SPDX-License-Identifier: MIT */
#include "app/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

/* The text of the file, its tree, and what is made of it. */
enum { CONFIG_ARENA_MAX = 32 * 1024 * 1024, UPSTREAMS_MAX = 256 };

static const char *const affinities[] = {"session", "principal", "shared"};
_Static_assert(sizeof(affinities) / sizeof(affinities[0]) == HX_AFFINITY_SHARED + 1,
               "an affinity has no text");

const char *hx_affinity_text(enum hx_affinity affinity)
{
    hx_assert(affinity <= HX_AFFINITY_SHARED);
    return affinities[affinity];
}

void hx_config_init(struct hx_config *config)
{
    memset(config, 0, sizeof(*config));
    hx_arena_init(&config->arena, CONFIG_ARENA_MAX);
    hx_settings_init(&config->global);
    hx_limits_init(&config->limits);
    config->warnings_end = &config->warnings;
    config->hasher = hx_hasher_new();
}

void hx_config_fini(struct hx_config *config)
{
    if (!config)
        return;
    for (size_t i = 0; i < config->upstream_count; i++)
        hx_settings_fini(&config->upstreams[i].settings);
    config->upstreams = hx_free(config->upstreams);
    config->upstream_count = 0;
    config->listens = hx_free(config->listens);
    config->listen_count = 0;
    hx_settings_fini(&config->global);
    config->hasher = hx_hasher_free(config->hasher);
    hx_arena_fini(&config->arena);
}

bool hx_upstream_name_is_good(struct hx_span name)
{
    for (size_t i = 0; i < name.len; i++) {
        char byte = name.ptr[i];
        bool is_letter = byte >= 'a' && byte <= 'z';
        bool is_digit = byte >= '0' && byte <= '9';
        if (!is_letter && !is_digit && byte != '_' && byte != '-')
            return false;
    }
    return name.len > 0 && name.len <= HX_UPSTREAM_NAME_MAX;
}

const struct hx_config_upstream *hx_config_upstream(const struct hx_config *config,
                                                    struct hx_span name)
{
    for (size_t i = 0; i < config->upstream_count; i++)
        if (hx_span_eq_cstr(name, config->upstreams[i].name))
            return &config->upstreams[i];
    return NULL;
}

struct hx_config_upstream *hx_config_add_upstream(struct hx_config *config, struct hx_span name,
                                                  struct hx_mark mark)
{
    struct hx_complaint complaint;
    char prefix[HX_UPSTREAM_NAME_MAX + 2];
    hx_assert(hx_upstream_name_is_good(name));
    if (config->upstream_count == UPSTREAMS_MAX)
        return NULL;
    snprintf(prefix, sizeof(prefix), "%.*s_", HX_SPAN_FMT(name));
    struct hx_span own_name = hx_arena_dup(&config->arena, name);
    struct hx_span own_prefix = hx_arena_dup(&config->arena, hx_span_cstr(prefix));
    size_t size = (config->upstream_count + 1) * sizeof(*config->upstreams);
    struct hx_config_upstream *upstreams = hx_realloc(config->upstreams, size);
    if (!upstreams)
        return NULL;
    config->upstreams = upstreams;
    if (hx_span_is_absent(own_name) || hx_span_is_absent(own_prefix))
        return NULL;
    struct hx_config_upstream *upstream = &upstreams[config->upstream_count++];
    *upstream =
        (struct hx_config_upstream){.mark = mark, .name = own_name.ptr, .prefix = own_prefix.ptr};
    hx_settings_init(&upstream->settings);
    /* Every good name is a text: only memory can be what is missing. */
    int rc = hx_settings_set(&upstream->settings, HX_SPAN_LIT("name"), name, &complaint);
    return rc == 0 ? upstream : NULL;
}

void hx_config_warn(struct hx_config *config, struct hx_mark mark, const char *format, ...)
{
    struct hx_complaint complaint;
    struct hx_tree tree = {.file = config->file, .complaint = &complaint};
    char sentence[sizeof(complaint.text)];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    (void)hx_tree_refuse(&tree, mark, "%s", sentence); /* writes the sentence with its place */
    struct hx_config_warning *warning = hx_arena_alloc(&config->arena, sizeof(*warning));
    struct hx_span text = hx_arena_dup(&config->arena, hx_span_cstr(complaint.text));
    if (!warning || hx_span_is_absent(text))
        return; /* a file that fills the arena with warnings has had enough of them */
    *warning = (struct hx_config_warning){NULL, text.ptr};
    *config->warnings_end = warning;
    config->warnings_end = &warning->next;
}

/* --- the file --- */

static int read_all(int fd, char *ret_bytes, size_t size, size_t *ret_len)
{
    size_t len = 0;
    while (len < size) {
        ssize_t got = read(fd, ret_bytes + len, size - len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        len += (size_t)got;
    }
    *ret_len = len;
    return 0;
}

int hx_config_read(struct hx_config *config, const char *path, struct hx_complaint *complaint)
{
    /* One byte more than is accepted, so that a file that is too long shows. */
    size_t size = HX_CONFIG_BYTES_MAX + 1;
    size_t len = 0;
    struct stat info;
    config->file = path; /* until there is a copy */
    /* Not to hang on a pipe that nobody writes into; regular files do not care. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return hx_complain(complaint, "%.300s: %s", path, strerror(errno));
    char *bytes = hx_new_bytes(size);
    int rc = 0;
    if (fstat(fd, &info) != 0 || (S_ISREG(info.st_mode) && read_all(fd, bytes, size, &len) != 0))
        rc = hx_complain(complaint, "%.300s: %s", path, strerror(errno));
    else if (!S_ISREG(info.st_mode))
        rc = hx_complain(complaint, "%.300s: this is no regular file", path);
    else
        rc = hx_config_parse(config, path, hx_span(bytes, len), complaint);
    hx_free(bytes);
    close(fd);
    return rc;
}
