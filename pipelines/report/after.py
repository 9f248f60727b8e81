"""The report at the end of a run, which changes nothing about the run whatever happens to it."""

from __future__ import annotations

from pipelines import interrupts
from pipelines.broken import root_cause
from pipelines.terminal import say
from transforms import files
from transforms.layout import Layout
from transforms.llm.secrets import masked


def write_report_if_possible(layout: Layout) -> None:
    """Writes the report and says where it is. All is published by now: whatever goes wrong, signals that ask to
    end included, costs the report alone, and is one line on stderr."""
    try:
        with interrupts.raised():
            from pipelines.report.write import write_report

            path = files.join(layout.root, "report.html")
            write_report(layout, path)
        say(f"report:   {path}")
    except (Exception, KeyboardInterrupt) as error:
        why = "interrupted" if isinstance(error, KeyboardInterrupt) else masked(root_cause(error))
        say(f"no report was written: {why}; python -m pipelines.report {layout.root} writes it", error=True)
