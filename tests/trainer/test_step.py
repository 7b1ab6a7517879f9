"""One update, on any number of replicas: the same batches, noise, gradients and weights."""

import numpy as np
import pytest
import tensorflow as tf

from trainer import feed, loop, losses, networks
from trainer import step as steps
from trainer.data import Dataset
from trainer.noise import Noise, Purpose
from trainer.options import ModelOptions, OptimizerOptions, PenaltyOptions, TrainingOptions
from trainer.state import State

BATCH = 8
OPTIONS = TrainingOptions(
    global_batch_size=BATCH,
    critic_steps=2,
    steps_per_call=3,
    seed=5,
    optimizer=OptimizerOptions(epsilon=1e-3),
)
MODEL = ModelOptions(latent_dim=8, generator_channels=4, critic_channels=4)
IMAGES = np.random.default_rng(0).integers(0, 256, [12, 16, 16, 1], np.uint8)
LABELS = np.arange(12, dtype=np.int32) % 3
REPLICAS = (1, 2, 4)


def _strategy(replicas):
    return tf.distribute.MirroredStrategy(
        [f"/CPU:{i}" for i in range(replicas)],
        cross_device_ops=tf.distribute.ReductionToOneDevice(),
    )


def _state(strategy, classes=3, options=OPTIONS):
    with strategy.scope():
        return State(MODEL, options, image_size=16, channels=1, classes=classes)


def _noise(replicas):
    return Noise(OPTIONS.seed, BATCH, replicas)


def _int(value):
    return tf.constant(value, tf.int64)


def _gathered(replicas, function):
    """Runs a function on every replica; its results one after the other."""
    strategy = _strategy(replicas)
    values = tf.function(lambda: strategy.run(function), autograph=False)()
    return np.concatenate(strategy.experimental_local_results(values))


@pytest.mark.parametrize("replicas", REPLICAS)
def test_noise_on_replicas_is_that_of_the_global_batch(replicas):
    noise = _noise(replicas)
    key = [5 * 2**8 + Purpose.GENERATOR_LATENT, 7 * 2**16 + 1]
    latents = _gathered(
        replicas, lambda: noise.normal(Purpose.GENERATOR_LATENT, _int(7), _int(1), 3)
    )
    whole = tf.random.stateless_normal([BATCH, 3], key, alg="philox")
    np.testing.assert_array_equal(latents, whole)
    alphas = _gathered(replicas, lambda: noise.uniform(Purpose.ALPHA, _int(7), _int(1)))
    assert alphas.shape == (BATCH, 1, 1, 1)
    assert len(np.unique(alphas)) == BATCH
    assert alphas.min() >= 0.0
    assert alphas.max() < 1.0


def test_noise_other_seed_step_sub_step_or_purpose_is_other_noise():
    def first(seed=0, purpose=Purpose.ALPHA, step=1, sub_step=1):
        noise = Noise(seed, BATCH, 1)
        return float(noise.uniform(purpose, _int(step), _int(sub_step))[0, 0, 0, 0])

    drawn = [
        first(),
        first(seed=1),
        first(purpose=Purpose.CRITIC_LATENT),
        first(step=2),
        first(sub_step=2),
        first(step=0, sub_step=2),
    ]
    assert len(set(drawn)) == len(drawn)


def _gradients(replicas, images=IMAGES, prepare=lambda state: None, **training):
    """Sums over replicas for the first batch: critic's and generator's gradients, metrics."""
    options = OPTIONS.model_copy(update=training)
    strategy = _strategy(replicas)
    state, noise = _state(strategy, options=options), _noise(replicas)
    prepare(state)
    size = BATCH // replicas

    def value(context):
        first = context.replica_id_in_sync_group * size
        return images[first : first + size], LABELS[first : first + size]

    def own(pick):
        return strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(value(context)[pick])
        )

    @tf.function(autograph=False)
    def run(images, labels):
        gradients, metrics = strategy.run(
            lambda x, y: steps.critic_gradients(state, options, noise, x, y, _int(0), _int(0)),
            args=(images, labels),
        )
        other, more = strategy.run(
            lambda y: steps.generator_gradients(state, options, noise, y, _int(0)), args=(labels,)
        )
        add_up = tf.distribute.ReduceOp.SUM
        return [strategy.reduce(add_up, x, axis=None) for x in (*gradients, *other, metrics, more)]

    return [x.numpy() for x in run(own(0), own(1))]


