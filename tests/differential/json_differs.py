#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Our JSON against two that others wrote: Python's and JavaScript's.

    json_differs.py ORACLE [--inputs N] [--seed N]

The same texts go to our reader and to Python's (made as strict as RFC 8259 is): both must accept and
refuse the same. What both accept is put into canonical form by us and by a second implementation
below, which works on decimal.Decimal and on UTF-16 bytes. Numbers that JavaScript prints must come out
as it prints them; without node that part says so. Repeatable: the seed is fixed. The last line is
`N passed, N failed[, N skipped]`.
"""
import argparse
import decimal
import json
import random
import shutil
import struct
import subprocess
import sys

DEPTH_MAX = 128
EXPONENT_MAX = 10**15 - 1
DUPLICATE, LONE, RANGE = 1, 2, 3


class Refused(Exception):
    """Python's reader does not accept the text."""


class Number(str):
    """A number as it was written."""


def strict_load(data):
    """The value, objects as lists of pairs wrapped in a tuple, or Refused."""
    def constant(word):
        raise Refused(word)

    try:
        text = data.decode("utf-8")
        return json.loads(text, parse_int=Number, parse_float=Number, parse_constant=constant,
                          object_pairs_hook=lambda pairs: ("object", pairs))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise Refused(str(error)) from error


def depth(value):
    if isinstance(value, tuple):
        return 1 + max((depth(member) for _, member in value[1]), default=0)
    if isinstance(value, list):
        return 1 + max((depth(member) for member in value), default=0)
    return 0


class NotCanonical(Exception):
    """There is no canonical form; args[0] is our number for the reason."""


def canonical_string(text):
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise NotCanonical(LONE) from None
    short = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
    return '"' + "".join(short.get(c) or (f"\\u{ord(c):04x}" if c < " " else c) for c in text) + '"'


def canonical_number(text):
    """Digits and exponent by decimal.Decimal, laid out as ECMA-262 Number::toString says."""
    mantissa, _, exponent = text.lower().partition("e")
    sign, digits, power = decimal.Decimal(mantissa).as_tuple()
    power += int(exponent or "0")
    digits = "".join(map(str, digits)).lstrip("0")
    while digits.endswith("0"):
        digits, power = digits[:-1], power + 1
    if not digits:
        return "0"
    k, n = len(digits), len(digits) + power
    if abs(n - 1) > EXPONENT_MAX:
        raise NotCanonical(RANGE)
    if k <= n <= 21:
        body = digits + "0" * (n - k)
    elif 0 < n <= 21:
        body = digits[:n] + "." + digits[n:]
    elif -6 < n <= 0:
        body = "0." + "0" * -n + digits
    else:
        body = digits[0] + ("." + digits[1:] if k > 1 else "") + f"e{n - 1:+d}"
    return ("-" if sign else "") + body


def canonical(value):
    if isinstance(value, Number):
        return canonical_number(value)
    if isinstance(value, str):
        return canonical_string(value)
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, tuple):
        names = [name for name, _ in value[1]]
        if len(set(names)) != len(names):
            raise NotCanonical(DUPLICATE)
        pairs = sorted(value[1], key=lambda pair: pair[0].encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(canonical_string(n) + ":" + canonical(v) for n, v in pairs) + "}"
    return {None: "null", True: "true", False: "false"}[value]


# --- texts -----------------------------------------------------------------------------------------

CHARACTERS = ["a", "b", "", "\u00e9", "\u20ac", "\ufb33", "\uffff", "\U0001F602", "\U0010FFFF", "\x7f", "\x80",
              "\\n", "\\u0041", "\\/", "\\ud83d\\ude02", "\\u0000", "\\\"", "\\\\", "\\ud800", "\ud7ff", "0"]


def random_string(rng, lone):
    parts = [rng.choice(CHARACTERS) for _ in range(rng.randrange(6))]
    if not lone:
        parts = [part for part in parts if part != "\\ud800"]
    return '"' + "".join(parts) + '"'


def random_digits(rng):
    return "".join(rng.choice("0123456789") for _ in range(rng.choice([1, 1, 2, 5, 17, 22, 40])))


def random_number(rng):
    text = rng.choice(["", "-"]) + (random_digits(rng).lstrip("0") or "0")
    if rng.random() < 0.5:
        text += "." + random_digits(rng)
    if rng.random() < 0.5:
        text += rng.choice("eE") + rng.choice(["", "+", "-"]) + rng.choice(
            ["0", "1", "5", "7", "21", "00019", "300", "999999999", "999999999999999", "1000000000000000", "99999999999999999999"])
    return text


def random_text(rng, left, lone):
    space = rng.choice(["", "", "", " ", "\n\t"])
    kind = rng.random()
    if left == 0 or kind < 0.35:
        return space + rng.choice([random_number(rng), random_string(rng, lone), "true", "false", "null"])
    count = rng.choice([0, 1, 2, 3, 3, 20])
    values = [random_text(rng, left - 1, lone) for _ in range(count)]
    if kind < 0.6:
        return space + "[" + ",".join(values) + space + "]"
    return space + "{" + ",".join(random_string(rng, lone) + space + ":" + v for v in values) + "}"


def mutated(rng, data):
    data = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(data) + 1)
        what = rng.randrange(4)
        if what == 0:
            data[at:at] = bytes([rng.choice(b'{}[]",:\\u0123456789eE+-. \t\n\x00\x1f\x80\xc0\xed\xa0\xf4\xff')])
        elif what == 1:
            del data[at:at + rng.randrange(1, 4)]
        elif what == 2 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        else:
            data[at:at] = data[rng.randrange(len(data) + 1):][:rng.randrange(8)]
    return bytes(data)


