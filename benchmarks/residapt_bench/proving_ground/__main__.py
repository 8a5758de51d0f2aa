"""``python -m residapt_bench.proving_ground``: list pairs, render them, look at them, write them as folders.

``record`` puts checksums and sizes into the manifest, ``measure`` records how well the source network alone does,
and ``table`` prints what ``docs/research/proving-ground.md`` shows.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from residapt_bench.proving_ground.folders import write_folders
from residapt_bench.proving_ground.library import ConfigError, DataError
from residapt_bench.proving_ground.registry import ALL_PAIRS, PAIRS
from residapt_bench.proving_ground.sheet import contact_sheet
from residapt_bench.proving_ground.source_only import record, source_only
from residapt_bench.proving_ground.store import load, recorded_checksums, write_manifest
from residapt_bench.proving_ground.table import table


def main(arguments: list[str] | None = None) -> int:
    """Run one command; 2 is returned for what cannot be done."""
    given = _parser().parse_intermixed_args(arguments)
    names = given.names or list(PAIRS)
    try:
        if given.command == "list":
            for spec in ALL_PAIRS.values():
                print(f"{spec.name:28} {spec.kind:18} {spec.network:19} {spec.variant:8} {spec.description}")
        elif given.command == "render":
            return _render(names, given.data, given.cache, given.seed)
        elif given.command == "record":
            write_manifest(load(name, given.data, given.cache) for name in names)
        elif given.command == "sheet":
            contact_sheet(names, given.data, given.cache, seed=given.seed).save(given.out)
        elif given.command == "folders":
            for name in names:
                pair = load(name, given.data, given.cache, given.seed)
                write_folders(pair, given.out / name, limit=given.limit)
        elif given.command == "measure":
            for name in names:
                figure = source_only(load(name, given.data, given.cache))
                record(name, figure)
                print(f"{name} {figure:.1f}", flush=True)
        elif given.command == "table":
            print(table())
    except (ConfigError, DataError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _render(names: list[str], root: Path, cache: Path, seed: int) -> int:
    """Make the pairs and print their checksums, as ``checksums.json`` has them; 1 if a recorded one differs."""
    recorded, differ = recorded_checksums(), 0
    for name in names:
        checksum = load(name, root, cache, seed).checksum
        wrong = seed == 0 and recorded.get(name, checksum) != checksum
        differ += wrong
        print(f"{name} {checksum}" + ("  differs from checksums.json" if wrong else ""), flush=True)
    return int(differ > 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m residapt_bench.proving_ground", description=__doc__)
    parser.add_argument("command", choices=("list", "render", "record", "sheet", "folders", "measure", "table"))
    parser.add_argument("names", nargs="*", help="pairs; all of them if none is named")
    parser.add_argument("--data", type=Path, default=os.environ.get("RESIDAPT_DATA"), help="folder of the data sets")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "residapt" / "proving-ground")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, help="most images of each part, for folders")
    parser.add_argument("--out", "-o", type=Path, default=Path("proving-ground.png"), help="picture or folder")
    return parser


if __name__ == "__main__":
    sys.exit(main())