@pytest.fixture(scope="module")
def one_replica():
    return _gradients(1)


def _assert_same(whole, parts):
    """Critic's and generator's gradients within 1e-6 of their norms, metrics alike."""
    critic = len(_state(tf.distribute.get_strategy()).critic.trainable_variables)
    for part in (slice(0, critic), slice(critic, -2)):
        a, b = (np.concatenate([g.ravel() for g in x[part]]) for x in (whole, parts))
        assert np.linalg.norm(a - b) <= 1e-6 * np.linalg.norm(a)
    for a, b in zip(whole[-2:], parts[-2:], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.parametrize("replicas", REPLICAS[1:])
def test_gradients_and_metrics_on_replicas_equal_one_replica(one_replica, replicas):
    _assert_same(one_replica, _gradients(replicas))


@pytest.mark.parametrize(("replicas", "pieces"), [(1, 4), (2, 2)])
def test_gradients_in_pieces_equal_those_of_the_whole(one_replica, replicas, pieces):
    _assert_same(one_replica, _gradients(replicas, accumulation_steps=pieces))


@pytest.mark.parametrize(("replicas", "pieces"), [(1, 1), (2, 1), (2, 2)])
def test_gradients_weight_decay_counts_once(one_replica, replicas, pieces):
    decayed = _gradients(replicas, l2_weight=0.5, accumulation_steps=pieces)
    state = _state(tf.distribute.get_strategy())
    variables = state.critic.trainable_variables + state.generator.trainable_variables
    kernels = 0
    for variable, plain, found in zip(variables, one_replica, decayed, strict=False):
        is_kernel = "kernel" in variable.name and "projection" not in variable.name
        kernels += is_kernel
        expected = plain + 0.5 * variable.numpy() * is_kernel
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, err_msg=variable.name)
    assert kernels >= 5


def test_gradients_horizontal_flip_mirrors_half_of_the_real_images():
    numbers = _noise(1).uniform(Purpose.FLIP, _int(0), _int(0)).numpy().ravel()
    mirrored = IMAGES.copy()
    mirrored[:BATCH][numbers < 0.5] = IMAGES[:BATCH][numbers < 0.5][:, :, ::-1]
    assert 0 < (numbers < 0.5).sum() < BATCH
    _assert_same(_gradients(1, images=mirrored), _gradients(2, horizontal_flip=True))


def test_gradients_weight_clipping_has_no_penalty_and_still_measures_the_norm(one_replica):
    options = PenaltyOptions(kind="weight_clipping")
    *_, critic_metrics, _ = _gradients(1, penalty=options)
    loss, wasserstein, penalty, norm = critic_metrics
    assert loss == -wasserstein
    assert penalty == 0.0
    assert norm == pytest.approx(one_replica[-2][3], rel=1e-5)


def test_gradients_one_sided_penalty_leaves_a_flat_critic_alone():
    """With every norm below 1 the gradient is that of no penalty at all."""

    def flatten(state):
        for layer in ("score", "projection"):
            kernel = state.variables()[f"critic/{layer}/kernel"]
            kernel.assign(kernel * 1e-3)

    none, one_sided, two_sided = (
        _gradients(1, prepare=flatten, penalty=PenaltyOptions(kind=kind))
        for kind in ("weight_clipping", "one_sided", "two_sided")
    )
    assert none[-2][3] < 0.1
    np.testing.assert_allclose(one_sided[0], none[0], rtol=1e-5, atol=1e-8)
    assert not np.allclose(two_sided[0], none[0], rtol=0.1, atol=1e-8)


@pytest.mark.parametrize("replicas", [1, 4])
def test_gradients_bfloat16_convolutions_agree_with_float32(one_replica, replicas):
    """As far as 8 bits of precision go, with the penalty in; and everything else is float32."""
    found = _gradients(replicas, precision="mixed_bfloat16")
    assert {value.dtype for value in found} == {np.dtype(np.float32)}
    critic = len(_state(tf.distribute.get_strategy()).critic.trainable_variables)
    for part in (slice(0, critic), slice(critic, -2)):
        a, b = (np.concatenate([g.ravel() for g in x[part]]) for x in (one_replica, found))
        difference = np.linalg.norm(a - b) / np.linalg.norm(a)
        assert 1e-5 < difference < 0.05  # 0: bfloat16 was not used at all
    np.testing.assert_allclose(found[-2], one_replica[-2], rtol=0.05, atol=0.02)


