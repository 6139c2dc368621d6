"""The model of a replay: one that the deployment names, as its role has it."""

from __future__ import annotations

from typing import Any

import pytest

from stepline.bootstrap.replays.replay_wiring import choose_role, configured_models
from stepline.errors import InputError
from stepline.ports.model import DECISION_ROLE, ModelServer, RoleChoice
from stepline.settings import Settings

OPUS, SONNET, HAIKU = "claude-opus-4-8", "claude-sonnet-5", "claude-haiku-4-5"
SETTINGS = Settings(
    model_roles={
        "*": RoleChoice(model=SONNET),
        DECISION_ROLE: RoleChoice(model=OPUS, fallback=SONNET, max_tokens=9_000),
        "gate.simple": RoleChoice(model=HAIKU, cache_ttl="1h"),
    },
    model_providers={
        "local": ModelServer(
            base_url="http://localhost:1/v1", private=True, window_tokens=8_192, prices=({"model": "m"},)
        )
    },
)


def test_the_models_are_those_of_roles_with_fallbacks_and_those_with_prices() -> None:
    assert configured_models(SETTINGS) == (OPUS, SONNET, HAIKU, "local:m")
    assert len(configured_models(Settings())) == 1


@pytest.mark.parametrize(
    ("model", "effort", "choice"),
    [
        ("", "", {"model": OPUS, "max_tokens": 9_000, "fallback": SONNET}),
        ("", "low", {"model": OPUS, "effort": "low"}),
        (SONNET, "", {"model": SONNET, "fallback": ""}),
        (HAIKU, "", {"model": HAIKU, "cache_ttl": "1h"}),
        ("local:m", "", {"model": "local:m"}),
    ],
)
def test_a_model_is_asked_as_its_role_has_it(model: str, effort: str, choice: dict[str, Any]) -> None:
    found = choose_role(SETTINGS, DECISION_ROLE, model, effort)
    assert {name: getattr(found, name) for name in choice} == choice


def test_an_effort_that_the_model_does_not_take_is_refused_by_its_name() -> None:
    with pytest.raises(InputError, match=HAIKU) as refused:
        choose_role(SETTINGS, DECISION_ROLE, HAIKU, "max")
    assert refused.value.reason == "choice_refused"
