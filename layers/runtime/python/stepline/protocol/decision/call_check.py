"""Check a decision's call: against its tool's contract, by its references, and against the calls accepted before it.

A reference is a parameter `ref:<path>`. It is replaced by the content of the path before the call runs. References
are bound in the parameters of `react.write` and of tools outside `react.*`, except for a tool that runs code, whose
contract is shown before it runs. A value that begins with `ref:` is a reference. The target is checked with the
decision, and its content is fixed then, too, so that a repeated call gets the same content.

Source: docs/reference/tools.md#references.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from stepline.errors import DecisionError, PathError, ToolError
from stepline.model.base import Value
from stepline.model.decision import Notice, ToolCall
from stepline.model.path import artifact_path
from stepline.protocol.citation.token import cited_sids
from stepline.protocol.decision.fanout import INCOMPATIBLE, ToolTraits, may_be_apart
from stepline.protocol.decision.notice import NOTHING_RAN, NOTICES, cap, make_notice


class ToolSpecLike(ToolTraits, Protocol):
    """The part of a tool's contract that the protocol needs.

    A call that runs code names the files it will write.
    """

    @property
    def key_order(self) -> tuple[str, ...]:
        """The parameters that must be written first, in order."""

    @property
    def documented(self) -> tuple[str, ...]:
        """All parameters, in the order in which the catalogue shows them."""

    @property
    def any_order(self) -> bool:
        """True if a call may write its parameters in any order without a notice."""

    def validate(self, params: Mapping[str, Any], /, *, unbound: Collection[str] = ()) -> list[str]:
        """Return the errors in the parameters, one sentence each; those in `unbound` have no value yet."""

    def misplaced(self, params: Mapping[str, Any], /) -> list[str]:
        """Return `<param>_not_<ordinal>` for every parameter of `key_order` out of its order."""

    def outputs(self, params: Mapping[str, Any], /) -> tuple[str, ...]:
        """Return the files that a valid call declares to write, by the names it gives them."""


OLD_NAMES: Final[Mapping[str, str]] = {
    "react.stream": "react.write",
    "react.file": "react.write",
    "react.memory_read": "react.memsearch",
    "react.search_files": "react.rg",
}
"""Tools' names in earlier versions of the agent, which a model or a program may remember."""


def new_name(tool_id: str, known: Container[str]) -> str:
    """Return the current name of a tool that was renamed, if it is among the `known` ones; else ""."""
    name = OLD_NAMES.get(tool_id, "")
    return name if name in known else ""


def check_call(call: ToolCall, tools: Mapping[str, ToolSpecLike], allowed: Collection[str]) -> None:
    """Raise DecisionError if a call violates its tool's contract."""
    tool_id = call.tool_id
    spec = tools.get(tool_id)
    if spec is None:
        renamed = new_name(tool_id, allowed)
        wrong = f"{tool_id} is now {renamed}." if renamed else f"There is no tool {cap(tool_id, 80)!r}."
        raise DecisionError(
            f"{wrong} {NOTHING_RAN} Call {renamed or 'one'} of the catalogue.",
            code="unknown_tool_id",
            tool_id=cap(tool_id, 80),
            renamed_to=renamed or None,
            tools=", ".join(sorted(allowed)),
        )
    if tool_id not in allowed:
        raise DecisionError(
            f"{tool_id} can be called by generated code only. {NOTHING_RAN} Call it from a program, or another tool.",
            code="tool_not_allowed_in_react",
            tool_id=tool_id,
        )
    if spec.runs_code:
        _check_contract(call)
    bound_later = binds(tool_id, runs_code=spec.runs_code)
    unbound = [name for name, value in call.params.items() if bound_later and any(find_references(value))]
    if problems := spec.validate(call.params, unbound=unbound):
        raise DecisionError(
            f"The parameters of {tool_id} were refused: {cap('; '.join(problems), 500)}. {NOTHING_RAN} "
            "Correct them by the catalogue and call again.",
            code="bad_params",
            tool_id=tool_id,
            problems="; ".join(problems),
        )
    if misplaced := spec.misplaced(call.params):
        order = ", ".join(spec.key_order)
        raise DecisionError(
            f"The parameters of {tool_id} stood in another order than {order}. {NOTHING_RAN} "
            "Call again in this order: the user sees the result while you write it.",
            code=misplaced[0] if misplaced[0] in NOTICES else "params_out_of_order",
            tool_id=tool_id,
            order=order,
        )


def check_order(call: ToolCall, tools: Mapping[str, ToolSpecLike], notices: list[Notice]) -> None:
    """Add a notice if a valid call does not write its parameters in the documented order.

    Where a client shows a parameter while it is written, the order is a rule, and `check_call` has refused the call.
    """
    spec = tools[call.tool_id]
    documented = () if spec.any_order else spec.documented
    wanted = [name for name in documented if name in call.params]
    if wanted != [name for name in call.params if name in documented]:
        message = f"The call counts. Write the parameters of {call.tool_id} in the order of its card."
        notices.append(make_notice("params_not_as_documented", message, order=", ".join(wanted)))


