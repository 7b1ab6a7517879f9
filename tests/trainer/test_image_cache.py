"""The memory-mapped file that holds images larger than memory."""

import os
import resource
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

from trainer import data
from trainer.columns import Columns
from trainer.errors import TrainerError
from trainer.image_cache import KEEP, ImageCache

IMAGES = np.random.default_rng(0).integers(1, 256, (300, 4, 4, 1), np.uint8)
LABELS = np.arange(300) % 3


@pytest.fixture
def source(write_examples, tmp_path):
    path = tmp_path / "examples" / "a.gz"
    write_examples(path, IMAGES, LABELS)
    return path


@pytest.fixture
def load(tmp_path):
    """`data.load` into a file in `tmp_path / "cache"`, and what was reported."""

    def load_(path, cache_dir=tmp_path / "cache", labelled=True):
        dataset = data.load(
            [str(path)],
            image_size=4,
            channels=1,
            labelled=labelled,
            memory_bytes=0,
            cache_dir=str(cache_dir),
            report=load_.reported.append,
        )
        images, labels = dataset.gather(np.arange(len(dataset)))
        return dataset.fingerprint, images.tobytes(), labels.tobytes()

    load_.reported = []
    return load_


def _files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "lock")


def test_cache_is_written_once_and_then_used(load, source, tmp_path):
    first = load(source)
    assert len(_files(tmp_path / "cache")) == 1
    assert str(tmp_path / "cache") in load.reported[0]
    # Other bytes under the same path, size and time are not looked at.
    status = source.stat()
    source.write_bytes(b"x" * status.st_size)
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert load(source) == first
    assert len(load.reported) == 1
    # A source that changed is read.
    os.utime(source)
    with pytest.raises(TrainerError, match="not 4x4x1 examples"):
        load(source)


def test_cache_of_labelled_images_is_not_that_of_unlabelled_ones(load, source):
    assert np.frombuffer(load(source)[2], np.int32).any()
    assert not np.frombuffer(load(source, labelled=False)[2], np.int32).any()


def _truncated(content: bytes) -> bytes:
    return content[:-1]


def _headless(content: bytes) -> bytes:
    return content[16:]


def _half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _hole(content: bytes) -> bytes:
    """As a file system may leave it after a power cut."""
    return bytes(4096) + content[4096:]


def _other_order(content: bytes) -> bytes:
    rows = IMAGES.nbytes
    return content[: rows + 8] + content[rows : rows + 8] + content[rows + 16 :]


def _other_label(content: bytes) -> bytes:
    labels = IMAGES.nbytes + 8 * len(IMAGES)
    return content[: labels + 4] + bytes([content[labels + 4] ^ 1]) + content[labels + 5 :]


def _other_footer(content: bytes) -> bytes:
    return content.replace(b'"images": 300', b'"images": 299')


def _no_json(content: bytes) -> bytes:
    return content.replace(b'{"images"', b'["images"')


def _empty(content: bytes) -> bytes:
    return b""


def _foreign(content: bytes) -> bytes:
    return b"something else altogether " * 100


@pytest.mark.parametrize(
    "damage",
    [
        _truncated,
        _headless,
        _half,
        _hole,
        _other_order,
        _other_label,
        _other_footer,
        _no_json,
        _empty,
        _foreign,
    ],
)
def test_cache_that_is_damaged_is_written_anew(load, source, tmp_path, damage):
    sound = load(source)
    (file,) = (tmp_path / "cache").glob("*.images")
    content = file.read_bytes()
    assert damage(content) != content
    file.write_bytes(damage(content))
    assert load(source) == sound
    assert file.read_bytes() == content


def test_cache_unfinished_files_of_dead_processes_go(load, source, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "0123456789abcdef.999.part").write_bytes(b"half")
    load(source)
    (name,) = _files(tmp_path / "cache")
    assert name.endswith(".images")


