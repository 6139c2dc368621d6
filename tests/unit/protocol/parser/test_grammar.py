import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.protocol.parser.channel_parser import read_channels
from stepline.protocol.parser.grammar import NAME_CHARS_MAX, ChannelSpec


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "a.b", "x" * (NAME_CHARS_MAX + 1), "\u017f", "a\n", "größe"]
)
def test_a_name_that_no_tag_can_have_is_refused_as_name_and_as_alias(name: str) -> None:
    with pytest.raises(ValueError, match="a channel's name has 1 to 48 of the characters"):
        ChannelSpec(name)
    with pytest.raises(ValueError, match="a channel's name has 1 to 48 of the characters"):
        ChannelSpec("answer", aliases=(name,))


@given(name=st.text(alphabet="aZ09_-. \u017f\u00e9", max_size=NAME_CHARS_MAX + 2))
def test_every_accepted_channel_is_read_from_its_tags(name: str) -> None:
    try:
        spec = ChannelSpec(name)
    except ValueError:
        return
    assert read_channels(f"<channel:{name}>text</channel:{name}>", (spec,)).bodies(name) == ("text",)
