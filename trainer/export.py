"""The SavedModel: three signatures, loadable anywhere, with none of this code."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence

import tensorflow as tf
import tf_keras

from trainer import class_names as names_file
from trainer import networks
from trainer.options import ModelOptions
from trainer.state import State
from trainer.step import to_float, to_pixels

#: Attributes of a loaded model that hold its variables, by name as in `State.variables`.
GENERATOR_WEIGHTS = "generator_weights"
CRITIC_WEIGHTS = "critic_weights"

#: Nothing here is Python control flow: converting Keras' own code would only take time.
function = functools.partial(tf.function, autograph=False)


def save(
    state: State,
    model: ModelOptions,
    export_dir: str,
    *,
    class_names: Sequence[str] = (),
) -> None:
    """Writes the EMA generator and the critic, so that the folder is whole or not there.

    Args:
      state: trained networks, under any strategy.
      model: the options they were built with.
      export_dir: becomes the SavedModel; replaced if it exists.
      class_names: by label; kept in `assets.extra/class_names.txt`.
    """
    module = _module(state, model)
    signatures = {
        "serving_default": module.serving_default,
        "sample": module.sample,
        "score": module.score,
    }
    temporary = f"{export_dir.rstrip('/')}.tmp-{os.getpid()}"
    for left in tf.io.gfile.glob(f"{export_dir.rstrip('/')}.tmp-*"):  # by a process that was killed
        tf.io.gfile.rmtree(left)
    # Without the debug information, which holds this machine's paths.
    options = tf.saved_model.SaveOptions(save_debug_info=False)
    tf.saved_model.save(module, temporary, signatures, options)
    if class_names:
        names_file.write(temporary, class_names)
    if tf.io.gfile.exists(export_dir):
        tf.io.gfile.rmtree(export_dir)
    tf.io.gfile.makedirs(os.path.dirname(export_dir.rstrip("/")) or ".")
    tf.io.gfile.rename(temporary, export_dir)


def _module(state: State, model: ModelOptions) -> tf.Module:
    """Networks built anew outside any strategy, with the trained weights."""
    _, size, _, channels = state.critic.inputs[0].shape
    classes = state.classes
    shape = {"image_size": size, "channels": channels, "classes": classes, "seed": 0}
    generator = networks.build_generator(model, **shape)
    critic = networks.build_critic(model, **shape)
    generator.set_weights(state.ema_generator.get_weights())
    critic.set_weights(state.critic.get_weights())

    def generate(latent: tf.Tensor, label: tf.Tensor | None) -> tf.Tensor:
        return to_pixels(networks.call(generator, latent, label))

    def sample(count: tf.Tensor, seed: tf.Tensor, label: tf.Tensor | None) -> dict:
        latent = tf.random.stateless_normal(
            [count, model.latent_dim], tf.stack([seed, 0]), alg="philox"
        )
        if classes:
            drawn = tf.random.stateless_uniform(
                [count], tf.stack([seed, 1]), 0, classes, tf.int64, alg="philox"
            )
            label = tf.where(tf.less(label, 0), drawn, tf.fill([count], label))
        image = generate(latent, label)
        png = tf.map_fn(tf.io.encode_png, image, fn_output_signature=tf.string)
        return {"image": image, "png_bytes": png}

    def score(image: tf.Tensor, label: tf.Tensor | None) -> dict:
        return {"critic": networks.call(critic, to_float(image), label)}

    module = tf.Module()
    # The variables only: a Keras object tracked here would ask for Keras when loaded. By name, so
    # that another training can begin with them.
    setattr(module, GENERATOR_WEIGHTS, _by_name(generator))
    setattr(module, CRITIC_WEIGHTS, _by_name(critic))
    batch = {
        "latent": tf.TensorSpec([None, model.latent_dim], tf.float32, name="latent"),
        "image": tf.TensorSpec([None, size, size, channels], tf.uint8, name="image"),
        "label": tf.TensorSpec([None], tf.int64, name="label"),
    }
    if classes:
        _conditional_signatures(module, generate, sample, score, batch)
    else:
        _unconditional_signatures(module, generate, sample, score, batch)
    return module


def _by_name(network: tf_keras.Model) -> dict[str, tf.Variable]:
    return {variable.name.partition(":")[0]: variable for variable in network.variables}


def _unconditional_signatures(module, generate, sample, score, batch) -> None:
    @function(input_signature=[batch["latent"]])
    def serving_default(latent):
        return {"image": generate(latent, None)}

    @function(input_signature=[tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.int64)])
    def sample_signature(count, seed):
        return sample(count, seed, None)

    @function(input_signature=[batch["image"]])
    def score_signature(image):
        return score(image, None)

    module.serving_default = serving_default
    module.sample, module.score = sample_signature, score_signature


def _conditional_signatures(module, generate, sample, score, batch) -> None:
    every_class = tf.constant(-1, tf.int64)

    @function(input_signature=[batch["latent"], batch["label"]])
    def serving_default(latent, label):
        return {"image": generate(latent, label)}

    @function(
        input_signature=[
            tf.TensorSpec([], tf.int32, name="count"),
            tf.TensorSpec([], tf.int64, name="seed"),
            tf.TensorSpec([], tf.int64, name="label"),
        ]
    )
    def sample_signature(count, seed, label=every_class):
        return sample(count, seed, label)

    @function(input_signature=[batch["image"], batch["label"]])
    def score_signature(image, label):
        return score(image, label)

    module.serving_default = serving_default
    module.sample, module.score = sample_signature, score_signature
