"""Every meter of the table loads, has a name of its own, and says whether it works."""

from bench.meters.interface import METERS, load_meter


def test_every_meter_of_the_table_answers() -> None:
    for name in METERS:
        meter = load_meter(name)
        found = meter.availability()
        assert meter.name == name
        assert meter.scope in {"process", "gpu-board", "soc", "package", "wall", "machine"}
        assert found.available or (found.reason and found.remedy)
