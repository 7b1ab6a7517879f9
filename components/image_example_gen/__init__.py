"""Ingestion of images: from folders, IDX files, TFRecords or scikit-learn to tf.Examples."""
