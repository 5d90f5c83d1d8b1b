/* SPDX-License-Identifier: MIT */
/*
 * libcurl, loaded when the first server over HTTP is wanted and not before: it brings thirty
 * libraries with it, which would double the memory and the start of every `hapax run -- CMD`
 * (docs/performance.md).
 *
 * The names below stand for the loaded functions, so that the code reads as usual. Everything here
 * belongs to the thread that loaded it.
 */
#ifndef HX_ADAPTER_HTTP_CLIENT_CURL_LIBRARY_H
#define HX_ADAPTER_HTTP_CLIENT_CURL_LIBRARY_H

/* The checks of arguments that curl's macros do would take the functions by their own names. */
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#include "base/assert.h"

#define HX_CURL_FUNCTIONS(FUNCTION)                                                                \
    FUNCTION(easy_cleanup)                                                                         \
    FUNCTION(easy_getinfo)                                                                         \
    FUNCTION(easy_header)                                                                          \
    FUNCTION(easy_init)                                                                            \
    FUNCTION(easy_pause)                                                                           \
    FUNCTION(easy_setopt)                                                                          \
    FUNCTION(easy_strerror)                                                                        \
    FUNCTION(free)                                                                                 \
    FUNCTION(global_init)                                                                          \
    FUNCTION(multi_add_handle)                                                                     \
    FUNCTION(multi_assign)                                                                         \
    FUNCTION(multi_cleanup)                                                                        \
    FUNCTION(multi_info_read)                                                                      \
    FUNCTION(multi_init)                                                                           \
    FUNCTION(multi_remove_handle)                                                                  \
    FUNCTION(multi_setopt)                                                                         \
    FUNCTION(multi_socket_action)                                                                  \
    FUNCTION(slist_append)                                                                         \
    FUNCTION(slist_free_all)                                                                       \
    FUNCTION(url)                                                                                  \
    FUNCTION(url_cleanup)                                                                          \
    FUNCTION(url_get)                                                                              \
    FUNCTION(url_set)

/* curl.h has function-like macros over some of these names. */
#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt

struct hx_curl_library {
#define FUNCTION(name) __typeof__(curl_##name) *name;
    HX_CURL_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

extern struct hx_curl_library hx_curl;

/* 0, or HX_E_SYSTEM with what is missing. Doing it again is harmless. */
int hx_curl_load(void) HX_MUST_CHECK;

#ifndef HX_CURL_LIBRARY_ITSELF
#define curl_easy_cleanup hx_curl.easy_cleanup
#define curl_easy_getinfo hx_curl.easy_getinfo
#define curl_easy_header hx_curl.easy_header
#define curl_easy_init hx_curl.easy_init
#define curl_easy_pause hx_curl.easy_pause
#define curl_easy_setopt hx_curl.easy_setopt
#define curl_easy_strerror hx_curl.easy_strerror
#define curl_free hx_curl.free
#define curl_global_init hx_curl.global_init
#define curl_multi_add_handle hx_curl.multi_add_handle
#define curl_multi_assign hx_curl.multi_assign
#define curl_multi_cleanup hx_curl.multi_cleanup
#define curl_multi_info_read hx_curl.multi_info_read
#define curl_multi_init hx_curl.multi_init
#define curl_multi_remove_handle hx_curl.multi_remove_handle
#define curl_multi_setopt hx_curl.multi_setopt
#define curl_multi_socket_action hx_curl.multi_socket_action
#define curl_slist_append hx_curl.slist_append
#define curl_slist_free_all hx_curl.slist_free_all
#define curl_url hx_curl.url
#define curl_url_cleanup hx_curl.url_cleanup
#define curl_url_get hx_curl.url_get
#define curl_url_set hx_curl.url_set
#endif

#endif
