"""The pages of docs/how-to, followed to the letter; what needs a stage is in tests/e2e/test_guide.py."""

import itertools
import re
import shlex
import subprocess

import click
import pytest

from stepline.local.command.cli import main
from stepline.local.scripted.server import ScriptedServer
from tests.support.guide import Guide, blocks_of, commands_of
from tests.unit.docs.source import DOCS, ROOT

PAGES = sorted((DOCS / "how-to").glob("*.md"))
SHELLS = ("sh", "bash", "console")


@pytest.fixture(scope="module")
def environment():
    """The environment of a reader with a key: a server of the provider's API, and no home of their own."""
    with ScriptedServer(token_delay_ms=0) as server:
        yield {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "any"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_runs_or_says_why_not(page):
    said = [
        block for block in blocks_of(page) if not block.kind or (block.kind == "not run" and not block.word)
    ]
    assert [(block.line, block.language) for block in said] == []
    tests = [path for block in blocks_of(page) for path in re.findall(r"tests/\S+\.py", block.word)]
    assert [path for path in tests if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(block.kind == "run" for block in blocks_of(page))],
    ids=lambda page: page.stem,
)
def test_a_page_runs_as_it_is_written(page, tmp_path, environment):
    home = {"STEPLINE_HOME": str(tmp_path / "home")}
    project = tmp_path / "project"
    project.mkdir()
    Guide(page, project, {**environment, **home}).follow()


def scripts():
    """Yield the shell code of every page, with its place."""
    for page in PAGES:
        for block in blocks_of(page):
            if block.language in SHELLS and block.kind in ("run", "on the stage", "not run"):
                text = block.text
                if block.language == "console":
                    text = "\n".join(command for command, _ in commands_of(text))
                yield f"{page.name}, line {block.line}", text


def test_shell_code_that_is_not_run_parses():
    whole = "\n".join(f": {shlex.quote(place)}\n{text}" for place, text in scripts())
    done = subprocess.run(["bash", "-n"], input=whole, capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_every_option_that_a_page_passes_to_stepline_exists():
    lines = [(place, line) for place, text in scripts() for line in lines_of(text)]
    assert len(lines) > 50
    assert [(place, line, why) for place, line in lines if (why := refused(line))] == []


def lines_of(text):
    """Yield the arguments of each `stepline` of a script, but for those within quotes."""
    lexer = shlex.shlex(
        re.sub(r"(^|\s)#.*", "", text.replace("\\\n", " ")), posix=True, punctuation_chars="();<>|&\n"
    )
    lexer.whitespace, lexer.commenters = " \t", ""
    for is_end, words in itertools.groupby(lexer, lambda word: set(word) <= set(lexer.punctuation_chars)):
        command = [] if is_end else list(words)
        if "stepline" in command:
            yield command[command.index("stepline") + 1 :]


def refused(line):
    """Return why a command line is refused; "" if it is taken."""
    words, command, context = list(line), main, click.Context(main, **main.context_settings)
    while isinstance(command, click.Group) and words:
        command = command.get_command(context, words.pop(0))
        if command is None:
            return "no such command"
        context = click.Context(command, parent=context, **command.context_settings)
    try:
        command.make_parser(context).parse_args(words)
    except click.UsageError as error:
        return error.message
    return ""


LASTS = """
`lamp/price.py`:

```python
EUR = 12.5
```

```sh
cd lamp
export LAMP=on
double() { echo "$1$1"; }
```

```console
$ double $LAMP
onon
$ ls; echo one; echo two
price.py
…
```

```python
from price import EUR
```

```python
import asyncio

print(await asyncio.sleep(0, EUR))
```

<!-- output -->
```text
12.5
```
"""


def follow(text, folder):
    page, project = folder / "page.md", folder / "project"
    project.mkdir()
    page.write_text(text)
    Guide(page, project, {}).follow()


def test_folder_variables_functions_files_and_names_last_to_the_end_of_a_page(tmp_path):
    follow(LASTS, tmp_path)


@pytest.mark.parametrize(
    "block",
    [
        "```console\n$ echo one\ntwo\n```",
        "```console\n$ echo one; echo two\none\n```",
        "```console\n$ false\n```",
        "```sh\nfalse\ntrue\n```",
        "```python\nassert False\n```",
        "```python\nprint(1)\n```\n\n<!-- output -->\n```text\n2\n```",
    ],
)
def test_a_block_that_fails_or_shows_something_else_fails_its_page(block, tmp_path):
    with pytest.raises(AssertionError):
        follow(block, tmp_path)


@pytest.mark.parametrize(
    ("block", "kind"),
    [
        ("```yaml\na: 1\n```", ""),
        ("```yaml\n# a.yaml\na: 1\n```", "file"),
        ("<!-- not run: needs a key -->\n```sh\ntrue\n```", "not run"),
        ("<!-- not run -->\n```sh\ntrue\n```", "not run"),
    ],
)
def test_a_comment_a_path_or_a_language_says_how_a_block_is_followed(block, kind, tmp_path):
    (tmp_path / "page.md").write_text(block)
    assert [found.kind for found in blocks_of(tmp_path / "page.md")] == [kind]
