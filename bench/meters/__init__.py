"""What looks at a run from outside the framework: one file a meter, each behind the door of `interface.py`."""
