"""Every line of structure that a request in the layout `journal` may have, beside those of the timeline's entries."""

from __future__ import annotations

import re

from stepline.context.journal.current_turn import SECTIONS, SLOT_MAPPING
from stepline.context.journal.prior_turns import STATUSES
from stepline.context.journal.render_journal import LOG_HEADER
from stepline.context.journal.staged_text import ARTIFACTS, SKILLS
from tests.support.rendered_text import STRUCTURE

_HEADINGS = "|".join(
    re.escape(line)
    for line in (
        *(f"[{title}]" for title in SECTIONS),
        *(f"{status}:" for status in STATUSES),
        *(SLOT_MAPPING.rstrip("\n"), LOG_HEADER.rstrip("\n"), ARTIFACTS, SKILLS, "[OPERATIONAL DIGEST]"),
        *(
            "[TURN SESSION JOURNAL] oldest -> newest",
            "[LOOP ROUNDS]",
            "[CONSTRAINTS]",
            "```text",
            "```",
            "content:",
        ),
        *("LAST ROUND: only complete or exit is accepted.", "[… cut]", "content: attached behind this text"),
        "[FINALIZE] the user steered: put down what you have, and answer",
    )
)
_PRIOR = (
    r"=== (?:PRIOR|CURRENT) TURN .+|\[EARLIER TURNS\] \d+ not shown .+|\[USER PROMPT SUMMARY\] ar:\S+|\[OBJECTIVE\] .+"
    r"|\[GATE\] .+|\[SOLVER LOG\] .+|\[PRODUCED SLOTS\](?: none)?|\[ASSISTANT RESPONSE SUMMARY\] .+|\[TURN SUMMARY\] ws:\S+"
)
_OWN = (
    r"- .+|conversation: \".*\"|objective: .+|route: .+|gate: \".*\"|rounds: \d+.*|calls: .+|(?:notices|events|answers|sources): \d+"
    r"|iterations: \d+ .+|tokens: \d+ .+|time_elapsed_in_turn: \w+|iteration_index: \d+|max_iterations: \d+"
    r"|artifact: .+|\[STAGED\] .+|\[STAGE\] .*|\[APPROVAL ASKED\] .+|### .+ \[(?:artifact|skill)\]|meta: .+|content: not shown: .*"
)
JOURNAL = re.compile(f"{STRUCTURE.pattern}|{_HEADINGS}|{_PRIOR}|{_OWN}")


def forged_in_journal(text: str) -> list[str]:
    """Return the lines that neither the layout wrote nor are indented as data."""
    return [line for line in text.splitlines() if line[:2] != "  " and not JOURNAL.fullmatch(line)]
