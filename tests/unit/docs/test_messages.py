import json

import pytest

from docs.build.messages import EXAMPLES, FRAMES, MESSAGES, PATH, SAMPLES, action
from stepline.model.wire.client_message import parse_message
from stepline.model.wire.event import decode_frame, encode_frame
from tests.unit.docs.markdown import headings


def test_every_message_and_frame_has_a_heading():
    words = [action(message) for message in MESSAGES] + [frame.__struct_config__.tag for frame in FRAMES]
    assert [word for word in words if word not in headings(PATH)] == []


@pytest.mark.parametrize("word", EXAMPLES)
def test_every_example_is_a_message(word):
    assert action(type(parse_message(json.dumps(EXAMPLES[word])))) == word


@pytest.mark.parametrize("word", SAMPLES)
def test_every_sample_is_a_frame(word):
    assert decode_frame(encode_frame(SAMPLES[word])) == SAMPLES[word]
    assert type(SAMPLES[word]).__struct_config__.tag == word
