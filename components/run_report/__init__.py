"""The page that says what a run did: verdict, samples, curves, numbers, times."""
