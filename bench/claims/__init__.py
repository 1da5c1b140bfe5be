"""Claims on trial: what is claimed, the evidence for and against it, and the verdict."""
