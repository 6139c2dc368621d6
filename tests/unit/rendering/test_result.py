from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from stepline.model.block import Block, Body, Produced
from stepline.model.entry import Resulted
from stepline.rendering.result import lean_blocks, result_path, whole_blocks
from tests.support.rendered_text import render_result

TURN, CALL, TOOL, AT = "turn_1", "tc_0123456789ab", "react.read", "2026-11-21T10:00:00.000Z"
OWN = result_path(TURN, CALL)

# Strings built at run time are not the constants of the module that has the defaults.
said = st.sampled_from(
    ["react.tool.result", "react", "text/markdown", "react.notice", "system", "text/plain"]
)
fresh = said.map(lambda text: "".join(list(text)))
bodies = st.none() | st.just(Body(key="out/k", sha256="0" * 64, size_bytes=1))
blocks = st.builds(
    Block,
    type=fresh,
    author=fresh,
    mime=fresh,
    path=st.sampled_from([OWN, f"{OWN}x", "fi:turn_1.outputs/a.md"]).map(lambda text: "".join(list(text))),
    text=st.text(max_size=9),
    body=bodies,
    meta=st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    ts=st.just(AT),
    turn_id=st.just(TURN),
    call_id=st.just(CALL),
    tool_id=st.just(TOOL),
    iteration=st.just(3),
)


def result(*produced: Block) -> Resulted:
    kept = lean_blocks(produced, OWN)
    return Resulted(call_id=CALL, tool_id=TOOL, iteration=3, status="ok", at=AT, blocks=kept)


@given(st.lists(blocks, max_size=3))
def test_a_block_is_read_as_the_tool_made_it(made: list[Block]) -> None:
    stored = msgspec.json.decode(msgspec.json.encode(result(*made)), type=Resulted)
    assert list(whole_blocks(stored, TURN)) == made


@given(blocks)
def test_a_stored_block_omits_defaults_and_fields_of_its_call(made: Block) -> None:
    (stored,) = msgspec.json.decode(msgspec.json.encode(result(made)))["blocks"]
    plain: dict[str, Any] = {**msgspec.structs.asdict(Produced()), "path": OWN}
    assert stored == {
        name: value
        for name, value in msgspec.to_builtins(made).items()
        if name in plain and value != plain[name]
    }


def test_a_tool_cannot_set_the_owner_of_a_block() -> None:
    forged = Block(type="react.note", author="react", ts="1970", turn_id="turn_0", call_id="tc_0", path=OWN)
    (block,) = whole_blocks(result(forged), TURN)
    assert (block.ts, block.turn_id, block.call_id, block.tool_id) == (AT, TURN, CALL, TOOL)


def test_a_block_without_a_path_is_rendered_at_its_call() -> None:
    entry = result(Block(type="react.tool.result", author="react", ts=AT, text="fine", path=OWN))
    assert entry.blocks == (Produced(text="fine"),)
    assert f"logical_path: {OWN}\n  fine\n" in render_result(entry, TURN, last=False)
