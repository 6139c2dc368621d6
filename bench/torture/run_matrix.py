"""Runs cells: a fresh subject on an empty store for each, so that no cell sees another one's damage."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from bench.row import MeasureError
from bench.torture.cell import Cell, CellError, Verdict
from bench.torture.effects import Effects
from bench.torture.fault import Fault
from bench.torture.model_server import ModelServer
from bench.torture.scenario import SCENARIOS
from bench.torture.subject import NotOfferedError, NotRunError, Place, RefusedError, Subject
from bench.torture.trial import Patience, Trial


def run_cell(
    open_subject: Callable[[Place], Subject], fault: Fault, patience: Patience, model: ModelServer
) -> Cell:
    """Run a fault's scenario on a fresh subject. Raises NoPeerError; errors of this program are raised, too."""
    start_s = time.monotonic()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        store, ledger = Path(folder, "store"), Path(folder, "effects")
        store.mkdir()
        ledger.mkdir()
        effects = Effects(ledger)
        subject = open_subject(Place(store, model.url, effects))
        try:
            subject.start()
            verdict, evidence = _judge(Trial(subject, model, effects, patience), fault)
        finally:
            subject.close()
    if model.failures:
        raise MeasureError("the scripted model failed") from model.failures[0]
    return Cell(verdict=verdict, evidence=evidence, seconds=round(time.monotonic() - start_s, 1))


def _judge(trial: Trial, fault: Fault) -> tuple[Verdict, str]:
    try:
        SCENARIOS[fault.name](trial)
    except CellError as error:
        return _refusal(trial, error) if error.verdict == "refused" else (error.verdict, str(error))
    except NotOfferedError as error:
        return "not offered", str(error)
    except NotRunError as error:
        return "not run", str(error)
    except RefusedError as error:
        return _refusal(trial, error)
    except OSError as error:
        return "stuck", f"the subject did not answer: {error}"
    return "holds", "; ".join(trial.notes)


def _refusal(trial: Trial, refused: Exception) -> tuple[Verdict, str]:
    """Return the verdict on an act that was refused: a refusal is honest if the conversation continues."""
    try:
        trial.require_next()
    except CellError as error:
        return "stuck", f"an act was refused ({refused}), and {error}"
    return "refused", str(refused)


def report(text: str) -> None:
    """Print a line of progress."""
    with suppress(BrokenPipeError):
        print(text, file=sys.stderr, flush=True)
