"""Images of a data set larger than memory: one local file, written once and memory-mapped.

The file is named after what it was made from: path, size and time of change of every source file,
and how they were read. A source that is replaced by another of the same path and size within the
resolution of its file system's clock is not noticed; TFX never writes a file of examples twice.

Layout: the pixels in the order of reading, the columns (`rows` int64 [N], `labels` int32 [N]), a
footer of JSON, its length (8 bytes, little endian), and a magic word. The file appears whole, by
renaming, and what is short, torn or foreign is written anew.

A folder keeps the `KEEP` files that were used last. Whoever writes holds the folder's lock, so
that processes of one machine write a file once, and unfinished ones of a dead process go.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import mmap
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import tensorflow as tf

from trainer.columns import Columns
from trainer.errors import TrainerError

#: A run's training and evaluation images; others make room.
KEEP = 2
_MAGIC = b"tfx-wgan images 1\n"
_SUFFIX, _PART = ".images", ".part"
#: Images whose pixels are checked when a file is opened, spread over it.
_CHECKED = 64


class ImageCache:
    """The place of one data set's file.

    Args:
      folder: local; made when it is written to.
      sources: files that the images come from, local or remote.
      image_bytes: size of every image.
      labelled: whether labels are read.
    """

    def __init__(self, folder: str, sources: Iterable[str], *, image_bytes: int, labelled: bool):
        identity = [image_bytes, labelled, *map(_identity, sources)]
        key = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]
        self._folder = Path(folder)
        self._path = self._folder / f"{key}{_SUFFIX}"
        self._image_bytes = image_bytes

    def open(self) -> tuple[np.ndarray, Columns] | None:
        """The images as a read-only map, uint8 [N, image_bytes], if the file is there and sound."""
        try:
            found = _open(self._path, self._image_bytes)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        with contextlib.suppress(OSError):  # another user's
            os.utime(self._path)  # used now
        return found

    def build(
        self,
        parts: Iterable[np.ndarray],
        columns: Callable[[], Columns],
        report: Callable[[str], None],
    ) -> tuple[np.ndarray, Columns]:
        """Writes the file, unless another process just did, and opens it.

        Args:
          parts: the images in turn, uint8 [n, image_bytes] each.
          columns: asked after the last part.
          report: told that there is something to wait for.

        Raises:
          TrainerError: it cannot be written.
        """
        try:
            with self._locked(report):
                found = self.open()
                if not found:
                    self._make_room()
                    report(f"images go to a memory-mapped file, {self._path}")
                    self._write(parts, columns)
                    found = _open(self._path, self._image_bytes)
                return found
        except OSError as error:
            raise TrainerError(
                f"image cache {self._folder}: cannot be written ({error.strerror}); free space "
                "there, or raise training.input_memory_bytes to hold the images in memory"
            ) from error

    @contextlib.contextmanager
    def _locked(self, report: Callable[[str], None]) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with open(self._folder / "lock", "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                report(f"waiting for another process that writes images to {self._folder}")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _make_room(self) -> None:
        """Removes files that nobody has used lately; a process that has one mapped keeps it."""
        for part in self._folder.glob(f"*{_PART}"):
            part.unlink()
        files = sorted(self._folder.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime)
        for path in files[: max(0, len(files) - (KEEP - 1))]:
            path.unlink()

    def _write(self, parts: Iterable[np.ndarray], columns: Callable[[], Columns]) -> None:
        temporary = self._path.with_suffix(f".{os.getpid()}{_PART}")
        try:
            with open(temporary, "wb") as file:
                for part in parts:
                    file.write(part.data)
                _write_end(file, columns(), self._image_bytes)
                os.fsync(file.fileno())  # or a power cut might leave the name and not the bytes
            temporary.rename(self._path)
        finally:
            temporary.unlink(missing_ok=True)


def _identity(path: str) -> tuple[str, int, int]:
    if "://" not in path:  # TensorFlow would round the time to seconds
        local = os.stat(path)
        return os.path.abspath(path), local.st_size, local.st_mtime_ns
    status = tf.io.gfile.stat(path)
    return path, int(status.length), int(status.mtime_nsec)


def _write_end(file: BinaryIO, columns: Columns, image_bytes: int) -> None:
    """Writes what follows the pixels."""
    file.write(columns.rows.data)
    file.write(columns.labels.data)
    file.flush()
    pixels = _map(Path(file.name), len(columns.rows), image_bytes)
    footer = {
        "images": len(columns.rows),
        "classes": columns.classes,
        "fingerprint": columns.fingerprint,
        "checksum": _checksum(pixels, columns),
    }
    text = json.dumps(footer).encode()
    file.write(text + len(text).to_bytes(8, "little") + _MAGIC)
    file.flush()


def _open(path: Path, image_bytes: int) -> tuple[np.ndarray, Columns]:
    """Opens and checks a file.

    Raises:
      OSError: there is none.
      ValueError, KeyError, TypeError: it is not what it should be.
    """
    with open(path, "rb") as file:
        end = file.seek(0, os.SEEK_END) - len(_MAGIC) - 8
        file.seek(max(end, 0))
        length = int.from_bytes(file.read(8), "little")
        if file.read() != _MAGIC or length > end:
            raise ValueError("not a whole file")
        file.seek(end - length)
        footer = json.loads(file.read(length))
        images = int(footer["images"])
        if end - length != images * (image_bytes + 12):
            raise ValueError("not a whole file")
        file.seek(images * image_bytes)
        columns = Columns(
            rows=np.fromfile(file, np.int64, images),
            labels=np.fromfile(file, np.int32, images),
            classes=int(footer["classes"]),
            fingerprint=str(footer["fingerprint"]),
        )
    pixels = _map(path, images, image_bytes)
    if _checksum(pixels, columns) != footer["checksum"]:
        raise ValueError("other bytes than were written")
    return pixels, columns


def _map(path: Path, images: int, image_bytes: int) -> np.ndarray:
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), images * image_bytes, access=mmap.ACCESS_READ)
    if len(mapped) > os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE:
        # Nothing that is read ahead would still be there when it is wanted.
        mapped.madvise(mmap.MADV_RANDOM)
    return np.frombuffer(mapped, np.uint8).reshape(images, image_bytes)


def _checksum(pixels: np.ndarray, columns: Columns) -> str:
    """Of the columns, and of some images: reading all of them would take as long as an epoch."""
    digest = hashlib.sha256(columns.rows.data)
    digest.update(columns.labels.data)
    digest.update(pixels[:: max(1, len(pixels) // _CHECKED)].tobytes())
    return digest.hexdigest()
