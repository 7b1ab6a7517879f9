"""The user's screen and the run's log, as separate processes see them."""

import subprocess
import sys

_CODE = """
import os, pathlib, subprocess, sys
from pipeline import console
with console.redirected(pathlib.Path(sys.argv[1])) as screen:
    print("third-party output")
    os.write(2, b"third-party error\\n")
    fd = int(os.environ["TFX_WGAN_CONSOLE_FD"])
    child = f"import os; print('child output'); os.write({fd}, b'child progress\\\\n')"
    subprocess.run([sys.executable, "-c", child], pass_fds=(fd,), check=True)
    print("for the user", file=screen)
print("done")
assert "TFX_WGAN_CONSOLE_FD" not in os.environ
"""


def test_redirected_keeps_noise_in_the_log_and_the_rest_on_the_screen(tmp_path):
    log = tmp_path / "log.txt"
    log.write_text("before\n")
    done = subprocess.run(
        [sys.executable, "-c", _CODE, str(log)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "done\n"
    assert done.stderr == "child progress\nfor the user\n"
    assert log.read_text().splitlines()[0] == "before"
    assert set(log.read_text().splitlines()[1:]) == {
        "third-party output",
        "third-party error",
        "child output",
    }
