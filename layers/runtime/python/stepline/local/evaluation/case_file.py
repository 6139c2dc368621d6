"""Read the cases of an evaluation set: one YAML file each. An error names the file, the line and the key.

Source: docs/how-to/evaluate.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NoReturn, TypeAlias

import msgspec
import yaml

from stepline.errors import InputError
from stepline.ingress.fork import ForkPoint, PointKind
from stepline.model.base import Value
from stepline.model.ids import SEGMENT
from stepline.settings import TABLE

INVALID: Final = "case_invalid"
CASE_BYTES: Final = 64 * 1024
"""The maximum size of one file."""
CASES_MAX: Final = 1_000
VALUES_MAX, DEPTH_MAX = 10_000, 40
"""Limits of one file; a value that an alias repeats counts each time."""
TOO_MUCH: Final = f"more than {VALUES_MAX:,} values, or {DEPTH_MAX} levels"
SUFFIXES: Final = (".yaml", ".yml")
FILES_FOLDER: Final = "files"
CASE_FOLDERS: Final = (".files", ".history")
RECORDING: Final = ".recording.json"
RECORD: Final = ".zip"

Share: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]


class _Part(Value, forbid_unknown_fields=True):
    """A mapping of a case file, without other keys."""


class PastCall(_Part):
    """A call of an earlier turn, which runs before the case begins."""

    tool: Text
    params: dict[str, Any] = msgspec.field(default_factory=dict)


class PastTurn(_Part):
    """An earlier turn: the message, the calls that the agent made, and its answer, word for word."""

    message: Text
    answer: Text
    files: tuple[str, ...] = ()
    calls: tuple[PastCall, ...] = ()


class Meanwhile(_Part):
    """An event during a turn, after the decision of a round: a steer, a stop, or another message."""

    after_round: Number
    steer: str = ""
    stop: bool = False
    message: str = ""


class CaseStep(_Part):
    """A message to send, or the answer to the call that waits: `approve`, `deny` and `edit` name its tool.

    `text` is a reason for the agent, `params` replace those of an edited call.
    """

    message: str = ""
    files: tuple[str, ...] = ()
    meanwhile: tuple[Meanwhile, ...] = ()
    approve: str = ""
    deny: str = ""
    edit: str = ""
    text: str = ""
    params: dict[str, Any] | None = None


class Called(_Part):
    """Calls of a tool. `params` are those that it has at least; without `times` there is one or more."""

    tool: Text
    params: dict[str, Any] = msgspec.field(default_factory=dict)
    times: Annotated[int, msgspec.Meta(ge=0)] | None = None
    status: Literal["ok", "error", "unverified"] | None = None


class TextRules(_Part):
    """Rules for a text: `matches` are expressions of RE2; `schema` is of its JSON value."""

    contains: tuple[Text, ...] = ()
    excludes: tuple[Text, ...] = ()
    matches: tuple[Text, ...] = ()
    schema: dict[str, Any] | None = None


class FileRules(TextRules, kw_only=True):
    """Rules for a file that the agent has written, the newest one of this name or pattern."""

    name: Text


class Bounds(_Part):
    """A number's bounds, inclusive."""

    min: float | None = None
    max: float | None = None


class CaseCheck(_Part):
    """One check, of all turns of the case's steps, or of one of them (`turn`, from 1). Only one of the others is set.

    `cites` are parts of paths or addresses of sources that the answer cites. `judge` is a sentence that must be true,
    which a model decides. The answer, its sources and the outcome are those of the last turn; compactions are counted
    since the conversation began.
    """

    turn: Number | None = None
    called: Called | None = None
    not_called: Text | None = None
    file: FileRules | None = None
    cites: tuple[Text, ...] | None = None
    answer: TextRules | None = None
    outcome: Literal["completed", "stopped", "parked", "error"] | None = None
    rounds: Bounds | None = None
    usd: Bounds | None = None
    tokens: Bounds | None = None
    notices: Bounds | None = None
    compactions: Bounds | None = None
    judge: Text | None = None

    @property
    def kind(self) -> str:
        """The name of the field that is set."""
        return next(name for name in CHECKS if getattr(self, name) is not None)


BOUNDED: Final = ("rounds", "usd", "tokens", "notices", "compactions")
_VARIABLES: Final = {row.variable for row in TABLE.values()}
CHECKS: Final = tuple(name for name in CaseCheck.__struct_fields__ if name != "turn")
"""The kinds of checks."""


class Survival(_Part):
    """The minimum share of the canaries of each type that survive."""

    safety_rule: Share = 0.0
    hard_constraint: Share = 0.0
    fact: Share = 0.0
    goal_state: Share = 0.0
    user_preference: Share = 0.0


