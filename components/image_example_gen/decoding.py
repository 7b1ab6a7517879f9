"""An image file, whatever it came as, to what is stored: an 8-bit grey or RGB JPEG or PNG.

Every image is decoded once in full, so that nothing later in the pipeline meets a broken one.
What TensorFlow decodes to the very same pixels is kept as it came; everything else becomes PNG:

* BMP, WebP, GIF, palette images, CMYK JPEGs: to RGB (or grey, where the source is grey).
* 16 bits a channel: the high byte of each. 1, 2 and 4 bits: spread over 0..255.
* EXIF orientation: applied.
* Transparency: composed over white. Decoders disagree about what lies below transparent pixels.
* Animations: the first frame.
"""

from __future__ import annotations

import dataclasses
import io
import struct
import warnings

import numpy as np
import tensorflow as tf
from PIL import Image, ImageOps, UnidentifiedImageError

_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP")
_EXIF_ORIENTATION = 0x0112
#: Larger images are refused: a small file may claim any size, and would be unpacked to it.
MAX_PIXELS = 64 * 1024 * 1024


class UndecodableImage(ValueError):
    """A file that cannot become an example; the message is the reason in a few words."""


@dataclasses.dataclass(frozen=True)
class StoredImage:
    """What is kept of an image.

    Attributes:
      data: PNG or JPEG, 8 bits a channel, grey or RGB, upright.
      height: pixels.
      width: pixels.
      channels: 1 or 3.
      format: what the image came as, lower case: png, jpeg, bmp, gif, webp.
    """

    data: bytes
    height: int
    width: int
    channels: int
    format: str


def decode(data: bytes) -> StoredImage:
    """Checks that an image decodes, and brings it to the form that is stored.

    Args:
      data: content of an image file.

    Raises:
      UndecodableImage: where it is no image, a damaged one, or one too large.
    """
    if not data:
        raise UndecodableImage("empty file")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of sizes (checked here) and of odd metadata
            with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
                return _stored(image, data)
    except UndecodableImage:
        raise
    except UnidentifiedImageError as error:
        raise UndecodableImage("not a PNG, JPEG, BMP, GIF or WebP image") from error
    except Image.DecompressionBombError as error:
        raise UndecodableImage(_too_large()) from error
    # Decoders raise nearly anything on damaged input; whatever it was, this file is the cause.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UndecodableImage(f"damaged: {reason[:120]}") from error


def encode_pixels(pixels: np.ndarray, format: str) -> StoredImage:
    """Stores pixels of a source that keeps them bare.

    Args:
      pixels: uint8 [height, width], grey.
      format: name of the source's format.
    """
    height, width = pixels.shape
    return StoredImage(_png(Image.fromarray(pixels, "L")), height, width, 1, format)


def _stored(image: Image.Image, data: bytes) -> StoredImage:
    name = str(image.format).lower().replace("mpo", "jpeg")
    if image.width * image.height > MAX_PIXELS:
        raise UndecodableImage(_too_large())
    image.load()
    upright = image.getexif().get(_EXIF_ORIENTATION, 1) in (0, 1)
    if upright and _is_plain(image, data):
        stored = StoredImage(data, image.height, image.width, len(image.getbands()), name)
        if _tensorflow_shape(data) == (stored.height, stored.width, stored.channels):
            return stored
    if not upright:
        image = ImageOps.exif_transpose(image)
    image = _to_8_bit(image)
    return StoredImage(_png(image), image.height, image.width, len(image.getbands()), name)


def _is_plain(image: Image.Image, data: bytes) -> bool:
    """Whether the file is a JPEG or PNG that TensorFlow decodes to these very channels."""
    if image.mode not in ("L", "RGB") or "transparency" in image.info:
        return False
    if image.format == "PNG":
        # Pillow's modes L and RGB also stand for other depths: byte 24 of the header tells.
        return data[24] == 8 and getattr(image, "n_frames", 1) == 1
    return image.format == "JPEG"


def _tensorflow_shape(data: bytes) -> tuple[int, ...]:
    """Decodes with what Transform uses: it refuses some damage that Pillow overlooks."""
    try:
        return tuple(tf.io.decode_image(data, channels=0, expand_animations=False).shape)
    except tf.errors.InvalidArgumentError as error:
        raise UndecodableImage("damaged: TensorFlow cannot decode it") from error


def _to_8_bit(image: Image.Image) -> Image.Image:
    """Grey (L) or RGB of any mode that the formats know."""
    if image.mode.startswith("I"):  # 16-bit grey; Pillow's own conversion would clip it
        values = np.asarray(image).astype(np.int64)
        grey = Image.fromarray((np.clip(values, 0, 0xFFFF) >> 8).astype(np.uint8), "L")
        if "transparency" not in image.info:
            return grey
        clear = values == image.info["transparency"]
        return Image.fromarray(np.where(clear, np.uint8(255), np.asarray(grey)), "L")
    if image.has_transparency_data:
        with_alpha = image.convert("RGBA")
        page = Image.new("RGBA", image.size, "white")
        flat = Image.alpha_composite(page, with_alpha).convert("RGB")
        return flat.getchannel(0) if image.mode in ("1", "L", "LA", "La") else flat
    if image.mode == "P" and all(r == g == b for r, g, b in _palette(image)):
        return image.convert("L")
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


def _palette(image: Image.Image) -> list[tuple[int, ...]]:
    flat = image.getpalette("RGB") or []
    return list(struct.iter_unpack("3B", bytes(flat)))


def _png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    # The files that hold the examples are compressed again: little effort is enough here.
    # A colour profile is not carried over: it may belong to channels that are no longer there.
    image.save(buffer, "PNG", compress_level=1, icc_profile=None)
    return buffer.getvalue()


def _too_large() -> str:
    return f"more than {MAX_PIXELS // 2**20} million pixels"
