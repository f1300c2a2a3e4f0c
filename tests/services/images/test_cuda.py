"""What images say of the CUDA that they need, against what drivers have."""

from __future__ import annotations

import pytest

from images.cuda import EXPRESSION_MAX, Driver, holds, least, requirement_of

OFFICIAL = (
    "cuda>=12.4 brand=tesla,driver>=470,driver<471 brand=unknown,driver>=470,driver<471 brand=tesla,driver>=535,driver<536 "
    "brand=unknown,driver>=535,driver<536"
)


@pytest.mark.parametrize(
    ("env", "labels", "expected"),
    [
        ({}, {}, ""),
        ({"NVIDIA_REQUIRE_CUDA": " cuda>=12.4 "}, {}, "cuda>=12.4"),
        ({"NVIDIA_REQUIRE_CUDA": "cuda>=12.4", "CUDA_VERSION": "13.0"}, {}, "cuda>=12.4"),
        ({"CUDA_VERSION": "12.4.1"}, {}, "cuda>=12.0"),
        ({}, {"com.nvidia.cuda.version": "11.8"}, "cuda>=11.0"),
        ({"CUDA_VERSION": "latest"}, {}, ""),
        ({"NVIDIA_REQUIRE_CUDA": "cuda>=12.4", "NVIDIA_DISABLE_REQUIRE": "True"}, {}, ""),
        ({"NVIDIA_REQUIRE_CUDA": "cuda>=12.4", "NVIDIA_DISABLE_REQUIRE": "false"}, {}, "cuda>=12.4"),
        ({"NVIDIA_REQUIRE_CUDA": "x" * (EXPRESSION_MAX + 1)}, {}, ""),
    ],
)
def test_what_an_image_needs_is_in_its_variables_or_a_label(env: dict[str, str], labels: dict[str, str], expected: str) -> None:
    assert requirement_of(env, labels) == expected


@pytest.mark.parametrize(
    ("requirement", "cuda", "version", "expected"),
    [
        (OFFICIAL, "12.4", "550.54.15", True),
        (OFFICIAL, "13.0", "580.95.05", True),
        (OFFICIAL, "12.2", "545.23.08", False),
        (OFFICIAL, "12.2", "535.183.06", None),  # On some brands its own libraries do.
        (OFFICIAL, "", "", None),
        (OFFICIAL, "12.2", "", None),
        ("cuda>=12.4", "12.4", "", True),
        ("cuda>=12.10", "12.9", "", False),
        ("cuda>=12.1.1", "12.1", "530.30.02", True),  # Of drivers two parts are told.
        ("driver>=550", "12.2", "535.183.06", False),
        ("driver>=550,driver<551", "12.4", "550.54.15", True),
        ("driver>550.54.15", "12.4", "550.54.15", False),
        ("arch>=9.0", "12.4", "550.54.15", None),
        ("cuda>=new", "12.4", "550.54.15", None),
        ("cuda>=12.4", "unknown", "550.54.15", None),
        ("", "12.4", "550.54.15", True),
    ],
)
def test_a_driver_has_what_an_image_needs_or_it_is_not_known(
    requirement: str, cuda: str, version: str, expected: bool | None
) -> None:
    assert holds(requirement, Driver(cuda, version)) is expected


def test_what_people_are_told_is_the_lowest_cuda_else_the_lowest_driver() -> None:
    assert least(OFFICIAL) == Driver("12.4", "")
    assert least("driver>=550 driver>=535,driver<536") == Driver("", "535")
    assert least("brand=tesla") == Driver("", "")
