"""Replays as rows of the table, which AWS deletes after their hour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepline.adapters.aws.error import CONDITION_FAILED, Item, mapped, tolerated
from stepline.adapters.aws.table import Table, key, replay_pk, replay_sk
from stepline.ports.round_replay import ReplayState, RoundReplay

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepline.model.ids import Lane
    from stepline.ports.clock import Clock

_REPLAY: Final = msgspec.json.Decoder(RoundReplay)


class DynamoReplays:
    """Implements `RoundReplays`; `clock` decides which rows have expired, because AWS deletes days later."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table, self._clock = table, clock

    def add(self, lane: Lane, user: str, replay: RoundReplay) -> bool:
        return self._put(lane, user, replay, {"ConditionExpression": "attribute_not_exists(pk)"})

    def change(self, lane: Lane, user: str, replay: RoundReplay, *, was: ReplayState) -> bool:
        condition = {
            "ConditionExpression": "#state = :was",
            "ExpressionAttributeNames": {"#state": "state"},
            "ExpressionAttributeValues": {":was": {"S": was}},
        }
        return self._put(lane, user, replay, condition)

    def _put(self, lane: Lane, user: str, replay: RoundReplay, condition: Item) -> bool:
        item = {
            **key(replay_pk(lane), replay_sk(lane, user, replay.id)),
            "state": {"S": replay.state},
            "body": {"B": msgspec.json.encode(replay)},
            "expires_at": {"N": str(replay.expires_at)},
        }
        with mapped(), tolerated(CONDITION_FAILED):
            self._table.call("put_item", TableName=self._table.name, Item=item, **condition)
            return True
        return False

    def get(self, lane: Lane, user: str, replay_id: str) -> RoundReplay | None:
        row = self._table.get(replay_pk(lane), replay_sk(lane, user, replay_id), consistent=True)
        return next(self._kept([row] if row else []), None)

    def of_round(self, lane: Lane, user: str, decided_n: int) -> list[RoundReplay]:
        rows = self._table.query(
            "pk = :pk AND begins_with(sk, :sk)",
            {":pk": {"S": replay_pk(lane)}, ":sk": {"S": replay_sk(lane, user, f"{decided_n}-")}},
            ConsistentRead=True,
        )
        return sorted(self._kept(rows), key=lambda replay: (replay.asked_at, replay.id))

    def drop(self, lane: Lane, user: str, replay_id: str) -> None:
        self._table.delete(replay_pk(lane), replay_sk(lane, user, replay_id))

    def _kept(self, rows: Iterator[Item] | list[Item]) -> Iterator[RoundReplay]:
        now_s = self._clock.now().timestamp()
        found = (_REPLAY.decode(row["body"]["B"]) for row in rows)
        return (replay for replay in found if now_s < replay.expires_at)