def _check_contract(call: ToolCall) -> None:
    """Raise DecisionError unless the call names at least one file. Errors of a file are reported by the run."""
    contract = call.params.get("contract")
    if contract is None or contract == [] or (isinstance(contract, str) and not contract.strip()):
        raise DecisionError(
            f"The call runs code, but it has no contract. {NOTHING_RAN} "
            "Send a contract: a list with filename and description of every file that the program will write.",
            code="missing_contract",
            tool_id=call.tool_id,
        )
    if isinstance(contract, str):
        try:
            contract = msgspec.json.decode(contract)
        except (msgspec.DecodeError, RecursionError) as error:
            raise _bad_contract(call, f"as a text it must be JSON: {cap(str(error), 200)}") from error
    if not isinstance(contract, list):
        raise _bad_contract(call, "it must be a list")
    if not any(isinstance(item, dict) for item in contract):
        raise _bad_contract(call, "it must hold at least one object")


def _bad_contract(call: ToolCall, problem: str) -> DecisionError:
    return DecisionError(
        f"The contract of the call was refused: {problem}. {NOTHING_RAN} "
        'Send a list like [{"filename": "outputs/table.csv", "description": "what it holds"}].',
        code="invalid_contract",
        tool_id=call.tool_id,
        problem=problem,
    )


REFERENCE: Final = "ref:"
"""The prefix of a parameter that refers to the content at a path."""
SOURCES_PARAM: Final = "sources_list"
"""The parameter that accepts only rows of the pool of sources."""

NOT_VISIBLE: Final = "protocol_violation.param_ref_not_visible"
NORMALIZED: Final = "protocol_warning.ref_path_normalized"

_WRITE: Final = "react.write"
_OWN: Final = "react."
_RENDERER: Final = "rendering_tools.write_"
_PATH_CHARS: Final = 200


class Referred(Value):
    """The target of a reference: its canonical path. `internal`: a file that the user does not see."""

    path: str
    internal: bool = False


Refer: TypeAlias = Callable[[str], Referred]
"""Finds the target of a path as the model wrote it. Raises PathError or ToolError, by its code."""


def refers_to_nothing(written: str) -> Referred:
    """Refuse every path: the round has no conversation."""
    raise ToolError(f"{cap(written, _PATH_CHARS)} is not in view", code="ref_not_visible")


def binds(tool_id: str, *, runs_code: bool) -> bool:
    """Return True if references in a tool's parameters are bound."""
    return tool_id == _WRITE or not (tool_id.startswith(_OWN) or runs_code)


def find_references(value: Any, param: str = "") -> Iterator[tuple[str, str]]:
    """Yield every reference in parameters, as (the innermost parameter's name, the path as written)."""
    match value:
        case str() if value.startswith(REFERENCE):
            yield param, value.removeprefix(REFERENCE).strip()
        case dict():
            for name, item in value.items():
                yield from find_references(item, str(name))
        case list():
            for item in value:
                yield from find_references(item, param)


Position: TypeAlias = tuple[str | int, ...]
"""A position in parameters: the names of fields, and the numbers of items."""


def replace_references(value: Any, of: Callable[[str, Position], Any], at: Position = ()) -> Any:
    """Return parameters with every reference replaced by `of` its path and its position.

    The replacement is not searched for references.
    """
    match value:
        case str() if value.startswith(REFERENCE):
            return of(value.removeprefix(REFERENCE).strip(), at)
        case dict():
            return {name: replace_references(item, of, (*at, name)) for name, item in value.items()}
        case list():
            return [replace_references(item, of, (*at, number)) for number, item in enumerate(value)]
        case _:
            return value


def check_references(call: ToolCall, refer: Refer, notices: list[Notice]) -> ToolCall:
    """Return the call with its references in canonical form, and add a notice if that changed one.

    Raises DecisionError `protocol_violation.param_ref_not_visible`, with every violation and its code.
    """
    canonical: dict[str, str] = {}
    violations: list[str] = []
    for param, written in find_references(call.params):
        try:
            canonical[written] = _target(call.tool_id, param, written, refer).path
        except (ToolError, PathError) as refused:
            code = refused.reason if isinstance(refused, ToolError) else "ref_not_visible"
            violations.append(f"{code}: {param}={cap(written, _PATH_CHARS)}: {refused}")
    if violations:
        raise DecisionError(
            f"A reference in the parameters of {call.tool_id} cannot be bound: {cap('; '.join(violations), 500)}. "
            f"{NOTHING_RAN} Write ref: and a path that you see, or the text itself.",
            code=NOT_VISIBLE,
            tool_id=call.tool_id,
            violations=violations,
        )
    fixed = {written: path for written, path in canonical.items() if written != path}
    if not fixed:
        return call
    corrections = ", ".join(f"{cap(written, _PATH_CHARS)} is {path}" for written, path in fixed.items())
    notices.append(
        make_notice(
            NORMALIZED,
            f"A reference takes a logical path: {corrections}. The call ran with that one.",
            tool_id=call.tool_id,
            refs=fixed,
        )
    )
    params = replace_references(call.params, lambda written, _: f"{REFERENCE}{canonical[written]}")
    return ToolCall(tool_id=call.tool_id, params=params)


