# SPDX-License-Identifier: MIT
"""One process of a graph: the first of them is killed right after the tool returned.

killed_run.py CHECKPOINTS DURABILITY COMMAND...
"""

import asyncio
import os
import signal
import sys
from typing import TypedDict

from langchain_mcp_adapters.sessions import create_session
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph

from hapax_mcp.langchain import load_tools


class State(TypedDict):
    n: int


async def main() -> None:
    checkpoints, durability, command, *args = sys.argv[1:]
    is_first = not os.path.exists(checkpoints)
    connection = {"transport": "stdio", "command": command, "args": args}
    async with (
        AsyncSqliteSaver.from_conn_string(checkpoints) as saver,
        create_session(connection) as session,
    ):
        await session.initialize()
        charge = next(
            tool for tool in await load_tools(session, server_name="pay") if tool.name == "charge"
        )

        async def plan(state: State) -> State:
            return {"n": state["n"] + 1}

        async def act(state: State) -> State:
            await charge.ainvoke({"amount": 5})
            if is_first:
                os.kill(os.getpid(), signal.SIGKILL)
            return {"n": state["n"] + 1}

        builder = StateGraph(State)
        builder.add_node("plan", plan)
        builder.add_node("act", act)
        builder.add_edge(START, "plan")
        builder.add_edge("plan", "act")
        graph = builder.compile(checkpointer=saver)
        config = {"configurable": {"thread_id": "a"}}
        is_resumed = bool((await graph.aget_state(config)).next)
        question = None if is_resumed else {"n": 0}
        answer = await graph.ainvoke(question, config, durability=durability)
        print("resumed" if is_resumed else "begun anew", answer["n"])


asyncio.run(main())
