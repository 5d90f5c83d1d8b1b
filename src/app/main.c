/* SPDX-License-Identifier: MIT */
/*
 * The program `hapax`: picks the command.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "app/commands.h"
#include "app/help.h"
#include "app/nearest.h"

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    bool is_hidden;
};

static const struct command commands[] = {
    {"run", hx_cmd_run, false},     {"serve", hx_cmd_serve, false}, {"call", hx_cmd_call, false},
    {"check", hx_cmd_check, false}, {"token", hx_cmd_token, false}, {"ops", hx_cmd_ops, false},
    {"demo", hx_cmd_demo, false},   {"audit", hx_cmd_audit, false}, {"reaper", hx_cmd_reaper, true},
};
#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static const struct command *find(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static int refuse(const char *word)
{
    const char *names[COMMAND_COUNT + 2];
    size_t count = 0;
    bool is_option = word[0] == '-';
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (!commands[i].is_hidden && !is_option)
            names[count++] = commands[i].name;
    if (is_option) {
        names[count++] = "--help";
        names[count++] = "--version";
    }
    const char *near = hx_nearest(hx_span_cstr(word), names, count);
    fprintf(stderr, "hapax: there is no %s '%s'", is_option ? "option" : "command", word);
    if (near)
        fprintf(stderr, "; did you mean 'hapax %s'?\n", near);
    else if (is_option)
        fputs(". Options stand behind their command: hapax run --help\n", stderr);
    else
        fprintf(stderr,
                ".\nTo start a server through Hapax: hapax run -- %s ...\n"
                "All commands: hapax --help\n",
                word);
    return HX_EXIT_USAGE;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        hx_help_overview(stderr);
        return HX_EXIT_USAGE;
    }
    const char *word = argv[1];
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        puts("hapax " HX_VERSION);
        return HX_EXIT_DONE;
    }
    if (strcmp(word, "help") == 0 && argc > 2) {
        const struct command *command = find(argv[2]);
        char *words[] = {argv[2], (char[]){"--help"}, NULL};
        return command ? command->run(2, words) : refuse(argv[2]);
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        hx_help_overview(stdout);
        return HX_EXIT_DONE;
    }
    const struct command *command = find(word);
    return command ? command->run(argc - 1, argv + 1) : refuse(word);
}
