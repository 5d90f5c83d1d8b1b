# SPDX-License-Identifier: MIT
"""The samples. A case is a function `test_...` that takes a Sample and asserts."""
import json
import os
import re

GOOD_C = '/* SPDX-License-Identifier: MIT */\n/* What this is for. */\n#include <stddef.h>\n'


def all_cases():
    """In the order of this file."""
    return [(name[5:], value) for name, value in globals().items() if name.startswith("test_")]


def expect(outcome, status, *parts):
    """The tool ended with `status` and said each of `parts`."""
    got, text = outcome
    assert got == status, f"exit status {got}, not {status}, and said:\n{text}"
    for part in parts:
        assert part in text, f"did not say {part!r} but:\n{text}"


# --- layers ---------------------------------------------------------------------------------------

def layer_breach(path, include, *parts):
    def case(sample):
        sample.write("src/base/span.h", GOOD_C)
        sample.write(path, GOOD_C + include + "\n")
        expect(sample.tool("check-layers", "."), 1, path + ":4", *parts)
    return case


def layer_fine(path, include):
    def case(sample):
        sample.write(path, GOOD_C + include + "\n")
        expect(sample.tool("check-layers", "."), 0)
    return case


test_layers_base_stands_alone = layer_breach("src/base/a.c", '#include "json/reader.h"')
test_layers_core_knows_no_port = layer_breach("src/core/op.c", '#include "port/store.h"')
test_layers_core_reads_no_clock = layer_breach("src/core/op.c", "#include <time.h>", "no I/O")
test_layers_wire_knows_no_core = layer_breach("src/wire/mcp.c", '#  include "core/op.h"')
test_layers_engine_knows_no_adapter = layer_breach(
    "src/engine/gateway.c", '#include "adapter/store_sqlite/store.h"')
test_layers_adapters_are_strangers = layer_breach(
    "src/adapter/store_memory/store.c", '#include "adapter/store_sqlite/store.h"', "another adapter")
test_layers_adapter_knows_no_engine = layer_breach(
    "src/adapter/clock_os/clock.c", '#include "engine/gateway.h"')
test_layers_sqlite_stays_in_its_adapter = layer_breach(
    "src/app/ops.c", "#include <sqlite3.h>", "store_sqlite")
test_layers_libevent_stays_in_loop = layer_breach(
    "src/adapter/stdio_child/child.c", "#include <event2/event.h>", "src/loop/")
test_layers_no_threads_in_engine = layer_breach("src/engine/gateway.c", "#include <pthread.h>")
test_layers_include_names_its_layer = layer_breach("src/core/op.c", '#include "record.h"', "names its layer")
test_layers_unknown_layer = layer_breach("src/util/x.c", '#include "base/span.h"', "not a layer")
test_layers_example_is_a_stranger = layer_breach("examples/x.c", '#include "engine/gateway.h"')
test_layers_table_anywhere = layer_fine("src/wire/answer.c", '#include "tables/errors.def"')
test_layers_app_may_all = layer_fine("src/app/main.c", '#include "adapter/store_sqlite/store.h"')
test_layers_own_adapter = layer_fine("src/adapter/clock_os/c.c", '#include "adapter/clock_os/c.h"')


def test_layers_empty_tree_is_not_green(sample):
    expect(sample.tool("check-layers", "."), 1, "no source file")


# --- purity ---------------------------------------------------------------------------------------

def archive(sample, layer, code, *flags):
    sample.write(f"src/{layer}/x.c", code)
    sample.write(f"build/src/{layer}/.keep", "")
    expect(sample.run("gcc", "-O1", "-fPIC", "-c", *flags, f"src/{layer}/x.c", "-o", "x.o"), 0)
    expect(sample.run("ar", "rcs", f"build/src/{layer}/libhx_{layer}.a", "x.o"), 0)


def purity_case(layer, code, status, *parts):
    def case(sample):
        archive(sample, layer, code)
        expect(sample.tool("check-purity", "build", "."), status, *parts)
    return case


test_purity_accepts_pure_code = purity_case(
    "core", "#include <string.h>\nextern int hx_f(void);\n"
    "static const char *const names[] = {\"a\", \"b\"};\n"
    "int hx_g(int i) { return hx_f() + (int)strlen(names[i]); }\n", 0)
