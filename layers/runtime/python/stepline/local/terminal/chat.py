"""`stepline chat`: a prompt on a terminal, one message per line from a pipe.

Parsing of typed lines into messages and slash commands is pure.
"""

from __future__ import annotations

import json
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec.structs import replace
from rich.console import Console

from stepline.errors import DependencyError, InputError, LimitError, SteplineError
from stepline.local.branching import NewBranch, OpenApi, branch_before_message, branch_before_turn
from stepline.local.client.change import Acknowledged, Effect, HandedBack, Refused, Synced
from stepline.local.client.session import Session
from stepline.local.client.state import ClientState
from stepline.local.conversation import (
    Bookmark,
    load_bookmark,
    new_conversation,
    parse_reaction,
    save_bookmark,
    settle,
    watch_conversation,
)
from stepline.local.safe_text import one_line
from stepline.local.terminal.keyboard import Key, Keyboard, Pipe, Typed
from stepline.local.terminal.output import JsonView, make_plain_view
from stepline.local.terminal.render import render_error, render_suggestion
from stepline.local.terminal.turn_view import RichView, TerminalView
from stepline.model.base import Value
from stepline.model.file.attachment import TEXT_MAX_CHARS

if TYPE_CHECKING:
    from stepline.local.caller import Caller
    from stepline.local.client.uploader import Uploader

Verb: TypeAlias = Literal[
    "say",
    "steer",
    "stop",
    "approve",
    "deny",
    "edit",
    "again",
    "attach",
    "feedback",
    "new",
    "help",
    "quit",
    "usage",
]

NEW: Final = "/new"
ABOUT: Final[Mapping[str, str]] = {
    "/steer TEXT": "interrupt the agent; it finishes according to TEXT",
    "/stop": "end the turn; the answer so far stays",
    "/approve": "approve the pending call",
    "/deny [REASON]": "deny it; the agent reads the reason",
    "/edit JSON": "approve it with these parameters instead",
    "/edit TEXT": "send your last message anew, in a branch",
    "/again": "run the last turn again, in a branch",
    "/attach FILE": "upload a file for your next message",
    "/feedback REACTION [TEXT]": "rate the last answer: ok, not_ok, neutral or none",
    NEW: "start a new conversation",
    "/quit": "leave; a running turn continues",
    "/help": "print this list",
    "//TEXT": "send /TEXT as a message",
}
HELP: Final = "\n".join(
    [
        "Each line you type is a message. While the agent works, it reads the message",
        "before its next step.",
        *(f"  {command:{max(map(len, ABOUT))}}  {does}" for command, does in ABOUT.items()),
        "Alt-Enter starts a new line. Ctrl-C clears the line. On an empty line, Ctrl-C",
        "ends the turn, and a second Ctrl-C leaves the chat.",
    ]
)
_VERBS_ALONE: Final[tuple[Verb, ...]] = ("stop", "approve", "deny", "again", "new", "help", "quit")
_VERBS_WITH_TEXT: Final[tuple[Verb, ...]] = ("steer", "deny", "edit", "attach", "feedback")
_ALONE: Final = {f"/{verb}": verb for verb in _VERBS_ALONE}
_WITH_TEXT: Final = {f"/{verb}": verb for verb in _VERBS_WITH_TEXT}


class Command(Value):
    """A parsed line. `text` is the message or the steer's text; for verb `usage`, why the line is no command."""

    verb: Verb
    text: str = ""


def parse_line(typed: str) -> Command:
    """Parse a line. Text of several lines is a message unchanged, unless it begins with a command that takes a text."""
    word, _, rest = typed.partition(" ")
    if word in _WITH_TEXT and rest.strip():
        return Command(verb=_WITH_TEXT[word], text=rest.strip())
    if "\n" in typed or not typed.startswith("/"):
        return Command(verb="say", text=typed)
    if typed.startswith("//"):
        return Command(verb="say", text=typed[1:])
    if verb := _ALONE.get(typed.strip()):
        return Command(verb=verb)
    if typed.strip() in _WITH_TEXT:
        wanted = next(usage for usage in ABOUT if usage.startswith(f"{typed.strip()} "))
        return Command(verb="usage", text=f"{typed.strip()} needs an argument: {wanted}")
    return Command(verb="usage", text=UNKNOWN.format(typed.split(maxsplit=1)[0]))


