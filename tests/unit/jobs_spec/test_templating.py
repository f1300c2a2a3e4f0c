"""Filling a template in: values are data, mistakes come all at once, and what was put in is never looked through again."""

import pytest

from jobs.spec.templating import check_template, fill, judge, places, read_parameters, read_values
from kernel.errors import InvalidInput

PARAMETERS = [
    {"name": "rate", "type": "number", "default": 0.1, "minimum": 0, "maximum": 1},
    {"name": "gpus", "type": "integer", "default": 1, "minimum": 1, "maximum": 8, "required": True},
    {"name": "data", "type": "string", "required": True},
    {"name": "mode", "type": "choice", "choices": ["fast", "exact"], "default": "fast"},
    {"name": "image", "type": "string"},
]
SPEC = {
    "name": "train-${{ parameters.mode }}",
    "image": "${{parameters.image}}",
    "command": ["python", "train.py", "--data", "${{ parameters.data }}", "--rate=${{ parameters.rate }}"],
    "env": {"GPUS": "${{ parameters.gpus }}"},
    "resources": {"gpu": "${{ parameters.gpus }}"},
}


def refused(call, *arguments):
    with pytest.raises(InvalidInput) as caught:
        call(*arguments)
    return {field.path: field.code for field in caught.value.fields}


def test_a_place_alone_keeps_the_type_and_inside_a_text_it_is_text():
    parameters = read_parameters(PARAMETERS)
    made = fill(SPEC, read_values(parameters, {"data": "/d", "gpus": 4}))

    assert made["resources"]["gpu"] == 4
    assert made["env"] == {"GPUS": "4"}, "variables are texts"
    assert made["name"] == "train-fast"
    assert made["command"][-1] == "--rate=0.1"
    assert made["image"] is None
    assert judge({key: value for key, value in made.items() if value is not None}) == ()


@pytest.mark.parametrize(
    "text",
    ["${{ parameters.rate }}", "{0.__class__}", "%(rate)s", "{{ 7 * 7 }}", "$(id)", "a\nroles: {}", "\\1", "${{ secrets.X }}"],
)
def test_what_was_put_in_is_data(text):
    parameters = read_parameters(PARAMETERS)
    made = fill({**SPEC, "labels": {"note": "<${{ parameters.data }}>"}}, read_values(parameters, {"data": text}))

    assert made["command"][3] == text
    assert made["labels"]["note"] == f"<{text}>"
    assert set(made) == {*SPEC, "labels"}


@pytest.mark.parametrize("bound", ["minimum", "maximum"])
def test_a_text_is_never_asked_to_be_longer_than_any_text_may_be(bound):
    """The example that a template is tried with is as long as its minimum."""
    assert refused(read_parameters, [{"name": "data", "type": "string", bound: 10**12}]) == {f"/parameters/0/{bound}": "range"}


def test_all_wrong_values_are_told_at_once():
    parameters = read_parameters(PARAMETERS)

    assert refused(read_values, parameters, {"rate": 2, "gpus": True, "mode": "slow", "other": 1}) == {
        "/parameters/rate": "range",
        "/parameters/gpus": "integer",
        "/parameters/data": "required",
        "/parameters/mode": "choice",
        "/parameters/other": "unknown_parameter",
    }


def test_bad_parameters_are_told_at_once():
    given = [
        {"name": "1", "type": "string"},
        {"name": "a", "type": "list", "x": 1},
        {"name": "b", "type": "choice"},
        {"name": "c", "type": "integer", "default": "one"},
        {"name": "d", "type": "number", "minimum": 2, "maximum": 1},
        {"name": "e", "type": "string"},
        {"name": "e", "type": "string"},
    ]

    assert refused(read_parameters, given) == {
        "/parameters/0/name": "invalid",
        "/parameters/1/x": "unknown_field",
        "/parameters/1/type": "choice",
        "/parameters/2/choices": "invalid",
        "/parameters/3/default": "integer",
        "/parameters/4/maximum": "range",
        "/parameters/6/name": "duplicate",
    }


def test_a_document_that_no_values_make_a_job_is_refused_and_a_guess_is_forgiven():
    parameters = read_parameters(PARAMETERS)
    check_template({**SPEC, "max_runtime": "${{ parameters.data }}"}, parameters)  # Only the example is no time.

    assert refused(check_template, {**SPEC, "replicas": "many", "unknown": 1}, parameters) == {
        "/spec/replicas": "integer",
        "/spec/unknown": "unknown_key",
    }
    wrong = {"command": "echo ${{ parameters.nothing }} ${{ secrets.X }}", "env": {"A${{ parameters.rate }}": "1"}}
    assert refused(check_template, wrong, parameters) == {
        "/spec/command": "bad_place",
        "/spec/env/A${{ parameters.rate }}": "place_in_key",
    }


def test_a_long_value_in_many_places_is_refused_before_it_is_built():
    parameters = read_parameters([{"name": "data", "type": "string"}])
    document = {"command": ["${{ parameters.data }}"] * 1000}

    assert refused(fill, document, read_values(parameters, {"data": "x" * 60_000})) == {"/parameters": "too_large"}
    assert len(list(places(document))) == 1000
