"""Results to a page: one HTML file that asks nothing of the network, its Markdown twin, and their figures."""
