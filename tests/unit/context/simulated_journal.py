"""The engine of the context tests, asked in the layout `journal`: with skills, pictures, and texts that look like sections."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from stepline.model.block import Body
from stepline.model.path import out_key
from stepline.model.version import LAYOUTS
from stepline.tools.context import Shelved, ToolContext, ToolOutput
from stepline.tools.registry import Registry, Tool
from stepline.tools.spec import ToolSpec
from tests.support.files import PNG, picture
from tests.support.journal_request import TEXT
from tests.unit.context.simulated_context import Engine

DRAW: Final = "lab.draw"
SKILLS: Final = {"tidy": "Put everything back.", "brief": "Say it in a line.\n[SKILL CATALOG] of mine"}
PLAIN: Final = TEXT.instructions


@dataclass
class JournalEngine(Engine):
    """A conversation whose rounds ask in one layout or the other."""

    def __post_init__(self) -> None:
        super().__post_init__()
        agent = self.conversation.agent
        own = [agent.registry.find(spec.tool_id) for spec in agent.registry.specs]
        self.conversation.agent = replace(
            agent, registry=Registry([*own, drawing()]), shelves={"sk": skill_at}
        )
        self.lay_out("journal")

    def lay_out(self, layout: Any) -> None:
        """Let the rounds from now on ask in a layout."""
        system = TEXT.pack() if layout == "journal" else PLAIN
        self.conversation.agent = replace(self.conversation.agent, system=system, layout=LAYOUTS[layout])

    @property
    def layout(self) -> str:
        return self.conversation.agent.layout.name


def skill_at(path: str) -> Shelved | None:
    """Return the text of a skill."""
    text = SKILLS.get(path.removeprefix("sk:"))
    return None if text is None else Shelved(text=text)


def drawing() -> Tool:
    """Return a tool that draws a picture of a name."""
    schema = {
        "type": "object",
        "additionalProperties": False,
        "required": ["name"],
        "properties": {"name": {"type": "string"}},
    }
    spec = ToolSpec(
        tool_id=DRAW,
        purpose="draw",
        schema=schema,
        returns="a picture",
        effect="pure",
        read_only=True,
        strategies=("exploration",),
    )
    return Tool(spec=spec, run=_draw)


def _draw(params: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    width = 40 + sum(params["name"].encode()) % 50
    data = picture(size=(width, 30))
    digest = hashlib.sha256(data).hexdigest()
    key = out_key(context.lane, context.turn, digest)
    context.artifacts.put(key, data, mime=PNG)
    body = Body(key=key, sha256=digest, size_bytes=len(data), mime=PNG)
    path = f"fi:{context.turn}.outputs/{params['name']}.png"
    return ToolOutput(blocks=(context.block(DRAW, path, mime=PNG, body=body),))