def render_message(text: str) -> str:
    """Return the line that parses to this message."""
    return text if parse_line(text) == Command(verb="say", text=text) else f"/{text}"


INTERRUPTED = 130
"""A shell's exit code for a command ended by Ctrl-C."""

HINT: Final = "/help lists the commands"
USAGE: Final = "usage"
LATER: Final = "{0} works between two turns; /stop ends this one"
KEPT: Final = "stays done: {0}"
NOT_SENT: Final = "not sent: {0}"
UNKNOWN: Final = "{0} is not a command and was not sent: /help lists the commands, /{0} sends it as a message"

LOST: Final = "connection lost, reconnecting… Events are kept and shown once it is back."
CONNECTED: Final = "connected again"
LOOK_S: Final = 0.25
"""The interval between two checks of the connection while the prompt is empty: a break is reported within it."""

NOTHING_TO_STEER: Final = "nothing_to_steer"
"""Why a steer is handed back that arrived between two turns; its text is not a message, and is not restored."""

OF_FILES: Final = frozenset({"attachment_missing", "attachment_rejected", "upload_expired", "upload_missing"})
"""Refusals of a message because of its files; the files are not restored with its text."""

OpenSession = Callable[[ClientState], Session]
OpenUploader = Callable[[str], "Uploader"]
Known = Literal["new", "last", "named"]


class _UserLeft(Exception):  # noqa: N818 - it ends a chat, and is not an error
    """Raised when the user leaves while the agent works."""


