"""Stops the run when the data is not what the schema says, or too much of it is unreadable."""
