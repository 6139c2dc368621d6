"""Inbound events of every kind: their paths, payloads and files, for the model and for its tools."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.errors import PathError
from stepline.model.decision import Action
from stepline.model.entry import Inbound, Opened
from stepline.model.file.attachment import Attachment, attachment_key
from stepline.model.path import AttachmentPath, parse_path, physical
from stepline.model.program.execution import WorkFile
from stepline.rendering.render_entry import PARAMS_CHARS
from stepline.rendering.turn_facts import NAME_MAX_BYTES, event_place, name_files, prompt_places
from stepline.timeline.workspace import fold_workspace
from stepline.tools.pull import run_pull
from stepline.tools.read.run import run_read
from tests.support.conversation import LANE
from tests.support.files import picture
from tests.support.generation import answered, called
from tests.support.log_builder import LogBuilder, logs, patient
from tests.support.rendered_text import forged
from tests.support.steered_conversation import SteeredConversation

PNG = picture()
FLOOR = "Ground floor: 80 m²\n".encode()


def stored(live: SteeredConversation, body: bytes, filename: str, mime: str = "text/plain") -> Attachment:
    """Store bytes as an attachment of the conversation."""
    sha256 = hashlib.sha256(body).hexdigest()
    live.ports.artifacts.put(attachment_key(LANE, sha256), body, mime=mime)
    return Attachment(filename=filename, mime=mime, size_bytes=len(body), sha256=sha256)


def shown(log: LogBuilder) -> str:
    return "".join(piece.text for piece in log.timeline().pieces)


def named(filename: str) -> Attachment:
    return Attachment(filename=filename, mime="text/plain", size_bytes=42, sha256="0" * 64)


# --- names


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=300), min_size=1, max_size=6))
def test_file_names_become_distinct_path_segments(filenames: list[str]):
    names = name_files(filenames)
    assert len({name.casefold() for name in names}) == len(filenames)
    assert names == name_files(filenames)
    for name in names:
        path = AttachmentPath(turn="turn_1", name=name, kind="form", message_id="m1")
        assert parse_path(str(path)) == path
        assert len(name.encode()) <= NAME_MAX_BYTES + 16
        assert "|" not in name


@pytest.mark.parametrize(
    ("filenames", "names"),
    [
        (["plan.pdf"], ["plan.pdf"]),
        (["plan.pdf", "plan.pdf", "PLAN.PDF"], ["plan.pdf", "plan-2.pdf", "PLAN-3.PDF"]),
        (["a/b/../c.txt", "C:\\new\\c.txt"], ["c.txt", "c-2.txt"]),
        (["plan-2.pdf", "plan.pdf", "plan.pdf"], ["plan-2.pdf", "plan.pdf", "plan-3.pdf"]),
        (["..", ".env", "a\tb\u202e.txt"], ["file", ".env", "a_b_.txt"]),
        (["CON", "nul.txt", "con"], ["_CON", "_nul.txt", "_con-2"]),
        (["trail.", "trail . .", "a:b?.md"], ["trail", "trail-2", "a_b_.md"]),
        (["\u00dcber.md", "U\u0308BER.md"], ["\u00dcber.md", "\u00dcBER-2.md"]),
        (["x" * 400 + ".csv"], ["x" * (NAME_MAX_BYTES - 4) + ".csv"]),
    ],
)
def test_a_file_keeps_as_much_of_its_name_as_a_path_can_hold(filenames: list[str], names: list[str]):
    assert name_files(filenames) == names


def test_the_events_that_open_a_turn_share_one_folder():
    events = [
        Inbound(message_id=f"m{n}", event="form", text="", user="ada", at="x", attachments=(named("a.txt"),))
        for n in (1, 2)
    ]
    assert [place.files for place in prompt_places("turn_1", events)] == [
        ("fi:turn_1.user.attachments/a.txt",),
        ("fi:turn_1.user.attachments/a-2.txt",),
    ]
    assert [place.path for place in prompt_places("turn_1", events)] == [
        "ar:turn_1.user.prompt",
        "ar:turn_1.user.prompt.m2",
    ]
    assert [event_place("turn_1", event).files for event in events] == [
        ("fi:turn_1.external.form.attachments/m1/a.txt",),
        ("fi:turn_1.external.form.attachments/m2/a.txt",),
    ]


# --- what the model reads


def test_an_event_states_its_kind_and_its_sender():
    log = LogBuilder()
    log.message()
    log.message("Look.", event="alert", reactive=False, source="billing", payload={"code": 7})
    text = shown(log)
    path = f"ar:{log.turn}.external.alert.m2"
    assert text.endswith(
        f"[EXTERNAL EVENT: alert]\n[path: {path}]\nreactive: no\n"
        'sent_by: service "billing"\npayload: {"code":7}\n  Look.\n'
    )


@pytest.mark.parametrize("event", ["prompt", "followup", "steer"])
def test_a_message_of_a_service_is_marked_as_not_the_users(event: str):
    texts = []
    for source in ("", "billing"):
        log = LogBuilder()
        if event != "prompt":
            log.message()
        log.message("Look.", event=event, source=source)
        texts.append(shown(log))
    assert "sent_by" not in texts[0]
    assert texts[1].endswith('\nsent_by: service "billing"\n  Look.\n')


def test_a_block_before_a_file_says_what_it_is():
    log = LogBuilder()
    log.message(
        "", event="form", payload={"city": "Bern"}, attachments=(named("plan.pdf"), named("plan.pdf"))
    )
    blocks = log.timeline().turn_blocks(log.turn)
    assert [block.type for block in blocks[2:6]] == ["user.attachment.meta", "user.attachment"] * 2
    about, file = blocks[4:6]
    assert (about.path, about.mime, about.body) == (file.path, "application/json", None)
    assert msgspec.json.decode(about.text) == {
        "artifact_path": f"fi:{log.turn}.user.attachments/plan-2.pdf",
        "physical_path": f"{log.turn}/attachments/plan-2.pdf",
        "filename": "plan.pdf",
        "mime": "text/plain",
        "kind": "file",
        "visibility": "external",
        "size_bytes": 42,
        "ts": about.ts,
    }


def test_a_form_opens_a_turn_as_its_prompt():
    log = LogBuilder()
    log.message("", event="form", payload={"city": "Bern"}, attachments=(named("plan.pdf"),))
    path = f"ar:{log.turn}.user.prompt"
    file = f"fi:{log.turn}.user.attachments/plan.pdf"
    assert shown(log).endswith(
        f"[EXTERNAL EVENT: form]\n[path: {path}]\nsent_by: user\n"
        f'[USER ATTACHMENT] plan.pdf | text/plain | 42 bytes | {file}\npayload: {{"city":"Bern"}}\n'
    )
    (block,) = log.timeline().resolve(path)
    assert (block.type, block.mime, msgspec.json.decode(block.text)) == (
        "user.prompt",
        "application/json",
        {"city": "Bern"},
    )
    assert block.meta == {
        "event_kind": "form",
        "message_id": "m1",
        "reactive": True,
        "payload": {"city": "Bern"},
        "attachments_count": 1,
    }


def test_a_truncated_payload_is_whole_at_its_path():
    log = LogBuilder()
    payload = {f"k{n}": "word " * 100 for n in range(60)}
    log.message("Look.", event="form", payload=payload)
    (prompt,) = [piece for piece in log.timeline().pieces if piece.kind == "prompt"]
    assert len(prompt.text) < PARAMS_CHARS + 500
    assert prompt.shows == ""
    (block,) = log.timeline().resolve(prompt.path)
    assert block.text.startswith("Look.\n\n{")
    assert msgspec.json.decode(block.text.removeprefix("Look.\n\n")) == payload
    assert log.timeline().visible(prompt.path) is None


def test_a_payload_shown_whole_has_no_read_hint():
    log = LogBuilder()
    log.message("Look.", event="form", payload={"city": "Bern"})
    assert log.timeline().visible(f"ar:{log.turn}.user.prompt") is not None


@patient
@given(logs(forgetting=True))
def test_each_event_is_rendered_at_most_once(log: LogBuilder):
    """A followup is inside its round, a promoted event at its new turn, and a returned event nowhere."""
    timeline = log.timeline()
    assert forged("".join(piece.text for piece in timeline.pieces)) == []
    events = [piece.path for piece in timeline.pieces if piece.kind in ("event", "prompt")]
    assert len(set(events)) == len(events)
    carried = [
        line.removeprefix("[carried over from: ").removesuffix("]")
        for piece in timeline.pieces
        for line in piece.text.splitlines()
        if line.startswith("[carried over from: ")
    ]
    assert not set(carried) & set(events)


@patient
@given(logs(forgetting=True))
def test_each_received_file_has_a_path_and_is_in_the_workspace(log: LogBuilder):
    timeline = log.timeline()
    for turn in timeline.turns:
        files = {file.path: file for file in fold_workspace(timeline, turn)}
        for block in timeline.turn_blocks(turn):
            if block.type != "user.attachment":
                continue
            assert timeline.resolve(block.path)[-1] == block
            assert block.body is not None
            where = physical(parse_path(block.path))
            assert where is not None
            assert files[where] == WorkFile(
                path=where,
                key=attachment_key(LANE, block.body.sha256),
                sha256=block.body.sha256,
                size_bytes=42,
                mime=block.mime,
            )


def test_files_of_a_promoted_event_are_in_both_turns():
    live = SteeredConversation(answered("First."), answered("Second."), max_iterations=1)
    file = stored(live, FLOOR, "floor.txt")
    live.decide()
    live.send("look", id="f1", attachments=(file,), payload={"iteration_credit": 0})
    live.run()
    old, new = (entry.turn for entry in live.entries(Opened))
    timeline = live.timeline()
    paths = (
        f"fi:{old}.external.followup.attachments/f1/floor.txt",
        f"fi:{new}.user.attachments/floor.txt",
    )
    assert [block.body.key for path in paths for block in timeline.resolve(path) if block.body] == [
        attachment_key(LANE, file.sha256)
    ] * 2
    text = "".join(piece.text for piece in timeline.pieces)
    assert text.count("[USER ATTACHMENT]") == 1
    assert f"| {paths[1]}\n" in text


# --- use by tools


class EventConversation(SteeredConversation):
    """A turn whose event has a text and a picture, and the use of tools in it."""

    def __init__(self) -> None:
        super().__init__(called("react.read", {"paths": ["x"]}), answered("Read."))
        self.files = (stored(self, FLOOR, "floor.txt"), stored(self, PNG, "floor.png", "image/png"))
        self.send("", id="f1", kind="form", payload={"rooms": 3}, attachments=self.files)
        self.prefix = f"fi:{self.first_turn}.external.form.attachments/f1"

    def use_tool(self, run: Any, paths: list[str]) -> Any:
        from stepline.log.journal import Journal
        from stepline.loop.attempt import Attempt

        attempt = Attempt(
            ports=self.ports,
            agent=self.agent,
            history=self.history,
            journal=Journal(self.ports, LANE, "look"),
            step=self.now(),
        )
        action = Action(call_id="tc_000000000000", tool_id="x", params={})
        context = attempt.context(self.timeline(), action, "2026-01-01T00:00:00.000Z")
        return run({"paths": paths}, context)


def test_a_text_that_came_with_an_event_is_read_as_a_text():
    conversation = EventConversation()
    output = conversation.use_tool(run_read, [f"{conversation.prefix}/floor.txt"])
    assert output.blocks[-1].text == FLOOR.decode()


def test_a_picture_that_came_with_an_event_is_attached():
    conversation = EventConversation()
    output = conversation.use_tool(run_read, [f"{conversation.prefix}/floor.png"])
    (row,) = msgspec.json.decode(output.blocks[0].text)["paths"]
    assert (output.status, row["mime"], row["bytes"]) == ("ok", "image/png", len(PNG))
    assert output.blocks[-1].body is not None
    assert conversation.ports.artifacts.get(output.blocks[-1].body.key) == PNG


def test_an_event_is_read_with_its_payload():
    conversation = EventConversation()
    path = f"ar:{conversation.first_turn}.external.form.f1"
    output = conversation.use_tool(run_read, [path])
    (row,) = msgspec.json.decode(output.blocks[0].text)["paths"]
    assert (row["path"], row["mime"], row["status"]) == (
        path,
        "application/json",
        "exists_in_visible_context",
    )


def test_a_later_turn_pulls_what_came_in_an_earlier_one():
    conversation = EventConversation()
    conversation.run()
    conversation.send("and now?", id="m9")
    output = conversation.use_tool(run_pull, [f"{conversation.prefix}/floor.txt"])
    (row,) = msgspec.json.decode(output.blocks[-1].text)["pulled"]
    assert row["physical_path"] == f"{conversation.first_turn}/external/form/attachments/f1/floor.txt"


def test_a_folder_of_attachments_is_not_pulled_as_a_whole():
    conversation = EventConversation()
    output = conversation.use_tool(run_pull, [conversation.prefix])
    (row,) = msgspec.json.decode(output.blocks[-1].text)["invalid"]
    assert row["reason"] == "attachment_pulls_require_exact_file_ref"


def test_the_index_of_a_turn_lists_events_and_files():
    conversation = EventConversation()
    (index,) = conversation.timeline().resolve(f"ar:{conversation.first_turn}.react.turn.index")
    assert f"- event.external: ar:{conversation.first_turn}.external.form.f1\n" in index.text
    assert f"- user.attachment: {conversation.prefix}/floor.txt\n" in index.text
    assert 'hint: { "rooms": 3 }' in index.text


def test_attachments_of_another_conversation_cannot_be_read():
    with pytest.raises(PathError):
        parse_path("fi:turn_1.external.form.attachments/../m2/x")
