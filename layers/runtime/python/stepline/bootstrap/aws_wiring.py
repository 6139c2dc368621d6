"""Wiring of every port over AWS, or over an AWS emulator."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from stepline.adapters.aws.artifacts import S3Artifacts
from stepline.adapters.aws.delta import DynamoDeltas
from stepline.adapters.aws.grant import S3Grants
from stepline.adapters.aws.log import DynamoLog
from stepline.adapters.aws.machine import StepFunctionsMachine
from stepline.adapters.aws.publisher import GatewayPublisher
from stepline.adapters.aws.secret import StoredSecrets
from stepline.adapters.aws.subscription import DynamoSubscriptions
from stepline.adapters.aws.table import Table
from stepline.adapters.aws.task import EcsTasks
from stepline.adapters.aws.tenancy.accounts import DynamoAccounts, DynamoCosts, DynamoRate
from stepline.adapters.aws.tenancy.erasure import AwsErasure
from stepline.adapters.aws.ticket import DynamoTickets
from stepline.adapters.embedded.memory_index import EmbeddedMemoryIndex
from stepline.adapters.parallel import ParallelPosts
from stepline.adapters.relay import ThreadedRelay
from stepline.adapters.system import SystemClock
from stepline.adapters.web.metered_web import MeteredPages, MeteredSearch
from stepline.bootstrap.choice import (
    StoredUploads,
    bundle_rules,
    live_of,
    memory_of,
    outward,
    pages_of,
    policy,
    search_of,
    servers_of,
    traces_of,
)
from stepline.delivery.post_pace import PostPace, least_interval_s
from stepline.delivery.posting import GatewayBroadcast
from stepline.log.bindings import Ports
from stepline.metering.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepline.bootstrap.app import App
    from stepline.ports.clock import Meter
    from stepline.settings import Settings

A = TypeVar("A", bound="App")


def on_aws(settings: Settings, meter: Meter, kind: type[A], *, handed: Mapping[str, str] | None = None) -> A:
    """Wire an app of this kind to AWS, or to an AWS emulator; nothing is connected before its first use."""
    clock = SystemClock()
    ledger = Ledger()
    table = Table(settings.table, ledger=ledger)
    deltas = DynamoDeltas(table, clock)
    subscriptions = DynamoSubscriptions(table, clock)
    publisher = GatewayPublisher(settings.callback_url, ledger=ledger)
    log = DynamoLog(table)
    pace = PostPace(least_interval_s(settings.open_turns))
    posting = GatewayBroadcast(
        subscriptions=subscriptions,
        publisher=publisher,
        meter=meter,
        clock=clock,
        post_all=ParallelPosts(),
        pace=pace,
    )
    live = live_of(settings, log, posting)
    ports = Ports(
        log=log,
        artifacts=S3Artifacts(settings.bucket, ledger=ledger),
        subscriptions=subscriptions,
        tickets=DynamoTickets(table, clock),
        rate=DynamoRate(table),
        accounts=DynamoAccounts(table),
        costs=DynamoCosts(table),
        erasure=AwsErasure(table, settings.bucket, clock),
        publisher=publisher,
        broadcast=live.broadcast,
        signals=live.signals,
        deltas=deltas,
        relay=ThreadedRelay(
            deltas=deltas,
            subscriptions=subscriptions,
            publisher=publisher,
            clock=clock,
            meter=meter,
            pace=pace,
            broadcast=live.beside,
            post_all=ParallelPosts(),
        ),
        machine=StepFunctionsMachine(settings.machine_arn),
        tasks=EcsTasks(table, settings.stage, clock, key_arn=settings.fargate_kms_key_arn),
        grants=S3Grants(settings.bucket),
        uploads=StoredUploads(table),
        clock=clock,
        meter=meter,
        ledger=ledger,
        traces=traces_of(settings, clock, meter),
        policy=policy(settings),
        outward=outward(settings),
        bundles=bundle_rules(settings),
    )
    ports = replace(ports, memory=memory_of(settings, ledger) or EmbeddedMemoryIndex(ports))
    if kind.runs_tools:
        ports = _with_tools(ports, settings)
    return kind(settings=settings, ports=ports, handed=handed or {})


def _with_tools(ports: Ports, settings: Settings) -> Ports:
    """Add the ports of tools."""
    secrets = StoredSecrets(settings.stage, ports.clock)
    search = search_of(settings, secrets)
    return replace(
        ports,
        search=MeteredSearch(search, ports.ledger),
        pages=MeteredPages(pages_of(search), ports.ledger),
        servers=servers_of(settings),
        secrets=secrets,
    )