def ask(oracle, texts):
    """Our verdicts: (read outcome, canonical outcome, canonical bytes)."""
    frames = b"".join(struct.pack(">I", len(text)) + text for text in texts)
    run = subprocess.run([oracle], input=frames, capture_output=True, check=False)
    lines = run.stdout.decode("ascii").splitlines()
    if run.returncode != 0 or len(lines) != len(texts):
        sys.exit(f"the oracle ended with {run.returncode} after {len(lines)} of {len(texts)} texts\n"
                 + run.stderr.decode("utf-8", "replace")[-4000:])
    verdicts = []
    for line in lines:
        read, canon, text = line.split(" ", 2)
        verdicts.append((int(read), int(canon), bytes.fromhex(text)))
    return verdicts


# --- tests -----------------------------------------------------------------------------------------

class Score:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def test(self, name, differences, note):
        """One test; `differences` are (text, ours, theirs)."""
        print(f"{'not ok' if differences else 'ok'}: {name} ({note})")
        for text, ours, theirs in differences[:10]:
            print(f"  text:   {text!r}\n  ours:   {ours!r}\n  theirs: {theirs!r}")
        self.passed += not differences
        self.failed += bool(differences)


def test_reading(score, oracle, rng, count):
    texts = []
    for _ in range(count):
        data = random_text(rng, rng.choice([1, 2, 3, 4]), True).encode("utf-8", "surrogatepass")
        texts.append(mutated(rng, data) if rng.random() < 0.8 else data)
    differences, accepted = [], 0
    for text, (read, _, _) in zip(texts, ask(oracle, texts)):
        try:
            is_accepted = depth(strict_load(text)) <= DEPTH_MAX
        except Refused:
            is_accepted = False
        accepted += is_accepted
        if is_accepted != (read == 0):
            differences.append((text, read, is_accepted))
    score.test("reader: what is accepted and refused", differences, f"{count} texts, {accepted} accepted")


def test_canonical(score, oracle, rng, count):
    texts = [random_text(rng, rng.choice([1, 2, 3, 4]), rng.random() < 0.2).encode("utf-8", "surrogatepass")
             for _ in range(count)]
    differences, refused = [], 0
    for text, (read, canon, ours) in zip(texts, ask(oracle, texts)):
        try:
            theirs = (0, 0, canonical(strict_load(text)).encode("utf-8"))
        except NotCanonical:
            # Texts with two reasons may name either.
            refused += 1
            if read != 0 or canon == 0:
                differences.append((text, (read, canon, ours), "refused"))
            continue
        if (read, canon, ours) != theirs:
            differences.append((text, (read, canon, ours), theirs))
    score.test("canonical form", differences, f"{count} texts, {refused} without one")


def test_numbers(score, oracle, rng, count):
    texts = [random_number(rng).encode() for _ in range(count)]
    for n in (2**53, 2**63, 2**64, 10**20, 10**21, 10**22):
        texts += [str(n + d).encode() for d in range(-3, 4)]
    differences, values = [], set()
    for text, (read, canon, ours) in zip(texts, ask(oracle, texts)):
        try:
            theirs = (0, 0, canonical_number(text.decode()).encode())
        except NotCanonical as error:
            theirs = (0, error.args[0], b"")
        if (read, canon, ours) != theirs:
            differences.append((text, (read, canon, ours), theirs))
        values.add(ours)
    score.test("numbers by exact value", differences, f"{len(texts)} numbers, {len(values)} values")


