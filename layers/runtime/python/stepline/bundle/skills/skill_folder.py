"""Skills in folders, by the published convention: `SKILL.md` with a front matter, and files that are read on demand.

    <root>/<id>/SKILL.md                 public.<id>
    <root>/<namespace>/<id>/SKILL.md     <namespace>.<id>
                           tools.yaml    tools: [{id, role, why, required}], or `required_tools` in the front matter
                           sources.yaml  sources: [{sid, url, title, text}], or the list alone
                           references/…  further files, at sk:<namespace>.<id>/<rel>

A folder made for another product is accepted: unknown keys and files are ignored.
Links and names that begin with a dot are not followed. Source: agentskills.io, "Specification".
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from string import ascii_letters, digits
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stepline.bundle.skills.skill import Skill, check_skills, full_id
from stepline.errors import InputError, PathError
from stepline.model.source import Source, SourceType
from stepline.model.traversal import check_relative, clean_text
from stepline.timeline.sources_pool import is_eligible

BUILT_IN: Final = Path(__file__).with_name("built_in")
"""The skills of every agent that has their tools."""
DEFINITIONS: Final = ("SKILL.md", "skill.yaml", "skill.yml")
TOOLS, SOURCES = "tools.yaml", "sources.yaml"
PUBLIC: Final = "public"
TEXT_MAX_BYTES: Final = 256 * 1024
FILES_MAX: Final = 500
_FENCE: Final = "---"
_KEY: Final = frozenset(f"{ascii_letters}_")
_WORDS: Final = frozenset(f"{ascii_letters}{digits} .,;()/_-")
_VALUES: Final = frozenset({"yes", "no", "on", "off", "true", "false", "null", ""})
"""Words that are not texts in YAML."""
_MARKS: Final = "\"'[]{}|>&*!%@`#,?-"
"""Characters that begin something other than a plain value in YAML."""


@cache
def load_folder(root: Path, *, at: str = "") -> tuple[Skill, ...]:
    """Return the skills below a root, by path. `at` is the root below BUNDLE_ROOT, "" for one that is elsewhere.

    Raises InputError `skill_invalid` with the folder that is not a skill.
    """
    skills = tuple(
        sorted((_read(folder, namespace, root, at) for folder, namespace in _find(root)), key=_path_of)
    )
    check_skills(skills)
    return skills


def list_skill_files(folder: str) -> list[str]:
    """Return the files of a skill's folder by their paths in it, in order, without those of its definition.

    Nothing else is ever read from it: no link, no hidden file, and no name that is invalid in a path.
    """
    found: list[str] = []
    for top, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if _is_open(name))
        for name in sorted(filter(_is_open, names)):
            path = Path(top, name)
            rel = path.relative_to(folder).as_posix()
            if (
                path.is_file()
                and not path.is_symlink()
                and rel not in (*DEFINITIONS, TOOLS, SOURCES)
                and _is_path(rel)
            ):
                found.append(rel)
    return found[:FILES_MAX]


def _find(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield the folders of skills, each with its namespace."""
    for folder in _folders(root):
        if _definition(folder):
            yield folder, PUBLIC
        else:
            yield from ((inner, folder.name) for inner in _folders(folder) if _definition(inner))


def _folders(root: Path) -> list[Path]:
    return sorted(
        path for path in root.iterdir() if _is_open(path.name) and path.is_dir() and not path.is_symlink()
    )


def _is_open(name: str) -> bool:
    return not name.startswith((".", "__"))


def _is_path(rel: str) -> bool:
    try:
        return check_relative(clean_text(rel)) == rel
    except PathError:
        return False


def _definition(folder: Path) -> Path | None:
    paths = (folder / name for name in DEFINITIONS)
    return next((path for path in paths if path.is_file() and not path.is_symlink()), None)


def _path_of(skill: Skill) -> str:
    return skill.path


def _read(folder: Path, namespace: str, root: Path, at: str) -> Skill:
    """Return the skill of a folder. Raises InputError `skill_invalid`."""
    path = _definition(folder)
    assert path is not None
    where = f"{folder.parent.name}/{folder.name}"
    text = _text(path, where)
    fields, body = _split(text, where) if path.suffix == ".md" else (_yaml(text, where), "")
    body = body or _instruction(fields, folder, where)
    name = _word(fields, "name") or folder.name
    skill = Skill(
        id=_id(fields, folder.name, _word(fields, "namespace") or namespace, where),
        title=name,
        text=body.strip(),
        description=_description(fields) or _first_line(body),
        imports=tuple(full_id(one) for one in _words(fields, "import", "imports", where=where)),
        requires=_requires(folder, fields, where),
        sources=_sources(folder, where),
        hidden=_word(fields, "agent_disclosure") == "hidden",
        folder=str(folder),
        at=f"{at}/{folder.relative_to(root).as_posix()}" if at else "",
    )
    if not skill.text:
        raise _invalid(where, "it has no instructions")
    return skill


def _id(fields: Mapping[str, Any], folder: str, namespace: str, where: str) -> str:
    """Return the first id that a path can have: the given one, the name, or that of the folder."""
    for name in filter(None, (_word(fields, "id"), _word(fields, "name"), folder)):
        try:
            return full_id(f"{namespace}.{name}")
        except InputError:
            continue
    raise _invalid(where, f"no path can name {namespace}.{folder}")


