"""The digest of a request: texts carry theirs on, and it differs wherever a request does."""

from __future__ import annotations

from dataclasses import replace as replaced

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stepline.context.request import digest_request, render
from stepline.model.block import Body
from stepline.ports.model import Media, ModelRequest, Part, digest_texts
from stepline.rendering.text_form import STANDARD
from stepline.timeline.fold import Timeline
from stepline.timeline.segment import decode_segment, encode_segment
from tests.support.log_builder import LANE, LogBuilder, logs, patient

FILE = Media(
    path="fi:x.files/a.png", body=Body(key="k", sha256="ab" * 32, mime="image/png", size_bytes=1), tokens=1
)


def request_of(*content: Part | Media, system: str = "rules") -> ModelRequest:
    return ModelRequest(role="test", system=(Part(text=system),), content=content, max_tokens=100)


def request_for(timeline: Timeline) -> ModelRequest:
    return request_of(*render(timeline, system="rules", announce="now").content)


def bare(request: ModelRequest) -> ModelRequest:
    """Return the request with parts that know nothing but their texts and marks."""
    content = [Part(text=part.text, cache=part.cache) for part in request.content if isinstance(part, Part)]
    return replace(request, content=tuple(content))


@patient
@given(logs(forgetting=True), st.data())
def test_a_carried_digest_is_that_of_the_texts(log: LogBuilder, data: st.DataObject):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(log.batches)), max_size=4)))
    timeline = Timeline.empty(LANE)
    for cut in [*cuts, len(log.batches)]:
        timeline = timeline.extended(log.batches[timeline.n : cut])
        if data.draw(st.booleans()):
            opened = decode_segment(encode_segment(timeline), LANE, STANDARD)
            assert opened is not None
            timeline = replaced(opened, base=0, batches=timeline.batches)
        request = request_for(timeline)
        assert digest_request(request) == digest_request(bare(request))
        assert timeline.parts.chain == digest_texts([Part(text=part.text) for part in timeline.parts.sealed])


def test_a_digest_differs_wherever_a_request_does():
    first = request_of(Part(text="ab", cache=True), FILE, Part(text="c"))
    others = [
        request_of(Part(text="ab", cache=True), FILE, Part(text="d")),
        request_of(Part(text="a", cache=True), FILE, Part(text="bc")),
        request_of(Part(text="abc", cache=True), FILE),
        request_of(Part(text="ab", cache=True), Part(text="c"), FILE),
        request_of(Part(text="ab"), FILE, Part(text="c", cache=True)),
        request_of(Part(text="ab", cache=True), Part(text="c")),
        request_of(
            Part(text="ab", cache=True),
            replace(FILE, body=replace(FILE.body, sha256="cd" * 32)),
            Part(text="c"),
        ),
        request_of(*first.content, system="other rules"),
        replace(first, max_tokens=99),
        replace(first, temperature=0.5),
        replace(first, declined=True),
        request_of(),
    ]
    assert len({digest_request(one) for one in [first, *others]}) == len(others) + 1


def test_a_mark_keeps_the_known_digest_of_a_text():
    part = Part(text="a", chain=b"known")
    assert part.with_mark(cache=True).chain == b"known"
    assert digest_texts([Part(text="unread"), part]) == b"known"
