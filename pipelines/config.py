"""The configuration of a run: a YAML file, changed by the command line, checked as a whole before it is used.

`Settings` (transforms/settings.py) says what is valid. The fingerprint and UsageError are here too by name,
so that a caller needs this module only.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pipelines.fingerprint import changes, task_fingerprint, task_hash
from pipelines.mistakes import mistakes
from pipelines.override import parse_override, put
from pipelines.usage import UsageError
from pipelines.yaml12 import YamlError, read_yaml
from transforms.database import is_database, without_password
from transforms.llm.secrets import MASK, masked
from transforms.settings import Settings

__all__ = [
    "UsageError",
    "changes",
    "default_config",
    "load",
    "public",
    "task_fingerprint",
    "task_hash",
]

_CONFIGS = Path(__file__).parent.parent / "configs"
_SAMPLE = "sample:"


def load(
    path: str,
    overrides: Sequence[str] = (),
    *,
    input_path: list[str] | None = None,
    output_path: str | None = None,
) -> Settings:
    """The settings in the YAML file `path`, changed by `overrides` (KEY=VALUE each, in order) and then by
    `input_path` and `output_path`. `sample:NAME` as an input is a file that comes with the package.

    Raises UsageError, one line per mistake: a file that is missing or no valid YAML, an unknown key (with the
    nearest known one), a missing or wrong value."""
    values = _read(path)
    flags = {}  # dotted key -> the flag that gave it
    for override in overrides:
        key, value = parse_override(override)
        flags[key] = f"--set {key}"
        put(values, key, value, flags[key])
    for key, flag, given in (("input.path", "--input", input_path), ("output.path", "--output", output_path)):
        if given is not None:
            flags[key] = flag
            put(values, key, given, flag)
    for section in Settings.model_fields:
        if values.get(section, ...) is None:  # all of its keys are commented out
            values[section] = {}
    try:
        settings = Settings.model_validate(values, by_alias=True, by_name=False)
    except ValidationError as error:
        raise UsageError("\n".join(mistakes(error, path, flags))) from None
    settings = _without_passwords(settings)
    return _with_samples(settings, flags.get("input.path", f"{path}: input.path"))


def default_config(name: str) -> str:
    """The path of configs/<name>.yaml, which comes with the package."""
    return str(_CONFIGS / f"{name}.yaml")


def public(settings: Settings) -> dict[str, Any]:
    """The configuration as plain JSON values for the account of a run; what could be a secret is masked."""
    values = settings.model_dump(mode="json", by_alias=True)
    model = values["model"]
    model["headers"] = dict.fromkeys(model["headers"], MASK)
    for place in (model, *model["endpoints"]):
        if place["base_url"] is not None:
            place["base_url"] = masked(place["base_url"])
    return values


def _read(path: str) -> dict[str, Any]:
    try:
        values = read_yaml(Path(path).read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except YamlError as error:
        where = path if error.line is None else f"{path}:{error.line}"
        raise UsageError(f"{where}: {error.problem}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not UTF-8 text") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    if not isinstance(values, dict):
        raise UsageError(f"{path}: must be a mapping with the sections {', '.join(Settings.model_fields)}")
    return values


def _without_passwords(settings: Settings) -> Settings:
    """A database's password, where it stands in a URL, is moved to where an `${NAME}` in its place would find it, so
    that nothing that holds the settings holds it."""
    source, output = settings.input, settings.output
    if output.table is not None:
        table = without_password(output.table, "PAIDONCE_OUTPUT_PASSWORD")
        output = output.model_copy(update={"table": table})
    paths = [
        without_password(path, f"PAIDONCE_INPUT_PASSWORD_{number}") if is_database(path) else path
        for number, path in enumerate(source.paths)
    ]
    source = source.model_copy(update={"path": paths[0] if isinstance(source.path, str) else paths})
    limits = settings.limits
    if limits.shared is not None:
        shared = without_password(limits.shared, "PAIDONCE_SHARED_PASSWORD")
        limits = limits.model_copy(update={"shared": shared})
    return settings.model_copy(update={"input": source, "output": output, "limits": limits})


def _with_samples(settings: Settings, where: str) -> Settings:
    paths = [_sample(path, where) for path in settings.input.paths]
    path = paths[0] if isinstance(settings.input.path, str) else paths
    return settings.model_copy(update={"input": settings.input.model_copy(update={"path": path})})


def _sample(path: str, where: str) -> str:
    if not path.startswith(_SAMPLE):
        return path
    name = path.removeprefix(_SAMPLE)
    folder = _CONFIGS / "samples"
    known = sorted(file.name for file in folder.glob("*") if file.is_file())
    if name not in known:
        raise UsageError(f"{where}: no sample {name!r}, there are: {', '.join(known) or 'none'}")
    return str(folder / name)
