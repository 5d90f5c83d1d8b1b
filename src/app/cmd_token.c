/* SPDX-License-Identifier: MIT */
/*
 * `hapax token`: a new bearer token, or the hash of one that there is. The token goes to standard
 * output and nowhere else; what explains it goes to standard error, so that scripts can read.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "adapter/clock_os/clock_os.h"
#include "app/commands.h"
#include "app/nearest.h"
#include "app/token.h"

static const char help[] =
    "Usage: hapax token [--name NAME]\n"
    "       hapax token --stdin [--name NAME]\n"
    "\n"
    "Makes a bearer token (256 random bits) for a caller of 'hapax serve'. The first line that is\n"
    "printed is the token, which nobody can show you again; the second is for the configuration,\n"
    "below 'tokens', and holds only its SHA-256, so that whoever reads the file cannot call.\n"
    "\n"
    "Examples\n"
    "  hapax token --name alice\n"
    "      the caller sends 'Authorization: Bearer hpx_...' and is the principal alice\n"
    "  hapax token --stdin --name ci < ci-token\n"
    "      only the line, for a token that exists already\n"
    "\n"
    "Options\n"
    "  --name NAME  how the configuration, the ledger and the log call its holder [caller]\n"
    "  --stdin      read the token from standard input, at least 20 characters without spaces\n"
    "  --help       this text\n"
    "\n"
    "Exit status: 0 printed; 1 it could not be printed; 2 the command line or the token is wrong\n";

struct token_options {
    const char *name;
    bool is_stdin;
    bool is_help;
};

static int refuse(const char *sentence, const char *word)
{
    fprintf(stderr, "hapax token: ");
    fprintf(stderr, sentence, word);
    fprintf(stderr, "%s\n", hx_sentence_end(sentence));
    return HX_EXIT_USAGE;
}

static int parse(int argc, char **argv, struct token_options *options)
{
    static const char *const names[] = {"--name", "--stdin", "--help"};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            options->is_help = true;
        } else if (strcmp(argv[i], "--stdin") == 0) {
            options->is_stdin = true;
        } else if (strncmp(argv[i], "--name=", 7) == 0) {
            options->name = argv[i] + 7;
        } else if (strcmp(argv[i], "--name") == 0 && i + 1 < argc) {
            options->name = argv[++i];
        } else if (strcmp(argv[i], "--name") == 0) {
            return refuse("%s needs a value", argv[i]);
        } else if (argv[i][0] != '-') {
            /* Not repeated: it may be the token, which then is in the shell's history already. */
            return refuse("words are not read, and a token must not be one: others can see it. "
                          "Give it by standard input%s",
                          " (--stdin)");
        } else {
            const char *near = hx_nearest(hx_span_cstr(argv[i]), names, 3);
            return near ? refuse("there is no such option; did you mean '%s'?", near)
                        : refuse("there is no such option; see %s", "'hapax token --help'");
        }
    }
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.@-";
    size_t len = strlen(options->name);
    if (len == 0 || len > 64 || strspn(options->name, allowed) != len)
        return refuse("--name must be 1 to 64 %s", "letters, digits or one of _ . @ -");
    return 0;
}

static int read_token(char *bytes, size_t size, struct hx_span *ret_token)
{
    size_t len = 0;
    while (len < size) {
        ssize_t got = read(STDIN_FILENO, bytes + len, size - len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return refuse("standard input: %s", strerror(errno));
        if (got == 0)
            break;
        len += (size_t)got;
    }
    *ret_token = hx_token_trim(hx_span(bytes, len));
    if (len < size && hx_token_is_good(*ret_token))
        return 0;
    return refuse("standard input must hold one token: at least 20 printable ASCII characters "
                  "without spaces, and %s",
                  "nothing else");
}

int hx_cmd_token(int argc, char **argv)
{
    struct token_options options = {.name = "caller"};
    char bytes[HX_TOKEN_LEN_MAX + 64];
    char made[HX_TOKEN_SIZE];
    char hex[HX_DIGEST_HEX_SIZE];
    struct hx_span token = hx_span(made, HX_TOKEN_SIZE - 1);
    int status = parse(argc, argv, &options);
    if (status != 0)
        return status;
    if (options.is_help) {
        fputs(help, stdout);
        return HX_EXIT_DONE;
    }
    if (options.is_stdin)
        status = read_token(bytes, sizeof(bytes), &token);
    else
        hx_token_make(hx_rand_os(), made);
    if (status == 0) {
        struct hx_hasher *hasher = hx_hasher_new();
        struct hx_digest hash = hx_token_hash(hasher, token);
        hx_hasher_free(hasher);
        hx_digest_hex(&hash, hex);
        if (!options.is_stdin) {
            fprintf(stderr, "The token, shown only now; and its line for the configuration, below "
                            "'tokens':\n");
            puts(made);
        }
        /* Quoted: a name of digits, or one that begins with @, would be something else to YAML. */
        printf("  \"%s\": {sha256: %s}\n", options.name, hex);
        if (fflush(stdout) != 0) {
            fprintf(stderr, "hapax token: standard output: %s.\n", strerror(errno));
            status = HX_EXIT_FAILED;
        }
    }
    explicit_bzero(bytes, sizeof(bytes));
    explicit_bzero(made, sizeof(made));
    return status;
}
