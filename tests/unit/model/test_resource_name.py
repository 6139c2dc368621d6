"""Resource names: every file has one, and nothing else is one."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from stepline.errors import InputError, PathError
from stepline.model.file.resource_name import ResourceName, parse_resource_name
from stepline.model.ids import SEGMENT, TURN, Lane
from stepline.model.path import AttachmentPath, FilePath, parse_path

LANE = Lane(tenant="acme", project="support", conversation="c-1")
NAME = "ef:acme:support:chatbot:file:ada:c-1:turn_1:artifact:outputs/a.md"

segments = st.from_regex(SEGMENT, fullmatch=True)
turns = st.from_regex(TURN, fullmatch=True)
lanes = st.builds(Lane, tenant=segments, project=segments, conversation=segments)
users = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=256)
words = st.from_regex(r"[A-Za-z0-9_-]{1,128}", fullmatch=True)
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60)
paths = st.one_of(
    st.builds(FilePath, turn=turns, space=st.sampled_from(["files", "outputs"]), rel=names),
    st.builds(AttachmentPath, turn=turns, name=names),
    st.builds(AttachmentPath, turn=turns, name=names, kind=words, message_id=words),
)


@given(lanes, users, paths)
def test_every_file_has_a_name_that_leads_back_to_it(
    lane: Lane, user: str, path: FilePath | AttachmentPath
) -> None:
    try:
        assume(parse_path(str(path)) == path)
    except PathError:
        assume(False)
    name = ResourceName(lane=lane, user=user, path=path)
    assert parse_resource_name(str(name)) == name
    assert str(name).count(":") == 9
    assert str(name).isascii()


@given(st.text(max_size=200))
@example(NAME)
@example("ef:a:b:chatbot:file:%zz:c:turn_1:artifact:outputs/a")
@example("ef:a:b:chatbot:file:%ff:c:turn_1:artifact:outputs/a")
def test_a_text_is_a_name_that_is_written_like_this_or_it_is_refused(text: str) -> None:
    try:
        name = parse_resource_name(text)
    except InputError:
        return
    assert str(name) == text


@pytest.mark.parametrize(
    ("path", "end"),
    [
        ("fi:turn_1.outputs/a b.md", "file:ada:c-1:turn_1:artifact:outputs/a%20b.md"),
        ("fi:turn_1.files/src/a.py", "file:ada:c-1:turn_1:artifact:files/src/a.py"),
        ("fi:turn_1.user.attachments/ä.pdf", "attachment:ada:c-1:turn_1:user:attachments/%C3%A4.pdf"),
        (
            "fi:turn_1.external.form.attachments/m1/a.pdf",
            "attachment:ada:c-1:turn_1:user:external/form/attachments/m1/a.pdf",
        ),
    ],
)
def test_the_stage_and_the_role_say_where_a_file_is_from(path: str, end: str) -> None:
    found = parse_path(path)
    assert isinstance(found, FilePath | AttachmentPath)
    assert str(ResourceName(lane=LANE, user="ada", path=found)) == f"ef:acme:support:chatbot:{end}"


def test_a_user_with_colons_is_one_part() -> None:
    path = FilePath(turn="turn_1", space="outputs", rel="a.md")
    name = ResourceName(lane=LANE, user="oidc|https://x:1/ada", path=path)
    assert "oidc%7Chttps%3A%2F%2Fx%3A1%2Fada" in str(name)
    assert parse_resource_name(str(name)).user == "oidc|https://x:1/ada"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ef:",
        NAME.removeprefix("ef:"),
        f"{NAME}\n",
        f" {NAME}",
        NAME.replace("chatbot", "other"),
        NAME.replace("file", "message"),
        NAME.replace("file", "execution"),
        NAME.replace("artifact", "user"),
        NAME.replace(":outputs/a.md", ""),
        NAME.replace("outputs/a.md", ""),
        NAME.replace("outputs/a.md", "outputs/../../a.md"),
        NAME.replace("outputs/a.md", "outputs/%2E%2E/a.md"),
        NAME.replace("outputs/a.md", "outputs%2Fa.md"),
        NAME.replace("outputs/a.md", "outputs//a.md"),
        NAME.replace("outputs/a.md", "/outputs/a.md"),
        NAME.replace("outputs/a.md", "turn_2/outputs/a.md"),
        NAME.replace("outputs/a.md", "attachments/a.md"),
        NAME.replace("outputs/a.md", "outputs/a%3a.md"),
        NAME.replace("outputs/a.md", "outputs/a:b.md"),
        NAME.replace("outputs/a.md", f"outputs/{quote(chr(0x202E))}a.md"),
        NAME.replace("outputs/a.md", "outputs/e%CC%81.md"),
        NAME.replace("outputs/a.md", "outputs/%FF.md"),
        NAME.replace("outputs/a.md", "outputs/%00.md"),
        NAME.replace("ada", "a%0Ada"),
        NAME.replace("ada", "%61da"),
        NAME.replace("ada", ""),
        NAME.replace("c-1", "../c"),
        NAME.replace("turn_1", "1"),
        NAME.replace("acme", "a/c"),
        NAME + "x" * 5_000,
    ],
)
def test_an_invalid_resource_name_is_refused_with_one_code(text: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_resource_name(text)
    assert refused.value.reason == "bad_rn"
