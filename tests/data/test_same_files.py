"""The stamp of an accuracy rests on this: is an image among others, by place, by content, by pixels?"""

from __future__ import annotations

from pathlib import Path

import torch

from residapt.data.domains import TensorImages
from residapt.data.same_files import also_among, mark_of, which_among, which_common, which_marked


def write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_copies_links_and_the_files_themselves_count(tmp_path: Path) -> None:
    others = [write(tmp_path / "t" / f"{i}.png", bytes([i] * 50)) for i in range(4)]
    copy = write(tmp_path / "e" / "renamed.png", bytes([2] * 50))
    link = tmp_path / "e" / "link.png"
    link.symlink_to(others[1])
    new = write(tmp_path / "e" / "new.png", bytes([9] * 50))
    longer = write(tmp_path / "e" / "longer.png", bytes([1] * 51))
    assert also_among([copy, link, others[0], new, longer], others) == 3
    assert also_among([new, longer], others) == 0
    assert also_among([new], []) == 0
    assert which_among([new, copy, longer, link], others) == [False, True, False, True]
    assert which_marked([new, copy, link], {mark_of(others[2])}) == [False, True, False]
    assert which_marked([new], ()) == [False]


def test_images_in_memory_are_compared_by_pixels() -> None:
    pixels = torch.rand(6, 1, 3, 3)
    changed = pixels[:2].clone()
    changed[1, 0, 0, 0] += 1e-6
    assert sum(which_common(TensorImages(changed), TensorImages(pixels))) == 1
    assert which_common(TensorImages(changed), TensorImages(pixels)) == [True, False]
