"""The channel parser: pieces of a generation in, channel events out, and a transcript at the end.

No I/O, no clock, no second pass.

Nearly every piece holds no `<` and is passed on unchanged. One that does is searched for tags; a possible
start of a tag is held back, at most one tag's length. Only when a tag appears is it checked if it is plain
text: the scanner of `tags.py` then reads the text it has not read yet, so the whole costs O(n).

Two rules look further ahead, because a model forgets to close things:

- Program text ends at its own closing tag only. If that never comes, the text was cut at the first declared
  opening tag that starts a line; so from such a tag on, text is held back until either is certain.
- `<thinking>` outside of channels hides the tags up to `</thinking>`, and nothing if that never comes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from stepline.model.base import Value
from stepline.protocol.parser.grammar import DECISION_CHANNELS, OUTER_TAG, TAG, ChannelSpec
from stepline.protocol.parser.tags import (
    MarkdownScanner,
    Tag,
    TagVerdict,
    judge_in_ignored,
    judge_in_prose,
    judge_in_span,
    judge_tag,
    read_tag,
    scanner_for,
)

CloseReason: TypeAlias = Literal["normal", "implicit", "eof", "cancelled", "policy", "provider_error"]

INTERRUPTED_REASONS: Final[frozenset[CloseReason]] = frozenset({"cancelled", "policy", "provider_error"})
"""Reasons after which the model would have continued."""


class ChannelOpened(Value, kw_only=False, gc=False):
    """A channel begins; `instance` counts from 0 per channel."""

    channel: str
    instance: int


class Text(Value, kw_only=False, gc=False):
    """The next piece of an instance's body, never empty."""

    channel: str
    instance: int
    text: str


class ChannelClosed(Value, kw_only=False, gc=False):
    """The end of an instance. Every `ChannelOpened` gets exactly one.

    `truncated`: without its closing tag. `forced_close`: its closing tag was accepted within an unclosed code
    span. `malformed`: the same within a JSON string.
    """

    channel: str
    instance: int
    reason: CloseReason
    truncated: bool = False
    forced_close: bool = False
    malformed: bool = False


ChannelEvent: TypeAlias = ChannelOpened | Text | ChannelClosed


class Slice(Value, kw_only=False, gc=False):
    """A part of the input. All slices joined are the input; the `body` slices of an instance are its body."""

    kind: Literal["tag", "body", "outside", "ignored"]
    text: str
    channel: str = ""
    instance: int = 0


class Instance(Value):
    """One occurrence of a channel; `raw` is its body, character for character as the model wrote it."""

    channel: str
    instance: int
    raw: str
    reason: CloseReason
    truncated: bool = False
    forced_close: bool = False
    malformed: bool = False


class Transcript(Value):
    """A parsed generation.

    `outside_chars` and `preamble` (the text before the first tag) do not count surrounding blanks.
    `first_channel` is the first opened name, declared or not. `unknown_channels` were skipped.
    """

    raw: str
    instances: tuple[Instance, ...] = ()
    outside_chars: int = 0
    preamble: str = ""
    first_channel: str = ""
    unknown_channels: tuple[str, ...] = ()
    implicit_closes: int = 0

    def bodies(self, channel: str) -> tuple[str, ...]:
        """Return the bodies of a channel's instances, in order."""
        return tuple(one.raw for one in self.instances if one.channel == channel)

    def of(self, channel: str) -> tuple[Instance, ...]:
        """Return a channel's instances, in order."""
        return tuple(one for one in self.instances if one.channel == channel)


_Where: TypeAlias = Literal[
    "outside",
    "legacy",  # between <thinking> and </thinking>
    "ignored",  # in an undeclared channel
    "body",
    "suspended",  # program text after an opening tag that starts a line
]
"""The region that the current text belongs to."""


class _Body:
    """The open instance."""

    __slots__ = ("forced", "index", "malformed", "scanner", "spec", "texts")

    def __init__(self, spec: ChannelSpec, index: int) -> None:
        self.spec = spec
        self.index = index
        self.scanner = scanner_for(spec.escaping)
        self.texts: list[str] = []
        self.forced = False
        self.malformed = False


