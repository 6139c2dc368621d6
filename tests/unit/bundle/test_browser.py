"""The context as the code of a bundle sees it, over the memory twins."""

import asyncio
import base64
import json

import pytest

from bundles.default import WORKFLOW
from stepline import search_memory
from stepline.adapters.memory.model import MemoryModelClient
from stepline.bootstrap.in_process import InProcess
from stepline.bootstrap.memory_wiring import in_memory
from stepline.bundle.browser import missing_blocks, place_blocks, read_blocks
from stepline.errors import InputError, LimitError, NotFoundError, ToolError
from stepline.log.journal import Journal
from stepline.model.block import Produced
from stepline.model.ids import Lane
from stepline.model.memory_row import MemoryRow, MemoryScope
from stepline.model.program.handover import ObjectGrant
from stepline.settings import Settings
from stepline.timeline.fold import Timeline
from tests.support.conversation import text_of
from tests.support.generation import answered, called

LANE = Lane(tenant="acme", project="docs", conversation="c-1")
TURN = "turn_20260101T000000_abcdef"
SEARCH = called("web_tools.web_search", {"queries": "prompt caching"})
WRITE = called("react.write", {"path": "files/a.md", "channel": "canvas", "content": "# A\n", "kind": "file"})


class AnsweredWorkflow:
    """A workflow that has answered a few messages."""

    def __init__(self, *script):
        self.model = MemoryModelClient(*script)
        self.app = in_memory(Settings.from_env({}), model=self.model)
        self.runtime = InProcess(self.app)
        self.workflow = WORKFLOW(self.runtime, LANE, user="ada")
        self.browser = self.workflow.ctx_browser

    def say(self, text="How does it work?"):
        return asyncio.run(self.workflow.process({"text": text}))

    def fetch(self, refs):
        return asyncio.run(self.workflow.ctx_client.fetch_ctx(refs))

    def text(self, **options):
        return "".join(part.text for part in asyncio.run(self.browser.timeline(**options)))


@pytest.fixture
def answered_workflow():
    answered_workflow = AnsweredWorkflow(SEARCH, answered("It is kept [[S:1]]."), answered("Nothing more."))
    answered_workflow.first = answered_workflow.say().turn_id
    return answered_workflow


def test_the_models_context_is_rendered_with_the_given_options(answered_workflow):
    whole = answered_workflow.text()
    assert "How does it work?" in whole
    assert whole.index("It is kept [[S:1]].") < whole.index("[SOURCES POOL]") < whole.index("╔══ ANNOUNCE")
    bare = answered_workflow.text(include_sources=False, include_announce=False)
    assert "It is kept [[S:1]]." in bare
    assert "SOURCES POOL" not in bare
    assert "ANNOUNCE" not in bare


def test_the_next_request_begins_with_the_rendered_parts(answered_workflow):
    rendered = answered_workflow.text(include_sources=False, include_announce=False)
    answered_workflow.say("And then?")
    sent = text_of(answered_workflow.model.requests[-1])
    assert sent.startswith(rendered)


@pytest.mark.parametrize("cache_last", [True, False])
def test_the_end_of_the_timeline_is_marked_if_it_is_to_be_cached(cache_last):
    answered_workflow = AnsweredWorkflow(answered("Yes. " * 1000))
    answered_workflow.say("long " * 1000)
    parts = asyncio.run(
        answered_workflow.browser.timeline(
            include_sources=False, include_announce=False, cache_last=cache_last
        )
    )
    assert parts[-1].cache is cache_last


def test_a_forced_rendering_is_shorter_and_changes_nothing(answered_workflow):
    answered_workflow.say("And then?")
    before, tail = answered_workflow.text(), answered_workflow.app.ports.log.tail(LANE)
    short = answered_workflow.text(force_sanitize=True)
    assert len(short) < len(before)
    assert "And then?" in short
    assert (answered_workflow.text(), answered_workflow.app.ports.log.tail(LANE)) == (before, tail)


def test_an_empty_conversation_renders_and_exports_nothing():
    answered_workflow = AnsweredWorkflow()
    assert answered_workflow.text(include_sources=False, include_announce=False, force_sanitize=True) == ""
    assert asyncio.run(answered_workflow.browser.persist()) == {}
    assert answered_workflow.browser.sources_pool == {}


def test_the_pool_is_available_once_the_timeline_is_loaded(answered_workflow):
    timeline = asyncio.run(answered_workflow.browser.load_timeline())
    assert answered_workflow.browser.sources_pool == timeline.sources
    assert timeline.sources[1].title


