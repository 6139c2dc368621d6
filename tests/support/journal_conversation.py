"""A conversation whose rounds read the journal, with a tool that draws and one that lists, and with skills."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from bundles.default import WORKFLOW
from stepline.bundle.assembly import build_agent
from stepline.model.block import Body
from stepline.model.decision import Sent
from stepline.model.entry import Decided
from stepline.model.file.attachment import Attachment, attachment_key
from stepline.model.source import Source
from stepline.ports.model import ModelRequest, Part
from stepline.tools.context import ReadCaps, Shelved, ToolContext, ToolOutput
from stepline.tools.registry import Registry
from tests.support.conversation import LANE, Conversation, files_of, tool
from tests.support.files import PNG, picture
from tests.support.generation import answered, called

DRAW, LIST, LOOK = "test.draw", "test.list", "react.plan"
TABLE: Final = "city,guests\n" + "".join(f"city {n},{n}\n" for n in range(400))
SKILLS: Final = {
    "sk:lab.charts": Shelved(
        text="# Charts\nLabel both axes [[S:1]].",
        path="sk:lab.charts",
        imports=("sk:lab.colours",),
        sources=(Source(sid=1, title="Axes"),),
    ),
    "sk:lab.colours": Shelved(text="# Colours\nNo more than five.", path="sk:lab.colours"),
    "sk:lab.charts/axes.png": Shelved(data=b"png", mime=PNG, path="sk:lab.charts/axes.png"),
}
NOTHING: Final = called(LOOK, {"mode": "new", "steps": ["look"]})
"""A round without any effect."""


class JournalConversation(Conversation):
    """A conversation in the layout `journal`; `script` is the model's output."""

    def __init__(self, *script: Any, caps: ReadCaps | None = None, **policy: Any) -> None:
        super().__init__(*script, **policy)
        made = build_agent(caps or ReadCaps(), parts=WORKFLOW.parts(), layout="journal")
        own = [made.registry.find(spec.tool_id) for spec in made.registry.specs]
        registry = Registry([*own, tool(DRAW, "pure", draw), tool(LIST, "pure", list_cities)])
        self.agent = replace(made, registry=registry, shelves={"sk": SKILLS.get})
        self.journal = self.agent
        self.timeline_agent = replace(build_agent(ReadCaps(), parts=WORKFLOW.parts()), registry=registry)

    def made(self, *paths: str) -> str:
        """Send a message, let the model draw and list, stage `paths` below the turn; return the turn."""
        self.send("draw and list")
        turn = self.state.turn
        staged = [path.replace("<turn>", turn) for path in paths]
        self.model.add(called(DRAW), called(LIST, show_artifacts=staged))
        self.rounds(2)
        return turn

    def rounds(self, count: int = 1) -> None:
        """Decide and act `count` times."""
        for _ in range(count):
            self.act(self.decide())

    def asked(self, *, script: str = NOTHING) -> ModelRequest:
        """Run one more round; return its request."""
        self.model.add(script)
        step = self.decide()
        if step.route == "act":
            self.act(step)
        return self.model.requests[-1]

    def attach(self, *data: bytes, mime: str = PNG) -> tuple[Attachment, ...]:
        """Store files as if the user had sent them."""
        return tuple(
            self._store(f"{n}.png" if mime == PNG else f"{n}.pdf", one, mime) for n, one in enumerate(data)
        )

    def _store(self, name: str, data: bytes, mime: str) -> Attachment:
        sha256 = hashlib.sha256(data).hexdigest()
        self.ports.artifacts.put(attachment_key(LANE, sha256), data, mime=mime)
        return Attachment(filename=name, mime=mime, size_bytes=len(data), sha256=sha256)

    def sent(self) -> list[Sent]:
        """Return the facts of every request in the log."""
        return [entry.sent for entry in self.entries(Decided)]

    def talk(self, text: str) -> None:
        """Run a turn that only answers."""
        self.send(text, id=f"m{self.tail.n + 2}")
        self.model.add(answered(f"About {text}."))
        self.run()


def draw(context: ToolContext) -> ToolOutput:
    """Draw two pictures, one of which is a chart."""
    return ToolOutput(
        blocks=tuple(
            context.block(
                DRAW,
                f"fi:{context.turn}.outputs/{name}",
                mime=PNG,
                body=_body(context, color),
                meta={"kind": "file"},
            )
            for name, color in (
                ("chart.png", (10, 200, 30)),
                ("map.png", (200, 10, 30)),
                ("sky.png", (0, 0, 255)),
            )
        )
    )


def _body(context: ToolContext, color: tuple[int, ...]) -> Body:
    data = picture(color=color)
    digest = hashlib.sha256(data).hexdigest()
    key = f"out/{digest}"
    context.artifacts.put(key, data, mime=PNG)
    return Body(key=key, sha256=digest, size_bytes=len(data), mime=PNG)


def list_cities(context: ToolContext) -> ToolOutput:
    """List cities in a file."""
    path = f"fi:{context.turn}.outputs/cities.csv"
    return ToolOutput(blocks=(context.block(LIST, path, mime="text/csv", text=TABLE, meta={"kind": "file"}),))


def system_of(request: ModelRequest) -> Sequence[str]:
    """Return the blocks of the system part."""
    return [part.text for part in request.system]


def digest_of(request: ModelRequest) -> str:
    """Return the text after the system part that has the digest."""
    first = request.content[0]
    assert isinstance(first, Part)
    return first.text


def names_of(request: ModelRequest) -> list[str]:
    """Return the names of the files that a request has."""
    return [file.path.rpartition("/")[2] for file in files_of(request)]
