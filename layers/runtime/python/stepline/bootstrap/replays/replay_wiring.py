"""Wiring of replays: of the API that starts them, and of Decide, which makes them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepline.adapters.provider.wire import fall_back
from stepline.adapters.replays.replay_call import InvokedReplays
from stepline.adapters.replays.replay_rows import DynamoReplays
from stepline.bootstrap.choice import provider_of, roles_of
from stepline.errors import InputError
from stepline.inspection.replay_request import ReplayPorts
from stepline.ports.model import DECISION_ROLE, DEFAULT_ROLE, RoleChoice

if TYPE_CHECKING:
    from stepline.adapters.aws.table import Table
    from stepline.bootstrap.loop_app import LoopApp
    from stepline.log.bindings import Ports
    from stepline.loop.agent import Agent
    from stepline.loop.replays.replay_round import ChosenModel, ReplayDesk
    from stepline.ports.round_replay import RoundReplays
    from stepline.settings import Settings


def replays_on_aws(settings: Settings, ports: Ports) -> ReplayPorts:
    """Wire the API's replays over AWS; nothing is connected before its first use."""
    return ReplayPorts(
        replays=rows_on_aws(settings, ports),
        start=InvokedReplays(settings.decide_arn),
        models=configured_models(settings),
    )


def rows_on_aws(settings: Settings, ports: Ports) -> RoundReplays:
    """Return the rows of replays in the stage's table."""
    from stepline.adapters.aws.table import Table  # noqa: PLC0415 - a test in memory has none

    table: Table = Table(settings.table, ledger=ports.ledger)
    return DynamoReplays(table, ports.clock)


def configured_models(settings: Settings) -> tuple[str, ...]:
    """Return the models that roles name, that of decisions first, and those that providers' rows have prices for."""
    roles = roles_of(settings)
    first = roles.get(DECISION_ROLE, roles[DEFAULT_ROLE])
    named = [first, *roles.values()]
    priced = (
        f"{name}:{price['model']}"
        for name, row in settings.model_providers.items()
        for price in row.prices
        if price.get("model")
    )
    models = (first.model, *(one for role in named for one in (role.model, role.fallback)), *priced)
    return tuple(dict.fromkeys(filter(None, models)))


def choose_role(settings: Settings, agent_role: str, model: str, effort: str) -> RoleChoice:
    """Return the choice of a replay's model: as a role has it, with another effort if one is wished.

    Raises InputError `choice_refused`: the model refuses the effort.
    """
    roles = roles_of(settings)
    own = roles.get(agent_role, roles[DEFAULT_ROLE])
    choice = own if model in ("", own.model) else _find(roles, model)
    if effort:
        choice = replace(choice, effort=effort)
    refusals = provider_of(_only(settings, choice)).find_refusals(choice)
    if refusals:
        raise InputError("; ".join(refusals), code="choice_refused")
    return choice


def _find(roles: dict[str, RoleChoice], model: str) -> RoleChoice:
    for role in roles.values():
        if role.model == model:
            return replace(role, fallback="", fallback_family="")
    backup = next((role for role in roles.values() if role.fallback == model), None)
    return fall_back(backup) if backup else RoleChoice(model=model)


def _only(settings: Settings, choice: RoleChoice) -> Settings:
    """Return the settings with one model for every role."""
    return replace(settings, model_roles={DEFAULT_ROLE: choice})


def choose_model(app: LoopApp, agent: Agent, model: str, effort: str) -> ChosenModel:
    """Return the client of a replay's model. Raises InputError `choice_refused`, ModelRefused `model_credentials`."""
    from stepline.bootstrap.model_choice import model_of  # noqa: PLC0415 - the API has no model
    from stepline.loop.replays.replay_round import ChosenModel  # noqa: PLC0415 - as above

    choice = choose_role(app.settings, agent.role, model, effort)
    client = app.given or model_of(_only(app.settings, choice), app.ports.meter)
    return ChosenModel(client=client, named=choice.named)


def desk_of(app: LoopApp, replays: RoundReplays) -> ReplayDesk:
    """Return the dependencies of replays of the app's bundle."""
    from stepline.loop.replays.replay_round import ReplayDesk  # noqa: PLC0415 - the API makes no replay

    return ReplayDesk(
        ports=app.ports,
        replays=replays,
        history=app.history,
        agent=lambda: app.agent,
        choose=partial(choose_model, app),
    )
