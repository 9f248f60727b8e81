"""`python -m pipelines.extract`: nested values out of every record. See configs/extract.yaml."""

from pipelines.run import main

_DESCRIPTION = "Extract values from every record of sharded input with a model, paying for each answer once."

if __name__ == "__main__":
    raise SystemExit(main("extract", _DESCRIPTION, files="orders"))
