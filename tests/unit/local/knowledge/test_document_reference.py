"""References of documents to files: all are counted, and broken ones are named."""

import pytest

from stepline.local.knowledge.build_index import MISSING_SHOWN, strip_reference


@pytest.mark.parametrize(
    ("reference", "path"),
    [
        ("docs/a.md", "docs/a.md"),
        ("ks:docs/a.md", "docs/a.md"),
        ("docs/a.md#L10", "docs/a.md"),
        ("docs/a.md#some-heading", "docs/a.md"),
        ("tests/test_a.py::test_b", "tests/test_a.py"),
        ("src/a.py:123", "src/a.py"),
        ("src/a.py:123-130", "src/a.py"),
        ("src/", "src"),
    ],
)
def test_the_position_in_a_reference_is_ignored(reference, path):
    assert strip_reference(reference) == path


def test_references_in_backticks_are_looked_up_in_the_source_and_among_the_documents(space):
    space.write(
        {
            "knowledge.yaml": "{docs_root: app/docs, src_root: app/src}",
            "app/docs/a.md": "`src/price.py:3` `app/src/price.py` `docs/b.md#L1` `src/gone.py` `ui/gone.ts::x`\n"
            "`docs/<name>.md` `docs/*.md` `two words` `react.read` and docs/unquoted.md, `src/gone.py` again\n",
            "app/docs/b.md": "# B\n\n```\n`tests/gone.py`\n```\n",
            "app/src/price.py": "# `src/not_read.py`\n",
        }
    )
    built = space.build()
    assert (built.references, built.missing_references) == (6, 3)
    assert built.missing == (
        ("ks:docs/a.md", "src/gone.py"),
        ("ks:docs/a.md", "ui/gone.ts::x"),
        ("ks:docs/b.md", "tests/gone.py"),
    )


def test_they_are_not_looked_up_if_that_is_not_wanted(space):
    space.write({"knowledge.yaml": "validate_refs: false", "a.md": "`docs/gone.md`\n"})
    assert space.build().references == 0


def test_all_broken_references_are_counted_and_the_first_are_listed(space):
    space.write({"a.md": "\n".join(f"`docs/gone{n}.md`" for n in range(30))})
    built = space.build()
    assert (built.missing_references, len(built.missing)) == (30, MISSING_SHOWN)


def test_a_reference_that_no_file_can_have_leads_to_nothing(space):
    name = f"docs/{'a' * 280}.md"
    space.write({"docs/a.md": f"# A\n\n`{name}`\n"})
    assert space.build().missing == (("ks:docs/docs/a.md", name),)