class Canaries(_Part):
    """A session of `compaction-conformance-kit`, compacted `rounds` times; `survive` is what is left at the end.

    Without a `seed` it is the kit's own session.
    """

    survive: Survival
    rounds: Annotated[int, msgspec.Meta(ge=1, le=20)] = 2
    seed: int | None = None


class StartPoint(_Part):
    """The place in a conversation at which a case begins: after a batch, turn, round or message, or `before` it."""

    batch: Number | None = None
    turn: Text | None = None
    round: Number | None = None
    message: Text | None = None
    before: bool = False

    @property
    def fork_point(self) -> ForkPoint:
        """The place as one of a fork."""
        kind: PointKind = next(name for name in POINTS if getattr(self, name) is not None)
        return ForkPoint(kind=kind, at=str(getattr(self, kind)), before=self.before)


POINTS: Final[tuple[PointKind, ...]] = ("batch", "turn", "round", "message")


class StartConversation(_Part):
    """A conversation that a case continues, as a fork: a record's file, or one of the local stage; without `at` its end."""

    source: Annotated[str, msgspec.Meta(min_length=1)] = msgspec.field(name="from")
    at: StartPoint | None = None

    @property
    def is_file(self) -> bool:
        """True for the path of a record."""
        return self.source.endswith(RECORD)


class Case(_Part):
    """A case. `bundle`, a module, and `settings`, variables, come before those of the command."""

    about: Text
    bundle: str = ""
    user: Text = "tester"
    settings: dict[str, Any] = msgspec.field(default_factory=dict)
    history: str = ""
    conversation: StartConversation | None = None
    so_far: tuple[PastTurn, ...] = ()
    steps: tuple[CaseStep, ...] = ()
    checks: tuple[CaseCheck, ...] = ()
    canaries: Canaries | None = None


@dataclass(frozen=True, kw_only=True)
class CaseFile:
    """A case, its name in the set, and the folder of the files that it names. `error` is set in place of a broken case.

    `lines` has the line of each key.
    """

    name: str
    path: Path
    case: Case | None = None
    error: str = ""
    lines: Mapping[str, int] = field(default_factory=dict)

    def place(self, key: str) -> str:
        """Return the file, the line and the name of a key, as the beginning of a sentence."""
        return f"{self.path}, line {self.lines.get(key, 1)}: `{key}`"

    @property
    def recording(self) -> Path:
        """The file of the model's answers to this case."""
        return self.path.with_suffix(RECORDING)

    @property
    def folder(self) -> Path:
        """The folder that its paths begin in."""
        return self.path.parent


def find_cases(place: Path) -> list[CaseFile]:
    """Return the cases of a folder and of those below it, or the case in one file; a broken one has its error.

    Raises InputError `cases_not_found`, `case_invalid` if there are too many.
    """
    files = [place] if place.is_file() else sorted(filter(partial(_is_case, place), place.rglob("*")))
    if not files:
        raise InputError(f"{place} has no cases: files that end in .yaml", code="cases_not_found")
    if len(files) > CASES_MAX:
        raise InputError(f"{place} has more than {CASES_MAX} cases", code=INVALID)
    top = place.parent if place.is_file() else place
    return [_find_case(path, path.relative_to(top).with_suffix("").as_posix()) for path in files]


def _is_case(top: Path, path: Path) -> bool:
    """Return True for a YAML file, but for those in folders of a case's files: `files`, `NAME.files`, `NAME.history`."""
    above = path.relative_to(top).parts[:-1]
    inside = any(name == FILES_FOLDER or name.endswith(CASE_FOLDERS) for name in above)
    return path.suffix in SUFFIXES and path.is_file() and not inside


def _find_case(path: Path, name: str) -> CaseFile:
    try:
        written = _WrittenCase(path)
        return CaseFile(name=name, path=path, case=_convert(written, path.parent), lines=written.lines)
    except InputError as error:
        return CaseFile(name=name, path=path, error=f"{error.reason}: {error}")


def read_case(path: Path) -> Case:
    """Return the case of a file. Raises InputError `case_invalid` with the file, the line and the key."""
    return _convert(_WrittenCase(path), path.parent)


def _convert(written: _WrittenCase, folder: Path) -> Case:
    try:
        case = msgspec.convert(written.value, Case)
    except msgspec.ValidationError as error:
        written.refuse(*_explain(str(error)))
    for key, why in _problems(case, folder):
        written.refuse(key, why)
    return case


