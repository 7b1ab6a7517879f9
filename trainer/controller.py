"""One training run: when to log, to measure, to save, to go back, to stop and to export."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable

from trainer import cluster, guard, inputs, loop, strategy
from trainer.cadence import calls, is_due
from trainer.checkpoints import Checkpoints
from trainer.errors import TrainerError, TrainingInterrupted
from trainer.feed import BatchOrder, Feed
from trainer.history import History, Rollback, Validation
from trainer.monitor import Monitor
from trainer.options import TrainingJob
from trainer.progress import Progress, console
from trainer.publishing import publish
from trainer.quality.extractors import ExtractorError
from trainer.state import State
from trainer.validation import Measurement, Validator, usable


def run(job: TrainingJob, interrupted: Callable[[], bool] = lambda: False) -> None:
    """Trains, or goes on training, and exports. Must come before TensorFlow picks devices.

    Args:
      job: what to train, and where to write.
      interrupted: asked between calls into the device loop; true: save and stop.

    Raises:
      TrainerError: training cannot be done as asked, or has been given up.
      TrainingInterrupted: stopped; the state is saved.
      PeerLost: another worker has gone.
    """
    devices = strategy.connect(job.training, interrupted)
    with cluster.losses_told() if devices.workers > 1 else contextlib.nullcontext():
        Training(job, devices, interrupted).run()


class Training:
    """The state of a run and everything that happens around its steps.

    Args:
      job: what to train.
      devices: that train.
      interrupted: true: save and stop.
    """

    def __init__(
        self, job: TrainingJob, devices: strategy.Devices, interrupted: Callable[[], bool]
    ):
        self._job = job
        self._options = job.training
        self._devices = devices
        self._interrupted = interrupted
        self._progress = Progress(
            console(),
            total=job.training.steps,
            images_per_step=job.training.global_batch_size * job.training.critic_steps,
        )
        self._inputs = inputs.read(job, self._progress.report)
        self._compare_with_chief()
        classes, heldout = inputs.classes(job), self._inputs.heldout
        with devices.strategy.scope():
            self.state = State(
                job.model,
                job.training,
                image_size=job.image_size,
                channels=job.channels,
                classes=classes,
            )
        self._validator = None
        if heldout is not None and len(usable(heldout, classes)) > 1 and devices.is_chief:
            try:
                self._validator = Validator(self.state, job.training, heldout, job.extractor)
            except ExtractorError as error:  # its files were there when the job was written
                raise TrainerError(str(error)) from error
        self._validates = devices.any(self._validator is not None and self._validator.can_measure)
        self._history = History()
        self._checkpoints = Checkpoints(
            os.path.join(self._work_dir, "checkpoints"),
            self.state.variables(),
            keep=job.training.keep_checkpoints,
            report=self._progress.report,
        )

    @property
    def _work_dir(self) -> str:
        return self._inputs.work_dir

    @property
    def step(self) -> int:
        """Generator updates done."""
        return int(self.state.step.numpy())

    def run(self) -> None:
        """From the newest checkpoint to the export."""
        try:
            begun = self._begin()
            self._progress.begin(self.step)
            self._progress.report(
                f"training on {self._devices.description}: {begun}, in {self._work_dir}"
            )
            if not self._validates:
                self._progress.report(
                    "no held-out images, or all alike: nothing is validated, and the last weights "
                    "are exported instead of the best"
                )
            if not self._is_done():
                self._train()
            if self._devices.is_chief:
                publish(
                    self._job,
                    self.state,
                    self._checkpoints,
                    self._history,
                    self._progress.report,
                    work_dir=self._work_dir,
                    strategy=self._devices.description,
                )
            self._devices.any(False)  # no worker leaves while another may still need it
        finally:
            self._progress.close()
            self._checkpoints.close()

    def _compare_with_chief(self) -> None:
        """Refuses workers that would train different things, or wait for each other for ever."""
        identity = f"{os.path.basename(self._work_dir)} {self._options.model_dump_json()}"
        mine = float(int(hashlib.sha256(identity.encode()).hexdigest()[:12], 16))
        if self._devices.any(self._devices.from_chief([mine])[0] != mine):
            raise TrainerError(
                "training: the workers were given different options or data, or versions of this "
                "code; start every one with the same"
            )

    def _begin(self) -> str:
        """Restores the newest checkpoint, or makes the first; says in words where it begins."""
        found = self._checkpoints.restore_newest() if self._devices.is_chief else None
        step = int(self._devices.from_chief([found[0] if found else -1])[0])
        if step < 0:
            begun, weights = "from the start", self._inputs.weights
            if weights:
                weights.assign_to(self.state)
                begun = f"with the weights of {weights.path}"
            self._save()  # what training goes back to; and a full disk shows before hours are spent
            if self._devices.any(self._devices.is_chief and self._checkpoints.wait() is None):
                raise TrainerError(
                    f"training cannot begin: nothing can be saved in {self._work_dir}, see above; "
                    "make room there and run the same command again"
                )
            return begun
        self._history = found[1] if found else self._checkpoints.restore(step)
        return f"going on from step {step}"

    def _is_done(self) -> bool:
        return self.step >= self._options.steps or guard.has_stalled(
            self._history, self._options.early_stop_validations
        )

    def _train(self) -> None:
        train = loop.build(self.state, self._options, self._devices.strategy)
        monitor = None
        if self._devices.is_chief:
            monitor = Monitor(self._job, self._work_dir, self.state)
        try:
            while not self._is_done():
                with contextlib.closing(self._feed()) as feed:
                    self._train_on(feed, train, monitor)
        finally:
            if monitor:
                monitor.close()

    def _feed(self) -> Feed:
        options = self._options
        order = BatchOrder(
            len(self._inputs.images),
            seed=options.seed,
            batch_size=options.global_batch_size,
            critic_steps=options.critic_steps,
            variant=len(self._history.rollbacks),
        )
        return Feed(
            self._inputs.images,
            order,
            self._devices.strategy,
            batch_size=options.global_batch_size,
            critic_steps=options.critic_steps,
            steps_per_call=options.steps_per_call,
        )

    def _train_on(self, feed: Feed, train: loop.TrainLoop, monitor: Monitor | None) -> None:
        """Trains until it is done, or until something is wrong and it was taken back."""
        options = self._options
        if monitor:
            monitor.begin(self.step)
        for first, end in calls(self.step, options):
            images, labels = feed.chunk(first, then=end if end < options.steps else None)
            outcome = train(images, labels, first, end - first)
            self.state.step.assign(end)
            before = self._history.best
            measured, fault = self._check(end, outcome)
            if fault:
                self._roll_back(first, end, fault)
                return
            if monitor and (measured or is_due(end, options.log_every_steps, options)):
                self._progress.metrics(monitor.metrics(end, outcome.last, measured))
            if monitor and is_due(end, options.sample_every_steps, options):
                monitor.samples(end)
            self._progress.advance(end)
            stop = end < options.steps and self._devices.any(self._interrupted())
            if (
                stop
                or self._is_done()
                or self._history.best is not before
                or is_due(end, options.checkpoint_every_steps, options)
            ):
                self._save()
            if end < options.steps and self._is_done():
                self._progress.report(
                    f"training ends at step {end}: no better validation distance in "
                    f"{options.early_stop_validations} validations "
                    "(training.early_stop_validations)"
                )
                return
            if stop:
                self._stop(end)

    def _check(
        self, step: int, outcome: loop.Outcome
    ) -> tuple[Measurement | None, guard.Fault | None]:
        """Looks whether the last steps went well; measures, and remembers it, if that is due."""
        fault = guard.check_metrics(outcome.extremes, self._options.guard)
        if (
            fault
            or not self._validates
            or not is_due(step, self._options.validate_every, self._options)
        ):
            return None, fault
        measured = self._validator.measure() if self._validator else None
        seen = (measured.distance, measured.deviation) if measured else (0.0, 0.0)
        distance, deviation = self._devices.from_chief(seen)
        validation = Validation(step=step, distance=distance, deviation=deviation)
        fault = guard.check_validation(validation, self._history, self._options.guard)
        if not fault:
            self._history = self._history.validated(validation)
        return measured, fault

    def _roll_back(self, first: int, step: int, fault: guard.Fault) -> None:
        """Takes training back to a good checkpoint, to go on with the data in another order."""
        past, validations = self._history.rollbacks, self._history.validations
        fine = validations[-1].step if validations and not fault.in_weights else first
        if len(past) >= self._options.guard.max_rollbacks:
            earlier = "".join(
                f"; before it, at step {one.step}: "
                + ("the same" if one.fault == str(fault) else one.fault)
                for one in past
            )
            raise TrainerError(
                f"training was given up at step {step}, after {len(past)} returns to a checkpoint "
                f"(training.guard.max_rollbacks): {fault}, not yet so at step {fine}{earlier}; "
                f"try {fault.advice}"
            )
        found = None
        if self._devices.is_chief:
            found = self._checkpoints.restore_newest(self._good_steps(step, fault))
        to_step = int(self._devices.from_chief([found[0] if found else -1])[0])
        if to_step < 0:
            raise TrainerError(
                f"training was given up at step {step}: {fault}, and there is no whole checkpoint "
                f"to go back to; try {fault.advice}"
            )
        history = found[1] if found else self._checkpoints.restore(to_step)
        history = history.model_copy(update={"rollbacks": past})
        self._history = history.rolled_back(Rollback(step=step, to_step=to_step, fault=str(fault)))
        self._devices.any(False)  # every worker has read what is changed now
        if self._devices.is_chief:
            self._checkpoints.roll_back(to_step, self._history)
        self._progress.report(
            f"step {step}: {fault}; going back to step {to_step}, with the data in another order "
            f"({len(past) + 1} of at most {self._options.guard.max_rollbacks} times)"
        )
        self._progress.take_back(to_step)

    def _good_steps(self, before: int, fault: guard.Fault) -> list[int]:
        """Checkpoints to go back to, those that were not gone back to yet first."""
        self._checkpoints.wait()
        steps = [step for step in reversed(self._checkpoints.steps()) if step < before]
        best = self._history.best
        if best and best.step in steps and not fault.in_weights:
            steps = [step for step in steps if step <= best.step]
        tried = {one.to_step for one in self._history.rollbacks}
        return sorted(steps, key=lambda step: step in tried)  # stable: newest first in either part

    def _save(self) -> None:
        if self._devices.is_chief:
            self._checkpoints.save(self.step, self._history)

    def _stop(self, step: int) -> None:
        where = f"training interrupted at step {step} of {self._options.steps}"
        saved = "saved by the chief"
        if self._devices.is_chief:
            newest = self._checkpoints.wait()
            saved = "not saved" if newest is None else f"saved at step {newest}"
        raise TrainingInterrupted(f"{where} and {saved}: run the same command again to go on")
