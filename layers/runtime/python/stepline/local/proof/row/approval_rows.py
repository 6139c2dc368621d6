"""Approvals: a call that needs a person waits, does not run if it is denied, and runs once if it is approved."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, Literal

from stepline.local.client.change import Effect, EventsApplied
from stepline.local.proof.proof_client import ProofClient
from stepline.local.proof.proof_row import Evidence, require
from stepline.local.proof.proved_stage import NotRunError, ProvedStage
from stepline.local.proof.stage_function import read_setting
from stepline.model.wire.event import ClientEvent

TOOL: Final = "react.plan"
"""A tool of every agent that any model calls on request, and that has no effect outside its conversation."""
ALWAYS: Final = "always"
PLAN: Final = "Make a plan with three steps, with your tool for plans."
ANSWERS_MOST: Final = 5
"""How often one turn may ask: a model that was denied may try again."""


def prove_denied(stage: ProvedStage, conversation: str) -> Evidence:
    """Deny what the turn asks for."""
    check_rule(stage)
    return _prove(stage, conversation, "deny")


def prove_approved(stage: ProvedStage, conversation: str) -> Evidence:
    """Approve what the turn asks for."""
    check_rule(stage)
    return _prove(stage, conversation, "approve")


def _prove(stage: ProvedStage, conversation: str, verdict: Literal["approve", "deny"]) -> Evidence:
    with stage.listen(conversation) as client:
        answered = answer_all(client, verdict)
    judge = judge_denied if verdict == "deny" else judge_approved
    judge(client.received, answered)
    return {"calls": " ".join(answered), "turn": client.ends[-1].turn_id}


def answer_all(client: ProofClient, verdict: Literal["approve", "deny"]) -> list[str]:
    """Ask for a plan, and give every request for an approval this verdict; return the ids of the calls."""
    answered = list[str]()
    client.session.say(PLAN)
    client.settle()
    while client.state.approval and len(answered) < ANSWERS_MOST:
        call = client.state.approval
        require(not results_of(client.received, call), f"call {call} ran before it was approved")
        answered.append(call)
        client.session.answer(verdict, call, **({"text": "Not now."} if verdict == "deny" else {}))
        client.settle()
    require(bool(client.ends), "the turn did not end")
    return answered


def judge_denied(received: Sequence[Effect], calls: Sequence[str]) -> None:
    """Require that a person was asked, and that no denied call ran."""
    _judge_settled(received, calls, "denied")
    for call in calls:
        codes = [event.data.get("code", "") for event in results_of(received, call)]
        require(codes == ["denied"], f"the results of the denied call {call} have the codes {codes}")


def judge_approved(received: Sequence[Effect], calls: Sequence[str]) -> None:
    """Require that a person was asked, and that each approved call ran once."""
    _judge_settled(received, calls, "approved")
    for call in calls:
        ran = [event.data.get("status", "") for event in results_of(received, call)]
        require(ran == ["ok"], f"the results of the approved call {call} are {ran}")


def _judge_settled(received: Sequence[Effect], calls: Sequence[str], verdict: str) -> None:
    require(bool(calls), f"no person was asked about {TOOL}")
    asked = [event.data.get("call_id", "") for event in _events(received, "approval.requested")]
    require(sorted(asked) == sorted(calls), f"the turn asked about {asked}, and {list(calls)} were answered")
    given = [
        (event.data.get("call_id", ""), event.data.get("verdict", ""))
        for event in _events(received, "approval.answered")
    ]
    require(
        sorted(given) == sorted((call, verdict) for call in calls), f"the answers are recorded as {given}"
    )


def results_of(received: Sequence[Effect], call: str) -> list[ClientEvent]:
    """Return the recorded results of a call."""
    return [event for event in _events(received, "react.tool.result") if event.data.get("call_id") == call]


def _events(received: Sequence[Effect], kind: str) -> list[ClientEvent]:
    batches = (one for one in received if isinstance(one, EventsApplied))
    return [event for batch in batches for event in batch.events if event.type == kind]


def check_rule(stage: ProvedStage) -> None:
    """Raise NotRunError unless a rule of the stage always asks a person about the tool."""
    rules = find_rules(stage)
    if rules.get(TOOL) != ALWAYS:
        raise NotRunError(f'no rule of the stage asks about {TOOL}: approvals={{"{TOOL}": "{ALWAYS}"}} does')


def find_rules(stage: ProvedStage) -> dict[str, str]:
    """Return the rules of approvals of the function that runs tools."""
    rules: dict[str, str] = json.loads(read_setting(stage, "act", "approvals") or "{}")
    return rules
