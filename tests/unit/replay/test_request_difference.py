"""The first difference between two requests."""

import pytest

from stepline.model.block import Body
from stepline.ports.model import Media, ModelRequest, Part
from stepline.replay.request_difference import first_difference, limits_of, texts_of


def request(*texts, system="Be kind.", marks=(), limit=100, files=()):
    content = tuple(Part(text=text, cache=at in marks) for at, text in enumerate(texts))
    return ModelRequest(role="r", system=(Part(text=system),), content=(*content, *files), max_tokens=limit)


def difference(old, new, roles=()):
    texts = tuple(texts_of(old, roles)), tuple(texts_of(new))
    return first_difference(*texts, (limits_of(old), limits_of(new)))


def media(path, digest):
    return Media(path=path, tokens=1, body=Body(key="k", sha256=digest, size_bytes=1, mime="image/png"))


OLD = request("one", "two", "three")
ROLES = ("system", "timeline", "timeline", "announce")


def test_equal_requests_have_no_difference():
    assert difference(OLD, request("one", "two", "three")) is None


@pytest.mark.parametrize(
    ("new", "part", "at"),
    [
        (request("one", "two", "three", system="Be kinder."), "system", 7),
        (request("one", "twice", "three"), "timeline 2", 2),
        (request("one", "two", "thrice"), "announce", 3),
        (request("one", "two"), "announce", 0),
        (request("one", "two", "three", "four"), "text 5", 0),
        (request("one", "two", "three", limit=9), "limits", 0),
        (request("one", "two", "three", marks=(1,)), "the mark after timeline 2", 0),
    ],
)
def test_the_part_of_the_first_difference_is_named(new, part, at):
    found = difference(OLD, new, ROLES)
    assert (found.part, found.at_char) == (part, at)


def test_a_file_differs_by_its_bytes():
    old, new = (request("one", files=(media("fi:a", digest),)) for digest in ("0", "1"))
    found = difference(old, new)
    assert (found.part, found.recorded) == ("file", "fi:a 0 image/png")


def test_the_sentence_has_both_texts_from_shortly_before_the_difference():
    old, new = request("word " * 40 + "old"), request("word " * 40 + "new")
    sentence = difference(old, new).sentence
    assert sentence.startswith("text at character 200: recorded 'word word")
    assert sentence.endswith("word new'")
