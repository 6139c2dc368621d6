"""A resumed round on the deployed adapters, beside the same round on the memory twin.

The log and the objects are on the local stage, through the adapters of the functions; the clients exist. CPU
time is that of this process: the stage has its own. Every sample is a conversation of its own, stored
beforehand from its newest segment on, which is all that a round reads.
"""

from __future__ import annotations

import secrets
import sys
from dataclasses import replace

from bench.conversation import (
    LANE,
    Driver,
    InstantModel,
    converse,
    cut,
    make_agent,
    objects,
    say_call,
    stored,
)
from bench.resume import SIZES, Resumed, half_grown
from bench.row import MeasureError, Row
from bench.timing import cpu_ms, interleave
from stepline.bootstrap.loop_app import LoopApp
from stepline.bootstrap.memory_wiring import in_memory
from stepline.local.command.batches import open_log
from stepline.local.stage.lifecycle import stage_status, start_stage
from stepline.log.bindings import Ports
from stepline.log.timeline_cache import History
from stepline.model.batch import decode_batch
from stepline.model.ids import make_lane
from stepline.settings import Settings

ROUNDS = 5


def rows() -> list[Row]:
    """Return `resume_real_cpu_ms_<blocks>`; the stage is started if it is not up."""
    found = stage_status()
    stage = (
        found.stage if found.stage and found.up else start_stage(lambda text: print(text, file=sys.stderr))
    )
    log, artifacts = open_log(stage)
    ports = replace(in_memory(Settings.from_env({})).ports, log=log, artifacts=artifacts)
    conversation = converse(max(SIZES))
    return [
        _row(Deployed(ports, conversation, blocks), Resumed(conversation, blocks), blocks) for blocks in SIZES
    ]


class Deployed:
    """Our round over one conversation on the stage."""

    def __init__(self, ports: Ports, conversation: LoopApp, blocks: int) -> None:
        """Take the part of the log that a round reads, and its segment."""
        batches = [decode_batch(body) for body in half_grown(cut(stored(conversation), decode_batch, blocks))]
        segment = batches[-1].state.segment
        self.batches = [batch for batch in batches if batch.n > segment]
        self._segment = {
            key: body for key, body in objects(conversation).items() if f"/{segment:012d}-" in key
        }
        self._ports, self._agent = ports, make_agent()
        self._model = InstantModel(say_call(thinking_chars=150, argument_chars=200))

    def sample(self) -> float:
        """Return the CPU milliseconds of one round in a conversation that no cache has."""
        lane = make_lane(LANE.tenant, LANE.project, f"resume-{secrets.token_hex(8)}")
        for batch in self.batches:
            self._ports.log.put(lane, batch)
        for key, body in self._segment.items():
            self._ports.artifacts.put(
                key.replace(LANE.prefix(), lane.prefix()), body, mime="application/octet-stream"
            )
        driver = Driver(ports=self._ports, agent=self._agent, model=self._model, lane=lane)
        step = driver.step()  # passed on by the state machine
        spent_ms = cpu_ms(lambda: driver.round(History, step))
        if len(self._ports.log.since(lane, self.batches[-1].n, consistent=True)) != 2:
            raise MeasureError("not one round")
        return spent_ms


def _row(real: Deployed, twin: Resumed, blocks: int) -> Row:
    found = interleave({"real": real.sample, "twin": twin.sample}, ROUNDS)
    return Row(
        metric=f"resume_real_cpu_ms_{blocks}",
        value=found["real"],
        unit="ms CPU",
        peers={"memory twin": found["twin"]},
        note=f"{len(real.batches)} batches after the newest segment, through the adapters of DynamoDB and S3",
    )
