/* SPDX-License-Identifier: MIT */
/*
 * The command line of `hapax serve`: a configuration file, or the options of `hapax run` for one
 * server, and in both cases where to listen.
 */
#ifndef HX_APP_SERVE_OPTIONS_H
#define HX_APP_SERVE_OPTIONS_H

#include "app/config.h"
#include "app/options.h"

/* The name of the one upstream when --name does not say it. */
#define HX_SERVE_NAME_DEFAULT "default"

/* Fills `config`, which is at its defaults, and checks it. The words are borrowed as long as it
 * lives. 0; 1 with a complaint; HX_OPTIONS_HELP. */
int hx_serve_options_parse(int argc, char **argv, struct hx_config *config,
                           struct hx_complaint *complaint) HX_MUST_CHECK;

#endif
