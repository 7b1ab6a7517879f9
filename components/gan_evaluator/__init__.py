"""GanEvaluator: distances between real and generated images as TFMA metrics, and the verdict."""
