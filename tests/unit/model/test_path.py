from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stepline.errors import PathError
from stepline.model.ids import Lane
from stepline.model.path import (
    AttachmentPath,
    CallPath,
    CodePath,
    FilePath,
    ForeignPath,
    KnowledgePath,
    LogicalPath,
    PlanPath,
    SkillPath,
    SourcesPath,
    TurnPath,
    artifact_path,
    from_physical,
    name_foreign,
    out_key,
    parse_path,
    physical,
)

T = "turn_20261121T101500_ab12cd"
OTHER = "turn_20261120T080000_00ff00"
LANE = Lane(tenant="acme", project="support", conversation="c-1")

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/reference/paths.md").read_text()
CODES = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))

EXAMPLES: list[tuple[str, LogicalPath]] = [
    (f"fi:{T}.files/app/main.py", FilePath(turn=T, space="files", rel="app/main.py")),
    (f"fi:{T}.outputs/site/files/x.html", FilePath(turn=T, space="outputs", rel="site/files/x.html")),
    (f"fi:{T}.outputs/my.files/x", FilePath(turn=T, space="outputs", rel="my.files/x")),
    (f"fi:{T}.files/Über uns (2).md", FilePath(turn=T, space="files", rel="Über uns (2).md")),
    (f"fi:{T}.user.attachments/a b.pdf", AttachmentPath(turn=T, name="a b.pdf")),
    (
        f"fi:{T}.external.form.attachments/m1/scan.png",
        AttachmentPath(turn=T, name="scan.png", kind="form", message_id="m1"),
    ),
    (f"fi:{T}.code.tc_0123456789ab", CodePath(turn=T, call="tc_0123456789ab")),
    (f"ar:{T}.user.prompt", TurnPath(family="ar", turn=T, name="user.prompt")),
    (f"ar:{T}.user.prompt.m0k3", TurnPath(family="ar", turn=T, name="user.prompt.m0k3")),
    (f"ar:{T}.assistant.completion", TurnPath(family="ar", turn=T, name="assistant.completion")),
    (f"ar:{T}.assistant.completion.2", TurnPath(family="ar", turn=T, name="assistant.completion.2")),
    (
        f"ar:{T}.assistant.completion.attempt.1.outcome",
        TurnPath(family="ar", turn=T, name="assistant.completion.attempt.1.outcome"),
    ),
    (f"ar:{T}.external.followup.m7", TurnPath(family="ar", turn=T, name="external.followup.m7")),
    (f"ar:{T}.react.thinking.0", TurnPath(family="ar", turn=T, name="react.thinking.0")),
    (f"ar:{T}.react.plan.ack.3", TurnPath(family="ar", turn=T, name="react.plan.ack.3")),
    (
        f"ar:{T}.react.plan.plan:{T}:0a1b2c3d.carry",
        TurnPath(family="ar", turn=T, name=f"react.plan.plan:{T}:0a1b2c3d.carry"),
    ),
    (f"ar:{T}.react.turn.index", TurnPath(family="ar", turn=T, name="react.turn.index")),
    (f"ar:plan.latest:plan:{T}:0a1b2c3d", PlanPath(plan=f"plan:{T}:0a1b2c3d")),
    ("ar:plan.latest:plan_alpha", PlanPath(plan="plan_alpha")),
    (f"tc:{T}.tc_0123456789ab.result", CallPath(turn=T, call="tc_0123456789ab", part="result")),
    (f"tc:{T}.tc_0123456789ab.notice", CallPath(turn=T, call="tc_0123456789ab", part="notice")),
    (f"tc:{T}.tc_0123456789ab.notice.2", CallPath(turn=T, call="tc_0123456789ab", part="notice.2")),
    (f"tc:{T}.tc_0123456789ab.view.12", CallPath(turn=T, call="tc_0123456789ab", part="view.12")),
    ("so:sources_pool", SourcesPath()),
    ("so:sources_pool[1,3-5]", SourcesPath(ranges=((1, 1), (3, 5)))),
    (f"su:{T}.conv.range.summary", TurnPath(family="su", turn=T, name="conv.range.summary")),
    (f"ws:{T}.conv.working.summary", TurnPath(family="ws", turn=T, name="conv.working.summary")),
    (
        f"ws:{T}.conv.working.summary.attempt.2",
        TurnPath(family="ws", turn=T, name="conv.working.summary.attempt.2"),
    ),
    ("sk:public.pdf-press", SkillPath(skill="public.pdf-press")),
    ("sk:SK3", SkillPath(skill="SK3")),
    ("sk:public.3d-print", SkillPath(skill="public.3d-print")),
    ("sk:public.pdf-press/references/a b.md", SkillPath(skill="public.pdf-press", rel="references/a b.md")),
    ("sk:SK3/scripts/x.py", SkillPath(skill="SK3", rel="scripts/x.py")),
    ("sk:hidden-guidance-0123456789", SkillPath(skill="hidden-guidance-0123456789")),
    ("ks:docs/architecture.md", KnowledgePath(rel="docs/architecture.md")),
    (
        f"fi:conv_c-2.{T}.files/a.conv_x/b.md",
        ForeignPath(conversation="c-2", path=FilePath(turn=T, space="files", rel="a.conv_x/b.md")),
    ),
    (
        f"ar:conv_{T}.{OTHER}.user.prompt",
        ForeignPath(conversation=T, path=TurnPath(family="ar", turn=OTHER, name="user.prompt")),
    ),
    ("ar:conv_c2.plan.latest:p1", ForeignPath(conversation="c2", path=PlanPath(plan="p1"))),
    (
        f"ws:conv_c2.{T}.conv.working.summary",
        ForeignPath(conversation="c2", path=TurnPath(family="ws", turn=T, name="conv.working.summary")),
    ),
    ("ks:conv_c2.md", KnowledgePath(rel="conv_c2.md")),
]


