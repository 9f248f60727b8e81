"""The one error that is the user's: a wrong flag, configuration or input."""

from __future__ import annotations


class UsageError(Exception):
    """Ends the launch with exit code 2. The message is for the user: a line per mistake, without secrets."""
