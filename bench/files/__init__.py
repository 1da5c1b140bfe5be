"""Files that last: how they become visible, where they lie, how damage shows."""
