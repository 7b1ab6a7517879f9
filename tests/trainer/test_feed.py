"""The order examples are trained in, and how they reach the replicas."""

import contextlib
import hashlib
import queue
import threading

import numpy as np
import pytest
import tensorflow as tf

from trainer import data, feed

CRITIC_STEPS = 3


def _order(examples=10, seed=0, batch_size=4, **kwargs):
    return feed.BatchOrder(
        examples, seed=seed, batch_size=batch_size, critic_steps=CRITIC_STEPS, **kwargs
    )


def _stream(order, steps, first=0):
    """All indices of consecutive steps, a batch at a time."""
    return np.concatenate(
        [order.indices(step, j) for step in range(first, first + steps) for j in range(3)]
    )


def test_order_is_the_one_it_has_always_been():
    """Checkpoints go on with the same batches under a later version."""
    order = _order()
    batches = [order.indices(*place).tolist() for place in ((0, 0), (0, 2), (7, 1))]
    assert batches == [[0, 7, 8, 6], [2, 4, 9, 4], [9, 2, 7, 8]]
    assert _order(variant=1).indices(0, 0).tolist() == [3, 2, 9, 7]
    far = _order(10**6, seed=2**31 - 1).indices(10**9, 2)
    assert far.tolist() == [738764, 293105, 34176, 479614]
    assert far.dtype == np.int64


@pytest.mark.parametrize(("examples", "batch_size"), [(10, 4), (3, 8), (8, 8), (1, 5), (97, 6)])
@pytest.mark.parametrize("seed", [0, 7, 2**31 - 1])
@pytest.mark.parametrize("variant", [0, 1, 2])
def test_order_is_a_pure_function_of_seed_variant_and_place(examples, batch_size, seed, variant):
    def new():
        return _order(examples, seed, batch_size, variant=variant)

    steps = 2 * examples
    whole = _stream(new(), steps)
    # From any step on, as a run that goes on does, in whatever pieces: the same stream.
    random = np.random.default_rng(examples)
    for first in random.integers(0, steps, 4):
        place = first * CRITIC_STEPS * batch_size
        np.testing.assert_array_equal(_stream(new(), steps - first, first), whole[place:])
        count = random.integers(1, 6)
        block = new().block(first, count)
        assert block.shape == (count, CRITIC_STEPS, batch_size)
        np.testing.assert_array_equal(block.ravel(), _stream(new(), count, first))
    backwards, order = whole.reshape(steps, CRITIC_STEPS, batch_size), new()
    for step in reversed(range(steps)):
        for j in reversed(range(CRITIC_STEPS)):
            np.testing.assert_array_equal(order.indices(step, j), backwards[step, j])
    # Each epoch has every example once.
    epochs = whole[: len(whole) // examples * examples].reshape(-1, examples)
    assert len(epochs) >= 2 * CRITIC_STEPS
    assert (np.sort(epochs, axis=1) == np.arange(examples)).all()


def test_order_epochs_seeds_and_variants_are_shuffles_of_their_own():
    shuffles = [
        epoch.tolist()
        for seed in (0, 1)
        for variant in (0, 1, 2)
        for epoch in _stream(_order(60, seed, 20, variant=variant), 3).reshape(3, 60)
    ]
    assert len({tuple(shuffle) for shuffle in shuffles}) == 18
    assert list(range(60)) not in shuffles


def test_order_critic_steps_get_fresh_batches():
    assert len(set(_stream(_order(12), 1))) == 12


IMAGES = np.random.default_rng(3).integers(0, 256, (23, 4, 4, 3), np.uint8)
#: Numbers of the images in the order of the ids that `write_examples` gives them.
BY_ID = np.array(sorted(range(23), key=lambda i: hashlib.sha256(str(i).encode()).hexdigest()))


@pytest.fixture(scope="module", params=["memory", "mapped"])
def dataset(request, write_examples, tmp_path_factory):
    """The same 23 examples, held in memory or in a file; labels are the images' numbers."""
    folder = tmp_path_factory.mktemp("examples")
    write_examples(folder / "a.gz", IMAGES, np.arange(23))
    dataset = data.load(
        [str(folder / "a.gz")],
        image_size=4,
        channels=3,
        labelled=True,
        memory_bytes=2**20 if request.param == "memory" else 0,
        cache_dir=str(folder / "cache"),
    )
    assert (folder / "cache").exists() == (request.param == "mapped")
    return dataset


@contextlib.contextmanager
def _feed(dataset, replicas=1):
    strategy = tf.distribute.MirroredStrategy([f"/CPU:{i}" for i in range(replicas)])
    order = _order(len(dataset))
    source = feed.Feed(
        dataset, order, strategy, batch_size=4, critic_steps=CRITIC_STEPS, steps_per_call=3
    )
    try:
        yield source, strategy.experimental_local_results
    finally:
        source.close()


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_feed_replicas_get_consecutive_slices_of_the_global_batch(dataset, replicas):
    with _feed(dataset, replicas) as (source, local):
        # The third is not the one that was announced, and then training goes back.
        for first, then in ((0, 3), (3, 6), (9, 12), (12, None), (0, None)):
            pixels, labels = map(local, source.chunk(first, then=then))
            assert [p.shape for p in pixels] == [(3, 3, 4 // replicas, 4, 4, 3)] * replicas
            assert [p.dtype for p in pixels + labels] == [tf.uint8] * replicas + [
                tf.int32
            ] * replicas
            expected = BY_ID[_order(23).block(first, 3)]
            np.testing.assert_array_equal(np.concatenate(labels, axis=2), expected)
            np.testing.assert_array_equal(np.concatenate(pixels, axis=2), IMAGES[expected])


@pytest.fixture
def recorded():
    """A data set that tells what is gathered, and fails when it is told to."""

    class Recorded(data.Dataset):
        gathered = queue.SimpleQueue()
        fails = False

        def gather(self, indices):
            self.gathered.put((threading.current_thread().name, indices))
            if self.fails:
                raise OSError("disk is gone")
            return super().gather(indices)

    return Recorded.of_arrays(IMAGES, np.arange(23))


def test_feed_the_next_chunk_is_gathered_in_the_background_and_once(recorded):
    with _feed(recorded, replicas=2) as (source, _):
        source.chunk(0, then=3)
        # Two replicas and two chunks, the second without anybody having asked for it.
        rows = []
        for _ in range(4):
            thread, indices = recorded.gathered.get(timeout=10)
            assert thread.startswith("feed")
            rows.append(indices)
        np.testing.assert_array_equal(np.concatenate(rows[2:], axis=2), _order(23).block(3, 3))
        source.chunk(3)
    assert recorded.gathered.empty()


def test_feed_an_error_in_the_background_comes_out_and_the_thread_ends(recorded):
    type(recorded).fails = True
    with _feed(recorded) as (source, _), pytest.raises(OSError, match="disk is gone"):
        source.chunk(0)
    assert not [t for t in threading.enumerate() if t.name.startswith("feed")]
