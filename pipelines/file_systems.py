"""How files on stores are reached."""

from __future__ import annotations

from collections.abc import Sequence

from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from pipelines.keys import holds_secret
from transforms.llm.secrets import hide


def set_up(beam_args: Sequence[str]) -> None:
    """Has stores reached as Beam's flags say: to be called before the first file is looked for. What these flags say
    of keys is kept out of every text from then on: an engine's error may quote all of them."""
    options = PipelineOptions(list(beam_args))
    for name, value in options.get_all_options(drop_default=True).items():
        if isinstance(value, str) and holds_secret(name):
            hide(value)
    FileSystems.set_options(options)
