"""Display of a running turn on a terminal or in a pipe.

Foreign text is data: no markup, no control characters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self

from rich.console import Group, RenderableType
from rich.markdown import Markdown
from rich.spinner import Spinner
from rich.text import Text

from stepline.events.types import CallEnded, ToolProgress
from stepline.local.client.change import (
    Effect,
    EventsApplied,
    HandedBack,
    LaneEnded,
    LaneKnown,
    PutOff,
    Refused,
    Reported,
    Steered,
    StreamReset,
    StreamSettled,
    TextAppended,
    TurnEnded,
    Waiting,
)
from stepline.local.safe_text import clean, one_line
from stepline.local.terminal.answer_parser import make_parser
from stepline.local.terminal.render import (
    render_client_event,
    render_failure,
    render_footer,
    render_outcome,
    render_program,
    render_progress,
    render_progress_step,
    render_refusal,
    render_thinking,
)
from stepline.local.terminal.surface import Surface
from stepline.model.wire.event import ClientEvent
from stepline.protocol.stream.lane import LaneFacts

THINKING_LINES = 6
WRITTEN_LINES = 8
WRITTEN_CHARS = 4_000
WRITTEN = ("canvas", "timeline", "code", "log")
"""Lanes of which only the end is shown, since they may be large."""


class TerminalView(Protocol):
    """Shows the effects of a turn; a `with` block is one turn."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_exc: object) -> None: ...

    def show(self, effect: Effect) -> None:
        """Show one effect."""

    def say(self, text: str) -> None:
        """Show a message of the program itself."""

    def echo(self, line: str) -> None:
        """Show a typed line once the chat has read it."""


class PlainView:
    """Lines of text: tools as they run, then the recorded answer and its citations."""

    def __init__(
        self,
        write: Callable[[str], None],
        complain: Callable[[str], None],
        *,
        usage: bool = False,
        local: bool = False,
    ) -> None:
        """Write results with `write`, everything else with `complain`.

        `usage` adds the turns' consumption. `local` is true if this machine has the functions' logs.
        """
        self._write, self._complain = _cleaned(write), _cleaned(complain)
        self._usage = usage
        self._local = local
        self._footer: list[str] = []
        self._progress = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        """Do nothing: there is nothing to close."""

    def show(self, effect: Effect) -> None:
        match effect:
            case EventsApplied(events=events) | Reported(events=events):
                for event in events:
                    self._write_event(event)
            case TurnEnded():
                self._end(effect)
            case Steered() | HandedBack():
                self._write(render_outcome(effect))
            case Refused(frame=frame):
                self._complain(render_refusal(frame, local=self._local))
            case PutOff() | Waiting():
                self._complain(render_outcome(effect))
            case _:
                pass

    def _write_event(self, event: ClientEvent) -> None:
        """Write an event; of a progress only each tenth of it, and each new text."""
        if event.type == ToolProgress.EVENT:
            step, before = render_progress_step(event), self._progress
            self._progress = step
            if step != before:
                self._complain(render_progress(event))
            return
        self._footer += render_footer(event, usage=self._usage)
        for line in render_client_event(event):
            self._write(line)

    def say(self, text: str) -> None:
        self._complain(text)

    def echo(self, line: str) -> None:
        self._complain(render_typed(line))

    def _end(self, ended: TurnEnded) -> None:
        if ended.outcome == "completed":
            self._write(f"\n{ended.answer}")
        else:
            self._complain(render_failure(ended, local=self._local))
        for line in self._footer:
            self._write(line)
        self._footer = []


