# SPDX-License-Identifier: MIT
"""Where a call stands in the program that makes it, and the key that follows from that.

In LangGraph a call stands in a task: thread, checkpoint namespace, checkpoint and task id are the
same when the node is re-run by a RetryPolicy, after an interrupt, and when a failed or killed run is
resumed from its checkpoint. Within the task one of these names the call, the first that there is:

1. `with call_id("invoice 17"):` around it: the program's own name;
2. the id of the model's tool call (ToolNode): part of the stored message, so the order in which
   parallel calls start does not matter, and a repeat by middleware keeps the key;
3. its ordinal among the task's calls of that tool, counted anew at each run of the node. This needs
   a node that makes its calls in the same order each time; calls that overlap and differ are warned
   of, since their order may change.
"""

import json
import threading
import warnings
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from .keys import step_key

# A few hundred bytes each. Forgetting one that is in use would restart its ordinals, so the bound is
# far above what one process has in flight.
RUNS_MAX = 65536
OPEN_MAX = 65536
GIVEN_MAX = 65536


class UnstableKeyWarning(UserWarning):
    """The key of this call may be another one when the step is run again."""


@dataclass(frozen=True)
class Place:
    """A run of a step. `ids` stay the same when the step is run again, `run` does not."""

    ids: tuple[str, ...]
    root: tuple[str, ...]
    run: tuple[Any, ...]
    thread: str | None
    # What the tasks that were planned together share. None of them is the repeat of another.
    checkpoint: str | None = None


_step: ContextVar[Place | None] = ContextVar("hapax_step", default=None)
_call_id: ContextVar[str | None] = ContextVar("hapax_call_id", default=None)


@contextmanager
def step(*ids: str) -> Iterator[None]:
    """The calls inside belong to the step of that name, for frameworks other than LangGraph."""
    place = Place(("step", *ids), ("step", *ids), ("step", object()), json.dumps(ids))
    token = _step.set(place)
    try:
        yield
    finally:
        _step.reset(token)


@contextmanager
def call_id(name: str) -> Iterator[None]:
    """Names the call inside. Unique in its outermost node, and the same when that is re-run."""
    token = _call_id.set(name)
    try:
        yield
    finally:
        _call_id.reset(token)


def langgraph_place(info: Any) -> Place:
    """From LangGraph's ExecutionInfo."""
    thread = "" if info.thread_id is None else str(info.thread_id)
    namespace = info.checkpoint_ns or ""
    return Place(
        ids=("langgraph", thread, namespace, info.checkpoint_id or "", info.task_id or ""),
        root=("langgraph", thread, namespace.split("|")[0]),
        run=(info.task_id, info.node_first_attempt_time, info.node_attempt),
        thread=thread or None,
        checkpoint=info.checkpoint_id or None,
    )


def current_place(runtime: object | None = None) -> Place | None:
    """The step this code runs in; None outside of any."""
    place = _step.get()
    if place is not None:
        return place
    info = getattr(runtime, "execution_info", None)
    if info is None:
        try:
            from langgraph.runtime import get_runtime

            info = get_runtime().execution_info
        except (ImportError, RuntimeError, KeyError, AttributeError):
            return None
    if info is None:
        return None
    place = langgraph_place(info)
    # "outer:id|1|inner:id": the second start of a nested graph by one run of the node that holds it.
    # That is what a retry of the outer node looks like, and the inner ids are new ones then.
    if any(part.isdigit() for part in info.checkpoint_ns.split("|")):
        warnings.warn(
            "A nested graph was started again by the node that holds it. LangGraph gives its tasks "
            "new ids, so calls made before are not recognised. Put the RetryPolicy on the inner "
            "node, or name the call: with hapax_mcp.steps.call_id(...).",
            UnstableKeyWarning,
            stacklevel=3,
        )
    return place


def signature(server: str, tool: str, arguments: dict[str, Any]) -> str:
    """Equal for equal calls, within this process."""
    return json.dumps([server, tool, arguments], sort_keys=True, default=repr)


@dataclass
class _Run:
    ordinals: dict[tuple[str, str], int] = field(default_factory=dict)
    in_flight: list[tuple[str, str, str]] = field(default_factory=list)


@dataclass
class _Open:
    """Whose an open key is: tasks of one checkpoint, the latest that it was sent from."""

    checkpoint: str | None
    tasks: set[tuple[str, ...]]


# The kind of step, its thread, the program's own name for the call, and the call.
_Slot = tuple[str, str | None, str | None, str]