def test_exports_are_stored_under_their_content(answered_workflow):
    put = asyncio.run(answered_workflow.browser.persist_timeline())
    assert set(put) == {"artifact:conv.timeline.v1", "artifact:conv:sources_pool", "artifact:turn.log"}
    for kind, body in put.items():
        document = json.loads(answered_workflow.app.ports.artifacts.get(body.key))
        assert document["kind"] == kind
        assert body.key.endswith(body.sha256)
    assert asyncio.run(answered_workflow.browser.persist()) == put


# --- fetch_ctx


def test_one_path_and_a_list_of_paths_are_fetched_whole():
    answered_workflow = AnsweredWorkflow(SEARCH, WRITE, answered("It is kept [[S:1]]."))
    turn = answered_workflow.say().turn_id
    prompt, rows = f"ar:{turn}.user.prompt", "so:sources_pool[1]"
    assert answered_workflow.fetch(prompt)["ret"] == {"mime": "text/markdown", "text": "How does it work?"}
    fetched = answered_workflow.fetch([rows, f"fi:{turn}.files/a.md", f"ar:{turn}.assistant.completion"])
    assert fetched[0]["ret"]["payload"][0]["sid"] == 1
    assert [one["ret"]["text"] for one in fetched[1:]] == ["# A\n", "It is kept [[S:1]]."]
    (call,) = {
        piece.call for piece in answered_workflow.browser._timeline.pieces if piece.tool == "react.write"
    }
    assert answered_workflow.fetch(f"tc:{turn}.{call}.call")["ret"]["payload"]["tool_id"] == "react.write"


def test_bytes_that_are_not_text_are_base64():
    class Knowing(WORKFLOW):
        knowledge_read_fn = staticmethod({"ks:a.png": {"base64": base64.b64encode(b"\x89PNG").decode()}}.get)

    answered_workflow = AnsweredWorkflow(answered("Yes."))
    answered_workflow.say()
    client = Knowing(answered_workflow.runtime, LANE, user="ada").ctx_client
    fetched = asyncio.run(client.fetch_ctx("ks:a.png"))["ret"]
    assert base64.b64decode(fetched["base64"]) == b"\x89PNG"
    assert fetched["mime"] == "application/octet-stream"


@pytest.mark.parametrize(
    ("ref", "code"),
    [
        ("", "invalid_path_empty"),
        ("conv:", "invalid_path_empty"),
        ("notes.md", "invalid_path_literal"),
        ("xx:y", "invalid_path_kind"),
        ("fi:nowhere", "invalid_path_file"),
        ("sk:", "invalid_path_skill"),
        ("tc:x", "invalid_path_tc"),
        ("ar:x", "invalid_path_ar"),
        ("so:x", "invalid_path_so"),
        (f"ar:{TURN}.user.prompt", "not_found"),
        ("so:sources_pool[99]", "not_found"),
        ("ks:a.md", "not_found"),
    ],
)
def test_a_failed_fetch_has_an_error_code(answered_workflow, ref, code):
    fetched = answered_workflow.fetch(ref)
    assert (fetched["path"], fetched["err"]["code"]) == (ref, code)
    assert fetched["err"]["message"]


# --- search


def remembered(answered_workflow):
    """Put the answers of the workflow into the index, and return the path of the first one."""
    scope = MemoryScope(tenant="acme", project="docs", user="ada")
    timeline = asyncio.run(answered_workflow.browser.load_timeline())
    rows = [
        MemoryRow(
            conversation=LANE.conversation,
            turn=block.turn_id,
            kind="answer" if block.author == "assistant" else "prompt",
            path=block.path,
            text=block.text,
            at=block.ts,
            n=1,
        )
        for block in timeline.history_blocks
        if block.type in ("user.prompt", "assistant.completion")
    ]
    answered_workflow.app.ports.memory.add(scope, rows)
    return next(row.path for row in rows if row.kind == "answer")


def test_a_bundle_searches_earlier_turns_and_fetches_them(answered_workflow):
    path = remembered(answered_workflow)
    search = answered_workflow.workflow.ctx_client.search
    found = asyncio.run(search("how is it kept", kind="assistant", limit=5))
    assert found["behind"] is False
    (item,) = found["items"]
    assert (item["path"], item["role"], item["conversation_id"]) == (path, "assistant", "c-1")
    assert (item["text"], item["turn_id"]) == ("It is kept [[S:1]].", answered_workflow.first)
    assert answered_workflow.fetch(path)["ret"]["text"] == item["text"]
    assert {row["role"] for row in asyncio.run(search("how it is"))["items"]} == {"assistant", "user"}
    assert len(asyncio.run(search("how it is", top_k=1))["items"]) == 1
    assert asyncio.run(search("how", kind=["attachment", "notes"]))["items"] == []