class RichView:
    """A live panel below the permanent lines: dimmed thinking, text being written, and the growing answer."""

    def __init__(self, surface: Surface, *, local: bool = False) -> None:
        """Draw on `surface`; `local` as for `PlainView`."""
        self._surface = surface
        self._local = local
        self._claim = 0
        self._program = ""
        self._progress = ""
        self._lanes: dict[str, str] = {}
        self._facts: dict[str, LaneFacts] = {}
        self._ended: set[str] = set()
        self._footer: list[str] = []
        self._cut = ""
        self._in_turn = False

    def __enter__(self) -> Self:
        self._in_turn = True
        self._surface.show(self._content())
        return self

    def __exit__(self, *_exc: object) -> None:
        """Remove the panel, and with it streamed text that was not recorded."""
        self._in_turn = False
        self._surface.show(None)
        self._forget()

    def show(self, effect: Effect) -> None:
        match effect:
            case TextAppended() | LaneKnown() | LaneEnded():
                self._follow(effect)
            case StreamReset():
                self._forget()
            case StreamSettled():
                self._settle()
            case EventsApplied(events=events) | Reported(events=events):
                for event in events:
                    self._print_event(event)
            case Steered():
                self._interrupt(effect)
            case HandedBack() | PutOff() | Waiting():
                self._print(Text(render_outcome(effect), style="yellow"))
            case TurnEnded():
                self._end(effect)
            case Refused(frame=frame):
                self._print(Text(render_refusal(frame, local=self._local), style="bold red"))
            case _:
                pass
        self._surface.show(self._content() if self._in_turn or self._lanes else None)

    def say(self, text: str) -> None:
        self._print(Text(clean(text), style="dim"))

    def echo(self, line: str) -> None:
        self._print(Text(clean(render_typed(line))))

    def _interrupt(self, steered: Steered) -> None:
        """Keep the streamed part of an answer; a stopped turn ends with it, and shows it again."""
        answer = self._cut or self._text("answer")
        if answer and steered.finalize_rounds:
            self._print(_markdown(answer))
        self._lanes = {lane: text for lane, text in self._lanes.items() if _kind(lane) != "answer"}
        self._print(Text(render_outcome(steered), style="yellow"))

    def _follow(self, effect: TextAppended | LaneKnown | LaneEnded) -> None:
        """Update the panel from the running stream; a newer stream starts over."""
        if effect.claim != self._claim:
            self._forget()
            self._claim = effect.claim
        lane = effect.lane
        match effect:
            case TextAppended(text=text):
                whole = self._lanes.get(lane, "") + text
                self._lanes[lane] = whole[-WRITTEN_CHARS:] if _kind(lane) in WRITTEN else whole
            case LaneKnown(facts=facts):
                self._facts[lane] = facts
            case LaneEnded():
                self._ended.add(lane)
        if not isinstance(effect, TextAppended):
            self._program = render_program(effect) or self._program

    def _print_event(self, event: ClientEvent) -> None:
        if event.type == ToolProgress.EVENT:
            self._progress = render_progress(event, columns=self._surface.width)
            return
        if event.type == CallEnded.EVENT:
            self._progress = ""
        if event.type == "solver.react.decision":
            self._decide(event)
        self._footer += render_footer(event)
        for line in render_client_event(event):
            self._print(Text(line, style=_style(line)))

    def _decide(self, event: ClientEvent) -> None:
        """Print the recorded thinking permanently, above its results; the panel keeps a streamed answer."""
        if thinking := render_thinking(event):
            self._print(Text(thinking, style="dim italic"))
        self._cut = str(event.data.get("answer") or "")
        if event.data.get("claim") == self._claim:
            self._settle()

    def _forget(self) -> None:
        self._lanes, self._facts, self._program, self._progress = {}, {}, "", ""
        self._ended.clear()

    def _end(self, ended: TurnEnded) -> None:
        if self._claim < ended.n:
            self._forget()
        if ended.outcome == "error":
            self._print(Text(render_failure(ended, local=self._local), style="bold red"))
        else:
            self._print(_markdown(ended.answer))
            for line in self._footer:
                self._print(Text(line, style="dim"))
        self._footer = []

    def _settle(self) -> None:
        """Remove all but the answer from the panel; thinking, decisions and files arrive as events."""
        self._program = ""
        self._lanes = {lane: text for lane, text in self._lanes.items() if _kind(lane) == "answer"}

    def _print(self, what: RenderableType) -> None:
        self._surface.print(what)

    def _content(self) -> RenderableType:
        """Return the end of the stream that fits: a panel higher than the terminal would leave traces."""
        thinking = clean(self._text("thinking")).splitlines()[-THINKING_LINES:]
        shown: list[RenderableType] = [Text("\n".join(thinking), style="dim italic")] if thinking else []
        room = max(4, self._surface.height - THINKING_LINES - 4)
        if answer := self._text("answer"):
            shown.append(_markdown("\n".join(answer.splitlines()[-room:])))
        else:
            written = self._written()
            shown += written[-max(1, room // (WRITTEN_LINES + 1)) :]
            if self._progress:
                shown.append(Text(self._progress, style="cyan", no_wrap=True, overflow="ellipsis"))
            notes = one_line(self._text("notes"))
            shown.append(Spinner("dots", text=Text(f" {notes or self._program or 'working'}", style="dim")))
        return Group(*shown)

    def _written(self) -> list[RenderableType]:
        """Return files being written, with name and last lines; complete ones with their name only."""
        shown: list[RenderableType] = []
        for lane, text in self._current():
            if _kind(lane) not in WRITTEN:
                continue
            title = Text(f"✎ {one_line(self._title(lane))}", style="cyan", no_wrap=True, overflow="ellipsis")
            if lane in self._ended:
                shown.append(title)
                continue
            end = clean(text).splitlines()[-WRITTEN_LINES:]
            tail = Text("\n".join(end), style="dim", no_wrap=True, overflow="ellipsis")
            shown.append(Group(title, tail))
        return shown

    def _title(self, lane: str) -> str:
        if _kind(lane) == "code":
            number = lane.partition(".")[2]
            return self._lanes.get(f"exec.{number}.name") or "program"
        if _kind(lane) == "log":
            return "output"
        facts = self._facts.get(lane)
        return (facts.artifact_name if facts else "") or lane

    def _current(self) -> list[tuple[str, str]]:
        """Return the lanes that no other one replaces, in order of creation."""
        void = {facts.replaces for facts in self._facts.values()}
        return [(lane, text) for lane, text in self._lanes.items() if lane not in void]

    def _text(self, what: str) -> str:
        """Return the text of all lanes of one kind; instances come in order."""
        return "\n\n".join(text for lane, text in self._current() if _kind(lane) == what)


def _kind(lane: str) -> str:
    """Return a lane's kind; a name is `<kind>.<instance>[.<part>]`, and the log of a program is one."""
    return "log" if lane.startswith("exec.") and lane.endswith(".log") else lane.partition(".")[0]


def _cleaned(write: Callable[[str], None]) -> Callable[[str], None]:
    return lambda text: write(clean(text))


def render_typed(line: str) -> str:
    """Return a typed line as shown after the prompt."""
    return "> " + line.replace("\n", "\n  ")


def _markdown(text: str) -> Markdown:
    # Without hyperlinks a link's address is printed, not hidden in an escape sequence.
    shown = Markdown("", hyperlinks=False)
    shown.markup = clean(text)
    shown.parsed = make_parser(enable=("strikethrough", "table")).parse(shown.markup)
    return shown


def _style(line: str) -> str:
    return {"✗": "red", "✓": "green", "→": "cyan"}.get(line[:1], "dim" if line[:1] in "·…" else "")
