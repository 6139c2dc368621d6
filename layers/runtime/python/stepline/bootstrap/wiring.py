"""The app over its adapters: AWS or an emulator of it, or the memory twins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepline.adapters.aws.artifacts import S3Artifacts
from stepline.adapters.aws.delta import DynamoDeltas
from stepline.adapters.aws.grant import S3Grants
from stepline.adapters.aws.log import DynamoLog
from stepline.adapters.aws.machine import StepFunctionsMachine
from stepline.adapters.aws.publisher import GatewayPublisher
from stepline.adapters.aws.rate import DynamoRate
from stepline.adapters.aws.subscription import DynamoSubscriptions
from stepline.adapters.aws.table import Table
from stepline.adapters.aws.task import EcsTasks
from stepline.adapters.aws.ticket import DynamoTickets
from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.adapters.memory.channel import MemoryPublisher, MemorySubscriptions
from stepline.adapters.memory.clock import MemoryClock
from stepline.adapters.memory.delta import MemoryDeltas
from stepline.adapters.memory.grant import MemoryGrants
from stepline.adapters.memory.log import MemoryLog
from stepline.adapters.memory.machine import MemoryMachine
from stepline.adapters.memory.meter import MemoryMeter
from stepline.adapters.memory.rate import MemoryRate
from stepline.adapters.memory.relay import MemoryRelay
from stepline.adapters.memory.signal import MemorySignals
from stepline.adapters.memory.task import MemoryTasks
from stepline.adapters.memory.ticket import MemoryTickets
from stepline.adapters.parallel import ParallelPosts
from stepline.adapters.relay import ThreadedRelay
from stepline.adapters.system import SystemClock
from stepline.bootstrap.app import App
from stepline.bootstrap.choice import live_of, outward, policy, search_of
from stepline.delivery.posting import Posting
from stepline.log.bindings import Ports
from stepline.log.timeline_cache import History

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepline.ports.clock import Meter
    from stepline.ports.model import ModelClient
    from stepline.settings import Settings


def on_aws(settings: Settings, meter: Meter, *, handed: Mapping[str, str] | None = None) -> App:
    """Wire the app to AWS, or to an emulator of it; nothing is connected before its first use."""
    clock = SystemClock()
    table = Table(settings.table)
    deltas = DynamoDeltas(table, clock)
    subscriptions = DynamoSubscriptions(table, clock)
    publisher = GatewayPublisher(settings.callback_url)
    log = DynamoLog(table)
    posting = Posting(
        subscriptions=subscriptions,
        publisher=publisher,
        meter=meter,
        clock=clock,
        post_all=ParallelPosts(),
    )
    live = live_of(settings, log, posting)
    ports = Ports(
        log=log,
        artifacts=S3Artifacts(settings.bucket),
        subscriptions=subscriptions,
        tickets=DynamoTickets(table, clock),
        rate=DynamoRate(table),
        publisher=publisher,
        broadcast=live.broadcast,
        signals=live.signals,
        deltas=deltas,
        relay=ThreadedRelay(
            deltas=deltas,
            subscriptions=subscriptions,
            publisher=publisher,
            clock=clock,
            broadcast=live.beside,
            post_all=ParallelPosts(),
        ),
        machine=StepFunctionsMachine(settings.machine_arn),
        tasks=EcsTasks(table, settings.stage, clock),
        grants=S3Grants(settings.bucket),
        clock=clock,
        meter=meter,
        search=search_of(settings),
        policy=policy(settings),
        outward=outward(settings),
    )
    return App(settings=settings, ports=ports, history=History(), handed=handed or {})


def in_memory(
    settings: Settings,
    *,
    log: MemoryLog | None = None,
    model: ModelClient | None = None,
    meter: Meter | None = None,
) -> App:
    """Wire the app to the memory twins; whoever calls it drives the executions itself."""
    clock = MemoryClock()
    deltas, subscriptions, publisher = MemoryDeltas(clock), MemorySubscriptions(clock), MemoryPublisher()
    artifacts, log, meter = MemoryArtifacts(), log or MemoryLog(), meter or MemoryMeter()
    ports = Ports(
        log=log,
        artifacts=artifacts,
        subscriptions=subscriptions,
        tickets=MemoryTickets(clock),
        rate=MemoryRate(),
        publisher=publisher,
        broadcast=Posting(subscriptions=subscriptions, publisher=publisher, meter=meter, clock=clock),
        signals=MemorySignals(log),
        deltas=deltas,
        relay=MemoryRelay(deltas=deltas, subscriptions=subscriptions, publisher=publisher),
        machine=MemoryMachine(),
        tasks=MemoryTasks(clock),
        grants=MemoryGrants(artifacts, clock),
        clock=clock,
        meter=meter,
        search=search_of(settings),
        policy=policy(settings),
        outward=outward(settings),
    )
    return App(settings=settings, ports=ports, history=History(), given=model)
