"""Treads and marks stand where the numbers are that were given."""

import pytest

from annotated.figures.distance import against_distance, power, readiness

FOUND = {"one": {4: [1.0, 0.5], 16: [0.25, 0.75]}, "two": {4: [0.1], 16: [0.01]}}


class TestReadiness:
    def test_a_tread_for_each_position(self):
        ax = readiness({"stairs": [1, 2, 3], "flat": [1, 1, 1]}, "Found").axes[0]
        stairs, flat = (patch.get_data() for patch in ax.patches)
        assert stairs.values.tolist() == [1, 2, 3] and flat.values.tolist() == [1, 1, 1]
        assert stairs.edges.tolist() == [-0.5, 0.5, 1.5, 2.5]
        assert ax.get_ylim()[0] == 0
        assert {text.get_text() for text in ax.texts} == {"stairs", "flat"}
        assert ax.patches[0].get_linestyle() != ax.patches[1].get_linestyle()


class TestAgainstDistance:
    def test_lines_go_through_means_and_marks_are_all_runs(self):
        ax = against_distance(FOUND, "Found", "share").axes[0]
        points = [(list(line.get_xdata()), list(line.get_ydata())) for line in ax.lines]
        assert points == [
            ([4, 16], [0.75, 0.5]), ([4, 4], [1.0, 0.5]), ([16, 16], [0.25, 0.75]),
            ([4, 16], [0.1, 0.01]), ([4], [0.1]), ([16], [0.01]),
        ]
        assert ax.get_xscale() == "log" and ax.get_yscale() == "linear" and ax.get_ylim()[0] == 0
        assert [t.get_text() for t in ax.get_xticklabels()] == ["4", "16"]

    def test_chance_is_a_line_across(self):
        ax = against_distance(FOUND, "Found", "share", chance=0.0625).axes[0]
        assert list(ax.lines[-1].get_ydata()) == [0.0625] * 2
        assert "chance" in [text.get_text() for text in ax.texts]

    def test_a_line_that_ends_early_has_its_name_there(self):
        ax = against_distance(FOUND | {"three": {4: [0.3]}}, "Found", "share").axes[0]
        (name,) = [text for text in ax.texts if text.get_text() == "three"]
        assert name.xy == (4, 0.3)

    def test_a_logarithmic_scale_has_powers_of_ten(self):
        ax = against_distance(FOUND, "Found", "gradient", scale="log").axes[0]
        ax.figure.canvas.draw()
        labels = {text.get_text() for text in ax.get_yticklabels()}
        assert ax.get_yscale() == "log" and "10⁻¹" in labels

    @pytest.mark.parametrize(("value", "text"), [(1, "1"), (100.0, "100"), (1e-12, "10⁻¹²")])
    def test_powers(self, value, text):
        assert power(value) == text
