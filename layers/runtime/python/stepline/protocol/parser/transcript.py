"""Output of the channel parser: events while it reads, a transcript at the end."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from stepline.model.base import Value

CloseReason: TypeAlias = Literal["normal", "implicit", "eof", "cancelled", "policy", "provider_error"]

INTERRUPTED: Final[frozenset[CloseReason]] = frozenset({"cancelled", "policy", "provider_error"})
"""Reasons after which the model would have continued."""


class Opened(Value, kw_only=False, gc=False):
    """A channel begins; `instance` counts from 0 per channel."""

    channel: str
    instance: int


class Text(Value, kw_only=False, gc=False):
    """The next piece of an instance's body, never empty."""

    channel: str
    instance: int
    text: str


class Closed(Value, kw_only=False, gc=False):
    """The end of an instance. Every `Opened` gets exactly one.

    `truncated`: without its closing tag. `forced_close`: its closing tag was accepted within an unclosed code
    span. `malformed`: the same within a JSON string.
    """

    channel: str
    instance: int
    reason: CloseReason
    truncated: bool = False
    forced_close: bool = False
    malformed: bool = False


ChannelEvent: TypeAlias = Opened | Text | Closed


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
