"""Pictures for a model: whole ones as they are, large ones smaller, hostile ones not at all."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from stepline.errors import ToolError
from stepline.tools.read.picture import EDGE_PX, PIXELS_MAX, fit_picture
from tests.support.files import FORMATS, GIF, JPEG, PNG, WEBP, bomb, film, noise, picture

MIB = 1024 * 1024


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def refused(data: bytes, mime: str, *, max_bytes: int = MIB) -> str:
    with pytest.raises(ToolError) as error:
        fit_picture(data, mime, max_bytes=max_bytes)
    return error.value.reason


@pytest.mark.parametrize("mime", [PNG, JPEG, WEBP])
def test_a_plain_picture_within_the_limits_is_sent_unchanged(mime: str) -> None:
    data = picture(mime)
    fitted = fit_picture(data, mime, max_bytes=MIB)
    assert (fitted.data, fitted.mime, fitted.width, fitted.height) == (data, mime, 64, 48)
    assert fitted.tokens == 3 * 2


@pytest.mark.parametrize("mime", FORMATS)
def test_a_picture_with_a_long_edge_is_scaled_down_and_keeps_its_shape(mime: str) -> None:
    fitted = fit_picture(picture(mime, (4_000, 1_000)), mime, max_bytes=MIB)
    assert (fitted.width, fitted.height, fitted.original) == (EDGE_PX, EDGE_PX // 4, (4_000, 1_000))
    assert opened(fitted.data).size == (fitted.width, fitted.height)
    assert (fitted.mime, opened(fitted.data).format) == (WEBP, "WEBP")


@pytest.mark.parametrize("mime", [PNG, JPEG])
def test_a_picture_of_too_many_bytes_is_scaled_down_until_it_fits(mime: str) -> None:
    data = noise(mime, (1_200, 900))
    fitted = fit_picture(data, mime, max_bytes=60_000)
    assert len(fitted.data) <= 60_000 < len(data)
    assert fitted.width < 1_200


def test_a_transparent_picture_stays_transparent() -> None:
    data = picture(PNG, (2_000, 20), mode="RGBA", color=(9, 9, 9, 90))
    assert opened(fit_picture(data, PNG, max_bytes=MIB).data).mode == "RGBA"


@pytest.mark.parametrize("mode", ["P", "L", "I;16", "1"])
def test_a_picture_in_any_colours_can_be_scaled_down(mode: str) -> None:
    out = io.BytesIO()
    Image.new(mode, (3_000, 30)).save(out, "PNG")
    assert fit_picture(out.getvalue(), PNG, max_bytes=MIB).width == EDGE_PX


def test_a_sideways_picture_is_turned_before_its_metadata_is_dropped() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    fitted = fit_picture(picture(JPEG, (3_000, 1_500), exif=exif), JPEG, max_bytes=MIB)
    assert (fitted.width, fitted.height) == (EDGE_PX // 2, EDGE_PX)


@pytest.mark.parametrize("mime", [GIF, WEBP, PNG])
def test_the_first_frame_of_an_animation_is_sent(mime: str) -> None:
    fitted = fit_picture(film(mime), mime, max_bytes=MIB)
    assert fitted.animated
    assert not getattr(opened(fitted.data), "is_animated", False)


@pytest.mark.parametrize(("width", "height"), [(40_000, 40_000), (10_000, 9_000), (PIXELS_MAX + 1, 1)])
def test_a_picture_of_too_many_pixels_is_refused_before_it_is_decoded(width: int, height: int) -> None:
    assert refused(bomb(width, height), PNG) == "image_too_large"


@pytest.mark.parametrize("mime", FORMATS)
def test_a_picture_that_breaks_off_is_refused(mime: str) -> None:
    data = noise(mime, (64, 64))
    assert refused(data[: len(data) // 2], mime) == "image_unreadable"


@pytest.mark.parametrize(("made", "said"), [(PNG, JPEG), (GIF, PNG), (JPEG, WEBP), (WEBP, GIF)])
def test_a_picture_of_another_type_is_refused(made: str, said: str) -> None:
    assert refused(picture(made), said) == "image_unreadable"


@given(st.sampled_from(sorted(FORMATS)), st.binary(max_size=200), st.integers(0, 60))
def test_damaged_bytes_are_a_picture_or_an_error_with_a_code(mime: str, junk: bytes, at: int) -> None:
    data = picture(mime, (8, 8))
    spoilt = data[:at] + junk + data[at + len(junk) :]
    code = ""
    try:
        fit_picture(spoilt, mime, max_bytes=MIB)
    except ToolError as error:
        code = error.reason
    assert code in ("", "image_unreadable", "image_too_large")


def test_a_picture_that_cannot_be_small_enough_is_refused() -> None:
    assert refused(noise(PNG, (400, 400)), PNG, max_bytes=100) == "image_too_large"
