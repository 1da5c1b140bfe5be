"""The history of nights: which level changed, in what environment, and whether that is a regression."""
