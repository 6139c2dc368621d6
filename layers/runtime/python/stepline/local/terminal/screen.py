"""How the line editor draws: what changes at once, and what it shows in a width that every terminal agrees on."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Final

from prompt_toolkit.formatted_text.utils import fragment_list_to_text
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.utils import explode_text_fragments
from prompt_toolkit.output.vt100 import Vt100_Output

from stepline.model.traversal import show_hidden

_JOINS: Final = re.compile("[\u200d\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]")


class Output(Vt100_Output):
    """Writes a printed text and the prompt below it at once, and keeps bracketed paste on for as long as the prompt is there."""

    held = False

    def flush(self) -> None:
        if not self.held:
            super().flush()

    def disable_bracketed_paste(self) -> None:
        """Do it in `close`: the renderer would do it whenever something is printed, and a paste in that moment be cut up."""

    def close(self) -> None:
        super().disable_bracketed_paste()
        self.flush()


class Apart(Processor):
    """Shows joined emoji apart and plain: terminals disagree on the width of joined ones, and the cursor would go astray.

    A hidden character is shown as its sign: a direction that is pasted does not turn the line around.
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
