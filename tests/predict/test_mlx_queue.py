"""What a queue of unfinished work still holds."""

from __future__ import annotations

from bench.predict import mlx_layout
from bench.predict.mlx_graph import Array, Operation
from bench.predict.mlx_queue import AtOnce, CpuQueue, MetalQueue

NOTHING = Operation("Sin", [], [], [])


def big(elements: int) -> Operation:
    array = Array((elements,), 2)
    array.buffer, array.layout = object(), mlx_layout.dense(array.shape)
    return Operation("Sin", [], [array], [])


def test_at_once_lets_go_of_everything() -> None:
    assert AtOnce().ran(NOTHING, 1, ["a"]) == ["a"]


def test_the_cpu_lets_go_task_by_task_of_ten_dispatches() -> None:
    """One dispatch of its own and one that holds: five operations make a task."""
    queue = CpuQueue(ahead=0)
    assert [queue.ran(NOTHING, 1, [number]) for number in range(6)] == [[], [], [], [], [0, 1, 2, 3, 4], []]


def test_the_cpu_may_be_ten_tasks_behind() -> None:
    queue = CpuQueue()
    released = [queue.ran(NOTHING, 1, [number]) for number in range(60)]
    assert released.index([0, 1, 2, 3, 4]) == 54
    assert released[59] == [5, 6, 7, 8, 9]
    assert sum(map(len, released)) == 10


def test_views_dispatch_only_what_holds() -> None:
    queue = CpuQueue(ahead=0)
    released = [queue.ran(NOTHING, 0, [number]) for number in range(10)]
    assert released[:9] == [[]] * 9
    assert released[9] == list(range(10))


def test_metal_commits_by_kernels() -> None:
    queue = MetalQueue(ahead=0)
    released = [queue.ran(NOTHING, 1, [number]) for number in range(51)]
    assert released[:50] == [[]] * 50
    assert released[50] == list(range(51))


def test_metal_commits_by_elements_of_distinct_buffers() -> None:
    queue = MetalQueue(ahead=0)
    first = big(30 << 20)
    assert queue.ran(first, 1, ["a"]) == []
    assert queue.ran(first, 1, ["b"]) == []
    assert queue.ran(big(21 << 20), 1, ["c"]) == ["a", "b", "c"]


def test_metal_keeps_ten_command_buffers() -> None:
    queue = MetalQueue()
    released = [queue.ran(big(60 << 20), 1, [number]) for number in range(12)]
    assert released == [[]] * 10 + [[0], [1]]


def test_views_do_not_count_on_metal() -> None:
    queue = MetalQueue(ahead=0)
    assert all(queue.ran(big(60 << 20), 0, [number]) == [] for number in range(60))
