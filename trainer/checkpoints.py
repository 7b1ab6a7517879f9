"""Checkpoints of a training run: written in the background, verified before they are used.

One folder per checkpoint, `step-00000500/`; its format is in `checkpoint_files`. It is filled
under a temporary name, synced to disk and renamed: on a local disk a kill at any moment leaves
the checkpoints that were there, and at most a temporary folder. Object stores rename one file at
a time: there the record is moved last, and the checks on reading protect.

One process writes to a folder at a time, the chief of the run that owns it. So temporary folders
that are there before its first write are of a dead process, and are swept then; not earlier:
workers that only read must not sweep. Nothing in here is a collective.
"""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures

import tensorflow as tf

from trainer import checkpoint_files as files
from trainer.checkpoint_files import REFUSALS, UnusableError
from trainer.errors import TrainerError
from trainer.history import History

#: In front of the name of a checkpoint that is being replaced by another of its step.
_ASIDE = "old-"
_NAME = re.compile(rf"(?:{_ASIDE})?step-(\d{{8,}})")
_TEMPORARY = "tmp-"


class NonFiniteError(TrainerError):
    """A variable holds NaN or an infinity: not worth a checkpoint."""


class Checkpoints:
    """The checkpoints of one run.

    Args:
      folder: that holds them; local or anything `tf.io.gfile` opens.
      variables: live variables by names that never change. Mirrored ones are read from their
        primary copy, and written to all. Ones that are aggregated on reading are refused.
      keep: number of newest checkpoints that stay. The checkpoint that is the best in the history
        of one of these stays, too.
      report: takes one line for the user; also called from another thread.

    Raises:
      ValueError: a variable is aggregated over the replicas on reading: that would need all
        workers, and not give back the bits of each replica.
    """

    def __init__(
        self,
        folder: str,
        variables: Mapping[str, tf.Variable],
        *,
        keep: int,
        report: Callable[[str], None],
    ):
        for name, variable in variables.items():
            if variable.synchronization == tf.VariableSynchronization.ON_READ:
                raise ValueError(
                    f"variable {name} is aggregated on reading and cannot be in a checkpoint; "
                    "allowed: variables whose copies are all the same"
                )
        self._folder = folder.rstrip("/")
        self._variables = dict(variables)
        self._signature = {
            name: [variable.dtype.name, variable.shape.as_list()]
            for name, variable in variables.items()
        }
        self._keep = keep
        self._report = report
        self._token = uuid.uuid4().hex[:12]
        self._swept = False
        self._thread = futures.ThreadPoolExecutor(1, "checkpoints")  # joined when the process ends
        self._writing: futures.Future[None] | None = None
        self._newest: int | None = None
        self._histories: dict[int, History | None] = {}  # None: that checkpoint is broken

    def save(self, step: int, history: History) -> None:
        """Copies all variables to the host, and writes them in the background.

        Waits for the write before it: there is never more than one copy. A checkpoint of the same
        step is replaced. A write that fails is reported and leaves nothing behind.

        Args:
          step: generator updates done.
          history: up to this step.

        Raises:
          NonFiniteError: names the first variable that is not finite; nothing is written.
        """
        self.wait()
        tensors = {name: _host_copy(name, variable) for name, variable in self._variables.items()}
        self._writing = self._thread.submit(self._write, step, history, tensors)

    def wait(self) -> int | None:
        """Waits for the write in progress.

        Returns:
          Newest step that is known to be saved whole; None: none is.
        """
        if self._writing is not None:
            futures.wait([self._writing])  # interrupted in here, it is waited for next time
            written, self._writing = self._writing, None
            written.result()
        return self._newest

    def close(self) -> None:
        """Waits for the write in progress; nothing can be saved after it."""
        self.wait()
        self._thread.shutdown()

    def steps(self) -> list[int]:
        """Steps of the checkpoints that are there by name, oldest first; not verified."""
        if not tf.io.gfile.isdir(self._folder):
            return []
        found = map(_NAME.fullmatch, files.names(self._folder))
        return sorted({int(name[1]) for name in found if name})

    def restore_newest(self, steps: Sequence[int] | None = None) -> tuple[int, History] | None:
        """Restores the newest checkpoint that is whole; others are reported and passed over.

        Args:
          steps: to try instead, in this order.

        Returns:
          Its step and history; None: there is no whole one, and no variable was touched.
        """
        self.wait()
        for step in self.steps()[::-1] if steps is None else steps:
            try:
                history, tensors = files.read(self._path(step), step, self._signature)
            except UnusableError as error:
                self._pass_over(step, error)
                continue
            self._assign(step, history, tensors)
            return step, history
        return None

    def restore(self, step: int) -> History:
        """Restores this very checkpoint.

        Raises:
          TrainerError: it is not there, or not whole; no variable was touched.
        """
        self.wait()
        history, tensors = self._read(step)
        self._assign(step, history, tensors)
        return history

    def roll_back(self, step: int, history: History) -> None:
        """Makes `step` the newest checkpoint, with another history, and restores it.

        The history is replaced first; then newer checkpoints go, the newest last. A run that is
        killed before this last one is gone begins again at it, as if nothing had happened; after
        it, at `step` with the new history. Where several workers train, the chief alone calls
        this, and the others `restore(step)` when it is done.

        Raises:
          TrainerError: the checkpoint is not whole, or the folder could not be changed; no
            variable was touched.
        """
        self.wait()
        _, tensors = self._read(step)
        try:
            files.replace_history(self._path(step), step, history)
            for newer in [other for other in self.steps() if other > step]:
                self._delete(newer)
        except REFUSALS as error:
            raise TrainerError(
                f"cannot go back to the checkpoint of step {step} ({files.reason(error)}); "
                f"{self._folder} must be writable"
            ) from error
        self._assign(step, history, tensors)

    def _read(self, step: int) -> tuple[History, list[tf.Tensor]]:
        try:
            return files.read(self._path(step), step, self._signature)
        except UnusableError as error:
            there = ", ".join(map(str, self.steps())) or "none"
            raise TrainerError(
                f"checkpoint of step {step} in {self._folder} cannot be restored: {error}; "
                f"checkpoints there: {there}"
            ) from error

    def _assign(self, step: int, history: History, tensors: list[tf.Tensor]) -> None:
        for variable, tensor in zip(self._variables.values(), tensors, strict=True):
            variable.assign(tensor)
        self._remember(step, history)

    def _remember(self, step: int, history: History) -> None:
        self._newest = step
        self._histories[step] = history

    def _write(self, step: int, history: History, tensors: dict[str, tf.Tensor]) -> None:
        temporary = self._temporary(step)
        try:
            self._sweep()
            files.write(temporary, step, history, tensors)
            self._put(temporary, step)
        except REFUSALS as error:
            with contextlib.suppress(*REFUSALS):
                tf.io.gfile.rmtree(temporary)
            last = "there is no good one before it"
            if self._newest is not None:
                last = f"the last good one is of step {self._newest}"
            self._report(
                f"checkpoint of step {step} could not be saved ({files.reason(error)}); {last}; "
                "training goes on"
            )
            return
        self._remember(step, history)
        try:
            self._delete_old(step)
        except REFUSALS as error:
            self._report(
                f"old checkpoints in {self._folder} could not be deleted ({files.reason(error)}); "
                "training goes on"
            )

    def _put(self, temporary: str, step: int) -> None:
        """Gives a filled folder its name; one that has it is set aside."""
        path, aside = self._place(step), self._place(step, _ASIDE)
        if tf.io.gfile.isdir(path):
            self._remove(aside)
            files.move(path, aside)
        files.move(temporary, path)

    def _delete_old(self, step: int) -> None:
        """Deletes what need not be kept, up to `step`, which was just saved."""
        there = [other for other in self.steps() if other <= step]
        histories = {other: self._history(other) for other in there}
        whole = {other: history for other, history in histories.items() if history is not None}
        kept = set(sorted(whole)[-self._keep :])
        kept |= {best.step for other in kept if (best := whole[other].best)} & whole.keys()
        for other in there:
            if other not in kept:
                self._delete(other)
            elif tf.io.gfile.isdir(self._place(other)):
                self._remove(self._place(other, _ASIDE))

    def _history(self, step: int) -> History | None:
        """Of a checkpoint that is there; None: it is broken."""
        if step not in self._histories:
            try:
                self._histories[step] = files.read_history(self._path(step), step)
            except UnusableError as error:
                self._pass_over(step, error)
        return self._histories[step]

    def _pass_over(self, step: int, error: UnusableError) -> None:
        self._histories[step] = None
        self._report(f"checkpoint of step {step} is passed over: {error}")

    def _delete(self, step: int) -> None:
        self._remove(self._place(step, _ASIDE))
        self._remove(self._place(step))
        self._histories.pop(step, None)

    def _remove(self, path: str) -> None:
        if tf.io.gfile.isdir(path):
            files.remove(path, through=self._temporary(os.path.basename(path)))

    def _sweep(self) -> None:
        if self._swept or not tf.io.gfile.isdir(self._folder):
            return
        self._swept = True
        for name in files.names(self._folder):
            if name.startswith(_TEMPORARY):
                with contextlib.suppress(*REFUSALS):  # in nobody's way
                    tf.io.gfile.rmtree(os.path.join(self._folder, name))

    def _place(self, step: int, aside: str = "") -> str:
        return os.path.join(self._folder, f"{aside}step-{step:08d}")

    def _path(self, step: int) -> str:
        """Where the checkpoint of a step is: set aside, if a kill came between two renamings."""
        path, aside = self._place(step), self._place(step, _ASIDE)
        return aside if tf.io.gfile.isdir(aside) and not tf.io.gfile.isdir(path) else path

    def _temporary(self, what: int | str) -> str:
        return os.path.join(self._folder, f"{_TEMPORARY}{self._token}-{what}")


def _host_copy(name: str, variable: tf.Variable) -> tf.Tensor:
    """A variable's value now, on the host. Later updates leave it as it is."""
    value = variable.read_value()
    with tf.device("/CPU:0"):
        value = tf.identity(value)
        if value.dtype.is_floating:
            try:
                tf.debugging.check_numerics(value, name)
            except tf.errors.InvalidArgumentError as error:
                raise NonFiniteError(f"variable {name} is not finite") from error
    return value
