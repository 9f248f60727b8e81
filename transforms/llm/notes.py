"""What is counted about rows beside their outcome: a row's notes name what happened to it on the way.

A note can be there several times for one row, once for each time it happened.
"""

from __future__ import annotations

# The answer was wrapped in a ``` fence or came after a <think> block, and is taken without.
ANSWER_UNWRAPPED = "answer_unwrapped"
# The answer was cut because its tokens were used up, and counts all the same (task.on_truncated: keep).
ANSWER_TRUNCATED = "answer_truncated"
# The endpoint billed for far fewer prompt tokens than the prompt has: it may have read only a part of it.
PROMPT_MAYBE_TRUNCATED = "prompt_maybe_truncated"
# The endpoint refuses model.structured_output json_schema: the row was asked with less than that.
STRUCTURED_OUTPUT_FALLBACK = "structured_output_fallback"
# An answer did not count, and the row was asked once more (task.on_invalid: retry).
REASKED = "reasked"
# A request about several records gave this one no answer that counts: it was asked with fewer, or alone.
ASKED_APART = "asked_apart"
# The row's request was the same as another's, whose answer it has (task.share_identical).
SHARED = "shared"
# Limits are to be shared by all workers (limits.shared), and could not be: the row was asked by this worker's part.
LIMITS_DIVIDED = "limits_divided"
# An attempt ended without an answer, but after the endpoint may have made one: a time-out, a cut connection.
MAYBE_BILLED = "maybe_billed"
