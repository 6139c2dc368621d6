"""Strands Agents in a FastAPI server: `stream_async` in the response of each request, and a session a thread.

Source: strandsagents.com, the pages on async iterators (FastAPI), session management and interrupts, and the docstrings of
`SnapshotSessionManager` (recommended for new agents; `save_latest_on="message"` is its most durable setting), `Agent.cancel`
and `stream_async` (`idempotency_token`). A thread has one agent in this process, so that its own lock refuses a second
invocation.
"""

import json
import os
import time
from pathlib import Path

from effects import act
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import StreamingResponse
from strands import Agent, tool
from strands.hooks import BeforeToolCallEvent
from strands.models.openai import OpenAIModel
from strands.session import SnapshotSessionManager
from strands.storage import LocalFileStorage
from strands.types.exceptions import ConcurrencyException

NEXT = os.environ.get("TORTURE_RELEASE") == "next"  # noqa: TID251 - a program of a peer's environment
MODEL = os.environ["TORTURE_MODEL"]  # noqa: TID251 - as above
THROTTLED = Path("throttled")
app = FastAPI()
agents: dict[str, Agent] = {}
running: set[str] = set()


@tool
def look(word: str) -> str:
    """Look at a word."""
    return f"looked {word}"


@tool
def note(word: str) -> str:
    """Note a word."""
    act(word)
    return f"noted {word}"


@tool
def pay(word: str) -> str:
    """Pay for a word."""
    act(word)
    return f"paid {word}"


class Storage(LocalFileStorage):
    """Files, which refuse every access until the time that a file names."""

    async def write(self, key, data):
        self._check()
        await super().write(key, data)

    async def read(self, key):
        self._check()
        return await super().read(key)

    @staticmethod
    def _check():
        if THROTTLED.exists() and time.time() < float(THROTTLED.read_text()):
            raise OSError("the store is throttled")


def ask_person(event: BeforeToolCallEvent) -> None:
    """Let a person approve each payment."""
    if event.tool_use["name"] != "pay":
        return
    if event.interrupt("approval", reason=event.tool_use["input"]) != "approve":
        event.cancel_tool = "denied"


def agent_of(thread: str) -> Agent:
    """Return the thread's agent, restored from its session by a new process."""
    if thread not in agents:
        model = OpenAIModel(client_args={"base_url": f"{MODEL}/v1", "api_key": "none"}, model_id="scripted")
        agent = Agent(
            model=model,
            tools=[look, note, pay] if NEXT else [note, pay],
            system_prompt="You are a later release. You follow the commands of the user."
            if NEXT
            else "You follow the commands of the user.",
            callback_handler=None,
            session_manager=SnapshotSessionManager(
                thread, storage=Storage("sessions"), save_latest_on="message"
            ),
        )
        agent.add_hook(ask_person, BeforeToolCallEvent)
        agents[thread] = agent
    return agents[thread]


async def invoke(thread: str, prompt, token: str | None):
    """Start an invocation; return the response that streams it."""
    try:
        events = agent_of(thread).stream_async(prompt, idempotency_token=token)
        first = await anext(events)
    except (ConcurrencyException, OSError, RuntimeError, TypeError) as error:
        raise HTTPException(409 if isinstance(error, ConcurrencyException) else 503, str(error)) from error
    return StreamingResponse(stream(thread, events, first), media_type="text/event-stream")


async def stream(thread, events, event):
    """Yield an invocation's events; a client that disconnects ends the iteration, and with it the invocation."""
    running.add(thread)
    try:
        while True:
            if text := event.get("data"):
                yield line(kind="text", text=text)
            if result := event.get("result"):
                for one in result.interrupts or ():
                    yield line(kind="approval", call=one.id)
                yield line(kind="end", text=result.stop_reason)
            try:
                event = await anext(events)
            except StopAsyncIteration:
                return
    except Exception as error:  # noqa: BLE001 - the edge: the client is shown the error
        yield line(kind="end", text=f"error: {error}")
    finally:
        running.discard(thread)
        await events.aclose()


def line(**event) -> str:
    """Return a server-sent event."""
    return f"data: {json.dumps(event)}\n\n"


@app.get("/ok")
async def ok():
    return {}


@app.post("/threads/{thread}/messages")
async def send(thread: str, request: Request):
    body = await request.json()
    return await invoke(thread, body["text"], body["id"])


@app.post("/threads/{thread}/answers")
async def answer(thread: str, request: Request):
    body = await request.json()
    response = {"interruptId": body["call"], "response": "approve" if body["approve"] else "deny"}
    return await invoke(thread, [{"interruptResponse": response}], None)


@app.post("/threads/{thread}/stop")
async def stop(thread: str):
    if thread in running:
        agent_of(thread).cancel()
    return {}


@app.get("/threads/{thread}")
async def read(thread: str):
    try:
        agent = agent_of(thread)
    except OSError as error:
        raise HTTPException(503, str(error)) from error
    texts = (
        {"role": one["role"], "text": "".join(block.get("text", "") for block in one["content"])}
        for one in agent.messages
    )
    state = agent._interrupt_state  # noqa: SLF001 - an application reads it from the result that the killed process had
    pending = [one.id for one in state.interrupts.values() if one.response is None] if state.activated else []
    kind = "running" if thread in running else "waiting" if pending else "idle"
    return {"messages": [one for one in texts if one["text"]], "state": kind, "pending": pending}
