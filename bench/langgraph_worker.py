"""One resumed round of LangGraph with its SQLite checkpointer; runs in an environment of its own.

Reads a line `<channel> <blocks>` and answers with a line `{"cpu_ms": …, "bytes": …}`. A round is that of a
process without a cache: connect, load the thread, one model node and one tool node, persist. The graph pauses
before its model node, as ours does before Decide.
"""

from __future__ import annotations

import gc
import json
import shutil
import sqlite3
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import _messages_delta_reducer, add_messages

THREAD = {"configurable": {"thread_id": "bench"}}
TEXT = ("The figures of the last quarter rise by 7 % against the plan, mostly in the north. " * 7)[:500]
STORED = """
    SELECT (SELECT coalesce(sum(length(checkpoint) + length(metadata)), 0) FROM checkpoints)
         + (SELECT coalesce(sum(length(value)), 0) FROM writes)
"""


class Whole(TypedDict):
    """The default: each checkpoint holds all messages."""

    messages: Annotated[list[AnyMessage], add_messages]


class Delta(TypedDict):
    """The beta channel: a checkpoint holds the changes."""

    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]


def call(number: int, text: str, argument: str) -> AIMessage:
    """Return a message that asks for one tool call."""
    asked = {"name": "look", "args": {"query": argument}, "id": f"call_{number}"}
    return AIMessage(content=text, tool_calls=[asked], id=f"ai_{number}")


def look(state: dict[str, Any]) -> dict[str, Any]:
    """Answer the newest call."""
    asked = state["messages"][-1].tool_calls[0]
    return {"messages": [ToolMessage(content=TEXT, tool_call_id=asked["id"], id=f"tool_{asked['id']}")]}


def think(state: dict[str, Any]) -> dict[str, Any]:
    """The model node, with the instant model."""
    return {"messages": [call(len(state["messages"]), TEXT[:150], TEXT[:200])]}


def build(schema: type[Any]) -> Any:
    """Return the graph, paused before its model node."""
    graph = StateGraph(schema)
    graph.add_node("model", think)
    graph.add_node("tools", look)
    graph.add_edge(START, "model")
    graph.add_edge("model", "tools")
    graph.add_edge("tools", "model")
    return graph


def history(blocks: int) -> list[AnyMessage]:
    """Return as many messages as our blocks, in turns of prompt, followup, four calls and results, answer."""
    found: list[AnyMessage] = []
    while len(found) < blocks:
        n = len(found)
        found += [HumanMessage(TEXT, id=f"h_{n}"), HumanMessage(TEXT, id=f"f_{n}")]
        for at in range(4):
            number = n + 2 + 2 * at
            found.append(call(number, TEXT[:150], TEXT[:350]))
            found.append(ToolMessage(content=TEXT, tool_call_id=f"call_{number}", id=f"tool_call_{number}"))
        found.append(AIMessage(TEXT, id=f"a_{n}"))
    return found[:blocks]


class Peer:
    """One channel's graph, and its seeded databases by size."""

    def __init__(self, folder: Path, name: str, schema: type[Any]) -> None:
        self._folder = folder / name
        self._folder.mkdir()
        self._graph = build(schema)

    def sample(self, blocks: int) -> dict[str, float]:
        """Run one round on a fresh copy of the seeded thread."""
        seeded, copy = self._folder / f"{blocks}.db", self._folder / "run.db"
        if not seeded.exists():
            self._seed(seeded, blocks)
        shutil.copy(seeded, copy)
        before = stored(copy)
        compiled = self._graph.compile(interrupt_before=["model"])
        gc.collect()
        start = time.process_time()
        connection = sqlite3.connect(copy, check_same_thread=False)
        compiled.checkpointer = SqliteSaver(connection)
        compiled.invoke(None, THREAD, durability="sync")
        spent_ms = (time.process_time() - start) * 1000
        state = compiled.get_state(THREAD)
        if len(state.values["messages"]) != blocks + 2 or state.next != ("model",):
            raise SystemExit(f"not one round: {len(state.values['messages'])} messages, next {state.next}")
        connection.close()
        return {"cpu_ms": spent_ms, "bytes": stored(copy) - before}

    def _seed(self, path: Path, blocks: int) -> None:
        connection = sqlite3.connect(path, check_same_thread=False)
        compiled = self._graph.compile(checkpointer=SqliteSaver(connection), interrupt_before=["model"])
        compiled.update_state(THREAD, {"messages": history(blocks)}, as_node="tools")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()


def stored(path: Path) -> int:
    """Return the size of a database's checkpoints and writes in bytes."""
    connection = sqlite3.connect(path)
    found = connection.execute(STORED).fetchone()[0]
    connection.close()
    return int(found)


def main() -> None:
    """Answer requests until the input ends."""
    with tempfile.TemporaryDirectory() as folder:
        peers = {
            name: Peer(Path(folder), name, schema)
            for name, schema in {"whole": Whole, "delta": Delta}.items()
        }
        for line in sys.stdin:
            channel, blocks = line.split()
            print(json.dumps(peers[channel].sample(int(blocks))), flush=True)


if __name__ == "__main__":
    main()
