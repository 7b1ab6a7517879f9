"""What TFX Transform does to raw examples."""
