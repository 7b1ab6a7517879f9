"""What a command says when it cannot do what was asked: shared by all command lines."""

from __future__ import annotations

from typing import Any

import click


class UserError(click.ClickException):
    """One line for the user and an exit code, no traceback.

    Attributes:
      program: what the line begins with; each command line has its own.
    """

    program: str
    exit_code: int  # type: ignore[misc]

    def __init__(self, message: str, exit_code: int):
        super().__init__(message)
        self.exit_code = exit_code

    def show(self, file: Any = None) -> None:
        """Prints the line to standard error."""
        click.echo(f"{self.program}: {self.message}", err=True)