def _target(tool_id: str, param: str, written: str, refer: Refer) -> Referred:
    """Return the target of a reference if its parameter accepts it. Raises ToolError, PathError."""
    found = refer(written)
    if param == SOURCES_PARAM and not found.path.startswith("so:"):
        raise ToolError(
            "it takes rows of the pool, such as ref:so:sources_pool[1,3]",
            code="sources_list_requires_sources_pool",
        )
    if found.internal and tool_id.startswith(_RENDERER):
        raise ToolError(
            "an internal file is not rendered for the user; write it with another channel first",
            code="ref_internal_not_visible",
        )
    return found


WORD_CHARS: Final = 4
"""The minimum length of a word of a search that identifies its subject."""

_WORD = re.compile(r"[^\W_]+")


class Collisions:
    """The calls of the actions accepted so far, the words they search for, and the files they write."""

    def __init__(self, tools: Mapping[str, ToolSpecLike], turn: str, sources: Collection[int] = ()) -> None:
        """Check the calls of a turn; `sources` are the numbers that they may cite."""
        self._tools = tools
        self._turn = turn
        self._sources = sources
        self._accepted: list[tuple[int, ToolCall]] = []
        self._calls: dict[bytes, int] = {}
        self._writers: dict[str, int] = {}

    def check(self, call: ToolCall, code: str | None = None) -> None:
        """Check the next call, whose contract is checked; `code` is its program.

        Raises DecisionError `multi_action_bundle_duplicate`, `…_strategy_incompatible`,
        `…_same_file_collision` or `…_render_consumes_same_round_source`.
        """
        if first := self._calls.get(_identity(call, code)):
            raise DecisionError(
                f"it asks for exactly what action {first} of this round does.",
                code="multi_action_bundle_duplicate",
                same_as=first,
            )
        self._check_apart(call)
        for file in self._files(call):
            if writer := self._writers.get(file):
                raise DecisionError(
                    f"action {writer} of this round writes the same file, {cap(file, 200)}. "
                    "Write a file once in a round, or under another name.",
                    code="multi_action_bundle_same_file_collision",
                    path=file,
                    same_as=writer,
                )
        for used in (self._file(path) for _, path in find_references(call.params)):
            if writer := self._writers.get(used):
                raise DecisionError(
                    f"it uses {cap(used, 200)}, which action {writer} of this round only writes. "
                    "Send it in the next round, when the file is there.",
                    code="multi_action_bundle_render_consumes_same_round_source",
                    path=used,
                    same_as=writer,
                )

    def add(self, call: ToolCall, number: int, code: str | None = None) -> None:
        """Add a call that was checked, of the round's decision `number`."""
        self._calls[_identity(call, code)] = number
        self._accepted.append((number, call))
        self._writers |= dict.fromkeys(self._files(call), number)

    def _check_apart(self, call: ToolCall) -> None:
        """Raise DecisionError if a call may depend on an earlier one although both were assumed to be independent.

        It does if it cites a source that does not exist yet. It may if it contains a word that is searched for.
        """
        made = self._tools[call.tool_id]
        looks = [one for one in self._accepted if may_be_apart(self._tools[one[1].tool_id], made)]
        if not looks:
            return
        text = " ".join(_texts_in(call.params)).casefold()
        unknown = [sid for sid in cited_sids(text) if sid not in self._sources]
        for number, look in looks:
            named = next((word for word in _words_of(look) if word in text), "")
            if unknown or named:
                fact = (
                    f"names {cap(named, 80)!r}" if named else f"cites [[S:{unknown[0]}]], which is not there"
                )
                raise DecisionError(
                    f"it {fact}, so it may need what action {number} of this round finds. "
                    "Send it in the next round, when you have read that.",
                    code=INCOMPATIBLE,
                    depends_on=number,
                )

    def _files(self, call: ToolCall) -> list[str]:
        """Return the turn's files that a call writes, each once; invalid names are left to the tool."""
        raws = self._tools[call.tool_id].outputs(call.params)
        return list(dict.fromkeys(file for raw in raws if (file := self._file(raw))))

    def _file(self, raw: str) -> str:
        try:
            return str(artifact_path(self._turn, raw))
        except PathError:
            return ""


def _identity(call: ToolCall, code: str | None) -> bytes:
    return msgspec.json.encode([call.tool_id, call.params, code], order="sorted")


def _texts_in(value: Any) -> Iterator[str]:
    """Yield every text of a call's parameters."""
    match value:
        case str():
            yield value
        case dict():
            for key, one in value.items():
                yield key
                yield from _texts_in(one)
        case list():
            for one in value:
                yield from _texts_in(one)


def _words_of(look: ToolCall) -> list[str]:
    """Return the words that a call searches for; the short ones only if there are no others."""
    words = _WORD.findall(" ".join(_texts_in(list(look.params.values()))).casefold())
    return [word for word in words if len(word) >= WORD_CHARS] or words
