"""Logical paths: the grammar of the names of blocks and files, its parser and its printer.

    fi:<turn>.files/<rel>                                   the durable project
    fi:<turn>.outputs/<rel>                                 what the agent produced
    fi:<turn>.user.attachments/<name>
    fi:<turn>.external.<kind>.attachments/<message>/<name>
    fi:<turn>.code.<call>                                   source of generated code
    ar:<turn>.<name>                                        an event of a turn, by name
    ar:plan.latest:<plan>                                   the newest snapshot of a plan
    tc:<turn>.<call>.{call,result,notice[.<n>],view.<i>}
    so:sources_pool[<sids>]     su:<turn>.conv.range.summary[.<n>]     ws:<turn>.conv.working.summary[.attempt.<n>]
    sk:<skill>[/<rel>]          ks:<rel>                    <namespace>:<rel>
    {ar,tc,fi,su,ws}:conv_<conversation>.<the rest of a path above>     the same in another conversation

Every pattern is matched against the whole text. A turn is one segment and the namespace follows it, so no text deeper
in a path is ever taken for either. Nothing is looked up and nothing is repaired: a path is accepted unchanged (after
Unicode NFC, and without the prefix `conv:`) or refused with a PathError. A namespace belongs to a bundle, and is
accepted if its name is passed to the parser.

Source: docs/reference/paths.md.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection
from typing import Final, Literal, TypeAlias

from stepline.errors import PathError
from stepline.model.base import Value
from stepline.model.ids import SEGMENT, TURN, Lane, check_segment
from stepline.model.traversal import check_relative, clean_text, refuse_path

Space = Literal["files", "outputs"]


class FilePath(Value):
    """A file of a turn's workspace: `files` is the project, `outputs` the produced files."""

    turn: str
    space: Space
    rel: str

    def __str__(self) -> str:
        return f"fi:{self.turn}.{self.space}/{self.rel}"


class AttachmentPath(Value):
    """An attachment of a message: the user's, or that of an external event of `kind`."""

    turn: str
    name: str
    kind: str = ""
    message_id: str = ""

    def __str__(self) -> str:
        if self.kind:
            return f"fi:{self.turn}.external.{self.kind}.attachments/{self.message_id}/{self.name}"
        return f"fi:{self.turn}.user.attachments/{self.name}"


class CodePath(Value):
    """Source of generated code, by the call that ran it. Kept in the log; not a file of a workspace."""

    turn: str
    call: str

    def __str__(self) -> str:
        return f"fi:{self.turn}.code.{self.call}"


class TurnPath(Value):
    """An event of a turn (`ar`), a range summary (`su`) or a working summary (`ws`)."""

    family: Literal["ar", "su", "ws"]
    turn: str
    name: str

    def __str__(self) -> str:
        return f"{self.family}:{self.turn}.{self.name}"


class PlanPath(Value):
    """The newest snapshot of a plan, from any turn."""

    plan: str

    def __str__(self) -> str:
        return f"ar:plan.latest:{self.plan}"


class CallPath(Value):
    """A tool call, its result, or a view: `view.<i>` shows a part of another path."""

    turn: str
    call: str
    part: str

    def __str__(self) -> str:
        return f"tc:{self.turn}.{self.call}.{self.part}"


class SourcesPath(Value):
    """Rows of the sources pool as inclusive ranges of sids; without any, the whole pool."""

    ranges: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        picked = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in self.ranges)
        return f"so:sources_pool[{picked}]" if picked else "so:sources_pool"


class SkillPath(Value):
    """A skill: `<namespace>.<id>`, a number of the rendered list (`SK3`), or `hidden-guidance-<10 hex>`.

    `rel` is a file of its folder; "" is the skill itself.
    """

    skill: str
    rel: str = ""

    def __str__(self) -> str:
        return f"sk:{self.skill}/{self.rel}" if self.rel else f"sk:{self.skill}"


class KnowledgePath(Value):
    """A file of the knowledge space, whose content the bundle defines."""

    rel: str

    def __str__(self) -> str:
        return f"ks:{self.rel}"


class NamespacePath(Value):
    """A path in a namespace of a bundle, whose content a function of the bundle returns."""

    namespace: str
    rel: str

    def __str__(self) -> str:
        return f"{self.namespace}:{self.rel}"


LoggedPath: TypeAlias = FilePath | AttachmentPath | CodePath | TurnPath | PlanPath | CallPath
"""A path that resolves to blocks of one conversation's log."""


