"""The parts of a sweep: the lock, the watched worker process, the evidence of how it ended, the row that is made of it."""
