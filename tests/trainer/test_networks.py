"""Networks of both architectures and every size, and the layers they are made of."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from trainer import export, networks
from trainer.networks import layers
from trainer.options import IMAGE_SIZES, ModelOptions, TrainingOptions
from trainer.state import State

ARCHITECTURES = ("dcgan", "resnet")
#: Architectures with every normalisation that the critic may have.
CRITICS = [("dcgan", "none"), ("dcgan", "layer"), ("resnet", "none"), ("resnet", "layer")]


def _model(architecture="dcgan", **others):
    options = {"latent_dim": 6, "generator_channels": 2, "critic_channels": 2} | others
    return ModelOptions(architecture=architecture, **options)


def _pair(model, image_size=16, channels=1, classes=0, seed=0, **others):
    how = {"image_size": image_size, "channels": channels, "classes": classes, "seed": seed}
    return (
        networks.build_generator(model, **how, **others),
        networks.build_critic(model, **how, **others),
    )


def _normal(shape, seed=1, dtype="float32"):
    """The same numbers in every precision, up to rounding."""
    return tf.constant(np.random.default_rng(seed).normal(size=shape), dtype)


def _norms(network):
    return [x for x in network.layers if isinstance(x, networks.LayerNorm | networks.SyncBatchNorm)]


@pytest.mark.parametrize("image_size", IMAGE_SIZES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(("channels", "classes"), [(1, 0), (3, 4)])
def test_networks_every_size_fit_together(architecture, image_size, channels, classes):
    generator, critic = _pair(_model(architecture), image_size, channels, classes)
    label = tf.constant([0, 3]) if classes else None
    image = networks.call(generator, _normal([2, 6]), label)
    assert image.shape == [2, image_size, image_size, channels]
    assert image.dtype == tf.float32
    assert float(tf.reduce_max(tf.abs(image))) <= 1.0
    score = networks.call(critic, image, label)
    assert score.shape == [2]
    assert score.dtype == tf.float32
    assert float(score[0]) != float(score[1])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_networks_other_size_is_refused(architecture):
    how = {"image_size": 24, "channels": 1, "classes": 0, "seed": 0}
    for build in (networks.build_generator, networks.build_critic):
        with pytest.raises(ValueError, match="image_size: got 24; allowed: 16, 28, 32, 64, 128"):
            build(_model(architecture), **how)


@pytest.mark.parametrize(("architecture", "norm"), CRITICS)
def test_critic_score_of_an_example_does_not_depend_on_the_others(architecture, norm):
    _, critic = _pair(_model(architecture, critic_norm=norm), classes=3)
    image, label = _normal([4, 16, 16, 1]), tf.constant([0, 1, 2, 1])
    with tf.GradientTape() as tape:
        tape.watch(image)
        score = networks.call(critic, image, label, training=True)
        second = score[2]
    gradient = tape.gradient(second, image).numpy()
    assert np.abs(gradient[2]).max() > 0.0
    assert not np.delete(gradient, 2, axis=0).any()
    alone = networks.call(critic, image[2:3], label[2:3])
    np.testing.assert_allclose(score[2:3], alone, rtol=1e-4, atol=1e-5)
    assert all(weight.trainable for weight in critic.variables)


def test_generator_without_batch_norm_makes_each_image_by_itself():
    for norm in ("none", "layer"):
        generator, _ = _pair(_model("resnet", generator_norm=norm))
        image = networks.call(generator, _normal([3, 6]), None, training=True)
        alone = networks.call(generator, _normal([3, 6])[:1], None, training=True)
        np.testing.assert_allclose(image[:1], alone, atol=1e-5)
        assert all(weight.trainable for weight in generator.variables)
        assert bool(_norms(generator)) == (norm == "layer")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_networks_start_by_seed_alone(architecture):
    first, again, other = (_pair(_model(architecture), classes=2, seed=seed) for seed in (3, 3, 4))
    for a, b in zip(first, again, strict=True):
        for left, right in zip(a.get_weights(), b.get_weights(), strict=True):
            np.testing.assert_array_equal(left, right)
    for a, b in zip(first, other, strict=True):
        for left, right, weight in zip(a.get_weights(), b.get_weights(), a.weights, strict=True):
            assert np.array_equal(left, right) == ("kernel" not in weight.name), weight.name


def test_resnet_initial_deviations_are_those_of_he_and_glorot():
    """Gain over the mean of the fans: 2 for layers between rectifiers, 1 for the others."""
    model = ModelOptions(architecture="resnet", generator_channels=16, critic_channels=16)
    generator, critic = _pair(model, 32, 3)
    expected = {
        generator: {
            "project": 2.0 / (128 + 256),
            "up_0_1": 4.0 / (9 * 32),
            "up_0_2": 4.0 / (9 * 32),
            "up_0_shortcut": 2.0 / 32,
            "to_image": 2.0 / (9 * 19),
        },
        critic: {"first_1": 4.0 / (9 * 19), "down_2": 4.0 / (9 * 32), "down_shortcut": 2.0 / 32},
    }
    for network, variances in expected.items():
        for name, variance in variances.items():
            kernel = network.get_layer(name).kernel.numpy()
            error = 5.0 * np.sqrt(2.0 / kernel.size)  # five standard errors of a variance
            assert kernel.var() == pytest.approx(variance, rel=error), name


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("norm", ["none", "layer", "batch"])
def test_networks_label_changes_image_and_score(architecture, norm):
    generator, critic = _pair(_model(architecture, generator_norm=norm), classes=2)
    for layer in _norms(generator):
        layer.bias.assign(_normal(layer.bias.shape, 2))
    left, right = (networks.call(generator, tf.ones([1, 6]), tf.constant([k])) for k in (0, 1))
    assert float(tf.reduce_max(tf.abs(left - right))) > 1e-3
    scores = [float(networks.call(critic, left, tf.constant([k]))[0]) for k in (0, 1)]
    assert scores[0] != scores[1]


def test_resnet_of_cifar_10_has_the_parameters_counted_by_hand():
    model = ModelOptions(
        architecture="resnet",
        generator_channels=128,
        critic_channels=128,
        generator_norm="batch",
        critic_norm="none",
    )
    generator, critic = _pair(model, 32, 3)
    square, shortcut = 9 * 128 * 128, 128 * 128 + 128
    block = 2 * square + 128 + shortcut + 2 * 2 * 128
    project, to_image = 129 * 4 * 4 * 128, 9 * 128 * 3 + 3
    trainable = sum(weight.shape.num_elements() for weight in generator.trainable_variables)
    assert trainable == project + 3 * block + 2 * 128 + to_image
    first = (9 * 3 * 128 + 128) + (square + 128) + (3 * 128 + 128)
    blocks = 6 * (square + 128) + shortcut
    assert critic.count_params() == first + blocks + 129


@pytest.mark.parametrize(("image_size", "widths"), [(64, (8, 4, 2, 1)), (128, (8, 8, 4, 2, 1))])
def test_resnet_of_large_images_widens_as_the_image_shrinks(image_size, widths):
    generator, critic = _pair(_model("resnet", generator_channels=3, critic_channels=5), image_size)
    depths = range(len(widths))
    up = [generator.get_layer(f"up_{depth}_2").kernel.shape[-1] for depth in reversed(depths)]
    assert up == [3 * width for width in widths]
    down = [critic.get_layer(f"down_{depth}_2").kernel.shape[-1] for depth in depths]
    assert down == [5 * min(2 ** (depth + 1), 8) for depth in depths]
    assert critic.get_layer("score").kernel.shape == [4 * 4 * 8 * 5, 1]


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16", "float64"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_networks_precision_is_that_of_the_convolutions(architecture, precision):
    model = _model(architecture, generator_norm="batch", generator_channels=8, critic_channels=8)
    generator, critic = _pair(model, classes=2, precision=precision)
    reference = _pair(model, classes=2)
    outer = "float64" if precision == "float64" else "float32"
    label = tf.constant([0, 1])
    image = networks.call(generator, _normal([2, 6], dtype=outer), label, training=True)
    score = networks.call(critic, image, label)
    assert {image.dtype, score.dtype} == {tf.as_dtype(outer)}
    assert {v.dtype for v in [*generator.variables, *critic.variables]} == {tf.as_dtype(outer)}
    hidden = {"float32": "float32", "mixed_bfloat16": "bfloat16", "float64": "float64"}[precision]
    blocks = [*generator.layers, *critic.layers]
    computed = {x.name: x.compute_dtype for x in blocks if hasattr(x, "kernel")}
    assert {v for k, v in computed.items() if k not in ("to_image", "score", "projection")} == {
        hidden
    }
    assert {computed[k] for k in ("to_image", "score", "projection")} == {outer}
    expected = networks.call(reference[0], _normal([2, 6]), label, training=True)
    errors = (
        np.abs(image - tf.cast(expected, outer)),
        np.abs(score - tf.cast(networks.call(reference[1], expected, label), outer)),
    )
    low, high = (1e-4, 0.3) if precision == "mixed_bfloat16" else (-1.0, 1e-4)
    assert low < errors[0].max() < high
    assert low < errors[1].max() < 10.0 * high


def test_networks_start_is_the_same_in_every_precision():
    weights = [
        [w for network in _pair(_model("resnet"), precision=p) for w in network.get_weights()]
        for p in ("float32", "mixed_bfloat16", "float64")
    ]
    for single, mixed, double in zip(*weights, strict=True):
        np.testing.assert_array_equal(single, mixed)
        np.testing.assert_array_equal(single, double.astype(np.float32))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_networks_l2_weight_is_on_kernels_alone(architecture):
    model = _model(architecture, generator_norm="batch")
    for network in _pair(model, classes=2, precision="float64", l2_weight=0.3):
        # An embedding is a kernel to Keras, and not to us.
        kernels = [
            x.kernel.numpy()
            for x in network.layers
            if hasattr(x, "kernel") and x.name != "projection"
        ]
        expected = 0.5 * 0.3 * sum((kernel**2).sum() for kernel in kernels)
        strategy = tf.distribute.OneDeviceStrategy("/CPU:0")
        inside = strategy.run(tf.function(lambda n=network: tf.add_n(n.losses), autograph=False))
        for total in (tf.add_n(network.losses), inside):
            assert float(total) == pytest.approx(expected, rel=1e-12)
    assert [network.losses for network in _pair(model)] == [[], []]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_networks_graph_is_static_and_of_ops_that_every_device_has(architecture):
    generator, critic = _pair(_model(architecture, generator_norm="batch"), 32, 3)

    @tf.function(autograph=False)
    def score(latent):
        image = networks.call(generator, latent, None, training=True)
        return networks.call(critic, image, None)

    graph = score.get_concrete_function(tf.TensorSpec([4, 6])).graph
    kinds = {op.type for op in graph.get_operations()}
    assert not [kind for kind in kinds if "Resize" in kind or "FusedBatchNorm" in kind]
    assert not kinds & {"While", "StatelessWhile", "If", "StatelessIf", "PyFunc", "MapDefun"}
    unknown = [op.name for op in graph.get_operations() for t in op.outputs if None in t.shape]
    assert not unknown


def _penalty(critic, image, label):
    with tf.GradientTape() as tape:
        tape.watch(image)
        score = networks.call(critic, image, label)
    slopes = tf.sqrt(tf.reduce_sum(tape.gradient(score, image) ** 2, [1, 2, 3]))
    return tf.reduce_mean((slopes - 1.0) ** 2)


@pytest.mark.parametrize(("architecture", "norm"), CRITICS)
def test_critic_penalty_gradient_is_that_of_finite_differences(architecture, norm):
    """What training needs: the derivative by weights of the derivative by images."""
    _, critic = _pair(_model(architecture, critic_norm=norm), classes=2, precision="float64")
    image, label = _normal([2, 16, 16, 1], dtype="float64"), tf.constant([0, 1])
    weights = critic.trainable_variables
    start = [weight.numpy() for weight in weights]
    with tf.GradientTape() as tape:
        penalty = _penalty(critic, image, label)
    gradients = tape.gradient(penalty, weights)
    flat = {w.name for w, g in zip(weights, gradients, strict=True) if g is None}
    assert flat <= {"score/bias:0"} | {w.name for w in weights if "_2/bias" in w.name}
    directions = [_normal(w.shape, i, "float64") for i, w in enumerate(weights)]
    slope = sum(
        float(tf.reduce_sum(g * d))
        for g, d in zip(gradients, directions, strict=True)
        if g is not None
    )
    values = []
    for way in (1e-6, -1e-6):
        for weight, value, direction in zip(weights, start, directions, strict=True):
            weight.assign(value + way * direction)
        values.append(float(_penalty(critic, image, label)))
    assert slope == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-4)


def _resampled(resample, use_bias):
    start = layers.PhiloxNormal(1, 2, 1.0)
    return layers.ResampledConvolution(
        3, resample, use_bias=use_bias, start=start, penalty=None, dtype="float64"
    )


def test_resampled_convolution_up_is_doubling_and_then_convolving():
    kernel, x = _normal([3, 3, 2, 3], 5, "float64"), _normal([2, 4, 5, 2], 6, "float64")
    layer = _resampled("up", use_bias=True)
    layer(x)
    layer.set_weights([kernel, np.array([1.0, 2.0, 3.0])])
    doubled = np.repeat(np.repeat(x, 2, axis=1), 2, axis=2)
    expected = tf.nn.bias_add(tf.nn.conv2d(doubled, kernel, 1, "SAME"), [1.0, 2.0, 3.0])
    np.testing.assert_allclose(layer(x), expected, rtol=1e-12, atol=1e-12)


def test_resampled_convolution_down_is_convolving_and_then_the_mean_of_squares():
    kernel, x = _normal([3, 3, 2, 3], 5, "float64"), _normal([2, 4, 6, 2], 6, "float64")
    layer = layers.ResampledConvolution(
        3,
        "down",
        use_bias=False,
        start=layers.PhiloxNormal(1, 2, 1.0),
        penalty=None,
        dtype="float64",
    )
    layer(x)
    layer.set_weights([kernel])
    convolved = tf.nn.conv2d(x, kernel, 1, "SAME").numpy()
    expected = convolved.reshape(2, 2, 2, 3, 2, 3).mean(axis=(2, 4))
    np.testing.assert_allclose(layer(x), expected, rtol=1e-12, atol=1e-12)


def test_nearest_repeats_pixels_and_mean_pool_takes_them_back():
    x = _normal([2, 3, 4, 5])
    doubled = layers.nearest(x)
    np.testing.assert_array_equal(doubled, np.repeat(np.repeat(x, 2, axis=1), 2, axis=2))
    np.testing.assert_allclose(layers.mean_pool(doubled), x, rtol=1e-6)


def test_layer_norm_normalises_each_example_over_height_width_and_channels():
    x = _normal([3, 4, 4, 5]) * [[[[3.0]]], [[[1.0]]], [[[9.0]]]] + 2.0
    y = networks.LayerNorm(0)([x])
    np.testing.assert_allclose(tf.reduce_mean(y, [1, 2, 3]), np.zeros(3), atol=1e-5)
    np.testing.assert_allclose(tf.math.reduce_variance(y, [1, 2, 3]), np.ones(3), atol=1e-3)


@pytest.mark.parametrize("kind", [networks.LayerNorm, networks.SyncBatchNorm])
def test_norm_with_classes_scales_and_shifts_by_label(kind):
    x = _normal([3, 4, 4, 2])
    layer = kind(2)
    layer([x, tf.constant([0, 1, 1])])
    layer.gain.assign([[1.0, 2.0], [3.0, 4.0]])
    layer.bias.assign([[5.0, 6.0], [7.0, 8.0]])
    plain = kind(0)([x], training=True)
    y = layer([x, tf.constant([1, 0, 1])], training=True)
    gain = np.array([[3.0, 4.0], [1.0, 2.0], [3.0, 4.0]])[:, None, None]
    bias = np.array([[7.0, 8.0], [5.0, 6.0], [7.0, 8.0]])[:, None, None]
    np.testing.assert_allclose(y, plain * gain + bias, atol=1e-5)


def test_batch_norm_normalises_channels_and_keeps_their_statistics():
    x = _normal([8, 4, 4, 3], dtype="float64") * [1.0, 5.0, 0.1] + [0.0, 100.0, -3.0]
    layer = networks.SyncBatchNorm(0, dtype="float64")
    before = layer([x])  # of the statistics it begins with: 0 and 1
    np.testing.assert_allclose(before, x / np.sqrt(1.0 + 1e-5), rtol=1e-12)
    y = layer([x], training=True)
    np.testing.assert_allclose(tf.reduce_mean(y, [0, 1, 2]), np.zeros(3), atol=1e-12)
    mean, variance = (f(x, axis=(0, 1, 2)) for f in (np.mean, np.var))
    np.testing.assert_allclose(y, (x - mean) / np.sqrt(variance + 1e-5), atol=1e-10)
    np.testing.assert_allclose(layer.moving_mean, 0.1 * mean, rtol=1e-12)
    np.testing.assert_allclose(layer.moving_variance, 0.9 + 0.1 * variance, rtol=1e-12)
    for _ in range(300):
        layer([x], training=True)
    np.testing.assert_allclose(layer([x]), y, atol=1e-9)
    assert [w.name.split("/")[-1] for w in layer.trainable_weights] == ["gain:0", "bias:0"]


def _batch_normed(replicas, precision, pieces=1):
    """Gradient of a batch-normed generator, added up over replicas, and its moving statistics.

    With pieces, each replica's examples go through the generator in so many groups.
    """
    strategy = tf.distribute.MirroredStrategy(
        [f"/CPU:{i}" for i in range(replicas)],
        cross_device_ops=tf.distribute.ReductionToOneDevice(),
    )
    with strategy.scope():
        generator, _ = _pair(_model(generator_norm="batch"), classes=3, precision=precision)
    latent, factor = (
        _normal(shape, seed, precision) for seed, shape in enumerate([[8, 6], [8, 16, 16, 1]])
    )
    label, weights = tf.range(8) % 3, generator.trainable_variables

    @tf.autograph.experimental.do_not_convert
    def gradients():
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        size = 8 // replicas
        own = [x[replica * size : (replica + 1) * size] for x in (latent, label, factor)]
        with tf.GradientTape() as tape:
            groups = zip(*(tf.split(x, pieces) for x in own), strict=True)
            loss = sum(
                tf.reduce_sum(networks.call(generator, z, k, training=True) * f)
                for z, k, f in groups
            )
        return tape.gradient(loss, weights)

    @tf.function
    def twice():
        sums = [tf.zeros_like(weight) for weight in weights]
        for _ in tf.range(2):  # as training does: a loop around the replicas
            parts = strategy.run(gradients)
            sums = [strategy.reduce("SUM", part, axis=None) for part in parts]
        return sums

    sums = np.concatenate([np.ravel(x) for x in twice()])
    moving = np.concatenate([x.numpy() for x in generator.non_trainable_variables])
    return sums, moving


@pytest.fixture(scope="module")
def on_one_replica():
    return {precision: _batch_normed(1, precision) for precision in ("float32", "float64")}


@pytest.mark.parametrize(
    ("replicas", "precision", "tolerance"),
    [(2, "float64", 1e-10), (4, "float64", 1e-10), (2, "float32", 1e-6)],
)
def test_batch_norm_on_replicas_is_that_of_one(on_one_replica, replicas, precision, tolerance):
    expected, expected_moving = on_one_replica[precision]
    gradients, moving = _batch_normed(replicas, precision)
    assert np.linalg.norm(expected) > 1.0
    assert np.linalg.norm(gradients - expected) < tolerance * np.linalg.norm(expected)
    np.testing.assert_allclose(moving, expected_moving, rtol=10 * tolerance, atol=10 * tolerance)


def test_batch_norm_of_parts_of_the_batch_is_another_function(on_one_replica):
    """Local statistics would be seen: what the test above tolerates is far less."""
    expected, _ = on_one_replica["float64"]
    gradients, _ = _batch_normed(1, "float64", pieces=2)
    assert np.linalg.norm(gradients - expected) > 1e-2 * np.linalg.norm(expected)


SAMPLE = """
import sys
import tensorflow as tf
model = tf.saved_model.load(sys.argv[1])
out = model.signatures["sample"](
    count=tf.constant(6), seed=tf.constant(1, tf.int64), label=tf.constant(-1, tf.int64)
)
tf.io.write_file(sys.argv[2], tf.io.serialize_tensor(out["image"]))
served = model.signatures["serving_default"](
    latent=tf.ones([2, 6]), label=tf.constant([0, 1], tf.int64)
)
tf.io.write_file(sys.argv[3], tf.io.serialize_tensor(served["image"]))
"""


def test_export_of_batch_norm_samples_with_the_moving_statistics(tmp_path):
    model = _model(generator_norm="batch")
    with tf.distribute.MirroredStrategy(["/CPU:0", "/CPU:1"]).scope():
        state = State(model, TrainingOptions(), image_size=16, channels=1, classes=2)
    label = tf.constant([0, 1])
    for layer in _norms(state.ema_generator):
        layer.moving_mean.assign(_normal(layer.moving_mean.shape, 3))
        layer.moving_variance.assign(1.0 + _normal(layer.moving_mean.shape, 4) ** 2)
    export.save(state, model, str(tmp_path / "model"))
    files = [str(tmp_path / name) for name in ("sample", "served")]
    command = [sys.executable, "-I", "-c", SAMPLE, str(tmp_path / "model"), *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    sample, served = (tf.io.parse_tensor(tf.io.read_file(file), tf.uint8).numpy() for file in files)
    assert sample.shape == (6, 16, 16, 1)
    image = networks.call(state.ema_generator, tf.ones([2, 6]), label)
    expected = np.round((image + 1.0) * 127.5)
    assert np.abs(served - expected).max() <= 1.0
    plain = networks.call(state.generator, tf.ones([2, 6]), label)  # statistics of the start
    assert np.abs(served - np.round((plain + 1.0) * 127.5)).max() > 5.0
