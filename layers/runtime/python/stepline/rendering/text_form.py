"""The form of texts: one function per kind of fact, which returns the text that the model reads.

No other package depends on the form of a text, so another form is another value of `TextForm`. A text
depends on its own facts and on earlier ones, never on later ones, and consists of whole lines.
Source: docs/concepts/context.md#what-the-model-reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from stepline.model.block import Produced
from stepline.model.decision import Action, LastingCall, Notice
from stepline.model.entry import (
    Closed,
    Compacted,
    Decided,
    Deferred,
    Feedback,
    Inbound,
    Opened,
    Pruned,
    Resulted,
    SteeredEntry,
)
from stepline.model.plan_steps import Plan
from stepline.rendering import render_entry as entry
from stepline.rendering import render_entry as event
from stepline.rendering import render_reduction as memory
from stepline.rendering import render_reduction as reduction
from stepline.rendering.piece import Piece
from stepline.rendering.turn_facts import Turn


class TextForm(msgspec.Struct, frozen=True, kw_only=True):
    """The rendering functions of a timeline. `name` identifies the form of stored texts.

    `shows_text`, `shows_call` and `shows_event` return True if the text made of a content shows all of it;
    the text is a tool's, or a person's if no tool is named. `stub` and the functions below it render from
    the pieces that they replace.
    """

    name: str
    opening: Callable[[Opened], str]
    prompt: Callable[[Inbound, str, str, Sequence[str]], str]
    event: Callable[[Inbound, str, Sequence[str]], str]
    steered: Callable[[SteeredEntry], str]
    round: Callable[[Decided, Sequence[str]], str]
    thinking: Callable[[str, str], str]
    notes: Callable[[str, str], str]
    code: Callable[[Action, str], str]
    call: Callable[[Action, str], str]
    edited: Callable[[str, Action, str], str]
    notice: Callable[[Notice, str, bool], str]
    raw: Callable[[str, str], str]
    answer: Callable[[str, str, int], str]
    status: Callable[[Resulted], str]
    block: Callable[[Produced, str, str], str]
    end: Callable[[], str]
    outcome: Callable[[Deferred, str, Sequence[str]], str]
    takeover: Callable[[], str]
    forked: Callable[[Sequence[LastingCall]], str]
    closing: Callable[[Closed, Sequence[Plan]], str]
    note: Callable[[Produced, str], str]
    stage: Callable[[Produced, str, str], str]
    feedback: Callable[[Feedback, str], str]
    pruned: Callable[[Pruned], str]
    card: Callable[[Piece], str]
    rows: Callable[[Sequence[Piece]], str]
    stub: Callable[[Piece], str]
    hidden: Callable[[Piece, str], str]
    clipped: Callable[[Piece, int], str]
    memory: Callable[[Compacted, str, Sequence[Turn]], str]
    plans: Callable[[Sequence[Plan]], str]
    checkpoint: Callable[[Compacted, str], str]
    shows_text: Callable[[str, str], bool]
    shows_call: Callable[[Action], bool]
    shows_event: Callable[[Inbound], bool]


STANDARD = TextForm(
    name="standard",
    opening=entry.render_opening,
    prompt=event.render_prompt,
    event=event.render_event,
    steered=event.render_steered,
    round=entry.render_round,
    thinking=entry.render_thinking,
    notes=entry.render_notes,
    code=entry.render_code,
    call=entry.render_call,
    edited=entry.render_edited,
    notice=entry.render_notice,
    raw=entry.render_raw,
    answer=entry.render_answer,
    status=entry.render_result_head,
    block=entry.render_block,
    end=entry.render_round_end,
    outcome=entry.render_deferred,
    takeover=entry.render_takeover,
    forked=entry.render_forked,
    closing=entry.render_closing,
    note=entry.render_note,
    stage=entry.render_stage,
    feedback=entry.render_feedback,
    pruned=reduction.render_pruned,
    card=reduction.render_card,
    rows=reduction.render_rows,
    stub=reduction.render_stub,
    hidden=reduction.render_hidden,
    clipped=reduction.render_clipped,
    memory=memory.render_memory,
    plans=memory.render_plans,
    checkpoint=memory.render_checkpoint,
    shows_text=entry.shows_text,
    shows_call=entry.shows_call,
    shows_event=event.shows_event,
)
"""The default form."""
