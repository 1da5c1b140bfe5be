"""The nights, as asv's dashboard reads them: a small git repository of its own, and asv's result files.

In: the stored runs that belong to nights. Out: under `results/asv/` one commit per machine and night, and what asv tracks of it;
and asv's page. Nothing is measured here. All of it follows from the stored runs, so it may be deleted at any time.
"""
