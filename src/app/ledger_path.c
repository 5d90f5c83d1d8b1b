/* SPDX-License-Identifier: MIT */
#include "app/ledger_path.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "adapter/store_sqlite/files.h"
#include "base/alloc.h"

/* Others open it from directories of their own: a reaper after it has gone to that of its server.
 * Returns the length, or one that is too large. */
static size_t make_absolute(const char *path, char *ret_path, size_t size)
{
    char here[HX_LEDGER_PATH_MAX];
    int len = -1;
    if (path[0] == '/')
        len = snprintf(ret_path, size, "%s", path);
    else if (getcwd(here, sizeof(here)) != NULL)
        len = snprintf(ret_path, size, "%s/%s", here, path);
    return len < 0 ? size : (size_t)len;
}

/* Room for the names of the files that stand beside the database. */
enum { SUFFIX_MAX = 128 };

/* Everything beside the ledger is named after the one name that the store uses. */
static int name_rest(char *ret_path, char *ret_transport_dir, struct hx_complaint *complaint)
{
    char *name = hx_path_true_name(ret_path);
    int len = snprintf(ret_path, HX_LEDGER_PATH_MAX - SUFFIX_MAX, "%s", name);
    hx_free(name);
    if (len < 0 || len >= HX_LEDGER_PATH_MAX - SUFFIX_MAX)
        return hx_complain(complaint, "the ledger's path is too long");
    (void)snprintf(ret_transport_dir, HX_LEDGER_PATH_MAX, "%s-owners", ret_path);
    return 0;
}

int hx_ledger_path(const struct hx_settings *settings, enum hx_ledger_place place, char *ret_path,
                   char *ret_transport_dir, struct hx_complaint *complaint)
{
    char directory[HX_LEDGER_PATH_MAX - SUFFIX_MAX];
    size_t len;
    struct stat info;
    if (place == HX_LEDGER_ANYWHERE && settings->ledger != NULL &&
        stat(settings->ledger, &info) == 0 && S_ISREG(info.st_mode)) {
        len = make_absolute(settings->ledger, directory, sizeof(directory));
        if (len >= sizeof(directory))
            return hx_complain(complaint, "the ledger's path is too long");
        snprintf(ret_path, HX_LEDGER_PATH_MAX, "%s", directory);
        return name_rest(ret_path, ret_transport_dir, complaint);
    }
    if (settings->ledger != NULL) {
        len = make_absolute(settings->ledger, directory, sizeof(directory));
    } else {
        errno = 0;
        const struct passwd *user = getpwuid(getuid());
        if (user == NULL || user->pw_dir == NULL || user->pw_dir[0] != '/')
            return hx_complain(complaint,
                               "user %lu has no home directory, so the ledger needs a place: "
                               "--ledger DIRECTORY",
                               (unsigned long)getuid());
        len = (size_t)snprintf(directory, sizeof(directory), "%s/.local/state/hapax", user->pw_dir);
    }
    if (len >= sizeof(directory))
        return hx_complain(complaint, "the ledger's path is too long");
    snprintf(ret_path, HX_LEDGER_PATH_MAX, "%s/ledger.db", directory);
    return name_rest(ret_path, ret_transport_dir, complaint);
}
