"""A bundle's workflow: the parts of its agent, and the processing of a message.

Deployed functions only read the class, build the agent from its parts and run its hooks; a turn in this process runs
through `process`. Loop and event loop are loaded on the first turn. Source: docs/how-to/write-a-bundle.md.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from functools import wraps
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from stepline.bundle.property import load_module
from stepline.errors import InputError
from stepline.model.ids import Lane

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from stepline.bundle.browser import ContextBrowser, ContextRAGClient, ConversationStore, HostingService
    from stepline.bundle.hook import HookFunction
    from stepline.bundle.knowledge_index import Knowledge
    from stepline.bundle.namespaces.namespace_resolver import NamespaceResolver
    from stepline.bundle.parts import LoadHook, Parts
    from stepline.bundle.react import React
    from stepline.bundle.runtime import Runtime
    from stepline.bundle.turn_payload import FileLike, PayloadLike, TurnResult
    from stepline.ingress.admit import EventReceipt
    from stepline.loop.agent import Hooks
    from stepline.tools.served.program_calls import ProgramCalls

KnowledgeFunction: TypeAlias = Callable[..., Any]
"""As in `stepline.tools.knowledge`, or a coroutine function with the same parameters."""

WORKFLOW = "WORKFLOW"


class BaseWorkflow:
    """One conversation's workflow. A bundle subclasses it, and its package has `WORKFLOW = <the class>`.

    The class attributes are the parts of the agent, here and in deployed functions; `build_react` accepts
    others for this process alone. `resolvers` find the content of the bundle's own paths. `program_calls` are calls that its
    programs may have made by a function. `result` is the type of the value that an answer carries: a JSON schema, or a
    type that pydantic reads. `knowledge` is an index that serves both functions, unless the class defines them. The
    functions are plain or static: a deployed function creates no instance.

    `on_bundle_load` runs once in a process, before the bundle is used. `pre_run_hook` runs before the first round of
    a turn, `before_round` before each, `post_run_hook` after the close, each at most once. A turn whose
    `pre_run_hook` fails ends with `hook_failed`.
    """

    tools_module: ClassVar[str] = ""
    skills_module: ClassVar[str] = ""
    knowledge: ClassVar[Knowledge | None] = None
    knowledge_space_fn: ClassVar[KnowledgeFunction | None] = None
    knowledge_read_fn: ClassVar[KnowledgeFunction | None] = None
    resolvers: ClassVar[Sequence[NamespaceResolver]] = ()
    program_calls: ClassVar[ProgramCalls | None] = None
    result: ClassVar[Any] = None
    on_bundle_load: ClassVar[LoadHook | None] = None
    pre_run_hook: ClassVar[HookFunction | None] = None
    before_round: ClassVar[HookFunction | None] = None
    post_run_hook: ClassVar[HookFunction | None] = None

    def __init__(self, runtime: Runtime, lane: Lane, *, user: str) -> None:
        """Serve `user` in the conversation `lane`."""
        from stepline.bundle.browser import (  # noqa: PLC0415 - loads what only a turn here needs
            ContextBrowser,
            ContextRAGClient,
            ConversationStore,
            HostingService,
        )

        self.runtime = runtime
        self.lane = lane
        self.user = user
        self.scratchpad: MutableMapping[str, Any] = {}
        self.ctx_browser: ContextBrowser = ContextBrowser(runtime, lane, type(self).parts(), user=user)
        self.ctx_client: ContextRAGClient = ContextRAGClient(runtime, self.ctx_browser.tool_context)
        self.hosting_service: HostingService = HostingService(self.ctx_browser.tool_context)
        self.store: ConversationStore = ConversationStore(self.ctx_browser.tool_context)

    async def process(self, payload: PayloadLike) -> TurnResult:
        """Answer a message, as deployed functions do. Raises the errors of `React.run`."""
        react = await self.build_react(scratchpad=self.scratchpad)
        return await react.run(payload)

    async def answer(
        self,
        verdict: Literal["approved", "denied", "edited"],
        call_id: str,
        *,
        text: str = "",
        params: Mapping[str, Any] | None = None,
        message_id: str = "",
    ) -> TurnResult:
        """Answer whether a call of a parked turn may run, and return the turn's result. Raises the errors of `React.answer`."""
        react = await self.build_react(scratchpad=self.scratchpad)
        return await react.answer(verdict, call_id, text=text, params=params, message_id=message_id)

    async def steer(self, text: str) -> EventReceipt:
        """Interrupt the open turn, from any task, and have it finish as `text` says.

        Without an open turn there is nothing to steer, and its `fate` is `dropped`. Raises the errors of
        `submit_event`.
        """
        return await self.submit_event("steer", text=text)

    async def stop(self) -> EventReceipt:
        """End the open turn at once, from any task. Raises the errors of `submit_event`."""
        return await self.submit_event("stop")

    async def submit_event(
        self,
        kind: str,
        payload: Mapping[str, Any] | None = None,
        *,
        text: str = "",
        reactive: bool | None = None,
        attachments: Sequence[FileLike] = (),
        message_id: str = "",
    ) -> EventReceipt:
        """Submit an event to the conversation, from any task; return its receipt without waiting for a turn.

        One whose `fate` is `opened` has opened a turn, which runs when the same event is passed to `process`.

        Raises:
            InputError, LimitError: the event is invalid, or one of its `attachments` is refused.
            NotFoundError: the conversation belongs to another user.
            BusyError, DependencyError, UnknownOutcome: temporary; submit it again with its `message_id`.
        """
        from stepline.bundle.runtime import in_thread, submit  # noqa: PLC0415 - as in __init__
        from stepline.bundle.turn_payload import new_message_id  # noqa: PLC0415 - as in __init__
        from stepline.ingress.admit import Arrival, make_receipt  # noqa: PLC0415 - as in __init__

        arrival = Arrival(
            message_id=message_id or new_message_id(),
            user=self.user,
            text=text,
            kind=kind,
            reactive=reactive,
            payload=payload or {},
            bundle=self.runtime.name_of(bundle_of(type(self))),
        )
        return make_receipt(
            await in_thread(self.runtime, submit, self.runtime, self.lane, arrival, attachments)
        )

    async def build_react(
        self,
        *,
        scratchpad: MutableMapping[str, Any] | None = None,
        tools_module: str | None = None,
        skills_module: str | None = None,
        knowledge_space_fn: KnowledgeFunction | None = None,
        knowledge_read_fn: KnowledgeFunction | None = None,
    ) -> React:
        """Return the agent of this conversation; missing arguments are taken from the class.

        `scratchpad` is a mapping of the bundle's, into which a run writes its `turn_id` and its `result`.

        Raises:
            InputError: a module does not exist or is invalid, by its code.
        """
        import asyncio  # noqa: PLC0415 - as in __init__

        from stepline.bundle.parts import Parts  # noqa: PLC0415 - as in `parts`
        from stepline.bundle.react import React  # noqa: PLC0415 - as in __init__

        cls = type(self)
        events = asyncio.get_running_loop()
        parts = Parts(
            tools_module=cls.tools_module if tools_module is None else tools_module,
            skills_module=cls.skills_module if skills_module is None else skills_module,
            bundle=bundle_of(cls),
            search=blocking(knowledge_space_fn or cls._search(), events),
            requests=() if knowledge_space_fn else cls._requests(),
            read=blocking(knowledge_read_fn or cls._read(), events),
            on_load=cls.on_bundle_load,
            hooks=cls._hooks(events),
            resolvers=cls._resolvers(events),
            program_calls=cls.program_calls,
            result=cls.result,
        )
        made = await asyncio.to_thread(self.runtime.build_agent, parts)
        agent = replace(made, announced=self.ctx_browser.announced)
        if (execution := agent.execution) and (bundle := bundle_of(cls)):
            agent = replace(agent, execution=replace(execution, bundle=bundle))
        self.ctx_browser.use(agent)
        if scratchpad is not None:
            self.scratchpad = scratchpad
        return React(self, agent, parts)

    @classmethod
    def parts(cls) -> Parts:
        """Return the parts of the agent, from the class alone."""
        from stepline.bundle.parts import Parts  # noqa: PLC0415 - 30 ms of CPU with the tools, for which Close has no use

        return Parts(
            tools_module=cls.tools_module,
            skills_module=cls.skills_module,
            bundle=bundle_of(cls),
            search=blocking(cls._search()),
            requests=cls._requests(),
            read=blocking(cls._read()),
            on_load=cls.on_bundle_load,
            hooks=cls._hooks(),
            resolvers=cls._resolvers(),
            program_calls=cls.program_calls,
            result=cls.result,
        )

    @classmethod
    def _hooks(cls, events: AbstractEventLoop | None = None) -> Hooks:
        from stepline.loop.agent import NO_HOOKS, Hooks  # noqa: PLC0415 - as in `parts`

        found = (cls.pre_run_hook, cls.before_round, cls.post_run_hook)
        if not any(found):
            return NO_HOOKS
        from stepline.bundle.hook import hook_of  # noqa: PLC0415 - as in __init__

        pre_run, before, post_run = (one and hook_of(blocking(one, events) or one) for one in found)
        return Hooks(pre_run_hook=pre_run, before_round=before, post_run_hook=post_run)

    @classmethod
    def _resolvers(cls, events: AbstractEventLoop | None = None) -> tuple[NamespaceResolver, ...]:
        from stepline.bundle.namespaces.namespace_resolver import NamespaceResolver  # noqa: PLC0415 - as in `parts`

        found = cls.resolvers if isinstance(cls.resolvers, list | tuple) else (cls.resolvers,)
        return tuple(
            replace(one, resolve=blocking(one.resolve, events) or one.resolve)
            if isinstance(one, NamespaceResolver)
            else one  # the parts refuse it
            for one in found
        )

    @classmethod
    def _search(cls) -> KnowledgeFunction | None:
        return cls.knowledge_space_fn or (cls.knowledge.search if cls.knowledge else None)

    @classmethod
    def _requests(cls) -> tuple[str, ...]:
        return cls.knowledge.requests if cls.knowledge and not cls.knowledge_space_fn else ()

    @classmethod
    def _read(cls) -> KnowledgeFunction | None:
        return cls.knowledge_read_fn or (cls.knowledge.read if cls.knowledge else None)