class ForeignPath(Value):
    """A path in a named conversation, which may be another one than the reader's."""

    conversation: str
    path: LoggedPath

    def __str__(self) -> str:
        family, _, rest = str(self.path).partition(":")
        return f"{family}:conv_{self.conversation}.{rest}"


LogicalPath: TypeAlias = LoggedPath | SourcesPath | SkillPath | KnowledgePath | NamespacePath | ForeignPath


SID_RANGES_MAX: Final = 200

PATH_FAMILIES: Final = ("ar", "tc", "fi", "so", "su", "ws", "sk", "ks")

_TURN = rf"(?P<turn>{TURN.pattern})"
_WORD = r"[A-Za-z0-9_-]{1,128}"
_PLAN = r"[A-Za-z0-9_:-]{1,200}"
_NUMBER = r"(?:0|[1-9][0-9]{0,8})"

_NAMESPACE = re.compile(r"(?!sources_pool)[a-z][a-z0-9_-]{2,31}")
"""A family has two letters."""
_NO_NAMESPACES: Final = frozenset(
    {"conv", "ref", "skill", "skills", "http", "https", "ftp", "file", "data", "blob", "mailto", "javascript"}
)
"""Prefixes with another meaning: of a path, of a reference, of an address."""

_FOREIGN = re.compile(rf"conv_(?P<conversation>{SEGMENT.pattern})\.(?P<rest>.+)")
_FILE = re.compile(
    rf"{_TURN}\.(?:(?P<space>files|outputs)/(?P<rel>.+)"
    r"|user\.attachments/(?P<name>.+)"
    rf"|external\.(?P<kind>{_WORD})\.attachments/(?P<message>{_WORD})/(?P<sent>.+)"
    rf"|code\.(?P<call>{_WORD}))"
)
_PHYSICAL = re.compile(
    rf"{_TURN}/(?:(?P<space>files|outputs)/(?P<rel>.+)|attachments/(?P<name>.+)"
    rf"|external/(?P<kind>{_WORD})/attachments/(?P<message>{_WORD})/(?P<sent>.+))"
)
_EVENT = re.compile(
    rf"plan\.latest:(?P<latest>{_PLAN})|{_TURN}\.(?P<name>"
    rf"user\.(?:prompt|followup|steer)(?:\.{_WORD})?"
    rf"|assistant\.completion(?:\.{_NUMBER}|\.attempt\.{_NUMBER}(?:\.outcome)?)?"
    rf"|external\.{_WORD}\.(?:preserved\.{_NUMBER}|{_WORD})"
    rf"|system\.message\.{_WORD}"
    r"|feedback\.latest|artifacts\.summary"
    rf"|react\.(?:(?:notes|round\.start)\.{_WORD}|decision\.raw(?:\.interrupted)?\.{_NUMBER}"
    rf"|(?:thinking|plan\.ack|mid_turn\.compaction|note\.preserved)\.{_NUMBER}"
    rf"|plan\.(?:history|{_PLAN}(?:\.carry)?)|turn\.(?:finalize|index)|state|exit"
    r"|workspace\.(?:checkout|publish)))"
)
_CALL = re.compile(
    rf"{_TURN}\.(?P<call>{_WORD})\.(?P<part>call|result|notice(?:\.{_NUMBER})?|view\.{_NUMBER})"
)
_RANGE_SUMMARY = re.compile(rf"{_TURN}\.(?P<name>conv\.range\.summary(?:\.{_NUMBER})?)")
_WORKING_SUMMARY = re.compile(rf"{_TURN}\.(?P<name>conv\.working\.summary(?:\.attempt\.{_NUMBER})?)")
_SOURCES = re.compile(r"sources_pool(?:\[(?P<sids>[0-9,\- ]+)\])?")
_SIDS = re.compile(r"([1-9][0-9]{0,5})(?:-([1-9][0-9]{0,5}))?")
_SKILL = re.compile(
    r"(?:(?P<number>(?:SK)?[1-9][0-9]{0,3})|(?P<hidden>hidden-guidance-[0-9a-f]{10})"
    r"|(?P<name>[A-Za-z0-9_-]{1,64}\.[A-Za-z0-9][A-Za-z0-9_-]{0,127}|[A-Za-z][A-Za-z0-9_-]{0,127}))"
    r"(?:/(?P<rel>.+))?"
)


