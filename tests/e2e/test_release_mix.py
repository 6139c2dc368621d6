"""Functions of a stage that change their release while turns run: the last three releases and the working tree."""

from __future__ import annotations

import json
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise

import pytest

from tests.contract.deploy_storm.release_tree import NEXT, RELEASES, has_history
from tests.e2e.order import check_order, check_text, events, terminals
from tests.e2e.release_mix import STEPS, release_mix
from tests.e2e.stage import Stage, a_word, answer_of, is_text, read_until
from tests.e2e.test_recovery import LONG, check_log
from tests.support.budget import budget

pytestmark = [
    pytest.mark.emulator,
    pytest.mark.skipif(
        not has_history(), reason="neither a shallow clone nor a copy of the files has the releases"
    ),
]

TALKS = budget(6, 60, nightly=12)
AT_ONCE = 3
MOVE_S = 0.4
PROGRAM = "Run this program:\n```python\nopen('outputs/{word}.txt', 'w').write('{word}')\n```"


class Talk:
    """A conversation of two turns: a long one, whose client may leave and come back, and one that runs a program."""

    def __init__(self, deployed, number: int) -> None:
        self.stage, self.word = Stage(deployed), a_word()
        self.conversation = f"e2e-mix-{number}-{self.word}"
        self._leaves = number % 2 == 1
        self.turns: list[list[dict]] = []

    def run(self) -> Talk:
        asked = LONG.format(word=self.word)
        if self._leaves:
            with self.stage.sending(asked, self.conversation) as client:
                seen = read_until(client, is_text)
            rest = self.stage.watch(self.conversation, "--after", str(check_order(seen)))
            self.turns.append([*(line for line in seen if line["frame"] == "event"), *rest])
        else:
            self.turns.append(self.stage.send(asked, self.conversation))
        self.turns.append(self.stage.send(PROGRAM.format(word=self.word), self.conversation))
        return self

    def check(self) -> None:
        """Assert that both turns are whole, and that their calls ran once."""
        assert [len(terminals(lines)) for lines in self.turns] == [1, 1]
        if not self._leaves:
            check_order(self.turns[0])
        check_text(self.turns[1])
        assert self.word in answer_of(self.turns[0])
        check_log(self.stage, self.conversation)
        results = self.stage.entries(self.conversation, "result")
        assert {result["status"] for result in results} == {"ok"}
        assert [result["program"] for result in results if result.get("program")] == [True]

    def releases(self) -> list[list[str]]:
        """Return the releases of each turn's steps, in order."""
        return [
            [
                json.loads(event["stateExitedEventDetails"]["output"])["release"]
                for event in self.stage.history(self.conversation, events(lines, "chat.start")[0]["n"])
                if event["type"] == "TaskStateExited"
            ]
            for lines in self.turns
        ]


def test_turns_of_a_stage_are_whole_in_every_mix_of_releases(scripted):
    chance, names = random.Random(7), (*RELEASES, NEXT)
    pairs: Counter[tuple[str, str]] = Counter()
    with release_mix(scripted, names) as mix, ThreadPoolExecutor(AT_ONCE) as pool:
        for name in STEPS:
            mix.move(name, chance.choice(names))
        talks = [pool.submit(Talk(scripted.deployed, number).run) for number in range(TALKS)]
        while wait(talks, timeout=MOVE_S).not_done:
            mix.move(chance.choice(STEPS), chance.choice(names))
        for talk in [one.result() for one in talks]:
            talk.check()
            pairs.update(pair for steps in talk.releases() for pair in pairwise(steps))
    assert {release for pair in pairs for release in pair} == {*names}
