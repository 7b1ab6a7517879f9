"""Distributed WGAN-GP in TensorFlow. Knows nothing of TFX; `run_fn` is what TFX's Trainer calls."""

from typing import Any


def run_fn(fn_args: Any) -> None:
    """TFX's door into the trainer; see `trainer.entrypoint.run_fn` for what it expects.

    The import waits for the call, so that `trainer.options` can be had without TensorFlow.
    """
    from trainer.entrypoint import run_fn as train

    train(fn_args)
