"""What people write, read strictly: every fault at once, each with its file, its key and the remedy."""