class Keys:
    """Hands out the keys of one program's calls. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: OrderedDict[tuple[Any, ...], _Run] = OrderedDict()
        self._open: OrderedDict[_Slot, dict[str, _Open]] = OrderedDict()
        # By the key of the call's own place: the key that it was given, and its task.
        self._given: OrderedDict[str, tuple[str, tuple[str, ...]]] = OrderedDict()
        self._taken: Counter[str] = Counter()  # by calls that have not ended

    @contextmanager
    def call(
        self,
        place: Place,
        server: str,
        tool: str,
        arguments: dict[str, Any],
        tool_call_id: str | None = None,
    ) -> Iterator[str]:
        """The key of a call that lasts as long as the block."""
        equal = signature(server, tool, arguments)
        name = _call_id.get()
        if name is not None:
            key = step_key(*place.root, server, tool, "named", name)
            with self._given_to(place, equal, key) as given:
                yield given
            return
        if tool_call_id:
            key = step_key(*place.ids, server, tool, "tool_call", tool_call_id)
            with self._given_to(place, equal, key) as given:
                yield given
            return
        with self._lock:
            run = self._run_of(place)
            ordinal = run.ordinals.get((server, tool), 0)
            run.ordinals[server, tool] = ordinal + 1
            mine = (server, tool, equal)
            is_mixed = any(other[:2] == mine[:2] and other != mine for other in run.in_flight)
            run.in_flight.append(mine)
        try:
            if is_mixed:
                warnings.warn(
                    f"Different calls of {tool} overlap in one node. Their keys follow the order in "
                    "which they start; if that changes when the node is re-run, a call runs twice. "
                    "Name each call: with hapax_mcp.steps.call_id(...), or leave them to a ToolNode.",
                    UnstableKeyWarning,
                    stacklevel=4,
                )
            key = step_key(*place.ids, server, tool, "ordinal", str(ordinal))
            with self._given_to(place, equal, key) as given:
                yield given
        finally:
            with self._lock:
                run.in_flight.remove(mine)

    def note(
        self,
        place: Place,
        server: str,
        tool: str,
        arguments: dict[str, Any],
        key: str,
        *,
        is_open: bool,
    ) -> None:
        """Remembers a key whose outcome is not known, so that an equal call of this thread, such as
        a model's second try under a new tool call id, asks for that outcome and does not act.

        Only after a call has ended: two equal calls that leave together are two intents. So are two
        calls that the program names differently, and those of two tasks of one checkpoint.
        """
        if place.thread is None:
            return
        slot = self._slot(place, signature(server, tool, arguments))
        with self._lock:
            keys = self._open.pop(slot, {})
            if is_open:
                mine = keys.setdefault(key, _Open(place.checkpoint, set()))
                if mine.checkpoint != place.checkpoint:
                    mine.checkpoint, mine.tasks = place.checkpoint, set()
                mine.tasks.add(place.ids)
            else:
                keys.pop(key, None)
            if keys:
                self._open[slot] = keys
            while len(self._open) > OPEN_MAX:
                self._open.popitem(last=False)

    @contextmanager
    def _given_to(self, place: Place, equal: str, own: str) -> Iterator[str]:
        """The key that a call is sent under: the one it had before, else one that is open, that may
        be its own and that no other call has, else its own. Each open key is one intent, so two calls
        that leave together get two; and a call that is run again takes none that belongs to another.
        """
        if place.thread is None:
            yield own
            return
        with self._lock:
            keys = self._open.get(self._slot(place, equal), {})
            free = (
                other
                for other, mine in keys.items()
                if not self._taken[other] and not self._is_of_sibling(place, mine)
            )
            before, _ = self._given.pop(own, (None, ()))
            key = before or (own if own in keys else next(free, own))
            # Not what an earlier call of this task left open: when that is run again and has its
            # result, a call that still follows it is one of its own.
            if key == own or self._given.get(key, ("", ()))[1] != place.ids:
                self._given[own] = (key, place.ids)
            while len(self._given) > GIVEN_MAX:
                self._given.popitem(last=False)
            self._taken[key] += 1
        try:
            yield key
        finally:
            with self._lock:
                self._taken[key] -= 1
                if not self._taken[key]:
                    del self._taken[key]

    @staticmethod
    def _slot(place: Place, equal: str) -> _Slot:
        return place.ids[0], place.thread, _call_id.get(), equal

    @staticmethod
    def _is_of_sibling(place: Place, mine: _Open) -> bool:
        is_together = place.checkpoint is not None and place.checkpoint == mine.checkpoint
        return is_together and place.ids not in mine.tasks

    def _run_of(self, place: Place) -> _Run:
        run = self._runs.pop(place.run, None) or _Run()
        self._runs[place.run] = run
        while len(self._runs) > RUNS_MAX:
            self._runs.popitem(last=False)
        return run
