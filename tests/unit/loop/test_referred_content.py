"""References in parameters: the content that a tool gets for `ref:<path>`, its limits, and the same content on retries."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from stepline.errors import DependencyError
from stepline.log.journal import Draft, Journal
from stepline.log.timeline_cache import History
from stepline.model.batch import decode_batch, encode_batch
from stepline.model.block import Body, Produced
from stepline.model.entry import Contributed, Decided, Resulted
from stepline.model.ids import Lane
from stepline.model.path import out_key
from stepline.tools.context import Shelved, ToolOutput
from stepline.tools.registry import Tool
from stepline.tools.spec import ToolSpec
from tests.support.conversation import LANE, Conversation, text_of
from tests.support.generation import called

TEXT = "# Title\n\nAs it was written."
NOT_VISIBLE = "protocol_violation.param_ref_not_visible"
NORMALIZED = "protocol_warning.ref_path_normalized"


def take_tool(got: list[Any], fails: list[Exception], tool_id: str = "mail.send") -> Tool:
    """Return a tool of a bundle that records its parameters, and fails on request."""
    properties = {
        "text": {"type": "string", "description": "d"},
        "rows": {"type": "array", "items": {"type": "object"}, "description": "d"},
        "facts": {"type": "object", "description": "d"},
    }
    schema = {"type": "object", "additionalProperties": False, "properties": properties}

    def run(params: Any, context: Any) -> ToolOutput:
        got.append(params)
        if fails:
            raise fails.pop()
        return ToolOutput(blocks=(context.result(tool_id, {"status": "ok"}),))

    spec = ToolSpec(tool_id=tool_id, purpose="p", returns="r", schema=schema, effect="keyed", read_only=False)
    return Tool(spec=spec, run=run)


class Referring(Conversation):
    """A conversation with a bundle's tool, whose paths are known when the model writes its next decision."""

    def __init__(self, **policy: Any) -> None:
        super().__init__(**policy)
        self.got: list[Any] = []
        self.fails: list[Exception] = []
        self.use(
            *(take_tool(self.got, self.fails, name) for name in ("mail.send", "rendering_tools.write_pdf"))
        )
        self.send("hello")
        self.step = self.take()[1]

    @property
    def turn(self) -> str:
        return self.state.turn

    def round(self, tool_id: str, **params: Any) -> Decided:
        """Decide a call, run it, and return the decision."""
        self.say(tool_id, **params)
        step = self.decide()
        if step.route == "act":
            self.act(step)
        return self.entries(Decided)[-1]

    def say(self, tool_id: str, **params: Any) -> None:
        self.model.add(called(tool_id, params))

    def write(self, name: str, content: Any, **params: Any) -> str:
        """Write a file and return its path."""
        self.round(
            "react.write", path=name, channel=params.pop("channel", "canvas"), content=content, **params
        )
        return f"fi:{self.turn}.outputs/{name}"

    def content(self, name: str) -> str:
        """Return the newest content of a file of the turn."""
        (*_, block) = self.timeline().resolve(f"fi:{self.turn}.outputs/{name}")
        assert block.body is not None
        return self.ports.artifacts.get(block.body.key).decode()

    def contribute(self, path: str, text: str) -> None:
        """Put a text at a path as a bundle's code does."""
        block = Produced(type="stage", author="bundle", path=path, text=text)
        entry = Contributed(turn=self.turn, at="2026-11-21T10:00:00.000Z", blocks=(block,))
        Journal(self.ports, LANE, "bundle").commit(lambda at: Draft(entries=(entry,), state=at.state))


@pytest.fixture
def conversation():
    return Referring()


def result(conversation):
    return conversation.entries(Resulted)[-1]


def test_a_write_by_reference_writes_the_content_and_not_the_reference(conversation):
    path = conversation.write("a.md", TEXT)
    conversation.write("b.md", f"ref:{path}")
    assert conversation.content("b.md") == TEXT
    assert result(conversation).status == "ok"


def test_a_bundles_tool_gets_a_referred_text_or_its_decoded_json(conversation):
    path = conversation.write("a.json", {"a": [1]})
    conversation.round("mail.send", text=f"ref:{path}", facts=f"ref:{path}")
    assert conversation.got == [{"text": '{\n  "a": [\n    1\n  ]\n}\n', "facts": {"a": [1]}}]


def test_bound_content_is_checked_against_the_contract(conversation):
    path = conversation.write("a.md", "no JSON")
    conversation.round("mail.send", facts=f"ref:{path}")
    assert (conversation.got, result(conversation).error["code"]) == ([], "bad_params")


def test_referred_content_is_not_searched_for_references(conversation):
    first = conversation.write("a.md", "first")
    second = conversation.write("b.txt", f"As ref:{first} says")
    conversation.contribute(f"fi:{conversation.turn}.outputs/c.md", f"ref:{first}")
    conversation.round("mail.send", text=f"ref:fi:{conversation.turn}.outputs/c.md")
    conversation.round("mail.send", text=f"ref:{second}")
    assert [params["text"] for params in conversation.got] == [f"ref:{first}", f"As ref:{first} says"]


def test_a_call_is_recorded_as_written_with_the_hash_of_its_content(conversation):
    path = conversation.write("a.md", "x" * 5000)
    decided = conversation.round("mail.send", text=f"ref:{path}")
    (action,) = decided.actions
    assert action.params == {"text": f"ref:{path}"}
    (block,) = [block for block in conversation.timeline().resolve(path) if block.body]
    assert action.bound == {path: block.body}


