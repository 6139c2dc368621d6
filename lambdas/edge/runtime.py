"""Parts that all handlers share: the logger, the metrics, the wiring, and the only catch-all, at the edge."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from functools import cache, wraps
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec
from aws_lambda_powertools import Logger, Metrics, single_metric
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit
from msgspec.structs import replace
from snapshot_restore_py import register_after_restore

from stepline.bootstrap.snapshot import forget, initialise
from stepline.errors import SteplineError
from stepline.metrics import (
    AWS_USD,
    COSTS_UNRECORDED,
    EDGE_ERRORS,
    MODEL_USD,
    NAMESPACE,
    SERVICE,
    dimensions,
)
from stepline.model.ids import Lane, utc
from stepline.model.step import Step, read_step
from stepline.model.tenancy.aws_price import price_consumption, sum_lines
from stepline.model.tenancy.consumption import InvocationCost
from stepline.model.tenancy.limits import NANOS_PER_USD
from stepline.settings import Settings, handed_on, read_packaged

if TYPE_CHECKING:
    from stepline.bootstrap.app import App
    from stepline.loop.tenancy.state_visit import StateVisit

# Named like the library, so the library's own loggers are its children and write the same JSON.
logger = Logger(service=SERVICE)
metrics = Metrics(namespace=NAMESPACE, service=SERVICE)

INTERNAL = SteplineError.code
UNITS = {"Ms": MetricUnit.Milliseconds, "Seconds": MetricUnit.Seconds}

Event: TypeAlias = dict[str, Any]
T = TypeVar("T")
A = TypeVar("A", bound="App")

PACKAGE = Path(__file__).parents[2]
"""The folder of the function's own code."""


class Invocation:
    """The current invocation of this process, which runs one at a time."""

    def __init__(self) -> None:
        """Start without an app."""
        self.app: App | None = None
        self.function = ""
        self._began_s = 0.0
        self._memory_mb = 0
        self._visit: StateVisit | None = None
        self._route = ""

    def begin(self, function: str, memory_mb: int) -> None:
        """Start counting for a call of a function."""
        self._began_s, self._memory_mb = time.monotonic(), memory_mb
        self.function, self._visit, self._route = function, None, ""
        if self.app:
            self.app.ports.ledger.begin(memory_mb)

    def wired(self, app: App) -> None:
        """Count the work of this app from the start of the call, including the creation of the app."""
        self.app = app
        app.ports.ledger.begin(self._memory_mb, began_s=self._began_s or None)

    def forget(self) -> None:
        """Drop the app."""
        self.app = None

    def enters(self, visit: StateVisit) -> None:
        """Record the state and attempt of the call; its cost belongs to the conversation, even if the call fails."""
        self._visit = visit

    def left(self, route: str) -> None:
        """Count the transitions of a state that succeeded."""
        self._route = route
        if self.app and self._visit:
            counted = self._visit.transitions(route, prepares=_prepares(self.app))
            self.app.ports.ledger.count("transitions", counted)

    def failed(self, error: Exception) -> None:
        """Count the transitions of a failed attempt at a state."""
        if self.app and self._visit:
            counted = self._visit.transitions(None, type(error).__name__, prepares=_prepares(self.app))
            self.app.ports.ledger.count("transitions", counted)

    def cost(self) -> tuple[Lane, InvocationCost] | None:
        """Return the invocation's conversation and the row of its usage; None without a conversation."""
        if self.app is None:
            return None
        ledger, at = self.app.ports.ledger, utc(self.app.ports.clock.now())
        if self._visit:
            fields = {**self._visit.fields(prepares=_prepares(self.app)), "route": self._route}
            return self._visit.step.lane(), InvocationCost(at=at, used=ledger.consumption(), **fields)
        if ledger.lane is None:
            return None
        return ledger.lane, InvocationCost(
            turn=ledger.turn,
            function=self.function,
            at=at,
            used=ledger.consumption(),
            calls=ledger.beside,
        )


def _prepares(app: App) -> bool:
    """Return True if the deployment has the state that prepares programs."""
    return app.settings.exec_mode != "none" or bool(app.settings.fargate_cluster)


INVOCATION = Invocation()

_MADE: list[Callable[[], None]] = []
"""Functions that drop the objects created for this environment."""


def once(make: Callable[[], T]) -> Callable[[], T]:
    """Create an object on first use, once per environment; an environment restored from a snapshot creates its own."""
    made = cache(make)
    _MADE.append(made.cache_clear)
    return made


def wired(kind: type[A]) -> Callable[[], A]:
    """Return a function that returns the app, wired on first use from the environment; its modules are loaded now."""
    from stepline.bootstrap import aws_wiring  # noqa: PLC0415 - 30 ms of CPU, and the authorizer needs few ports

    def wire() -> A:
        app = aws_wiring.on_aws(read_settings(), PowertoolsMeter(), kind, handed=handed_on(_environment()))
        INVOCATION.wired(app)
        return app

    return once(wire)


def read_settings() -> Settings:
    """Return the settings that the environment has, and add the stage to every metric."""
    settings = Settings.from_env(_environment())
    metrics.set_default_dimensions(**dimensions(settings.stage))
    return settings


