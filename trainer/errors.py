"""What can go wrong in training that is the user's to mend: one line each."""

from __future__ import annotations


class TrainerError(RuntimeError):
    """Training cannot be done as asked; the message is one line for the user."""


class TrainingInterrupted(TrainerError):
    """Training was told to stop and has saved its state; the same command continues it."""


#: Exit code of a training process that saved its state on a signal: run it again.
EXIT_INTERRUPTED = 75


class PeerLost(TrainerError):
    """Another worker ended or cannot be reached: this one must start anew to meet it again."""
