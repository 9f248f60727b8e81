"""What scripts do: an aiohttp loop with so many calls in flight, which appends each answer to a file.

It is what the pipeline is measured against: no engine, no resume, no validation, no columns.

    python tests/benchmarks/aiohttp_loop.py ROWS.jsonl ANSWERS.jsonl BASE_URL IN_FLIGHT
"""

from __future__ import annotations

import asyncio
import json
import sys

import aiohttp

SYSTEM = "Classify the sentiment of the review as positive, negative or neutral. Reply in JSON."
SCHEMA = {
    "type": "object",
    "properties": {"label": {"type": "string", "enum": ["positive", "negative", "neutral"]}},
    "required": ["label"],
    "additionalProperties": False,
}


async def run(rows: str, answers: str, url: str, in_flight: int) -> None:
    """Calls for every row of a JSONL file with the columns id and text."""
    with open(rows) as pending, open(answers, "a") as out:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=in_flight)) as session:

            async def worker() -> None:
                for line in pending:
                    row = json.loads(line)
                    body = {
                        "model": "mock-1",
                        "messages": [
                            {"role": "system", "content": SYSTEM},
                            {"role": "user", "content": f"Review: {row['text']}"},
                        ],
                        "response_format": {
                            "type": "json_schema",
                            "json_schema": {"name": "sentiment", "schema": SCHEMA, "strict": True},
                        },
                    }
                    async with session.post(f"{url}/chat/completions", json=body) as response:
                        answer = await response.json()
                    out.write(json.dumps([row["id"], answer]) + "\n")
                    out.flush()

            await asyncio.gather(*(worker() for _ in range(in_flight)))


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
