"""Where models stop fitting: the largest of something that runs, predicted, or found by trying."""