@pytest.mark.parametrize(("text", "path"), EXAMPLES, ids=[text for text, _ in EXAMPLES])
def test_every_family_is_read_and_printed_alike(text: str, path: LogicalPath) -> None:
    assert parse_path(text) == path
    assert str(path) == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (f"conv:fi:{T}.files/a.md", f"fi:{T}.files/a.md"),
        ("sources_pool[2]", "so:sources_pool[2]"),
        ("so:sources_pool[5-3, 1]", "so:sources_pool[3-5,1]"),
        ("sk:pdf-press", "sk:public.pdf-press"),
        ("sk:7", "sk:SK7"),
        ("sk:7/a.md", "sk:SK7/a.md"),
        ("sk:pdf-press/SK3", "sk:public.pdf-press/SK3"),
        (f"fi:{T}.files/U\u0308ber.md", f"fi:{T}.files/\u00dcber.md"),
    ],
)
def test_another_spelling_is_read_but_never_printed(text: str, canonical: str) -> None:
    assert str(parse_path(text)) == canonical


HOSTILE = [
    ("", "path_empty"),
    (f"fi:{T}.files/../../../../../secret.json", "path_dot_segment"),
    (f"fi:{T}.files/a/./b", "path_dot_segment"),
    (f"fi:{T}.files/a/.../b", "path_dot_segment"),
    (f"fi:{T}.files/..", "path_dot_segment"),
    (f"fi:{T}.files//etc/passwd", "path_absolute"),
    ("/etc/passwd", "path_absolute"),
    (f"fi:{T}.files/a//b", "path_empty_segment"),
    (f"fi:{T}.files/a/", "path_empty_segment"),
    (f"fi:{T}.files/", "path_bad_form"),
    (f"fi:{T}.files", "path_bad_form"),
    (f"fi:{T}.files/a\\..\\b", "path_backslash"),
    (f"fi:{T}.files/C:/boot.ini", "path_drive"),
    (f"fi:{T}.files/a\0.md", "path_control_character"),
    (f"fi:{T}.files/a\n.md", "path_control_character"),
    (f"fi:{T}.files/a\u2028.md", "path_control_character"),
    (f"fi:{T}.files/gpj.\u202eexe", "path_control_character"),
    (f"fi:{T}.files/a\u200b.md", "path_control_character"),
    (f"fi:{T}.files/a\u200d.md", "path_control_character"),
    (f"fi:{T}.files/\ufeffa.md", "path_control_character"),
    (f"fi:{T}.files/a\U000e0041.md", "path_control_character"),
    (f"fi:{T}.files/\ud800", "path_control_character"),
    (f"fi:{T}.files/ a.md", "path_blank_edge"),
    (f"fi:{T}.files/.. /a.md", "path_blank_edge"),
    (f"fi:{T}.files/con", "path_reserved_name"),
    (f"fi:{T}.outputs/a/NUL.tar.gz", "path_reserved_name"),
    (f"fi:{T}.outputs/Com1 .txt", "path_reserved_name"),
    (f"fi:{T}.outputs/lpt².txt", "path_reserved_name"),
    (f"fi:{T}.user.attachments/CONOUT$", "path_reserved_name"),
    (f"fi:{T}.files/trail.", "path_dot_edge"),
    (f"fi:{T}.files/trail./a.md", "path_dot_edge"),
    (f"fi:{T}.files/trail ", "path_blank_edge"),
    (f"fi:{T}.files/report.md:hidden", "path_reserved_character"),
    *((f"fi:{T}.files/ab{character}.md", "path_reserved_character") for character in '<>:"|?*'),
    ("ks:docs/aux.md", "path_reserved_name"),
    (f"fi:{T}.files/{'a' * 256}", "path_too_long"),
    (f"fi:{T}.files/{'é' * 128}", "path_too_long"),
    (f"fi:{T}.files/{'/'.join(['abcdefghi'] * 91)}", "path_too_long"),
    (f"fi:{T}.files/{'a' * 3000}", "path_too_long"),
    ("fi:turn_1/outputs/site.files/x.html", "path_bad_form"),
    ("fi:turn_1/../turn_2.files/x", "path_bad_form"),
    ("fi:timeline.json", "path_bad_form"),
    ("fi:logs/agent.log", "path_bad_form"),
    (f"fi:{T}.secrets/x", "path_bad_form"),
    (f"fi:{T}.user.attachments/../x", "path_bad_form"),
    (f"fi:{T}.user.attachments/..", "path_dot_segment"),
    (f"fi:{T}.external.form.attachments/m1/a/b", "path_bad_form"),
    (f"fi:{T}.external...attachments/m1/a", "path_bad_form"),
    ("fi:notaturn.files/x", "path_bad_form"),
    (f"fi:{T}.code.", "path_bad_form"),
    (f"tc:{T}.tc_1.secret", "path_bad_form"),
    (f"tc:{T}.tc_1/../x.result", "path_bad_form"),
    (f"tc:{T}.tc_1.view.007", "path_bad_form"),
    (f"tc:{T}.tc_1.notice.01", "path_bad_form"),
    (f"ar:{T}.artifacts.list", "path_bad_form"),
    (f"ar:{T}.user.prompt/../../x", "path_bad_form"),
    ("ar:plan.latest:", "path_bad_form"),
    (f"su:{T}.conv.range.summary.two", "path_bad_form"),
    (f"ws:{T}.conv.working", "path_bad_form"),
    ("so:sources_pool[]", "path_bad_form"),
    ("so:sources_pool[0]", "path_bad_form"),
    ("so:sources_pool[1 2]", "path_bad_form"),
    ("so:sources_pool[1-3000000000]", "path_bad_form"),
    (f"so:sources_pool[{','.join(['1'] * 201)}]", "path_too_long"),
    ("so:other", "path_bad_form"),
    ("sk:", "path_bad_form"),
    ("sk:a/../b", "path_dot_segment"),
    ("sk:a//b", "path_absolute"),
    ("sk:a/b//c", "path_empty_segment"),
    ("sk:a/C:/boot.ini", "path_drive"),
    ("sk:a/", "path_bad_form"),
    ("sk:/a", "path_bad_form"),
    ("sk:a.b.c", "path_bad_form"),
    ("ks:../secret", "path_dot_segment"),
    ("ks:", "path_empty_segment"),
    (f"{T}/files/a.md", "path_unknown_family"),
    ("files/a.md", "path_unknown_family"),
    ("http://169.254.169.254/latest", "path_unknown_family"),
    ("FI:x", "path_unknown_family"),
    ("conv:conv:fi:x", "path_unknown_family"),
    (f"fi:conv_c2.{T}.files/../x", "path_dot_segment"),
    (f"fi:conv_.{T}.files/x", "path_bad_form"),
    (f"fi:conv_c2/{T}.files/x", "path_bad_form"),
    (f"fi:conv_c.2.{T}.files/x", "path_bad_form"),
    (f"fi:conv_{'c' * 65}.{T}.files/x", "path_bad_form"),
    (f"ar:conv_c2.conv_c3.{T}.user.prompt", "path_bad_form"),
    ("ar:conv_c2.x", "path_bad_form"),
    ("so:conv_c2.sources_pool[1]", "path_bad_form"),
]


