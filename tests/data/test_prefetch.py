"""Batches that are prepared ahead are those that would have been prepared in their own time."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from residapt.data.batches import Batch, Order
from residapt.data.decoded import CacheConfig
from residapt.data.domains import DomainPair, Labelled
from residapt.data.prefetch import Prefetcher, workers_for
from residapt.data.sources import Reading, open_source, open_target
from residapt.models.input_spec import InputSpec
from residapt.train import Trainer
from residapt.train.checkpoint import restore_checkpoint, save_checkpoint
from residapt.train.state import method_tensors
from support.small_world import labelled as class_folders
from support.tiny_run import STEPS, tiny_pair, tiny_trainer


def numbered(step: int) -> Batch:
    x = torch.full((1,), float(step))
    return Batch(x, x.long(), x)


def test_every_step_gets_its_own_batch_forward_and_after_going_back() -> None:
    feed = Prefetcher(numbered, workers=3, last=20)
    steps = [*range(7), 3, 4, 5, 15, 16, 17, 18, 19, 0]
    assert [int(feed.take(step).source) for step in steps] == steps
    feed.close()


def test_the_next_batches_are_prepared_meanwhile_and_none_beyond_the_last() -> None:
    begun: list[int] = []
    reached = threading.Event()

    def make(step: int) -> Batch:
        begun.append(step)
        if step == 3:
            reached.set()
        return numbered(step)

    feed = Prefetcher(make, workers=3, last=4)
    feed.take(0)
    assert reached.wait(20), "steps 1 to 3 must be prepared without being asked for"
    for step in range(1, 4):
        feed.take(step)
    feed.close()
    assert sorted(begun) == [0, 1, 2, 3]


def test_an_error_comes_with_the_batch_that_has_it() -> None:
    def make(step: int) -> Batch:
        if step == 2:
            raise OSError("gone")
        return numbered(step)

    feed = Prefetcher(make, workers=2, last=9)
    assert [int(feed.take(step).source) for step in (0, 1)] == [0, 1]
    with pytest.raises(OSError, match="gone"):
        feed.take(2)
    feed.close()


def test_waiting_is_for_all_that_was_begun() -> None:
    done: list[int] = []

    def make(step: int) -> Batch:
        if step:
            time.sleep(0.1)
        done.append(step)
        return numbered(step)

    feed = Prefetcher(make, workers=2, last=9)
    feed.take(0)
    feed.wait()
    assert sorted(done) == [0, 1, 2]
    feed.close()


def test_closing_ends_the_threads() -> None:
    feed = Prefetcher(numbered, workers=2, last=9)
    feed.take(0)
    feed.close()
    assert not [one for one in threading.enumerate() if one.name.startswith("residapt-batches")]


def test_an_order_that_several_threads_ask_is_the_same() -> None:
    def asked(order: Order) -> list[list[int]]:
        found: dict[int, list[int]] = {}

        def ask(start: int) -> None:
            found[start] = order.take(start, 5).tolist()

        threads = [threading.Thread(target=ask, args=(5 * place,)) for place in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [found[start] for start in sorted(found)]

    alone = Order(13, 3, "x")
    assert asked(Order(13, 3, "x")) == [alone.take(5 * place, 5).tolist() for place in range(40)]


class Slow:
    """Images in memory whose batches take so long that threads overtake each other."""

    prefetch = True

    def __init__(self, images: Tensor) -> None:
        self.images_in_memory = images

    def __len__(self) -> int:
        return len(self.images_in_memory)

    def fetch(self, index: Tensor, generator: torch.Generator) -> Tensor:
        time.sleep(0.01 * random.random())  # not torch's generator, which dropout draws from
        found = self.images_in_memory[index]
        return found + 0.05 * torch.randn(found.shape, generator=generator)


def slow_pair(workers: int | None) -> DomainPair:
    pair = tiny_pair()
    source = Slow(pair.source.images.images)  # type: ignore[attr-defined]
    return DomainPair(Labelled(source, pair.source.labels), Slow(pair.target.images), workers=workers)  # type: ignore[attr-defined]


def trained(workers: int | None, stop: int | None = None, folder: Path | None = None) -> dict[str, Tensor]:
    """The weights at the end; with ``stop`` those of a run that was stopped there and went on in a new trainer."""
    trainer = tiny_trainer("rpt", pair=slow_pair(workers))
    if stop is not None and folder is not None:
        while trainer.step < stop:
            trainer._one_step()
        save_checkpoint(trainer, folder)
        trainer.prefetcher.close()
        trainer = tiny_trainer("rpt", pair=slow_pair(workers))
        restore_checkpoint(trainer, folder)
    trainer.run()
    return {name: tensor.clone() for name, tensor in method_tensors(trainer.method).items()}


def test_training_is_bit_equal_without_with_one_and_with_four_workers() -> None:
    alone = trained(0)
    for workers in (1, 4):
        ahead = trained(workers)
        assert ahead.keys() == alone.keys()
        assert all(torch.equal(tensor, alone[name]) for name, tensor in ahead.items())


@pytest.mark.parametrize("stop", [5, 7])
def test_a_stop_in_the_middle_of_an_epoch_changes_nothing(stop: int, tmp_path: Path) -> None:
    assert stop * 8 % 30, "the batch must not end with an epoch"
    whole, resumed = trained(4), trained(4, stop, tmp_path)
    assert all(torch.equal(tensor, whole[name]) for name, tensor in resumed.items())


def test_folders_are_bit_equal_too_while_they_are_decoded_and_afterwards(tmp_path: Path) -> None:
    source, target = class_folders(tmp_path / "source", each=10), class_folders(tmp_path / "target", each=15)
    form = InputSpec(size=8, channels=1, mean=(0.5,), std=(0.5,))
    cache = CacheConfig(folder=tmp_path / "cache")

    def batches(workers: int, kept: CacheConfig) -> list[Tensor]:
        reading = Reading(form, cache=kept)
        labelled = open_source(str(source), reading)
        pair = DomainPair(
            Labelled(labelled.images.train, labelled.labels), open_target(str(target), reading).train, workers=workers
        )
        trainer = tiny_trainer("rpt", pair=pair)
        found = [trainer.prefetcher.take(step) for step in range(STEPS)]
        trainer.prefetcher.close()
        return [torch.cat([batch.source, batch.target]) for batch in found]

    plain = batches(0, CacheConfig(bytes=0))
    for workers, kept in ((4, cache), (1, cache), (0, cache)):
        assert all(torch.equal(a, b) for a, b in zip(batches(workers, kept), plain, strict=True))


def test_how_many_workers_there_are() -> None:
    fast, slow = tiny_pair(), slow_pair(None)
    assert workers_for(fast, accelerator=False) == 0
    assert workers_for(fast, accelerator=True) > 0
    assert workers_for(slow, accelerator=False) > 0
    assert workers_for(replace(slow, workers=0), accelerator=True) == 0
    assert workers_for(replace(fast, workers=3), accelerator=False) == 3


def test_images_that_only_one_thread_may_read_are_not_prepared_ahead() -> None:
    pair = slow_pair(4)
    pair.target.threads = False  # type: ignore[attr-defined]
    assert workers_for(pair, accelerator=True) == 0


def test_what_a_method_does_not_read_is_not_fetched() -> None:
    class Unread(Slow):
        def fetch(self, index: Tensor, generator: torch.Generator) -> Tensor:
            raise AssertionError("the target was fetched")

    pair = slow_pair(0)
    trainer = tiny_trainer("source_only", pair=pair)
    trainer.batches.pair = replace(pair, target=Unread(torch.zeros(30, 1, 8, 8)))
    trainer.run()


def test_a_trainer_ends_its_threads() -> None:
    trainer: Trainer = tiny_trainer("rpt", pair=slow_pair(2), steps=3)
    trainer.run()
    assert not [one for one in threading.enumerate() if one.name.startswith("residapt-batches")]
