"""A small classifier whose last hidden layer is a feature vector, and its SavedModel."""

from __future__ import annotations

import tensorflow as tf
import tf_keras

#: Length of a feature vector.
DIMENSION = 64
#: Features have variance 1 over the training images; what lies further out counts as this far.
BOUND = 16.0
#: Channels of the convolutions, from the first to the deepest, which all further ones are like.
_CHANNELS = (32, 64, 128)
#: Height and width of the deepest feature maps, at most.
_LAST_SIDE = 4
#: Images from this height on are halved by the first convolution already, for speed.
_LARGE = 64


def build(image_size: int, channels: int, classes: int) -> tf_keras.Model:
    """The network, with new weights of Keras' global seed.

    3x3 convolutions, each with batch normalisation (arXiv 1502.03167), ReLU and max pooling; one
    hidden layer, normalised without scale and shift, which are the features; the classes' scores.

    Args:
      image_size: height and width of an image, pixels.
      channels: 1 or 3.
      classes: number of classes.

    Returns:
      A model from images [N, H, W, C], 0 to 255, to features [N, 64] and class logits
      [N, classes].
    """
    layers = tf_keras.layers
    image = tf_keras.Input([image_size, image_size, channels])
    x = layers.Rescaling(1 / 127.5, offset=-1.0)(image)
    depth = 0
    while x.shape[1] > _LAST_SIDE:
        strides = 2 if depth == 0 and image_size >= _LARGE else 1
        filters = _CHANNELS[min(depth, len(_CHANNELS) - 1)]
        x = layers.Conv2D(filters, 3, strides=strides, padding="same", use_bias=False)(x)
        x = layers.ReLU()(_normalisation()(x))
        x = layers.MaxPooling2D(padding="same")(x)
        depth += 1
    x = layers.Dense(DIMENSION, use_bias=False)(layers.Flatten()(x))
    features = _normalisation(center=False, scale=False)(x)
    logits = layers.Dense(classes)(layers.ReLU()(features))
    return tf_keras.Model(image, [features, logits])


def _normalisation(**options: bool) -> tf_keras.layers.Layer:
    # Keras' momentum of 0.99 would still remember the first weights after a few hundred steps.
    return tf_keras.layers.BatchNormalization(momentum=0.95, **options)


def save(network: tf_keras.Model, folder: str) -> None:
    """Writes a SavedModel, the same files for the same weights.

    Args:
      network: as `build` makes it.
      folder: becomes the SavedModel, with two signatures that take `image` uint8 [N, H, W, C]:
        `serving_default` gives `features` float32 [N, 64] in [-16, 16], `classify` gives
        `class_logits` float32 [N, classes].
    """
    image = tf.TensorSpec([None, *network.inputs[0].shape[1:]], tf.uint8, name="image")

    @tf.function(autograph=False, input_signature=[image])
    def serving_default(image: tf.Tensor) -> dict[str, tf.Tensor]:
        features, _ = network(tf.cast(image, tf.float32), training=False)
        return {"features": tf.clip_by_value(features, -BOUND, BOUND)}

    @tf.function(autograph=False, input_signature=[image])
    def classify(image: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"class_logits": network(tf.cast(image, tf.float32), training=False)[1]}

    module = tf.Module()
    # The variables only: a Keras object tracked here would ask for Keras when loaded.
    module.weights = network.variables
    tf.saved_model.save(
        module,
        folder,
        {"serving_default": serving_default, "classify": classify},
        # Without the debug information, which holds this machine's paths.
        tf.saved_model.SaveOptions(save_debug_info=False),
    )
    # Optional, and new at random each time: the files would never have the same hash twice.
    fingerprint = f"{folder}/fingerprint.pb"
    if tf.io.gfile.exists(fingerprint):
        tf.io.gfile.remove(fingerprint)
