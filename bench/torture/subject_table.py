"""The subjects of the matrix. A further one is a row, and a module of `subjects`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Final, cast

from bench.torture.subject import Place, Subject


@dataclass(frozen=True, kw_only=True)
class SubjectKind:
    """A subject: its name and title, the sentence about its settings, and its module.

    `settings` says how it is run and which durability is on, by its documentation. The module has `open_subject(place)`,
    which installs what it needs and returns a Subject that is not started, and `versions()`, the text of the versions. Both
    raise NoPeerError if it cannot run here.
    """

    name: str
    title: str
    settings: str
    module: str

    def open(self, place: Place) -> Subject:
        """Return the subject, not started. Raises NoPeerError."""
        return cast("Callable[[Place], Subject]", import_module(self.module).open_subject)(place)

    def versions(self) -> str:
        """Return what its packages are called and which versions are installed. Raises NoPeerError."""
        return cast("Callable[[], str]", import_module(self.module).versions)()

    def close(self) -> None:
        """Leave what the module's cells have in common: `close_stage()`, if it has that."""
        getattr(import_module(self.module), "close_stage", lambda: None)()


SUBJECTS: Final = (
    SubjectKind(
        name="stepline",
        title="Stepline",
        settings="on the local stage (an emulator of AWS's services), by `stepline up --bundle`, one websocket a client; "
        "durability is always on. Killed: every process of its functions. Throttled: its functions' calls of DynamoDB are "
        "answered with `ProvisionedThroughputExceededException`",
        module="bench.torture.subjects.stepline_subject",
    ),
    SubjectKind(
        name="langgraph",
        title="LangGraph server",
        settings="`langgraph dev`, its development server, whose threads and runs are written to files every ten seconds, with the "
        "SQLite checkpointer in `langgraph.json`; `create_agent` with "
        "`HumanInTheLoopMiddleware`; background runs with `durability=sync`, `stream_resumable`, and `multitask_strategy=enqueue` "
        "for messages to a running thread; clients join the thread's stream with `Last-Event-ID`. Throttled: the checkpoints' database is "
        "locked, not the threads and runs in its memory",
        module="bench.torture.subjects.langgraph_subject",
    ),
    SubjectKind(
        name="strands",
        title="Strands Agents",
        settings="`stream_async` in the responses of a FastAPI server, `SnapshotSessionManager` with `LocalFileStorage` and "
        "`save_latest_on=message`, its most durable setting, interrupts of a hook for approvals, `cancel`, a message's id as "
        "`idempotency_token`; one agent a thread in the process. A client that disconnects ends its response, and so its invocation",
        module="bench.torture.subjects.strands_subject",
    ),
    SubjectKind(
        name="pydantic_ai",
        title="Pydantic AI on AWS durable execution",
        settings="`AWSLambdaDurability` in a durable handler, on the SDK's local runner (`dex-local-runner start-server`) with its SQLite "
        "store; tools with `AT_MOST_ONCE_PER_RETRY` and no retries, as its README says for a tool that must not repeat; approvals "
        "by deferred tools and a callback; an execution a message, running ones pinned to their version. Killed: the worker, not the "
        "runner. The harness is the newest that installs beside the newest runner",
        module="bench.torture.subjects.pydantic_ai_subject",
    ),
    SubjectKind(
        name="eve",
        title="eve",
        settings="`eve build` and `eve start` on the local world, their default for a server of one's own; sessions, streams by "
        "index, `cancel` and the turn policy `steer` of its HTTP API; a thread's first message is its `operationId`. "
        "`WORKFLOW_INLINE_OWNERSHIP_LEASE_SECONDS` is 1, so that a step of a killed process starts again within the time "
        "that is waited here; the default is 860. Between approval shown and stored, most runs held; in others the answer reached "
        "the request of the first attempt, which the step's second attempt had replaced",
        module="bench.torture.subjects.eve_subject",
    ),
    SubjectKind(
        name="ai_sdk",
        title="AI SDK",
        settings="`streamText` in a handler on Hono, by its pages on resumable streams, tool approvals, and the stop of an active "
        "resumable stream; chats and `resumable-stream` are in Redis, which writes each command to its disk. Throttled: Redis is "
        "stopped",
        module="bench.torture.subjects.ai_sdk_subject",
    ),
    SubjectKind(
        name="mastra",
        title="Mastra",
        settings="`createDurableAgent` with `RedisServerCache` and `RedisStore`, `recovery.durableAgents` is `auto` and "
        "`recoverAllDurableAgents` runs at each start, `shutdown` drains for 9 s; `send-message`, `threads/subscribe`, `observe` by "
        "index, `send-tool-approval` and `threads/abort` of its server on Hono; a client that returns to a run whose events are removed "
        "reads the thread. Redis writes each command to its disk; throttled: Redis is stopped. Tried too, with the same outcome: "
        "`createEventedAgent` and `LibSQLStore` for a killed process, `stream` with a message's id for duplicates",
        module="bench.torture.subjects.mastra_subject",
    ),
    SubjectKind(
        name="mastra_postgres",
        title="Mastra, Postgres",
        settings="as Mastra, with `PostgresStore` in place of `RedisStore`, as its page on crash recovery shows",
        module="bench.torture.subjects.mastra_postgres_subject",
    ),
)
LEFT_OUT: Final[dict[str, str]] = {
    "AI SDK, `WorkflowAgent`": "`@ai-sdk/workflow` 2.0.43 needs `workflow` 5 beta, whose Postgres world, the one for a server of one's "
    "own, does not install: `@workflow/world-postgres` 5.0.0-beta.29 asks for `@workflow/errors` 5.0.0-beta.13, which the registry does not have",
    "`aws-blocks`": "npm has no package of this name",
    "Mastra on Inngest": "the npm package `inngest-cli` 1.45.1 downloads its server from another place when it is installed, which a machine "
    "without access to it cannot",
}
"""Peers that are not run, and why."""
