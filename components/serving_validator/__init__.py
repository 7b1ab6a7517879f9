"""ServingValidator: a model that will be served is loaded and exercised as a stranger would."""
