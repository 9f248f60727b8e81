"""What is told of what an engine says when it breaks. The texts are what engines said, cut short."""

from __future__ import annotations

import pytest

from pipelines.broken import root_cause

WORKER = """\
Error received from SDK harness for instruction 1: Traceback (most recent call last):
  File "call.py", line 5, in process
OSError: [Errno 28] No space left on device: '/x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "sdk_worker.py", line 310, in _execute
    response = task()
OSError: [Errno 28] No space left on device: '/x' [while running 'Call']
"""
JAVA_FRAMES = """\
\tat org.apache.beam.runners.fnexecution.control.FnApiControlClient$ResponseStreamObserver.onNext(X.java:210)
\t... 3 more
"""
LOST = "org.apache.beam.vendor.grpc.v1p60p1.io.grpc.StatusRuntimeException: CANCELLED: client cancelled"
UNAVAILABLE = """\
org.apache.beam.vendor.grpc.v1p60p1.io.grpc.StatusRuntimeException: UNAVAILABLE: io exception
Caused by: org.apache.beam.vendor.grpc.v1p60p1.io.netty.channel.AbstractChannel$AnnotatedConnectException: \
finishConnect(..) failed: Connection refused: /127.0.0.1:1
Caused by: java.net.ConnectException: finishConnect(..) failed: Connection refused"""
UNREACHED = "the engine cannot reach a worker, or what --environment_config names, or a machine of its own"
FAILED = "Pipeline BeamApp-a_b-1 failed in state FAILED: "


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("ValueError: bad", "ValueError: bad"),
        (WORKER, "OSError: [Errno 28] No space left on device: '/x' [while running 'Call']"),
        (
            f"{FAILED}java.lang.RuntimeException: {WORKER}{JAVA_FRAMES}Caused by: java.lang.IllegalStateException: no",
            "OSError: [Errno 28] No space left on device: '/x' [while running 'Call']",
        ),
        (
            f"{FAILED}org.apache.spark.SparkException: Job aborted due to stage failure: Task 3 in stage 0.0 failed 4 "
            f"times, most recent failure: Lost task 3.3: java.util.concurrent.ExecutionException: {LOST}\n"
            f"{JAVA_FRAMES}Caused by: {LOST}\n{JAVA_FRAMES}\nDriver stacktrace:\n",
            "a worker process has ended (StatusRuntimeException: CANCELLED: client cancelled)",
        ),
        (
            f"{FAILED}org.apache.beam.vendor.grpc.v1p60p1.io.grpc.StatusRuntimeException: {LOST}",
            "a worker process has ended (StatusRuntimeException: CANCELLED: client cancelled)",
        ),
        (
            f"{FAILED}org.apache.spark.SparkException: Job aborted: {UNAVAILABLE}\n{JAVA_FRAMES}Driver stacktrace:\n",
            f"{UNREACHED} (AnnotatedConnectException: finishConnect(..) failed: Connection refused: /127.0.0.1:1)",
        ),
        (
            f"{FAILED}java.net.ConnectException: java.net.ConnectException: finishConnect(..) failed: no",
            f"{UNREACHED} (ConnectException: finishConnect(..) failed: no)",
        ),
        (
            f"{FAILED}java.lang.IllegalArgumentException: no slots\n{JAVA_FRAMES}",
            "IllegalArgumentException: no slots",
        ),
        (
            f"{FAILED}java.lang.InterruptedException",
            "the engine gave up, and its own log says why; workers may have another version of paidonce or of Beam "
            "(InterruptedException)",
        ),
        (f"{FAILED}it was sad", "RuntimeError: it was sad"),
        ("", "RuntimeError: "),
    ],
)
def test_the_line_that_says_why(said: str, told: str) -> None:
    assert root_cause(RuntimeError(said)) == told


def test_a_cause_comes_before_what_it_caused() -> None:
    error = RuntimeError("KeyError: later")
    error.__cause__ = OSError("OSError: first")
    assert root_cause(error) == "OSError: first"
