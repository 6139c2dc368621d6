"""What every handler shares: the logger, the metrics, the wired app, and the one catch-all at the edge."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, TypeAlias

import msgspec
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.logging.utils import copy_config_to_registered_loggers
from aws_lambda_powertools.metrics import MetricUnit

from stepline.bootstrap import App, on_aws
from stepline.errors import SteplineError
from stepline.metrics import EDGE_ERRORS, NAMESPACE
from stepline.model.step import Step
from stepline.settings import Settings

logger = Logger(service="stepline")
metrics = Metrics(namespace=NAMESPACE, service="stepline")
copy_config_to_registered_loggers(source_logger=logger, include={"stepline"})

Event: TypeAlias = dict[str, Any]


@cache
def app() -> App:
    """Return the app, wired on first use from the environment."""
    return on_aws(Settings.from_env(os.environ))  # noqa: TID251 - the composition root's one look at the environment


def count(name: str, value: float = 1, unit: MetricUnit = MetricUnit.Count) -> None:
    """Count one thing under a name of stepline.metrics."""
    metrics.add_metric(name=name, unit=unit, value=value)


def state(run: Callable[[Step], Step]) -> Callable[[Event, Any], Event]:
    """Make a state's handler: In `{step, attempt}`, out the step that follows; errors keep their class's name."""

    @metrics.log_metrics
    @wraps(run)
    def handler(event: Event, context: Any) -> Event:
        step = msgspec.convert({**event["step"], "attempt": event["attempt"]}, Step)
        logger.append_keys(turn_id=step.turn, conversation=step.conversation, round=step.iteration)
        try:
            following = run(step)
        except SteplineError as error:
            logger.warning(
                "step refused", extra={"code": error.reason, "attempt": step.attempt, **error.context}
            )
            raise
        except Exception:
            count(EDGE_ERRORS)
            logger.exception("step failed", extra={"attempt": step.attempt})
            raise
        logger.info("step done", extra={"route": following.route, "attempt": step.attempt})
        built: Event = msgspec.to_builtins(following)
        return built

    return handler
