"""What can be wrong with an extractor that is the user's to mend."""

from __future__ import annotations


class ExtractorError(ValueError):
    """An extractor that cannot be used as asked; the message is one line for the user."""
