"""The stacks that can train: one file a backend, each behind the door of `interface.py`."""
