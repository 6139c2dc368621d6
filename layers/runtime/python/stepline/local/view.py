"""A running turn on a terminal, or in a pipe. Text of strangers is data here: no markup, no control characters."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markdown import Markdown
from rich.spinner import Spinner
from rich.text import Text

from stepline.local.client.effect import (
    Effect,
    EventsApplied,
    Refused,
    StreamReset,
    StreamSettled,
    TextAppended,
    TurnEnded,
)
from stepline.local.terminal import clean, one_line, render_event
from stepline.model.event import ErrorFrame

THINKING_LINES = 6


class View(Protocol):
    """Shows what happens; a `with` block is one turn."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

    def show(self, effect: Effect) -> None:
        """Show one effect."""
        ...

    def say(self, text: str) -> None:
        """Say something of our own."""
        ...


class PlainView:
    """Lines of text: tools as they come, the recorded answer at the end."""

    def __init__(self, write: Callable[[str], None], complain: Callable[[str], None]) -> None:
        """Write what was asked for by `write`, everything else by `complain`."""
        self._write = write
        self._complain = complain

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        """Nothing was opened."""

    def show(self, effect: Effect) -> None:
        match effect:
            case EventsApplied(events=events):
                for line in (line for event in events for line in render_event(event)):
                    self._write(line)
            case TurnEnded(outcome="completed", answer=answer):
                self._write(f"\n{clean(answer)}")
            case TurnEnded():
                self._complain(f"error: {one_line(f'{effect.code} {effect.message}')}")
            case Refused(frame=frame):
                self._complain(render_refusal(frame))
            case _:
                pass

    def say(self, text: str) -> None:
        self._complain(text)


class RichView:
    """A live panel under the lines that stay: dimmed thinking, and the answer as it grows."""

    def __init__(self, console: Console) -> None:
        """Draw on `console`."""
        self._console = console
        self._claim = 0
        self._lanes: dict[str, str] = {}
        self._live: Live | None = None

    def __enter__(self) -> Self:
        self._live = Live(self._panel(), console=self._console, refresh_per_second=12, transient=True)
        self._live.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        """Take the panel away; what was streamed and not recorded goes with it."""
        if self._live is not None:
            self._live.stop()
        self._live = None
        self._lanes = {}

    def show(self, effect: Effect) -> None:
        match effect:
            case TextAppended(claim=claim, lane=lane, text=text):
                if claim != self._claim:
                    self._claim, self._lanes = claim, {}
                self._lanes[lane] = self._lanes.get(lane, "") + text
            case StreamReset():
                self._lanes = {}
            case StreamSettled():
                self._keep_thinking()
            case EventsApplied(events=events):
                for line in (line for event in events for line in render_event(event)):
                    self._print(Text(line, style=_style(line)))
            case TurnEnded():
                self._end(effect)
            case Refused(frame=frame):
                self._print(Text(render_refusal(frame), style="bold red"))
            case _:
                pass
        if self._live is not None:
            self._live.update(self._panel())

    def say(self, text: str) -> None:
        self._print(Text(text, style="dim"))

    def _end(self, ended: TurnEnded) -> None:
        if self._claim < ended.n:
            self._lanes = {}
        if ended.outcome == "error":
            self._print(Text(f"error: {one_line(f'{ended.code} {ended.message}')}", style="bold red"))
        else:
            self._print(_markdown(ended.answer))

    def _keep_thinking(self) -> None:
        if thinking := self._text("thinking"):
            self._print(Text(clean(thinking).strip(), style="dim italic"))
        self._lanes = {lane: text for lane, text in self._lanes.items() if not lane.startswith("thinking.")}

    def _print(self, what: RenderableType) -> None:
        self._console.print(what)

    def _panel(self) -> RenderableType:
        """Return the stream's end, as much as fits: a panel higher than the terminal would leave traces."""
        thinking = clean(self._text("thinking")).splitlines()[-THINKING_LINES:]
        shown: list[RenderableType] = [Text("\n".join(thinking), style="dim italic")] if thinking else []
        room = max(4, self._console.height - THINKING_LINES - 4)
        if answer := self._text("answer"):
            shown.append(_markdown("\n".join(answer.splitlines()[-room:])))
        else:
            notes = one_line(self._text("notes"))
            shown.append(Spinner("dots", text=Text(f" {notes or 'working'}", style="dim")))
        return Group(*shown)

    def _text(self, what: str) -> str:
        """Return the text of the lanes of one kind; a lane is `<what>.<instance>`, and instances come in order."""
        return "\n\n".join(text for lane, text in self._lanes.items() if lane.partition(".")[0] == what)


def render_refusal(frame: ErrorFrame) -> str:
    """Return what the server could not take, and why, in one line."""
    return f"error: {one_line(f'{frame.code} {frame.message}')}"


def _markdown(text: str) -> Markdown:
    # Without hyperlinks the address of a link is shown, and no escape sequence carries it.
    return Markdown(clean(text), hyperlinks=False)


def _style(line: str) -> str:
    return {"✗": "red", "✓": "green", "→": "cyan"}.get(line[:1], "dim" if line[:1] in "·…" else "")
