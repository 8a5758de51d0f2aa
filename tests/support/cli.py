"""Run the command line in this process, as a shell would."""

from __future__ import annotations

import contextlib
import io
import sys
from unittest import mock

from residapt.cli import app as application
from residapt.cli import main


def invoke(*arguments: str) -> tuple[int, str]:
    """Exit code and everything printed; ``COLUMNS`` counts as it is now, not as it was when the consoles were made."""
    text = io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["residapt", *arguments]),
        mock.patch.object(application.console, "_file", text),
        mock.patch.object(application.messages, "_file", text),
        mock.patch.object(application.console, "_width", None),
        mock.patch.object(application.messages, "_width", None),
        contextlib.redirect_stdout(text),
        contextlib.redirect_stderr(text),
    ):
        try:
            main()
        except SystemExit as stop:
            code = stop.code
            return (code if isinstance(code, int) else int(bool(code))), text.getvalue()
    return 0, text.getvalue()