def test_gradients_and_metrics_equal_means_over_the_batch(one_replica):
    """The textbook: means over one batch on one device, written independently."""
    state = _state(tf.distribute.get_strategy())
    key = [[OPTIONS.seed * 256 + purpose, 0] for purpose in range(3)]
    latents = [tf.random.stateless_normal([BATCH, 8], key[i], alg="philox") for i in (0, 1)]
    alpha = tf.random.stateless_uniform([BATCH, 1, 1, 1], key[2], alg="philox")
    label = tf.constant(LABELS[:BATCH])
    real = tf.constant(IMAGES[:BATCH] / 127.5 - 1.0, tf.float32)
    fake = state.generator([latents[0], label])
    between = alpha * real + (1.0 - alpha) * fake
    with tf.GradientTape() as tape:
        with tf.GradientTape() as inner:
            inner.watch(between)
            score = state.critic([between, label])
        norm = tf.norm(tf.reshape(inner.gradient(score, between), [BATCH, -1]), axis=1)
        distance = tf.reduce_mean(state.critic([real, label]) - state.critic([fake, label]))
        penalty = tf.reduce_mean((norm - 1.0) ** 2)
        loss = -distance + 10.0 * penalty
    gradients = tape.gradient(loss, state.critic.trainable_variables)
    with tf.GradientTape() as tape:
        generated = state.generator([latents[1], label])
        generator_loss = -tf.reduce_mean(state.critic([generated, label]))
    gradients += tape.gradient(generator_loss, state.generator.trainable_variables)
    *found, critic_metrics, generator_metrics = one_replica
    for expected, value in zip(gradients, found, strict=True):
        np.testing.assert_allclose(value, expected, atol=2e-6 * max(np.linalg.norm(expected), 1.0))
    expected = [loss, distance, penalty, tf.reduce_mean(norm)]
    np.testing.assert_allclose(critic_metrics, expected, rtol=1e-5)
    np.testing.assert_allclose(generator_metrics, [generator_loss], rtol=1e-5)


def _train(replicas, classes=3, damage=lambda state: None, **training):
    """Weights, the last metrics and the extremes after three steps."""
    options = OPTIONS.model_copy(update=training)
    strategy = _strategy(replicas)
    state = _state(strategy, classes, options)
    damage(state)
    order = feed.BatchOrder(len(IMAGES), seed=5, batch_size=BATCH, critic_steps=2)
    batches = feed.Feed(
        Dataset.of_arrays(IMAGES, LABELS),
        order,
        strategy,
        batch_size=BATCH,
        critic_steps=2,
        steps_per_call=3,
    )
    outcome = loop.build(state, options, strategy)(*batches.chunk(0), 0, 3)
    batches.close()
    networks_ = (state.generator, state.critic, state.ema_generator)
    return [network.get_weights() for network in networks_], outcome.last, outcome.extremes


@pytest.fixture(scope="module")
def trained_on_one():
    return _train(1)


def test_training_on_four_replicas_ends_in_the_same_weights(trained_on_one):
    weights, metrics, _ = _train(4)
    for whole, parts in zip(trained_on_one[0], weights, strict=True):
        for a, b in zip(whole, parts, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)
    assert metrics == pytest.approx(trained_on_one[1], rel=1e-4)


def test_training_moves_both_networks_by_adam_on_the_mean_gradient(trained_on_one):
    """Weights after one critic and one generator update, Adam written out by hand."""
    strategy = _strategy(2)
    state = _state(strategy)
    before = state.critic.get_weights()
    gradients = _gradients(1)[: len(before)]
    images = strategy.experimental_distribute_values_from_function(
        lambda c: tf.constant(IMAGES[:BATCH][c.replica_id_in_sync_group * 4 :][:4])
    )
    labels = strategy.experimental_distribute_values_from_function(
        lambda c: tf.constant(LABELS[:BATCH][c.replica_id_in_sync_group * 4 :][:4])
    )
    noise = _noise(2)
    tf.function(
        lambda x, y: strategy.run(
            steps.critic_update,
            args=(state, OPTIONS, noise, x, y, _int(0), _int(0)),
        ),
        autograph=False,
    )(images, labels)
    # First step from zero moments with beta_1 = 0: lr * g / (|g| + epsilon / sqrt(1 - beta_2)).
    rate, epsilon = OPTIONS.optimizer.critic_learning_rate, 1e-3 / np.sqrt(0.1)
    for start, gradient, end in zip(before, gradients, state.critic.get_weights(), strict=True):
        expected = start - rate * gradient / (np.abs(gradient) + epsilon)
        np.testing.assert_allclose(end, expected, rtol=0, atol=1e-7)


