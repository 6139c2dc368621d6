"""docs/how-to/make-a-bundle.md: the codes that it names, and the targets of the new bundle's Makefile."""

import re
import subprocess

from docs.build.errors import BUNDLE, LOCAL
from stepline.local.command.new import write_bundle
from tests.unit.docs.source import DOCS

PAGE = DOCS / "how-to/make-a-bundle.md"


def test_the_makefile_of_a_new_bundle_lists_its_targets(tmp_path):
    write_bundle("kiosk", tmp_path)
    listed = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=tmp_path / "kiosk",
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["help", "test", "check", "chat"]


def test_the_page_names_every_code_of_the_check_and_of_a_new_folder():
    meanings = {code: means for group in (BUNDLE, LOCAL) for code, means in group.items()}
    ours = {
        code
        for code, means in meanings.items()
        if re.match(r"`stepline( new|\.testing| bundle check)`", means)
    }
    asked_for = {"tool_not_called", "bundle_ambiguous"}  # their messages say all
    assert ours - asked_for - set(re.findall(r"`(\w+)`", PAGE.read_text())) == set()
