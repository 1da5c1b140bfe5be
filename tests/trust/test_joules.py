"""Joules from replays whose energy is known exactly: how far off, and when nothing is said at all."""

from dataclasses import replace

import pytest
from power_traces import Play, stalled_after, without

from bench.record import Reading
from bench.trust.joules import DEVICE, WALL, NotMeasured, Trace, counter_j, integral_j, trace_of

WINDOW = (2.0, 32.0)


def trace(readings: list[Reading]) -> Trace:
    found = trace_of(readings, readings[0].scope, readings[0].quantity)
    assert found is not None
    return found


def true_j(play: Play, window: tuple[float, float]) -> float:
    return play.energy_j(window[1]) - play.energy_j(window[0])


@pytest.mark.parametrize("step_s", [0.001, 0.02, 0.1])
@pytest.mark.parametrize("window", [(2.0, 12.0), (2.03, 12.11), (0.0, 60.0), (-3.0, 1.5)])
def test_a_counters_steps_cost_less_than_the_bound_that_is_stated(step_s: float, window: tuple[float, float]) -> None:
    play = Play()
    bound = (step_s + 0.2) / (window[1] - window[0])
    assert counter_j(trace(play.counter(step_s=step_s)), window, DEVICE) == pytest.approx(true_j(play, window), rel=bound)


def test_the_step_of_load_at_a_windows_end_costs_a_quarter_of_the_time_between_movements() -> None:
    """No warm-up before, and rest after: the worst case, with readings 2.1 s apart as on macOS."""
    play = Play(from_s=0.0, to_s=30.0)
    found = counter_j(trace(play.counter(every_s=2.1, step_s=0.001)), (0.0, 30.0), DEVICE)
    assert abs(found - true_j(play, (0.0, 30.0))) <= 2 * 2.1 / 4 * (play.load_w - play.rest_w)


def test_a_coarse_counter_counts_where_it_has_just_moved() -> None:
    """A plug that shows 0.001 kWh moves every 9 s at 400 W; as it stands it is off by up to 3.6 kJ at either end."""
    play = Play(load_w=400.0, to_s=400.0)
    readings = play.counter(every_s=1.0, step_s=0.001, resolution_j=3600.0)
    window = (3.0, 123.0)
    naive_j = sum(r.value * sign for r, sign in ((readings[133], 1), (readings[13], -1)) if r.value is not None)
    assert abs(naive_j - true_j(play, window)) > 0.02 * true_j(play, window)
    assert counter_j(trace(readings), window, WALL) == pytest.approx(true_j(play, window), rel=0.01)


def test_samples_come_to_the_same() -> None:
    play = Play()
    assert integral_j(trace(play.power()), WINDOW, DEVICE) == pytest.approx(true_j(play, WINDOW), rel=1e-4)


def test_a_trailing_average_is_right_after_warm_up_and_lacks_half_a_second_without() -> None:
    warm, cold = Play(from_s=-5.0), Play(from_s=0.0)
    window = (0.0, 30.0)
    assert integral_j(trace(warm.average()), window, DEVICE) == pytest.approx(true_j(warm, window), rel=1e-4)
    lacking_j = true_j(cold, window) - integral_j(trace(cold.average()), window, DEVICE)
    assert lacking_j == pytest.approx(0.5 * (cold.load_w - cold.rest_w), rel=0.02)


def test_what_is_left_open_at_the_end_is_taken_at_the_mean() -> None:
    play = Play()
    late = [reading for reading in play.counter() if reading.t_s < 29.5]
    assert counter_j(trace(late), WINDOW, DEVICE) == pytest.approx(true_j(play, WINDOW), rel=0.01)
    late = [reading for reading in play.power() if reading.t_s < 31.5]
    assert integral_j(trace(late), WINDOW, DEVICE) == pytest.approx(true_j(play, WINDOW), rel=1e-3)


@pytest.mark.parametrize("end_s", [1.0, 12.0, 28.0])
def test_readings_that_do_not_cover_the_window(end_s: float) -> None:
    play = Play()
    for measure, readings in ((counter_j, play.counter()), (integral_j, play.power())):
        short = [reading for reading in readings if reading.t_s < end_s]
        with pytest.raises(NotMeasured, match=r"cover .* of a window of 30.0 s"):
            measure(trace(short), WINDOW, DEVICE)


def test_a_short_window_wants_readings_at_its_ends_as_well() -> None:
    late = [reading for reading in Play().counter() if reading.t_s < 2.5]
    assert counter_j(trace(late), (2.0, 2.5), DEVICE) == pytest.approx(150.0, rel=0.4)
    with pytest.raises(NotMeasured, match="cover"):
        counter_j(trace(late), (2.0, 3.0), DEVICE)


