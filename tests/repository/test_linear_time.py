"""Whatever is read of foreign text, twice as much of it costs twice as much.

A text of 1 MiB costs a linear reader less than a second, and a quadratic one hours. So no time is measured: each
text may cost a limited number of CPU seconds; the kernel ends a process that takes more.
"""

import json
import re
import subprocess
import sys

import pytest

from tests.repository.expression import ROOT, Expression, library_expressions
from tests.repository.linear import WHOLE_CHARS, Case
from tests.repository.reader import READERS
from tests.support.budget import budget
from tests.support.draw import share
from tests.tiers import changed_paths, touches

LONGEST_CHARS = budget(WHOLE_CHARS // 4, WHOLE_CHARS, nightly=WHOLE_CHARS)
EXPRESSION_S = 10
READER_S = 60


def readers():
    """Return a quarter of the readers, in turn, and those whose modules changed."""
    return a_quarter({name: reader.modules for name, reader in READERS.items()})


def expressions():
    """Return the expressions of a quarter of the modules, in turn, and of those that changed."""
    modules = {module_of(one) for one in library_expressions()}
    chosen = set(a_quarter({module: (module,) for module in sorted(modules)}))
    return [one for one in library_expressions() if module_of(one) in chosen]


def a_quarter(modules):
    drawn, changed = share(list(modules), 4), changed_paths()
    return [name for name, own in modules.items() if name in drawn or touches(changed, sources_of(own))]


def sources_of(modules):
    return [module.removeprefix("stepline.").replace(".", "/") for module in modules]


def module_of(expression: Expression):
    return re.split(r"[.:](?=\w+\Z)", expression.name)[0]


def end_of(cases):
    """Run the cases; return what was at hand when the limit ended it, "" if it did not."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.repository.linear"],
        cwd=ROOT,
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0 or run.stdout, run.stderr
    return run.stdout.splitlines()[-1][:500] if run.returncode else ""


def cases_of(expression: Expression, seconds: int = EXPRESSION_S):
    sources = [(expression.pattern, expression.flags)]
    return [Case(expression.name, way, LONGEST_CHARS, seconds, sources) for way in sorted(expression.uses)]


def test_every_expression_reads_its_worst_text_in_linear_time():
    assert end_of([case for one in expressions() for case in cases_of(one)]) == ""


@pytest.mark.parametrize("name", readers())
def test_a_reader_reads_its_worst_text_in_linear_time(name):
    modules = READERS[name].modules
    sources = [(one.pattern, one.flags) for one in library_expressions() if module_of(one) in modules]
    assert end_of([Case(name, "reader", LONGEST_CHARS, READER_S, sources)]) == ""


@pytest.mark.parametrize(
    ("pattern", "way"),
    [
        (r"(?i:\berror\b)|\w+Error\b|Exception", "scan"),
        (r"\s+$", "scan"),
        (r"(a+)+b", "match"),
        (r"(?:x|xy|y)*z", "fullmatch"),
        (r"\"(?:[^\"]|\\.)*\"", "scan"),
        (r"<(b)>\n(.*?)\n</\1>", "scan"),
        (r"input .*\bexceeds", "scan"),
        (r"^[\s>-]*<", "scan"),
    ],
)
def test_an_expression_that_is_not_linear_is_found(pattern, way):
    flags = re.DOTALL | re.MULTILINE
    assert end_of(cases_of(Expression("it", pattern, int(flags), frozenset({way})), seconds=1)).startswith(
        "it"
    )