test_purity_sees_a_clock = purity_case(
    "core", "#include <time.h>\nlong hx_now(void) { return time(0); }\n", 1, "core", "uses time")
test_purity_sees_output = purity_case(
    "json", "#include <stdio.h>\nvoid hx_say(void) { puts(\"x\"); }\n", 1, "uses puts")
test_purity_sees_malloc = purity_case(
    "wire", "#include <stdlib.h>\nvoid *hx_m(void) { return malloc(3); }\n", 1, "uses malloc")
test_purity_sees_a_global = purity_case("core", "int hx_count = 3;\n", 1, "writable global hx_count")
test_purity_sees_a_hidden_global = purity_case(
    "core", "int hx_next(void) { static int last; return ++last; }\n", 1, "writable global last")
test_purity_sees_a_thread_local = purity_case(
    "wire", "_Thread_local int hx_depth;\n", 1, "writable global hx_depth")
test_purity_base_has_no_side_door = purity_case(
    "base", "#include <unistd.h>\nint hx_pid(void) { return getpid(); }\n", 1, "base", "uses getpid")


def test_purity_does_not_judge_instrumented_code(sample):
    archive(sample, "core", "int hx_f(int *p) { return *p; }\n", "-fsanitize=address")
    expect(sample.tool("check-purity", "build", "."), 77, "instrumented")


def test_purity_no_archive_is_not_green(sample):
    expect(sample.tool("check-purity", "build", "."), 1, "no archive")


def test_purity_misses_no_archive(sample):
    archive(sample, "core", "int hx_f(void) { return 1; }\n")
    sample.write("src/json/x.c", "int hx_g(void) { return 1; }\n")
    expect(sample.tool("check-purity", "build", "."), 1, "there is no build/src/json/libhx_json.a")


# --- style ----------------------------------------------------------------------------------------

def style_case(path, text, *parts):
    """Breaks one rule, and only that one."""
    def case(sample):
        sample.write(path, text)
        status, said = sample.tool("check-style", ".")
        expect((status, said), 1, path, *parts)
        assert len(said.splitlines()) == 1, f"expected one finding:\n{said}"
    return case


def style_fine(path, text):
    def case(sample):
        sample.write(path, text)
        expect(sample.tool("check-style", "."), 0)
    return case


def call(statement):
    return GOOD_C + "void f(void)\n{\n    " + statement + "\n}\n"


test_style_accepts_good_code = style_fine("src/core/a.c", call("hx_f();"))
test_style_wants_the_spdx_line = style_case("src/core/a.c", "/* What this is. */\n/* More. */\n", "SPDX")
test_style_wants_spdx_in_scripts = style_case("tools/x", "#!/bin/sh\necho\n", "SPDX")
test_style_wants_a_head_comment = style_case(
    "src/core/a.c", "/* SPDX-License-Identifier: MIT */\nint f;\n", "no head comment")
test_style_counts_lines = style_case("src/core/a.c", GOOD_C + "int a;\n" * 600, "lines;")
test_style_takes_an_excuse_for_length = style_fine(
    "src/core/a.c", GOOD_C + "/* style-ok: one table */\n" + "int a;\n" * 600)
test_style_counts_function_lines = style_case(
    "src/core/a.c", GOOD_C + "void f(void)\n{\n" + "    g();\n" * 90 + "}\n", "a function of")
test_style_counts_columns = style_case(
    "src/core/a.c", GOOD_C + "/* " + "x" * 100 + " */\n", "columns")
for _name in ("strcpy", "strcat", "sprintf", "strtok", "gets", "atoi", "alloca", "system", "gmtime",
              "localtime", "sleep", "nanosleep", "popen", "pipe", "accept", "dup"):
    globals()[f"test_style_bans_{_name}"] = style_case(
        "src/app/a.c", call(f"{_name}(x);"), f"{_name} is banned")
test_style_bans_sleep_in_tests = style_case("tests/unit/test_a.c", call("sleep(1);"), "sleep is banned")
test_style_reads_no_comment_as_code = style_fine(
    "src/app/a.c", call('say("system(1)"); /* not strcpy(a, b) */'))