def blocking(
    function: KnowledgeFunction | None, events: AbstractEventLoop | None = None
) -> KnowledgeFunction | None:
    """Return a function for a step's thread; a coroutine runs in the event loop `events`, or in a new one."""
    if function is None or not inspect.iscoroutinefunction(function):
        return function

    @wraps(function)
    def call(*args: Any) -> Any:
        import asyncio  # noqa: PLC0415 - as in BaseWorkflow

        if events is None or events.is_closed():  # an abandoned step may outlive the loop
            return asyncio.run(function(*args))
        return asyncio.run_coroutine_threadsafe(function(*args), events).result()

    return call


def bundle_of(workflow: type[BaseWorkflow]) -> str:
    """Return the package whose `WORKFLOW` this is; "" if no package above its module declares it."""
    names = list(accumulate(workflow.__module__.split("."), "{}.{}".format))
    found = (name for name in reversed(names) if getattr(sys.modules.get(name), WORKFLOW, None) is workflow)
    return next(found, "")


def load_workflow(name: str) -> type[BaseWorkflow]:
    """Return the workflow of the bundle `name`, an importable package.

    Raises:
        InputError: `bundle_not_found`; `bundle_invalid`, its `WORKFLOW` is not a workflow.
    """
    found = getattr(load_module(name, code="bundle_not_found"), WORKFLOW, None)
    if not (isinstance(found, type) and issubclass(found, BaseWorkflow)):
        raise InputError(f"{name} has no {WORKFLOW}, a class made of BaseWorkflow", code="bundle_invalid")
    return found
