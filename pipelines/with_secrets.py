"""Runs a program with keys from Google's Secret Manager in its environment, for workers to whom nobody passes one:
Dataflow starts containers without. See configs/engines/Dockerfile.

    PAIDONCE_SECRETS="OPENAI_API_KEY=projects/P/secrets/openai/versions/latest" python -m pipelines.with_secrets PROGRAM

Names and secrets are divided by commas. A name that the environment has already stays as it is. The program takes this
process's place, so that signals reach it. Exit 2 where that cannot work, with one line that says why.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping

NAMED = "PAIDONCE_SECRETS"
USAGE = 2

Read = Callable[[str], str]


def with_secrets(environment: Mapping[str, str], read: Read) -> dict[str, str]:
    """The environment with all that its PAIDONCE_SECRETS names, each read by `read`. Raises ValueError, naming what is
    wrong."""
    found = dict(environment)
    for part in filter(None, (part.strip() for part in environment.get(NAMED, "").split(","))):
        name, equals, secret = part.partition("=")
        if not (name and equals and secret):
            raise ValueError(f"{NAMED}: {part!r} is not of the form NAME=projects/P/secrets/S/versions/V")
        if name not in found:
            found[name] = read(secret)
    return found


def main(command: list[str], read: Read | None = None) -> int:
    """Becomes `command`; returns an exit code only where that is impossible."""
    if not command:
        print(f"paidonce: name the program to run, e.g. python -m {__spec__.name} PROGRAM", file=sys.stderr)
        return USAGE
    try:
        environment = with_secrets(os.environ, read or _access)
    except Exception as error:  # of any Google library: what matters is the line
        print(f"paidonce: {' '.join(str(error).split()) or type(error).__name__}", file=sys.stderr)
        return USAGE
    try:
        os.execvpe(command[0], command, environment)
    except OSError as error:
        print(f"paidonce: {command[0]} cannot be run: {error.strerror}", file=sys.stderr)
    return USAGE


def _access(secret: str) -> str:
    from google.cloud import secretmanager  # comes with the SDK's image, and with paidonce[gcs]

    payload = secretmanager.SecretManagerServiceClient().access_secret_version(name=secret).payload
    text: str = payload.data.decode()
    return text.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