test_style_members_are_not_functions = style_fine("src/app/a.c", call("loop->sleep(1);"))
test_style_takes_an_excuse = style_fine(
    "src/app/a.c", call("/* style-ok: the reader of this one is gone */\n    sleep(1);"))
test_style_memory_has_one_door = style_case("src/engine/a.c", call("free(x);"), "only base/alloc.c")
test_style_close_on_exec_open = style_case("src/app/a.c", call('f = open("x", O_RDONLY);'), "close-on-exec")
test_style_close_on_exec_socket = style_case("src/app/a.c", call("f = socket(AF_UNIX, SOCK_STREAM, 0);"),
                                             "close-on-exec")
test_style_sees_the_flag_on_the_next_line = style_fine(
    "src/app/a.c", call('f = open("x",\n             O_RDONLY | O_CLOEXEC);'))
test_style_no_struct_typedef = style_case("src/core/a.c", GOOD_C + "typedef struct a a_t;\n", "typedef")
test_style_no_machine_path = style_case("docs/a.md", "see /wo" "rk/x\n", "somebody's machine")
test_style_no_registry = style_case("docs/a.md", "from registry.npm" "js.org\n", "registry")
test_style_no_resolved_url = style_case(
    "tests/e2e/package-lock.json", '{\n  "reso' 'lved": "x"\n}\n', "registry")
test_style_no_trailing_blank = style_case("src/core/a.c", GOOD_C + "int a; \n", "blanks")


def test_style_empty_tree_is_not_green(sample):
    expect(sample.tool("check-style", "."), 1, "no file")


# --- documentation --------------------------------------------------------------------------------

def invariants(changed=None, last=26):
    rows = {n: f"| I{n} | text | none: sample | none: sample | none: sample |" for n in range(1, last + 1)}
    rows.update(changed or {})
    return "| | invariant | assertion | test | mutant |\n|---|---|---|---|---|\n" + \
        "\n".join(rows.values()) + "\n"


def docs_case(status, *parts, table=None, page="", source="", test="", mutants=""):
    def case(sample):
        sample.copy("dev")
        sample.write("docs/invariants.md", table or invariants())
        sample.write("README.md", page)
        sample.write("src/core/op.c", source)
        sample.write("tests/unit/test_op.c", test)
        sample.write("tests/mutants/core.mutants", mutants)
        expect(sample.tool("check-docs", "."), status, *parts)
    return case


test_docs_accepts_what_is_there = docs_case(
    0, table=invariants({3: "| I3 | text | `INV-3` | `retry_joins` | none: sample |"}),
    page="[a](docs/invariants.md) `src/core/` `tests/unit/test_op.c:retry_joins` `./dev test`\n",
    source="/* INV-3 */", test="static void retry_joins(void **state)")
test_docs_broken_link = docs_case(1, "docs/none.md", page="[a](docs/none.md)\n")
test_docs_missing_path = docs_case(1, "src/core/none.c", page="`src/core/none.c`\n")
test_docs_missing_name_in_file = docs_case(1, "does not say", page="`tests/unit/test_op.c:none`\n")
test_docs_unknown_command = docs_case(1, "no such command", page="`./dev dance`\n")
test_docs_missing_tag = docs_case(
    1, "INV-3 is nowhere", table=invariants({3: "| I3 | text | `INV-3` | none: sample | none: sample |"}))
test_docs_tag_is_a_whole_word = docs_case(
    1, "INV-3 is nowhere", table=invariants({3: "| I3 | text | `INV-3` | none: sample | none: sample |"}), source="/* INV-30 */")
test_docs_missing_test = docs_case(
    1, "the test never_written", table=invariants({3: "| I3 | text | none: sample | `never_written` | none: sample |"}))
test_docs_missing_mutant = docs_case(
    1, "the mutant never_written", table=invariants({3: "| I3 | text | none: sample | none: sample | `never_written` |"}))
test_docs_known_mutant = docs_case(
    0, table=invariants({3: "| I3 | text | none: sample | none: sample | `odd` |"}),
    mutants="mutant odd : I2 I3 : op\n")
