"""The extractor of a configuration, pinned to its files as they are now.

Nodes are reused while their parameters are the same; with the hash among the parameters, other
files under the same path are another parameter. TensorFlow is not needed for it.
"""

from __future__ import annotations

from pipeline.config import absolute
from trainer.options import ExtractorOptions
from trainer.quality.extractors import files
from trainer.quality.extractors.errors import ExtractorError


def located(options: ExtractorOptions) -> ExtractorOptions:
    """The extractor with its local path in full, whatever folder a component works in."""
    path = files.source(options)
    if path is None:
        return options
    key = "weights" if options.name == files.INCEPTION else "name"
    return options.model_copy(update={key: absolute(path)})


def pinned(options: ExtractorOptions) -> ExtractorOptions:
    """The extractor with its local path in full and, where its files are here, their hash.

    Raises:
      ExtractorError: files are missing or not the pinned ones; or they are elsewhere, where they
        could change unseen, and not pinned.
    """
    options = located(options)
    source, found = files.source(options), files.local_sha256(options)
    if found is not None:
        files.check_pin(options, found)
    if source is None:  # code of ours, which is among the nodes' parameters already
        return options
    if found is not None:
        return options.model_copy(update={"sha256": found})
    if options.sha256 is None:
        raise ExtractorError(
            f"evaluation.extractor.sha256: got null, but {source} is not on this machine and "
            "could change unseen; allowed: the hash that `tfx-wgan extractor show CONFIG` prints"
        )
    return options
