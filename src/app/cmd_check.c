/* SPDX-License-Identifier: MIT */
/*
 * `hapax check`: reads the configuration as `hapax serve` would, and says what it found. With
 * --connect it also starts or reaches the servers and asks them what they are; it calls no tool.
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
    "No server is started or asked unless --connect is said, so tools that the file does not name\n"
    "are not seen, and whether a program, a URL, a certificate or a secret is there is not tried\n"
    "(only a token_file is read). With --connect each server is started or reached, greeted and\n"
    "asked for its tools; what each tool is then taken for is printed, and why, and what the file\n"
    "says against what the server says. No tool is called. The servers run as 'hapax serve' would\n"
    "run them, and are ended again.\n"
    "\n"
    "Examples\n"
    "  hapax check\n"
    "  hapax check --connect\n"
    "  hapax check --strict --config deploy/hapax.yaml    in CI\n"
    "  hapax check --config ~/.cursor/mcp.json --json\n"
    "\n"
    "Options\n"
    "  --config FILE  the file; it can also be given as a word of its own\n"
    "  --connect      start or reach the servers and ask them for their tools\n"
    "  --strict       warnings make the exit status 1\n"
    "  --json         one JSON object, on standard output also when the file is refused\n"
    "  --help         this text\n"
    "\n"
    "Exit status: 0 good; 1 there are warnings and --strict was said, a server cannot be used\n"
    "(--connect), or the output could not be written; 2 the file or the command line is refused\n";

struct check_options {
    const char *path;
    bool is_connecting;
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
    static const char *const names[] = {"--config", "--connect", "--strict", "--json", "--help"};
    int rc = 0;
    for (int i = 1; rc == 0 && i < argc; i++) {
        if (strcmp(argv[i], "--strict") == 0)
            options->is_strict = true;
        else if (strcmp(argv[i], "--connect") == 0)
            options->is_connecting = true;
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
            const char *near = hx_nearest(hx_span_cstr(argv[i]), names, 5);
            rc = near ? refuse("there is no such option; did you mean '%s'?", near)
                      : refuse("there is no option '%.100s'; see 'hapax check --help'", argv[i]);
        }
    }
    if (!options->path)
        options->path = HX_CONFIG_FILE_DEFAULT;
    return rc;
}

static bool has_failed(const struct hx_config *config, const struct hx_contact *contacts)
{
    for (size_t i = 0; contacts != NULL && i < config->upstream_count; i++) {
        if (contacts[i].why[0] != '\0')
            return true;
    }
    return false;
}

static int report(const struct hx_config *config, const struct hx_contact *contacts,
                  const struct check_options *options, const char *complaint)
{
    if (options->is_json)
        hx_check_report_json(config, contacts, complaint, stdout);
    else if (!complaint)
        hx_check_report(config, contacts, stdout);
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
    if (has_failed(config, contacts))
        return HX_EXIT_FAILED;
    return options->is_strict && config->warnings ? HX_EXIT_FAILED : HX_EXIT_DONE;
}

/* Of a server that answered more is known than the file can tell. */
static void advise(struct hx_config *config, const struct hx_contact *contacts)
{
    hx_config_advise_outbox(config);
    for (size_t i = 0; i < config->upstream_count; i++) {
        if (contacts != NULL && contacts[i].why[0] == '\0')
            hx_contact_advise(config, &contacts[i]);
        else
            hx_config_advise_upstream(config, &config->upstreams[i]);
    }
}

int hx_cmd_check(int argc, char **argv)
{
    struct check_options options = {0};
    struct hx_config config;
    struct hx_contact *contacts = NULL;
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
    if (rc == 0 && options.is_connecting) {
        contacts = hx_contacts_new(&config, &complaint);
        rc = contacts == NULL ? 1 : 0;
    }
    if (rc == 0)
        advise(&config, contacts);
    status = report(&config, contacts, &options, rc == 0 ? NULL : complaint.text);
    if (rc != 0 && !options.is_json && access(options.path, F_OK) != 0)
        fputs("Another file is named by 'hapax check FILE'; docs/configuration.md says what stands "
              "in "
              "one.\n",
              stderr);
    hx_contacts_free(contacts, config.upstream_count);
    hx_config_fini(&config);
    return status;
}
