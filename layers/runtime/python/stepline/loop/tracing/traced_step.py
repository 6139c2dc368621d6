"""The span of a step: one visit of Decide, Act, Execute or Close, with its attempt, and the route that it returned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Concatenate, ParamSpec

from stepline.log.bindings import Ports
from stepline.metering.convention import CONVERSATION, failure_code
from stepline.metering.span import begin_visit
from stepline.model.step import Step
from stepline.ports.tracing.traces import Attribute

P = ParamSpec("P")


def traced(run: Callable[Concatenate[Ports, P], Step]) -> Callable[Concatenate[Ports, P], Step]:
    """Run a step's function within a span, as the parent of its own spans, and send them all when it ends."""

    @wraps(run)
    def within(ports: Ports, /, *args: P.args, **kwargs: P.kwargs) -> Step:
        step = next((given for given in args if isinstance(given, Step)), None)
        if ports.traces is None or step is None:
            return run(ports, *args, **kwargs)
        attributes: dict[str, Attribute] = {
            CONVERSATION: step.conversation,
            "stepline.turn": step.turn,
            "stepline.round": step.iteration,
            "stepline.attempt": step.attempt,
            "stepline.epoch": step.epoch,
        }
        span = begin_visit(
            ports.traces, ports.clock, step.lane(), step.turn, name=run.__name__, attributes=attributes
        )
        try:
            following = run(replace(ports, span=span), *args, **kwargs)
            span.set({"stepline.route": following.route})
        except BaseException as error:
            span.fail(failure_code(error))
            raise
        finally:
            span.end()
        return following

    return within