test_docs_mutant_of_another = docs_case(
    1, "does not say that it breaks I3", mutants="mutant odd : I2 : op\n",
    table=invariants({3: "| I3 | text | none: sample | none: sample | `odd` |"}))
test_docs_dash = docs_case(
    1, "I3 names no test", table=invariants({3: "| I3 | text | none: sample | – | none: sample |"}))
test_docs_missing_row = docs_case(1, "I26 has no row", table=invariants(last=25))
test_docs_tag_without_a_row = docs_case(1, "INV-27", source="/* INV-27 */")


# --- the runner of tests --------------------------------------------------------------------------

def runner_case(programs, status, *parts, options=()):
    """`programs` are shell scripts by name; Meson is asked which there are, as for the real ones."""
    def case(sample):
        lines = ["project('x')"]
        for name, body in programs.items():
            sample.write(f"{name}.sh", "#!/bin/sh\n" + body, 0o755)
            more = ", suite: 'by-status'" if name.startswith("status") else ""
            lines.append(f"test('{name}', find_program('./{name}.sh'), timeout: 2{more})")
        sample.write("meson.build", "\n".join(lines) + "\n")
        expect(sample.run("meson", "setup", "build"), 0)
        expect(sample.tool("run-tests", "build", *options), status, *parts)
    return case


test_runner_counts_each_test = runner_case(
    {"a": "echo 1..2; echo 'ok 1 - x'; echo 'ok 2 - y'", "b": "echo '3 passed, 0 failed, 1 skipped'"},
    0, "5 passed, 0 failed, 1 skipped")
test_runner_runs_in_the_build_directory = runner_case(
    {"a": "test -f build.ninja && echo '1 passed, 0 failed'"}, 0, "1 passed, 0 failed")
test_runner_judges_by_status_when_told = runner_case(
    {"status_a": "exit 0", "status_b": "echo broken; exit 4"}, 1, "broken", "exit status 4",
    "1 passed, 1 failed")
test_runner_counts_two_groups = runner_case(
    {"a": "echo 1..1; echo 'ok 1 - x'; echo 1..1; echo 'ok 1 - x'"}, 0, "2 passed, 0 failed")
test_runner_reads_cmocka_skips = runner_case(
    {"a": "echo 1..2; echo 'ok 1 - x'; echo 'not ok 2 # SKIP y'"}, 0,
    "skipped: y", "1 passed, 0 failed, 1 skipped")
test_runner_names_what_a_counting_program_skips = runner_case(
    {"a": "echo 'skip: no such parser'; echo '1 passed, 0 failed, 1 skipped'"}, 0,
    "skipped: no such parser", "1 passed, 0 failed, 1 skipped")
test_runner_shows_what_failed = runner_case(
    {"a": "echo 1..2; echo 'ok 1 - x'; echo 'not ok 2 - broken_one'; echo '# 1 != 2'; exit 1"},
    1, "# 1 != 2", "not ok: broken_one", "1 passed, 1 failed")
test_runner_counts_a_crash = runner_case(
    {"a": "echo 1..3; echo 'ok 1 - x'; kill -SEGV $$"}, 1, "SIGSEGV", "never ran", "1 passed, 3 failed")
test_runner_counts_a_silent_program = runner_case({"a": "exit 0"}, 1, "no test", "0 passed, 1 failed")
test_runner_believes_the_status = runner_case(
    {"a": "echo 1..1; echo 'ok 1 - x'; exit 3"}, 1, "exit status 3", "1 passed, 1 failed")
test_runner_counts_a_hang = runner_case(
    {"a": "echo 1..1; exec sleep 60"}, 1, "not done after", "0 passed, 2 failed")
test_runner_counts_a_stray_process = runner_case(
    {"a": "setsid -f sleep 31 >/dev/null 2>&1; echo 1..1; echo 'ok 1 - x'"}, 1,
    "left a process behind: sleep 31", "1 passed, 1 failed")


