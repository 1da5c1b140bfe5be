"""What makes a number believable: when warm-up ended, what stood apart, whose watts, what disturbed, what cannot be true."""
