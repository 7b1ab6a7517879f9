"""Pictures are picked in parts, in any order, and are few however many examples there are."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from components.gan_evaluator.pictures import Pictures

COUNT = 25_000


@pytest.fixture(scope="module")
def examples() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "hashes": rng.permutation(COUNT).astype(np.uint64),
        "labels": rng.integers(0, 10, COUNT),
        "real": rng.integers(0, 256, (COUNT, 1, 1, 1), np.uint8),
        "generated": rng.integers(0, 256, (COUNT, 1, 1, 1), np.uint8),
        "real_nearest": rng.uniform(size=COUNT).astype(np.float32),
        "generated_nearest": rng.uniform(size=COUNT).astype(np.float32),
        "training": rng.permutation(COUNT).astype(np.uint64),
    }


def picked(examples: dict[str, np.ndarray], at: list[int], with_training: bool = True) -> Pictures:
    parts = []
    for rows in np.split(np.arange(COUNT), at)[::-1]:
        part = {name: values[rows] for name, values in examples.items()}
        parts.append(
            Pictures.of(
                part["hashes"],
                part["labels"],
                images=(part["real"], part["generated"]),
                nearest=(part["real_nearest"], part["generated_nearest"]),
                training=part["training"] if with_training else None,
            )
        )
    merged = parts[0]
    for part in parts[1:]:
        merged = Pictures.merged([merged, part])
    return merged


@pytest.mark.parametrize("at", [[], [1, 300, 20_000], list(range(1000, COUNT, 1000))])
def test_pictures_are_bounded_and_the_same_however_the_examples_are_split(examples, at):
    found = picked(examples, at)
    order = np.argsort(examples["hashes"])
    closest = np.argsort(examples["generated_nearest"], kind="stable")[:16]
    expected = {
        "hashes": np.arange(64),
        "labels": examples["labels"][order[:64]],
        "real": examples["real"][order[:64]],
        "generated": examples["generated"][order[:64]],
        "distances": examples["generated_nearest"][closest],
        "closest": examples["generated"][closest],
        "closest_hashes": examples["hashes"][closest],
        "training": examples["training"][closest],
        "compared": np.arange(10_000),
        "nearest": examples["real_nearest"][order[:10_000]],
    }
    assert {field.name for field in dataclasses.fields(found)} == set(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(getattr(found, name), values, err_msg=name)


def test_pictures_without_training_images_have_no_closest_samples(examples):
    found = picked(examples, [1000], with_training=False)
    assert len(found.real) == 64
    assert len(found.closest) == len(found.distances) == len(found.training) == 0