def test_runner_counts_a_program_that_cannot_start(sample):
    sample.write("a.sh", "#!/none/sh\n", 0o755)
    sample.write("meson.build", "project('x')\ntest('a', find_program('./a.sh'))\n")
    expect(sample.run("meson", "setup", "build"), 0)
    expect(sample.tool("run-tests", "build"), 1, "cannot be started", "0 passed, 1 failed")


def remembering_case(body, change, then):
    """A program that says each time that it ran, twice, with a change in between."""
    def case(sample):
        sample.write("a.sh", "#!/bin/sh\necho >>ran\n" + body, 0o755)
        sample.write("tests/unit/data.txt", "1")
        sample.write("meson.build", "project('x')\ntest('a', find_program('./a.sh'))\n")
        expect(sample.run("meson", "setup", "build"), 0)
        run = ("run-tests", "build", "--unless-same", "passed.json")
        sample.tool(*run)
        change(sample)
        expect(sample.tool(*run), *then[1:])
        with open(os.path.join(sample.directory, "build", "ran"), encoding="utf-8") as file:
            if len(file.readlines()) != then[0]:
                raise AssertionError(f"it did not run {then[0]} times")
    return case


PASSES = "echo 1..1; echo 'ok 1 - x'\n"
test_runner_does_not_repeat_what_is_the_same = remembering_case(
    PASSES, lambda sample: None, (1, 0, "passed 1 tests as they are", "1 passed, 0 failed"))
test_runner_repeats_a_program_that_changed = remembering_case(
    PASSES, lambda sample: sample.write("a.sh", "#!/bin/sh\necho >>ran\nexit 1\n", 0o755),
    (2, 1, "0 passed, 1 failed"))
test_runner_repeats_when_data_changed = remembering_case(
    PASSES, lambda sample: sample.write("tests/unit/data.txt", "22"), (2, 0, "1 passed, 0 failed"))
test_runner_repeats_what_failed = remembering_case(
    "echo 1..1; echo 'not ok 1 - x'; exit 1\n", lambda sample: None, (2, 1, "0 passed, 1 failed"))
def test_runner_begins_nothing_that_would_end_late(sample):
    """What failed goes first, what takes too long is named and not run."""
    programs = {"slow": PASSES, "quick": PASSES, "bad": "echo 1..1; echo 'not ok 1 - x'; exit 1\n"}
    for name, body in programs.items():
        sample.write(f"{name}.sh", "#!/bin/sh\n" + body, 0o755)
    sample.write("tests/unit/data.txt", "1")
    sample.write("meson.build", "project('x')\n" + "".join(
        f"test('{name}', find_program('./{name}.sh'))\n" for name in programs))
    expect(sample.run("meson", "setup", "build"), 0)
    run = ("run-tests", "build", "--jobs", "1", "--unless-same", "passed.json")
    expect(sample.tool(*run), 1, "2 passed, 1 failed")
    sample.write("tests/unit/data.txt", "22")
    with open(os.path.join(sample.directory, "passed.json"), encoding="utf-8") as file:
        known = json.load(file)
    known["slow"]["took"], known["quick"]["took"], known["bad"]["took"] = 1000, 0, 1
    sample.write("passed.json", json.dumps(known))
    ended = sample.tool(*run, "--within", "60")
    said = ended[1]
    expect(ended, 1, "left   1 programs, not run in 60 s: slow", "1 passed, 1 failed")
    if said.index(" bad ") > said.index(" quick "):
        raise AssertionError("what failed last time is not first")
    expect(sample.tool(*run), 1, "same   1 programs", "ok     slow", "2 passed, 1 failed")
    expect(sample.tool("run-tests", "build", "--within", "60"), 2, "--within needs")


test_runner_no_program_is_not_green = runner_case({}, 1, "no test program", "0 passed, 1 failed")
test_runner_no_match_is_not_green = runner_case(
    {"a": "echo '1 passed, 0 failed'"}, 1, "no test program", options=("--match", "store"))


def test_mutants_that_change_nothing_are_found(sample):
    sample.copy("tests/mutants/run")
    sample.write("src/base/a.c", "int a;\n")
    sample.write("tests/mutants/x.mutants", "mutant odd : I2 : op\nin src/base/a.c\n< int b;\n> int c;\n")
    expect(sample.run("tests/mutants/run", "--check"), 1, "odd: src/base/a.c has its lines 0 times",
           "tests/unit/test_op.c is not there")


