"""The stored runs in the formats of other tools.

In: a results folder. Out: files that spreadsheets and pandas (`csv`) or `pytest-benchmark compare` (`pytest_benchmark`) read.
For asv see `bench.ledger`.
"""