def _environment() -> Mapping[str, str]:
    """Return the variables, with the texts of those that name a file of the package."""
    return read_packaged(os.environ, PACKAGE)  # noqa: TID251 - the composition root reads the environment


def restored() -> None:
    """Start like a new environment: nothing that was created before the snapshot is used after it."""
    forget()
    drop()


def drop() -> None:
    """Drop every object that `once` created."""
    for clear in _MADE:
        clear()
    INVOCATION.forget()


class PowertoolsMeter:
    """Counts into the invocation's embedded metrics. Thread-safe, unlike the metrics themselves."""

    def __init__(self) -> None:
        """Start counting into `metrics`."""
        self._lock = Lock()

    def count(self, name: str, value: float = 1, *, reason: str = "") -> None:
        with self._lock:
            self._count(name, value, reason)

    def _count(self, name: str, value: float, reason: str) -> None:
        unit = next((unit for end, unit in UNITS.items() if name.endswith(end)), MetricUnit.Count)
        metrics.add_metric(name=name, unit=unit, value=value)
        if reason:  # a separate metric, with a dimension that the invocation's other metrics do not have
            with single_metric(
                name=name,
                unit=unit,
                value=value,
                namespace=NAMESPACE,
                default_dimensions=metrics.default_dimensions,
            ) as metric:
                metric.add_dimension(name="reason", value=reason)


def edge(run: Callable[[Event], Event]) -> Callable[[Event, Any], Event]:
    """Make a handler that names the request in log lines, flushes metrics, and keeps the class names of errors.

    Its process loads the modules of the first call while Lambda initialises it. If Lambda keeps a snapshot of the
    function, the process is cleared when it is restored.
    """
    register_after_restore(restored)
    initialise(os.environ)  # noqa: TID251 - Lambda's own variables
    name = run.__module__.rpartition(".")[2]

    @logger.inject_lambda_context(clear_state=True)
    @wraps(run)
    def handler(event: Event, context: Any) -> Event:
        INVOCATION.begin(name, int(context.memory_limit_in_mb))
        try:
            return run(event)
        except Exception as error:
            INVOCATION.failed(error)
            said = {"code": error.reason, **error.context} if isinstance(error, SteplineError) else {}
            if said.get("code", INTERNAL) == INTERNAL:  # a bug, or a permission that a role lacks
                PowertoolsMeter().count(EDGE_ERRORS)
                logger.exception("failed", extra=said)
            else:
                logger.warning("refused", extra=said)
            raise
        finally:
            record_cost()
            if metrics.provider.metric_set:
                metrics.flush_metrics()

    handled: Callable[[Event, Any], Event] = handler
    return handled


def record_cost() -> None:
    """Store the cost row of an invocation that served a conversation, and count its cost by tenant.

    A row that cannot be stored is logged and counted, and does not fail the call: the receipt says that a row is
    missing.
    """
    found, app = INVOCATION.cost(), INVOCATION.app
    if found is None or app is None:
        return
    lane, cost = found
    aws_nanos = sum_lines(price_consumption(cost.used, app.ports.policy.prices.units))
    count_spent(
        lane.tenant,
        {MODEL_USD: app.ports.ledger.spent_nanos / NANOS_PER_USD, AWS_USD: aws_nanos / NANOS_PER_USD},
    )
    try:
        app.ports.costs.put(lane, cost)
    except SteplineError as error:
        PowertoolsMeter().count(COSTS_UNRECORDED)
        logger.exception("cost not recorded", extra={"code": error.reason})


def count_spent(tenant: str, spent: Mapping[str, float]) -> None:
    """Count dollars in metrics with the dimension `tenant`: two series for each tenant."""
    own = EphemeralMetrics(
        namespace=NAMESPACE,
        service=SERVICE,
        default_dimensions={**metrics.default_dimensions, "tenant": tenant},
    )
    for name, usd in spent.items():
        own.add_metric(name=name, unit=MetricUnit.NoUnit, value=usd)
    own.flush_metrics()


def state(run: Callable[[Step], Step]) -> Callable[[Event, Any], Event]:
    """Make a state's handler. In: `{step, attempt}`. Out: the next step."""

    @edge
    @wraps(run)
    def handler(event: Event) -> Event:
        return follow(event, run)

    return handler


def follow(event: Event, run: Callable[[Step], Step | None]) -> Event:
    """Run the step of a state's event; return the next step, or an empty object if there is none."""
    step = read_step(event["step"], attempt=event["attempt"])
    logger.append_keys(
        turn_id=step.turn, conversation=step.conversation, round=step.iteration, attempt=step.attempt
    )
    from stepline.loop.tenancy import state_visit  # noqa: PLC0415 - only states load the loop

    INVOCATION.enters(state_visit.StateVisit(INVOCATION.function, step, "token" in event))
    following = run(step)
    INVOCATION.left(following.route if following else "started")
    if following is None:
        return {}
    following = replace(following, visit=step.visit + 1)
    logger.info("step done", extra={"route": following.route})
    built: Event = msgspec.to_builtins(following)
    return built
