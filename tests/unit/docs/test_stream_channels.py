"""The code of docs/how-to/stream-channels.md shows, keeps and passes on what its page says of each block."""

import ast
import asyncio
import inspect

import pytest

from stepline.adapters.memory.model import MemoryModelClient
from tests.support.generation import tagged
from tests.support.guide import blocks_of
from tests.unit.docs.source import DOCS

PAGE = DOCS / "how-to/stream-channels.md"
ANSWER = "Sales rose [[S:1]], as planned [[S:1,2]]."
USAGE = '{"sids": [1, 2]}'
SAID = (
    tagged("thinking", "Look at the report.")
    + "\n"
    + tagged("answer", ANSWER)
    + "\n"
    + tagged("followup", '{"followups": ["Go on"]}')
    + "\n"
    + tagged("usage", USAGE)
)
OBJECT = tagged("answer", '{"artifactA": "**Up** by 7 %", "other": "hidden"}')
TWICE = tagged("answer", "One.") + tagged("answer", "Two.")


_, *BLOCKS = [block.text for block in blocks_of(PAGE)]
"""All but the first, which makes the client."""


class Context:
    """A tool's context that keeps the events for the clients."""

    def __init__(self):
        self.sent = []

    def emit(self, kind, data):
        self.sent.append((kind, data))


async def run_page(names, blocks=BLOCKS):
    """Run blocks of the page, and return the names after each of them."""
    after = []
    for block in blocks:
        code = compile(block, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        ran = eval(code, names)
        if inspect.isawaitable(ran):
            await ran
        after.append({name: list(one) if isinstance(one, list) else one for name, one in names.items()})
    return after


@pytest.fixture(scope="module")
def blocks():
    client = MemoryModelClient(SAID, SAID, OBJECT, SAID, TWICE)
    after = asyncio.run(run_page({"client": client, "context": Context()}))
    client.assert_read()
    return after


def text_of(names, **wanted):
    return "".join(one["text"] for one in names["shown"] if wanted.items() <= one.items())


@pytest.mark.parametrize("block", [1, 2])
def test_an_answer_is_shown_with_links_and_kept_with_tokens(blocks, block):
    names = blocks[block]
    assert names["results"]["answer"].raw == ANSWER
    assert names["results"]["answer"].used_sources == [1, 2]
    assert names["service_err"] is None
    shown = text_of(names, channel="answer")
    assert '[Quarterly report](https://example.com/q3 "S:1")' in shown
    assert "[[S:" not in shown


def test_channels_go_to_their_surfaces(blocks):
    assert text_of(blocks[1], marker="thinking") == "Look at the report."
    assert text_of(blocks[1], marker="followup") == '{"followups": ["Go on"]}'


def test_a_subscriber_receives_only_its_channel(blocks):
    assert "".join(blocks[1]["recorded"]) == USAGE


def test_sources_are_found_again_by_their_sids(blocks):
    assert [row["sid"] for row in blocks[3]["refs"]] == [1, 2]


def test_a_key_of_an_object_is_an_artifact_on_the_canvas(blocks):
    assert (
        text_of(blocks[4], marker="canvas", artifact_name="artifactA", format="markdown") == "**Up** by 7 %"
    )
    assert text_of(blocks[4], marker="canvas", artifact_name="other") == ""
    assert '"other": "hidden"' in blocks[4]["results"]["answer"].raw


def test_followups_are_passed_on_to_the_clients(blocks):
    assert blocks[-1]["context"].sent == [("chat.followups", {"items": ["Go on"]})]


def test_every_instance_has_a_widget(blocks):
    heard = [line for line in blocks[6]["recorded"] if line.endswith("over")]
    assert heard == ["answer 0: over", "answer 1: over"]
    assert blocks[6]["results"]["answer"].instances == ["One.", "Two."]
