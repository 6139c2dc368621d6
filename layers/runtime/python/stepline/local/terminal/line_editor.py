"""A line editor below a running turn's output, by prompt_toolkit, in its own thread and event loop.

It stays on the screen for the whole chat, so that no key is lost between two prompts: the terminal stays in raw mode,
and its input is never flushed. Submitted lines are queued here, shown dimmed, until the chat reads them.

Drawing is batched into single writes, and text is shown in a width that all terminals agree on.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, Self, TextIO

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, AnyFormattedText
from prompt_toolkit.formatted_text.utils import fragment_list_to_text
from prompt_toolkit.input import create_input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.processors import Processor, TabsProcessor, Transformation, TransformationInput
from prompt_toolkit.layout.utils import explode_text_fragments
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import get_term_environment_variable
from rich.console import Console, RenderableType

from stepline.local.safe_text import one_line
from stepline.local.terminal.keyboard import Key, Typed
from stepline.local.terminal.surface import Clean
from stepline.model.visible_text import show_hidden

_JOINS: Final = re.compile("[\u200d\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]")


class _Output(Vt100_Output):
    """Writes printed text and the prompt below it in one write.

    Keeps bracketed paste on while the prompt is open.
    """

    held = False

    def flush(self) -> None:
        if not self.held:
            super().flush()

    def disable_bracketed_paste(self) -> None:
        """Do nothing, except in `close`: the renderer calls this on every print, which would cut a paste in two."""

    def close(self) -> None:
        super().disable_bracketed_paste()
        self.flush()


class Apart(Processor):
    """Shows joined emoji separately and without modifiers.

    Terminals disagree on the width of joined ones, which would misplace the cursor. A hidden character is shown as a
    symbol, so a pasted direction mark does not reverse the line.
    """

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        fragments = explode_text_fragments(transformation_input.fragments)
        text = fragment_list_to_text(fragments)
        kept = [at for at, char in enumerate(text) if not _JOINS.match(char)]
        return Transformation(
            [(fragments[at][0], show_hidden(text[at]), *fragments[at][2:]) for at in kept],
            source_to_display=lambda at: bisect_left(kept, at),
            display_to_source=lambda at: kept[at] if at < len(kept) else len(text),
        )


REDRAW_S: Final = 0.1
PENDING_LINES: Final = 5
_STYLE: Final = Style.from_dict({"note": "fg:ansibrightblack"})
_AGAIN: Final = "Ctrl-C again leaves"


class _Prompt:
    """The keyboard of a chat, and the surface that its view draws on. `open_prompt` creates one."""

    commands = True

    def __init__(self, stdin: TextIO, stdout: TextIO) -> None:
        """Edit lines from `stdin` on `stdout`; both are terminals."""
        self._stdout = stdout
        self._console = Console(file=stdout, markup=False, highlight=False)
        term = get_term_environment_variable()
        self._output = _Output(stdout, lambda: _size_of(stdout), term=term, enable_cpr=False)
        self._buffer = Buffer(multiline=False, accept_handler=self._accept, on_text_changed=self._edited)
        self._content: RenderableType | None = None
        self._pending: deque[Typed] = deque()
        self._ready = threading.Semaphore(0)
        self._interrupts = 0
        self._leaving = self._turns = False
        self._failure: BaseException | None = None
        self._started, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="prompt", daemon=True)
        self._app: Application[None] = Application(
            layout=Layout(self._layout()),
            key_bindings=self._keys(),
            style=_STYLE,
            input=create_input(stdin),
            output=self._output,
            erase_when_done=True,
            terminal_size_polling_interval=REDRAW_S,
        )

    @property
    def width(self) -> int:
        """The columns of the terminal."""
        return self._output.get_size().columns

    @property
    def height(self) -> int:
        """The lines of the terminal."""
        return self._output.get_size().rows

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        """Reset Ctrl-C: after the turn, the next one counts as the first."""
        self._post(self._edited)

    @property
    def draft(self) -> str:
        return self._buffer.text

    def line(self, wait_s: float | None = None) -> Typed | None:
        return self._take() if self._ready.acquire(timeout=wait_s) else None

    def typed(self) -> list[Typed]:
        taken = []
        while self._ready.acquire(blocking=False):
            taken.append(self._take())
        return taken

    def give_back(self, text: str) -> None:
        self._post(lambda: self._insert_before(text))

    def print(self, what: RenderableType) -> None:
        """Print above the prompt, permanently."""
        with self._console.capture() as captured:
            self._console.print(Clean(what))
        text = captured.get()
        if self._over.is_set():
            self._stdout.write(text)
            self._stdout.flush()
        else:
            self._post(lambda: self._print_above(text))

    def show(self, content: RenderableType | None) -> None:
        """Show content between the printed text and the prompt, or clear it."""
        self._content = content
        self._post(self._redraw)

    def open(self) -> None:
        """Start editing; pending input is read now."""
        self._thread.start()
        self._started.wait()

    def close(self) -> None:
        """Remove the prompt and restore the terminal."""
        self._leaving = True
        self._started.wait()
        self._post(self._app.exit)
        self._thread.join()
        self._output.close()

    def _run(self) -> None:
        try:
            self._app.run(pre_run=self._begin, set_exception_handler=False)
        except EOFError:
            pass  # the terminal is gone
        except BaseException as error:  # noqa: BLE001 - the thread that takes lines raises it
            self._failure = error
        finally:
            self._over.set()
            self._started.set()
            self._put(Key.END)

    def _begin(self) -> None:
        if self._app.loop:
            self._app.loop.set_exception_handler(lambda _, context: self._fail(context))
        self._started.set()

    def _fail(self, context: dict[str, Any]) -> None:
        if not self._app.is_done:
            self._app.exit(exception=context.get("exception") or RuntimeError(context["message"]))

    def _post(self, do: Callable[[], None]) -> None:
        """Run a function in the event loop's thread, after all functions posted before."""
        loop = self._app.loop
        if loop and not self._over.is_set():
            loop.call_soon_threadsafe(do)

    def _take(self) -> Typed:
        if self._failure:
            raise self._failure
        taken = self._pending.popleft()
        self._post(self._app.invalidate)
        return taken

    def _put(self, piece: Typed) -> None:
        self._pending.append(piece)
        self._ready.release()

    def _accept(self, buffer: Buffer) -> bool:
        self._interrupts = 0
        if buffer.text.strip():
            self._put(buffer.text)
        return False

    def _edited(self, _: object = None) -> None:
        self._interrupts = 0
        self._app.invalidate()

    def _insert_before(self, text: str) -> None:
        draft = self._buffer.document
        before = f"{text}\n" if draft.text else text
        self._buffer.document = Document(before + draft.text, len(before) + draft.cursor_position)

    def _print_above(self, text: str) -> None:
        self._output.held = True
        self._app.renderer.erase()
        self._output.write_raw(text)
        self._output.held = False
        self._app.invalidate()

    def _redraw(self) -> None:
        self._app.invalidate()
        if self._content is not None and not self._turns and self._app.loop:
            self._turns = True
            self._app.loop.call_later(REDRAW_S, self._turn)

    def _turn(self) -> None:
        """Advance the spinner."""
        self._turns = False
        self._redraw()

    def _interrupt(self) -> None:
        """Clear the line on Ctrl-C.

        On an empty line the first one goes to the chat, the second leaves at any point.
        """
        if self._buffer.text:
            self._buffer.reset()
            return
        self._interrupts += 1
        if self._interrupts == 1:
            self._put(Key.INTERRUPT)
        elif not self._leaving and (main := threading.main_thread().ident):
            self._leaving = True
            signal.pthread_kill(main, signal.SIGINT)

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        keys.add("c-c")(lambda _: self._interrupt())
        keys.add("c-d", filter=Condition(lambda: not self._buffer.text))(lambda _: self._put(Key.END))
        keys.add("tab")(lambda _: self._buffer.insert_text("\t"))
        keys.add("escape", "enter")(lambda _: self._buffer.insert_text("\n"))
        keys.add("c-z")(lambda event: event.app.suspend_to_background())
        return keys

    def _layout(self) -> HSplit:
        def note(text: Callable[[], AnyFormattedText], shown: Callable[[], bool]) -> ConditionalContainer:
            window = Window(FormattedTextControl(text), dont_extend_height=True)
            return ConditionalContainer(window, Condition(shown))

        line = Window(
            BufferControl(self._buffer, input_processors=[Apart(), TabsProcessor(char1=" ", char2=" ")]),
            height=lambda: Dimension(min=1, max=max(1, self.height // 2)),
            wrap_lines=True,
            dont_extend_height=True,
            get_line_prefix=lambda number, wraps: "  " if number or wraps else "> ",
        )
        return HSplit(
            [
                note(self._render_content, lambda: self._content is not None),
                note(self._render_pending, lambda: bool(self._lines())),
                line,
                note(lambda: [("class:note", _AGAIN)], lambda: self._interrupts > 0),
            ]
        )

    def _render_content(self) -> AnyFormattedText:
        """Return the end of the content that fits on the screen."""
        if self._content is None:
            return ""
        with self._console.capture() as captured:
            self._console.print(Clean(self._content))
        lines = captured.get().splitlines()
        typed = self._buffer.document.line_count
        room = max(1, self.height - PENDING_LINES - min(typed, self.height // 2) - 2)
        return ANSI("\n".join(lines[-room:]))

    def _render_pending(self) -> AnyFormattedText:
        lines = self._lines()
        shown = [f"> {one_line(line, self.width - 2)}" for line in lines[:PENDING_LINES]]
        if len(lines) > PENDING_LINES:
            shown[-1] = f"  and {len(lines) - PENDING_LINES + 1} more"
        return [("class:note", "\n".join(shown))]

    def _lines(self) -> list[str]:
        return [piece for piece in self._pending.copy() if isinstance(piece, str)]


def _size_of(terminal: TextIO) -> Size:
    columns, rows = os.get_terminal_size(terminal.fileno())
    return Size(rows or 25, columns or 80)  # a pseudo terminal may have no size


@contextmanager
def open_prompt(stdin: TextIO, stdout: TextIO) -> Iterator[_Prompt]:
    """Open a prompt for a chat; the terminal is also restored if the chat is terminated.

    Keys are read from here on. A Ctrl-C that leaves is held back until the chat, which reports unsent messages, allows
    it.
    """
    prompt = _Prompt(stdin, stdout)
    before = signal.signal(signal.SIGTERM, _terminate)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        prompt.open()
        yield prompt
    finally:
        prompt.close()
        signal.signal(signal.SIGTERM, before)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _terminate(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
