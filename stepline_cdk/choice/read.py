"""The value of a choice from what people write, and the sentence that refuses it.

`true`, `True`, `yes`, `on` and `1` are the same wherever they are written, as are a list, its JSON and its items separated
by commas, and an object and its JSON. An empty text is the choice's default.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final, get_args, get_origin

import msgspec
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from stepline.errors import InputError
from stepline.settings import TABLE, print_value
from stepline_cdk.choice.declare import Choices, Takes, declared

PAGE: Final = "docs/reference/choices.md"
_TRUE: Final = ("true", "yes", "on", "1")
_FALSE: Final = ("false", "no", "off", "0")
_KNOWN_AS: Final = {"name": "stage"}
"""The fields that have another name where they are chosen."""
_ALSO: Final = {"name": "stage", "programs": "exec_image", "stage": "STEPLINE_STAGE"}
"""Words that are not spelt like the choice they mean."""
_SHOWN_CHARS: Final = 80


class BadChoiceError(InputError, ValueError):
    """A choice that a stage does not have or take; its message is one sentence. The code is `bad_choice`."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="bad_choice")


def refusal(name: str, got: object, takes: str) -> BadChoiceError:
    """Return the error of a choice with a wrong value."""
    return BadChoiceError(f"{name}: got {_show(got)}, takes {takes}")


def read_choices(model: type[Choices], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given choices as values of their types, without those that are empty. Raises BadChoiceError."""
    for name in given:
        if name not in model.model_fields:
            raise refuse_unknown(model, name)
    found = {name: _read(name, model.model_fields[name], value) for name, value in given.items()}
    return {name: value for name, value in found.items() if value is not None}


def check_name(model: type[Choices], name: str) -> None:
    """Refuse a name that no stage can have. Raises BadChoiceError."""
    field = model.model_fields["name"]
    try:
        for rule in _rules(field):
            rule.check(name)
    except ValueError as error:
        raise _refuse("name", field, name) from error


def refuse_unknown(model: type[Choices], name: str) -> BadChoiceError:
    """Return the error of a name that no choice has, with the most similar one."""
    names = [choice_name(field) for field in model.model_fields]
    meant = _ALSO.get(name) or next(iter(get_close_matches(name.replace("-", "_"), names, n=1)), "")
    also = f", did you mean {meant}" if meant else ""
    return BadChoiceError(f"{name}: a stage has no such choice{also}; {PAGE} lists what it takes")


def render_refusal(model: type[Choices], error: ValidationError) -> BadChoiceError:
    """Return the first thing that pydantic refused as a sentence."""
    first = error.errors()[0]
    if not first["loc"]:
        return BadChoiceError(str(first["ctx"]["error"]))
    name = str(first["loc"][0])
    return _refuse(name, model.model_fields[name], first["input"])


def choice_name(field: str) -> str:
    """Return the name by which a field is chosen."""
    return _KNOWN_AS.get(field, field)


def print_choice(value: Any) -> str:
    """Return a choice as the text that reads as the same value."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple) and any("," in item for item in value):
        return json.dumps(value)
    return print_value(value)


def describe_values(name: str, field: FieldInfo) -> str:
    """Return a phrase for the values of a choice."""
    rule = next(_rules(field), None)
    row = TABLE.get(name)
    base = _base(field)
    if base is bool:
        return "true or false"
    if base is int:
        low = next((item.ge for item in field.metadata if hasattr(item, "ge")), None)
        bounds = row.bounds if row else "" if low is None else f"at least {low}"
        return rule.said if rule else f"a whole number{f', {bounds}' if bounds else ''}"
    if base is tuple:
        return f"a list, or text separated by commas{f', each {rule.said}' if rule else ''}"
    if base is Mapping:
        return "an object, or its JSON"
    return rule.said if rule else "a text"


def _read(name: str, field: FieldInfo, value: Any) -> Any:
    """Return a value of the field's type; None for an empty one, except a name, which no stage has. Raises BadChoiceError."""
    if value is None or (isinstance(value, str) and not value.strip() and name != "name"):
        return None
    base = _base(field)
    try:
        if base is bool:
            return _read_bool(value)
        if base is int:
            return _read_int(name, value)
        if base is tuple:
            return _read_list(name, value)
        if base is Mapping:
            return _read_object(name, value)
        return _read_text(field, value)
    except InputError as error:  # of a row of settings, which names its variable
        _, _, problem = str(error).partition(" ")
        raise BadChoiceError(
            f"{choice_name(name)}: got {_show(value)}, which {problem}; takes {describe_values(name, field)}"
        ) from error
    except (TypeError, ValueError) as error:
        raise _refuse(name, field, value) from error


def _read_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word not in (*_TRUE, *_FALSE):
        raise ValueError(word)
    return word in _TRUE


def _read_int(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError(name)
    number = int(value)
    row = TABLE.get(name)
    if row and row.minimum is not None and number < row.minimum:
        raise ValueError(name)
    return number


def _read_list(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = json.loads(value) if value.lstrip().startswith("[") else value.split(",")
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise TypeError(name)
    return tuple(item.strip() for item in value if item.strip())


def _read_object(name: str, value: Any) -> Mapping[str, Any]:
    if name not in TABLE:  # a choice that is no setting of a process
        value = json.loads(value) if isinstance(value, str) else value
        if not isinstance(value, Mapping):
            raise TypeError(name)
        return value
    if not isinstance(value, str):
        value = json.dumps(msgspec.to_builtins(value))
    found: Mapping[str, Any] = TABLE[name].parse(value)
    return found


def _read_text(field: FieldInfo, value: Any) -> str:
    """Return a text; of a truth value only if that is one of the choice's words."""
    if isinstance(value, bool) and any(str(value).lower() in rule.words for rule in _rules(field)):
        return str(value).lower()
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError(value)
    return str(value).strip()


def _refuse(name: str, field: FieldInfo, value: Any) -> BadChoiceError:
    if declared(field).private:
        return BadChoiceError(
            f"{choice_name(name)}: got a text that is not repeated here, takes {describe_values(name, field)}"
        )
    return refusal(choice_name(name), value, describe_values(name, field))


def _show(value: object) -> str:
    """Return a value as a person may have written it, shortened."""
    text = repr(value) if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


def _base(field: FieldInfo) -> Any:
    """Return `bool`, `int`, `str`, `tuple` or `Mapping`."""
    return get_origin(field.annotation) or field.annotation


def _rules(field: FieldInfo) -> Iterator[Takes]:
    """Yield the rules of a field's value, or of the items of its list."""
    items = [item for part in get_args(field.annotation) for item in getattr(part, "__metadata__", ())]
    return (item for item in (*field.metadata, *items) if isinstance(item, Takes))
