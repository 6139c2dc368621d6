"""The model of an evaluation: the one that the environment configures, or the scripted one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from stepline.adapters.provider.client import ProviderClient
from stepline.adapters.provider.wire import plan_roles
from stepline.bootstrap.model_choice import model_of
from stepline.errors import InputError
from stepline.model.tenancy.price import SCRIPTED
from stepline.ports.model import DEFAULT_ROLE, ModelClient, ModelProvider
from stepline.replay.model_recording import PlayedModel, RecordingModel, read_recording
from stepline.replay.recorded_model import RECORDED
from stepline.settings import Settings

if TYPE_CHECKING:
    from stepline.local.evaluation.case_file import CaseFile

_OPENAI: Final = ("OPENAI_API_KEY", "OPENAI_BASE_URL")
_ROLES: Final = "STEPLINE_MODEL_ROLES"
_MODEL: Final = (
    *("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", *_OPENAI),
    *("STEPLINE_MODEL_PROVIDER", "STEPLINE_MODEL_PROVIDERS"),
)
CONFIGURED: Final = (
    *(*_MODEL, _ROLES),
    *("STEPLINE_PRICES", "STEPLINE_SEARCH_API_KEY", "STEPLINE_SEARCH_CORPUS"),
)
"""The variables of the environment that reach the agent of a case."""


@dataclass(frozen=True, kw_only=True)
class EvaluatedModel:
    """A model by its name in reports. `variables` configure it, and the agent.

    `provider` makes a provider for one run of a case, such as one that answers from a record; without it the variables
    choose one. `judges`: it can judge a sentence, which the scripted model cannot. The answers of a model that the
    variables `asked` name are recorded beside each case; those of one that `is_recorded` come from there. Then no variable
    of the environment reaches the agent, so its requests are equal elsewhere.
    """

    name: str
    variables: Mapping[str, str] = field(default_factory=dict)
    provider: Callable[[str], ModelProvider] | None = None
    judges: bool = True
    asked: Mapping[str, str] = field(default_factory=dict)
    is_recorded: bool = False

    def client(self, file: CaseFile, settings: Settings) -> ModelClient:
        """Return the client of a run of a case.

        Raises ModelRefused `model_credentials`; InputError `recording_missing`, `recording_invalid`, `format_newer`.
        """
        if self.is_recorded:
            return _played(file)
        if self.asked:
            return RecordingModel(model_of(Settings.from_env(self.asked)))
        if self.provider is None:
            return model_of(settings)
        provider = self.provider(file.name)
        return ProviderClient(provider, roles=plan_roles(provider.default_model, settings.model_roles))


def _played(file: CaseFile) -> PlayedModel:
    if not file.recording.exists():
        raise InputError(
            f"there is no recording {file.recording}: run `eval --record` with a model",
            code="recording_missing",
        )
    return PlayedModel(read_recording(file.recording), file.recording)


@contextmanager
def open_model(named: str, *, records: bool = False) -> Iterator[EvaluatedModel]:
    """Yield the model of a name; "" is the environment's, or the scripted one if it configures none.

    "recorded" answers from the recordings beside the cases, which another model with `records` writes.
    """
    if named == RECORDED:
        yield EvaluatedModel(name=RECORDED, is_recorded=True)
        return
    with _open_model(named) as found:
        yield replace(found, variables={}, asked=found.variables) if records else found


@contextmanager
def _open_model(named: str) -> Iterator[EvaluatedModel]:
    given = {name: os.environ[name] for name in CONFIGURED if os.environ.get(name)}  # noqa: TID251 - passed on to the agent, as `stepline up` does
    has_model = any(name in given for name in _MODEL)
    if named == SCRIPTED or not (named or has_model):
        from stepline.local.scripted.server import ScriptedServer

        with ScriptedServer(token_delay_ms=0) as server:
            own = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": SCRIPTED, **_roles(SCRIPTED, "")}
            others = {name: value for name, value in given.items() if name not in (*_MODEL, _ROLES)}
            yield EvaluatedModel(name=SCRIPTED, variables={**others, **own}, judges=False)
        return
    roles = _roles(named, given.get(_ROLES, "")) if named else {}
    has_openai = any(name in given for name in _OPENAI) and "ANTHROPIC_API_KEY" not in given
    variables = {**({"STEPLINE_MODEL_PROVIDER": "openai"} if has_openai else {}), **given, **roles}
    settings = Settings.from_env(variables)
    chosen = settings.model_roles.get(DEFAULT_ROLE)
    from stepline.bootstrap.choice import provider_of

    name = (chosen.model if chosen else "") or provider_of(settings).default_model
    yield EvaluatedModel(name=name, variables=variables)


def _roles(model: str, given: str) -> dict[str, str]:
    """Return the variable that gives every role without a model this one."""
    roles = json.loads(given) if given else {}
    return {_ROLES: json.dumps({**roles, DEFAULT_ROLE: model})}
