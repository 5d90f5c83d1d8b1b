# SPDX-License-Identifier: MIT
"""What model/run, model/mutants and model/compare share: one file of the parts, and the words of the
core, made for Spin."""
import os
import re
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
INCLUDE = re.compile(r'^#include "(\w+\.pml)"')
MEMORY_MB = 1500
TIME_LIMIT_S = 300


class Broken(Exception):
    """Something that is no verdict about the model."""


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def limits():
    """The names of limits.pml that a world may set."""
    return re.findall(r"^#ifndef (\w+)", read(os.path.join(HERE, "limits.pml")), re.M)


def classes():
    """The values of limits.pml that have a name."""
    return dict(re.findall(r"^#define (\w+) (\d+)$", read(os.path.join(HERE, "limits.pml")), re.M))


def words(reads_limits):
    """Numbers for the core's words, and its table of moves, from src/core/op.def. With
    `reads_limits` the verifier reads the limits of its world when it starts, so that one serves all
    worlds; without, they are constants, as Spin itself needs them."""
    text = read(os.path.join(ROOT, "src/core/op.def"))

    def rows(kind):
        return re.findall(rf"^HX_OP_{kind}\((\w+)(?:, (\w+))?", text, re.M)

    lines = []
    for kind, prefix in (("STATE", ""), ("PHASE", ""), ("EVENT", ""), ("ANSWER", "SAY_")):
        for number, (name, _) in enumerate(rows(kind)):
            if kind == "EVENT":
                number += 1  # 0 is "no event"
                name = "RETENTION_DUE" if name == "RETENTION" else name
            lines.append(f"#define {prefix}{name} {number}")
    moves = " || \\\n    ".join(f"((from) == {a} && (to) == {b})" for a, b in rows("MOVE"))
    lines.append(f"#define MAY_MOVE(from, to) ({moves})")
    lines.append("#define MAY_BECOME(from, to) ((from) == (to) || MAY_MOVE(from, to))")
    read_one = []
    for name in limits() if reads_limits else ():
        lines += [f"hidden byte limit_{name};", f"#define {name} limit_{name}"]
        read_one.append(f'limit_{name} = limit("{name}");')
    if reads_limits:
        lines.append('c_decl { \\#include "limit.h" }')
        read_one.append("keep_taken();")
    lines.append("#define read_limits() " + ("c_code { " + " ".join(read_one) + " };" if read_one
                                             else ""))
    return "\n".join(lines) + "\n"


def parts():
    """{name: text} of every part, in the order in which they are included."""
    found = {}
    for line in read(os.path.join(HERE, "hapax.pml")).splitlines():
        include = INCLUDE.match(line)
        if include and include[1] != "words.pml":
            found[include[1]] = read(os.path.join(HERE, include[1]))
    return found


def assemble(texts, reads_limits=True):
    """The model as one text, and for each of its lines the part and line it comes from. In one file
    Spin's line numbers are not mistaken for those of another."""
    lines, origin = [], []
    for name, text in [("words.pml", words(reads_limits)), *texts.items()]:
        for number, line in enumerate(text.splitlines(), 1):
            lines.append(line)
            origin.append((name, number))
    return "\n".join(lines) + "\n", origin


def run(command, where, limit=TIME_LIMIT_S, env=None):
    try:
        done = subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=limit,
                              stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})})
    except subprocess.TimeoutExpired:
        raise Broken(f"{command[0]} did not end in {limit} s") from None
    return done.returncode, done.stdout + done.stderr


def compiler():
    """clang takes half the time of gcc for Spin's C, which is one function of thousands of lines."""
    return os.environ.get("CC") or ("clang" if shutil.which("clang") else "gcc")


def build(where, text, options, flags, program="pan"):
    """Makes a verifier in the directory. -O0: on Spin's C the optimiser spends more time than it
    saves."""
    with open(os.path.join(where, "model.pml"), "w", encoding="utf-8") as file:
        file.write(text)
    status, said = run(["spin", "-a", *("-D" + option for option in options), "model.pml"], where)
    if status != 0 or "rror" in said:
        raise Broken("spin: " + said[:2000])
    # Spin means the counts to be those of statements; here they are wanted of whole steps.
    pan = os.path.join(where, "pan.c")
    generated = read(pan)
    with open(pan, "w", encoding="utf-8") as file:
        file.write(generated.replace("#error to use -DPEG use: spin -o3 -a", ""))
    status, said = run([compiler(), "-O0", "-w", "-DNOREDUCE",
                        f"-DMEMLIM={MEMORY_MB}", *flags, "-I", HERE, "-o", program, "pan.c"], where)
    if status != 0:
        raise Broken(f"{compiler()}: " + said[:2000])


def verify(where, world, arguments=(), program="./pan"):
    """(number of errors, states, output)"""
    files = {"TABLE_FILE": "decisions", "TAKEN_FILE": "taken"}
    _, said = run([program, "-m100000", "-w22", *arguments], where, env={**world.limits, **files})
    errors = re.search(r"errors: (\d+)", said)
    states = re.search(r"(\d+) states, stored", said)
    if not errors or not states or "max search depth too small" in said or "out of memory" in said \
            or "Search not completed" in said and errors[1] == "0":
        raise Broken("pan: " + said[:2000])
    return int(errors[1]), int(states[1]), said


def story(where, options):
    """The steps to an error, as printed by the model itself."""
    build(where, assemble(parts(), reads_limits=False)[0], [*options, "STORY"],
          ["-DSAFETY", "-DREACH"], "pan-story")
    run(["./pan-story", "-i", "-m3000", "-w22"], where)
    _, said = run(["spin", *("-D" + o for o in [*options, "STORY"]), "-t", "model.pml"], where)
    return "".join(line.strip() + "\n" for line in said.splitlines()
                   if "row 0:" in line or "event" in line)


class World:
    def __init__(self, line):
        name, *options, self.expected = line.split()
        self.name, self.options = name, options
        values = dict(option.split("=") for option in options)
        unknown = sorted(set(values) - set(limits()))
        if unknown:
            raise Broken(f"worlds.txt: {name} sets {' '.join(unknown)}, which limits.pml has not")
        self.limits = {limit: classes().get(values.get(limit), values.get(limit, "0"))
                       for limit in limits()}

    @staticmethod
    def all():
        lines = read(os.path.join(HERE, "worlds.txt")).splitlines()
        return [World(line) for line in lines if line.strip() and not line.startswith("#")]