def test_a_gap_between_samples_is_no_power_and_one_in_a_counter_no_loss() -> None:
    play = Play()
    with pytest.raises(NotMeasured, match=r"no sample of power for 4\.\d s"):
        integral_j(trace(without(play.power(), 10.0, 14.0)), WINDOW, DEVICE)
    integral_j(trace(without(play.power(), 10.0, 10.8)), WINDOW, DEVICE)
    found = counter_j(trace(without(play.counter(), 10.0, 14.0)), WINDOW, DEVICE)
    assert found == pytest.approx(true_j(play, WINDOW), rel=0.01)


def test_a_gap_at_the_windows_end_leaves_a_counter_without_an_end() -> None:
    with pytest.raises(NotMeasured, match=r"at an end of the window the counter was read 6\.\d s apart"):
        counter_j(trace(without(Play().counter(), 29.0, 35.0)), WINDOW, DEVICE)


@pytest.mark.parametrize("since_s", [-9.9, 1.0, 15.0])
def test_a_counter_that_stands_still_is_stalled(since_s: float) -> None:
    with pytest.raises(NotMeasured, match="stalled: the counter stood at"):
        counter_j(trace(stalled_after(Play().counter(), since_s)), WINDOW, DEVICE)


def test_a_counter_that_stalls_before_or_after_the_window_is_none_of_its_business() -> None:
    play = Play()
    found = counter_j(trace(stalled_after(play.counter(), 33.0)), WINDOW, DEVICE)
    assert found == pytest.approx(true_j(play, WINDOW), rel=0.01)


def test_a_counter_that_was_set_back() -> None:
    readings = [replace(reading, value=5.0) if reading.t_s > 20 else reading for reading in Play().counter()]
    with pytest.raises(NotMeasured, match="went back"):
        counter_j(trace(readings), WINDOW, DEVICE)


@pytest.mark.parametrize(("value", "said"), [(0.0, "0 W"), (117.3, "117.3 W")])
def test_a_sensor_that_shows_one_value_is_stalled(value: float, said: str) -> None:
    readings = [replace(reading, value=value) for reading in Play().power()]
    with pytest.raises(NotMeasured, match=f"stalled: the sensor showed {said}"):
        integral_j(trace(readings), WINDOW, DEVICE)


@pytest.mark.parametrize(("end_s", "stalled"), [(3.5, True), (2.5, False)])
def test_over_a_short_window_one_value_needs_ten_samples_to_be_a_stall(end_s: float, stalled: bool) -> None:
    steady = trace([replace(reading, value=117.3) for reading in Play().power()])
    if stalled:
        with pytest.raises(NotMeasured, match="stalled"):
            integral_j(steady, (2.0, end_s), DEVICE)
    else:
        assert integral_j(steady, (2.0, end_s), DEVICE) == pytest.approx(117.3 * 0.5)


def test_a_sensor_that_stalls_on_the_way() -> None:
    with pytest.raises(NotMeasured, match="stalled: the sensor showed"):
        integral_j(trace(stalled_after(Play().power(), 20.0)), WINDOW, DEVICE)
    integral_j(trace(stalled_after(Play().power(), 31.0)), WINDOW, DEVICE)


def test_a_coarse_wall_meter_may_show_one_value_but_not_zero() -> None:
    play = Play(to_s=100.0)
    steady = [replace(reading, value=312.0) for reading in play.power(every_s=1.0)]
    assert integral_j(trace(steady), (0.0, 90.0), WALL) == pytest.approx(312.0 * 90)
    with pytest.raises(NotMeasured, match="stalled"):
        integral_j(trace([replace(reading, value=0.0) for reading in steady]), (0.0, 90.0), WALL)


def test_a_wall_meter_needs_its_sixty_samples() -> None:
    play = Play(to_s=400.0)
    with pytest.raises(NotMeasured, match="samples of power where 60 are needed"):
        integral_j(trace(play.power(every_s=5.0)), (0.0, 90.0), WALL)
    integral_j(trace(play.power(every_s=5.0)), (0.0, 360.0), WALL)


def test_a_trace_is_of_one_meter_in_order_without_what_is_no_number() -> None:
    readings = Play().power()
    other = replace(readings[0], meter="second", value=1e9)
    broken = [replace(readings[3], value=None), replace(readings[4], value=float("nan"))]
    found = trace_of([*readings[2::-1], other, *broken], "gpu-board", "power")
    assert found is not None
    assert found.meter == "nvml"
    assert list(found.t_s) == [reading.t_s for reading in readings[:3]]
    assert trace_of(readings, "gpu-board", "energy") is None
    assert trace_of(broken, "gpu-board", "power") is None
