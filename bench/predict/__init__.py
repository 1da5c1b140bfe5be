"""What a cell will need, and how fast it will be, before it runs."""
