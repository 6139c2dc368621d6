import msgspec
import pytest

from stepline.bundle.generation.channel_result import plain_bodies, read_model, strip_fence
from stepline.protocol.parser.grammar import ChannelSpec


@pytest.mark.parametrize(
    ("body", "inner"),
    [
        ('```json {"a": 1} ```', '{"a": 1}'),
        ('\n```json\n{"a": 1}\n```\n', '{"a": 1}'),
        ("```json\n{}", "{}"),
        ("```\n{}\n```\nThat is all.", "{}"),
        ("````\n{}\n````", "{}"),
        ('{"a": "```"}', '{"a": "```"}'),
        ('```json\n{"a": "x ```"}\n```', '{"a": "x ```"}'),
        ('```json {"a": "```"}', '{"a": "```"}'),
        ("```html <p>x</p>\n```", "<p>x</p>"),
        ("```graph TD\nA-->B\n```", "graph TD\nA-->B"),
        ("```", ""),
        ("``` ```", ""),
        ("  plain  ", "plain"),
    ],
)
def test_a_fence_is_removed_and_text_on_its_lines_is_kept(body, inner):
    assert strip_fence(body) == inner


def test_bodies_of_prose_keep_their_fences_and_blanks():
    assert plain_bodies(["\n```py\nx\n```\n"], "markdown") == ["\n```py\nx\n```\n"]
    assert plain_bodies(["\n```xml\n<a/>\n```\n"], "xml") == ["<a/>"]


class Point(msgspec.Struct):
    x: int
    y: int = 0


def read(kind, model, *bodies):
    return read_model(ChannelSpec("c", kind, model=model), list(bodies))


def test_values_of_every_format_are_read_into_a_model():
    assert read("json", Point, 'Here: ```json {"x": 1} ```') == (Point(x=1), None)
    assert read("json", list[int], "[1, 2]") == ([1, 2], None)
    assert read("yaml", Point, "```yaml\nx: 1\ny: 2\n```") == (Point(x=1, y=2), None)
    assert read("text", int, " 42 ") == (42, None)


def test_a_channel_without_a_model_or_a_body_has_no_object():
    assert read("json", None, "{}") == (None, None)
    assert read("json", Point) == (None, None)


@pytest.mark.parametrize(
    ("kind", "body", "code"),
    [
        ("json", "nothing", "no_json_candidate"),
        ("json", "", "no_json_candidate"),
        ("json", '{"x": 1} {"x": 2}', "expected_single_json_candidate"),
        ("json", '{"x": ', "json_decode_error"),
        ("json", "[1, ", "json_decode_error"),
        ("json", "[" * 100_000, "json_decode_error"),
        ("json", '{"x": "one"}', "channel_validate_error"),
        ("yaml", "x: [1", "yaml_decode_error"),
        ("yaml", "- 1", "channel_validate_error"),
    ],
)
def test_an_unreadable_body_has_an_error_code(kind, body, code):
    value, error = read(kind, Point, body)
    assert value is None
    assert error.partition(":")[0] == code
    assert error.partition(":")[2]


def test_more_than_one_instance_is_not_read():
    assert read("json", Point, '{"x": 1}', '{"x": 2}') == (None, "multiple_channel_instances:2")
