"""Keeps one schema for the life of a pipeline root: given, or made from the first accepted data."""
