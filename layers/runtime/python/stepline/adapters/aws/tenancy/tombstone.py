"""The row of a tombstone: the actions that put it or check for it, and its content."""

from __future__ import annotations

from typing import Final

from stepline.adapters.aws.error import Item
from stepline.adapters.aws.table import HEAD, conversation_pk, key
from stepline.model.batch import Tombstone
from stepline.model.ids import Lane, make_lane

TOMB: Final = "TOMB"
ERASE_SHARD: Final = "erase"
"""The index partition of conversations that are still to erase."""
_TEXTS: Final = ("deleted_at", "whose", "owner", "done_at")


def alive_check(table: str, lane: Lane) -> Item:
    """Return the transaction action that fails for a deleted conversation."""
    return {
        "ConditionCheck": {
            "TableName": table,
            "Key": key(conversation_pk(lane), TOMB),
            "ConditionExpression": "attribute_not_exists(pk)",
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
    }


def burial(table: str, tombstone: Tombstone) -> list[Item]:
    """Return the actions that remove a conversation without forks from its listing and put its tombstone, which comes last."""
    unlisted = {
        "TableName": table,
        "Key": key(conversation_pk(tombstone.lane), HEAD),
        "UpdateExpression": "SET applied_n = :n REMOVE gsi1pk, gsi1sk, body, read_n",
        "ConditionExpression": "attribute_not_exists(forks) OR forks = :none",
        "ExpressionAttributeValues": {":n": {"N": str(tombstone.n)}, ":none": {"N": "0"}},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    put = {
        "TableName": table,
        "Item": tombstone_item(tombstone),
        "ConditionExpression": "attribute_not_exists(pk)",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    return [{"Update": unlisted}, {"Put": put}]


def tombstone_item(tombstone: Tombstone) -> Item:
    """Return the row of a pending tombstone."""
    texts = {name: {"S": text} for name in _TEXTS if (text := getattr(tombstone, name))}
    pending = {"lane_shard": {"S": ERASE_SHARD}, "lane_since": {"S": tombstone.due}}
    return {**key(conversation_pk(tombstone.lane), TOMB), "n": {"N": str(tombstone.n)}, **texts, **pending}


def read_tombstone(item: Item) -> Tombstone:
    """Return the tombstone of a row."""
    texts = {name: item[name]["S"] for name in _TEXTS if name in item}
    due = item["lane_since"]["S"] if "lane_since" in item else ""
    lane = make_lane(*item["pk"]["S"].split("#")[1:])
    return Tombstone(lane=lane, n=int(item["n"]["N"]), due=due, **texts)
