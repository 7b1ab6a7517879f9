"""What is written about a run while it goes on: metrics, sample pictures, TensorBoard's files."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping

import tensorflow as tf

from trainer import folder, grid, networks, noise
from trainer.checkpoint_files import REFUSALS, reason
from trainer.errors import TrainerError
from trainer.noise import Purpose
from trainer.options import TrainingJob
from trainer.state import State
from trainer.step import to_pixels
from trainer.validation import Measurement

#: Rows and columns of a sample grid.
GRID = 8


class Monitor:
    """Curves, histograms and samples; only the chief has one.

    Everything that writes raises TrainerError where there is no room, or no right, to write.

    `metrics.jsonl` and `samples/` are in the stable folder, TensorBoard's files are in the
    execution's own.

    Args:
      job: what is trained.
      work_dir: the stable folder.
      state: what is trained.
      clock: seconds that only go forward.
    """

    def __init__(
        self,
        job: TrainingJob,
        work_dir: str,
        state: State,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._work_dir, self._log_dir = work_dir, job.log_dir
        self._state = state
        self._clock = clock
        self._images_per_step = job.training.global_batch_size * job.training.critic_steps
        self._latent = noise.fixed_normal(
            job.training.seed, Purpose.SAMPLE_LATENT, [GRID * GRID, state.latent_dim]
        )
        self._label = tf.range(GRID * GRID, dtype=tf.int64) % max(state.classes, 1)
        self._file = folder.MetricsFile(os.path.join(work_dir, "metrics.jsonl"))
        self._pictures = folder.SampleFiles(os.path.join(work_dir, "samples"))
        with self._writing():
            self._board = tf.summary.create_file_writer(job.log_dir)

    def begin(self, step: int) -> None:
        """Forgets what lies beyond a step, it is trained again; draws what training begins with."""
        with self._writing():
            self._file.cut(step)
            self._pictures.cut(step)
        if step == 0:
            self.samples(step)
        self._since = (self._clock(), step)

    def metrics(
        self, step: int, metrics: Mapping[str, float], measured: Measurement | None
    ) -> dict[str, float]:
        """Writes the metrics of a step.

        Args:
          step: generator updates done.
          metrics: of the last step.
          measured: on held-out images, if that was done at this step.

        Returns:
          What was written: images per second are the critic's real ones, since the line before.
        """
        now = self._clock()
        seconds, steps = now - self._since[0], step - self._since[1]
        self._since = (now, step)
        values = {
            **metrics,
            **(measured.metrics() if measured else {}),
            "images_per_second": round(steps * self._images_per_step / max(seconds, 1e-9), 1),
        }
        with self._writing():
            self._file.append({"step": step, **values})
        with self._writing(), self._board.as_default(step=step):
            for name, value in values.items():
                tf.summary.scalar(name, value)
            if measured:
                tf.summary.histogram("gradient_norms", measured.gradient_norms)
        return values

    def samples(self, step: int) -> None:
        """Writes a grid of the average generator's images, always of the same latents."""
        label = self._label if self._state.conditional else None
        latent = tf.cast(self._latent, self._state.dtype)
        images = to_pixels(networks.call(self._state.ema_generator, latent, label))
        picture = grid.tile(images.numpy(), columns=GRID)
        with self._writing():
            self._pictures.write(step, picture)
        with self._writing(), self._board.as_default(step=step):
            tf.summary.image("samples", picture[None])

    def close(self) -> None:
        """Writes what is still in memory."""
        with self._writing():
            self._board.close()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except REFUSALS as error:
            raise TrainerError(
                f"metrics and samples in {self._work_dir} and {self._log_dir} cannot be written "
                f"({reason(error)}): training was stopped, its checkpoints are whole; make room "
                "and run the same command again"
            ) from error
