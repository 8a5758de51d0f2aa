"""Multicopters of many kinds: body, arms, rotors, legs and gimbal, put together from solids.

Lengths are in units of the distance from the middle to a motor; x is forward, z is up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from residapt_bench.drones.render.solids import Face, Vector, blade, disc, hoop, loft, ring, tube

_ARMS = (4, 6, 8)
_ARM_SHARES = (0.8, 0.15, 0.05)


@dataclass(frozen=True)
class Craft:
    """What one drone is like."""

    arms: int
    """Number of arms, each with a rotor."""
    turned: bool
    """An X: no arm points straight ahead."""
    squeeze: float
    """Width over length of the arms' figure; below 1 for folding drones."""
    body: tuple[float, float, float]
    """Half length, half width and half height of the body."""
    power: float
    """2 for a round body, 8 for a box."""
    arm: float
    """Radius of the arms at the body."""
    lift: float
    """Height of the motors above the body's middle."""
    rotor: float
    """Radius of a rotor."""
    turning: float
    """Opacity of the turning rotors; 0 shows blades at rest."""
    guards: bool
    """Hoops around the rotors."""
    legs: str
    """none, skids, posts (under the motors) or splayed (from the body)."""
    leg_length: float
    """How far the legs reach down."""
    gimbal: float
    """Radius of the camera below the body; 0 for none."""
    shades: tuple[float, float, float, float]
    """Albedo of body, arms, rotors and camera."""


def sample_craft(rng: np.random.Generator) -> Craft:
    """A drone at random."""
    length = rng.uniform(0.3, 0.68)
    light = rng.random() < 0.42
    body = rng.uniform(0.7, 0.98) if light else rng.uniform(0.03, 0.3)
    arms = body if rng.random() < 0.6 else (rng.uniform(0.03, 0.25) if light else rng.uniform(0.3, 0.9))
    rotors = rng.uniform(0.7, 0.95) if light and rng.random() < 0.5 else rng.uniform(0.03, 0.3)
    return Craft(
        arms=int(rng.choice(_ARMS, p=_ARM_SHARES)),
        turned=bool(rng.random() < 0.9),
        squeeze=float(rng.uniform(0.7, 1.0)),
        body=(length, length * rng.uniform(0.4, 1.0), rng.uniform(0.1, 0.28)),
        power=float(rng.choice([2.0, 3.0, 8.0])),
        arm=float(rng.uniform(0.035, 0.13)),
        lift=float(rng.uniform(-0.05, 0.16)),
        rotor=float(rng.uniform(0.42, 0.68)),
        turning=float(rng.uniform(0.06, 0.35)) if rng.random() < 0.45 else 0.0,
        guards=bool(rng.random() < 0.1),
        legs=str(rng.choice(["none", "skids", "posts", "splayed"], p=[0.25, 0.35, 0.15, 0.25])),
        leg_length=float(rng.uniform(0.25, 0.65)),
        gimbal=float(rng.uniform(0.08, 0.17)) if rng.random() < 0.6 else 0.0,
        shades=(body, arms, rotors, float(rng.uniform(0.03, 0.5))),
    )


def craft_faces(craft: Craft, rng: np.random.Generator) -> list[Face]:
    """All faces of a drone; ``rng`` turns the rotors."""
    faces = _body(craft)
    for motor in _motors(craft):
        faces += _arm(craft, motor) + _rotor(craft, motor, rng)
        if craft.legs == "posts":
            foot = motor - np.array([0.0, 0.0, craft.lift + craft.leg_length])
            faces += tube(motor, foot, (0.035, 0.025), craft.shades[1], 5)
    return faces + _legs(craft) + _camera(craft)


def _motors(craft: Craft) -> list[Vector]:
    step = 2 * np.pi / craft.arms
    angles = step * (np.arange(craft.arms) + (0.5 if craft.turned else 0.0))
    return [np.array([np.cos(a), craft.squeeze * np.sin(a), craft.lift]) for a in angles]


