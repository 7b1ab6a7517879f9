"""The worked example of the documentation is what a run of it prints."""

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def test_scaling_example_prints_the_table_that_is_in_the_documentation():
    done = subprocess.run(
        [sys.executable, "-m", "tools.scaling_example"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    printed = done.stdout.strip()
    # By hand: 10 (5 - 1)^2 = 160 and its gradient 80 (3, 4) / 5, Wasserstein -1.5 and (-0.5, 0).
    assert "| sum / global batch (ours) | 2 | (47.50, 64.00) | 158.50 | 79.25 |" in printed
    assert "| mean over the replica | 2 | (95.00, 128.00) | 317.00 | 158.50 |" in printed
    assert printed in (REPOSITORY / "docs" / "replicas.md").read_text()
