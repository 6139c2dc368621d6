"""The fold in TypeScript equals the one in Python for any frames: one process of Node, any number of walks."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.budget import budget
from tests.unit.local.client.vector_walk import vector, walk

PEER: Final = Path(__file__).parent / "fold_peer.mjs"
NODE: Final = shutil.which("node", path=str(Path(sys.executable).parent))


class Peer:
    """A process with the fold in TypeScript."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def play(self, asked: dict[str, Any]) -> Any:
        """Return the steps of a vector in the format of the other side."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    if NODE is None:
        pytest.skip("there is no Node here")
    with subprocess.Popen(
        [NODE, str(PEER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        yield Peer(process)
        assert process.stdin
        process.stdin.close()


@given(st.randoms(use_true_random=False), st.integers(1, 120))
@settings(max_examples=budget(20, 3000))
def test_any_frames_give_the_same_state_in_both_languages(peer: Peer, random: Random, rules: int) -> None:
    steps = json.loads(json.dumps(walk(random, rules)))
    assert peer.play(vector("any", steps)) == steps
