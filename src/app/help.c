/* SPDX-License-Identifier: MIT */
#include "app/help.h"

#include <string.h>

#include "app/config.h"
#include "app/options.h"
#include "app/settings.h"

#define HELP_COLUMNS 80
#define OPTION_INDENT 8

void hx_help_overview(FILE *out)
{
    fputs("hapax: a tool call happens once, or you are told plainly that nobody can tell.\n"
          "\n"
          "Put it before the command of any MCP server in your client's configuration:\n"
          "\n"
          "  hapax run -- npx -y @example/server      (was: npx -y @example/server)\n"
          "\n"
          "Nothing else is needed. A call whose answer got lost is not run a second time when\n"
          "the client repeats it: the repeat gets the answer of the first.\n"
          "\n"
          "Commands\n"
          "  run     start an MCP server behind the ledger; stdio in front\n"
          "  serve   one or many servers behind the ledger; Streamable HTTP in front\n"
          "  call    make one tool call from a shell, and settle what an earlier one left open\n"
          "  check   read the configuration of serve, say what is wrong with it\n"
          "  token   make a bearer token for callers of serve\n"
          "  ops     look into the ledger, settle what is unknown\n"
          "  demo    see it with your own eyes: real processes, really killed, in 20 seconds\n"
          "  audit   put any server or gateway through the same, and count what its tool did\n"
          "\n"
          "  hapax COMMAND --help     explains a command, with examples\n"
          "  hapax --version          prints the version\n"
          "\n"
          "Exit status\n"
          "  0  done\n"
          "  1  it could not be done, or (demo, audit) a promise was broken; it is said which\n"
          "  2  the command line or a setting is wrong; nothing was started\n"
          "run, call, ops and audit have more, which their help lists\n",
          out);
}