@pytest.mark.parametrize(("text", "code"), HOSTILE)
def test_a_text_outside_the_path_grammar_is_refused(text: str, code: str) -> None:
    with pytest.raises(PathError) as refused:
        parse_path(text)
    assert refused.value.reason == code


@pytest.mark.parametrize(
    "name", ["console.log", "com0", "com10.txt", "nul-1.txt", "auxiliary/x", "a.b.c", ".env", "~x$"]
)
def test_a_name_that_only_looks_like_a_reserved_one_is_read(name: str) -> None:
    assert str(parse_path(f"fi:{T}.files/{name}")) == f"fi:{T}.files/{name}"


def test_a_refusal_never_repeats_a_long_text() -> None:
    with pytest.raises(PathError) as refused:
        parse_path("x" * 100_000)
    assert len(str(refused.value)) < 300


turns = st.from_regex(r"turn_[A-Za-z0-9_-]{1,64}", fullmatch=True)
words = st.from_regex(r"[A-Za-z0-9_-]{1,20}", fullmatch=True)
# Mostly what a traversal is made of, with a few harmless letters to make it look like a path.
nasty = st.lists(
    st.sampled_from(
        [
            "..",
            ".",
            "/",
            "//",
            "\\",
            "files",
            "outputs",
            "attachments",
            "a",
            "é",
            "e\u0301",
            " ",
            ":",
            "\0",
            T,
            "%2e",
        ]
    ),
    max_size=12,
).map("".join)
rels = st.one_of(nasty, st.text(max_size=30))


