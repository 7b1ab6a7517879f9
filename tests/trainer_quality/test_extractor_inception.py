"""Inception's features, with weights of a fixed seed: those of ImageNet are not at hand."""

import functools
import hashlib
import http.server
import inspect
import threading
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from tf_keras.src.applications import inception_v3

from trainer.options import ExtractorOptions
from trainer.quality.extractors import ExtractorError, create, images, inception

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, [3, 32, 32, 3], np.uint8)
PIXELS[1] //= 4
PIXELS[2, :16] = 255


@pytest.fixture(scope="module")
def network():
    tf_keras.utils.set_random_seed(1)
    model = tf_keras.applications.InceptionV3(include_top=False, weights=None, pooling="avg")
    # Where Keras begins, all features are nearly the same, and one wrong pixel range like another.
    for layer in model.layers:
        if isinstance(layer, tf_keras.layers.BatchNormalization):
            beta, mean, variance = layer.get_weights()
            layer.set_weights([RNG.normal(0, 0.3, beta.shape), mean, variance * 0.5])
    return model


@pytest.fixture(scope="module")
def weights(network, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("weights") / "inception.h5")
    network.save_weights(path)
    return path


@pytest.fixture(scope="module")
def extract(weights):
    return create(ExtractorOptions(name="inception", weights=weights))


def _direct(network, pixels):
    """Features by Keras' own preprocessing of images resized by TensorFlow's own bicubic filter."""
    big = tf.image.resize(pixels, [299, 299], method="bicubic", antialias=True)
    prepared = tf_keras.applications.inception_v3.preprocess_input(tf.clip_by_value(big, 0, 255))
    return network(prepared, training=False).numpy()


def test_inception_features_are_those_of_the_network(network, extract, weights):
    found, expected = extract(PIXELS), _direct(network, PIXELS)
    assert extract.name == "inception"
    assert extract.dimension == 2048
    assert extract.sha256 == hashlib.sha256(Path(weights).read_bytes()).hexdigest()
    assert found.shape == (3, 2048)
    assert found.dtype == np.float32
    spread = expected.std(axis=0).mean()
    assert np.abs(found - expected).mean() < 0.01 * spread
    resized = images.resized(PIXELS, 299, 299) / 127.5 - 1.0
    np.testing.assert_allclose(found, network(resized, training=False), atol=2.0**-13, rtol=1e-4)


def test_inception_features_do_not_depend_on_the_other_images(extract):
    together = extract(np.concatenate([PIXELS] * 7))  # more than one batch
    np.testing.assert_array_equal(together, np.concatenate([extract(PIXELS)] * 7))
    np.testing.assert_array_equal(extract(PIXELS[1:2]), together[1:2])
    assert extract(PIXELS[:0]).shape == (0, 2048)


def test_inception_features_lie_on_the_grid(extract):
    assert not (extract(PIXELS).astype(np.float64) % 2.0**-14).any()


def test_inception_grey_images_are_grey_colours(extract):
    grey = PIXELS[..., :1]
    np.testing.assert_array_equal(extract(grey), extract(np.repeat(grey, 3, axis=-1)))


def test_inception_wrong_pin_is_refused_before_loading(weights):
    with pytest.raises(ExtractorError, match=f"{weights} has [0-9a-f]{{64}}, but 0000"):
        create(ExtractorOptions(name="inception", weights=weights, sha256="0" * 64))


def test_inception_weights_of_something_else_are_refused_in_one_line(tmp_path):
    path = tmp_path / "weights.h5"
    path.write_bytes(b"no hdf5")
    with pytest.raises(ExtractorError, match="cannot be read into Inception v3") as caught:
        create(ExtractorOptions(name="inception", weights=str(path)))
    assert "\n" not in str(caught.value)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home folder without anything in Keras' cache."""
    path = tmp_path / "home"
    path.mkdir()
    monkeypatch.setenv("HOME", str(path))
    return path


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/w.h5", "https://127.0.0.1:9/w.h5"])
def test_inception_unreachable_url_is_one_line(url, home):
    with pytest.raises(ExtractorError) as caught:
        create(ExtractorOptions(name="inception", weights=url))
    assert str(caught.value).startswith(
        f"evaluation.extractor.weights: {url} cannot be downloaded (URL fetch failure"
    )
    assert str(caught.value).endswith("; download it elsewhere and give its path")
    assert "\n" not in str(caught.value)


@pytest.fixture
def server(tmp_path):
    """Serves two files of the same name; yields its URL and the paths that were asked for."""
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            asked.append(self.path)

    for folder in ("a", "b"):
        (tmp_path / "www" / folder).mkdir(parents=True)
        (tmp_path / "www" / folder / "weights.h5").write_text(folder)
    handler = functools.partial(Handler, directory=str(tmp_path / "www"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}", asked
        running.shutdown()
        thread.join()


def test_inception_url_is_downloaded_once_into_keras_cache(server, home):
    url, asked = server
    paths = [
        Path(inception.fetch(ExtractorOptions(name="inception", weights=f"{url}/{folder}/{name}")))
        for folder, name in (("a", "weights.h5"), ("b", "weights.h5"), ("a", "weights.h5"))
    ]
    assert [path.read_text() for path in paths] == ["a", "b", "a"]
    assert asked == ["/a/weights.h5", "/b/weights.h5"]
    assert {path.parent for path in paths} == {home / ".keras" / "models"}


def test_inception_url_of_other_weights_than_pinned_is_refused(server, home):
    url, _ = server
    options = ExtractorOptions(name="inception", weights=f"{url}/a/weights.h5", sha256="0" * 64)
    with pytest.raises(ExtractorError, match=r"downloaded \(Incomplete or corrupted") as caught:
        create(options)
    assert "\n" not in str(caught.value)


def test_inception_without_weights_takes_those_that_keras_keeps(home):
    name = "inception_v3_weights_tf_dim_ordering_tf_kernels_notop.h5"
    assert inception._KERAS_URL == inception_v3.WEIGHTS_PATH_NO_TOP
    assert inception._cached_name(inception._KERAS_URL) == name
    assert inception._KERAS_MD5 in inspect.getsource(inception_v3)


def test_inception_saved_model_sees_images_of_its_size_from_0_to_1(tmp_path):
    def network(image):
        size = tf.cast(tf.shape(image)[1:3], tf.float32)
        largest = tf.reduce_max(image, [1, 2, 3])
        return {
            "features": tf.concat(
                [tf.tile(size[None], [tf.shape(image)[0], 1]), largest[:, None]], 1
            )
        }

    module = tf.Module()
    spec = tf.TensorSpec([None, None, None, 3], tf.float32, name="inputs")
    module.call = tf.function(network, input_signature=[spec])
    tf.saved_model.save(module, str(tmp_path), {"serving_default": module.call})
    extract = create(ExtractorOptions(name="inception", weights=str(tmp_path)))
    assert extract.name == "inception"
    np.testing.assert_allclose(extract(PIXELS[2:]), [[299, 299, 1]], atol=0.02)