def _body(craft: Craft) -> list[Face]:
    (a, b, h), shade = craft.body, craft.shades[0]
    levels = ((-1.0, 0.6), (-0.5, 0.95), (0.2, 1.0), (0.7, 0.8), (1.0, 0.4))
    rings = [ring(np.array([0.0, 0.0, h * z]), (a * s, b * s), 12, craft.power) for z, s in levels]
    stripe = ring(np.array([0.0, 0.0, h * 1.02]), (a * 0.3, b * 0.3), 8, craft.power)
    return [*loft(rings, shade, gloss=0.35), Face(stripe, 1 - shade)]


def _arm(craft: Craft, motor: Vector) -> list[Face]:
    shade = craft.shades[1]
    root = np.array([0.6 * craft.body[0] * motor[0], 0.6 * craft.body[1] * motor[1] / craft.squeeze, 0.0])
    top, base = motor + np.array([0.0, 0.0, 0.09]), motor - np.array([0.0, 0.0, 0.05])
    pod = tube(base, top, (0.085, 0.07), 0.5 * shade, 7)
    return tube(root, motor, (craft.arm, 0.6 * craft.arm), shade) + pod


def _rotor(craft: Craft, motor: Vector, rng: np.random.Generator) -> list[Face]:
    hub = motor + np.array([0.0, 0.0, 0.11])
    angle, shade = rng.uniform(0, np.pi), craft.shades[2]
    faces = [blade(hub, angle, craft.rotor, 0.075, shade)] if craft.turning == 0 else []
    if craft.turning > 0:
        faces = [disc(hub, craft.rotor, shade, craft.turning)]
        # The shutter catches part of a turn: two fans, denser than the rest of the disc.
        faces += [Face(_fan(hub, angle + half, craft.rotor), shade, 0.6 * craft.turning) for half in (0.0, np.pi)]
    if craft.guards:
        faces += hoop(motor, 1.08 * craft.rotor, 0.03, craft.shades[1])
    return faces


def _fan(hub: Vector, angle: float, radius: float) -> Vector:
    angles = angle + np.linspace(0.0, 0.9, 6)
    rim = np.stack([np.cos(angles), np.sin(angles), np.zeros(6)], axis=1) * radius
    fan: Vector = np.concatenate([hub[None], hub + rim])
    return fan


def _legs(craft: Craft) -> list[Face]:
    (a, b, h), shade, down = craft.body, craft.shades[0], -craft.leg_length
    faces: list[Face] = []
    if craft.legs == "skids":
        for side in (-1.0, 1.0):
            for front in (-0.5, 0.5):
                top, foot = np.array([front * a, 0.5 * side * b, -h]), np.array([front * a, side * (b + 0.12), down])
                faces += tube(top, foot, (0.035, 0.03), shade, 5)
            rail = [np.array([x * (a + 0.12), side * (b + 0.12), down]) for x in (-1.0, 1.0)]
            faces += tube(rail[0], rail[1], (0.03, 0.03), shade, 5)
    elif craft.legs == "splayed":
        for x in (-1.0, 1.0):
            for y in (-1.0, 1.0):
                top, foot = np.array([0.6 * x * a, 0.6 * y * b, -0.5 * h]), np.array([x * a, y * (b + 0.2), down])
                faces += tube(top, foot, (0.04, 0.02), craft.shades[1], 5)
    return faces


def _camera(craft: Craft) -> list[Face]:
    if craft.gimbal == 0:
        return []
    r, x, z = craft.gimbal, 0.45 * craft.body[0], -craft.body[2] - craft.gimbal
    levels = ((-1.0, 0.4), (-0.5, 0.9), (0.5, 0.9), (1.0, 0.4))
    rings = [ring(np.array([x, 0.0, z + r * level]), (r * s, r * s), 8, 3.0) for level, s in levels]
    lens = np.array([x + r, 0.0, z])
    return loft(rings, craft.shades[3], 0.3) + tube(lens - [0.3 * r, 0, 0], lens, (0.5 * r, 0.5 * r), 0.03, 7)
