"""Raw examples to what is trained on: pixels of one size as bytes, and class ids.

The graph made here is the one training data goes through and the one to serve raw images with:
`tft.TFTransformOutput(folder).transform_raw_features({"image": ...}, drop_unused_features=True)`
needs nothing but encoded images.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tensorflow_transform as tft

#: Shares of red, green and blue in grey (ITU-R BT.601, as JPEG and Pillow have it).
_LUMA = (0.299, 0.587, 0.114)


def preprocessing_fn(inputs: dict[str, Any], custom_config: dict[str, Any]) -> dict[str, tf.Tensor]:
    """The preprocessing function that TFX Transform is given.

    Args:
      inputs: raw features, [batch, 1] each, dense or sparse: `image` (PNG or JPEG, 8 bits),
        `example_id`, and `label` where the data has labels. Others are dropped.
      custom_config: `image_size` (pixels) and `channels` (1 or 3).

    Returns:
      `image`: string [batch], raw uint8 of shape [image_size, image_size, channels];
      `example_id`: string [batch]; `label`: int64 [batch], the position of the name in the
      sorted list of names, -1 for a name that the data did not have. The vocabulary `label`
      holds the names in descending order.
    """
    size, channels = custom_config["image_size"], custom_config["channels"]
    outputs = {
        "image": decode_images(_flat(inputs["image"]), size, channels),
        "example_id": _flat(inputs["example_id"]),
    }
    if "label" in inputs:
        outputs["label"] = _class_ids(_flat(inputs["label"]))
    return outputs


def decode_images(encoded: tf.Tensor, size: int, channels: int) -> tf.Tensor:
    """Decodes images, brings them to one shape, and gives the bytes of their pixels.

    Args:
      encoded: string [batch], PNG or JPEG with 8 bits a channel. An alpha channel is ignored.
      size: height and width wanted, pixels.
      channels: 1 or 3.

    Returns:
      string [batch], `size * size * channels` bytes each, rows first, channels last.
    """
    return tf.map_fn(
        lambda one: _raw_bytes(to_square(to_channels(_decode(one), channels), size)),
        encoded,
        fn_output_signature=tf.TensorSpec([], tf.string),
    )


def _decode(encoded: tf.Tensor) -> tf.Tensor:
    # Colours are converted after: TensorFlow's PNG and JPEG decoders each do it their own way.
    # Its default transform for JPEG, as in decode_image, is a fast one that errs by many levels.
    return tf.cond(
        tf.io.is_jpeg(encoded),
        lambda: tf.io.decode_jpeg(encoded, channels=0, dct_method="INTEGER_ACCURATE"),
        lambda: tf.io.decode_png(encoded, channels=0),
    )


def to_channels(image: tf.Tensor, channels: int) -> tf.Tensor:
    """Grey to colour or colour to grey, where need be.

    Args:
      image: uint8 [height, width, 1 to 4]: grey, grey and alpha, RGB, RGBA.
      channels: 1 or 3.

    Returns:
      uint8 [height, width, channels]; grey is 0.299 R + 0.587 G + 0.114 B, rounded.
    """
    is_grey = tf.shape(image)[-1] < 3
    if channels == 3:
        image = tf.cond(is_grey, lambda: tf.tile(image[..., :1], [1, 1, 3]), lambda: image[..., :3])
    else:
        image = tf.cond(is_grey, lambda: image[..., :1], lambda: _luma(image[..., :3]))
    return tf.ensure_shape(image, [None, None, channels])


def _luma(image: tf.Tensor) -> tf.Tensor:
    grey = tf.reduce_sum(tf.cast(image, tf.float32) * _LUMA, axis=-1, keepdims=True)
    return tf.cast(tf.round(grey), tf.uint8)


def to_square(image: tf.Tensor, size: int) -> tf.Tensor:
    """The largest square in the middle of an image, at the size wanted.

    Squeezing would change the proportions of what is shown, and a generator would learn that.

    Args:
      image: uint8 [height, width, channels].
      size: pixels.

    Returns:
      uint8 [size, size, channels], resized bilinearly with antialiasing unless it fits already.
    """
    height, width = tf.unstack(tf.shape(image)[:2])
    side = tf.minimum(height, width)
    image = tf.image.crop_to_bounding_box(
        image, (height - side) // 2, (width - side) // 2, side, side
    )
    image = tf.cond(tf.equal(side, size), lambda: image, lambda: _resize(image, size))
    return tf.ensure_shape(image, [size, size, image.shape[-1]])


def _resize(image: tf.Tensor, size: int) -> tf.Tensor:
    pixels = tf.image.resize(image, [size, size], method="bilinear", antialias=True)
    return tf.cast(tf.clip_by_value(tf.round(pixels), 0.0, 255.0), tf.uint8)


def _raw_bytes(image: tf.Tensor) -> tf.Tensor:
    """The bytes of a uint8 tensor of known shape."""
    # TensorFlow has no inverse of decode_raw; but a serialised tensor ends in its bytes.
    length = image.shape.num_elements()
    return tf.strings.substr(tf.io.serialize_tensor(image), -length, length)


def _class_ids(names: tf.Tensor) -> tf.Tensor:
    """Position of each name in the sorted list of all names: int64 [batch]."""
    # Equal weights tie all names, and ties go by descending name.
    vocabulary = tft.vocabulary(
        names, weights=tf.zeros_like(names, tf.float32), vocab_filename="label"
    )
    from_end = tft.apply_vocabulary(names, vocabulary, default_value=-1)
    last = tft.get_num_buckets_for_transformed_feature(from_end) - 1
    return tf.where(from_end < 0, from_end, last - from_end)


def _flat(feature: tf.Tensor | tf.SparseTensor) -> tf.Tensor:
    """A feature of one value an example, however the schema has it, as [batch]."""
    if isinstance(feature, tf.SparseTensor):
        shape = tf.stack([feature.dense_shape[0], 1])
        feature = tf.sparse.to_dense(tf.sparse.reset_shape(feature, shape), default_value="")
    return tf.reshape(feature, [-1])
