"""A table and a bucket in memory, as botocore's clients of DynamoDB and S3: items and objects as they go over the wire.

They understand the expressions of our adapters, of every release, and refuse others. `test_deploy_storm.py` plays the same
courses over moto.
"""

from __future__ import annotations

import io
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from botocore.exceptions import ClientError

Item = dict[str, dict[str, Any]]
Names = tuple[tuple[str, str], ...]
Values = Mapping[str, Mapping[str, Any]]
Test = Callable[[Item, Values], bool]
Operand = Callable[[Item, Values], Any]

_TOKEN: Final = re.compile(r"\s*([:#]?\w+|<=|>=|<>|[=<>(),])")
_COMPARED: Final = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SORT_KEYS: Final = {"": "sk", "GSI1": "gsi1sk", "GSI2": "gsi2sk", "GSI3": "lane_since"}
"""The sort keys of the table and of its indexes."""
_CLAUSES: Final = ("SET", "ADD", "REMOVE")
PUT_FAILED: Final = "ConditionalCheckFailedException"


class SharedTable:
    """One table with the keys `pk` and `sk`. An item is replaced, never changed."""

    def __init__(self) -> None:
        self._items: dict[str, dict[str, Item]] = {}

    def clear(self) -> None:
        self._items.clear()

    # --- reads

    def get_item(self, **asked: Any) -> dict[str, Any]:
        found = self._find(asked["Key"])
        return {"Item": dict(found)} if found is not None else {}

    def batch_get_item(self, **asked: Any) -> dict[str, Any]:
        found = {
            name: [item for key in wanted["Keys"] if (item := self._find(key)) is not None]
            for name, wanted in asked["RequestItems"].items()
        }
        return {"Responses": found}

    def query(self, **asked: Any) -> dict[str, Any]:
        index, values = asked.get("IndexName", ""), asked["ExpressionAttributeValues"]
        test, sort = _condition(asked["KeyConditionExpression"], ()), _SORT_KEYS[index]
        rows = [*self._items.values()] if index else [self._items.get(values[":pk"]["S"], {})]
        found = [item for items in rows for item in items.values() if sort in item and test(item, values)]
        found.sort(key=lambda item: (item[sort]["S"], item["pk"]["S"], item["sk"]["S"]))
        if not asked.get("ScanIndexForward", True):
            found.reverse()
        if (after := asked.get("ExclusiveStartKey")) is not None:
            keys = [(item["pk"], item["sk"]) for item in found]
            found = found[keys.index((after["pk"], after["sk"])) + 1 :]
        page = found[: asked.get("Limit") or len(found)]
        answer: dict[str, Any] = {"Items": [dict(item) for item in page]}
        if len(page) < len(found):
            answer["LastEvaluatedKey"] = {name: page[-1][name] for name in ("pk", "sk")}
        return answer

    # --- writes

    def put_item(self, **asked: Any) -> dict[str, Any]:
        return self._write("Put", asked)

    def update_item(self, **asked: Any) -> dict[str, Any]:
        return self._write("Update", asked)

    def delete_item(self, **asked: Any) -> dict[str, Any]:
        return self._write("Delete", asked)

    def batch_write_item(self, **asked: Any) -> dict[str, Any]:
        for requests in asked["RequestItems"].values():
            for request in requests:
                for kind, one in request.items():
                    self._apply(kind.removesuffix("Request"), one)
        return {}

    def transact_write_items(self, **asked: Any) -> dict[str, Any]:
        actions = [(kind, one) for action in asked["TransactItems"] for kind, one in action.items()]
        reasons = [self._refusal(one) or {"Code": "None"} for _, one in actions]
        if any(reason["Code"] != "None" for reason in reasons):
            raise _error("TransactionCanceledException", CancellationReasons=reasons)
        for kind, one in actions:
            self._apply(kind, one)
        return {}

    def _write(self, kind: str, asked: dict[str, Any]) -> dict[str, Any]:
        if refusal := self._refusal(asked):
            raise _error(PUT_FAILED, **{name: refusal[name] for name in ("Item",) if name in refusal})
        before = self._find(asked.get("Item") or asked["Key"])
        self._apply(kind, asked)
        after = self._find(asked.get("Item") or asked["Key"])
        match asked.get("ReturnValues"):
            case "ALL_OLD":
                return {"Attributes": dict(before)} if before is not None else {}
            case "UPDATED_NEW" | "ALL_NEW":
                return {"Attributes": dict(after or {})}
            case _:
                return {}

    def _refusal(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        """Return the reason why an action's condition refuses it, None if it does not."""
        text = asked.get("ConditionExpression")
        if not text:
            return None
        found = self._find(asked.get("Item") or asked["Key"])
        names = tuple(sorted(asked.get("ExpressionAttributeNames", {}).items()))
        if _condition(text, names)(found or {}, asked.get("ExpressionAttributeValues", {})):
            return None
        shown = (
            {"Item": dict(found)}
            if found and asked.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD"
            else {}
        )
        return {"Code": "ConditionalCheckFailed", "Message": "", **shown}

    def _apply(self, kind: str, asked: dict[str, Any]) -> None:
        key = asked.get("Item") or asked["Key"]
        rows = self._items.setdefault(key["pk"]["S"], {})
        match kind:
            case "Put":
                rows[key["sk"]["S"]] = dict(asked["Item"])
            case "Update":
                rows[key["sk"]["S"]] = _updated(rows.get(key["sk"]["S"]) or dict(key), asked)
            case "Delete":
                rows.pop(key["sk"]["S"], None)
            case "ConditionCheck":
                pass
            case _:
                raise AssertionError(kind)

    def _find(self, key: Item) -> Item | None:
        return self._items.get(key["pk"]["S"], {}).get(key["sk"]["S"])


class SharedBucket:
    """One bucket."""

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}

    def clear(self) -> None:
        self._objects.clear()

    def put_object(self, **asked: Any) -> dict[str, Any]:
        if "IfNoneMatch" in asked and asked["Key"] in self._objects:
            raise _error("PreconditionFailed")
        self._objects[asked["Key"]] = bytes(asked["Body"])
        return {}

    def get_object(self, **asked: Any) -> dict[str, Any]:
        if asked["Key"] not in self._objects:
            raise _error("NoSuchKey")
        return {"Body": io.BytesIO(self._objects[asked["Key"]])}

    def head_object(self, **asked: Any) -> dict[str, Any]:
        if asked["Key"] not in self._objects:
            raise _error("404")
        return {"ContentLength": len(self._objects[asked["Key"]])}