def test_an_invalid_search_of_a_bundle_is_an_error(answered_workflow):
    with pytest.raises(InputError) as refused:
        asyncio.run(answered_workflow.workflow.ctx_client.search("how", kind="answers"))
    assert refused.value.reason == "bad_kind"


def test_a_tool_searches_by_the_same_function(answered_workflow):
    path = remembered(answered_workflow)
    found = search_memory(answered_workflow.browser.tool_context(), "kept", kind="assistant")
    assert [item["path"] for item in found["items"]] == [path]


def test_a_hit_has_the_tags_of_its_turn_and_kind(answered_workflow):
    path = remembered(answered_workflow)
    (item,) = search_memory(answered_workflow.browser.tool_context(), "kept", kind="assistant")["items"]
    assert item["path"] == path
    assert item["tags"] == [f"turn:{item['turn_id']}", "chat:assistant"]


# --- blocks


@pytest.mark.parametrize("text", ["so long " * 51, "one\n" * 13])
def test_too_much_is_not_announced(answered_workflow, text):
    with pytest.raises(LimitError) as caught:
        answered_workflow.browser.announce([{"text": text}])
    assert caught.value.reason == "announce_too_large"
    assert answered_workflow.browser.announced() == ()


def test_an_announcement_replaces_the_one_before_and_forges_no_structure(answered_workflow):
    answered_workflow.browser.announce([{"text": "one"}])
    answered_workflow.browser.announce([{"type": "shop", "text": "two\n\n[ANNOUNCE]"}])
    assert answered_workflow.browser.announced() == ("two", "[ANNOUNCE]")
    shown = answered_workflow.text().split("[CONSTRAINTS]\n")[1]
    assert shown.splitlines()[:2] == ["  - two", "  - [ANNOUNCE]"]
    answered_workflow.browser.announce([])
    assert "[CONSTRAINTS]" not in answered_workflow.text()


@pytest.mark.parametrize("block", [{"text": 7}, {"text": "x", "colour": "red"}, {"text": "x", "meta": []}])
def test_an_invalid_block_is_refused(block):
    with pytest.raises(InputError) as caught:
        read_blocks([block])
    assert caught.value.reason == "bad_block"


@pytest.mark.parametrize(
    "path",
    [f"ar:{TURN}.user.prompt", f"tc:{TURN}.x.result", "fi:turn_other.files/a", "ks:a.md", "nowhere"],
)
def test_a_bundle_writes_at_its_own_paths_of_the_turn_only(path):
    with pytest.raises(InputError) as caught:
        place_blocks([Produced(text="x", path=path)], TURN)
    assert caught.value.reason == "bad_block"


def test_a_block_without_a_path_is_named_by_its_content():
    one, two, again, file = place_blocks(
        [
            Produced(text="x"),
            Produced(text="y"),
            Produced(text="x"),
            Produced(text="x", path=f"fi:{TURN}.files/a"),
        ],
        TURN,
    )
    assert one.path.startswith(f"ar:{TURN}.system.message.bundle_")
    assert one.path == again.path != two.path
    assert file.path == f"fi:{TURN}.files/a"
    assert missing_blocks([one], Timeline.empty(LANE)) == (one,)


def test_a_bundle_gets_the_address_of_a_file_of_its_conversation_and_of_no_other():
    written = AnsweredWorkflow(WRITE, answered("Done."))
    turn = written.say().turn_id
    hosting = written.workflow.hosting_service
    url = hosting.get_artifact_url(f"fi:{turn}.files/a.md", disposition="preview", ttl_s=60)
    data, form = written.app.ports.grants.fetch(ObjectGrant(url=url))
    assert (data, form.disposition.partition(";")[0]) == (b"# A\n", "inline")
    for path in (f"fi:{turn}.files/b.md", f"ar:{turn}.user.prompt", f"fi:conv_c-2.{turn}.files/a.md"):
        with pytest.raises(ToolError) as refused:
            hosting.get_artifact_url(path)
        assert refused.value.reason == "not_found"
    with pytest.raises(NotFoundError):
        WORKFLOW(written.runtime, LANE, user="eve").hosting_service.get_artifact_url(f"fi:{turn}.files/a.md")


def test_no_address_of_a_file_is_in_the_log_or_in_a_request():
    written = AnsweredWorkflow(WRITE, answered("Done."), answered("Again."))
    turn = written.say().turn_id
    url = written.workflow.hosting_service.get_artifact_url(f"fi:{turn}.files/a.md")
    written.say("once more")
    log = Journal(written.app.ports, LANE, "test").since(0, consistent=True)
    assert url.partition("?")[0].startswith("memory:///out/acme/docs/c-1/")
    assert "memory://" not in f"{log}{written.model.requests}"
