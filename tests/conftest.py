"""For every test: TensorFlow's notes on CPU features and missing GPUs stay off the screen."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
