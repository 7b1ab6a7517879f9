"""One training run: when to log, to save, to stop and to export."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

import tensorflow as tf

from trainer import data, export, folder, grid, loop, networks, result, strategy
from trainer.errors import TrainingInterrupted
from trainer.options import TrainingJob, TrainingOptions
from trainer.progress import Progress, console
from trainer.step import State, to_pixels

#: Rows and columns of a sample grid.
GRID = 8


def run(job: TrainingJob, interrupted: Callable[[], bool] = lambda: False) -> None:
    """Trains, or goes on training, and exports. Must come before TensorFlow picks devices.

    Args:
      job: what to train, and where to write.
      interrupted: asked between calls into the device loop; true: save and stop.

    Raises:
      TrainerError: training cannot be done as asked.
      TrainingInterrupted: stopped; the state is saved.
    """
    devices = strategy.connect(job.training)
    dataset = data.load(
        job.train_files,
        image_size=job.image_size,
        channels=job.channels,
        labelled=bool(job.class_names),
    )
    work_dir = os.path.join(job.work_dir, folder.key(job, dataset.fingerprint))
    Training(job, devices, dataset, work_dir, interrupted).run()


def classes(job: TrainingJob) -> int:
    """Number of labels the networks take; 0: unconditional."""
    return len(job.class_names) if job.model.conditional else 0


class Training:
    """The state of a run and everything that happens around its steps.

    Args:
      job: what to train.
      devices: that train.
      dataset: training data.
      work_dir: the run's stable folder.
      interrupted: true: save and stop.
    """

    def __init__(
        self,
        job: TrainingJob,
        devices: strategy.Devices,
        dataset: data.Dataset,
        work_dir: str,
        interrupted: Callable[[], bool],
    ):
        self._job = job
        self._options = job.training
        self._devices = devices
        self._dataset = dataset
        self._work_dir = work_dir
        self._interrupted = interrupted
        with devices.strategy.scope():
            self.state = State(
                job.model,
                job.training.optimizer,
                image_size=job.image_size,
                channels=job.channels,
                classes=classes(job),
                seed=job.training.seed,
            )
        checkpoint = tf.train.Checkpoint(**self.state.parts())
        self._checkpoints = tf.train.CheckpointManager(
            checkpoint,
            os.path.join(work_dir, "checkpoints"),
            max_to_keep=job.training.keep_checkpoints,
            step_counter=self.state.step,
        )
        self._images_per_step = job.training.global_batch_size * job.training.critic_steps

    @property
    def step(self) -> int:
        """Generator updates done."""
        return int(self.state.step.numpy())

    def run(self) -> None:
        """From the newest checkpoint to the export."""
        if self._checkpoints.latest_checkpoint:
            restored = self._checkpoints.checkpoint.restore(self._checkpoints.latest_checkpoint)
            restored.assert_existing_objects_matched()
        progress = Progress(
            console(),
            total=self._options.steps,
            done=self.step,
            images_per_step=self._images_per_step,
        )
        begun = f"going on from step {self.step}" if self.step else "from the start"
        progress.report(f"training on {self._devices.description}: {begun}, in {self._work_dir}")
        try:
            if self.step < self._options.steps:
                self._train(progress)
        finally:
            progress.close()
        if self._devices.is_chief:
            self._export()

    def _train(self, progress: Progress) -> None:
        options = self._options
        train = loop.build(self.state, options, self._devices.strategy)
        order = data.BatchOrder(
            len(self._dataset.images),
            seed=options.seed,
            batch_size=options.global_batch_size,
            critic_steps=options.critic_steps,
        )
        feed = data.Feed(
            self._dataset,
            order,
            self._devices.strategy,
            batch_size=options.global_batch_size,
            critic_steps=options.critic_steps,
            steps_per_call=options.steps_per_call,
        )
        log = _Log(self._job, self._work_dir, self.state, self._devices.is_chief)
        try:
            for first, end in calls(self.step, options):
                images, labels = feed.chunk(first, then=end if end < options.steps else None)
                metrics = train(images, labels, tf.constant(first, tf.int64), _count(first, end))
                self.state.step.assign(end)
                if is_due(end, options.log_every_steps, options):
                    values = log.metrics(end, metrics, self._images_per_step)
                    progress.metrics(values)
                if is_due(end, options.sample_every_steps, options):
                    log.samples(end)
                progress.advance(end)
                stop = end < options.steps and self._interrupted()
                if stop or is_due(end, options.checkpoint_every_steps, options):
                    self._save()
                if stop:
                    raise TrainingInterrupted(
                        f"training interrupted and saved at step {end} of {options.steps}: "
                        "run the same command again to go on"
                    )
        finally:
            feed.close()
            log.close()

    def _save(self) -> None:
        if self._devices.is_chief:
            self._checkpoints.save(self.step)

    def _export(self) -> None:
        export.save(
            self.state, self._job.model, self._job.export_dir, class_names=self._job.class_names
        )
        result.write(
            self._job,
            work_dir=self._work_dir,
            steps=self.step,
            strategy=self._devices.description,
        )


class _Log:
    """Metrics and samples: `metrics.jsonl` in the stable folder, TensorBoard in the log folder."""

    def __init__(self, job: TrainingJob, work_dir: str, state: State, is_chief: bool):
        self._state = state
        self._is_chief = is_chief
        self._since = (time.monotonic(), int(state.step.numpy()))
        self._latent = tf.random.stateless_normal(
            [GRID * GRID, state.latent_dim], [job.training.seed, -1], alg="philox"
        )
        self._label = tf.range(GRID * GRID, dtype=tf.int64) % max(state.classes, 1)
        if is_chief:
            self._file = folder.MetricsFile(
                os.path.join(work_dir, "metrics.jsonl"), int(state.step.numpy())
            )
            self._board = tf.summary.create_file_writer(job.log_dir)

    def metrics(
        self, step: int, metrics: dict[str, tf.Tensor], images_per_step: int
    ) -> dict[str, float]:
        """Writes the metrics of a step; images per second are the critic's real ones."""
        values = {name: float(value) for name, value in metrics.items()}
        now = time.monotonic()
        seconds, steps = now - self._since[0], step - self._since[1]
        values["images_per_second"] = round(steps * images_per_step / max(seconds, 1e-9), 1)
        self._since = (now, step)
        if self._is_chief:
            self._file.append({"step": step, **values})
            with self._board.as_default(step=step):
                for name, value in values.items():
                    tf.summary.scalar(name, value)
        return values

    def samples(self, step: int) -> None:
        """Writes a grid of the average generator's images, always of the same latents."""
        if not self._is_chief:
            return
        label = self._label if self._state.conditional else None
        images = to_pixels(networks.call(self._state.ema_generator, self._latent, label))
        picture = grid.tile(images.numpy(), columns=GRID)
        with self._board.as_default(step=step):
            tf.summary.image("samples", picture[None])

    def close(self) -> None:
        if self._is_chief:
            self._board.close()


def calls(step: int, options: TrainingOptions) -> Iterator[tuple[int, int]]:
    """Pieces of at most `steps_per_call` steps, none of which crosses a step that has an event.

    Args:
      step: steps done.
      options: of the training.

    Yields:
      First and last (exclusive) step of each call.
    """
    cadences = (
        options.steps_per_call,
        options.log_every_steps,
        options.sample_every_steps,
        options.checkpoint_every_steps,
    )
    while step < options.steps:
        end = min(options.steps, *((step // every + 1) * every for every in cadences))
        yield step, end
        step = end


def is_due(step: int, every: int, options: TrainingOptions) -> bool:
    """Whether something that happens every so many steps, and at the end, happens now."""
    return step % every == 0 or step == options.steps


def _count(first: int, end: int) -> tf.Tensor:
    return tf.constant(end - first, tf.int64)