def test_cache_keeps_the_files_that_were_used_last(load, source, write_examples, tmp_path):
    cache, paths = tmp_path / "cache", [source]
    for i in range(1, KEEP + 1):
        paths.append(tmp_path / "examples" / f"{i}.gz")
        write_examples(paths[-1], IMAGES[i:], LABELS[i:])
    for age, path in enumerate(paths[:KEEP]):
        load(path)
        (new,) = (f for f in cache.glob("*.images") if f.stat().st_mtime > 10**9)
        os.utime(new, (age, age))
    names = _files(cache)
    assert len(names) == KEEP
    oldest = min(cache.glob("*.images"), key=lambda file: file.stat().st_mtime).name
    load(source)  # the oldest is used again, so that the one after it has to go
    load(paths[KEEP])
    assert len(_files(cache)) == KEEP
    assert oldest in _files(cache)
    count = len(load.reported)
    load(source)
    assert len(load.reported) == count


def _cache(tmp_path, images):
    source = tmp_path / "source"
    if not source.exists():
        source.touch()
    columns = Columns(
        np.arange(len(images)), np.zeros(len(images), np.int32), classes=0, fingerprint="f"
    )
    cache = ImageCache(
        str(tmp_path / "cache"), [str(source)], image_bytes=images.shape[1], labelled=False
    )
    return cache, lambda: columns


def test_cache_holds_one_part_in_memory_at_a_time(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (2000, 48), np.uint8)
    cache, columns = _cache(tmp_path, images)
    alive = weakref.WeakSet()

    class Part(np.ndarray):
        """Can be referred to weakly."""

    def parts():
        for first in range(0, 2000, 100):
            assert len(alive) <= 1
            part = images[first : first + 100].copy().view(Part)
            alive.add(part)
            yield part
            del part

    Part.__hash__ = object.__hash__
    pixels, _ = cache.build(parts(), columns, lambda line: None)
    np.testing.assert_array_equal(pixels, images)
    with pytest.raises(ValueError, match="read-only"):
        pixels[0, 0] = 1


def test_cache_two_at_a_time_write_it_once(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (200, 48), np.uint8)
    begun, waiting = threading.Event(), threading.Event()
    caches = {name: _cache(tmp_path, images) for name in ("first", "second")}
    read, found = [], []

    def build(name):
        def parts():
            read.append(name)
            begun.set()
            assert waiting.wait(10)
            yield images

        def report(line):
            if line.startswith("waiting for another process"):
                waiting.set()

        cache, columns = caches[name]
        found.append(cache.build(parts(), columns, report)[0])

    first = threading.Thread(target=build, args=["first"])
    first.start()
    assert begun.wait(10)
    second = threading.Thread(target=build, args=["second"])
    second.start()
    for thread in (first, second):
        thread.join(10)
    assert read == ["first"]
    assert len(found) == 2
    for pixels in found:
        np.testing.assert_array_equal(pixels, images)


def test_cache_reading_that_fails_leaves_nothing(tmp_path):
    images = np.zeros([200, 48], np.uint8)
    cache, columns = _cache(tmp_path, images)

    def parts():
        yield images[:100]
        raise TrainerError("the rest is gone")

    with pytest.raises(TrainerError, match="the rest is gone"):
        cache.build(parts(), columns, lambda line: None)
    assert _files(tmp_path / "cache") == []
    assert cache.open() is None


def test_cache_without_room_is_one_line_that_names_folder_and_setting(tmp_path):
    images = np.zeros([2, 2**20], np.uint8)
    cache, columns = _cache(tmp_path, images)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20 + 1, limits[1]))
    try:
        with pytest.raises(
            TrainerError,
            match=r"cache: cannot be written \(File too large\); .* training.input_memory_bytes",
        ) as error:
            cache.build(iter(images[:, None]), columns, lambda line: None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(tmp_path) in str(error.value)
    assert _files(tmp_path / "cache") == []


def test_cache_folder_that_cannot_be_made_is_one_line(load, source, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(TrainerError, match=r"image cache .*file/cache: cannot be written \(Not a"):
        load(source, cache_dir=tmp_path / "file" / "cache")
