/* SPDX-License-Identifier: MIT */
/*
 * `hapax reaper`, hidden: stands between a keeper and one command so that no process outlives its
 * work, even when the keeper is killed.
 */
#ifndef HX_APP_REAPER_H
#define HX_APP_REAPER_H

/* argv[0] is "reaper"; also declared with the other commands. Returns the exit status. */
int hx_cmd_reaper(int argc, char **argv);

#endif