def test_training_tells_the_largest_values_of_all_steps(trained_on_one):
    _, last, extremes = trained_on_one
    assert extremes["weights"] == 0.0
    assert all(extremes[name] >= abs(value) for name, value in last.items())
    assert any(extremes[name] > abs(value) * 1.001 for name, value in last.items())


@pytest.mark.parametrize("name", ["generator/project/kernel", "critic_optimizer/v/score/kernel"])
def test_training_variable_that_is_not_finite_is_told(name):
    """Of a weight; of a second moment too, whose weight would stay as it is for ever."""

    def damage(state):
        variable = state.variables()[name]
        variable.assign(tf.fill(variable.shape, np.inf))

    _, _, extremes = _train(2, damage=damage)
    assert extremes["weights"] == np.inf


def test_training_weight_clipping_bounds_every_weight_of_the_critic():
    clipping = PenaltyOptions(kind="weight_clipping", clip_value=0.02)
    (generator, critic, _), metrics, _ = _train(2, penalty=clipping)
    assert max(np.abs(weight).max() for weight in critic) == np.float32(0.02)
    assert max(np.abs(weight).max() for weight in generator) > 0.1
    assert metrics["gradient_penalty"] == 0.0


def test_training_linear_decay_ends_at_a_step_size_of_zero():
    options = OPTIONS.model_copy(
        update={"steps": 3, "optimizer": OptimizerOptions(learning_rate_decay="linear")}
    )
    state = _state(tf.distribute.get_strategy(), options=options)
    for optimizer, updates in ((state.generator_optimizer, 3), (state.critic_optimizer, 6)):
        rates = [float(optimizer._learning_rate(update)) for update in range(updates + 1)]
        np.testing.assert_allclose(rates, 2e-4 * (1 - np.arange(updates + 1) / updates), atol=1e-10)


def test_training_unconditional_ignores_labels():
    weights, metrics, _ = _train(1, classes=0)
    assert np.isfinite(list(metrics.values())).all()
    assert all(np.isfinite(w).all() for network in weights for w in network)


def test_average_follows_the_generator():
    strategy = _strategy(2)
    state = _state(strategy)
    start = state.ema_generator.get_weights()
    for weight in state.generator.trainable_variables:
        weight.assign_add(tf.ones_like(weight))
    for step in (0, 90):  # decay 1/10, then 1/2
        steps.update_average(strategy, state, 0.5, _int(step))
    for before, after in zip(start, state.ema_generator.get_weights(), strict=True):
        np.testing.assert_allclose(after, before + 0.95, atol=1e-5)


def test_pixels_to_float_and_back_is_exact():
    pixels = tf.range(256)
    floats = steps.to_float(tf.cast(pixels, tf.uint8))
    assert (float(floats[0]), float(floats[255])) == (-1.0, 1.0)
    np.testing.assert_array_equal(steps.to_pixels(floats), pixels)
    np.testing.assert_array_equal(steps.to_pixels(tf.constant([-3.0, 3.0, -0.999])), [0, 255, 0])


def test_generator_update_leaves_the_critic_alone():
    state = _state(tf.distribute.get_strategy())
    critic, generator = state.critic.get_weights(), state.generator.get_weights()
    label = tf.constant(LABELS[:BATCH])
    steps.generator_update(state, OPTIONS, _noise(1), label, _int(0))
    for a, b in zip(critic, state.critic.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(generator[0], state.generator.get_weights()[0])
    generator = state.generator.get_weights()
    images = tf.constant(IMAGES[:BATCH])
    steps.critic_update(state, OPTIONS, _noise(1), images, label, _int(0), _int(0))
    for a, b in zip(generator, state.generator.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    scores = networks.call(state.critic, steps.to_float(images), label)
    assert losses.generator(scores).shape == [BATCH]
