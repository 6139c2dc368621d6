"""The remote tools of a turn: listed at its start, pinned in the log, and the same until it ends.

    Decide   finds that the list is too old for the turn, and leaves the round to Act
    Act      asks the servers, stores the list, and puts `listed`, which names it
    Decide   builds the catalogue from the list that the log names, and asks no server

A later reader of the log builds the same catalogue, byte for byte.
Source: docs/how-to/connect-an-mcp-server.md#the-list.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace

from stepline.delivery.effect import publish
from stepline.errors import NotFoundError
from stepline.log.fence import elsewhere, onward
from stepline.log.journal import Draft
from stepline.loop.agent import Agent
from stepline.loop.attempt import Attempt
from stepline.model.batch import Batch
from stepline.model.block import Body
from stepline.model.entry import Listed
from stepline.model.ids import utc
from stepline.model.path import out_key
from stepline.model.step import Step
from stepline.ports.artifacts import Artifacts
from stepline.timeline.fold import Timeline
from stepline.tools.mcp.servers import decode_list, encode_list
from stepline.tools.mcp.tool_list import ToolList

logger = logging.getLogger(__name__)

MIME = "application/json"
LEFT_OUT_MAX = 50


def is_due(agent: Agent, timeline: Timeline) -> bool:
    """Return True if the open turn needs a list of its servers' tools, because it has none or an old one."""
    turn, listed = timeline.current, timeline.listed
    if agent.servers is None or turn is None:
        return False
    return listed is None or listed.servers != agent.servers.digest or listed.until < turn.started_at


def equip(agent: Agent, timeline: Timeline, artifacts: Artifacts) -> Agent:
    """Return the agent with the remote tools that the log names. Raises DependencyError."""
    listed = timeline.listed
    if agent.servers is None or listed is None:
        return agent
    body = listed.body
    try:
        system, registry = agent.servers.catalogue(body.sha256, lambda: artifacts.get(body.key))
    except NotFoundError:  # a turn without these tools is better than none
        logger.exception("list of tools is gone", extra={"key": body.key})
        return agent
    return replace(agent, system=system, registry=registry)


def list_turn_tools(attempt: Attempt, timeline: Timeline) -> Step:
    """Ask the servers and put the list; return the step to go to. Raises DependencyError."""
    ports, step, servers, listed = attempt.ports, attempt.step, attempt.agent.servers, timeline.listed
    assert servers is not None
    before = _known(listed, ports.artifacts)
    again = listed is not None and not listed.until
    asked = servers.ask(ports.servers, attempt.agent.services.secrets, ports.clock.now(), before, again=again)
    body = _store(attempt, encode_list(asked.tools), listed)
    entry = Listed(
        turn=step.turn,
        at=attempt.now(),
        until=utc(asked.until),
        servers=servers.digest,
        body=body,
        tools=len(asked.tools.tools),
        failed=tuple(f"{one.alias}: {one.code}" for one in asked.tools.left_out if not one.name),
        left_out=tuple(f"{one.alias}.{one.name}: {one.code}" for one in asked.tools.left_out if one.name)[
            :LEFT_OUT_MAX
        ],
    )

    def plan(at: Batch) -> Draft | Step:
        if (gone := elsewhere(at.state, step, "decide")) is not None:
            return gone
        if at.n != timeline.n:
            return onward(step, at.state)  # Decide looks again: another attempt may have listed them
        return Draft(entries=(entry,), state=at.state)

    batch = attempt.journal.commit(plan, tail=timeline.tail)
    if isinstance(batch, Step):
        return batch
    publish(ports, attempt.journal.lane, batch)
    attempt.follow(batch)
    counts = {"tools": entry.tools, "failed": len(entry.failed), "left_out": len(entry.left_out)}
    logger.info("tools listed", extra=counts)
    return onward(step, batch.state)


def _known(listed: Listed | None, artifacts: Artifacts) -> ToolList:
    """Return the tools of the conversation's previous list; none if it has no list."""
    try:
        return decode_list(artifacts.get(listed.body.key)) if listed else ToolList()
    except NotFoundError:
        return ToolList()


def _store(attempt: Attempt, data: bytes, listed: Listed | None) -> Body:
    """Store a list, unless the log names it already."""
    sha256 = hashlib.sha256(data).hexdigest()
    if listed is not None and listed.body.sha256 == sha256:
        return listed.body
    key = out_key(attempt.journal.lane, attempt.step.turn, sha256)
    attempt.ports.artifacts.put(key, data, mime=MIME)
    return Body(key=key, sha256=sha256, size_bytes=len(data), mime=MIME)
