"""The listing row of a conversation: a projection of the log that carries its n, so that a late writer loses."""

from __future__ import annotations

from stepline.events.derive import render_title
from stepline.log.bindings import Ports
from stepline.log.spill import hydrate
from stepline.model.batch import EMPTY, Batch
from stepline.model.entry import Closed, Inbound, Titled
from stepline.model.ids import Lane
from stepline.ports.log import Listing


def project(ports: Ports, lane: Lane, batch: Batch) -> None:
    """Bring the conversation's listing row up to this batch."""
    closing = next((entry for entry in batch.entries if isinstance(entry, Closed)), None)
    ports.log.project(
        Listing(
            lane=lane,
            owner=batch.state.owner,
            title=_title(ports, lane, batch),
            last_at=batch.at,
            applied_n=batch.n,
            turn=closing.turn if closing else batch.state.turn,
            outcome=closing.outcome if closing else "",
            input_tokens=batch.state.input_tokens,
            output_tokens=batch.state.output_tokens,
        )
    )


def _title(ports: Ports, lane: Lane, batch: Batch) -> str:
    """Return the conversation's own title, or the beginning of its first message, on one line; a steer is none."""
    n = batch.state.titled or 1
    found = batch if batch.n == n else hydrate(ports.artifacts, ports.log.get(lane, n) or EMPTY)
    named = (entry.title for entry in found.entries if isinstance(entry, Titled))
    said = (entry.text for entry in found.entries if isinstance(entry, Inbound) and not entry.steers)
    return render_title(next(named, "") or next(said, ""))