class Chat:
    """A user's chat, in one conversation at a time; the position is saved."""

    def __init__(
        self,
        open_session: OpenSession,
        view: TerminalView,
        keyboard: Keyboard,
        *,
        open_uploader: OpenUploader,
        open_api: OpenApi,
        user: str,
        home: Path,
        bundle: str = "",
        agents: Mapping[str, str] = MappingProxyType({}),
        requests: Sequence[str] = (),
        command: str = "stepline chat",
    ) -> None:
        """Chat as `user`: read from `keyboard`, show on `view`, save the position in `home`.

        Files go through the uploader of their conversation, branches through the API. A new conversation gets this `bundle`, and the last one is
        continued only if it has it; `agents` are the modules of the stage's bundles by name, if known. On a terminal a
        new conversation offers these `requests`. `command` begins such a chat.
        """
        self._open_session = open_session
        self._open_uploader = open_uploader
        self._open_api = open_api
        self._branch: NewBranch | None = None
        self._view = view
        self._keyboard = keyboard
        self._home = home
        self._place = Bookmark(user=user, conversation="", bundle=bundle, agent=agents.get(bundle, ""))
        self._bundle, self._agents, self._requests, self._command = bundle, agents, requests, command
        self._completed = True
        self._own: set[str] = set()
        self._unconfirmed: dict[str, str] = {}
        self._returned: list[str] = []
        self._attached: dict[str, str] = {}
        self._sent: dict[str, tuple[str, dict[str, str]]] = {}
        self._here = self._leaving = False

    def run(self, conversation: str = "") -> int:
        """Send each line as a message; return the exit code of the last turn, or 0 for a user who left a prompt."""
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # the prompt holds it back until here
            known = self._choose(conversation)
            while not self._chat_in(known):
                known = self._begin()
        except KeyboardInterrupt:
            self._show_position()
            return 0 if self._keyboard.commands else INTERRUPTED
        except _UserLeft:
            self._show_position()
        finally:
            self._report_unsent()
        return 0 if self._completed or self._keyboard.commands else 1

    def _show_position(self) -> None:
        self._view.say(f"left; continue with: {self._command} --conversation {self._place.conversation}")

    def _report_unsent(self) -> None:
        """Report messages that did not, or perhaps not, arrive, so that nothing is lost silently."""
        waiting = [piece for piece in self._keyboard.typed() if isinstance(piece, str)]
        for text in filter(None, self._unconfirmed.values()):
            self._view.say(f"may not have been sent: {text}")
        for text in filter(None, [*waiting, *self._returned, self._keyboard.draft, *self._attached.values()]):
            self._view.say(NOT_SENT.format(text))

    def _choose(self, conversation: str) -> Known:
        """Enter the requested conversation, else the last one, else a new one."""
        last = load_bookmark(self._home, self._place.user)
        if last is not None and not conversation and not self._can_continue(last):
            return self._begin()
        if last is not None and conversation in ("", last.conversation):
            self._place = last
            return "last"
        if conversation:
            self._place = replace(self._place, conversation=conversation, cursor=0)
            return "named"
        return self._begin()

    def _can_continue(self, last: Bookmark) -> bool:
        """Return True unless another bundle than the requested one, or than one of this stage, answers there."""
        if self._bundle not in ("", last.bundle):
            return False
        return not (last.agent and self._agents) or self._agents.get(last.bundle) == last.agent

    def _begin(self) -> Known:
        """Enter a branch that was just made, else a new conversation."""
        if self._branch:
            branch = self._branch
            self._place = replace(self._place, conversation=branch.conversation, cursor=branch.begun)
            return "named"
        name = self._bundle
        agent = self._agents.get(name, "")
        self._place = replace(
            self._place, conversation=new_conversation(), cursor=0, bundle=name, agent=agent
        )
        return "new"

    def _chat_in(self, known: Known) -> bool:
        """Chat in one conversation; return True at the end of input, False to begin a new one."""
        self._here = False
        state = ClientState(conversation=self._place.conversation, cursor=self._place.cursor)
        with self._open_session(state) as session:
            session.on_connection = lambda connected: self._view.say(CONNECTED if connected else LOST)
            effects = session.effects(lambda: self._read_input(session))
            if known != "new" and not self._catch_up(session, effects, known):
                return False
            self._here = True
            self._view.say(f"conversation {session.state.conversation}, {_render_state(session.state)}")
            if self._keyboard.commands:
                self._view.say(HINT)
                for text in self._requests if known == "new" else ():
                    self._view.say(render_suggestion(text))
            self._send_branched(session, effects)
            while not self._leaving and (line := self._next(session, effects)) is not Key.END:
                command = self._read(line)
                if command and (command.verb == "new" or self._enters_branch(session, command)):
                    return False
                if command and command.verb == "attach":
                    self._attach(command.text)
                elif command and command.verb != "quit" and not _branches(session, command):
                    self._turn(session, effects, command)
        return True

    def _send_branched(self, session: Session, effects: Iterator[Effect]) -> None:
        """Send the messages of a branch that was just entered, and show their turn."""
        if self._branch is None:
            return
        *earlier, last = self._branch.messages
        self._branch = None
        for message in earlier:
            self._attached = dict(message.files)
            self._say(session, Command(verb="say", text=message.text))
        self._attached = dict(last.files)
        self._turn(session, effects, Command(verb="say", text=last.text))

    def _enters_branch(self, session: Session, command: Command) -> bool:
        """Make the branch of `/edit` or `/again`; return True if it is there. An edited call is none."""
        if not _branches(session, command):
            return False
        with closing(self._open_api()) as api:
            try:
                if command.verb == "edit":
                    self._branch = branch_before_message(api, self._place.conversation, command.text)
                else:
                    self._branch = branch_before_turn(api, self._place.conversation)
            except SteplineError as error:
                self._report_error(error.reason, str(error))
                return False
        for file in self._attached.values():  # an upload belongs to its conversation
            self._view.say(NOT_SENT.format(file))
        self._attached = {}
        for call in self._branch.kept:
            self._view.say(KEPT.format(one_line(call)))
        return True

    def _next(self, session: Session, effects: Iterator[Effect]) -> Typed | None:
        """Return the next piece of input; until there is one, show the events of the conversation."""
        show = self._show(session)
        while (piece := self._keyboard.line(LOOK_S)) is None:
            try:
                for effect in session.step():
                    show(effect)
            except DependencyError as error:
                self._report_error(error.reason, f"{error}; your next message tries again")
                return self._keyboard.line()
            if session.state.open and not session.state.approval:
                self._follow(session, effects, show)
        return piece

    def _follow(self, session: Session, effects: Iterator[Effect], show: Callable[[Effect], None]) -> None:
        """Show a turn that another client has begun, to its end."""
        session.listen()
        with self._view, self._keyboard:
            watch_conversation(session, effects, show)
        self._restore_handed_back()

    def _catch_up(self, session: Session, effects: Iterator[Effect], known: Known) -> bool:
        """Show missed events and a running turn; return False if the conversation no longer exists."""
        if known == "named" and not session.join():
            return True
        with self._view, self._keyboard:
            found = watch_conversation(session, effects, self._show(session))
        self._restore_handed_back()
        if found is None and session.state.cursor:
            self._view.say(f"conversation {session.state.conversation} no longer exists; a new one begins")
            return False
        return True

    def _turn(self, session: Session, effects: Iterator[Effect], command: Command) -> None:
        with self._view, self._keyboard:
            message_id = self._say(session, command)
            if message_id:
                self._completed = settle(session, effects, message_id, self._show(session))
            else:
                self._completed = False
        self._restore_handed_back()

    def _read_input(self, session: Session) -> None:
        """Process input that was typed while the agent works, once the conversation is known to exist."""
        for piece in self._keyboard.typed() if self._here else ():
            if piece is Key.INTERRUPT:
                self._say(session, Command(verb="stop"))
            elif piece is Key.END:
                self._leaving = True
            elif (command := self._read(piece)) and (command.verb == "new" or _branches(session, command)):
                self._report_error(USAGE, LATER.format(f"/{command.verb}"))
            elif command and command.verb == "attach":
                self._attach(command.text)
            elif command and command.verb != "quit":
                self._say(session, command)
        if self._leaving and not session.state.unacked:
            raise _UserLeft

    def _read(self, piece: Typed | None) -> Command | None:
        """Return the command for a piece of input, None if there is nothing to do."""
        if piece is None or isinstance(piece, Key) or not piece.strip():
            return None
        if not self._keyboard.commands:
            return Command(verb="new") if piece.strip() == NEW else Command(verb="say", text=piece)
        self._view.echo(piece)
        command = parse_line(piece)
        match command.verb:
            case "help":
                self._view.say(HELP)
                return None
            case "usage":
                self._report_error(USAGE, command.text)
                return None
            case "quit":
                self._leaving = True
        return command

    def _say(self, session: Session, command: Command) -> str:
        """Send a message, a steer or a stop; return its id, or "" if it cannot be sent."""
        try:
            match command.verb:
                case "stop":
                    message_id = session.stop()
                case "steer":
                    message_id = session.steer(command.text)
                case "approve" | "deny" | "edit" as verdict:
                    message_id = self._answer(session, verdict, command.text)
                case "feedback":
                    message_id = rate(session, command.text)
                case _:
                    message_id = self._send(session, command.text)
        except (InputError, LimitError) as error:
            self._report_error(error.reason, str(error))
            if command.verb == "say":
                self._returned.append(render_message(command.text))
            return ""
        self._own.add(message_id)
        self._unconfirmed[message_id] = command.text
        return message_id

    def _send(self, session: Session, text: str) -> str:
        """Send a message with the attached files; a long text is sent as one of them. Raises InputError."""
        uploads, whole = tuple(self._attached), text
        if len(text) > TEXT_MAX_CHARS:
            try:
                message = self._open_uploader(self._place.conversation).compose(text, uploads)
            except SteplineError as error:
                raise InputError(str(error), code=error.reason) from error
            text, uploads = message.text, message.uploads
        message_id = session.say(text, uploads=uploads)
        self._sent[message_id], self._attached = (whole, self._attached), {}
        return message_id

    def _report_error(self, code: str, message: str) -> None:
        self._view.say(render_error(code, message, local=False))

    def _restore_typed(self, message_id: str, text: str) -> None:
        """Restore the typed text of a message, with its files; `text` if it has none."""
        said, files = self._sent.pop(message_id, (text, {}))
        self._attached |= files
        self._returned.append(render_message(said))

    def _attach(self, name: str) -> None:
        """Upload a file for the next message, and report the result."""
        path = Path(name).expanduser()
        try:
            upload = self._open_uploader(self._place.conversation).upload_file(path)
        except SteplineError as error:
            self._report_error(error.reason, str(error))
            return
        self._attached[upload] = f"/attach {name}"
        self._view.say(f"{path.name} is sent with your next message")

    def _answer(self, session: Session, verdict: Literal["approve", "deny", "edit"], text: str) -> str:
        """Answer the pending approval request. Raises InputError `approval_not_pending`, `bad_json`."""
        if not session.state.approval:
            raise InputError("no call is waiting for your approval", code="approval_not_pending")
        if verdict != "edit":
            return session.answer(verdict, session.state.approval, text=text)
        try:
            params = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError("the parameters are not JSON", code="bad_json") from error
        if not isinstance(params, dict):
            raise InputError("the parameters are a JSON object", code="bad_json")
        return session.answer(verdict, session.state.approval, payload=params)

    def _show(self, session: Session) -> Callable[[Effect], None]:
        """Return a function that shows an effect and saves the cursor, so that nothing is shown twice."""

        def show(effect: Effect) -> None:
            self._view.show(effect)
            match effect:
                case HandedBack(message_id=message_id, reason=reason) if (
                    message_id in self._own and reason != NOTHING_TO_STEER
                ):
                    self._restore_typed(message_id, effect.text)
                case Acknowledged(frame=frame):
                    self._unconfirmed.pop(frame.message_id, None)
                case Refused(frame=frame):
                    if frame.code in OF_FILES:
                        self._sent.pop(frame.message_id, None)
                    self._restore_typed(frame.message_id, self._unconfirmed.pop(frame.message_id, ""))
                case Synced():
                    self._here = True
            if session.state.cursor != self._place.cursor:
                self._place = replace(self._place, cursor=session.state.cursor)
                save_bookmark(self._home, self._place)

        return show

    def _restore_handed_back(self) -> None:
        """Return handed-back messages to the editor."""
        if text := "\n".join(filter(None, self._returned)):
            self._keyboard.give_back(text)
        self._returned, self._sent = [], {}


