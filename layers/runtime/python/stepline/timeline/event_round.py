"""What stands in the data of client events: the types of a round, its decision, its actions and their programs.

Source: docs/reference/events.md.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from stepline.model.base import Value
from stepline.timeline.event_data import Doc, EventData

Family: TypeAlias = Literal["react", "external"]


class ToolName(Value):
    """A tool that a decision calls."""

    tool_id: Annotated[str, Doc(description="its name")]
    call_id: Annotated[str, Doc(description="this call's")]


class BundleItem(Value):
    """One action of several."""

    action: Annotated[str, Doc(description="`call_tool`, `complete` or `exit`")]
    tool_id: Annotated[str, Doc(description="of a call")] = ""
    call_id: Annotated[str, Doc(description="of a call")] = ""


class DecisionMade(EventData):
    """The model decided; settles the delta stream `claim`."""

    EVENT = "solver.react.decision"
    ROUTE = "chat_step"

    claim: Annotated[int, Doc(description="the stream in which it was written")]
    iteration: Annotated[int, Doc(description="the round, from 0")]
    action: Annotated[str, Doc(description="`call_tool`, `complete` or `exit`")]
    accepted: Annotated[
        bool,
        Doc(description="false if it broke the protocol, and another round follows, or if it was cut off"),
    ]
    notes: Annotated[str, Doc(description="its progress lines, with links for what they cite")]
    tools: Annotated[list[ToolName], Doc(description="in the order in which they run")]
    interrupted: Annotated[bool, Doc(description="it was cut off on purpose")]
    bundle_size: Annotated[int, Doc(description="how many actions it has, if several")] = 0
    bundle: Annotated[list[BundleItem], Doc(description="one each, if several")] = []  # noqa: RUF012 - of a frozen value, copied by msgspec


class CallStarted(EventData):
    """An accepted action is about to run."""

    EVENT = "react.tool.call"
    ROUTE = "chat_service"

    tool_id: Annotated[str, Doc(description="its name")]
    call_id: Annotated[str, Doc(description="the same in everything about this call")]
    iteration: Annotated[int, Doc(description="the round, from 0")]
    params: Annotated[
        dict[str, Any],
        Doc(
            description="strings up to 120 characters; longer ones and bodies as `{chars}`, nested ones as `{items}`"
        ),
    ]
    tool_family: Annotated[Family, Doc(description="`react` for tools of the runtime itself")]
    phase: Annotated[Literal["started"], Doc(description="of the call")]
    executed: Annotated[bool, Doc(description="false: not yet")]


class CallEnded(EventData):
    """An action ended."""

    EVENT = "react.tool.result"
    ROUTE = "chat_service"

    tool_id: Annotated[str, Doc(description="its name")]
    call_id: Annotated[str, Doc(description="the call's")]
    iteration: Annotated[int, Doc(description="the round, from 0")]
    status: Annotated[
        Literal["ok", "error", "unverified"],
        Doc(description="`unverified`: it may have happened; nobody runs it again"),
    ]
    duration_ms: Annotated[int, Doc(description="how long it took")]
    paths: Annotated[list[str], Doc(description="logical paths of what it produced")]
    preview: Annotated[str, Doc(description="up to 600 characters of it that the user may see")]
    tool_family: Annotated[Family, Doc(description="as above")]
    phase: Annotated[Literal["completed"], Doc(description="of the call")]
    executed: Annotated[
        bool | None,
        Doc(
            description="false if the call was refused, left out for a steer, or its program lost or cancelled, before it "
            "began; null if nobody knows"
        ),
    ]
    code: Annotated[str, Doc(description="why it failed")] = ""


class CallRejected(EventData):
    """A decision broke the protocol, or one action of several was not run."""

    EVENT = "react.tool.rejected"
    ROUTE = "chat_service"

    iteration: Annotated[int, Doc(description="the round, from 0")]
    code: Annotated[str, Doc(description="why; see [channels](channels.md)")]
    phase: Annotated[Literal["rejected"], Doc(description="of the call")]
    executed: Annotated[bool, Doc(description="always false")]
    action_index: Annotated[int, Doc(description="which of several actions, from 1; the others run")] = 0
    tool_id: Annotated[str, Doc(description="the tool it would have called, if that is known")] = ""
    parent_tool_call_id: Annotated[str, Doc(description="the call it would have been")] = ""


class Noticed(EventData):
    """The runtime corrected an accepted decision."""

    EVENT = "react.notice"
    ROUTE = "chat_service"

    iteration: Annotated[int, Doc(description="the round, from 0")]
    code: Annotated[str, Doc(description="what; see [channels](channels.md)")]


class ToolTold(EventData):
    """A tool told the user something on its way."""

    EVENT = "react.tool.event"
    ROUTE = "chat_service"

    tool_id: Annotated[str, Doc(description="its name")]
    call_id: Annotated[str, Doc(description="the call's")]
    type: Annotated[str, Doc(description="the tool's own word")]
    data: Annotated[dict[str, Any], Doc(description="the tool's own")]


class SearchFiltered(EventData):
    """A search kept these results."""

    EVENT = "web_search.filtered_results"
    ROUTE = "chat_step"

    search_id: Annotated[str, Doc(description="the search's")]
    objective: Annotated[str, Doc(description="what it was for")]
    queries: Annotated[list[str], Doc(description="what was asked")]
    results: Annotated[list[dict[str, Any]], Doc(description="a source each, the best first")]
    tool_id: Annotated[str, Doc(description="the tool's")]
    call_id: Annotated[str, Doc(description="the call's")]


class ProgramText(EventData):
    """A program is about to run."""

    ROUTE = "chat_step"

    execution_id: Annotated[str, Doc(description="the call's, in everything about this run")]
    text: Annotated[str, Doc(description="as it is")]


class ProgramObjective(ProgramText):
    """A program is about to run: what it is for."""

    EVENT = "code_exec.objective"


class ProgramName(ProgramText):
    """A program is about to run: its name."""

    EVENT = "code_exec.program.name"


class ProgramCode(ProgramText):
    """A program is about to run: its source."""

    EVENT = "code_exec.code"

    language: Annotated[str, Doc(description="`python`")]


class PromisedFile(Value):
    """A file that a program promises."""

    filename: Annotated[str, Doc(description="as the model wrote it")] = ""
    description: Annotated[str, Doc(description="what it holds")] = ""
    visibility: Annotated[str, Doc(description="`internal` if it is not for the user")] = ""


class ProgramContract(EventData):
    """A program is about to run: what it promises."""

    EVENT = "code_exec.contract"
    ROUTE = "chat_step"

    execution_id: Annotated[str, Doc(description="the call's")]
    contract: Annotated[list[PromisedFile], Doc(description="a file each")]


class ErrorCode(Value):
    """Why something failed."""

    code: Annotated[str, Doc(description="see [execution](execution.md#errors)")]


class ProgramTimings(Value):
    """How long a program took."""

    exec: Annotated[int, Doc(description="its run, in ms")]


class ProgramStatus(EventData):
    """A program started, or its run ended."""

    EVENT = "code_exec.status"
    ROUTE = "chat_step"

    execution_id: Annotated[str, Doc(description="the call's")]
    status: Annotated[Literal["exec", "done", "error"], Doc(description="how it stands")]
    deadline: Annotated[str, Doc(description="at the start: when it ends at the latest")] = ""
    timings: Annotated[ProgramTimings | None, Doc(description="at the end")] = None
    error: Annotated[ErrorCode | None, Doc(description="if it failed")] = None


class PlanShown(EventData):
    """A plan changed."""

    EVENT = "react.plan"
    ROUTE = "chat_step"

    plan_id: Annotated[str, Doc(description="the same in every version of it")]
    steps: Annotated[list[str], Doc(description="in order")]
    status: Annotated[
        dict[str, str],
        Doc(description="by step number, from 1: `pending`, `in_progress`, `done` or `failed`"),
    ]
    current: Annotated[bool, Doc(description="whether it is the one to follow")]
    open: Annotated[bool, Doc(description="whether it still asks for work")]


class OfferedFile(Value):
    """A file for the user."""

    logical_path: Annotated[str, Doc(description="its place in the conversation")]
    filename: Annotated[str, Doc(description="the last part of it")]
    mime: Annotated[str, Doc(description="its type")]
    size_bytes: Annotated[int, Doc(description="its size")]


class FilesOffered(EventData):
    """An action wrote files for the user."""

    EVENT = "chat.files"
    ROUTE = "chat_step"

    count: Annotated[int, Doc(description="how many")]
    items: Annotated[list[OfferedFile], Doc(description="a file each")]
