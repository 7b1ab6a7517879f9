"""Pusher: a model that has both blessings goes to where models are served."""