# --- ./dev ----------------------------------------------------------------------------------------

def dev_sample(sample, installed, user):
    """./dev in a tree of its own, with a dpkg-query, an id and an apt-get that answer as told."""
    sample.copy("dev", "tools/packages.txt")
    sample.write("bin/dpkg-query", f"""\
        #!/bin/sh
        for package; do :; done
        case " {' '.join(installed)} " in *" $package "*) printf installed ;; *) exit 1 ;; esac
        """, 0o755)
    sample.write("bin/id", f"#!/bin/sh\necho {user}\n", 0o755)
    sample.write("bin/apt-get", '#!/bin/sh\necho "apt-get $*"\nexit 100\n', 0o755)
    return {"PATH": sample.directory + "/bin:/usr/bin:/bin"}


def packages(sections):
    """Reads the list anew, so that ./dev is not its own witness."""
    import os
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    with open(os.path.join(root, "tools", "packages.txt"), encoding="ascii") as file:
        text = file.read()
    found = []
    for section in sections:
        body = re.search(rf"^\[{section}\]\n(.*?)(?=^\[|\Z)", text, re.M | re.S).group(1)
        found += [line.split() for line in body.splitlines() if line and not line.startswith("#")]
    return found


def test_dev_names_the_missing_packages(sample):
    all_of_them = [words[0] for words in packages(["build", "test"])]
    installed = [name for name in all_of_them if name not in ("meson", "libcmocka-dev")]
    env = dev_sample(sample, installed, user=1000)
    expect(sample.run("./dev", "test", env=env), 2, "missing: meson libcmocka-dev\n",
           "apt-get install --no-install-recommends meson libcmocka-dev\n")


def test_dev_demo_needs_only_the_build_part(sample):
    env = dev_sample(sample, [words[0] for words in packages(["build"]) if words[0] != "gcc"], user=1000)
    expect(sample.run("./dev", "demo", env=env), 2, "missing: gcc\n")


def test_dev_installs_when_root(sample):
    env = dev_sample(sample, [words[0] for words in packages(["build"]) if words[0] != "gcc"], user=0)
    expect(sample.run("./dev", "demo", env=env), 2, "apt-get update", "could not install: gcc")


def test_dev_takes_a_command_for_a_package(sample):
    names = [words[0] for words in packages(["build", "test"]) if words[0] not in ("meson", "npm")]
    env = dev_sample(sample, names, user=1000)
    sample.write("bin/npm", "#!/bin/sh\n", 0o755)
    expect(sample.run("./dev", "test", env=env), 2, "missing: meson\n")


def test_dev_refuses_an_unknown_command(sample):
    sample.copy("dev")
    expect(sample.run("./dev", "dance"), 2, "usage: ./dev")


def stage_case(body, status, last_line):
    """What ./dev makes of a stage; the functions are the real ones, cut out of the file."""
    def case(sample):
        sample.copy("dev")
        sample.write("stage.sh", """\
            set -euo pipefail
            eval "$(sed -n '/^# --- stages/,/^# The real MCP/p' dev)"
            """ + f"work() {{\n{body}\n}}\nstage work work\nfinish\n")
        outcome = sample.run("bash", "stage.sh")
        expect(outcome, status)
        assert outcome[1].splitlines()[-1] == last_line, outcome[1]
    return case


test_dev_adds_a_stage_up = stage_case("echo '3 passed, 0 failed, 2 skipped'", 0, "3 passed, 0 failed, 2 skipped")
test_dev_failed_stage_is_red = stage_case("echo '3 passed, 1 failed'; false", 1, "3 passed, 1 failed")
test_dev_stage_without_counts_is_red = stage_case("echo fine", 1, "0 passed, 1 failed")
test_dev_stage_that_ran_nothing_is_red = stage_case("echo '0 passed, 0 failed'", 1, "0 passed, 1 failed")
test_dev_stage_that_lies_is_red = stage_case("echo '3 passed, 0 failed'; exit 9", 1, "3 passed, 1 failed")
