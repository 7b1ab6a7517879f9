"""ServedModel: what the push destination serves now, as an artifact."""
