"""For texts of any length and in any language, no request is above its budget."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stepline.adapters.memory.model import Fail, MemoryModelClient, Say
from stepline.errors import ContextLimit, ModelRefused
from stepline.log.timeline_cache import History
from stepline.model.entry import Compacted
from stepline.tools.context import ToolContext, ToolOutput
from tests.support.budget import budget
from tests.support.conversation import LANE, closings, tool
from tests.support.generation import called, said
from tests.support.log_invariant import requests
from tests.support.small_context import SmallContext, prose, tokens

WORDS = ("otter", "水獺在河裡游泳", "\u202enothing\u0007", "a" * 90)
lengths = st.sampled_from([0, 10, 300, 2_000, 9_000, 40_000, 120_000])
spoken = st.tuples(st.sampled_from([0, 10, 300, 2_000, 9_000, 18_000]), st.sampled_from(WORDS))
texts = st.tuples(lengths, st.sampled_from(WORDS))
rounds = st.fixed_dictionaries(
    {"found": st.lists(texts, max_size=3), "files": st.sampled_from([0, 0, 1, 200]), "notes": spoken}
)
turns = st.fixed_dictionaries(
    {
        "prompt": texts,
        "rounds": st.lists(rounds, max_size=4),
        "answer": spoken,
        "late": st.lists(texts, max_size=2),
    }
)
Text: TypeAlias = tuple[int, str]
voices = st.sampled_from(
    [
        Say(text="## Goals\nOtters."),
        Say(text=""),
        "too long",
        Fail(error=ContextLimit("too long")),
        Fail(error=ModelRefused("no")),
    ]
)


class BusySmallContext(SmallContext):
    """A conversation whose tool finds several texts and files at once, and whose user interrupts."""

    def __init__(self, max_tokens: int) -> None:
        super().__init__(max_tokens)
        self.found: list[tuple[list[Text], int]] = []
        self.late: list[Text] = []
        self.use(tool("docs.find", "pure", self.find))
        self.agent = dataclasses.replace(self.agent, summariser=SmallContext().agent.summariser)

    def find(self, context: ToolContext) -> ToolOutput:
        texts, files = self.found.pop(0)
        if self.late:
            self.send(prose(*self.late.pop()), id=f"late{self.tail.n}")
        many = [
            replace(context.result("docs.find", f"file {n}"), path=f"fi:{context.turn}.outputs/{n}.txt")
            for n in range(files)
        ]
        return ToolOutput(blocks=(*(context.result("docs.find", prose(*text)) for text in texts), *many))


@settings(
    max_examples=budget(10, 400),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
@given(
    budget=st.sampled_from([8_000, 12_000, 30_000]),
    talk=st.lists(turns, min_size=1, max_size=4),
    script=st.lists(voices, max_size=6),
)
def test_no_request_is_above_the_budget(budget: int, talk: list[dict[str, Any]], script: list[Any]) -> None:
    conversation = BusySmallContext(budget)
    long = Say(text="word " * 30_000, piece_chars=50_000)
    conversation.voices.script, conversation.voices.obeys = (
        [long if one == "too long" else one for one in script],
        False,
    )
    for number, turn in enumerate(talk):
        conversation.voices.rounds = MemoryModelClient()
        for one in turn["rounds"]:
            conversation.found.append((one["found"], one["files"]))
            conversation.voices.rounds.add(called("docs.find", notes=prose(*one["notes"])))
        ending = said({"action": "complete", "final_answer": prose(*turn["answer"]) or "Done."})
        conversation.late = list(turn["late"])
        conversation.voices.rounds.add(*[Say(text=ending, piece_chars=20_000)] * (len(turn["late"]) + 2))
        conversation.send(prose(*turn["prompt"]), id=f"m{number}")
        conversation.run()
    assert max(tokens(request) for request in conversation.voices.requests) <= budget
    assert {closed.outcome for closed in closings(conversation)} == {"completed"}
    assert not list(requests(conversation.ports.artifacts, LANE, conversation.batches()))
    for entry in conversation.entries(Compacted):
        assert entry.after_tokens < entry.before_tokens or entry.status != "completed"
    warm, conversation.history = conversation.timeline(), History()
    assert [piece.text for piece in conversation.timeline().pieces] == [piece.text for piece in warm.pieces]