def accepted(text: str) -> LogicalPath | None:
    try:
        return parse_path(text)
    except PathError:
        return None


@given(turns, st.sampled_from(["files/", "outputs/", "user.attachments/", "external.a.attachments/m/"]), rels)
def test_printing_and_reading_a_path_again_changes_nothing(turn: str, space: str, rel: str) -> None:
    path = accepted(f"fi:{turn}.{space}{rel}")
    if path is not None:
        assert parse_path(str(path)) == path


@given(turns, st.sampled_from(["files/", "outputs/", "user.attachments/", "external.a.attachments/m/"]), rels)
@example(T, "files/", "a/b.csv")
@example(T, "outputs/", "a.csv")
@example(T, "user.attachments/", "a.csv")
@example(T, "external.a.attachments/m/", "a.csv")
def test_logical_and_physical_paths_of_a_file_are_converted_both_ways(
    turn: str, space: str, rel: str
) -> None:
    path = accepted(f"fi:{turn}.{space}{rel}")
    if path is not None:
        place = physical(path)
        assert place is not None
        assert from_physical(place) == path


conversations = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", fullmatch=True)
logged = st.one_of(
    *(st.builds(f"{form}".format, turns, words) for form in ("tc:{}.{}.result", "ar:{}.user.prompt.{}")),
    st.builds("fi:{}.files/{}".format, turns, rels),
)


@given(conversations, logged)
def test_a_path_of_another_conversation_is_the_path_and_its_name(conversation: str, text: str) -> None:
    path = accepted(text)
    if path is not None:
        named = name_foreign(text, conversation)
        assert parse_path(named) == ForeignPath(conversation=conversation, path=path)
        assert physical(parse_path(named)) is None
        with pytest.raises(PathError):
            artifact_path(T, named)


ROOTS = ("files", "outputs", "attachments", "external")


def stays_below_its_root(place: str) -> bool:
    joined = posixpath.normpath(posixpath.join("/root", place))
    turn, namespace = place.split("/")[:2]
    return (
        namespace in ROOTS and joined.startswith(f"/root/{turn}/{namespace}/") and joined == f"/root/{place}"
    )


@given(
    st.one_of(
        rels, st.builds("fi:{}.files/{}".format, turns, rels), st.builds("fi:{}.{}".format, turns, rels)
    )
)
def test_no_accepted_path_leaves_the_namespace_of_its_turn(text: str) -> None:
    path = accepted(text)
    place = physical(path) if path is not None else None
    assert place is None or stays_below_its_root(place)


@given(st.one_of(rels, st.builds("{}/files/{}".format, turns, rels), st.builds("files/{}".format, rels)))
def test_no_path_to_write_leaves_the_namespace_of_the_turn(raw: str) -> None:
    try:
        path = artifact_path(T, raw)
    except PathError:
        return
    place = physical(path)
    assert place is not None
    assert place.startswith((f"{T}/files/", f"{T}/outputs/"))
    assert stays_below_its_root(place)