def parse_path(text: str, namespaces: Collection[str] = ()) -> LogicalPath:
    """Parse a logical path; `namespaces` are those of the bundle.

    Raises:
        PathError: with one of the codes of docs/reference/paths.md.
    """
    text = clean_text(text).removeprefix("conv:")
    if text.startswith("sources_pool"):
        text = f"so:{text}"
    family, colon, rest = text.partition(":")
    if colon and family in namespaces:
        return NamespacePath(namespace=family, rel=check_relative(rest))
    parse = _PARSERS.get(family) if colon else None
    if parse is None:
        refuse_path(
            "path_unknown_family",
            f"a logical path begins with one of {', '.join((*PATH_FAMILIES, *namespaces))} and a colon",
            text,
        )
    if family in _LOGGED and (found := _FOREIGN.fullmatch(rest)):
        logged = parse(found["rest"])
        if isinstance(logged, LoggedPath):
            return ForeignPath(conversation=found["conversation"], path=logged)
    return parse(rest)


def is_namespace(name: str) -> bool:
    """Return True if the paths of a bundle may begin with this name."""
    return _NAMESPACE.fullmatch(name) is not None and name not in _NO_NAMESPACES


def name_foreign(path: str, conversation: str) -> str:
    """Return a path as it is written in another conversation. Raises PathError if it belongs to no conversation."""
    found = parse_path(path)
    if not isinstance(found, LoggedPath):
        refuse_path("path_bad_form", f"only paths of {', '.join(_LOGGED)} name a conversation", path)
    return str(ForeignPath(conversation=conversation, path=found))


def exec_key(lane: Lane, turn: str, call: str, name: str) -> str:
    """Return the object key of a run's file: `request.json`, `started.json`, `result.json`."""
    return f"exec/{lane.prefix()}/{turn}/{call}/{name}"


def physical(path: LogicalPath) -> str | None:
    """Return a file's path below the artifact root, or None for a path that is never a file."""
    match path:
        case FilePath():
            return f"{path.turn}/{path.space}/{path.rel}"
        case AttachmentPath(kind=""):
            return f"{path.turn}/attachments/{path.name}"
        case AttachmentPath():
            return f"{path.turn}/external/{path.kind}/attachments/{path.message_id}/{path.name}"
        case _:
            return None


def from_physical(text: str) -> FilePath | AttachmentPath:
    """Return the logical path of a file at this path below the artifact root. Raises PathError."""
    text = clean_text(text)
    found = _PHYSICAL.fullmatch(text)
    if found is None:
        refuse_path(
            "path_not_physical",
            "a physical path is <turn>/files/…, <turn>/outputs/… or an attachment's",
            text,
        )
    return _file(found)


def artifact_path(turn: str, raw: str) -> FilePath:
    """Return the file of turn `turn` for a path given by a writer: a bare name is in `outputs/`.

    A logical or physical path of the same turn is accepted as well. One of another turn is refused, with the
    path to use instead in the error's context: a silent redirection forks files by accident.

    Raises:
        PathError: `path_not_current_turn`, `path_not_writable`, or a grammar error.
    """
    text = clean_text(raw).removeprefix("conv:")
    head, _, rel = text.partition("/")
    if text.partition(":")[0] in PATH_FAMILIES:
        path = parse_path(text)
    elif TURN.fullmatch(head):
        path = from_physical(text)
    elif space := _SPACES.get(head):
        return FilePath(turn=turn, space=space, rel=check_relative(rel))
    elif head in ("attachments", "external") and rel:
        refuse_path("path_not_writable", "attachments cannot be written; use files/… or outputs/…", text)
    else:
        return FilePath(turn=turn, space="outputs", rel=check_relative(text))
    if not isinstance(path, FilePath):
        refuse_path(
            "path_not_writable", "only files/… and outputs/… of the current turn can be written", text
        )
    if path.turn != turn:
        mine = str(FilePath(turn=turn, space=path.space, rel=path.rel))
        raise PathError(
            f"{path} belongs to another turn, whose files never change; to write a new one use {mine}",
            code="path_not_current_turn",
            suggested_path=mine,
        )
    return path


def store_key(lane: Lane, user: str, name: str, *, bundle: str = "") -> str:
    """Return the object key of a value that a bundle stores for a user. Raises InputError `bad_name`."""
    owner = hashlib.sha256(user.encode()).hexdigest()[:32]
    own = f"{bundle}/" if bundle else ""
    return f"store/{lane.tenant}/{lane.project}/{owner}/{own}{check_segment(name, 'name')}"


def out_key(lane: Lane, turn: str, sha256: str) -> str:
    """Return the artifact key of bytes produced by a tool: `out/<lane>/<turn>/<sha256>`. Raises PathError."""
    parts_fit = all(SEGMENT.fullmatch(part) for part in (lane.tenant, lane.project, lane.conversation))
    if not (parts_fit and TURN.fullmatch(turn) and re.fullmatch(r"[0-9a-f]{64}", sha256)):
        refuse_path("invalid_key", "an artifact key is built from a lane, a turn and 64 hex digits", turn)
    return f"out/{lane.prefix()}/{turn}/{sha256}"


