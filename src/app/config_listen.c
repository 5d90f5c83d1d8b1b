/* SPDX-License-Identifier: MIT */
/*
 * Addresses to listen on, and what of them is only for this machine.
 */
#include "app/config.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/un.h>

#include "base/alloc.h"
#include "base/whole.h"

enum { LISTENS_MAX = 64 };

static const char allowed[] =
    "give HOST:PORT with a numeric host (127.0.0.1:7332, [::1]:7332, 0.0.0.0:7332), a PORT of "
    "127.0.0.1, or unix:/PATH";

static bool is_port(struct hx_span text, uint16_t *ret_port)
{
    int64_t number;
    if (!hx_whole_parse(text, &number) || number > UINT16_MAX)
        return false;
    *ret_port = (uint16_t)number;
    return true;
}

/* Takes the host and port apart; false when it is not in one of the forms. */
static bool split(struct hx_span text, struct hx_span *ret_host, uint16_t *ret_port)
{
    const char *colon = text.len > 0 ? memrchr(text.ptr, ':', text.len) : NULL;
    *ret_host = HX_SPAN_LIT("127.0.0.1");
    if (!colon)
        return is_port(text, ret_port);
    struct hx_span host = hx_span(text.ptr, (size_t)(colon - text.ptr));
    struct hx_span port = hx_span(colon + 1, text.len - host.len - 1);
    bool is_bracketed = host.len >= 2 && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']';
    if (is_bracketed)
        host = hx_span(host.ptr + 1, host.len - 2);
    else if (memchr(host.ptr, ':', host.len))
        return false;
    if (!hx_span_eq_cstr(host, "localhost"))
        *ret_host = host;
    return is_port(port, ret_port);
}

static bool read_host(struct hx_config_listen *listen)
{
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET, listen->host, &four) == 1) {
        listen->is_loopback = (ntohl(four.s_addr) >> 24) == 127;
        return true;
    }
    if (inet_pton(AF_INET6, listen->host, &six) != 1)
        return false;
    bool is_mapped = IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == 127;
    listen->is_loopback = IN6_IS_ADDR_LOOPBACK(&six) || is_mapped;
    return true;
}

static bool is_same(const struct hx_config_listen *a, const struct hx_config_listen *b)
{
    if (a->path || b->path)
        return a->path && b->path && strcmp(a->path, b->path) == 0;
    return a->port != 0 && a->port == b->port && strcmp(a->host, b->host) == 0;
}

int hx_listen_parse(struct hx_arena *arena, struct hx_span text, struct hx_config_listen *listen)
{
    struct hx_span unix_word = HX_SPAN_LIT("unix:");
    struct hx_span own = hx_arena_dup(arena, text);
    struct hx_span host;
    if (hx_span_is_absent(own) || text.len != strlen(own.ptr))
        return 1;
    listen->text = own.ptr;
    if (hx_span_starts_with(own, unix_word)) {
        listen->path = own.ptr + unix_word.len;
        listen->is_loopback = true;
        size_t len = strlen(listen->path);
        return len == 0 || len >= sizeof(((struct sockaddr_un *)0)->sun_path);
    }
    if (!split(own, &host, &listen->port))
        return 1;
    listen->host = hx_arena_dup(arena, host).ptr;
    return !listen->host || !read_host(listen);
}

int hx_config_add_listen(struct hx_config *config, struct hx_span text, struct hx_mark mark,
                         const char *file, struct hx_complaint *complaint)
{
    struct hx_tree tree = {.file = file, .complaint = complaint};
    struct hx_config_listen listen = {.mark = mark};
    if (config->listen_count == LISTENS_MAX)
        return hx_tree_refuse(&tree, mark, "listen: %d addresses are the most", LISTENS_MAX);
    if (hx_listen_parse(&config->arena, text, &listen) != 0)
        return hx_tree_refuse(&tree, mark, "listen: '%.*s' is not possible; %s",
                              HX_SPAN_FMT(hx_node_shown(text)), allowed);
    for (size_t i = 0; i < config->listen_count; i++)
        if (is_same(&config->listens[i], &listen))
            return hx_tree_refuse(&tree, mark, "listen: '%.*s' stands twice",
                                  HX_SPAN_FMT(hx_node_shown(text)));
    size_t size = (config->listen_count + 1) * sizeof(*config->listens);
    struct hx_config_listen *listens = hx_realloc(config->listens, size);
    if (!listens)
        return hx_tree_refuse(&tree, mark, "there is not enough memory");
    config->listens = listens;
    listens[config->listen_count++] = listen;
    return 0;
}
