"""One step of a job in several threads: results in order, few items on the way, errors in place."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def thread_pipeline(
    setup: Callable[[], Callable[[Item], Result]], items: Iterable[Item], workers: int, ahead: int
) -> Iterator[Result]:
    """What the workers make of each item, in the order of the items.

    An error of the source, of `setup` or of the work comes out in the place of its item. When the
    reader leaves, what is not begun is dropped, and all threads have ended.

    setup    makes a function of one item; every worker makes its own, and calls no other
    workers  threads that work at the same time
    ahead    items that are taken from the source and not yet given out, at most

    Raises   ValueError   no worker, or none may be ahead
    Source   torch/utils/data/dataloader.py  _MultiProcessingDataLoaderIter._try_put_index
    Differs  PyTorch's workers are processes, and `ahead` is prefetch_factor * num_workers.
    """
    if workers < 1 or ahead < 1:
        raise ValueError(f"workers and ahead are at least 1, got {workers} and {ahead}")
    own = threading.local()

    def work(item: Item) -> Result:
        if not hasattr(own, "work"):
            own.work = setup()
        result: Result = own.work(item)
        return result

    pool = ThreadPoolExecutor(workers)
    try:
        futures = _futures(pool, work, items)
        waiting = deque(islice(futures, ahead))
        while waiting:
            yield waiting.popleft().result()
            waiting.extend(islice(futures, 1))
    finally:
        pool.shutdown(cancel_futures=True)


def _futures(
    pool: ThreadPoolExecutor, work: Callable[[Item], Result], items: Iterable[Item]
) -> Iterator["Future[Result]"]:
    """A future of each item; an error of the source is the last one's."""
    try:
        for item in items:
            yield pool.submit(work, item)
    except Exception as error:
        failed: Future[Result] = Future()
        failed.set_exception(error)
        yield failed
