"""Wiring of every port over its in-memory twin, for tests and for your own processes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.adapters.memory.channel import MemoryPublisher, MemorySubscriptions
from stepline.adapters.memory.clock import MemoryClock, MemoryMeter
from stepline.adapters.memory.delta import MemoryDeltas
from stepline.adapters.memory.grant import MemoryGrants
from stepline.adapters.memory.log import MemoryLog
from stepline.adapters.memory.machine import MemoryMachine
from stepline.adapters.memory.memory_index import MemoryMemoryIndex
from stepline.adapters.memory.relay import MemoryRelay
from stepline.adapters.memory.signal import MemorySignals
from stepline.adapters.memory.task import MemoryTasks
from stepline.adapters.memory.tenancy.accounts import MemoryAccounts, MemoryCosts, MemoryRate
from stepline.adapters.memory.tenancy.erasure import MemoryErasure, MemoryUserErasures
from stepline.adapters.memory.ticket import MemoryTickets
from stepline.adapters.memory.upload.quarantine import MemoryUploads
from stepline.bootstrap.choice import (
    bundle_rules,
    outward,
    pages_of,
    policy,
    search_of,
    servers_of,
    traces_of,
)
from stepline.bootstrap.loop_app import LoopApp
from stepline.delivery.posting import GatewayBroadcast
from stepline.delivery.program_log import post_log
from stepline.ingress.erase_user import ErasurePorts
from stepline.log.bindings import Ports
from stepline.model.program.running_log import read_log_key

if TYPE_CHECKING:
    from stepline.ports.clock import Meter
    from stepline.ports.model import ModelClient
    from stepline.settings import Settings


def in_memory(
    settings: Settings,
    *,
    log: MemoryLog | None = None,
    model: ModelClient | None = None,
    meter: Meter | None = None,
) -> LoopApp:
    """Wire the app to the in-memory twins; the caller drives the executions."""
    clock = MemoryClock()
    deltas, subscriptions, publisher = MemoryDeltas(clock), MemorySubscriptions(clock), MemoryPublisher()
    search = search_of(settings)
    artifacts, log, meter = MemoryArtifacts(), log or MemoryLog(), meter or MemoryMeter()
    costs, uploads = MemoryCosts(), MemoryUploads()
    ports = Ports(
        log=log,
        artifacts=artifacts,
        subscriptions=subscriptions,
        tickets=MemoryTickets(clock),
        rate=MemoryRate(),
        accounts=MemoryAccounts(),
        costs=costs,
        erasure=MemoryErasure(log, artifacts, deltas, subscriptions, uploads, costs),
        publisher=publisher,
        broadcast=GatewayBroadcast(
            subscriptions=subscriptions, publisher=publisher, meter=meter, clock=clock
        ),
        signals=MemorySignals(log),
        deltas=deltas,
        relay=MemoryRelay(deltas=deltas, subscriptions=subscriptions, publisher=publisher),
        machine=MemoryMachine(),
        tasks=MemoryTasks(clock),
        grants=MemoryGrants(artifacts, clock),
        uploads=uploads,
        clock=clock,
        meter=meter,
        search=search,
        pages=pages_of(search),
        servers=servers_of(settings),
        traces=traces_of(settings, clock, meter),
        policy=policy(settings),
        outward=outward(settings),
        bundles=bundle_rules(settings),
    )
    ports = replace(ports, memory=MemoryMemoryIndex(ports))
    artifacts.replaced = lambda key: _post(ports, key)
    return LoopApp(settings=settings, ports=ports, given=model)


def erasure_in_memory(ports: Ports) -> ErasurePorts | None:
    """Wire erasure for the twins, None without tombstones; the caller drives its passes."""
    if ports.erasure is None:
        return None
    return ErasurePorts(ports=ports, erasure=ports.erasure, users=MemoryUserErasures(ports.clock))


def _post(ports: Ports, key: str) -> None:
    """Post the log whose copy was replaced, as the function does on the event."""
    if found := read_log_key(key):
        post_log(ports, *found)
