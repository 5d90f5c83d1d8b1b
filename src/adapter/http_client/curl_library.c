/* SPDX-License-Identifier: MIT */
#define HX_CURL_LIBRARY_ITSELF
#include "adapter/http_client/curl_library.h"

#include <dlfcn.h>
#include <stdbool.h>

#include "base/fault.h"

struct hx_curl_library hx_curl;

static void *find(void *library, const char *name)
{
    void *function = dlsym(library, name);
    if (function == NULL)
        (void)HX_RAISE(HX_E_SYSTEM, "libcurl has no %s", name);
    return function;
}

int hx_curl_load(void)
{
    static bool is_loaded;
    if (is_loaded)
        return 0;
    /* Kept for the life of the process: there is nothing to gain from unloading it. */
    void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return HX_RAISE(HX_E_SYSTEM, "a server over HTTP needs libcurl: %s", dlerror());
#define FUNCTION(name)                                                                             \
    *(void **)(&hx_curl.name) = find(library, "curl_" #name);                                      \
    if (hx_curl.name == NULL)                                                                      \
        return HX_E_SYSTEM;
    HX_CURL_FUNCTIONS(FUNCTION)
#undef FUNCTION
    is_loaded = true;
    return 0;
}
