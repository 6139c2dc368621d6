"""Paths of another conversation: the same user can read them, and no other user."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest

from stepline.errors import ToolError
from stepline.model.file.attachment import Attachment, attachment_key
from stepline.model.path import parse_path
from stepline.tools.content import load_content
from tests.support.conversation import LANE
from tests.support.files import pdf, picture
from tests.support.generation import answered, called

from .remembered_conversation import RememberedConversation, elsewhere

OTHER = elsewhere("c-2")


@pytest.fixture
def conversation() -> RememberedConversation:
    return RememberedConversation()


def statuses(conversation: RememberedConversation, *paths: str) -> list[dict[str, object]]:
    output = conversation.call("react.read", {"paths": list(paths)})
    status = next(block for block in output.blocks if block.path.endswith(".result"))
    rows: list[dict[str, object]] = json.loads(status.text)["paths"]
    return rows


def test_a_hit_in_another_conversation_is_read_by_its_paths(conversation):
    conversation.turn("hello", "good day")
    turn = conversation.turn("the parcel number is 4711", "noted", lane=OTHER)
    (hit,) = conversation.search(query="parcel number", scope="user", targets=["user"])["hits"]
    assert (hit["turn_id"], hit["conversation_id"]) == (turn, "c-2")
    (snippet,) = hit["snippets"]
    assert snippet["path"] == f"ar:conv_c-2.{turn}.user.prompt"
    output = conversation.call("react.read", {"paths": [snippet["path"]]})
    view = output.blocks[-1]
    assert (view.text, view.meta["source_path"]) == ("the parcel number is 4711", snippet["path"])
    assert conversation.search(query="parcel number")["hits"] == []


def test_an_index_names_paths_that_are_read_from_here(conversation):
    conversation.turn("hello", "good day")
    turn = conversation.turn("the parcel", "noted", lane=OTHER)
    output = conversation.call("react.read", {"paths": [f"ar:conv_c-2.{turn}.react.turn.index"]})
    text = output.blocks[-1].text
    named = [word for word in text.replace("]", " ").split() if word.startswith(("ar:", "ws:"))]
    assert named
    assert all(word.partition(":")[2].startswith("conv_c-2.turn_") for word in named)
    read = conversation.call("react.read", {"paths": [named[-1]]})
    assert '"missing"' not in read.blocks[0].text


def test_a_conversation_of_another_user_project_or_tenant_is_not_found(conversation):
    conversation.turn("hello", "good day")
    theirs = conversation.turn("secret", "noted", lane=elsewhere("c-3"), user="eve")
    sales = conversation.turn("secret", "noted", lane=elsewhere("c-4", project="sales"))
    other = conversation.turn("secret", "noted", lane=elsewhere("c-5", tenant="globex"))
    rows = statuses(
        conversation,
        f"ar:conv_c-3.{theirs}.user.prompt",
        f"ar:conv_c-4.{sales}.user.prompt",
        f"ar:conv_c-5.{other}.user.prompt",
        f"ar:conv_c-6.{other}.user.prompt",
    )
    assert [(row["missing"], row["reason"]) for row in rows] == [(True, "not_found")] * 4


def test_a_path_may_name_this_conversation(conversation):
    turn = conversation.turn("hello", "good day")
    content = load_content(parse_path(f"ar:conv_c-1.{turn}.user.prompt"), conversation.context())
    assert (content.path, content.text) == (f"ar:{turn}.user.prompt", "hello")


def test_a_program_reads_its_own_conversation_only(conversation):
    conversation.turn("hello", "good day")
    turn = conversation.turn("the parcel", "noted", lane=OTHER)
    context = replace(conversation.context(), conversations=None)
    with pytest.raises(ToolError) as refused:
        load_content(parse_path(f"ar:conv_c-2.{turn}.user.prompt"), context)
    assert refused.value.reason == "conversation_not_here"


@pytest.mark.parametrize(
    ("name", "mime", "data"), [("a.png", "image/png", picture()), ("a.pdf", "application/pdf", pdf())]
)
def test_a_file_attached_from_another_conversation_is_kept_in_this_one(conversation, name, mime, data):
    conversation.turn("hello", "good day")
    sha256 = hashlib.sha256(data).hexdigest()
    conversation.ports.artifacts.put(attachment_key(OTHER, sha256), data, mime=mime)
    attachment = Attachment(filename=name, mime=mime, size_bytes=len(data), sha256=sha256)
    conversation.model.add(answered("seen"))
    conversation.send("look", id="a1", lane=OTHER, attachments=(attachment,))
    conversation.run()
    turn = conversation.folded(OTHER).turns[-1]
    output = conversation.call("react.read", {"paths": [f"fi:conv_c-2.{turn}.user.attachments/{name}"]})
    body = output.blocks[-1].body
    assert body is not None
    assert body.key.startswith(f"out/{LANE.prefix()}/")
    assert conversation.ports.artifacts.get(body.key) == data


def test_read_content_stays_in_the_log_if_the_other_conversation_is_deleted(conversation):
    turn = conversation.turn("the parcel number is 4711", "noted", lane=OTHER)
    path = f"ar:conv_c-2.{turn}.user.prompt"
    conversation.model.add(
        called("react.memsearch", {"query": "parcel", "scope": "user"}),
        called("react.read", {"paths": [path]}),
        answered("4711"),
    )
    conversation.send("which number had it?", id="m1")
    conversation.run()
    timeline = conversation.timeline()
    shown = timeline.visible(path)
    assert shown is not None
    found = [piece.text for piece in timeline.pieces if "4711" in piece.text]
    assert any("the parcel number is 4711" in text for text in found)
    refs = statuses(conversation, path)
    assert refs[0]["status"] == "exists_in_visible_context"
