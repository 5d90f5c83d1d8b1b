# SPDX-License-Identifier: MIT
"""Keys: the shared vectors, and what the order and the number of calls do to them."""

import asyncio
import contextlib
import json
import os
import re
import unittest
import warnings

from hapax_mcp import step_key
from hapax_mcp.steps import (
    Keys,
    Place,
    UnstableKeyWarning,
    call_id,
    current_place,
    langgraph_place,
    step,
)

VECTORS = os.path.join(os.path.dirname(__file__), "..", "..", "vectors.json")


class Info:
    def __init__(self, **values):
        self.__dict__.update(values)


def place(run=0, thread="t", task="k", checkpoint=None):
    checkpoint = checkpoint or f"before {task}"
    ids = ("langgraph", thread, f"n:{task}", checkpoint, task)
    return Place(ids, ids[:3], (task, run), thread, checkpoint)


class KeyTest(unittest.TestCase):
    def test_vectors(self):
        with open(VECTORS, encoding="utf-8") as file:
            vectors = json.load(file)
        for one in vectors["step_key"]:
            self.assertEqual(step_key(*one["fields"]), one["key"], one["fields"])
        for one in vectors["langgraph"]:
            info = Info(
                thread_id=one["thread_id"],
                checkpoint_ns=one["checkpoint_ns"],
                checkpoint_id=one["checkpoint_id"],
                task_id=one["task_id"],
                node_attempt=1,
                node_first_attempt_time=0,
            )
            keys = Keys()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for key in one["keys"]:
                    with keys.call(
                        langgraph_place(info), one["server"], one["tool"], {}, one["tool_call_id"]
                    ) as got:
                        self.assertEqual(got, key, one)
                with call_id(one["call_id"]):
                    with keys.call(langgraph_place(info), one["server"], one["tool"], {}) as got:
                        self.assertEqual(got, one["named_key"], one)
        keys = [one["key"] for one in vectors["step_key"]]
        self.assertEqual(len(keys), len(set(keys)), "two vectors with one key")

    def test_keys_satisfy_the_rules_of_hapax(self):
        self.assertRegex(step_key("x"), re.compile(r"\Ahx1-[0-9a-f]{64}\Z"))

    def test_what_is_no_id_is_refused(self):
        with self.assertRaises(ValueError):
            step_key()
        with self.assertRaises(TypeError):
            step_key("a", 1)
        with self.assertRaises(UnicodeEncodeError):
            step_key("\ud800")

    def call(self, keys, where, args=None, tool_call_id=None, tool="charge"):
        with keys.call(where, "pay", tool, args or {}, tool_call_id) as key:
            return key

    def test_ordinals_begin_anew_with_each_run_of_the_node(self):
        keys = Keys()
        first = [self.call(keys, place(run=1)) for _ in range(2)]
        again = [self.call(keys, place(run=2)) for _ in range(2)]
        self.assertEqual(first, again)
        self.assertNotEqual(first[0], first[1])

    def test_ordinals_count_by_tool(self):
        keys = Keys()
        alone = self.call(Keys(), place(), tool="b")
        self.call(keys, place(), tool="a")
        self.assertEqual(self.call(keys, place(), tool="b"), alone)

    def test_a_tool_call_id_does_not_depend_on_the_order(self):
        keys = Keys()
        one, two = (self.call(keys, place(1), tool_call_id=i) for i in ("c1", "c2"))
        two_again, one_again = (self.call(keys, place(2), tool_call_id=i) for i in ("c2", "c1"))
        self.assertEqual([one, two], [one_again, two_again])

    def test_overlapping_different_calls_are_warned_of(self):
        keys = Keys()
        with keys.call(place(), "pay", "charge", {"amount": 1}):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                self.call(keys, place(), {"amount": 1})  # equal: their keys may be exchanged
                self.assertEqual([str(one.message) for one in caught], [])
            with self.assertWarns(UnstableKeyWarning):
                self.call(keys, place(), {"amount": 2})

    def test_an_equal_call_under_a_new_id_asks_for_what_is_open(self):
        keys = Keys()
        args = {"amount": 1}
        key = self.call(keys, place(1), args, "c1")
        keys.note(place(1), "pay", "charge", args, key, is_open=True)
        self.assertEqual(self.call(keys, place(2, task="later"), args, "c2"), key)
        self.assertNotEqual(self.call(keys, place(2, task="later"), {"amount": 2}, "c3"), key)
        self.assertNotEqual(self.call(keys, place(3, thread="other"), args, "c2"), key)
        keys.note(place(1), "pay", "charge", args, key, is_open=False)
        self.assertNotEqual(self.call(keys, place(2, task="later"), args, "c4"), key)

    def test_two_open_equal_calls_keep_their_own_keys(self):
        keys = Keys()
        first = [self.call(keys, place(1)) for _ in range(2)]
        for key in first:
            keys.note(place(1), "pay", "charge", {}, key, is_open=True)
        self.assertEqual([self.call(keys, place(2)) for _ in range(2)], first)

    def open_calls(self, keys, *ids):
        """The keys of equal calls that leave together, and whose outcomes are not known."""
        held = [self.call(keys, place(1), {}, i) for i in ids]
        for key in held:
            keys.note(place(1), "pay", "charge", {}, key, is_open=True)
        return held

    def test_an_open_key_is_given_to_one_call_at_a_time(self):
        keys, where = Keys(), place(2, task="later")
        one, two = self.open_calls(keys, "c1", "c2")
        with contextlib.ExitStack() as together:
            got = [
                together.enter_context(keys.call(where, "pay", "charge", {}, i))
                for i in ("c3", "c4", "c5")
            ]
            self.assertEqual(got[:2], [one, two])
            self.assertEqual(got[2], self.call(Keys(), where, {}, "c5"), "a third one is new")
            for key in got:
                keys.note(where, "pay", "charge", {}, key, is_open=False)
        own = self.call(Keys(), where, {}, "c6")
        self.assertEqual(self.call(keys, where, {}, "c6"), own, "a settled key was kept")

    def test_a_call_that_fails_before_its_outcome_is_noted_gives_the_key_back(self):
        for error in (ValueError, asyncio.CancelledError):
            keys, where = Keys(), place(2, task="later")
            (one,) = self.open_calls(keys, "c1")
            with self.assertRaises(error), keys.call(where, "pay", "charge", {}, "c3") as key:
                self.assertEqual(key, one)
                raise error
            self.assertEqual(self.call(keys, where, {}, "c4"), one)

    def test_a_call_run_again_keeps_the_key_that_it_was_sent_under(self):
        keys, where = Keys(), place(2, task="later")
        one, two = self.open_calls(keys, "c1", "c2")
        with (
            keys.call(where, "pay", "charge", {}, "c3") as third,
            keys.call(where, "pay", "charge", {}, "c4") as fourth,
        ):
            self.assertEqual([third, fourth], [one, two])
            keys.note(where, "pay", "charge", {}, one, is_open=False)
        # Were it given the one that is still open, the other one would have none, and act.
        again = [self.call(keys, place(3, task="later"), {}, i) for i in ("c3", "c4")]
        self.assertEqual(again, [one, two])
        # The call that has its result keeps that, too.
        self.assertEqual(self.call(keys, place(3), {}, "c1"), one)

    def test_a_call_that_follows_an_open_one_of_its_node_is_its_own_when_that_is_settled(self):
        keys = Keys()

        def one_of(run, *, is_open):
            key = self.call(keys, place(run))
            keys.note(place(run), "pay", "charge", {}, key, is_open=is_open)
            return key

        first = [one_of(1, is_open=True) for _ in range(2)]
        self.assertEqual(first[0], first[1])
        again = [one_of(2, is_open=False) for _ in range(2)]
        self.assertEqual(again[0], first[0])
        self.assertNotEqual(again[1], first[0])

    def note_open(self, keys, where, *args, **more):
        key = self.call(keys, where, *args, **more)
        keys.note(where, "pay", "charge", {}, key, is_open=True)
        return key

    def test_what_the_program_names_differently_shares_no_key(self):
        keys = Keys()
        with call_id("invoice 17"):
            first = self.note_open(keys, place(1))
        with call_id("invoice 18"):
            second = self.note_open(keys, place(1))
        self.assertNotEqual(first, second)
        unnamed = [self.note_open(keys, place(1)), self.note_open(keys, place(1), None, "c1")]
        self.assertNotIn(first, unnamed)
        self.assertNotIn(second, unnamed)
        # Nor is an open one of no name taken by a call that has one.
        with call_id("invoice 19"):
            own = self.call(Keys(), place(1))
            self.assertEqual(self.note_open(keys, place(1)), own)
        # Run again, and in a later turn, each is its own.
        for task in ("k", "later"):
            for name, key in (("invoice 18", second), ("invoice 17", first)):
                with call_id(name):
                    self.assertEqual(self.call(keys, place(2, task=task)), key, task)

    def test_tasks_of_one_checkpoint_share_no_key(self):
        keys = Keys()
        together = [place(1, task=name, checkpoint="c") for name in ("one", "two")]
        for tool_call_id in (None, "c1"):
            one, two = (self.note_open(keys, where, None, tool_call_id) for where in together)
            self.assertNotEqual(one, two)
            again = [place(2, task=name, checkpoint="c") for name in ("one", "two")]
            got = [self.call(keys, where, None, tool_call_id) for where in reversed(again)]
            self.assertEqual(got, [two, one])
            for where, key in zip(together, (one, two), strict=True):
                keys.note(where, "pay", "charge", {}, key, is_open=False)

    def test_an_open_key_that_was_taken_over_is_the_taker_s_among_its_siblings(self):
        keys = Keys()
        first = self.note_open(keys, place(1), None, "c1")
        two, three = (place(2, task=name, checkpoint="later") for name in ("two", "three"))
        self.assertEqual(self.note_open(keys, two, None, "c2"), first)
        self.assertNotEqual(self.note_open(keys, three, None, "c3"), first)

    def test_a_step_and_a_thread_of_one_name_share_no_key(self):
        keys = Keys()
        with step("a"):
            stepped = self.note_open(keys, current_place())
        with step("a\0b"):
            self.note_open(keys, current_place())
            own = self.call(Keys(), current_place())
        with step("a", "b"):
            self.assertNotEqual(self.call(keys, current_place()), own)
        for thread in ("a", '["a"]'):
            self.assertNotEqual(self.call(keys, place(1, thread=thread)), stepped)

    def test_a_step_of_another_framework(self):
        def run():
            with step("flow", "run 7", "step 3"):
                return [self.call(keys, current_place()) for _ in range(2)]

        keys = Keys()
        first, again = run(), run()
        self.assertEqual(first, again)
        self.assertEqual(
            first[0], step_key("step", "flow", "run 7", "step 3", "pay", "charge", "ordinal", "0")
        )


if __name__ == "__main__":
    unittest.main()
