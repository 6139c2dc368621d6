"""Logical paths as values: what a path says once it is read. `stepline.model.path` reads and prints them."""

from __future__ import annotations

from typing import Literal, TypeAlias

from stepline.model.base import Value

Space = Literal["files", "outputs"]


class FilePath(Value):
    """A file of a turn's workspace: `files` is the project, `outputs` is what was produced."""

    turn: str
    space: Space
    rel: str

    def __str__(self) -> str:
        return f"fi:{self.turn}.{self.space}/{self.rel}"


class AttachmentPath(Value):
    """A file that came with a message: the user's, or that of an external event of `kind`."""

    turn: str
    name: str
    kind: str = ""
    message_id: str = ""

    def __str__(self) -> str:
        if self.kind:
            return f"fi:{self.turn}.external.{self.kind}.attachments/{self.message_id}/{self.name}"
        return f"fi:{self.turn}.user.attachments/{self.name}"


class CodePath(Value):
    """Source of generated code, by the call that ran it. Kept in the log; no file of a workspace."""

    turn: str
    call: str

    def __str__(self) -> str:
        return f"fi:{self.turn}.code.{self.call}"


class TurnPath(Value):
    """Something that happened in a turn (`ar`), a range summary (`su`) or a working summary (`ws`)."""

    family: Literal["ar", "su", "ws"]
    turn: str
    name: str

    def __str__(self) -> str:
        return f"{self.family}:{self.turn}.{self.name}"


class PlanPath(Value):
    """The newest snapshot of a plan, whichever turn wrote it."""

    plan: str

    def __str__(self) -> str:
        return f"ar:plan.latest:{self.plan}"


class CallPath(Value):
    """A tool call, what came of it, or a view: `view.<i>` shows a part of another path."""

    turn: str
    call: str
    part: str

    def __str__(self) -> str:
        return f"tc:{self.turn}.{self.call}.{self.part}"


class SourcesPath(Value):
    """Rows of the sources pool as inclusive ranges of sids; none: the whole pool."""

    ranges: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        picked = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in self.ranges)
        return f"so:sources_pool[{picked}]" if picked else "so:sources_pool"


class SkillPath(Value):
    """A skill: `<namespace>.<id>`, a number of the rendered list (`SK3`), or `hidden-guidance-<10 hex>`."""

    skill: str

    def __str__(self) -> str:
        return f"sk:{self.skill}"


class KnowledgePath(Value):
    """A file of the knowledge space; the bundle defines what lies below."""

    rel: str

    def __str__(self) -> str:
        return f"ks:{self.rel}"


LogicalPath: TypeAlias = (
    FilePath
    | AttachmentPath
    | CodePath
    | TurnPath
    | PlanPath
    | CallPath
    | SourcesPath
    | SkillPath
    | KnowledgePath
)
