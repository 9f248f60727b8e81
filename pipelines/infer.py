"""`python -m pipelines.infer --config FILE`: whatever the configuration asks. See configs/tickets.yaml."""

from pipelines.run import main

_DESCRIPTION = "Put a task of your own to a model for every record of sharded input, paying for each answer once."

if __name__ == "__main__":
    raise SystemExit(main("infer", _DESCRIPTION, files="tickets", has_default=False))
