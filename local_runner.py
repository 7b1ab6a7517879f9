"""The pipeline for TFX's own command line (`tfx pipeline create --engine local ...`).

The configuration is a YAML file or a preset's name, in the environment variable
TFX_WGAN_CONFIG; without it, the digits preset.
"""

import datetime
import os

from pipeline import config, dag, local, lock


def run() -> None:
    """Runs the configured pipeline, as `tfx-wgan run` does but without its report."""
    configured = config.load(os.environ.get("TFX_WGAN_CONFIG", "digits"))
    with lock.held(configured.root):
        run_id = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
        local.LocalRunner(run_id).run(dag.create_pipeline(configured))


if __name__ == "__main__":
    run()
