"""Promises of the parity page: each is broken in a copy of the library, and a test that names it must fail.

A landing breaks a few, `make soak` all of them; the number is printed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.budget import budget

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "layers/runtime/python"


class Promise(NamedTuple):
    """A term of the page; the module that keeps it, the text there and one that breaks it; the tests that hold it."""

    term: str
    module: str
    kept: str
    broken: str
    tests: str


PROMISES = (
    Promise(
        "the model of a tool called in a round",
        "bootstrap/loop_app.py",
        "return self.app.given or self.app.provider_model()",
        "return None",
        "tests/unit/loop/test_tool_services.py",
    ),
    Promise(
        "`ref:<path>` is bound before the call runs",
        "tools/registry.py",
        "action.bound.get(path)",
        "None",
        "tests/unit/loop/test_referred_content.py",
    ),
    Promise(
        "a reference to what is not in view is refused",
        "loop/referred_content.py",
        'if not self._is_visible(path) or content.block.meta.get("missing_sids"):',
        "if False:",
        "tests/unit/loop/test_referred_content.py",
    ),
    Promise(
        "a reference to what is no text is refused",
        "loop/referred_content.py",
        "if not is_text(content.mime):",
        "if False:",
        "tests/unit/loop/test_referred_content.py",
    ),
    Promise(
        "`react.read` is never `ok` for what it does not attach",
        "tools/read/run.py",
        "if any(_is_served(row) for row in rows):",
        "if True:",
        "tests/unit/tools/read",
    ),
    Promise(
        "content of a renderer without a channel is shown",
        "protocol/stream/record.py",
        'needed=frozenset({"path"}), refs=True',
        "refs=True",
        "tests/unit/protocol/stream",
    ),
    Promise(
        "a call learned anew has ended",
        "protocol/stream/record.py",
        "self._ended = True\n\n    def finish",
        "self._ended = False\n\n    def finish",
        "tests/unit/protocol/stream",
    ),
    Promise(
        "a tag in a code span opens no channel",
        "protocol/parser/channel_parser.py",
        "named = judge_in_span(tag, text, final=final) if spans else None",
        "named = None",
        "tests/unit/protocol/parser",
    ),
    Promise(
        "followup channels become `chat.followups`",
        "bundle/generation/artifact_stream.py",
        'path == ("followups", "")',
        'path == ("nothing", "")',
        "tests/unit/bundle/generation",
    ),
    Promise(
        "a decision's model is in its event",
        "events/derive_round.py",
        "model=entry.model,",
        'model="",',
        "tests/unit/events tests/unit/local/terminal/test_reloaded_turn.py",
    ),
    Promise(
        "a decision's event tells what the request had seen",
        "events/derive_round.py",
        "rendered=rendered,",
        "rendered=0,",
        "tests/unit/events tests/unit/local/terminal/test_reloaded_turn.py",
    ),
    Promise(
        "the rounds left are in a decision's event",
        "events/derive_round.py",
        "rounds_left=entry.rounds_left,",
        "rounds_left=0,",
        "tests/unit/events tests/unit/local/terminal/test_reloaded_turn.py",
    ),
    Promise(
        "a file's digest is in `chat.files`",
        "events/derive_round.py",
        "sha256=body.sha256,",
        'sha256="",',
        "tests/unit/events",
    ),
    Promise(
        "a file's call is in `chat.files`",
        "events/derive_round.py",
        "call_id=call,",
        'call_id="",',
        "tests/unit/events",
    ),
    Promise(
        "an error says whether to send again",
        "events/derive_close.py",
        "retryable=entry.code not in FINAL,",
        "retryable=True,",
        "tests/unit/events",
    ),
    Promise(
        "a citation is told from a link",
        "protocol/citation/hyperlink.py",
        """ "S:{source.sid}")' if url""",
        """)' if url""",
        "tests/unit/protocol/citation",
    ),
    Promise(
        "exports keep fields that have their default",
        "timeline/export.py",
        "for name, own in asdict(value).items()}",
        "for name, own in asdict(value).items() if own}",
        "tests/unit/timeline",
    ),
    Promise(
        "an answer names the sources that it uses",
        "timeline/turn_blocks.py",
        "sids = [sid for sid in cited_sids(text) if sid in known]",
        "sids = cited_sids(text)",
        "tests/unit/timeline",
    ),
    Promise(
        "`covered_turn_ids` of a `conv.range.summary`",
        "timeline/turn_blocks.py",
        "[one.id for one in self.turns if one.opened < entry.cut]",
        "[one.id for one in self.turns]",
        "tests/unit/timeline",
    ),
    Promise(
        "a round's start stands on the timeline",
        "timeline/turn_blocks.py",
        "groups.append(tuple(walk.begin(batch)))",
        "groups.append(())",
        "tests/unit/timeline",
    ),
    Promise(
        "cited rows of the pool carry a short text",
        "context/announce.py",
        "return {sid: text for sid, text in found.items() if text.strip()}",
        "return {}",
        "tests/unit/context",
    ),
    Promise(
        "the user's time zone",
        "timeline/fold.py",
        "timeline.timezone = entry.timezone",
        "pass",
        "tests/unit/context tests/unit/timeline",
    ),
    Promise(
        "parameters in their documented order",
        "protocol/decision/read.py",
        "check_order(call, rules.tools, notices)",
        "pass",
        "tests/unit/protocol/decision",
    ),
    Promise(
        "old names of tools answer with the new one",
        "protocol/decision/call_check.py",
        'OLD_NAMES.get(tool_id, "")',
        '""',
        "tests/unit/protocol/decision",
    ),
    Promise(
        "tags of notes survive a compaction",
        "context/summary_text.py",
        'NOTED: [f"[{tag}] {said}" for tag, said in noted if tag != PREFERENCE],',
        "NOTED: [],",
        "tests/unit/context",
    ),
    Promise(
        "`cache_ttl_seconds` of a bundle's properties",
        "bundle/overrides.py",
        'props=("react.cache_ttl_seconds",)',
        "props=()",
        "tests/unit/bundle",
    ),
    Promise(
        "an independent write behind two searches",
        "protocol/decision/fanout.py",
        'return looks and makes and earlier.reads == "outside" and later.reads == "parameters"',
        "return False",
        "tests/unit/protocol/decision",
    ),
    Promise(
        "a write that speaks of what is searched waits",
        "protocol/decision/read.py",
        "self._check_apart(call)",
        "pass",
        "tests/unit/protocol/decision",
    ),
)
LANDING = PROMISES[:: len(PROMISES) // budget(3, len(PROMISES))]


@pytest.mark.parametrize("promise", LANDING, ids=lambda promise: promise.term.replace(" ", "_"))
def test_a_broken_promise_is_seen(promise: Promise, tmp_path: Path) -> None:
    copy = tmp_path / "stepline"
    shutil.copytree(LIBRARY / "stepline", copy, ignore=shutil.ignore_patterns("__pycache__"))
    module = copy / promise.module
    text = module.read_text()
    assert text.count(promise.kept) == 1
    module.write_text(text.replace(promise.kept, promise.broken))
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *promise.tests.split()]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "STEPLINE_SOAK": ""}  # noqa: TID251 - the whole of it, for a process
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, f"{promise.term}: broken, and no test fails\n{done.stdout[-3000:]}"


def test_the_broken_promises_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert len({promise.term for promise in PROMISES}) == len(PROMISES)
    with capsys.disabled():
        print(f"\n{len(LANDING)} of {len(PROMISES)} promises broken")  # noqa: T201 - the count is asked for
