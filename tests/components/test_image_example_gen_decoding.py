"""Each kind of image file, whole and damaged, to what is stored of it."""

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets
import tensorflow as tf
from PIL import Image

from components.image_example_gen import decoding

_PHOTO = Path(sklearn.datasets.__file__).parent / "images" / "flower.jpg"


@pytest.fixture(scope="module")
def photo() -> Image.Image:
    """A real photograph, 40 x 30, RGB."""
    return Image.open(_PHOTO).resize((40, 30))


def _encoded(image: Image.Image, format: str, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def _as_tensorflow_has_it(stored: decoding.StoredImage) -> np.ndarray:
    pixels = tf.io.decode_image(stored.data, channels=0, expand_animations=False).numpy()
    assert pixels.dtype == np.uint8
    assert pixels.shape == (stored.height, stored.width, stored.channels)
    return pixels[..., 0] if stored.channels == 1 else pixels


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _rgb16_png(pixels: np.ndarray) -> bytes:
    """A PNG of 16 bits a channel, which Pillow reads but does not write."""
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
    parts = _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


@pytest.mark.parametrize("mode", ["L", "RGB"])
@pytest.mark.parametrize(
    ("format", "options"), [("PNG", {}), ("JPEG", {}), ("JPEG", {"progressive": True})]
)
def test_decode_plain_png_or_jpeg_keeps_every_byte(photo, mode, format, options):
    data = _encoded(photo.convert(mode), format, **options)
    stored = decoding.decode(data)
    assert stored.data == data
    assert (stored.height, stored.width) == (30, 40)
    assert stored.channels == (1 if mode == "L" else 3)
    assert stored.format == format.lower()
    _as_tensorflow_has_it(stored)


def _cases(photo: Image.Image) -> dict[str, tuple[bytes, np.ndarray]]:
    """Files that are transcoded, and the pixels they must become."""
    rgb, grey = np.asarray(photo), np.asarray(photo.convert("L"))
    palette = photo.quantize(64)
    from_palette = np.asarray(palette.convert("RGB"))
    deep = grey.astype(np.uint16) * 256 + 77
    alpha = np.where(np.arange(40) < 20, 0, 255).astype(np.uint8)[None].repeat(30, axis=0)
    see_through = photo.copy()
    see_through.putalpha(Image.fromarray(alpha))
    over_white = np.where(alpha[..., None] == 0, 255, rgb).astype(np.uint8)
    grey_alpha = photo.convert("LA")
    grey_alpha.putalpha(Image.fromarray(alpha))
    bits = photo.convert("1")
    webp = {"lossless": True}
    first, second = palette, photo.transpose(Image.Transpose.FLIP_TOP_BOTTOM).quantize(64)
    rotated = Image.Exif()
    rotated[0x0112] = 6  # to be turned a quarter clockwise
    cmyk = _encoded(photo.convert("CMYK"), "JPEG", quality=95)
    return {
        "bmp": (_encoded(photo, "BMP"), rgb),
        "grey bmp": (_encoded(photo.convert("L"), "BMP"), grey),
        "gif": (_encoded(palette, "GIF"), from_palette),
        "animated gif": (
            _encoded(first, "GIF", save_all=True, append_images=[second]),
            from_palette,
        ),
        "animated png": (
            _encoded(
                photo,
                "PNG",
                save_all=True,
                append_images=[photo.transpose(Image.Transpose.FLIP_TOP_BOTTOM)],
            ),
            rgb,
        ),
        "lossless webp": (_encoded(photo, "WEBP", **webp), rgb),
        "webp with alpha": (_encoded(see_through, "WEBP", exact=True, **webp), over_white),
        "palette png": (_encoded(palette, "PNG"), from_palette),
        "grey palette png": (
            _encoded(photo.convert("L").convert("P"), "PNG"),
            grey,
        ),
        "1-bit png": (_encoded(bits, "PNG"), np.asarray(bits).astype(np.uint8) * 255),
        "16-bit grey png": (_encoded(Image.fromarray(deep), "PNG"), grey),
        "16-bit colour png": (_rgb16_png(rgb.astype(np.uint16) * 256 + 200), rgb),
        "png with alpha": (_encoded(see_through, "PNG"), over_white),
        "grey png with alpha": (
            _encoded(grey_alpha, "PNG"),
            np.where(alpha == 0, 255, grey).astype(np.uint8),
        ),
        "png with a transparent colour": (
            _encoded(photo, "PNG", transparency=tuple(int(v) for v in rgb[0, 0])),
            np.where((rgb == rgb[0, 0]).all(axis=-1, keepdims=True), 255, rgb).astype(np.uint8),
        ),
        "rotated jpeg": (
            _encoded(photo, "JPEG", exif=rotated),
            np.rot90(np.asarray(Image.open(io.BytesIO(_encoded(photo, "JPEG")))), -1),
        ),
        "rotated png": (_encoded(photo, "PNG", exif=rotated), np.rot90(rgb, -1)),
        "cmyk jpeg": (cmyk, np.asarray(Image.open(io.BytesIO(cmyk)).convert("RGB"))),
    }


_CASES = _cases(Image.open(_PHOTO).resize((40, 30)))


@pytest.mark.parametrize("name", _CASES)
def test_decode_other_kind_becomes_png_of_the_same_pixels(name):
    data, expected = _CASES[name]
    stored = decoding.decode(data)
    assert stored.data != data
    assert stored.data[:4] == b"\x89PNG"
    assert stored.data[24] == 8  # bits a channel
    assert stored.format in name.split()
    np.testing.assert_array_equal(_as_tensorflow_has_it(stored), expected)


def test_decode_cmyk_jpeg_looks_like_the_photo(photo):
    data, _ = _CASES["cmyk jpeg"]
    pixels = _as_tensorflow_has_it(decoding.decode(data)).astype(int)
    assert np.abs(pixels - np.asarray(photo)).mean() < 8


@pytest.mark.parametrize("format", ["PNG", "JPEG", "BMP", "GIF", "WEBP"])
def test_decode_cut_anywhere_is_refused_unless_no_pixel_is_lost(photo, format):
    data = _encoded(photo, format)
    whole = _as_tensorflow_has_it(decoding.decode(data))
    # The last bytes are where decoders differ: Pillow overlooks a missing end of a PNG, which
    # TensorFlow refuses.
    for end in (*range(1, len(data) - 40, len(data) // 40), *range(len(data) - 40, len(data))):
        try:
            stored = decoding.decode(data[:end])
        except decoding.UndecodableImage:
            continue
        assert end > 0.9 * len(data)
        assert format not in ("PNG", "BMP")
        np.testing.assert_array_equal(_as_tensorflow_has_it(stored), whole)


@pytest.mark.parametrize("format", ["PNG", "JPEG"])
def test_decode_damaged_is_refused_or_decodes_in_tensorflow(photo, format):
    data = _encoded(photo, format)
    random = np.random.default_rng(0)
    accepted = 0
    for position in random.integers(len(data), size=200):
        damaged = bytearray(data)
        damaged[position] ^= 1 << random.integers(8)
        try:
            stored = decoding.decode(bytes(damaged))
        except decoding.UndecodableImage:
            continue
        accepted += 1
        _as_tensorflow_has_it(stored)
    assert accepted < 200


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty file"),
        (b"just some text\n", "not a PNG, JPEG, BMP, GIF or WebP image"),
        (b"%PDF-1.4 pretending", "not a PNG"),
        (b"\x89PNG\r\n\x1a\n", "not a PNG|damaged"),
    ],
)
def test_decode_no_image_says_why(data, reason):
    with pytest.raises(decoding.UndecodableImage, match=reason):
        decoding.decode(data)


def test_decode_other_image_format_is_refused(photo):
    with pytest.raises(decoding.UndecodableImage, match="not a PNG"):
        decoding.decode(_encoded(photo, "TIFF"))


@pytest.mark.parametrize("side", [9000, 30000])
def test_decode_bomb_is_refused_before_it_is_unpacked(side):
    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(b"\0"))
    with pytest.raises(decoding.UndecodableImage, match="more than 64 million pixels"):
        decoding.decode(data + _chunk(b"IEND", b""))


def test_encode_pixels_round_trip_is_exact():
    pixels = np.arange(12, dtype=np.uint8).reshape(3, 4) * 20
    stored = decoding.encode_pixels(pixels, "idx")
    assert (stored.height, stored.width, stored.channels, stored.format) == (3, 4, 1, "idx")
    np.testing.assert_array_equal(_as_tensorflow_has_it(stored), pixels)


def test_decode_transcoded_image_has_no_colour_profile(photo):
    profile = Image.open(_PHOTO).info["icc_profile"]
    data = _encoded(photo, "WEBP", icc_profile=profile)
    stored = decoding.decode(data)
    assert "icc_profile" in Image.open(io.BytesIO(data)).info
    assert "icc_profile" not in Image.open(io.BytesIO(stored.data)).info
