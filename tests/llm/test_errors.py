"""The kinds of errors, and which of them an OpenAI-style response is."""

import pickle
from typing import Any

import pytest

from transforms.llm.errors import AccountError, CallError, RowError, TransientError
from transforms.llm.openai_errors import error_in_answer, refuses_format
from transforms.llm.openai_errors import http_error as of_response
from transforms.llm.transport import Response


def http_error(status: int, body: Any, headers: dict[str, str], text: str = "") -> CallError:
    return of_response(Response(status, headers, body, text))


def problem(code: Any = None, message: str = "no", **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": None, "param": None, "code": code, **more}}


@pytest.mark.parametrize(
    ("status", "body", "kind", "reason"),
    [
        (429, problem("rate_limit_exceeded"), TransientError, "rate_limited"),
        (429, problem("insufficient_quota"), AccountError, "quota_exhausted"),
        (429, problem(type="insufficient_quota"), AccountError, "quota_exhausted"),
        (402, None, AccountError, "quota_exhausted"),
        (408, problem(), TransientError, "timeout"),
        (409, problem(), TransientError, "upstream_error"),
        (499, problem(), TransientError, "upstream_error"),
        (500, None, TransientError, "upstream_error"),
        (503, problem("context_length_exceeded"), TransientError, "upstream_error"),
        (520, None, TransientError, "upstream_error"),
        (529, problem("overloaded_error"), TransientError, "upstream_error"),
        (401, problem("invalid_api_key"), AccountError, "auth"),
        (403, None, AccountError, "auth"),
        (404, problem("model_not_found"), AccountError, "config_rejected"),
        (405, None, AccountError, "config_rejected"),
        (307, None, AccountError, "config_rejected"),
        (400, problem("unsupported_parameter", param="max_tokens"), AccountError, "config_rejected"),
        (400, problem("unsupported_value", param="temperature"), AccountError, "config_rejected"),
        (400, problem("unknown_parameter", param="foo"), AccountError, "config_rejected"),
        (400, problem("model_not_found"), AccountError, "config_rejected"),
        (400, problem(param="response_format"), AccountError, "config_rejected"),
        (400, problem("content_filter", param="prompt"), RowError, "content_filter"),
        (403, problem("content_policy_violation"), RowError, "content_filter"),
        (400, problem("context_length_exceeded", param="messages"), RowError, "request_too_large"),
        (400, problem(400, type="exceed_context_size_error"), RowError, "request_too_large"),
        (413, None, RowError, "request_too_large"),
        (400, problem(param="messages[1].content"), RowError, "bad_request"),
        (400, problem(param="max_tokens"), RowError, "bad_request"),  # some servers say so of one long prompt
        (422, {"detail": [{"msg": "no"}]}, RowError, "bad_request"),
        (400, problem(message="insufficient_quota: rate limit, content_filter"), RowError, "bad_request"),
        (400, problem("invalid_api_key"), AccountError, "auth"),
        (429, problem(type="exceeded_current_quota_error"), AccountError, "quota_exhausted"),  # Moonshot
        (404, problem("DeploymentNotFound"), AccountError, "config_rejected"),  # Azure
        (400, problem("OperationNotSupported"), AccountError, "config_rejected"),
        (401, problem("401"), AccountError, "auth"),
        (400, problem("BadRequest", innererror={"code": "ResponsibleAIPolicyViolation"}), RowError, "content_filter"),
        (403, problem(403, metadata={"flagged_input": "a", "reasons": []}), RowError, "content_filter"),  # OpenRouter
        (422, {"detail": [{"loc": ["body", "response_format"], "msg": "no"}]}, AccountError, "config_rejected"),
        (422, {"detail": [{"loc": ["body", "messages", 0], "msg": "no"}]}, RowError, "bad_request"),
        (400, [{"error": {"code": 400, "details": [{"reason": "API_KEY_INVALID"}]}}], AccountError, "auth"),  # Gemini
        (400, {"object": "error", "message": "no", "type": "BadRequestError", "code": 400}, RowError, "bad_request"),
    ],
)
def test_a_status_and_a_code_say_what_kind_it_is(status: int, body: Any, kind: type[CallError], reason: str) -> None:
    error = http_error(status, body, {})
    assert (type(error), error.reason, error.http_status) == (kind, reason, status)
    assert error.retryable == (kind is TransientError)


@pytest.mark.parametrize("body", [None, [], "x", {"error": None}, {"error": []}, {"error": {"code": {}}}, {}])
def test_any_body_is_an_error_of_its_status(body: Any) -> None:
    assert http_error(502, body, {}).reason == "upstream_error"
    assert http_error(400, body, {}).reason == "bad_request"


@pytest.mark.parametrize("body", [{"error": "too long"}, {"message": "too long"}, {"detail": "too long"}])
def test_other_shapes_of_a_message(body: Any) -> None:
    assert http_error(400, body, {}).message == "HTTP 400: too long"


def test_what_a_filter_found_is_kept() -> None:
    found = {"violence": {"filtered": True, "severity": "medium"}, "hate": {"filtered": False}}
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": found}
    error = http_error(400, problem("content_filter", "filtered by policy", innererror=inner), {})
    assert error.message == "HTTP 400: filtered by policy (violence/medium)"


def test_a_page_is_named_by_status_type_and_start() -> None:
    page = "<!DOCTYPE html>\n<title>Just a moment</title>" + "x" * 1000
    message = http_error(502, None, {"content-type": "text/html"}, page).message
    assert message.startswith("HTTP 502 text/html: <!DOCTYPE html> <title>Just a moment</title>")
    assert len(message) < 250


def test_a_redirect_names_its_target() -> None:
    assert "https://elsewhere/" in http_error(301, None, {"location": "https://elsewhere/"}).message


def test_a_pause_is_kept_where_the_request_is_repeated() -> None:
    headers = {"retry-after": "7"}
    assert http_error(429, None, headers).retry_after == 7
    assert http_error(503, None, headers).retry_after == 7
    assert http_error(429, problem("insufficient_quota"), headers).retry_after is None


@pytest.mark.parametrize(
    ("error", "kind", "reason", "status"),
    [
        ({"code": 502, "message": "no"}, TransientError, "upstream_error", 502),
        ({"code": "429", "message": "no"}, TransientError, "rate_limited", 429),
        ({"code": "rate_limit_exceeded"}, TransientError, "rate_limited", 200),
        ({"code": "content_filter"}, RowError, "content_filter", 200),
        ({"code": 401}, AccountError, "auth", 401),
        ({"type": "insufficient_quota"}, AccountError, "quota_exhausted", 200),
        ({"code": "server_error"}, TransientError, "upstream_error", 200),
        ("no", TransientError, "upstream_error", 200),
        ({"code": 403, "metadata": {"flagged_input": "a"}}, RowError, "content_filter", 403),
        ({"code": "invalid_api_key"}, AccountError, "auth", 200),
    ],
)
def test_an_error_inside_a_200(error: Any, kind: type[CallError], reason: str, status: int) -> None:
    found = error_in_answer(error, {})
    assert (type(found), found.reason, found.http_status) == (kind, reason, status)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (problem(param="response_format"), True),
        (problem("InvalidParameter", param="response_format.type"), True),
        (problem("invalid_json_schema"), True),
        ({"detail": [{"loc": ["body", "response_format", "type"], "msg": "no"}]}, True),
        (problem("unsupported_value", param="temperature"), False),
        (problem("invalid_request_error", "This response_format type is unavailable now"), False),
        (None, False),
    ],
)
def test_an_error_that_names_the_response_format(body: Any, named: bool) -> None:
    assert refuses_format(body) == named


def test_a_firewalls_page_is_no_refused_key() -> None:
    error = http_error(403, None, {"content-type": "text/html"}, "<title>Blocked</title>")
    assert (type(error), error.reason, error.http_status) == (TransientError, "bad_response", 403)


@pytest.mark.parametrize(("status", "maybe"), [(524, 1), (504, 1), (499, 1), (408, 1), (500, 0), (503, 0), (429, 0)])
def test_a_status_after_which_an_answer_may_have_been_billed(status: int, maybe: int) -> None:
    assert http_error(status, None, {}).maybe_billed == maybe


def test_errors_survive_pickling() -> None:
    error = TransientError("rate_limited", "slow down", http_status=429, retry_after=2.0)
    error.attempts = 3
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.attempts, again.retry_after) == ("rate_limited: slow down", 3, 2.0)
