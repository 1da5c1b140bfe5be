"""Which machine should train a model: the answer to one who is about to buy or to begin."""