def _branches(session: Session, command: Command) -> bool:
    """Return True for a command that makes a branch; while a call waits, `/edit` has its parameters."""
    return command.verb == "again" or (command.verb == "edit" and not session.state.approval)


def rate(session: Session, said: str) -> str:
    """Rate the newest turn that has ended by a reaction and a comment; return the message's id. Raises InputError."""
    word, _, text = said.partition(" ")
    return session.rate(parse_reaction(word), text.strip(), turn=session.state.ended)


def run_chat(caller: Caller, conversation: str, *, as_json: bool = False) -> int:
    """Chat on an interactive terminal, or with one message per line; return the exit code."""
    from stepline.local.caller import open_api, sessions, upload_to
    from stepline.local.own_name import own_command

    def talk(view: TerminalView, keyboard: Keyboard) -> int:
        chat = Chat(
            sessions(caller),
            view,
            keyboard,
            open_uploader=partial(upload_to, caller, view.say),
            open_api=partial(open_api, caller),
            user=caller.user,
            home=caller.home,
            bundle=caller.bundle,
            agents=caller.agents,
            requests=caller.requests,
            command=shlex.join([*own_command(), "chat", *caller.options]),
        )
        return chat.run(conversation)

    if as_json:
        return talk(JsonView(), Pipe(iter(sys.stdin)))
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or Console().is_dumb_terminal:
        return talk(make_plain_view(local=caller.local), Pipe(iter(sys.stdin)))
    from stepline.local.terminal.line_editor import open_prompt

    with open_prompt(sys.stdin, sys.stdout) as prompt:
        return talk(RichView(prompt, local=caller.local), prompt)


def _render_state(state: ClientState) -> str:
    return f"event {state.cursor}" if state.cursor else "new"
