"""`python -m pipelines.summarize`: a short text for every record. See configs/summarize.yaml."""

from pipelines.run import main

_DESCRIPTION = "Summarize every record of sharded input with a model, paying for each answer once."

if __name__ == "__main__":
    raise SystemExit(main("summarize", _DESCRIPTION, files="articles"))
