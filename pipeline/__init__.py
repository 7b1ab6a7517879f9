"""The TFX pipeline around `trainer`: configuration, DAG, and the ways to run it."""
