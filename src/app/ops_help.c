/* SPDX-License-Identifier: MIT */
/*
 * What `hapax ops` says about itself: each command by its use, with examples. The options below are
 * printed from the table that also reads them.
 */
#include "app/ops_options.h"

static const char overview[] =
    "Usage: hapax ops COMMAND [OPTION...]\n"
    "\n"
    "The ledger for people: which calls were made, what became of them, and what nobody knows\n"
    "until a person says it. Safe at any time, beside running servers.\n"
    "\n"
    "Look\n"
    "  list       what is open or unknown, then what ended last\n"
    "  show       all about one call: attempts, history, who decided, what can be done\n"
    "  watch      every change as it happens, until Ctrl-C\n"
    "  export     every call as a line of JSON\n"
    "\n"
    "Decide\n"
    "  resolve    say what became of a call whose answer was lost\n"
    "  cancel     so that a call never runs, if nothing was sent yet\n"
    "  approve    let a call run that waits for a person; deny refuses it\n"
    "\n"
    "Maintain\n"
    "  outbox     events that wait for their receiver, and what becomes of them\n"
    "  size       how large the ledger is, and of what\n"
    "  verify     read the whole ledger and check it\n"
    "  recover    take a ledger into use that was restored from a copy\n"
    "\n"
    "Examples\n"
    "  hapax ops list\n"
    "  hapax ops list --state unknown --older-than 10m\n"
    "  hapax ops show 5d1c2a90\n"
    "  hapax ops resolve 5d1c2a90 happened --note 'in the bank statement of 3 May'\n"
    "\n"
    "An operation is named by its id, by the last 6 or more digits of it, or by the caller's\n"
    "key. Every command takes --ledger DIRECTORY; all but export take --json. More about one\n"
    "of them: hapax ops COMMAND --help\n";

static const char exit_status[] =
    "\n"
    "Exit status: 0 done; 1 not applied, or something is wrong; 2 the command line is wrong;\n"
    "3 there is no such operation, or the name fits several; 4 the ledger cannot be opened.\n";

