"""Reading back: a path leads to the same bytes for every reader and after every reduction."""

from __future__ import annotations

from typing import Any

from stepline.context.rules import ContextRules
from stepline.ingress.feedback import submit_feedback
from stepline.log.journal import Journal
from stepline.log.timeline_cache import History
from stepline.model.entry import Compacted, Feedback, Pruned, Resulted
from stepline.model.path import parse_path
from stepline.timeline.fold import Timeline
from stepline.tools.content import load_content
from stepline.tools.context import ReadCaps, ToolContext, ToolOutput
from stepline.tools.sources import SourcePool
from tests.support.conversation import LANE, USER, Conversation, text_of, tool
from tests.support.generation import answered, called

LOOK = "test.look"
TALL = "".join(f"{n}: a line of forty characters, or about.\n" for n in range(1, 1001))


class Library(Conversation):
    """A conversation with a small context, which records the content of every path when it was shown."""

    def __init__(self, **context: Any) -> None:
        super().__init__(
            context=ContextRules(**{"keep_turns": 2, "intact_turns": 1, **context}), seal_batches=6
        )
        self.use(tool(LOOK, "pure", lambda context: ToolOutput(blocks=(context.result(LOOK, TALL),))))
        self.seen: dict[str, str] = {}

    def play(self, *script: str) -> str:
        """Run a turn; return its id."""
        self.model.add(*script)
        self.send("go on", id=f"m{len(self.batches())}")
        self.run()
        self.look()
        return self.timeline.turns[-1]

    @property
    def timeline(self) -> Timeline:
        return self.history.load(Journal(self.ports, LANE, "test"))

    def look(self) -> None:
        for piece in self.timeline.pieces:
            if piece.path and piece.path not in self.seen:
                self.seen[piece.path] = self.read(self.timeline, piece.path)

    def read(self, timeline: Timeline, path: str) -> str:
        context = ToolContext(
            lane=LANE,
            turn=timeline.turns[-1],
            call_id="tc_00000000000f",
            iteration=0,
            ts="2026-11-21T10:00:00.000Z",
            artifacts=self.ports.artifacts,
            timeline=timeline,
            caps=ReadCaps(),
            sources=SourcePool(timeline.sources),
        )
        return load_content(parse_path(path), context).text or ""

    def cold(self) -> Timeline:
        """Return the conversation in a process that has not seen it before."""
        return History().load(Journal(self.ports, LANE, "test"), segment=self.state.segment)

    def shown(self) -> str:
        return "".join(piece.text for piece in self.timeline.pieces)


def talked(conversation: Library) -> str:
    """Run a conversation of several turns; return the first one's id."""
    first = conversation.play(
        called("react.write", {"path": "tall.md", "channel": "canvas", "content": TALL}, notes="I write."),
        called("react.plan", {"steps": ["look", "tell"]}),
        called(LOOK),
        answered("seen"),
    )
    conversation.play(called("react.read", {"paths": [f"fi:{first}.outputs/tall.md"]}), answered("read"))
    opinion = Feedback(turn=first, at="", reaction="not_ok", text="too tall")
    submit_feedback(conversation.ports, conversation.history, LANE, opinion, user=USER)
    for _ in range(3):
        conversation.clock.pause(1000)
        conversation.play(called(LOOK), answered("looked"))
    return first


def test_a_new_process_reads_everything_unchanged_after_prunings() -> None:
    conversation = Library()
    first = talked(conversation)
    assert conversation.entries(Pruned)
    assert conversation.state.segment
    assert f"ar:{first}.feedback.latest" in conversation.seen
    cold = conversation.cold()
    assert cold.base > 0
    assert {path: conversation.read(cold, path) for path in conversation.seen} == conversation.seen


def test_a_new_process_reads_everything_unchanged_after_a_compaction() -> None:
    conversation = Library(max_tokens=4_000, keep_turns=20, intact_turns=20, ttl_s=0)
    first = talked(conversation)
    assert [entry.status for entry in conversation.entries(Compacted)].count("completed") > 0
    assert TALL.splitlines()[500] not in conversation.shown()
    cold = conversation.cold()
    assert {path: conversation.read(cold, path) for path in conversation.seen} == conversation.seen
    index = conversation.read(cold, f"ar:{first}.react.turn.index")
    assert f"fi:{first}.outputs/tall.md" in index


def test_compacted_content_is_shown_once_when_it_is_read_again() -> None:
    conversation = Library(max_tokens=4_000, keep_turns=20, intact_turns=20, ttl_s=0)
    first = talked(conversation)
    wanted = called("react.read", {"paths": [f"ar:{first}.assistant.completion"]})
    conversation.play(wanted, wanted, answered("again"))
    once, twice = [entry for entry in conversation.entries(Resulted) if entry.tool_id == "react.read"][-2:]
    assert [block.text for block in once.blocks if block.meta.get("whole")] == ["seen"]
    assert "exists_in_visible_context" in twice.blocks[0].text


def test_hidden_content_is_shown_again_when_it_is_read() -> None:
    conversation = Library()
    conversation.model.add(called(LOOK))
    conversation.send("look")
    conversation.decide()
    conversation.act()
    (looked,) = conversation.entries(Resulted)
    path = f"tc:{conversation.state.turn}.{looked.call_id}.result"
    part = called("react.read", {"paths": [path], "max_text_symbols": 1000})
    conversation.model.add(
        called("react.hide", {"path": path, "replacement": "a thousand lines"}), part, answered("done")
    )
    conversation.drive(conversation.now())
    hidden = next(entry for entry in conversation.entries(Resulted) if entry.hides)
    assert hidden.status == "ok"
    prompts = [text_of(request) for request in conversation.model.requests]
    assert [TALL[:300] in prompt.replace("\n  ", "\n") for prompt in prompts] == [False, True, False, False]
    assert "a thousand lines" in prompts[2]
    assert "\n  5: a line" not in prompts[2]
    assert "[READ PREVIEW]" in prompts[3]
    assert conversation.read(conversation.timeline, path) == TALL
