/* SPDX-License-Identifier: MIT */
#include "app/serve.h"

#include <stdio.h>

#define EXIT_NOT_YET 70

int hx_serve(const struct hx_config *config)
{
    (void)config;
    fputs("hapax serve: the configuration is good, but this build cannot serve it yet; 'hapax run' "
          "works for one server and one client.\n",
          stderr);
    return EXIT_NOT_YET;
}
