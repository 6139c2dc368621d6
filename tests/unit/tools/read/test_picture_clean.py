"""What a model is sent of a picture: the pixels that a viewer shows, upright and in sRGB, and nothing else of the file."""

from __future__ import annotations

import io

import pytest
from PIL import Image, ImageCms, PngImagePlugin

from stepline.tools.read.picture import fit_picture
from tests.support.files import FORMATS, GIF, JPEG, PNG, WEBP

MIB = 1024 * 1024


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


RED, GREEN = (255, 0, 0), (0, 160, 0)
SIZES = {"small": (120, 80), "large": (2_400, 1_600)}
PLACE = {1: "N", 2: (48.0, 8.0, 0.0), 3: "E", 4: (11.0, 34.0, 0.0)}


def saved(image: Image.Image, mime: str, **how: object) -> bytes:
    out = io.BytesIO()
    image.save(out, FORMATS[mime], **how)
    return out.getvalue()


def halves(size: tuple[int, int], mode: str = "RGB") -> Image.Image:
    """Return a picture whose left half is red and whose right half is green."""
    image = Image.new("RGB", size, GREEN)
    image.paste(RED, (0, 0, size[0] // 2, size[1]))
    return image.convert(mode, dither=Image.Dither.NONE)


def facts(orientation: int = 1) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112], exif[0x010F], exif[0x9286] = orientation, "SecretCamera", b"ASCII\0\0\0secret words"
    exif.get_ifd(0x8825).update(PLACE)
    return exif


def colour(image: Image.Image, x: float, y: float) -> tuple[int, ...]:
    shown = image.convert("RGB")
    return shown.getpixel((int(x * (shown.width - 1)), int(y * (shown.height - 1))))


def near(found: tuple[int, ...], wanted: tuple[int, ...], by: int = 40) -> bool:
    return all(abs(a - b) <= by for a, b in zip(found, wanted, strict=True))


def check_clean(data: bytes) -> Image.Image:
    image = opened(data)
    image.load()
    assert image.mode in ("RGB", "RGBA")
    assert not set(image.info) & {"exif", "xmp", "icc_profile", "comment", "photoshop", "XML:com.adobe.xmp"}
    assert not any(word in data for word in (b"secret", b"SecretCamera", b"http://ns.adobe.com"))
    return image


RED_AT = {
    1: (0.1, 0.5),
    2: (0.9, 0.5),
    3: (0.9, 0.5),
    4: (0.1, 0.5),
    5: (0.5, 0.1),
    6: (0.5, 0.1),
    7: (0.5, 0.9),
    8: (0.5, 0.9),
}


@pytest.mark.parametrize(
    ("mime", "size"),
    [(JPEG, SIZES["small"]), (JPEG, SIZES["large"]), (PNG, SIZES["small"]), (WEBP, SIZES["small"])],
)
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_picture_is_upright_and_loses_its_location(
    mime: str, orientation: int, size: tuple[int, int]
) -> None:
    data = saved(halves(size), mime, exif=facts(orientation), quality=95)
    fitted = fit_picture(data, mime, max_bytes=MIB)
    image = check_clean(fitted.data)
    assert (image.width > image.height) == (orientation < 5)
    assert image.size == (fitted.width, fitted.height)
    assert fitted.original == (size if orientation < 5 else size[::-1])
    x, y = RED_AT[orientation]
    assert near(colour(image, x, y), RED)
    assert near(colour(image, 1 - x, 1 - y), GREEN)


SAYING = {
    "a comment of a JPEG": (JPEG, {"comment": b"secret words"}),
    "XMP of a JPEG": (JPEG, {"xmp": b"<x:xmpmeta xmlns:x='http://ns.adobe.com/x'>secret</x:xmpmeta>"}),
    "XMP of a WebP": (WEBP, {"xmp": b"<x:xmpmeta xmlns:x='http://ns.adobe.com/x'>secret</x:xmpmeta>"}),
    "a comment of a GIF": (GIF, {"comment": b"secret words"}),
    "EXIF that is broken": (JPEG, {"exif": b"Exif\0\0secretsecret"}),
    "EXIF of a PNG": (PNG, {"exif": facts()}),
}


@pytest.mark.parametrize(("mime", "how"), SAYING.values(), ids=SAYING)
def test_a_file_keeps_only_its_pixels(mime: str, how: dict[str, object]) -> None:
    fitted = fit_picture(saved(halves((120, 80)), mime, **how), mime, max_bytes=MIB)
    image = check_clean(fitted.data)
    assert near(colour(image, 0.1, 0.5), RED)
    assert (image.size, fitted.scaled) == ((120, 80), False)


def test_text_of_a_png_and_bytes_after_a_jpeg_are_removed() -> None:
    words = PngImagePlugin.PngInfo()
    words.add_text("Comment", "secret words")
    words.add_itxt("XML:com.adobe.xmp", "<x:xmpmeta>secret</x:xmpmeta>", zip=False)
    for data, mime in (
        (saved(halves((120, 80)), PNG, pnginfo=words), PNG),
        (saved(halves((120, 80)), JPEG) + saved(halves((8, 8)), JPEG, exif=facts()), JPEG),
    ):
        check_clean(fit_picture(data, mime, max_bytes=MIB).data)


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize(
    ("mime", "mode"),
    [(JPEG, "CMYK"), (JPEG, "L"), (PNG, "P"), (PNG, "L"), (PNG, "1"), (PNG, "LA"), (GIF, "P")],
)
def test_every_colour_mode_is_converted_to_rgb(mime: str, mode: str, size: tuple[int, int]) -> None:
    fitted = fit_picture(saved(halves(size, mode), mime), mime, max_bytes=MIB)
    image = opened(fitted.data)
    wanted = halves((120, 80), mode).convert("RGB")
    if fitted.data[:4] == b"RIFF":
        check_clean(fitted.data)
    assert near(colour(image, 0.02, 0.5), colour(wanted, 0.02, 0.5), by=60)


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_sixteen_bits_of_grey_keep_their_shades(size: tuple[int, int]) -> None:
    ramp = Image.linear_gradient("L").resize(size).convert("I").point(lambda value: value * 257)
    image = check_clean(fit_picture(saved(ramp.convert("I;16"), PNG), PNG, max_bytes=MIB).data)
    for part in (0.1, 0.5, 0.9):
        assert near(colour(image, 0.5, part), (int(255 * part),) * 3, by=12)


def test_a_colour_profile_is_applied_and_removed() -> None:
    wide = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    swapped = srgb.replace(b"rXYZ", b"tXYZ").replace(b"bXYZ", b"rXYZ").replace(b"tXYZ", b"bXYZ")
    for profile, wanted in ((srgb, RED), (wide, RED), (b"no profile", RED), (swapped, (0, 0, 255))):
        data = saved(halves((120, 80)), PNG, icc_profile=profile)
        image = check_clean(fit_picture(data, PNG, max_bytes=MIB).data)
        assert near(colour(image, 0.1, 0.5), wanted, by=20)
