from __future__ import annotations

import pytest

from stepline.tools.workfiles.syntax_check import CHECKED_MAX_BYTES, find_syntax_flaw
from tests.support.budget import budget

GOOD = {
    "a.py": "async def f(x: int) -> int:\n    return x\n",
    "a.json": '{"a": [1, 2]}',
    "b.js": "const q = a / b / c; // it's (\nif (x) return /['\"(]/.test(y);\n/* ` */",
    "c.js": "let s = 'it\\'s (', t = \"[\", u = `a ${ {b: `}`}.b } '`;",
    "d.js": "const A = () => <p title='x'>don't (see http://a.b) {x}</p>;",
    "b.html": "<script>if (a < b) { '</b>' }</script><img src='a>b'><svg><path d='x'/></svg><p>a</p></p><br/>",
    "c.html": "<table><tr><td>a<td>b<tr><td>c</table><!-- <b> --><textarea><i></textarea>",
    "a.js": "if (a < b) { c(`x ${d + `y`}`); }\nlet r = /[)]/g;\n",
    "a.jsx": "const A = () => <p>don't :) <b>x</b></p>;\n",
    "a.ts": "let x: number = <number>y;\n",
    "a.tsx": "const A = (p: P) => <p>{p.x}</p>;\n",
    "a.html": "<!doctype html><body><p>a<br>b<ul><li>x<li>y</ul></body>",
}
BAD = {
    "a.py": ("x = 1\ndef f(:\n", 2),
    "a.json": ('{"a": 1,\n "b" 2}', 2),
    "a.js": ("let a = 1;\nlet b = (2;\n", 2),
    "b.js": ("let a = [1;\n2}", 2),
    "c.js": ("let a = `${b\n", 1),
    "d.js": ("/* a\n", 1),
    "e.js": ("f()\nlet a = 'b;\n", 2),
    "a.jsx": ("const A = () => <p>{x</p>;\n", 1),
    "a.ts": ("let x: number = f(1));\n", 1),
    "a.tsx": ("const A = () => {\n\nreturn <p/>;\n", 1),
    "a.html": ("<p>\n<b>x</i></p>", 2),
    "b.html": ("<div>\n<section></div>", 2),
    "c.html": ("<p>\n<a href='x>y</a>", 2),
    "d.html": ("<p>\n<!-- x", 2),
    "e.html": ("<script>let a = 1;\n", 1),
    "f.htm": ("<div>\n", 1),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_good_text_has_no_flaw(name):
    assert find_syntax_flaw(name, GOOD[name]) is None


@pytest.mark.parametrize("name", BAD)
def test_a_syntax_error_is_reported_with_its_line(name):
    text, line = BAD[name]
    found = find_syntax_flaw(name, text)
    assert found is not None
    assert found.line == line
    assert found.message


@pytest.mark.parametrize("name", ["a.md", "a.css", "noending", "a.PYX"])
def test_another_language_is_not_checked(name):
    assert find_syntax_flaw(name, "def f(:") is None


def test_endings_are_read_in_any_case():
    assert find_syntax_flaw("a.PY", "def f(:") is not None


def test_a_text_too_large_is_not_checked():
    assert find_syntax_flaw("a.py", "(" + " " * CHECKED_MAX_BYTES) is None


HOSTILE = [
    "(",
    "[",
    "{",
    "-",
    "1+",
    "not ",
    "f(",
    "a if b else ",
    "lambda:",
    "'",
    "<a>",
    "</b>",
    "`${",
    "f'{",
    "a<b,",
    "(a)=>",
]


@pytest.mark.parametrize("unit", HOSTILE)
@pytest.mark.parametrize("name", ["a.py", "a.json", "a.js", "a.ts", "a.html"])
def test_a_hostile_text_has_a_flaw_or_none(name, unit):
    found = find_syntax_flaw(name, unit * (budget(12_000, 60_000, nightly=60_000) // len(unit)))
    assert found is None or found.line == 1