def _explain(message: str) -> tuple[str, str]:
    """Return the key of an error of msgspec, and the reason."""
    said, _, at = message.partition(" - at `")
    key = at.removesuffix("`").removeprefix("key in ").removeprefix("$").removeprefix(".")
    if found := re.fullmatch(r"Object contains unknown field `(.*)`", said, re.DOTALL):
        return ".".join(filter(None, (key, found[1]))), "is not a key of a case"
    if found := re.fullmatch(r"Object missing required field `(.*)`", said, re.DOTALL):
        return key, f"lacks `{found[1]}`"
    return key, f"is invalid: {said[:1].lower()}{said[1:]}"


def _problems(case: Case, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield each key of a case with an error that its type does not show."""
    if case.canaries and (case.steps or case.checks):
        yield "canaries", "is a whole case: it has no steps and no checks"
    elif not case.canaries and not (case.steps and case.checks):
        yield "", "needs `steps` and `checks`"
    for name, value in case.settings.items():
        if name not in _VARIABLES or not isinstance(value, str):
            yield f"settings.{name}", "is not a variable with a text"
    yield from _check_so_far(case, folder)
    for at, step in enumerate(case.steps):
        yield from _check_step(step, f"steps[{at}]", folder)
    for at, check in enumerate(case.checks):
        yield from _check_check(check, f"checks[{at}]", len(case.steps))


def _check_so_far(case: Case, folder: Path) -> Iterator[tuple[str, str]]:
    if case.history:
        yield from _check_files((case.history,), "history", folder, indexed=False)
    if case.conversation:
        yield from _check_start(case.conversation, folder)
        if case.history or case.canaries:
            yield "conversation", "is instead of `history` and `canaries`"
    for at, past in enumerate(case.so_far):
        yield from _check_files(past.files, f"so_far[{at}].files", folder)


def _check_start(start: StartConversation, folder: Path) -> Iterator[tuple[str, str]]:
    if start.is_file:
        yield from _check_files((start.source,), "conversation.from", folder, indexed=False)
    elif not SEGMENT.fullmatch(start.source):
        yield "conversation.from", f"is no conversation, and no record: a file that ends in {RECORD}"
    if start.at is not None:
        yield from _one_of(start.at, POINTS, "conversation.at")


def _check_step(step: CaseStep, where: str, folder: Path) -> Iterator[tuple[str, str]]:
    yield from _one_of(step, ("message", "approve", "deny", "edit"), where)
    yield from _check_files(step.files, f"{where}.files", folder)
    if (step.files or step.meanwhile) and not step.message:
        yield where, "has files or events without a message"
    if (step.params is not None) != bool(step.edit):
        yield where, "needs `params` with `edit`, and only there"
    for nth, event in enumerate(step.meanwhile):
        yield from _one_of(event, ("steer", "stop", "message"), f"{where}.meanwhile[{nth}]")


def _one_of(part: Any, names: Sequence[str], where: str) -> Iterator[tuple[str, str]]:
    if sum(getattr(part, name) not in ("", False, None) for name in names) != 1:
        yield where, f"needs one of {', '.join(f'`{name}`' for name in names)}"


def _check_files(
    names: Sequence[str], key: str, folder: Path, *, indexed: bool = True
) -> Iterator[tuple[str, str]]:
    for at, name in enumerate(names):
        where, path = f"{key}[{at}]" if indexed else key, folder / name
        if not path.resolve().is_relative_to(folder.resolve()):
            yield where, "leads out of the folder of its case"
        elif not path.exists():
            yield where, f"names {name!r}, which does not exist"


def _check_check(check: CaseCheck, where: str, turns: int) -> Iterator[tuple[str, str]]:
    yield from _one_of_set(check, where)
    if check.turn and check.turn > turns:
        yield f"{where}.turn", f"is more than the {turns} steps"
    for kind in ("answer", "file"):
        if isinstance(rules := getattr(check, kind), TextRules):
            yield from _check_rules(rules, f"{where}.{kind}")
    for kind in BOUNDED:
        if isinstance(bounds := getattr(check, kind), Bounds) and bounds == Bounds():
            yield f"{where}.{kind}", "needs `min` or `max`"


def _one_of_set(check: CaseCheck, where: str) -> Iterator[tuple[str, str]]:
    if sum(getattr(check, name) is not None for name in CHECKS) != 1:
        yield where, f"needs one of {', '.join(f'`{name}`' for name in CHECKS)}"


def _check_rules(rules: TextRules, where: str) -> Iterator[tuple[str, str]]:
    from stepline.errors import ToolError
    from stepline.tools.workfiles.rg import compile_expression

    if not isinstance(rules, FileRules) and rules == TextRules():
        yield where, "needs a rule"
    for at, expression in enumerate(rules.matches):
        try:
            compile_expression(expression)
        except ToolError as error:
            yield f"{where}.matches[{at}]", f"is invalid: {error}"
    if rules.schema is not None:
        import fastjsonschema

        from stepline.tools.spec import compile_schema

        try:
            compile_schema(rules.schema, whole="the value")
        except (fastjsonschema.JsonSchemaDefinitionException, ValueError, TypeError, AttributeError) as error:
            yield f"{where}.schema", f"is invalid: {error}"


# --- YAML with lines


class _WrittenCase:
    """The value of a YAML file, and the line of each key and item by its path, as msgspec writes it."""

    def __init__(self, path: Path) -> None:
        self._path, self.lines, self._values = path, {"": 1}, 0
        self.value = self._build(self._compose(), "", 0)

    def refuse(self, key: str, why: str) -> NoReturn:
        """Raise InputError `case_invalid` at a key, or at the nearest one around it."""
        line, shown = self.lines.get(key), key
        while line is None and shown:
            shown = re.sub(r"(\.[^.\[]*|\[[^\[]*|^[^.\[]*)\Z", "", shown)
            line = self.lines.get(shown)
        named = f"`{key[:200]}` {why}" if key else f"the case {why}"
        raise InputError(f"{self._path}, line {line or 1}: {named[:600]}", code=INVALID)

    def _compose(self) -> yaml.Node | None:
        """Return the root of the document. Raises InputError `case_invalid`."""
        try:
            with self._path.open("rb") as file:
                text = file.read(CASE_BYTES + 1)
            if len(text) > CASE_BYTES:
                self.refuse("", f"has more than {CASE_BYTES} bytes")
            loader = _Loader(text)
            try:
                return loader.get_single_node()
            finally:
                loader.dispose()
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            self.lines[""] = mark.line + 1 if mark else 1
            self.refuse("", f"is not YAML: {error.problem}")
        except (yaml.YAMLError, UnicodeError) as error:
            self.refuse("", f"is not YAML: {str(error).partition(chr(10))[0]}")
        except OSError as error:
            self.refuse("", f"cannot be read: {error.strerror}")

    def _build(self, node: yaml.Node | None, path: str, depth: int) -> Any:
        self._values += 1
        if node is not None:
            self.lines.setdefault(path, node.start_mark.line + 1)
        if self._values > VALUES_MAX or depth > DEPTH_MAX:
            self.refuse("", f"has {TOO_MUCH}")
        match node:
            case yaml.MappingNode():
                return dict(self._pairs(node, path, depth))
            case yaml.SequenceNode():
                return [self._build(one, f"{path}[{at}]", depth + 1) for at, one in enumerate(node.value)]
            case yaml.ScalarNode():
                return self._scalar(node, path)
            case _:
                return None

    def _pairs(self, node: yaml.MappingNode, path: str, depth: int) -> Iterator[tuple[str, Any]]:
        seen = set()
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else ""
            where = ".".join(filter(None, (path, str(name))))
            self.lines[where] = key.start_mark.line + 1
            if key.tag != "tag:yaml.org,2002:str":
                self.refuse(where, "is not a text")
            if name in seen:
                self.refuse(where, "is there twice")
            seen.add(name)
            yield name, self._build(value, where, depth + 1)

    def _scalar(self, node: yaml.ScalarNode, path: str) -> Any:
        make = _SCALARS.get(node.tag.removeprefix("tag:yaml.org,2002:"))
        if make is None:
            return node.value  # a date is its text
        try:
            return make(yaml.constructor.SafeConstructor(), node)
        except (ValueError, KeyError, yaml.YAMLError):
            self.refuse(path, "is no value of YAML")


class _Loader(yaml.SafeLoader):
    """The loader in Python: it ends a document of many levels or values early, not in the stack."""

    depth = 0
    nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.depth += 1
        self.nodes += 1
        if self.depth > DEPTH_MAX or self.nodes > VALUES_MAX:
            raise yaml.composer.ComposerError(None, None, TOO_MUCH, self.get_mark())
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node


_SCALARS: Final[Mapping[str, Any]] = {
    "null": yaml.constructor.SafeConstructor.construct_yaml_null,
    "bool": yaml.constructor.SafeConstructor.construct_yaml_bool,
    "int": yaml.constructor.SafeConstructor.construct_yaml_int,
    "float": yaml.constructor.SafeConstructor.construct_yaml_float,
}
