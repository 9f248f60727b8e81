"""The files that recipes for engines use: they can be read, and fit this package."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from apache_beam.version import __version__ as beam_version

from pipelines.options import check_beam_flags

ROOT = Path(__file__).resolve().parents[2]
ENGINES = ROOT / "configs" / "engines"
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def dockerfile() -> dict[str, list[str]]:
    """Its instructions, by name."""
    text = (ENGINES / "Dockerfile").read_text(encoding="utf-8")
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if name.isupper():
            found.setdefault(name, []).append(rest)
    return found


def version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def test_the_image_has_the_beam_and_a_python_that_the_package_takes() -> None:
    [base] = dockerfile()["FROM"]
    match = re.fullmatch(r"apache/beam_python([\d.]+)_sdk:([\d.]+)", base)
    assert match, base
    least, below = re.search(r'"apache-beam>=([\d.]+),<([\d.]+)"', PROJECT).groups()  # type: ignore[union-attr]
    assert version(least) <= version(match[2]) < version(below)
    assert match[2] == beam_version
    least, below = re.search(r'requires-python = ">=([\d.]+),<([\d.]+)"', PROJECT).groups()  # type: ignore[union-attr]
    assert version(least) <= version(match[1]) < version(below)


def test_the_image_copies_what_the_wheel_needs() -> None:
    copied = [name for line in dockerfile()["COPY"] for name in line.split()[:-1]]
    assert all((ROOT / name).exists() for name in copied)
    packages = re.search(r"packages = \[(.*?)\]", PROJECT)
    assert packages
    assert {name.strip(' "').partition(".")[0] for name in packages[1].split(",")} <= set(copied)
    extras = re.search(r"'\.\[(.*?)\]'", dockerfile()["RUN"][0])
    assert extras
    assert all(re.search(rf"^{extra} = \[", PROJECT, re.MULTILINE) for extra in extras[1].split(","))
    [entry] = dockerfile()["ENTRYPOINT"]
    assert importlib.util.find_spec(yaml.safe_load(entry)[2]) is not None


@pytest.mark.parametrize("path", sorted(ENGINES.glob("*.yaml")), ids=lambda path: path.name)
def test_yaml_can_be_read(path: Path) -> None:
    documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    assert documents
    assert all(isinstance(each, dict) for each in documents)


def test_the_side_car_is_a_worker_pool_with_the_key() -> None:
    deployment: dict[str, Any] = yaml.safe_load((ENGINES / "flink-kubernetes.yaml").read_text(encoding="utf-8"))
    containers = deployment["spec"]["taskManager"]["podTemplate"]["spec"]["containers"]
    [pool] = [each for each in containers if each["name"] == "worker-pool"]
    assert pool["args"] == ["--worker_pool"]
    assert pool["envFrom"]
    assert deployment["spec"]["flinkVersion"] == "v" + deployment["spec"]["image"].partition(":")[2].replace(".", "_")


def test_the_files_come_with_the_package() -> None:
    [patterns] = re.findall(r"^configs = (\[.*\])$", PROJECT, re.MULTILINE)
    packed = {path for pattern in yaml.safe_load(patterns) for path in ENGINES.parent.glob(pattern)}
    assert set(ENGINES.iterdir()) <= packed


def test_the_readme_names_each_file_and_flags_that_exist() -> None:
    [section] = re.findall(r"^### Engines$.*?(?=^##)", README, re.MULTILINE | re.DOTALL)
    assert all(f"configs/engines/{path.name}" in section for path in ENGINES.iterdir())
    flags = sorted(set(re.findall(r"--[a-z0-9]+_[a-z0-9_]+=[^\s`\\]+", section)))
    assert len(flags) > 8
    for flag in flags:
        if not flag.startswith("--service_port"):  # of Beam's worker pool
            check_beam_flags([flag])
