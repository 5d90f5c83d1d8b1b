# SPDX-License-Identifier: MIT
"""LangGraph and langchain-mcp-adapters as published, a real server that counts its effects, and the
built Hapax between them."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import unittest
import warnings
from datetime import timedelta
from typing import TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, create_react_agent
from langgraph.types import Command, RetryPolicy, Send, interrupt

from hapax_mcp import HapaxRefused
from hapax_mcp.langchain import HapaxInterceptor, UnstableKeyWarning, call_id, load_tools
from ways import Way

QUICK = RetryPolicy(initial_interval=0.01, jitter=False)
LATE = timedelta(seconds=2)


class State(TypedDict):
    n: int


def graph(node, policy=None, saver=None):
    builder = StateGraph(State)
    builder.add_node("act", node, retry_policy=policy)
    builder.add_edge(START, "act")
    return builder.compile(checkpointer=saver)


def failing(body, times):
    """A node that fails after its body, so many times."""
    runs = []

    async def node(state):
        runs.append(await body())
        if len(runs) <= times:
            raise ConnectionError("lost after the tool returned")
        return {"n": len(runs)}

    node.runs = runs
    return node


def named(tools, name="charge"):
    return next(tool for tool in tools if tool.name == name)


def thread(name):
    return {"configurable": {"thread_id": name}}


def ask(*calls):
    """What a model says that wants those calls: (id, arguments)."""
    calls = [{"name": "charge", "args": args, "id": i} for i, args in calls]
    return {"messages": [AIMessage("", tool_calls=calls)]}


class Scripted(BaseChatModel):
    """A model that says one message a turn, each with calls of those ids."""

    turns: list[list[str]]

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **options):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **options):
        calls = [(i, {"amount": 5}) for i in self.turns.pop(0)]
        return ChatResult(generations=[ChatGeneration(message=ask(*calls)["messages"][0])])


def said(state):
    content = state["messages"][-1].content
    return content if isinstance(content, str) else content[0]["text"]


class LangGraphTest(unittest.IsolatedAsyncioTestCase):
    def way(self, *options, **more):
        way = Way(*options, **more)
        self.addCleanup(way.close)
        return way

    # The proof ----------------------------------------------------------------------------------

    async def effects_of(self, way, get_tools):
        """The default RetryPolicy; the node fails twice, each time after the tool returned."""
        async with get_tools(way) as tools:
            charge = named(tools)
            node = failing(lambda: charge.ainvoke({"amount": 5}), 2)
            await graph(node, RetryPolicy()).ainvoke({"n": 0})
            self.assertEqual(len(node.runs), 3)
        return way.effects()

    async def test_one_table_of_ways(self):
        @contextlib.asynccontextmanager
        async def plain(way):
            async with way.session() as session:
                yield await load_mcp_tools(session)

        @contextlib.asynccontextmanager
        async def meta(way):
            async with way.session() as session:
                yield await load_tools(session, server_name="pay")

        @contextlib.asynccontextmanager
        async def argument(way):
            keys = HapaxInterceptor(argument="idempotency_key")
            client = MultiServerMCPClient({"pay": way.connection}, tool_interceptors=[keys])
            yield keys.prepare(await client.get_tools())

        keyed = ["--inject-key", "/idempotency_key"]
        rows = [("bare", self.way(bare=True), plain, 3)]
        for transport, program in (("stdio", "hapax run"), ("http", "hapax serve")):
            rows += [
                (f"{program}, {name}", self.way(*options, transport=transport), get, wanted)
                for name, options, get, wanted in (
                    ("no key, repeat: lost (default)", [], plain, 3),
                    ("no key, repeat: window", ["--repeat", "window"], plain, 1),
                    ("interceptor, key in _meta", [], meta, 1),
                    ("interceptor, key in an argument, a session for each call", keyed, argument, 1),
                )
            ]
        found = await asyncio.gather(*(self.effects_of(way, get) for _, way, get, _ in rows))
        for (name, _, _, wanted), effects in zip(rows, found, strict=True):
            print(f"effects python {name}: {effects}")
            self.assertEqual(effects, wanted, name)

    # Re-runs of other kinds ---------------------------------------------------------------------

    async def test_a_failed_run_resumed_from_its_checkpoint(self):
        way, saver = self.way(), InMemorySaver()
        async with way.session() as session:
            # A new interceptor for the second run, as in a new process.
            for run in range(2):
                charge = named(await load_tools(session, server_name="pay"))
                node = failing(lambda: charge.ainvoke({"amount": 5}), 1 if run == 0 else 0)
                try:
                    await graph(node, None, saver).ainvoke(
                        {"n": 0} if run == 0 else None, thread("a")
                    )
                except ConnectionError:
                    self.assertEqual(run, 0)
        self.assertEqual(way.effects(), 1)

    async def test_a_killed_process(self):
        # What no checkpoint remembers has no key that could be the same.
        for durability, wanted, word in (("sync", 1, "resumed"), ("exit", 2, "begun anew")):
            way = self.way()
            script = os.path.join(os.path.dirname(__file__), "killed_run.py")
            checkpoints = os.path.join(way.directory, "checkpoints")
            statuses, said_last = [], b""
            for _ in range(2):
                child = await asyncio.create_subprocess_exec(
                    sys.executable, script, checkpoints, durability, *way.argv,
                    stdout=asyncio.subprocess.PIPE,
                )  # fmt: skip
                said_last, _ = await child.communicate()
                statuses.append(child.returncode)
            self.assertEqual(statuses, [-signal.SIGKILL, 0])
            self.assertEqual(said_last.decode().split(" 2")[0], word)
            self.assertEqual(way.effects(), wanted, durability)

    async def test_an_interrupted_node(self):
        way = self.way()
        async with way.session() as session:
            charge = named(await load_tools(session, server_name="pay"))

            async def node(state):
                await charge.ainvoke({"amount": 5})
                interrupt("go on?")
                await charge.ainvoke({"amount": 5})
                return {"n": 1}

            app = graph(node, None, InMemorySaver())
            await app.ainvoke({"n": 0}, thread("a"))
            self.assertEqual(way.effects(), 1)
            await app.ainvoke(Command(resume=True), thread("a"))
        self.assertEqual(way.effects(), 2, "two equal calls of one node are two")

    async def test_an_old_checkpoint_run_again_on_purpose_acts_again(self):
        way = self.way()
        async with way.session() as session:
            charge = named(await load_tools(session, server_name="pay"))
            app = graph(failing(lambda: charge.ainvoke({"amount": 5}), 0), None, InMemorySaver())
            await app.ainvoke({"n": 0}, thread("a"))
            past = [
                one async for one in app.aget_state_history(thread("a")) if one.next == ("act",)
            ]
            await app.ainvoke(None, past[0].config)
        self.assertEqual(way.effects(), 2)

    async def test_another_thread_and_another_turn_act_again(self):
        way = self.way()
        async with way.session() as session:
            charge = named(await load_tools(session, server_name="pay"))
            app = graph(failing(lambda: charge.ainvoke({"amount": 5}), 0), None, InMemorySaver())
            for name in ("a", "b", "a"):
                await app.ainvoke({"n": 0}, thread(name))
        self.assertEqual(way.effects(), 3)

    async def test_a_nested_graph_started_again_is_warned_of_and_a_named_call_is_safe(self):
        for is_named, wanted in ((False, 3), (True, 1)):
            way = self.way()
            async with way.session() as session:
                charge = named(await load_tools(session, server_name="pay"))

                async def body(charge=charge, is_named=is_named):
                    if not is_named:
                        return await charge.ainvoke({"amount": 5})
                    with call_id("the fee"):
                        return await charge.ainvoke({"amount": 5})

                inner = graph(failing(body, 2))
                outer = graph(inner, QUICK, InMemorySaver())
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    await outer.ainvoke({"n": 0}, thread("a"))
                kinds = [one.category for one in caught]
                self.assertIn(UnstableKeyWarning, kinds)
            self.assertEqual(way.effects(), wanted)

    # ToolNode -----------------------------------------------------------------------------------

    async def test_parallel_calls_of_a_tool_node_run_again(self):
        way = self.way()
        async with way.session() as session:
            tools = ToolNode(await load_tools(session, server_name="pay"))
            runs = []

            async def node(state, config):
                calls = state["messages"][-1].tool_calls
                runs.append(1)
                # The order turns round; the ids of the model's calls do not care.
                turned = calls if len(runs) % 2 else calls[::-1]
                result = await tools.ainvoke(
                    {"messages": [AIMessage("", tool_calls=turned)]}, config
                )
                if len(runs) < 3:
                    raise ConnectionError("lost")
                return result

            builder = StateGraph(MessagesState)
            builder.add_node("tools", node, retry_policy=QUICK)
            builder.add_edge(START, "tools")
            app = builder.compile(checkpointer=InMemorySaver())
            question = ask(("c1", {"amount": 5}), ("c2", {"amount": 5}), ("c3", {"amount": 7}))
            answer = await app.ainvoke(question, thread("a"))
            receipts = {m.content[0]["text"] for m in answer["messages"] if m.type == "tool"}
        self.assertEqual(way.effects(), 3)
        self.assertEqual(len(receipts), 3)

    async def test_the_prebuilt_agent_its_tools_run_again(self):
        way, failed = self.way(), set()

        async def lost(request, handler):
            result = await handler(request)
            receipt = result.content[0].text
            if receipt not in failed:
                failed.add(receipt)
                raise ConnectionError("lost after the tool returned")
            return result

        async with way.session() as session:
            tools = await load_tools(session, server_name="pay", tool_interceptors=[lost])
            model = Scripted(turns=[["c1", "c2"], ["c3"], []])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it moved to another package, and is still the one
                agent = create_react_agent(model, tools, checkpointer=InMemorySaver())
            question, answer = {"messages": [("user", "charge five, twice, then once more")]}, None
            for _ in range(10):
                with contextlib.suppress(ConnectionError):
                    answer = await agent.ainvoke(question, thread("a"))
                    break
                question = None
        self.assertEqual(len(failed), 3)
        self.assertEqual(sum(one.type == "tool" for one in answer["messages"]), 3)
        self.assertEqual(way.effects(), 3)

    # What the model is told ---------------------------------------------------------------------

    async def kill_server(self, way):
        async with asyncio.timeout(30):
            while way.effects() == 0:
                await asyncio.sleep(0.01)
        os.kill(json.loads(way.lines()[0])["pid"], signal.SIGKILL)

    def tool_node_app(self, tools):
        builder = StateGraph(MessagesState)
        builder.add_node("tools", ToolNode(tools))
        builder.add_edge(START, "tools")
        return builder.compile(checkpointer=InMemorySaver())

    async def test_a_running_call_is_running_and_the_model_cannot_start_it_again(self):
        way = self.way("--join-wait", "50ms")
        async with (
            way.session() as session,
            way.session(read_timeout_seconds=timedelta(seconds=2)) as impatient,
        ):
            keys = HapaxInterceptor(wait_seconds=0.2)
            mine = {"server_name": "pay", "interceptor": keys}
            # It runs well past the bound of the impatient one, which is that of its handshake, too.
            slow = {"amount": 5, "sleep_ms": 8000}
            # The first answer is lost to a timeout, which is told as unknown, not as a failure.
            app = self.tool_node_app(await load_tools(impatient, **mine))
            first = said(await app.ainvoke(ask(("c1", slow)), thread("a")))
            self.assertTrue(first.startswith("Status: unknown."), first)
            # The model tries again: a new tool call, a new task; one operation.
            app = self.tool_node_app(await load_tools(session, **mine))
            second = said(await app.ainvoke(ask(("c2", slow)), thread("a")))
            self.assertTrue(second.startswith("Status: running."), second)
            patient = HapaxInterceptor(wait_seconds=20)
            patient._keys = keys._keys
            mine["interceptor"] = patient
            app = self.tool_node_app(await load_tools(session, **mine))
            third = said(await app.ainvoke(ask(("c3", slow)), thread("a")))
            self.assertTrue(third.startswith("charged, receipt"), third)
            self.assertEqual(way.effects(), 1)
            # That is settled; now the same words are a new wish.
            fourth = said(await app.ainvoke(ask(("c4", slow)), thread("a")))
            self.assertTrue(fourth.startswith("charged, receipt"), fourth)
        self.assertEqual(way.effects(), 2)

    async def test_an_unknown_outcome_is_unknown_and_stays_one_effect(self):
        way = self.way()
        async with way.session() as session:
            tools = await load_tools(
                session, server_name="pay", interceptor=HapaxInterceptor(wait_seconds=0)
            )
            app = self.tool_node_app(tools)
            slow = {"amount": 5, "sleep_ms": 60000}
            call = asyncio.create_task(app.ainvoke(ask(("c1", slow)), thread("a")))
            await self.kill_server(way)
            first = said(await call)
            self.assertTrue(first.startswith("Status: unknown."), first)
            self.assertIn("hapax ops resolve", first)
            second = said(await app.ainvoke(ask(("c2", slow)), thread("a")))
            self.assertTrue(second.startswith("Status: unknown."), second)
        self.assertEqual(way.effects(), 1)

    async def test_after_a_restart_a_fresh_key_for_what_is_unknown_can_be_refused(self):
        way = self.way("--fresh-key", "refuse")
        async with way.session() as session:
            said_so = []
            for name in ("c1", "c2"):
                # What the process remembers is gone with it.
                keys = HapaxInterceptor(wait_seconds=0)
                tools = await load_tools(session, server_name="pay", interceptor=keys)
                slow = {"amount": 5, "sleep_ms": 60000}
                app = self.tool_node_app(tools)
                call = asyncio.create_task(app.ainvoke(ask((name, slow)), thread("a")))
                if name == "c1":
                    await self.kill_server(way)
                said_so.append(said(await call))
        self.assertTrue(all(one.startswith("Status: ") for one in said_so), said_so)
        self.assertEqual(way.effects(), 1)

    async def test_a_call_that_a_person_must_approve(self):
        way = self.way("--approval", "always")
        async with way.session() as session:
            seen = []
            keys = HapaxInterceptor(on_answer=seen.append)
            tools = await load_tools(session, server_name="pay", interceptor=keys)
            app = self.tool_node_app(tools)
            first = said(await app.ainvoke(ask(("c1", {"amount": 5})), thread("a")))
            self.assertTrue(first.startswith("Status: waiting for a person's approval."), first)
            self.assertEqual(way.effects(), 0)
            await way.ops("approve", seen[0].id)
            second = said(await app.ainvoke(ask(("c2", {"amount": 5})), thread("a")))
            self.assertTrue(second.startswith("charged, receipt"), second)
        self.assertEqual(way.effects(), 1)

    async def test_two_equal_calls_that_are_open_are_asked_for_each(self):
        way = self.way("--approval", "always")
        async with way.session() as session:
            seen = []
            keys = HapaxInterceptor(on_answer=seen.append)
            tools = await load_tools(session, server_name="pay", interceptor=keys)
            app, charge = self.tool_node_app(tools), {"amount": 5}
            await app.ainvoke(ask(("c1", charge), ("c2", charge)), thread("a"))
            waiting = {one.id for one in seen}
            self.assertEqual(len(waiting), 2)
            for one in waiting:
                await way.ops("approve", one)
            answer = await app.ainvoke(ask(("c3", charge), ("c4", charge)), thread("a"))
            receipts = {m.content[0]["text"] for m in answer["messages"][-2:]}
            self.assertTrue(all(one.startswith("charged, receipt") for one in receipts), receipts)
            self.assertEqual(len(receipts), 2)
            # Both are settled; the same words are a new wish, which nobody has approved.
            fifth = said(await app.ainvoke(ask(("c5", charge)), thread("a")))
            self.assertTrue(fifth.startswith("Status: waiting for a person's approval."), fifth)
        self.assertEqual(way.effects(), 2)

    async def test_calls_with_names_of_their_own_are_asked_for_each(self):
        way, runs, approved = self.way("--approval", "always"), [], []
        async with way.session() as session:
            seen = {}
            keys = HapaxInterceptor(on_answer=lambda one: seen.setdefault(one.id, one))
            charge = named(await load_tools(session, server_name="pay", interceptor=keys))

            async def node(state):
                # The order turns round; the names do not care.
                numbers = (17, 18) if not runs else (18, 17)
                said_to = {}
                for number in numbers:
                    with call_id(f"invoice {number}"):
                        said_to[number] = (await charge.ainvoke({"amount": 5}))[0]["text"]
                runs.append(said_to)
                if len(runs) == 3:
                    return {"n": 1}
                if len(approved) < 2:
                    approved.append(list(seen)[len(approved)])
                    await way.ops("approve", approved[-1])
                raise ConnectionError("run again")

            app = graph(node, RetryPolicy(initial_interval=0.01, max_attempts=5), InMemorySaver())
            await app.ainvoke({"n": 0}, thread("a"))
        self.assertEqual(len(seen), 2, "one was asked for under the key of the other")
        self.assertTrue(runs[1][17].startswith("charged, receipt"), runs)
        self.assertTrue(runs[1][18].startswith("Status: waiting for a person"), runs)
        self.assertEqual(runs[2][17], runs[1][17])
        self.assertTrue(runs[2][18].startswith("charged, receipt"), runs)
        self.assertNotEqual(runs[2][17], runs[2][18])
        self.assertEqual(way.effects(), 2)

    async def test_tasks_that_were_planned_together_are_asked_for_each(self):
        way, seen = self.way("--approval", "always"), set()
        async with way.session() as session:
            keys = HapaxInterceptor(on_answer=lambda one: seen.add(one.id))
            charge = named(await load_tools(session, server_name="pay", interceptor=keys))

            async def node(state):
                await charge.ainvoke({"amount": 5})

            builder = StateGraph(State)
            builder.add_node("act", node)
            builder.add_conditional_edges(START, lambda _: [Send("act", {"n": n}) for n in (1, 2)])
            app = builder.compile(checkpointer=InMemorySaver())
            await app.ainvoke({"n": 0}, {**thread("a"), "max_concurrency": 1})
        self.assertEqual(len(seen), 2, "one was asked for under the key of the other")

    async def test_other_arguments_on_the_second_run_are_refused_and_not_retried(self):
        way = self.way()
        async with way.session() as session:
            charge = named(await load_tools(session, server_name="pay"))
            amounts = iter([5, 6, 7])
            node = failing(lambda: charge.ainvoke({"amount": next(amounts)}), 2)
            with self.assertRaises(HapaxRefused) as caught:
                await graph(node, QUICK).ainvoke({"n": 0})
        self.assertEqual(caught.exception.code, "KEY_CONFLICT")
        self.assertEqual(next(amounts), 7, "the conflict was repeated")
        self.assertEqual(way.effects(), 1)

    async def test_a_bare_server_that_is_late_is_not_sent_the_call_twice(self):
        way = self.way(bare=True)
        async with way.session(read_timeout_seconds=timedelta(seconds=2)) as session:
            charge = named(await load_tools(session, server_name="pay"))
            node = failing(lambda: charge.ainvoke({"amount": 5, "sleep_ms": 60000}), 0)
            await graph(node).ainvoke({"n": 0})
        self.assertTrue(node.runs[0][0]["text"].startswith("Status: unknown."), node.runs)
        self.assertEqual(way.effects(), 1)

    async def test_a_late_call_that_went_out_without_its_key_is_not_sent_twice(self):
        way, sent = self.way(transport="http"), []

        async def counted(request, handler):
            sent.append(request.args)
            return await handler(request)

        # No argument, and sessions that the adapters make: nothing carries the key.
        impatient = {**way.connection, "session_kwargs": {"read_timeout_seconds": LATE}}
        client = MultiServerMCPClient(
            {"pay": impatient}, tool_interceptors=[HapaxInterceptor(), counted]
        )
        charge = named(await client.get_tools())
        with self.assertWarns(UnstableKeyWarning):
            await graph(failing(lambda: charge.ainvoke({"amount": 5}), 0)).ainvoke({"n": 0})
        node = failing(lambda: charge.ainvoke({"amount": 6, "sleep_ms": 60000}), 0)
        with self.assertWarns(UnstableKeyWarning):
            await graph(node).ainvoke({"n": 0})
        self.assertTrue(node.runs[0][0]["text"].startswith("Status: unknown."), node.runs)
        self.assertEqual([one["amount"] for one in sent], [5, 6])
        self.assertEqual(way.effects(), 2)

    async def test_an_argument_that_was_not_prepared_sends_nothing(self):
        way = self.way("--inject-key", "/idempotency_key")
        keys = HapaxInterceptor(argument="idempotency_key")
        async with way.session() as session:
            charge = named(await load_mcp_tools(session, tool_interceptors=[keys]))
            with self.assertRaises(HapaxRefused):
                await graph(failing(lambda: charge.ainvoke({"amount": 5}), 0)).ainvoke({"n": 0})
        self.assertEqual(way.effects(), 0)


if __name__ == "__main__":
    unittest.main()
