"""How good generated images are: extractors of features, and distances between sets of them."""
