"""How often one user may speak, over all connections, in every minute of the clock."""

from __future__ import annotations

from typing import Final

from stepline.errors import LimitError
from stepline.log.bindings import Ports
from stepline.ports.channel import Principal

MINUTE_S: Final = 60


def check_rate(ports: Ports, principal: Principal) -> None:
    """Count one message; a refused one counts too, and so does one that is sent again.

    Raises:
        LimitError: `rate_limited`, with a sentence and `retry_after_s` that say when to try again.

    """
    limit = ports.policy.user_messages_per_minute
    if limit <= 0:
        return
    minute, passed_s = divmod(int(ports.clock.now().timestamp()), MINUTE_S)
    if ports.rate.count(principal, minute) > limit:
        raise LimitError(
            f"You may send {limit} messages a minute. Please send this one again in {MINUTE_S - passed_s} s.",
            code="rate_limited",
            retry_after_s=MINUTE_S - passed_s,
        )
