"""The figures of a report: all of it that knows matplotlib and seaborn, whose import alone takes a second."""
