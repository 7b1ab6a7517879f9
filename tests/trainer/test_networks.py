"""Networks of every size."""

import numpy as np
import pytest
import tensorflow as tf

from trainer import networks
from trainer.options import IMAGE_SIZES, ModelOptions

MODEL = ModelOptions(latent_dim=6, generator_channels=2, critic_channels=2)


def _pair(image_size, channels, classes, seed=0):
    shape = {"image_size": image_size, "channels": channels, "classes": classes, "seed": seed}
    return networks.build_generator(MODEL, **shape), networks.build_critic(MODEL, **shape)


@pytest.mark.parametrize("image_size", IMAGE_SIZES)
@pytest.mark.parametrize(("channels", "classes"), [(1, 0), (3, 4)])
def test_networks_every_size_fit_together(image_size, channels, classes):
    generator, critic = _pair(image_size, channels, classes)
    latent = tf.random.stateless_normal([2, 6], [1, 1])
    label = tf.constant([0, 3]) if classes else None
    image = networks.call(generator, latent, label)
    assert image.shape == [2, image_size, image_size, channels]
    assert image.dtype == tf.float32
    assert float(tf.reduce_max(tf.abs(image))) <= 1.0
    score = networks.call(critic, image, label)
    assert score.shape == [2]
    assert score.dtype == tf.float32
    assert float(score[0]) != float(score[1])


def test_networks_other_size_is_refused():
    with pytest.raises(ValueError, match="image_size: got 24; allowed: 16, 28"):
        _pair(24, 1, 0)


def test_networks_have_no_batch_statistics():
    """An example's output does not depend on what else is in the batch."""
    generator, critic = _pair(16, 1, 2)
    latent, label = tf.random.stateless_normal([3, 6], [1, 1]), tf.constant([0, 1, 1])
    image = networks.call(generator, latent, label)
    alone = networks.call(generator, latent[:1], label[:1])
    np.testing.assert_allclose(image[:1], alone, atol=1e-6)
    score = networks.call(critic, image, label)
    np.testing.assert_allclose(score[:1], networks.call(critic, alone, label[:1]), rtol=1e-5)
    assert all(weight.trainable for weight in [*generator.variables, *critic.variables])


def test_networks_start_by_seed_alone():
    again = [_pair(16, 1, 2, seed=3) for _ in range(2)]
    other = _pair(16, 1, 2, seed=4)
    for first, second in zip(again[0], again[1], strict=True):
        for a, b in zip(first.get_weights(), second.get_weights(), strict=True):
            np.testing.assert_array_equal(a, b)
    kernels = [model.get_layer(index=-1) for model in other]
    assert kernels is not None
    assert not np.array_equal(again[0][0].get_weights()[0], other[0].get_weights()[0])


def test_networks_label_changes_image_and_score():
    generator, critic = _pair(16, 1, 2)
    for layer in generator.layers:
        if isinstance(layer, networks.LayerNorm):
            layer.bias.assign(tf.random.stateless_normal(layer.bias.shape, [2, 2]))
    latent = tf.ones([1, 6])
    left, right = (networks.call(generator, latent, tf.constant([k])) for k in (0, 1))
    assert float(tf.reduce_max(tf.abs(left - right))) > 1e-3
    scores = [float(networks.call(critic, left, tf.constant([k]))[0]) for k in (0, 1)]
    assert scores[0] != scores[1]


def test_layer_norm_normalises_each_example_over_height_width_and_channels():
    x = tf.random.stateless_normal([3, 4, 4, 5], [1, 2]) * [[[[3.0]]], [[[1.0]]], [[[9.0]]]] + 2.0
    y = networks.LayerNorm(0)([x])
    np.testing.assert_allclose(tf.reduce_mean(y, [1, 2, 3]), np.zeros(3), atol=1e-5)
    np.testing.assert_allclose(tf.math.reduce_variance(y, [1, 2, 3]), np.ones(3), atol=1e-3)