def refusal(read: Callable[[str], object], text: str) -> str | None:
    try:
        read(text)
    except PathError as refused:
        return refused.reason
    return None


@given(st.text(max_size=60), st.sampled_from([parse_path, from_physical]))
def test_any_text_is_read_or_refused_with_a_code(text: str, read: Callable[[str], object]) -> None:
    code = refusal(read, text)
    assert code is None or code in CODES


@pytest.mark.parametrize(
    "text",
    [
        f"{T}/secrets/x",
        f"{T}/files/../../x",
        "x/files/a",
        f"{T}/files/a/../b",
        f"{T}/attachments/a/b",
        f"/{T}/files/a",
    ],
)
def test_a_physical_path_outside_the_namespaces_has_no_logical_path(text: str) -> None:
    with pytest.raises(PathError):
        from_physical(text)


@pytest.mark.parametrize(
    "text", [text for text, _ in EXAMPLES if not text.startswith("fi:") or ".code." in text]
)
def test_a_path_that_is_never_a_file_has_no_physical_path(text: str) -> None:
    assert physical(parse_path(text)) is None


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ("report.md", "outputs/report.md"),
        ("drafts/report.md", "outputs/drafts/report.md"),
        ("outputs/report.md", "outputs/report.md"),
        ("files/app/main.py", "files/app/main.py"),
        (f"fi:{T}.files/app/main.py", "files/app/main.py"),
        (f"conv:fi:{T}.files/app/main.py", "files/app/main.py"),
        (f"{T}/outputs/report.md", "outputs/report.md"),
    ],
)
def test_a_writer_may_name_a_file_of_its_turn_in_any_form(raw: str, path: str) -> None:
    assert str(artifact_path(T, raw)) == f"fi:{T}.{path}"


@pytest.mark.parametrize("raw", [f"fi:{OTHER}.files/a.md", f"{OTHER}/files/a.md"])
def test_a_write_to_another_turn_is_refused_with_the_path_to_use(raw: str) -> None:
    with pytest.raises(PathError) as refused:
        artifact_path(T, raw)
    assert refused.value.reason == "path_not_current_turn"
    assert refused.value.context["suggested_path"] == f"fi:{T}.files/a.md"


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (f"fi:{T}.user.attachments/a.png", "path_not_writable"),
        ("attachments/a.png", "path_not_writable"),
        (f"ar:{T}.user.prompt", "path_not_writable"),
        ("ks:docs/a.md", "path_not_writable"),
        ("files", "path_empty_segment"),
        ("../x", "path_dot_segment"),
        ("outputs/../files/x", "path_dot_segment"),
        ("/etc/passwd", "path_absolute"),
        ("", "path_empty"),
    ],
)
def test_a_writer_cannot_name_any_other_path(raw: str, code: str) -> None:
    with pytest.raises(PathError) as refused:
        artifact_path(T, raw)
    assert refused.value.reason == code


def test_an_artifact_key_is_built_from_names() -> None:
    assert out_key(LANE, T, "ab" * 32) == f"out/acme/support/c-1/{T}/{'ab' * 32}"


@pytest.mark.parametrize(
    ("lane", "turn", "sha256"),
    [
        (LANE, T, "../x"),
        (LANE, "turn_1/../../x", "ab" * 32),
        (Lane(tenant="..", project="p", conversation="c"), T, "ab" * 32),
    ],
)
def test_an_artifact_key_is_never_built_from_invalid_names(lane: Lane, turn: str, sha256: str) -> None:
    with pytest.raises(PathError) as refused:
        out_key(lane, turn, sha256)
    assert refused.value.reason == "invalid_key"


def test_the_page_of_paths_names_every_code() -> None:
    modules = [ROOT / "layers/runtime/python/stepline/model" / name for name in ("path.py", "traversal.py")]
    raised = re.findall(r'"((?:path_|invalid_key)\w*)"', "".join(module.read_text() for module in modules))
    assert set(raised) == CODES


def test_every_path_the_page_shows_is_one() -> None:
    shown = re.findall(r"^(?:conv:)?(?:ar|tc|fi|so|su|ws|sk|ks):\S+", PAGE, re.MULTILINE)
    assert len(shown) > 20
    assert [str(parse_path(text)) for text in shown] == shown