def test_a_text_of_the_log_is_bound_too(conversation):
    conversation.round("mail.send", text=f"ref:ar:{conversation.turn}.user.prompt")
    assert conversation.got == [{"text": "hello"}]


@pytest.mark.parametrize("form", ["outputs/a.md", "{turn}/outputs/a.md"])
def test_a_physical_path_is_corrected_with_a_notice(conversation, form):
    path = conversation.write("a.md", "text")
    decided = conversation.round("mail.send", text=f"ref:{form.format(turn=conversation.turn)}")
    assert conversation.got == [{"text": "text"}]
    assert [notice.code for notice in decided.notices] == [NORMALIZED]
    assert decided.actions[0].params == {"text": f"ref:{path}"}


def lane_of_another(conversation) -> str:
    """Return the path of a file in another conversation."""
    other = Lane(tenant=LANE.tenant, project=LANE.project, conversation="c-2")
    conversation.send("mine", lane=other, id="m9")
    turn = conversation.batches(other)[-1].state.turn
    return f"ar:{turn}.user.prompt"


def never_written(conversation) -> str:
    return f"fi:{conversation.turn}.outputs/gone.md"


def key_of_the_store(conversation) -> str:
    return out_key(LANE, conversation.turn, "ab" * 32)


def kept_by_a_bundle(conversation) -> str:
    conversation.agent = replace(conversation.agent, shelves={"ks": lambda _: Shelved(text="kept")})
    return "ks:docs/a.md"


def folder(_) -> str:
    return "../../etc/passwd"


def outside(conversation) -> str:
    return f"{conversation.turn}/outputs/../../../etc/passwd"


def no_row(_) -> str:
    return "so:sources_pool[1]"


def not_in_view(conversation) -> str:
    path = conversation.write("a.md", "x")
    pieces = conversation.timeline().pieces
    assert any(path in piece.text for piece in pieces)
    return f"ar:{conversation.turn}.react.turn.index"


@pytest.mark.parametrize(
    "path",
    [
        lane_of_another,
        never_written,
        key_of_the_store,
        kept_by_a_bundle,
        folder,
        outside,
        no_row,
        not_in_view,
    ],
)
def test_only_visible_content_of_this_conversation_is_referred_to(conversation, path):
    decided = conversation.round("mail.send", text=f"ref:{path(conversation)}")
    assert (decided.accepted, conversation.got) == (False, [])
    (notice,) = decided.notices
    assert notice.code == NOT_VISIBLE
    assert notice.extra["violations"][0].startswith("ref_not_visible: ")


def test_an_internal_file_is_not_rendered(conversation):
    path = conversation.write("a.md", "mine", channel="internal")
    decided = conversation.round("rendering_tools.write_pdf", text=f"ref:{path}")
    assert (decided.accepted, conversation.got) == (False, [])
    assert decided.notices[0].extra["violations"][0].startswith("ref_internal_not_visible: ")


def test_binary_content_is_refused(conversation):
    body = Body(key="out/x", sha256="ab" * 32, size_bytes=3, mime="image/png")
    block = Produced(path=f"fi:{conversation.turn}.outputs/a.png", body=body)
    entry = Contributed(turn=conversation.turn, at="2026-11-21T10:00:00.000Z", blocks=(block,))
    Journal(conversation.ports, LANE, "bundle").commit(lambda at: Draft(entries=(entry,), state=at.state))
    decided = conversation.round("mail.send", text=f"ref:{block.path}")
    assert decided.notices[0].extra["violations"][0].startswith("ref_not_text: ")


def test_the_model_reads_why_and_writes_again(conversation):
    conversation.round("mail.send", text="ref:outputs/gone.md")
    conversation.round("mail.send", text="text")
    assert conversation.got == [{"text": "text"}]
    assert NOT_VISIBLE in text_of(conversation.model.requests[-1])


def test_later_changes_do_not_alter_bound_content(conversation):
    path = f"ar:{conversation.turn}.system.message.bundle_x"
    conversation.contribute(path, "before")
    conversation.say("react.write", path="b.md", channel="canvas", content=f"ref:{path}")
    step = conversation.decide()
    conversation.contribute(path, "after")
    assert conversation.timeline().resolve(path)[-1].text == "after"
    conversation.act(step)
    assert conversation.content("b.md") == "before"


def test_a_retried_call_gets_the_same_content(conversation):
    path = f"ar:{conversation.turn}.system.message.bundle_x"
    conversation.contribute(path, "before")
    conversation.say("mail.send", text=f"ref:{path}")
    step = conversation.decide()
    conversation.fails.append(DependencyError("the mail's server is away"))
    with pytest.raises(DependencyError):
        conversation.act(step)
    conversation.contribute(path, "after")
    conversation.act(step)
    assert conversation.got == [{"text": "before"}, {"text": "before"}]


def test_a_decision_of_an_earlier_release_binds_nothing_and_writes_no_reference(conversation):
    path = conversation.write("a.md", "text")
    conversation.say("mail.send", text=f"ref:{path}")
    step = conversation.decide()
    stored = conversation.log.batches[LANE.key()]
    batch = decode_batch(stored[-1])
    (decided,) = batch.entries
    (action,) = decided.actions
    earlier = structs.replace(decided, actions=(structs.replace(action, bound={}),))
    stored[-1] = encode_batch(structs.replace(batch, entries=(earlier,)))
    conversation.history = History()
    conversation.act(step)
    assert (conversation.got, result(conversation).error["code"]) == ([], "ref_not_bound")