class ChannelParser:
    """Splits a generation into channels.

    `feed` every piece, then `close`; both return the events they complete. The events of an input do not
    depend on how it is cut, except for the boundaries of `Text`.
    """

    def __init__(self, channels: Sequence[ChannelSpec] = DECISION_CHANNELS) -> None:
        self._specs = {name.lower(): spec for spec in channels for name in (spec.name, *spec.aliases)}
        self._where: _Where = "outside"
        self._search = OUTER_TAG.search
        self._body: _Body | None = None
        self._live: tuple[str, int] | None = None  # the instance whose text is passed on
        self._ignored = ""
        self._held = ""
        self._pieces: list[str] = []  # text since the last tag
        self._unread = 0  # index of the first one that the scanner has not read
        self._slices: list[Slice] = []
        self._instances: list[Instance] = []
        self._count = dict.fromkeys((spec.name for spec in channels), 0)
        self._first_channel = ""
        self._unknown: list[str] = []
        self._implicit_closes = 0
        self._closed = False
        self._prose: MarkdownScanner | None = None  # of the text between two channels

    def feed(self, text: str) -> list[ChannelEvent]:
        """Take the next piece of the stream, return the events it completes."""
        if self._held:
            text = self._held + text
            self._held = ""
        if "<" in text and (found := self._search(text)):
            if found[0][-1] == ">":
                return self._scan(text, found, final=False)
            self._held = found[0]  # the possible start of a tag at the end of the text
            text = text[: found.start()]
        if not text:
            return []
        self._pieces.append(text)
        if live := self._live:
            return [Text(live[0], live[1], text)]
        return []

    def close(self, reason: CloseReason = "eof") -> list[ChannelEvent]:
        """End the input for a reason; close open channels. Closing again does nothing."""
        if self._closed:
            return []
        self._closed = True
        held, self._held = self._held, ""
        begun = ""  # start of an incomplete tag
        if reason in INTERRUPTED_REASONS and self._where == "outside" and ">" not in held:
            held, begun = "", held
        events = self._scan(held, self._search(held), final=True)
        if self._where in {"suspended", "legacy"}:
            rest = "".join(self._pieces)
            self._pieces = []
            self._enter("body" if self._body else "outside")
            events += self._scan(rest, self._search(rest), final=True)
        self._end_body(reason, events, truncated=True)
        self._cut()
        if begun:
            self._slices.append(Slice("tag", begun))
        self._enter("outside")
        return events

    @property
    def raw(self) -> str:
        """All text fed so far."""
        return "".join([*(one.text for one in self._slices), *self._pieces, self._held])

    @property
    def slices(self) -> tuple[Slice, ...]:
        """The input split at its tags; joined they are the input. Complete after `close`."""
        return tuple(self._slices)

    @property
    def preamble(self) -> str:
        """The text before the first opening tag, without surrounding blanks."""
        outside: list[str] = []
        for one in self._slices:
            if one.kind == "tag" and one.channel:
                return "".join(outside).strip()
            outside.append(one.text)
        return "".join([*outside, *self._pieces]).strip()

    def transcript(self) -> Transcript:
        """Return the transcript. Complete after `close`."""
        return Transcript(
            raw=self.raw,
            instances=tuple(self._instances),
            outside_chars=sum(len(one.text.strip()) for one in self._slices if one.kind == "outside"),
            preamble=self.preamble,
            first_channel=self._first_channel,
            unknown_channels=tuple(self._unknown),
            implicit_closes=self._implicit_closes,
        )

    def _scan(self, text: str, found: re.Match[str] | None, *, final: bool) -> list[ChannelEvent]:
        events: list[ChannelEvent] = []
        at = 0  # the start of the text not passed on
        while found:
            tag = read_tag(found)
            self._give(text[at : tag.start], events)
            at = tag.start
            step = self._judge(tag, text, final=final)
            if step == "wait":
                self._held = text[at:]
                return events
            if step == "suspend":
                self._cut()
                self._enter("suspended")
            elif step != "literal":
                at = tag.end
                self._take(step, tag, found[0], events)
            found = self._search(text, tag.end)
        self._give(text[at:], events)
        return events

    def _give(self, text: str, events: list[ChannelEvent]) -> None:
        if text:
            self._pieces.append(text)
            if self._live:
                events.append(Text(*self._live, text))

    def _judge(self, tag: Tag, text: str, *, final: bool) -> TagVerdict:
        """Return the effect of `tag` at its position."""
        if not tag.name:
            return "literal" if final else "wait"
        if self._where == "legacy":
            return "show" if tag.legacy and tag.closing else "literal"
        if body := self._body:
            own = self._specs.get(tag.name) is body.spec
            if self._where == "suspended":
                return "close" if own and tag.closing else "literal"
            span = body.scanner.read(self._fresh())
            step, overrides = judge_tag(tag, text, span, own=own, declared=self._specs, final=final)
            if overrides:
                body.forced, body.malformed = span != "string", span == "string"
            return step
        if self._where == "ignored":
            return judge_in_ignored(tag, self._ignored, self._specs)
        self._prose = self._prose or MarkdownScanner()  # hardly ever needed
        spans = self._prose.read(self._fresh()) == "inline"
        named = judge_in_span(tag, text, final=final) if spans else None
        return named or judge_in_prose(tag, self._specs, final=final)

    def _fresh(self) -> str:
        """Return the text since the last tag that the scanner has not read."""
        fresh = "".join(self._pieces[self._unread :])
        self._pieces[self._unread :] = [fresh]
        self._unread += 1
        return fresh

    def _take(self, step: TagVerdict, tag: Tag, text: str, events: list[ChannelEvent]) -> None:
        match step:
            case "open" | "ignore":
                self._open(tag.name, text, events)
            case "hide":
                self._cut()  # so that only the hidden text is searched again
                self._pieces.append(text)
                self._enter("legacy")
            case "show":
                self._pieces.append(text)
                self._unread = len(self._pieces)
                self._enter("outside")
            case "close" if self._body:
                self._end_body("normal", events)
                self._slices.append(Slice("tag", text))
            case _:  # the end of an ignored channel, or a tag that closes nothing
                self._cut()
                self._slices.append(Slice("tag", text))
                if step == "close":
                    self._enter("outside")

    def _open(self, name: str, text: str, events: list[ChannelEvent]) -> None:
        if self._body:
            self._implicit_closes += 1
            self._end_body("implicit", events, truncated=True)
        self._cut()
        spec = self._specs.get(name)
        self._first_channel = self._first_channel or (spec.name if spec else name)
        self._slices.append(Slice("tag", text, spec.name if spec else name))
        if spec is None:
            self._unknown.append(name)
            self._ignored = name
            self._enter("ignored")
            return
        self._body = _Body(spec, self._count[spec.name])
        self._count[spec.name] += 1
        self._enter("body")
        events.append(ChannelOpened(spec.name, self._body.index))

    def _end_body(self, reason: CloseReason, events: list[ChannelEvent], *, truncated: bool = False) -> None:
        body = self._body
        if body is None:
            return
        name, index = body.spec.name, body.index
        if self._where == "suspended":
            events.append(Text(name, index, "".join(self._pieces)))
        self._cut()
        events.append(ChannelClosed(name, index, reason, truncated, body.forced, body.malformed))
        self._instances.append(
            Instance(
                channel=name,
                instance=index,
                raw="".join(body.texts),
                reason=reason,
                truncated=truncated,
                forced_close=body.forced,
                malformed=body.malformed,
            )
        )
        self._body = None
        self._enter("outside")

    def _enter(self, where: _Where) -> None:
        self._where = where
        outside = where in {"outside", "legacy"}
        self._search = OUTER_TAG.search if outside else TAG.search
        if where == "outside":
            self._prose = None
        body = self._body
        self._live = (body.spec.name, body.index) if body and where == "body" else None

    def _cut(self) -> None:
        """Add a slice of the text since the last tag."""
        text = "".join(self._pieces)
        self._pieces = []
        self._unread = 0
        if not text:
            return
        if body := self._body:
            self._slices.append(Slice("body", text, body.spec.name, body.index))
            body.texts.append(text)
        else:
            self._slices.append(Slice("ignored" if self._where == "ignored" else "outside", text))


def read_channels(text: str, channels: Sequence[ChannelSpec] = DECISION_CHANNELS) -> Transcript:
    """Return the transcript of a whole generation, such as a stored one."""
    parser = ChannelParser(channels)
    parser.feed(text)
    parser.close()
    return parser.transcript()
