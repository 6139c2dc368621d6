"""Turns in this process: runs a bundle's workflow over any ports of the app, without a state machine.

Programs run on this machine, not in AWS tasks: a task reports to a state machine, and there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from threading import Lock
from typing import TYPE_CHECKING, Final

import msgspec

from stepline.adapters.in_process_machine import InProcessMachine
from stepline.bootstrap.program_backend import ProgramBackends
from stepline.bundle.parts import Parts
from stepline.loop.act import act
from stepline.loop.close import close
from stepline.loop.decide import decide
from stepline.loop.hooks.run_hook import follow_turn
from stepline.loop.programs.execute import execute
from stepline.loop.programs.serve_call import serve_call
from stepline.metering.ledger import Ledger
from stepline.model.ids import DEFAULT_BUNDLE
from stepline.model.program.execution import RuntimeProfile
from stepline.model.program.served_call import ServedAnswer, ServedCall
from stepline.settings import PLACEMENTS, Settings

if TYPE_CHECKING:
    from stepline.bootstrap.loop_app import LoopApp
    from stepline.ingress.file_checks import FileChecks
    from stepline.log.bindings import Ports
    from stepline.log.timeline_cache import History
    from stepline.loop.agent import Agent
    from stepline.model.step import Step
    from stepline.ports.model import ModelClient

PROFILES: Final = tuple(
    RuntimeProfile(backend=mode) for mode, placement in PLACEMENTS.items() if placement == "inline"
)
"""A profile for each backend that runs programs here."""
STEPS_AT_ONCE: Final = 64
"""The number of steps that run at once, each in a thread; the others wait for a thread."""


class InProcess:
    """The runtime of workflows (`bundle.runtime.Runtime`): one per process, for all its bundles and conversations."""

    def __init__(self, app: LoopApp) -> None:
        """Use the ports and the settings of `app`, except for its machine."""
        self.machine = InProcessMachine()
        self.threads = ThreadPoolExecutor(STEPS_AT_ONCE, thread_name_prefix="stepline")
        ports = replace(app.ports, machine=self.machine)
        self._app = replace(app, settings=_without_tasks(app.settings), ports=ports)
        self._lock = Lock()
        self._model: ModelClient | None = None
        self._homes: dict[tuple[str, Parts], ProgramBackends] = {}
        self._programs = Lock()

    @property
    def ports(self) -> Ports:
        return self._app.ports

    @property
    def history(self) -> History:
        return self._app.history

    @cached_property
    def file_checks(self) -> FileChecks:
        from stepline.bootstrap.upload_wiring import checks_in_process  # noqa: PLC0415 - few messages have files

        return checks_in_process(self._app.settings, self._app.ports)

    def name_of(self, module: str) -> str:
        settings = self._app.settings
        if module == settings.bundle:
            return DEFAULT_BUNDLE
        return next((name for name, choice in settings.bundles.items() if choice.module == module), "")

    def build_agent(self, parts: Parts) -> Agent:
        return self._app_of(parts.bundle).build_agent(parts)

    def loop(self, agent: Agent, parts: Parts) -> InProcessLoop:
        own = replace(self._app_of(parts.bundle), made=agent)
        with self._lock:
            self._model = self._model or own.model
        modules = Parts(tools_module=parts.tools_module, skills_module=parts.skills_module)
        return InProcessLoop(
            app=replace(own, given=self._model),
            programs=self._programs,
            home=lambda: self._home(own, modules),
        )

    def _app_of(self, module: str) -> LoopApp:
        """Return the app of the bundle with this package, or the default app if the settings do not name it."""
        name = self.name_of(module)
        return self._app if name in ("", DEFAULT_BUNDLE) else self._app.of(name)

    def close(self) -> None:
        """End the backends that are kept warm for programs."""
        with self._lock:
            homes, self._homes = self._homes, {}
        for (bundle, _), home in homes.items():
            for executor in filter(None, (home.find(profile, bundle) for profile in PROFILES)):
                executor.close()

    def _home(self, app: LoopApp, parts: Parts) -> ProgramBackends:
        """Return the backends that run the programs of a bundle's app with these modules, kept warm."""
        with self._lock:
            known = (app.bundle, parts)
            if known not in self._homes:
                home = ProgramBackends(replace(app, made=app.build_agent(parts)))
                for profile in PROFILES:
                    home.find(profile, app.bundle)  # created here, once: nothing starts before the first run
                self._homes[known] = home
            return self._homes[known]


@dataclass(frozen=True, kw_only=True)
class InProcessLoop:
    """The steps of a turn for one agent; its programs see the bundle's modules but none of its functions.

    `programs` is held while a program runs: an executor runs one at a time.
    """

    app: LoopApp
    programs: Lock
    home: Callable[[], ProgramBackends]

    def decide(self, step: Step) -> Step:
        return decide(self._ports(), self.app.agent, self.app.model, self.app.history, step)

    def act(self, step: Step) -> Step:
        return act(self._ports(), self.app.agent, self.app.history, step)

    def execute(self, step: Step) -> Step:
        with self.programs:
            return execute(
                self._ports(), partial(self.home().find, bundle=self.app.bundle), step, self._serve
            )

    def close(self, step: Step) -> Step:
        return close(self._ports(), step)

    def _serve(self, call: ServedCall) -> ServedAnswer:
        return serve_call(self._ports(), self.app.agent, self.app.history, call)

    def follow(self, step: Step) -> None:
        if step.route == "done":
            follow_turn(self._ports(), self.app.agent, self.app.history, step)

    def _ports(self) -> Ports:
        """Return the ports of one step: steps run concurrently, and each has its own ledger."""
        return replace(self.app.ports, ledger=Ledger())


def _without_tasks(settings: Settings) -> Settings:
    remote = PLACEMENTS.get(settings.exec_mode) == "remote"
    mode = "none" if remote else settings.exec_mode
    return msgspec.structs.replace(settings, exec_mode=mode, fargate_cluster="")
