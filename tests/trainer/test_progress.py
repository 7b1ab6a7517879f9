"""Progress as the user sees it."""

import io
import os

import pytest

from trainer.progress import CONSOLE_VARIABLE, Progress, console

METRICS = {"wasserstein": 1.234, "gradient_penalty": 0.5, "gradient_norm": 1.02, "step": 7}
SHOWN = "wasserstein 1.23, penalty 0.5, gradient norm 1.02"


class _Terminal(io.StringIO):
    def isatty(self):
        return True


def _progress(stream, seconds):
    ticks = iter(seconds)
    return Progress(stream, total=100, images_per_step=10, clock=lambda: float(next(ticks)))


def test_progress_elsewhere_writes_a_line_every_ten_seconds_and_at_the_end():
    stream = io.StringIO()
    progress = _progress(stream, [0, 5, 12, 13, 40])
    progress.report("begins")
    progress.begin(20)
    progress.advance(30)
    progress.metrics(METRICS)
    progress.advance(44)
    progress.advance(50)
    progress.advance(100)
    assert stream.getvalue().splitlines() == [
        "begins",
        f"step 44/100, 20 images/s, 28 s left, {SHOWN}",
        f"step 100/100, 20 images/s, 0 s left, {SHOWN}",
    ]


def test_progress_validation_is_shown_until_the_next():
    stream = io.StringIO()
    progress = _progress(stream, [0, 20, 40])
    progress.begin(0)
    progress.metrics(METRICS | {"validation_wasserstein": 1.0, "validation_distance": 0.25})
    progress.metrics(METRICS | {"wasserstein": 1.5})
    progress.advance(40)
    shown = "wasserstein 1.5, held-out 1, penalty 0.5, gradient norm 1.02, distance 0.25"
    assert stream.getvalue().endswith(f"30 s left, {shown}\n")


def test_progress_just_taken_back_does_not_guess_a_speed():
    stream = io.StringIO()
    progress = _progress(stream, [0, 20, 20, 40])
    progress.begin(0)
    progress.take_back(0)
    progress.advance(0)
    progress.advance(10)
    assert stream.getvalue() == "step 10/100, 5 images/s, 180 s left\n"


def test_progress_taken_back_counts_speed_from_there():
    stream = io.StringIO()
    progress = _progress(stream, [0, 20, 40, 60])
    progress.begin(40)
    progress.advance(60)
    progress.take_back(10)
    progress.advance(30)
    assert stream.getvalue().splitlines() == [
        "step 60/100, 10 images/s, 40 s left",
        "step 30/100, 10 images/s, 70 s left",
    ]


def test_progress_taken_back_moves_the_bar():
    stream = _Terminal()
    progress = _progress(stream, [0, 10, 20])
    progress.begin(0)
    progress.advance(60)
    progress.take_back(40)
    progress.close()
    assert "40/100" in stream.getvalue().split("60/100")[-1]


def test_progress_on_a_terminal_is_a_bar():
    stream = _Terminal()
    progress = _progress(stream, [0, 5])
    progress.begin(20)
    progress.metrics(METRICS)
    progress.advance(60)
    progress.report("a line")
    progress.close()
    assert "60/100" in stream.getvalue()
    assert "80 images/s, wasserstein 1.23" in stream.getvalue()
    assert "a line\n" in stream.getvalue()


def test_console_is_the_given_descriptor_or_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    monkeypatch.delenv(CONSOLE_VARIABLE, raising=False)
    print("to stderr", file=console())
    assert capsys.readouterr().err == "to stderr\n"
    reader, writer = os.pipe()
    monkeypatch.setenv(CONSOLE_VARIABLE, str(writer))
    print("to the user", file=console())
    os.close(writer)
    with os.fdopen(reader) as pipe:
        assert pipe.read() == "to the user\n"
