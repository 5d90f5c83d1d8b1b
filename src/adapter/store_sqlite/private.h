/* SPDX-License-Identifier: MIT */
/*
 * What other users of the host may do with the ledger.
 *
 * Whoever may write its directory can put another ledger in the place of this one, and every call
 * would be a new one. So such a directory is refused, as ssh refuses keys in one, and so is one of
 * another user, who may give himself the right; of root it may be. With the sticky bit (as /tmp has
 * it) the others cannot move what is ours. Root is only warned: volumes of containers come with
 * such modes, and there the others are nobody. For the same reason whoever is not root is only
 * warned of group 0: there are containers whose users have any number, and group 0 all of them.
 *
 * Directories above this one are not looked at: they are the host's.
 */
#ifndef HX_ADAPTER_STORE_SQLITE_PRIVATE_H
#define HX_ADAPTER_STORE_SQLITE_PRIVATE_H

#include "adapter/store_sqlite/files.h"

/* Refuses a directory whose files others may put away. */
int hx_directory_check_private(const char *path);
/* Takes what others may do away from the files and directories of ours, also from those that
 * somebody copied here with wider rights. After the database is there. */
int hx_paths_make_private(const struct hx_paths *paths);

#endif