void hx_help_wrap(FILE *out, const char *text, size_t indent, size_t column)
{
    while (*text) {
        size_t word = strcspn(text, " ");
        if (column > indent && column + 1 + word > HELP_COLUMNS) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', out);
            column++;
        }
        fwrite(text, 1, word, out);
        column += word;
        text += word;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static const char *placeholder(enum hx_setting_type type)
{
    switch (type) {
    case HX_SETTING_TEXT:
        return "TEXT";
    case HX_SETTING_FLAG:
        return "[=on|off]";
    case HX_SETTING_CHOICE:
        return "CHOICE";
    case HX_SETTING_DURATION:
        return "TIME";
    case HX_SETTING_COUNT_OF:
        return "N";
    case HX_SETTING_SIZE:
        return "SIZE";
    case HX_SETTING_POINTER:
        return "/POINTER";
    case HX_SETTING_POINTERS:
        return "/POINTER,...";
    case HX_SETTING_NAMES:
        return "NAME,...";
    case HX_SETTING_KEY_PLACE:
        return "PLACE";
    case HX_SETTING_ERRORS:
        return "ERROR,...";
    case HX_SETTING_APPROVAL:
        return "WHEN";
    }
    return "";
}

static void print_setting(FILE *out, enum hx_setting_id id)
{
    const struct hx_setting_row *row = hx_setting_row(id);
    char option[HX_OPTION_NAME_SIZE];
    char text[512];
    hx_option_name(row->name, option);
    fprintf(out, "  %s%s%s%s\n%*s", option, row->type == HX_SETTING_FLAG ? "" : " ",
            placeholder(row->type), row->scope == HX_SCOPE_TOOL ? " *" : "", OPTION_INDENT, "");
    if (strcmp(row->initial, "none") == 0)
        snprintf(text, sizeof(text), "%s", row->help);
    else
        snprintf(text, sizeof(text), "%s [%s]", row->help, row->initial);
    hx_help_wrap(out, text, OPTION_INDENT, OPTION_INDENT);
    for (int choice = 0; choice < HX_CHOICE_COUNT; choice++)
        if (hx_choice_setting((enum hx_choice)choice) == id)
            fprintf(out, "%*s%-12s %s\n", OPTION_INDENT + 2, "",
                    hx_choice_text((enum hx_choice)choice), hx_choice_help((enum hx_choice)choice));
}

static void print_settings(FILE *out)
{
#define HX_SETTING_SECTION(title) fprintf(out, "\n%s\n", title);
#define HX_SETTING(field, type, scope, initial, min, max, help)                                    \
    print_setting(out, HX_SETTING_##field);
#include "tables/config.def"
}

void hx_help_run(FILE *out)
{
    fputs("Usage: hapax run [OPTION...] -- COMMAND [ARGUMENT...]\n"
          "       hapax run [OPTION...] URL\n"
          "\n"
          "Starts COMMAND, an MCP server that speaks on standard input and output, or reaches the\n"
          "one at URL over Streamable HTTP, and stands between it and the client. Every call of a\n"
          "tool that may change something is written into the ledger before it is sent and its\n"
          "result before it is answered, so that a repeated call gets the first one's result\n"
          "instead of acting again. If the client goes away, kills this process or restarts, the\n"
          "work goes on and its result waits.\n"
          "\n"
          "Examples\n"
          "  hapax run -- npx -y @example/server\n"
          "      in place of 'npx -y @example/server'\n"
          "  hapax run --name crm --headers-file ~/.crm-headers https://crm.example/mcp\n"
          "      a remote server, for a client that speaks standard input and output\n"
          "  hapax run --name billing -- ./server --port 1\n"
          "      a name of its own in the ledger; needed when two entries differ only in their\n"
          "      environment\n"
          "  hapax run --tool 'get_*: class=read_only' \\\n"
          "            --tool 'set_status: class=idempotent timeout=90s' -- ./server\n"
          "      says what tools promise: get_... change nothing, set_status may be sent again\n"
          "  hapax run --repeat window --repeat-window 5m -- ./server\n"
          "      for frameworks that run a finished call again\n"
          "  hapax run --tool 'charge: class=keyed effect_key=/idempotency_key' -- ./server\n"
          "      charge takes a key in that argument and recognises a repeat by it\n"
          "\n"
          "Per-tool rules\n"
          "  --tool 'PATTERN: name=value ...'\n"
          "      PATTERN is a tool's name, with * for any run of characters and ? for one. Names\n"
          "      are those below, with underscores. Setting by setting the most specific rule\n"
          "      holds: a full name, then the longest text before the first * or ?, then the\n"
          "      later one; values with spaces stand in quotes. May be given many times.\n"
          "\n"
          "Options (* also in a rule; [default])\n",
          out);
    print_settings(out);
    fputs("\nHelp\n"
          "  --show-settings\n"
          "        start nothing; print the settings that the other options make\n"
          "  --help\n"
          "        this text\n"
          "\nTIME is a number with ms, s, m, h or d; SIZE is in bytes or with KiB, MiB, GiB.\n"
          "Calls are found again only in the same ledger under the same name.\n"
          "\n"
          "Exit status: 0 the client closed and all work is done; 1 the gateway itself could not\n"
          "start or go on; 2 the command line is wrong; 70 the process that does the work was\n"
          "killed (calls under way are settled when the next one starts).\n",
          out);
}

void hx_help_serve(FILE *out)
{
    fputs(
        "Usage: hapax serve [--config FILE] [OPTION...]\n"
        "       hapax serve [OPTION...] -- COMMAND [ARGUMENT...]\n"
        "       hapax serve [OPTION...] URL\n"
        "\n"
        "Serves MCP over Streamable HTTP, with the ledger between the callers and the servers\n"
        "behind: COMMAND, which is started and spoken to on its standard input and output, the\n"
        "one at URL, or all that FILE names (default: " HX_CONFIG_FILE_DEFAULT " here). Each\n"
        "answers at /mcp/NAME, and all together at /mcp, their names behind a prefix each.\n"
        "\n"
        "Examples\n"
        "  hapax serve -- npx -y @example/server\n"
        "      one server, at http://" HX_LISTEN_DEFAULT "/mcp, for programs on this machine\n"
        "  hapax serve --name crm --headers-file ~/.crm-headers https://crm.example/mcp\n"
        "      a remote server that gets its secret from a file\n"
        "  hapax serve --config hapax.yaml --listen unix:/run/hapax.sock\n"
        "      what the file names, at another address\n"
        "  hapax check --connect && hapax serve\n"
        "      look before you leap; 'hapax check' explains the file and asks the servers\n"
        "  hapax check && kill -HUP PID\n"
        "      take a changed file without a restart; calls under way end where they began\n"
        "\n"
        "Who may call\n"
        "  Without tokens everybody who reaches the address is the user who runs Hapax. So the\n"
        "  default is this machine only, and another address is refused until the file has\n"
        "  tokens ('hapax token' makes one) or --allow-anonymous is said.\n"
        "\n"
        "Where\n"
        "  --listen ADDRESS\n"
        "        HOST:PORT with a numeric host or localhost, a PORT, or unix:/PATH; may be\n"
        "        given again, and replaces what the file says [" HX_LISTEN_DEFAULT "]\n"
        "  --allowed-host NAME, --allowed-origin ORIGIN\n"
        "        accept this Host, or a browser's Origin, besides those of the addresses\n"
        "  --allow-anonymous\n"
        "        other machines may call without a token\n"
        "  --config FILE\n"
        "        YAML, or the JSON with mcpServers that editors keep. Beside it only the ledger\n"
        "        and log options below can be given; all others stand in the file, by the same\n"
        "        names with underscores\n"
        "\n"
        "Options of the one server (* also in a --tool rule, see 'hapax run --help'; [default])\n",
        out);
    print_settings(out);
    fputs("\n  --help\n"
          "        this text\n"
          "\nTIME is a number with ms, s, m, h or d; SIZE is in bytes or with KiB, MiB, GiB.\n"
          "\n"
          "Exit status: 0 ended as asked; 1 it could not start or go on; 2 the command line or\n"
          "the configuration is wrong, nothing was started.\n",
          out);
}

void hx_help_call(FILE *out)
{
    fputs(
        "Usage: hapax call [OPTION...] URL TOOL [JSON]\n"
        "       hapax call [OPTION...] TOOL [JSON] -- COMMAND [ARGUMENT...]\n"
        "       hapax call [OPTION...] [--config FILE] NAME TOOL [JSON]\n"
        "       hapax call --resume [KEY [TOOL [SERVER]] | --all]\n"
        "       hapax call --give-up KEY [TOOL [SERVER]]\n"
        "\n"
        "Calls one tool and prints its text. Before anything is sent, the call stands on disk\n"
        "under a key; whatever is killed or cut then, the call is made once, or you are told\n"
        "that nobody can tell and choose yourself. A time-out is never called a failure.\n"
        "\n"
        "Examples\n"
        "  hapax call charge '{\"amount\": 3}' -- ./server --port 1\n"
        "      a server that is started for this call, and ended after it\n"
        "  hapax call --headers-file ~/.crm-headers https://crm.example/mcp note @note.json\n"
        "      a remote one; the arguments come from a file (- is standard input)\n"
        "  hapax call --config ~/.config/editor/mcp.json github create_issue '{...}'\n"
        "      a server by the name that it has there (default file: " HX_CONFIG_FILE_DEFAULT ")\n"
        "  hapax call --key order-4711 --wait 30s --json https://crm.example/mcp charge '{}'\n"
        "      for a script: a key that it can say again, one JSON object, an exit status\n"
        "  hapax call --resume --all\n"
        "      after a crash: whatever is still open is settled, by asking where the server can\n"
        "      be asked, by sending again only where that is safe\n"
        "\n"
        "The call\n"
        "  --key KEY\n"
        "        its name, the same each time it is repeated. Without one a new UUIDv7 is made\n"
        "        and printed on standard error, with the command that takes the call up again\n"
        "  --wait TIME\n"
        "        how long to wait for the answer, or none [5m]. Then the status is 75, and the\n"
        "        call goes on without you, at most --orphan-timeout. When it is given, a server\n"
        "        that cannot be reached is tried again until then; a ledger that cannot be\n"
        "        opened is not (status 4)\n"
        "  --json\n"
        "        print one object: operation, key, server, tool, execution, effect, code,\n"
        "        replayed, exit_status, result or error, choices\n"
        "  --resume [KEY [TOOL [SERVER]] | --all]\n"
        "        go on with a call that an earlier process left open, by its key or its\n"
        "        operation's id; without either the one that is. Tool and server tell calls\n"
        "        under one key apart. Takes --wait, --json and --ledger; the target was kept\n"
        "        with the call\n"
        "  --give-up KEY [TOOL [SERVER]]\n"
        "        forget that it is open. What the ledger knows of it stays there\n"
        "\n"
        "Exit status\n"
        "   0  it happened; the result is printed\n"
        "   1  it was done, and the tool answered with an error\n"
        "   2  the command line is wrong; nothing was sent\n"
        "   3  no call with that key is open\n"
        "   4  the ledger cannot be used; nothing was sent now\n"
        "   5  nothing happened, and nothing will: refused, failed or cancelled\n"
        "   6  the server cannot be reached; nothing was sent now\n"
        "   7  unknown: it may have happened. Ask again, do it again, or give up: the commands\n"
        "      are printed\n"
        "  70  the process that does the work was killed; --resume settles it\n"
        "  75  it still runs or waits for something; --resume waits on\n"
        "After 5 a new call with a new key is safe, after 4 and 6 when the key was new; after 7,\n"
        "70 and 75 it is not: the first may still act.\n"
        "\n"
        "Options of the target (* also in a --tool rule, see 'hapax run --help'; [default]).\n"
        "--ledger is that of calls: ~/.local/state/hapax/call, which 'hapax ops --ledger' reads.\n",
        out);
    print_settings(out);
    fputs("\n  --show-settings\n"
          "        send nothing; print the settings that the other options make\n"
          "  --help\n"
          "        this text\n"
          "\nTIME is a number with ms, s, m, h or d; SIZE is in bytes or with KiB, MiB, GiB.\n"
          "The words of the command line are kept beside the ledger, for the owner only, as long\n"
          "as the call is open; secrets belong into the file of --headers-file.\n",
          out);
}
