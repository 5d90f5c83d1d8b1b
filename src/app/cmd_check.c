/* SPDX-License-Identifier: MIT */
/*
 * `hapax check`: reads the configuration as `hapax serve` would, and says what it found.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app/check_report.h"
#include "app/commands.h"
#include "app/nearest.h"

static const char help[] =
    "Usage: hapax check [--config FILE] [--strict] [--json]\n"
    "\n"
    "Reads the configuration of 'hapax serve' (default: " HX_CONFIG_FILE_DEFAULT
    " here; YAML, or the JSON with\n"
    "mcpServers that editors keep) and prints what it means: each upstream, where it goes, and\n"
    "what its tools promise. What is wrong is told with its line and column. Warnings are about\n"
    "what works but hardly as meant, above all tools of which nothing says what may be done when\n"
    "an answer is lost.\n"
    "\n"
    "No server is started or asked yet, so tools that the file does not name are not seen, and\n"
    "whether a program, a URL, a certificate or a secret is there is not tried (only a token_file\n"
    "is read).\n"
    "\n"
    "Examples\n"
    "  hapax check\n"
    "  hapax check --strict --config deploy/hapax.yaml    in CI\n"
    "  hapax check --config ~/.cursor/mcp.json --json\n"
    "\n"
    "Options\n"
    "  --config FILE  the file; it can also be given as a word of its own\n"
    "  --strict       warnings make the exit status 1\n"
    "  --json         one JSON object, on standard output also when the file is refused\n"
    "  --help         this text\n"
    "\n"
    "Exit status: 0 good; 1 there are warnings and --strict was said, or the output could not be\n"
    "written; 2 the file or the command line is refused\n";

struct check_options {
    const char *path;
    bool is_strict;
    bool is_json;
    bool is_help;
};

static int refuse(const char *format, const char *word)
{
    fputs("hapax check: ", stderr);
    fprintf(stderr, format, word);
    fprintf(stderr, "%s\n", hx_sentence_end(format));
    return HX_EXIT_USAGE;
}

static int set_path(struct check_options *options, const char *path)
{
    if (options->path)
        return refuse("one file is read at a time, and '%.300s' is a second", path);
    options->path = path;
    return 0;
}

static int parse(int argc, char **argv, struct check_options *options)
{
    static const char *const names[] = {"--config", "--strict", "--json", "--help"};
    int rc = 0;
    for (int i = 1; rc == 0 && i < argc; i++) {
        if (strcmp(argv[i], "--strict") == 0)
            options->is_strict = true;
        else if (strcmp(argv[i], "--json") == 0)
            options->is_json = true;
        else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            options->is_help = true;
        else if (strncmp(argv[i], "--config=", 9) == 0)
            rc = set_path(options, argv[i] + 9);
        else if (strcmp(argv[i], "--config") == 0 && i + 1 < argc)
            rc = set_path(options, argv[++i]);
        else if (strcmp(argv[i], "--config") == 0)
            rc = refuse("%s needs the name of a file", argv[i]);
        else if (argv[i][0] != '-')
            rc = set_path(options, argv[i]);
        else {
            const char *near = hx_nearest(hx_span_cstr(argv[i]), names, 4);
            rc = near ? refuse("there is no such option; did you mean '%s'?", near)
                      : refuse("there is no option '%.100s'; see 'hapax check --help'", argv[i]);
        }
    }
    if (!options->path)
        options->path = HX_CONFIG_FILE_DEFAULT;
    return rc;
}

static int report(const struct hx_config *config, const struct check_options *options,
                  const char *complaint)
{
    if (options->is_json)
        hx_check_report_json(config, complaint, stdout);
    else if (!complaint)
        hx_check_report(config, stdout);
    if (fflush(stdout) != 0) {
        fprintf(stderr, "hapax check: standard output: %s.\n", strerror(errno));
        return HX_EXIT_FAILED;
    }
    for (const struct hx_config_warning *at = config->warnings; at && !options->is_json;
         at = at->next)
        fprintf(stderr, "warning: %s.\n", at->text);
    if (complaint && !options->is_json)
        fprintf(stderr, "hapax check: %s%s\n", complaint, hx_sentence_end(complaint));
    if (complaint)
        return HX_EXIT_USAGE;
    return options->is_strict && config->warnings ? HX_EXIT_FAILED : HX_EXIT_DONE;
}

int hx_cmd_check(int argc, char **argv)
{
    struct check_options options = {0};
    struct hx_config config;
    struct hx_complaint complaint;
    int status = parse(argc, argv, &options);
    if (status != 0)
        return status;
    if (options.is_help) {
        fputs(help, stdout);
        return HX_EXIT_DONE;
    }
    hx_config_init(&config);
    int rc = hx_config_read(&config, options.path, &complaint);
    if (rc == 0)
        rc = hx_config_check(&config, &complaint);
    if (rc == 0)
        hx_config_advise(&config);
    status = report(&config, &options, rc == 0 ? NULL : complaint.text);
    if (rc != 0 && !options.is_json && access(options.path, F_OK) != 0)
        fputs("Another file is named by 'hapax check FILE'; docs/configuration.md says what stands "
              "in "
              "one.\n",
              stderr);
    hx_config_fini(&config);
    return status;
}