def test_doubles(score, oracle, rng, count):
    node = shutil.which("node")
    if node is None:
        print("skip: doubles as JavaScript prints them (there is no node)")
        score.skipped += 1
        return
    doubles = []
    while len(doubles) < count:
        bits = rng.getrandbits(64)
        if rng.random() < 0.5:  # the range that people use
            bits = struct.unpack(">Q", struct.pack(">d", rng.uniform(-1, 1) * 10 ** rng.randrange(-12, 25)))[0]
        value = struct.unpack(">d", struct.pack(">Q", bits))[0]
        if value == value and abs(value) != float("inf"):
            doubles.append(value)
    program = ("const b=require('fs').readFileSync(0);const o=[];"
               "for(let i=0;i<b.length;i+=8)o.push(JSON.stringify(b.readDoubleBE(i)));"
               "process.stdout.write(o.join('\\n'))")
    packed = b"".join(struct.pack(">d", value) for value in doubles)
    printed = subprocess.run([node, "-e", program], input=packed, capture_output=True, check=True).stdout.split(b"\n")
    texts = [repr(value).encode() for value in doubles]
    differences = [(text, ours, theirs) for text, (_, _, ours), theirs in zip(texts, ask(oracle, texts), printed)
                   if ours != theirs]
    differences += [(theirs, ours, theirs) for (_, _, ours), theirs in zip(ask(oracle, printed), printed)
                    if ours != theirs]
    score.test("doubles as JavaScript prints them", differences, f"{count} doubles")


def test_whole_texts(score, oracle, rng, count):
    """RFC 8785 by JavaScript: sorted keys and JSON.stringify, for values whose numbers are doubles."""
    node = shutil.which("node")
    if node is None:
        print("skip: canonical form by JavaScript (there is no node)")
        score.skipped += 1
        return
    texts = []
    while len(texts) < count:
        text = random_text(rng, 3, False).encode("utf-8", "surrogatepass")
        try:
            value = strict_load(text)
            canonical(value)
        except (Refused, NotCanonical):
            continue
        texts.append(text)
    program = (
        "const n=s=>{const j=JSON.stringify(Number(s));return j};"
        "const c=v=>v===null||typeof v!=='object'?JSON.stringify(v):Array.isArray(v)?'['+v.map(c).join(',')+']'"
        ":'{'+Object.keys(v).sort().map(k=>JSON.stringify(k)+':'+c(v[k])).join(',')+'}';"
        "const t=JSON.parse(require('fs').readFileSync(0,'utf8'));"
        "process.stdout.write(JSON.stringify(t.map(x=>c(JSON.parse(x)))))")
    # Numbers that a double does not hold exactly would differ by design: integers below 2^53 instead.
    def tame(value):
        if isinstance(value, Number):
            return str(len(value))
        if isinstance(value, str):
            return json.dumps(value)
        if isinstance(value, list):
            return "[" + ",".join(map(tame, value)) + "]"
        if isinstance(value, tuple):
            return "{" + ",".join(json.dumps(n) + ":" + tame(v) for n, v in value[1]) + "}"
        return json.dumps(value)

    tamed = [tame(strict_load(text)) for text in texts]
    run = subprocess.run([node, "-e", program], input=json.dumps(tamed).encode(), capture_output=True, check=True)
    theirs = [text.encode("utf-8") for text in json.loads(run.stdout)]
    verdicts = ask(oracle, [text.encode("utf-8") for text in tamed])
    differences = [(text, ours, other) for text, (_, _, ours), other in zip(tamed, verdicts, theirs) if ours != other]
    score.test("canonical form by JavaScript", differences, f"{count} texts")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("oracle")
    parser.add_argument("--inputs", type=int, default=8000, help="texts for the reader (8000)")
    parser.add_argument("--seed", type=int, default=8785)
    options = parser.parse_args()
    score = Score()
    for test, share in ((test_reading, 1), (test_canonical, 5), (test_numbers, 4), (test_doubles, 2),
                        (test_whole_texts, 10)):
        test(score, options.oracle, random.Random(options.seed), options.inputs // share)
    skipped = f", {score.skipped} skipped" if score.skipped else ""
    print(f"{score.passed} passed, {score.failed} failed{skipped}")
    return 1 if score.failed else 0


if __name__ == "__main__":
    sys.exit(main())
