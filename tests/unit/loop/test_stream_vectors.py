"""The loop streams the vectors of the protocol's tests: the same lanes, the same transcript, the same end."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from stepline.adapters.memory.model import Say
from tests.unit.loop.test_stream_generation import HeardGeneration
from tests.unit.protocol.play import RULES, SINGLE, cut, play

DATA = Path(__file__).parents[2] / "data"
GENERATIONS = [*sorted((DATA / "vectors").glob("*.txt")), *sorted((DATA / "found").glob("*.txt"))]
PIECE_CHARS = 7


@pytest.mark.parametrize("rules", [RULES, SINGLE], ids=["several", "single"])
@pytest.mark.parametrize("path", GENERATIONS, ids=lambda path: path.stem)
def test_a_generation_is_streamed_as_recorded(path, rules):
    text = path.read_bytes().decode()
    generation = HeardGeneration(
        Say(text=text, piece_chars=PIECE_CHARS),
        **{field.name: getattr(rules, field.name) for field in fields(rules)},
    )
    heard, played = generation.listen(), play(cut(text, PIECE_CHARS), rules)
    generation.check()
    assert generation.texts() == {name: lane.text for name, lane in played.lanes.items()}
    assert (heard.transcript, heard.answer, heard.stopped) == (played.transcript, played.answer, played.cut)
