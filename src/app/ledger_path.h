/* SPDX-License-Identifier: MIT */
/*
 * Where the ledger is: in the directory that the setting names, else in .local/state/hapax of the
 * home that the password database gives. The environment is not asked: clients start servers with a
 * bare one.
 */
#ifndef HX_APP_LEDGER_PATH_H
#define HX_APP_LEDGER_PATH_H

#include "app/settings.h"

#define HX_LEDGER_PATH_MAX 4096

/* Programs that use libhapax keep their ledger in a file of their own. `hapax ops` reads those too;
 * a gateway makes none of such a file. */
enum hx_ledger_place { HX_LEDGER_OF_OURS, HX_LEDGER_ANYWHERE };

/* Writes the absolute path of the database file and that of the directory for transports, each of
 * HX_LEDGER_PATH_MAX bytes. 0, or 1 with a complaint. */
int hx_ledger_path(const struct hx_settings *settings, enum hx_ledger_place place, char *ret_path,
                   char *ret_transport_dir, struct hx_complaint *complaint) HX_MUST_CHECK;

#endif