static const char *const texts[HX_OPS_COMMAND_COUNT] = {
    [HX_OPS_LIST] =
        "Usage: hapax ops list [OPTION...]\n"
        "\n"
        "The calls that are open or unknown, then those that ended last, each group with its\n"
        "newest at the end. No arguments, results or keys are shown.\n"
        "\n"
        "Examples\n"
        "  hapax ops list --state unknown         what nobody knows\n"
        "  hapax ops list --needs-human           what waits for you\n"
        "  hapax ops list --state open --older-than 10m\n"
        "                                         what may be stuck\n"
        "  hapax ops list --tool 'charge*' --since 24h --limit 0\n",
    [HX_OPS_SHOW] =
        "Usage: hapax ops show ID [OPTION...]\n"
        "\n"
        "All that is known of one call, and the exact commands for what can be done next. The\n"
        "arguments and the result are shown on a terminal only, unless you ask for them.\n"
        "\n"
        "Examples\n"
        "  hapax ops show 5d1c2a90                the last digits of an id are enough\n"
        "  hapax ops show order-4711              the caller's key\n"
        "  hapax ops show 5d1c2a90 --json --without-payload\n",
    [HX_OPS_WATCH] = "Usage: hapax ops watch [OPTION...]\n"
                     "\n"
                     "One line for each change of a call from now on, and for what is open now. "
                     "Ctrl-C ends it.\n"
                     "\n"
                     "Examples\n"
                     "  hapax ops watch --tool 'charge*'\n"
                     "  hapax ops watch --json | jq -r 'select(.to == \"unknown\") | .id'\n",
    [HX_OPS_RESOLVE] =
        "Usage: hapax ops resolve ID happened|absent|again [OPTION...]\n"
        "\n"
        "For a call that was sent and whose answer was lost. Look first where the call should\n"
        "have acted; then say what you found:\n"
        "\n"
        "  happened   It did. Repeats of the call get this answer, or the one of --result.\n"
        "  absent     It did not, and it will not be done. Refused as long as the call may still\n"
        "             be under way; --force if you know better.\n"
        "  again      It did not, or doing it twice is fine: do it again. The next repeat of the\n"
        "             call runs it, once.\n"
        "\n"
        "When somebody else decided first you are told so, and nothing changes.\n"
        "\n"
        "Examples\n"
        "  hapax ops resolve 5d1c2a90 happened --note 'seen in the bank statement'\n"
        "  hapax ops resolve 5d1c2a90 happened \\\n"
        "      --result '{\"content\":[{\"type\":\"text\",\"text\":\"receipt 77\"}]}'\n"
        "  hapax ops resolve 5d1c2a90 absent\n"
        "  hapax ops resolve 5d1c2a90 again --note 'no trace of it at the bank'\n",
    [HX_OPS_CANCEL] =
        "Usage: hapax ops cancel ID [OPTION...]\n"
        "       hapax ops cancel --server S --tool T --key K [OPTION...]\n"
        "\n"
        "If nothing was sent yet, the call will never run. If it was sent, it may have happened:\n"
        "then the cancel is noted and you are told that it is in doubt, never that it worked.\n"
        "By key it also works for a call that has not arrived yet.\n"
        "\n"
        "Examples\n"
        "  hapax ops cancel 5d1c2a90\n"
        "  hapax ops cancel --server billing --tool charge --key order-4711\n",
    [HX_OPS_APPROVE] =
        "Usage: hapax ops approve ID [OPTION...]\n"
        "\n"
        "Lets a call run that waits for a person's word: the next repeat of the call\n"
        "runs it. Approval is used once.\n"
        "\n"
        "Example\n"
        "  hapax ops approve 5d1c2a90 --note 'amount agreed with Ann'\n",
    [HX_OPS_DENY] = "Usage: hapax ops deny ID [OPTION...]\n"
                    "\n"
                    "Refuses a call that waits for a person's word; it never runs.\n"
                    "\n"
                    "Example\n"
                    "  hapax ops deny 5d1c2a90 --note 'not our account'\n",
    [HX_OPS_OUTBOX] =
        "Usage: hapax ops outbox [OPTION...]\n"
        "       hapax ops outbox ID\n"
        "       hapax ops outbox --again ID | --again --parked\n"
        "       hapax ops outbox --drop ID --note REASON\n"
        "       hapax ops outbox --end --note REASON\n"
        "\n"
        "The events that were not delivered yet (see outbox_url). After 20 tries an event is\n"
        "parked, and what comes behind it for the same call waits too, so that the order holds.\n"
        "Try it again when the receiver works, or drop it.\n"
        "\n"
        "Examples\n"
        "  hapax ops outbox --parked\n"
        "  hapax ops outbox 5d1c2a90              all about one, the last error too\n"
        "  hapax ops outbox --again --parked\n"
        "  hapax ops outbox --drop 5d1c2a90 --note 'entered by hand'\n",
    [HX_OPS_EXPORT] =
        "Usage: hapax ops export [OPTION...]\n"
        "\n"
        "Every call of a tool that may change something, oldest first, one JSON object a line,\n"
        "with its history. Arguments, results and keys are in it unless left out. Members that\n"
        "the settings name (redact) are \"[redacted]\" in it.\n"
        "\n"
        "Examples\n"
        "  hapax ops export > calls.jsonl\n"
        "  hapax ops export --since 24h --state unknown,failed --without-payload\n"
        "  hapax ops export --redact password --redact iban\n",
    [HX_OPS_SIZE] =
        "Usage: hapax ops size [OPTION...]\n"
        "\n"
        "How large the ledger is, and of what. What is too much goes by itself after\n"
        "payload_retention (results) and row_retention (calls); space that became free in the\n"
        "database is used again.\n",
    [HX_OPS_VERIFY] =
        "Usage: hapax ops verify [OPTION...]\n"
        "\n"
        "Reads the whole ledger and its files and checks that they agree. Changes nothing and\n"
        "does not hold up running servers.\n",
    [HX_OPS_RECOVER] =
        "Usage: hapax ops recover [--backup-taken-at TIME] [OPTION...]\n"
        "\n"
        "After a ledger was restored from a copy, guarded calls are refused: the copy does not\n"
        "know what happened since. Say when it was made; from then on calls run again, and those\n"
        "that may already have happened in between are unknown instead of run twice. Without\n"
        "--backup-taken-at it only tidies up what killed processes left.\n"
        "\n"
        "Example\n"
        "  hapax ops recover --backup-taken-at 2026-11-29T03:00:00Z\n",
};

void hx_ops_help(FILE *out, enum hx_ops_command command)
{
    fputs(command == HX_OPS_COMMAND_COUNT ? overview : texts[command], out);
    if (command != HX_OPS_COMMAND_COUNT)
        hx_ops_help_options(out, command);
    fputs(exit_status, out);
}
