"""`python -m pipelines.classify`: a label for every record. See configs/classify.yaml, which is its own manual."""

from pipelines.run import main

if __name__ == "__main__":
    raise SystemExit(main("classify", "Label every record of sharded input with a model, paying for each answer once."))
