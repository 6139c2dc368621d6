"""docs/reference/choices.md: every choice of a stage, from the model that reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic.fields import FieldInfo

from docs.build import DOCS
from stepline_cdk.choice.declare import Choice, Choices, Kind, declared
from stepline_cdk.choice.read import choice_name, describe_values, print_choice
from stepline_cdk.choice.sources import PREFIX, STAGE_VARIABLE
from stepline_cdk.stage import GROUPS

PATH: Final = DOCS / "reference/choices.md"

_HEAD: Final = f"""\
# Choices of a stage

Generated from `stepline_cdk/choice`; a test compares them. A choice is written in one of these places, of which the first that names
it counts:

1. the command line, `-c KEY=VALUE`, or `context` in `cdk.json`,
2. the environment, `{PREFIX}` and the key in capital letters, such as `{PREFIX}OIDC_ISSUER`; the stage's name is
   `{STAGE_VARIABLE}`,
3. `stages/<stage>.toml` in the project, which `stepline deploy` writes and you commit,
4. the default of the kind of stage.

Every place takes every way to write a value: `true`, `yes`, `on` or `1`; a list, its JSON, or its items separated by commas; an
object, or its JSON. An empty text is the default. A wrong value, an unknown key and choices that do not go together end the
synthesis with one sentence (`error: bad_choice: …`).

There are three kinds of stages: stage `local`, the emulator's; *ephemeral* ones in AWS, which lose their data when they are
destroyed: `dev`, and stages with `keep_data=false`; and those that *keep their data*, all others. The column `default` names a
second value where it differs.

A choice with a * is guarded: once deployed, `stepline deploy` refuses a deployment that no longer names it
([deploy](../how-to/deploy.md#choices)).
"""
_NO_VALUES: Final[tuple[Any, ...]] = ("", (), {}, 0)
_KINDS: Final[Mapping[Kind, str]] = {"local": "in `local`", "kept": "with kept data"}


def render() -> str:
    """Return the page."""
    return "\n".join([_HEAD, *(line for group in (Choices, *GROUPS) for line in _table(group)), ""])


def _table(group: type[Choices]) -> Iterable[str]:
    own = {name: group.model_fields[name] for name in group.model_fields if name in group.__annotations__}
    title = "The stage" if group is Choices else (group.__doc__ or "").strip().rstrip(".")
    yield f"## {title}\n"
    yield "| choice | takes | default | meaning | costs |"
    yield "|---|---|---|---|---|"
    for name, field in own.items():
        yield _row(name, field)
    yield ""


def _row(name: str, field: FieldInfo) -> str:
    made = declared(field)
    cells = (
        f"`{choice_name(name)}`{'*' if made.guarded else ''}",
        describe_values(name, field).replace("|", "\\|"),
        _default(made),
        f"{field.description}",
        made.cost,
    )
    return f"| {' | '.join(cells)} |"


def _default(made: Choice) -> str:
    usual = made.said or _show(made.default_of("ephemeral"))
    others = [
        f"{_show(value)} {words}"
        for kind, words in _KINDS.items()
        if not callable(value := made.default_of(kind)) and value != made.default_of("ephemeral")
    ]
    return ", ".join([usual, *others])


def _show(value: Any) -> str:
    return "none" if value in _NO_VALUES and not isinstance(value, bool) else f"`{print_choice(value)}`"