def _error(code: str, **facts: Any) -> ClientError:
    response: Any = {
        "Error": {"Code": code, "Message": ""},
        "ResponseMetadata": {"HTTPStatusCode": 400},
        **facts,
    }
    return ClientError(response, "call")


# --- expressions


class _Absent:
    """The value of a missing attribute: no comparison with it holds."""

    def _never(self, _: object) -> bool:
        return False

    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = _never  # type: ignore[assignment]
    __hash__ = None


_ABSENT: Final = _Absent()


def _plain(value: Mapping[str, Any] | None) -> Any:
    """Return the value of an attribute, as it compares."""
    if value is None:
        return _ABSENT
    ((kind, held),) = value.items()
    return float(held) if kind == "N" else bytes(held) if kind == "B" else held


@cache
def _condition(text: str, names: Names) -> Test:
    """Return the test of a condition, which may be that of a query."""
    tokens = _tokens(text, names)
    test = _either(tokens)
    assert not tokens, text
    return test


def _tokens(text: str, names: Names) -> list[str]:
    known = dict(names)
    found = [known.get(token, token) for token in _TOKEN.findall(text)]
    assert "".join(_TOKEN.findall(text)) == re.sub(r"\s", "", text), text
    return found


def _either(tokens: list[str]) -> Test:
    tests = [_all(tokens)]
    while tokens and tokens[0] == "OR":
        tokens.pop(0)
        tests.append(_all(tokens))
    return lambda item, values: any(test(item, values) for test in tests)


def _all(tokens: list[str]) -> Test:
    tests = [_one(tokens)]
    while tokens and tokens[0] == "AND":
        tokens.pop(0)
        tests.append(_one(tokens))
    return lambda item, values: all(test(item, values) for test in tests)


def _one(tokens: list[str]) -> Test:
    match tokens[0]:
        case "(":
            tokens.pop(0)
            test = _either(tokens)
            assert tokens.pop(0) == ")"
            return test
        case "attribute_exists" | "attribute_not_exists":
            exists, (name,) = tokens.pop(0) == "attribute_exists", _arguments(tokens)
            return lambda item, _: (name in item) is exists
        case "begins_with":
            tokens.pop(0)
            name, mark = _arguments(tokens)
            return lambda item, values: name in item and item[name]["S"].startswith(values[mark]["S"])
    left = _operand(tokens)
    if tokens[0] == "BETWEEN":
        tokens.pop(0)
        low = _operand(tokens)
        assert tokens.pop(0) == "AND"
        high = _operand(tokens)
        return lambda item, values: low(item, values) <= left(item, values) <= high(item, values)
    compare, right = _COMPARED[tokens.pop(0)], _operand(tokens)
    return lambda item, values: bool(compare(left(item, values), right(item, values)))


def _arguments(tokens: list[str]) -> list[str]:
    end = tokens.index(")")
    found = [token for token in tokens[1:end] if token != ","]
    del tokens[: end + 1]
    return found


def _operand(tokens: list[str]) -> Operand:
    token = tokens.pop(0)
    if token == "size":
        (name,) = _arguments(tokens)
        return lambda item, _: float(len(next(iter(item[name].values())))) if name in item else _ABSENT
    if token.startswith(":"):
        return lambda _, values: _plain(values[token])
    return lambda item, _: _plain(item.get(token))


def _updated(item: Item, asked: dict[str, Any]) -> Item:
    """Return an item as an update leaves it."""
    made, values = dict(item), asked.get("ExpressionAttributeValues", {})
    for clause, name, mark in _changes(
        asked["UpdateExpression"], tuple(sorted(asked.get("ExpressionAttributeNames", {}).items()))
    ):
        match clause:
            case "SET":
                made[name] = values[mark]
            case "REMOVE":
                made.pop(name, None)
            case _:
                made[name] = _sum(made.get(name), values[mark])
    return made


def _sum(before: Mapping[str, Any] | None, more: Mapping[str, Any]) -> dict[str, Any]:
    ((kind, held),) = more.items()
    if before is None:
        return dict(more)
    if kind == "N":
        return {"N": str(int(before["N"]) + int(held))}
    return {kind: [*dict.fromkeys([*before[kind], *held])]}


@cache
def _changes(text: str, names: Names) -> tuple[tuple[str, str, str], ...]:
    """Return the changes of an update: their clause, the attribute, and the mark of the value."""
    return tuple(_read_changes(_tokens(text, names)))


def _read_changes(tokens: list[str]) -> Iterator[tuple[str, str, str]]:
    clause = ""
    while tokens:
        token = tokens.pop(0)
        if token in _CLAUSES:
            clause = token
        elif token != ",":
            if clause == "SET":
                assert tokens.pop(0) == "="
            yield clause, token, "" if clause == "REMOVE" else tokens.pop(0)
