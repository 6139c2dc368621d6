"""How a choice is declared: its default for each kind of stage, its meaning, and its cost."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

LOCAL: Final = "local"
EPHEMERAL: Final = (LOCAL, "dev")
"""The stages that do not keep their data unless they choose to."""
Kind = Literal["local", "ephemeral", "kept"]
"""A stage on the emulator, one in AWS whose data goes with it, and one whose data outlives it."""
REFERENCE: Final = re.compile(r"\$\{Token\[[^\]]+\]\}")
"""A value that a deployment knows, as the CDK writes it into a text, such as the ARN of a secret in the same app."""
_SAME: Final = object()
"""The default of a kind that is that of all others."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The facts of a choice in addition to its type and its meaning.

    `default` is a value, or a function of the choices before it, which `said` describes; `local` and `kept` are those of
    stage `local` and of stages that keep their data. `cost` is a phrase. A `guarded` choice is not forgotten by
    accident: a deployment that no longer names it is refused. A `private` one is not repeated in an error.
    """

    default: Any
    local: Any = _SAME
    kept: Any = _SAME
    said: str = ""
    cost: str = ""
    guarded: bool = False
    private: bool = False

    def default_of(self, kind: Kind) -> Any:
        """Return the default of a kind of stage: a value, or a function of the choices before it."""
        found = {"local": self.local, "kept": self.kept}.get(kind, _SAME)
        return self.default if found is _SAME else found

    def make_default(self, before: dict[str, Any]) -> Any:
        """Return the default in a stage with these choices before it."""
        kind = kind_of(is_local=bool(before["endpoint"]), keeps_data=before.get("keep_data", False))
        found = self.default_of(kind)
        return found(before) if callable(found) else found


def kind_of(*, is_local: bool, keeps_data: bool) -> Kind:
    """Return the kind of a stage, which most defaults that differ follow."""
    if is_local:
        return "local"
    return "kept" if keeps_data else "ephemeral"


def choice(default: Any, doc: str, **rest: Any) -> Any:
    """Declare a choice; `doc` is one sentence of Markdown without its full stop, `rest` the other fields of `Choice`."""
    made = Choice(default=default, **rest)
    return Field(
        default_factory=made.make_default,
        description=doc,
        json_schema_extra=cast("dict[str, Any]", {"choice": made}),
    )


def declared(field: FieldInfo) -> Choice:
    """Return the declaration of a choice by its field."""
    extra = cast("Mapping[str, Choice]", field.json_schema_extra)
    return extra["choice"]


@dataclass(frozen=True)
class Takes:
    """A text that matches a pattern, or one of a few words or numbers; `said` describes it."""

    said: str
    pattern: re.Pattern[str] | None = None
    words: Collection[Any] = ()

    def check(self, value: Any) -> Any:
        """Return the value. Raises ValueError if the choice does not take it; one with a reference of the CDK has its value later."""
        if self.pattern and REFERENCE.search(value):
            return value
        if self.pattern.fullmatch(value) if self.pattern else value in self.words:
            return value
        raise ValueError(self.said)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))


def like(pattern: str, said: str, *, empty: bool = False) -> Takes:
    """Return the rule of a text that matches the pattern; with `empty` also of an empty one."""
    return Takes(said, re.compile(f"({pattern})?" if empty else pattern, re.ASCII))


def one_of(words: Collection[Any]) -> Takes:
    """Return the rule of a few words or numbers."""
    return Takes(", ".join(map(str, words)), words=words)


SecretArn = Annotated[str, like("arn:.+", "the ARN of a secret", empty=True)]
"""Of a secret that is made outside of the stacks; its text itself never is a choice."""
Origin = Annotated[
    str,
    like(
        r"https?://[a-z0-9.-]+(:\d{1,5})?|https?://\[[0-9a-f:]+\](:\d{1,5})?",
        "an origin like https://chat.example.com, without a path or a capital letter",
    ),
]
"""As browsers send it."""
Count = Annotated[int, Field(ge=0)]


class Choices(BaseModel):
    """A group of choices; the first three are of every group, since other defaults follow from them."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    name: Annotated[
        str,
        like(
            "[a-z][a-z0-9-]{0,15}",
            "a small letter, then small letters, digits and dashes, at most 16 characters",
        ),
    ] = Field(
        default="dev",
        description="Name of the stage, part of the names of its resources; given as `stage`, or by `--stage`",
        json_schema_extra=cast("dict[str, Any]", {"choice": Choice(default="dev")}),
    )
    endpoint: str = Field(
        default="",
        description="The emulator's address; belongs to stage `local`, which `stepline up` deploys",
        json_schema_extra=cast("dict[str, Any]", {"choice": Choice(default="")}),
    )
    keep_data: bool = choice(
        lambda before: before["name"] not in EPHEMERAL,
        "Keep the table, the bucket and the users when the stage is destroyed, and protect them against deletion",
        said="`false` in `local` and `dev`, else `true`",
        guarded=True,
    )
