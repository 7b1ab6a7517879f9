"""Losses against values worked out by hand."""

import numpy as np
import pytest
import tensorflow as tf

from trainer import losses


def test_critic_wasserstein_two_examples_is_fake_minus_real_each():
    loss = losses.critic_wasserstein(tf.constant([3.0, -1.0]), tf.constant([1.0, 4.0]))
    assert loss.dtype == tf.float32
    np.testing.assert_array_equal(loss, [-2.0, 5.0])


def test_generator_two_examples_is_minus_score_each():
    np.testing.assert_array_equal(losses.generator(tf.constant([3.0, -1.0])), [-3.0, 1.0])


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16])
def test_losses_half_precision_scores_give_float32(dtype):
    scores = tf.constant([1.0, 2.0], dtype)
    assert losses.critic_wasserstein(scores, scores).dtype == tf.float32
    assert losses.generator(scores).dtype == tf.float32
    assert losses.two_sided_penalty(scores).dtype == tf.float32


def test_interpolate_alpha_per_example_moves_each_by_its_own():
    real, fake = tf.ones([3, 2, 2, 1]) * 8.0, tf.zeros([3, 2, 2, 1])
    alpha = tf.reshape([0.0, 0.25, 1.0], [3, 1, 1, 1])
    between = losses.interpolate(real, fake, alpha)
    np.testing.assert_array_equal(between[:, 0, 0, 0], [0.0, 2.0, 8.0])
    np.testing.assert_array_equal(between, tf.broadcast_to(between[:, :1, :1], between.shape))


@pytest.mark.parametrize("shape", [[], [3], [3, 2, 2, 1], [1, 1, 1, 1], [2, 1, 1, 1]])
def test_interpolate_alpha_of_another_shape_is_refused(shape):
    images = tf.ones([3, 2, 2, 1])
    with pytest.raises(ValueError, match="alpha: got"):
        losses.interpolate(images, images, tf.ones(shape))


def test_gradient_norm_linear_critic_is_norm_of_its_weights():
    weights = tf.reshape(tf.range(1.0, 13.0), [2, 2, 3])
    images = tf.random.stateless_normal([5, 2, 2, 3], [1, 2])
    with tf.GradientTape() as tape:
        tape.watch(images)
        scores = tf.reduce_sum(images * weights, axis=[1, 2, 3])
    norms = losses.gradient_norm(tape.gradient(scores, images))
    np.testing.assert_allclose(norms, [np.sqrt(650.0)] * 5, rtol=1e-6)
    penalty = losses.two_sided_penalty(norms)
    assert penalty.shape == [5]
    np.testing.assert_allclose(penalty, [(np.sqrt(650.0) - 1.0) ** 2] * 5, rtol=1e-6)


def test_gradient_norm_examples_of_different_size_are_not_mixed():
    gradients = np.zeros([2, 2, 2, 1], np.float32)
    gradients[0, 0, 0, 0], gradients[0, 1, 1, 0], gradients[1, 0, 1, 0] = 3.0, 4.0, 2.0
    np.testing.assert_allclose(losses.gradient_norm(tf.constant(gradients)), [5.0, 2.0], rtol=1e-6)


def test_gradient_norm_of_zero_has_a_finite_derivative():
    gradients = tf.Variable(tf.zeros([2, 2, 2, 1]))
    with tf.GradientTape() as tape:
        penalty = losses.two_sided_penalty(losses.gradient_norm(gradients))
    np.testing.assert_allclose(penalty, [1.0, 1.0], atol=1e-5)
    assert np.isfinite(tape.gradient(penalty, gradients)).all()


def test_one_sided_penalty_punishes_norms_above_one_only():
    norms = tf.constant([0.0, 0.5, 1.0, 1.5, 3.0])
    np.testing.assert_array_equal(losses.one_sided_penalty(norms), [0.0, 0.0, 0.0, 0.25, 4.0])


def test_clipped_moves_what_is_outside_to_the_bound():
    weight = tf.constant([[-2.0, -0.01], [0.005, 0.02]])
    np.testing.assert_array_equal(
        losses.clipped(weight, 0.01), np.float32([[-0.01, -0.01], [0.005, 0.01]])
    )


def test_losses_float64_stay_float64():
    scores = tf.constant([1.0, 2.0], tf.float64)
    values = (
        losses.critic_wasserstein(scores, scores),
        losses.generator(scores),
        losses.two_sided_penalty(scores),
        losses.one_sided_penalty(scores),
        losses.gradient_norm(tf.ones([2, 2, 2, 1], tf.float64)),
    )
    assert {value.dtype for value in values} == {tf.float64}


@pytest.mark.parametrize("norm", [0.5, 1.0, 1.5])
def test_two_sided_penalty_punishes_both_sides(norm):
    assert losses.two_sided_penalty(tf.constant([norm]))[0] == (norm - 1.0) ** 2


def test_losses_of_wrong_rank_are_refused():
    with pytest.raises(ValueError, match=r"allowed: \[B\]"):
        losses.critic_wasserstein(tf.zeros([2, 1]), tf.zeros([2, 1]))
    with pytest.raises(ValueError, match="beside"):
        losses.critic_wasserstein(tf.zeros([2]), tf.zeros([3]))
    with pytest.raises(ValueError, match=r"\[B, H, W, C\]"):
        losses.gradient_norm(tf.zeros([2, 4]))
