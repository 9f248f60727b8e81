"""What is where in an output directory.

results/<run_id>-00000-of-00004.parquet    one row for each finished id, over all runs
failures/<run_id>-00000-of-00001.jsonl     ids that failed and have not succeeded since: the retry list
runs/<run_id>.json                         the account of each run
journal/<run_id>/                          while a run is on, or after it was cut short
staging/<run_id>/                          files that are being written, and the commit that publishes them
replaced/<run_id>/                         what --on-change=redo set aside
"""

from __future__ import annotations

from dataclasses import dataclass

from transforms import files
from transforms.journal import HEADER_FILE


@dataclass(frozen=True)
class Layout:
    """Paths below one output directory."""

    root: str

    @property
    def results(self) -> str:
        """The folder of result shards."""
        return files.join(self.root, "results")

    @property
    def failures(self) -> str:
        """The folder of failure shards."""
        return files.join(self.root, "failures")

    @property
    def journals(self) -> str:
        """The folder that holds a journal folder for each run that is not finished."""
        return files.join(self.root, "journal")

    @property
    def stages(self) -> str:
        """The folder that holds a staging folder for each run that is not finished."""
        return files.join(self.root, "staging")

    def journal(self, run_id: str) -> str:
        """A run's journal folder."""
        return files.join(self.journals, run_id)

    def staging(self, run_id: str) -> str:
        """A run's staging folder."""
        return files.join(self.stages, run_id)

    def account(self, run_id: str) -> str:
        """The file of a run's account."""
        return files.join(self.root, "runs", f"{run_id}.json")

    def header(self, run_id: str) -> str:
        """The file that says what the run of a journal is: see recover.RunHeader."""
        return files.join(self.journal(run_id), HEADER_FILE)

    def replaced(self, run_id: str) -> str:
        """Where a run that does all again puts what was there before."""
        return files.join(self.root, "replaced", run_id)

    def shards(self, folder: str) -> list[str]:
        """The published files in `results` or `failures`, sorted."""
        return [info.path for info in files.listing(folder) if not info.path.endswith(".part")]

    def accounts(self) -> list[str]:
        """The files of all accounts, oldest run first."""
        return [info.path for info in files.listing(files.join(self.root, "runs")) if info.path.endswith(".json")]
