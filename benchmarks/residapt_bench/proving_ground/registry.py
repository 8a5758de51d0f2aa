"""The pairs, each with all its settings. Fixed before any two recipes were compared on them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from residapt_bench.proving_ground import render
from residapt_bench.proving_ground.digits import (
    digits_over_clutter,
    printed_to_handwritten,
    printed_to_real,
    real_digits,
    rendered_digits,
)
from residapt_bench.proving_ground.other import drifted_series, drones, features
from residapt_bench.proving_ground.pair import Maker, PairSpec
from residapt_bench.proving_ground.photographs import office, rendered_office
from residapt_bench.proving_ground.subsets import open_target, partial_target, skewed

OFFICE_SIZE = 128
RENDERED_SIZE = 96
_ALL_SCORED = "the target's images are trained on without labels, and scored"
_KNOWN_SCORED = "; images of classes that the source does not know are trained on and not scored"


def _real(source: str, target: str, network: str = "lenet") -> PairSpec:
    channels, size = (1, 28) if network == "lenet" else (3, 32)
    ending = "" if network == "lenet" or source == "mnist" else f"-{network}"
    return PairSpec(
        name=f"{source}-{target}{ending}",
        kind="real digits",
        network="lenet" if network == "lenet" else "dtn",
        description=f"digits: {source.upper()} to {target.upper()}",
        make=partial(real_digits, source=source, target=target, channels=channels, size=size),
        reads=(source, target),
    )


_REAL = (
    _real("svhn", "mnist"),
    _real("svhn", "usps"),
    _real("mnist", "usps"),
    _real("usps", "mnist"),
    _real("mnist", "svhn", "dtn"),
    _real("svhn", "mnist", "dtn"),
)

_PRINTED = (
    PairSpec(
        name="printed-handwritten",
        kind="printed digits",
        network="lenet",
        description="digits printed by the program in 19 fonts, to scikit-learn's 1,797 handwritten ones",
        make=partial(printed_to_handwritten),
        protocol=_ALL_SCORED,
        transductive=True,
    ),
    PairSpec(
        name="printed-mnist",
        kind="printed digits",
        network="lenet",
        description="digits printed by the program in 19 fonts, to MNIST",
        make=partial(printed_to_real, target="mnist"),
        reads=("mnist",),
    ),
)

_RENDERED_DIGITS = (
    PairSpec(
        name="mnist-clutter",
        kind="rendered digits",
        network="lenet",
        description="MNIST, to its digits in colour over cut-outs of photographs",
        make=partial(digits_over_clutter, contrast=60.0, brighter=0.9),
        reads=("mnist", "office31/dslr", "office31/webcam"),
    ),
    PairSpec(
        name="mnist-coloured",
        kind="rendered digits",
        network="lenet",
        description="MNIST, to its digits in one plain colour on another, brighter or darker",
        make=partial(rendered_digits, render=partial(render.two_colours, contrast=70.0), channels=3),
        reads=("mnist",),
    ),
    PairSpec(
        name="mnist-outlines",
        kind="rendered digits",
        network="lenet",
        description="MNIST, to the outlines of its digits",
        make=partial(rendered_digits, render=partial(render.outlines, threshold=100, width=2), channels=1),
        reads=("mnist",),
    ),
)


def _office(source: str, target: str, network: Any = "efficientnet_lite0") -> PairSpec:
    return PairSpec(
        name=f"{source}-{target}" + ("" if network == "efficientnet_lite0" else f"-{network}"),
        kind="office",
        network=network,
        description=f"Office-31: {source} to {target}",
        make=partial(office, source=source, target=target, size=OFFICE_SIZE),
        reads=(f"office31/{source}", f"office31/{target}"),
        protocol=_ALL_SCORED,
        transductive=True,
    )


_OFFICE = (
    _office("amazon", "webcam"),
    _office("amazon", "dslr"),
    _office("webcam", "amazon"),
    _office("webcam", "dslr"),
    _office("dslr", "amazon"),
    _office("dslr", "webcam"),
    _office("amazon", "webcam", "resnet50"),
)


def _half(name: str, kind: str, description: str, renderer: render.Renderer, decode: int | None = None) -> PairSpec:
    return PairSpec(
        name=f"amazon-{name}",
        kind=kind,
        network="efficientnet_lite0",
        description=f"half of Office-31's amazon, to {description} of the other half",
        make=partial(rendered_office, render=renderer, size=RENDERED_SIZE, decode=decode),
        reads=("office31/amazon",),
        protocol=_ALL_SCORED,
        transductive=True,
    )


_DRAWN = (
    _half("edges", "drawings", "edge drawings", partial(render.edge_drawing, blur=0.7, floor=0.2)),
    _half("painting", "drawings", "painting-like versions", partial(render.painting, radius=4, levels=6, vivid=1.6)),
)

_CAMERA = (
    _half("blur", "camera", "blurred versions", partial(render.blurred, sigma=(1.5, 3.0))),
    _half("noise", "camera", "noisy versions", partial(render.noisy, sigma=(40.0, 90.0))),
    _half("dark", "camera", "underexposed versions", partial(render.low_light, gain=(0.05, 0.2), grain=0.08)),
    _half("jpeg", "camera", "JPEGs of low quality", partial(render.jpeg, quality=(2, 6))),
    _half("cast", "camera", "versions in coloured light", partial(render.colour_cast, gain=(0.2, 1.2), lift=90.0)),
    _half("close", "camera", "close-ups", partial(render.close_up, share=(0.4, 0.6), size=RENDERED_SIZE), decode=256),
)

_PLAIN = (*_REAL, *_PRINTED, *_RENDERED_DIGITS, *_OFFICE, *_DRAWN, *_CAMERA)
_BY_NAME = {spec.name: spec for spec in _PLAIN}


def _variant(base: str, variant: Any, ending: str, what: str, wrapper: Any, **settings: Any) -> PairSpec:
    """A pair whose target has other classes or class frequencies than that of ``base``."""
    spec = _BY_NAME[base]
    make: Maker = partial(wrapper, base=spec.make, **settings)
    return PairSpec(
        name=f"{base}-{ending}",
        kind="class frequencies" if variant == "skewed" else "classes",
        network=spec.network,
        description=f"{spec.description}; {what}",
        make=make,
        reads=spec.reads,
        variant=variant,
        base=base,
        transductive=spec.transductive,
        protocol=spec.protocol + (_KNOWN_SCORED if variant == "open" else ""),
    )


def _skewed(base: str, ratio: float) -> PairSpec:
    what = f"the target's most frequent class is {ratio:g} times as frequent as its rarest"
    return _variant(base, "skewed", "skewed", what, skewed, ratio=ratio)


def _partial(base: str, missing: tuple[int, ...]) -> PairSpec:
    what = f"the target lacks {len(missing)} classes"
    return _variant(base, "partial", "partial", what, partial_target, missing=missing)


def _open(base: str, unknown: tuple[int, ...]) -> PairSpec:
    what = f"the source does not know {len(unknown)} of the target's classes"
    return _variant(base, "open", "open", what, open_target, unknown=unknown)


_KEPT_OF_OFFICE = tuple(range(0, 31, 3))
_TWO_THIRDS = tuple(k for k in range(31) if k not in _KEPT_OF_OFFICE)

_VARIANTS = (
    _skewed("svhn-mnist", 20.0),
    _skewed("mnist-clutter", 20.0),
    _skewed("webcam-amazon", 10.0),
    _partial("svhn-mnist", (3, 8)),
    _partial("usps-mnist", (0, 6)),
    _partial("mnist-coloured", (1, 7)),
    _partial("amazon-webcam", _TWO_THIRDS),
    _partial("dslr-amazon", tuple(range(10, 31))),
    _partial("amazon-painting", tuple(range(0, 31, 2))),
    _open("svhn-mnist", (2, 5)),
    _open("mnist-usps", (4, 7)),
    _open("mnist-outlines", (0, 3)),
    _open("amazon-webcam", tuple(range(20, 31))),
    _open("webcam-amazon", _KEPT_OF_OFFICE),
    _open("amazon-cast", tuple(range(10))),
)


def _drones(labelled: int) -> PairSpec:
    labels = f"{labelled} of them labelled" if labelled else "none of them labelled"
    return PairSpec(
        name=f"drones-{labelled}",
        kind="drones",
        network="uavnet",
        description=f"drawn drones to photographed ones, {labels} (the stand-in for UAV-200)",
        make=partial(drones, labelled=labelled),
        reads=("dronebird",),
        protocol="training images of the target, half of them drones, some repeated; scored on other photographs",
        metric="average_precision",
    )


def _features(base: str) -> PairSpec:
    spec = _BY_NAME[base]
    return PairSpec(
        name=f"features-{base}",
        kind="features",
        network="mlp",
        description=f"{spec.description}; 1,280 features of EfficientNet-Lite0 in place of pictures",
        make=partial(features, base=spec.make),
        reads=(*spec.reads, "weights"),
        base=base,
        transductive=spec.transductive,
        protocol=spec.protocol,
    )


_CALM = {"gain": (1.0, 1.0), "offset": 0.0, "noise": 0.1, "wander": 0.0}


def _series(name: str, description: str, **settings: Any) -> PairSpec:
    return PairSpec(
        name=f"series-{name}",
        kind="series",
        network="conv1d",
        description=f"simulated readings of three sensors on a machine in six states, {description}",
        make=partial(drifted_series, **settings),
    )


_OTHER = (
    _drones(200),
    _drones(0),
    _features("amazon-painting"),
    _features("webcam-amazon"),
    _series("drift", "to drifted sensors", gain=(0.5, 0.9), offset=0.4, noise=0.2, wander=0.3, speed=1.0),
    _series("speed", "to a machine that runs faster", **_CALM, speed=1.4),
)

PAIRS: dict[str, PairSpec] = {spec.name: spec for spec in (*_PLAIN, *_VARIANTS, *_OTHER)}
"""All pairs by name."""

_WHOLE = replace(
    _BY_NAME["svhn-mnist"],
    name="svhn-mnist-whole",
    description="digits: SVHN to MNIST, all images of both",
    make=partial(real_digits, source="svhn", target="mnist", channels=1, size=28, all_images=True),
    base="svhn-mnist",
)

ALL_PAIRS: dict[str, PairSpec] = PAIRS | {_WHOLE.name: _WHOLE}
"""These pairs, and one too large for the proving ground, on which the default's ancestors were chosen."""

KINDS: tuple[str, ...] = tuple(dict.fromkeys(spec.kind for spec in PAIRS.values()))
"""The kinds of shift."""
