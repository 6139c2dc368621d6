"""Pictures and PDFs in the requests of a conversation: whose bytes are sent, where, and what stands in their place."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.adapters.memory.model import Fail
from stepline.context.media import NEWEST, weigh
from stepline.context.rules import ContextRules
from stepline.errors import ContextLimit, DependencyError, ModelRefused, SteplineError
from stepline.log.journal import Journal
from stepline.log.timeline_cache import History
from stepline.model.block import Body
from stepline.model.entry import Compacted, Decided, Pruned, Resulted
from stepline.model.path import out_key
from stepline.ports.model import Media, ModelRequest, Part
from stepline.tools.context import ToolContext, ToolOutput
from tests.support.conversation import LANE, Conversation, files_of, text_of, tool
from tests.support.files import PDF, PNG, pdf, picture
from tests.support.generation import answered, called

DRAW, TELL = "test.draw", "test.tell"
CHART, PLAN, REPORT = picture(), picture(color=(1, 2, 3)), pdf(2)
FILES = {"chart.png": (CHART, PNG), "plan.png": (PLAN, PNG), "report.pdf": (REPORT, PDF)}


class Studio(Conversation):
    """A conversation whose first round writes files, and whose further rounds read them."""

    def __init__(self, *script: Any, **policy: Any) -> None:
        super().__init__(called(DRAW, {}), *script, **policy)

        self.use(tool(DRAW, "pure", draw), tool(TELL, "pure", tell))
        self.send("draw and look", id="m1")

    def path(self, name: str) -> str:
        return f"fi:{self.timeline().turns[0]}.outputs/{name}"

    def look(self, *names: str) -> None:
        self.model.add(called("react.read", {"paths": [self.path(name) for name in names]}))

    def drive_round(self) -> None:
        """Decide and act once."""
        self.states["act"](self.decide())

    def finish(self, *names: str) -> None:
        """Read each file in a round of its own, and answer."""
        for name in names:
            self.look(name)
        self.model.add(answered("seen"))
        self.run()

    def asked(self) -> list[list[bytes]]:
        """Return the bytes of the files of each request."""
        return [[part.data for part in files_of(request)] for request in self.model.requests]


def draw(context: ToolContext) -> ToolOutput:
    blocks = []
    for name, (data, mime) in FILES.items():
        digest = hashlib.sha256(data).hexdigest()
        body = Body(
            key=out_key(context.lane, context.turn, digest), sha256=digest, size_bytes=len(data), mime=mime
        )
        context.artifacts.put(body.key, data, mime=mime)
        blocks.append(context.block(DRAW, f"fi:{context.turn}.outputs/{name}", mime=mime, body=body))
    return ToolOutput(blocks=tuple(blocks))


def tell(context: ToolContext) -> ToolOutput:
    return ToolOutput(blocks=(context.result(TELL, "word " * 2_200),))


def marked(request: ModelRequest) -> str:
    """Return everything up to the last cache mark."""
    parts = list(request.content)
    last = max(n for n, part in enumerate(parts) if isinstance(part, Part) and part.cache)
    assert all(isinstance(part, Part) for part in parts[: last + 1])
    return "".join(part.text for part in parts[: last + 1] if isinstance(part, Part))


def test_the_request_behind_a_read_has_the_bytes_once_and_below_their_path() -> None:
    studio = Studio()
    studio.finish("chart.png")
    assert studio.asked() == [[], [], [CHART]]
    parts = studio.model.requests[-1].content
    place = next(n for n, part in enumerate(parts) if isinstance(part, Media))
    assert parts[place - 1] == Part(text=f"[ATTACHED] {studio.path('chart.png')} | image/png\n")


def test_a_document_is_sent_as_one() -> None:
    studio = Studio()
    studio.finish("report.pdf")
    (file,) = files_of(studio.model.requests[-1])
    assert (file.data, file.body.mime, file.tokens) == (REPORT, PDF, 8_200)


def test_a_request_has_the_two_newest_in_the_order_in_which_they_were_read() -> None:
    studio = Studio()
    studio.finish("chart.png", "report.pdf", "plan.png")
    assert studio.asked()[2:] == [[CHART], [CHART, REPORT], [REPORT, PLAN]]
    assert NEWEST == 2


def test_a_picture_that_leaves_changes_nothing_before_the_last_mark() -> None:
    studio = Studio(context=ContextRules(cache_minimum_tokens=0))
    studio.finish("chart.png", "report.pdf", "plan.png")
    requests = studio.model.requests
    for before, after in pairwise(requests):
        assert marked(after).startswith(marked(before))
    lines = [line for line in marked(requests[-1]).splitlines() if line.startswith("[FILE ATTACHED]")]
    assert [line.split()[2].rstrip(";") for line in lines] == ["64x48", "2", "64x48"]
    assert not any(entry.bust for entry in studio.entries(Decided))


def test_files_stand_behind_the_timeline_and_before_announce() -> None:
    studio = Studio()
    studio.finish("chart.png")
    parts = studio.model.requests[-1].content
    kinds = [type(part).__name__ for part in parts]
    assert kinds.index("Media") == len(kinds) - 2
    assert isinstance(parts[-1], Part)
    assert "ANNOUNCE" in parts[-1].text


def test_another_process_that_begins_with_a_segment_sends_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    studio = Studio(seal_batches=3)
    studio.look("chart.png", "plan.png")
    studio.model.add(answered("seen"))
    studio.run()
    known = studio.timeline()
    cold = History().load(Journal(studio.ports, LANE, "test"), segment=studio.state.segment)
    assert studio.state.segment > 0
    assert cold.media == known.media
    assert [one.body.size_bytes for one in cold.media] == [len(CHART), len(PLAN)]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (None, "its bytes are gone from the store"),
        (b"other bytes", "its bytes are not those that were read"),
        (CHART + b"more", "its bytes are not those that were read"),
        (b"", "its bytes are not those that were read"),
    ],
)
def test_bytes_that_are_gone_or_others_cost_no_turn_and_a_line_says_so(
    spoil: bytes | None, said: str
) -> None:
    studio = Studio()
    studio.look("chart.png")
    step = studio.decide()
    for _ in range(3):
        step = studio.states[step.route](step)
    objects: dict[str, bytes] = studio.ports.artifacts.objects  # type: ignore[attr-defined]  # the memory twin's own
    (key,) = [key for key, data in objects.items() if data == CHART]
    objects.pop(key)
    if spoil is not None:
        objects[key] = spoil
    studio.model.add(answered("not seen"))
    studio.drive(studio.now())
    assert studio.asked()[-1] == []
    assert f"[NOT ATTACHED] {studio.path('chart.png')} | {said}\n" in text_of(studio.model.requests[-1])
    assert studio.timeline().answer == "not seen"


def test_a_store_that_does_not_answer_is_asked_again_and_one_that_refuses_is_not() -> None:
    studio = Studio()
    studio.look("chart.png")
    for _ in range(2):
        studio.drive_round()
    studio.model.add(answered("not seen"))
    artifacts = studio.ports.artifacts
    studio.ports = replace(studio.ports, artifacts=Failing(DependencyError("busy")))
    with pytest.raises(DependencyError):
        studio.decide()
    studio.ports = replace(studio.ports, artifacts=Failing(SteplineError("AWS answered AccessDenied")))
    studio.decide(attempt=1)
    studio.ports = replace(studio.ports, artifacts=artifacts)
    assert "its bytes are gone from the store" in text_of(studio.model.requests[-1])


class Failing(MemoryArtifacts):
    """A store whose reads fail."""

    def __init__(self, error: SteplineError) -> None:
        super().__init__()
        self.error = error

    def stream(self, key: str) -> Iterator[bytes]:
        raise self.error


@pytest.mark.parametrize(
    "error", [ModelRefused("could not process image", status=400), ContextLimit("prompt is too long")]
)
def test_a_request_that_the_provider_refuses_is_asked_again_without_files(error: SteplineError) -> None:
    studio = Studio()
    studio.look("chart.png")
    studio.model.add(Fail(error=error), answered("not seen"))
    studio.run()
    assert studio.asked()[-2:] == [[CHART], []]
    assert "the model's provider refused the request with it" in text_of(studio.model.requests[-1])
    assert studio.timeline().answer == "not seen"


def test_a_request_without_files_that_is_refused_fails_as_ever() -> None:
    studio = Studio(Fail(error=ModelRefused("no")))
    studio.run()
    assert studio.timeline().history[-1].outcome == "error"
    assert len(studio.model.requests) == 2


def test_what_a_picture_costs_counts_as_overhead() -> None:
    studio = Studio()
    studio.finish("report.pdf")
    before, after = [entry.overhead_bytes for entry in studio.entries(Decided)][-2:]
    assert weigh(8_200) <= after - before < weigh(8_200) + 500


def test_a_document_that_leaves_too_little_room_makes_the_timeline_shorter() -> None:
    pruned = []
    for names in ([], ["report.pdf"]):
        studio = Studio(context=ContextRules(max_tokens=18_000, cache_minimum_tokens=0))
        studio.model.add(*[called(TELL, {}) for _ in range(3)])
        studio.finish(*names)
        pruned.append(bool(studio.entries(Pruned)) or bool(studio.entries(Compacted)))
    assert pruned == [False, True]


def test_a_hidden_document_is_not_sent_any_more_and_its_tokens_are_told() -> None:
    studio = Studio()
    studio.look("report.pdf")
    for _ in range(2):
        studio.drive_round()
    (view,) = [
        block.path for entry in studio.entries(Resulted) for block in entry.blocks if ".view." in block.path
    ]
    studio.model.add(called("react.hide", {"path": view, "replacement": "two empty pages"}), answered("done"))
    studio.run()
    assert studio.asked()[-2:] == [[REPORT], []]
    status = studio.entries(Resulted)[-1].blocks[-1]
    assert msgspec.json.decode(status.text)["tokens_hidden"] > 2 * 4_100
