"""Documents with arbitrary changes: refused with a code, or imported as a log that every reader accepts and that moves again equal."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from stepline.errors import InputError
from stepline.log.importing.import_document import Document
from tests.support.exported_log import (
    documents_of,
    log_of,
    moved,
    read_everywhere,
    settled,
    told,
    values_in,
)
from tests.support.log_builder import logs, patient
from tests.unit.log.importing.test_import_existing import recorded

HOSTILE: Final[tuple[Any, ...]] = (
    *(None, "", 0, -1, 2**70, 10**12, 10**300, 1.5, 1e300, float("inf"), True, [], {}, [[]], {"a": 1}, ["x"]),
    *("\0", "x" * 5_000, "{}", "[1]", '{"paths":3}', '{"steps":3}', "2026-11-21T10:00:00.000Z", "yesterday"),
    *(
        "../../etc/passwd",
        "fi:turn_0001.outputs/../../x",
        "fi:turn_0001.outputs/ok.md",
        "so:sources_pool[1-3]",
    ),
    *(
        "ar:turn_0001.user.prompt",
        "turn_0001",
        "turn_x",
        "sk:public.x",
        "tc_000000000001",
        "application/json",
    ),
    *(
        "react.plan",
        "react.plan.ack",
        "conv.range.summary",
        "assistant.completion",
        "user.prompt",
        "react.note",
    ),
    *("react.tool.call", "react.tool.result", "user.attachment", "user.attachment.meta", "turn.feedback"),
    *(
        "react.exit",
        "react.state",
        "react.notice",
        "stage.gate",
        "user.followup",
        "turn.header",
        "react.read",
    ),
    *("react.pull", "react.checkout", "react.workspace.checkout", "opened", "closed", "decision", "result"),
    {"tokens": 1},
    {"sha256": "0" * 64, "size_bytes": 3, "mime": "text/plain"},
    {"sha256": "nope"},
)


@st.composite
def changed(draw: st.DrawFn, documents: list[Document]) -> list[Document]:
    """Generate documents in which some values are changed, removed, doubled or swapped."""
    for _ in range(draw(st.integers(1, 6))):
        document = draw(st.sampled_from(documents))
        places = list(values_in(document.payload))[1:]
        if places:
            _change(draw, document.payload, draw(st.sampled_from(places)))
    return documents


def _change(draw: st.DrawFn, value: Any, place: tuple[Any, ...]) -> None:
    for step in place[:-1]:
        value = value[step]
    at, way = place[-1], draw(st.sampled_from(["put", "put", "put", "drop", "twice", "swap"]))
    if way == "put" or (way != "drop" and not isinstance(value, list)):
        value[at] = deepcopy(draw(st.sampled_from(HOSTILE)))
    elif way == "drop":
        del value[at]
    elif way == "twice":
        value.insert(at, deepcopy(value[at]))
    else:
        other = draw(st.integers(0, len(value) - 1))
        value[at], value[other] = value[other], value[at]


@st.composite
def exported(draw: st.DrawFn) -> list[Document]:
    """Generate changed exported documents, some without the parts that only Stepline has."""
    documents = documents_of(settled(draw(logs(forgetting=True))).timeline())
    if draw(st.booleans()):
        for document in documents:
            document.payload.pop("batches", None)
    return draw(changed(documents))


@st.composite
def existing(draw: st.DrawFn) -> list[Document]:
    """Generate changed documents of the existing system."""
    return draw(changed(recorded()))


@patient
@given(exported() | existing())
def test_changed_documents_are_refused_or_are_a_whole_conversation(documents: list[Document]):
    try:
        plan = moved(documents)
    except InputError as refused:
        assert refused.reason.startswith("import_"), refused.reason  # noqa: PT017 - either is right
        return
    there = read_everywhere(plan)
    assert there.current is None
    assert there.state.importing == 0
    assert told(log_of(moved(documents_of(there)))) == told(there)
