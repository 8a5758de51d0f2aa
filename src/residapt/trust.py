"""Model specs that run code: allowed when the user typed them, rejected when a file names them."""

from __future__ import annotations

from residapt.errors import ModelError

FAMILIES = ("torchvision", "timm", "hf")
"""What stands before the colon of a spec that runs no code of others."""
OBJECT = "given"
"""What stands before the colon where a network was given as an object: there is no module to import."""


def names_code(spec: str) -> bool:
    """Whether building the network of this spec imports a module and calls a function of it."""
    family, colon, name = spec.partition(":")
    return bool(colon and name) and family not in (*FAMILIES, OBJECT)


def refuse_code(spec: str | None, *, where: str, trust_code: bool) -> None:
    """Reject a spec that a file names if it runs code, unless the user has said that it may."""
    module, _, function = (spec or "").partition(":")
    if module == OBJECT:
        raise ModelError(
            f"the network of {where} was given as an object ({function}), which no file can name. Use it from Python: "
            "residapt.adapt(model, ...) or residapt.load(model, path)."
        )
    if spec is None or trust_code or not names_code(spec):
        return
    raise ModelError(
        f"{where} names code as its network, '{spec}': using it imports the module '{module}' and calls "
        f"'{function}'. If you trust both, allow it with --trust-code (in Python trust_code=True)."
    )