def _split(text: str, where: str) -> tuple[Mapping[str, Any], str]:
    """Return the front matter and the body; a text without a front matter is all body."""
    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        return {}, text
    end = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), 0)
    if not end:
        raise _invalid(where, f"no line {_FENCE} ends its front matter")
    return _yaml("\n".join(lines[1:end]), where), "\n".join(lines[end + 1 :])


def _yaml(text: str, where: str, *, bare: str = "") -> Mapping[str, Any]:
    """Return a mapping; with `bare`, a list is the value of that key.

    A plain value that contains a colon, which other products write and YAML forbids, is a text.
    """
    if (plain := parse_plain(text)) is not None:
        return plain
    from stepline.bundle.document import parse_document  # noqa: PLC0415 - 13 ms of CPU, which most skills do not need

    try:
        return parse_document(where, text, bare=bare)
    except InputError:  # once more, with its plain values in quotes
        quoted = "\n".join(map(_quoted, text.split("\n")))
    try:
        return parse_document(where, quoted, bare=bare)
    except InputError as error:
        raise _invalid(where, str(error).removeprefix(f"{where}").lstrip(": ")) from None


def parse_plain(text: str) -> dict[str, str] | None:
    """Return the mapping of a YAML text whose lines are keys with plain words; None for any other text.

    No word has a character with a meaning in YAML, so a parser of YAML returns the same.
    """
    found: dict[str, str] = {}
    for line in text.split("\n"):
        key, colon, value = line.rstrip(" ").partition(": ")
        value = value.lstrip(" ")
        if not line:
            continue
        if not (colon and _KEY.issuperset(key) and value[:1].isalpha() and _WORDS.issuperset(value)):
            return None
        if key in found or {key.lower(), value.lower()} & _VALUES:
            return None
        found[key] = value
    return found


def _quoted(line: str) -> str:
    key, colon, value = line.partition(": ")
    value = value.strip()
    if not colon or not key[:1].isalpha() or not value or value[0] in _MARKS:
        return line
    return f"{key}: {msgspec.json.encode(value).decode()}"


def _text(path: Path, where: str) -> str:
    """Return a file's text with plain line breaks."""
    if path.stat().st_size > TEXT_MAX_BYTES:
        raise _invalid(where, f"{path.name} has more than {TEXT_MAX_BYTES} bytes")
    try:
        return path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise _invalid(where, f"{path.name} is no UTF-8 text") from None


def _instruction(fields: Mapping[str, Any], folder: Path, where: str) -> str:
    """Return the instructions of a `skill.yaml`: a text, or a file of the folder."""
    text, named = _word(fields, "instruction_text"), fields.get("instruction", "")
    if text or not named:
        return text
    named = named.get("full", "") if isinstance(named, Mapping) else named
    if named not in list_skill_files(str(folder)):
        raise _invalid(where, f"its instruction {str(named)[:80]!r} is no file of it")
    return _text(folder / named, where)


def _description(fields: Mapping[str, Any]) -> str:
    when_to_use = fields.get("when_to_use")
    when = when_to_use if isinstance(when_to_use, list) else [when_to_use] if when_to_use else []
    return " ".join([_word(fields, "description"), *(str(one) for one in when)]).strip()


def _first_line(body: str) -> str:
    lines = (line.lstrip("# ").strip() for line in body.split("\n"))
    return next(filter(None, lines), "")


def _requires(folder: Path, fields: Mapping[str, Any], where: str) -> tuple[str, ...]:
    rows = _rows(folder / TOOLS, "tools", where)
    if not rows and not (folder / DEFINITIONS[0]).is_file():  # in a SKILL.md the key is another product's
        rows = _mappings(fields.get("tools"), "tools", where)
    ids = [row["id"] for row in rows if row.get("required") is True and isinstance(row.get("id"), str)]
    return tuple(dict.fromkeys((*_word(fields, "required_tools").split(), *ids)))


def _sources(folder: Path, where: str) -> tuple[Source, ...]:
    """Return the sources that may be cited, each with a number: web pages, and manual rows, which have no address."""
    found = []
    for row in _rows(folder / SOURCES, "sources", where):
        title, url, text, content = (str(row.get(key) or "") for key in ("title", "url", "text", "content"))
        kind: SourceType = "web" if url else "manual"
        source = Source(title=title, url=url, text=text, content=content, source_type=kind)
        if isinstance(row.get("sid"), int) and row["sid"] > 0 and is_eligible(source):
            found.append(replace(source, sid=row["sid"]))
    return tuple(found)


def _rows(path: Path, key: str, where: str) -> list[Mapping[str, Any]]:
    if not path.is_file() or path.is_symlink():
        return []
    return _mappings(_yaml(_text(path, where), f"{where}/{path.name}", bare=key).get(key), key, where)


def _mappings(rows: Any, key: str, where: str) -> list[Mapping[str, Any]]:
    if rows is None:
        return []
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise _invalid(where, f"its {key} are not a list of mappings")
    return rows


def _word(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    return str(value).strip() if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def _words(fields: Mapping[str, Any], *keys: str, where: str) -> list[str]:
    """Return the texts of a list, or of one text, under the first key that exists."""
    value: Any = next((fields[key] for key in keys if fields.get(key)), [])
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise _invalid(where, f"its {keys[0]} is not a list of texts")
    return value


def _invalid(where: str, why: str) -> InputError:
    return InputError(f"the skill in {where}: {why}", code="skill_invalid")
