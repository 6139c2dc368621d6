"""Events that arrive while a turn runs: a steer, a followup, a stop, and the loss of the turn's execution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stepline.local.client.change import Acknowledged, Effect, EventsApplied, HandedBack, Steered, TurnEnded
from stepline.local.proof.judge_stream import judge_batches, judge_ends
from stepline.local.proof.proof_client import ProofClient
from stepline.local.proof.proof_row import Evidence, require
from stepline.local.proof.proved_stage import NotRunError, ProvedStage
from stepline.local.proof.row.stream_rows import LONG, read_stored, settle_turn, shows_text
from stepline.model.ids import execution_name, make_lane
from stepline.model.wire.live_event import FOLLOWUP, STEER

STEERED: Final = "Stop here. Answer with the one word: done."
FOLLOWED: Final = "And then answer with one more word: finch."
DECISION: Final = "solver.react.decision"
RESTARTED: Final = "round.restarted"
ENDED: Final = "the turn ended before the event arrived: its model was too fast"


def prove_steer(stage: ProvedStage, conversation: str) -> Evidence:
    """Steer a turn in mid-stream."""
    with stage.listen(conversation) as client:
        begin_long(client)
        client.session.steer(STEERED)
        finish(stage, conversation, client)
    steered = judge_steer(client.received)
    judge_ends(client.ends)
    return {"turn": steered.turn_id, "steered_at": steered.n, "rounds_left": steered.finalize_rounds}


def prove_stop(stage: ProvedStage, conversation: str) -> Evidence:
    """Stop a turn in mid-stream."""
    with stage.listen(conversation) as client:
        begin_long(client)
        client.session.stop()
        finish(stage, conversation, client)
    steered = judge_stop(client.received)
    return {"turn": steered.turn_id, "stopped_at": steered.n}


def prove_followup(stage: ProvedStage, conversation: str) -> Evidence:
    """Send a second message in mid-turn."""
    with stage.listen(conversation) as client:
        begin_long(client)
        message = client.session.say(FOLLOWED)
        finish(stage, conversation, client)
    rounds = judge_followup(client.received, message)
    judge_ends(client.ends, turns=len(client.ends))
    return {"message": message, "turns": len(client.ends), "rounds_after": rounds}


def prove_loss(stage: ProvedStage, conversation: str) -> Evidence:
    """Stop the execution of a turn in mid-stream, as a failure of the service would."""
    with stage.listen(conversation) as client:
        begin_long(client)
        ((opened, start),) = client.events("chat.start")
        execution = stop_execution(stage, conversation, opened)
        client.until(lambda _: bool(client.events(RESTARTED)) or not client.state.open)
        finish(stage, conversation, client)
    judge_taken_over(client.received)
    judge_ends(client.ends)
    return {"turn": start.turn_id, "execution": execution, "restarts": len(client.events(RESTARTED))}


def begin_long(client: ProofClient) -> None:
    """Send the long request and receive until its text runs."""
    client.session.say(LONG)
    client.until(shows_text)


def finish(stage: ProvedStage, conversation: str, client: ProofClient) -> None:
    """Receive until everything is settled, and compare the events with those that are stored."""
    settle_turn(client)
    stored = read_stored(stage, conversation)
    client.catch_up(stored[-1].n)
    judge_batches(client.batches, stored)


def stop_execution(stage: ProvedStage, conversation: str, opened: int) -> str:
    """Stop the execution that event `opened` started; return its name."""
    here = stage.api.read_limits()
    name = execution_name(make_lane(here.tenant, here.project, conversation), opened)
    arn = f"{stage.machine_arn.replace(':stateMachine:', ':execution:')}:{name}"
    stage.aws("stepfunctions").stop_execution(executionArn=arn, cause="stepline prove")
    return name


def judge_steer(received: Sequence[Effect]) -> Steered:
    """Require that the turn was interrupted, and took at most the rounds that it then had left."""
    steered = _steered(received)
    rounds = count_decisions(received, after=steered.n)
    require(
        rounds <= steered.finalize_rounds,
        f"{rounds} rounds followed the steer, which left {steered.finalize_rounds}",
    )
    return steered


def judge_stop(received: Sequence[Effect]) -> Steered:
    """Require that the turn was closed by the stop, without another round."""
    steered = _steered(received)
    rounds = count_decisions(received, after=steered.n)
    ends = [effect for effect in received if isinstance(effect, TurnEnded)]
    reasons = [(end.outcome, end.reason) for end in ends]
    require(reasons == [("completed", "stop")], f"the turn ended as {reasons}, and not by the stop")
    require(steered.finalize_rounds == 0, f"the stop left {steered.finalize_rounds} rounds")
    require(rounds <= 1, f"{rounds} decisions were recorded after the stop")
    return steered


def judge_followup(received: Sequence[Effect], message: str) -> int:
    """Require that a followup is in the log and was read: by a later round of the turn, or by the next turn."""
    acknowledged = [
        one.frame for one in received if isinstance(one, Acknowledged) and one.frame.message_id == message
    ]
    kinds = [frame.kind for frame in acknowledged]
    if kinds == ["prompt"]:
        raise NotRunError(ENDED)
    require(kinds == [FOLLOWUP], f"the followup was acknowledged as {kinds}")
    handed = [one.reason for one in received if isinstance(one, HandedBack) and one.message_id == message]
    require(not handed, f"the followup was handed back: {handed}")
    rounds = count_decisions(received, after=acknowledged[0].n)
    require(rounds > 0, "no round followed the followup")
    return rounds


def judge_taken_over(received: Sequence[Effect]) -> None:
    """Require that a turn was taken over."""
    restarts = [
        event
        for one in received
        if isinstance(one, EventsApplied)
        for event in one.events
        if event.type == RESTARTED
    ]
    require(bool(restarts), "the turn was not taken over")


def count_decisions(received: Sequence[Effect], *, after: int) -> int:
    """Return the number of recorded decisions in the batches after one."""
    batches = [one for one in received if isinstance(one, EventsApplied) and one.n > after]
    return sum(event.type == DECISION for batch in batches for event in batch.events)


def _steered(received: Sequence[Effect]) -> Steered:
    if any(isinstance(one, HandedBack) and one.kind == STEER for one in received):
        raise NotRunError(ENDED)
    steered = [one for one in received if isinstance(one, Steered)]
    require(len(steered) == 1, f"the turn was interrupted {len(steered)} times, and not once")
    return steered[0]
