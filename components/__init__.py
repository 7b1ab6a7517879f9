"""TFX components for training image generators, one package each."""
