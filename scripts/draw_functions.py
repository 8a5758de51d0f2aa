"""Draw functions of the library at random: where would somebody look for each who knows only what it does?

Usage: python scripts/draw_functions.py [SEED] [--where]
"""

from __future__ import annotations

import ast
import random
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src/residapt"
COUNT = 20


def functions() -> list[tuple[str, str, str]]:
    """Every public function and method: name, first line of its docstring, file."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            for one in node.body if isinstance(node, ast.ClassDef) else [node]:
                if isinstance(one, ast.FunctionDef) and not one.name.startswith("_"):
                    name = one.name if one is node else f"{node.name}.{one.name}"  # type: ignore[attr-defined]
                    found.append(
                        (name, (ast.get_docstring(one) or "").partition("\n")[0], str(path.relative_to(SOURCE)))
                    )
    return found


def main() -> None:
    """Print the functions, and where they are if that is wanted."""
    seed = next((int(word) for word in sys.argv[1:] if word.isdigit()), 0)
    for name, job, path in random.Random(seed).sample(functions(), COUNT):
        print(f"{name}: {job}" + (f"  [{path}]" if "--where" in sys.argv else ""))


if __name__ == "__main__":
    main()