def version_ref(lane: Lane, turn: str) -> str:
    """Return the git ref of the project after a turn."""
    return f"refs/stepline/{lane.prefix()}/versions/{turn}"


def _name(name: str) -> str:
    if "/" in name:
        refuse_path("path_bad_form", "an attachment's name is one segment", name)
    return check_relative(name)


def _file(found: re.Match[str]) -> FilePath | AttachmentPath:
    part = found.groupdict()
    turn = part["turn"]
    if part["space"]:
        return FilePath(turn=turn, space=_SPACES[part["space"]], rel=check_relative(part["rel"]))
    if part["kind"]:
        return AttachmentPath(
            turn=turn, name=_name(part["sent"]), kind=part["kind"], message_id=part["message"]
        )
    return AttachmentPath(turn=turn, name=_name(part["name"]))


def _match(pattern: re.Pattern[str], rest: str, form: str) -> re.Match[str]:
    found = pattern.fullmatch(rest)
    if found is None:
        refuse_path("path_bad_form", f"not of the form {form}", rest)
    return found


def _parse_fi(rest: str) -> LogicalPath:
    found = _match(_FILE, rest, "fi:<turn>.files/…, .outputs/…, .user.attachments/<name> or .code.<call>")
    if found["call"]:
        return CodePath(turn=found["turn"], call=found["call"])
    return _file(found)


def _parse_ar(rest: str) -> LogicalPath:
    found = _match(_EVENT, rest, "ar:<turn>.<name> with a known name, or ar:plan.latest:<plan>")
    if found["latest"]:
        return PlanPath(plan=found["latest"])
    return TurnPath(family="ar", turn=found["turn"], name=found["name"])


def _parse_su(rest: str) -> LogicalPath:
    found = _match(_RANGE_SUMMARY, rest, "su:<turn>.conv.range.summary, or …summary.<n> for an older one")
    return TurnPath(family="su", turn=found["turn"], name=found["name"])


def _parse_ws(rest: str) -> LogicalPath:
    found = _match(_WORKING_SUMMARY, rest, "ws:<turn>.conv.working.summary")
    return TurnPath(family="ws", turn=found["turn"], name=found["name"])


def _parse_tc(rest: str) -> LogicalPath:
    found = _match(_CALL, rest, "tc:<turn>.<call>.call, .result, .notice or .view.<i>")
    return CallPath(turn=found["turn"], call=found["call"], part=found["part"])


def _parse_so(rest: str) -> LogicalPath:
    form = "so:sources_pool[1,3-5]"
    sids = _match(_SOURCES, rest, form)["sids"]
    if sids is None:
        return SourcesPath()
    picked = [one.strip() for one in sids.split(",")]
    if len(picked) > SID_RANGES_MAX:
        refuse_path("path_too_long", f"at most {SID_RANGES_MAX} ranges of sids", rest)
    bounds = [_match(_SIDS, one, form).groups() for one in picked]
    ranges = [(int(first), int(last or first)) for first, last in bounds]
    return SourcesPath(ranges=tuple((min(pair), max(pair)) for pair in ranges))


def _parse_sk(rest: str) -> LogicalPath:
    found = _match(
        _SKILL, rest, "sk:<namespace>.<id>, sk:<id> or sk:SK<n>, and /<rel> for a file of its folder"
    )
    rel = check_relative(found["rel"]) if found["rel"] else ""
    if found["number"]:
        return SkillPath(skill=f"SK{found['number'].removeprefix('SK')}", rel=rel)
    if found["hidden"]:
        return SkillPath(skill=found["hidden"], rel=rel)
    name = found["name"] if "." in found["name"] else f"public.{found['name']}"
    return SkillPath(skill=name, rel=rel)


def _parse_ks(rest: str) -> LogicalPath:
    return KnowledgePath(rel=check_relative(rest))


_LOGGED: Final = ("ar", "tc", "fi", "su", "ws")
"""The families whose paths may name a conversation: `so` has separate numbers in each, `sk` and `ks` belong to none."""

_SPACES: Final[dict[str, Space]] = {"files": "files", "outputs": "outputs"}
_PARSERS: Final[dict[str, Callable[[str], LogicalPath]]] = {
    "ar": _parse_ar,
    "tc": _parse_tc,
    "fi": _parse_fi,
    "so": _parse_so,
    "su": _parse_su,
    "ws": _parse_ws,
    "sk": _parse_sk,
    "ks": _parse_ks,
}
