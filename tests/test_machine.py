"""What a machine tells of its energy: from a folder as Linux has it, or from a GPU's driver."""

import pytest
import torch

from annotated import machine
from annotated.machine import energy_meter


def zone(root, folder, name, energy, span=999_999_999):
    made = root / folder
    made.mkdir()
    (made / "name").write_text(name + "\n")
    (made / "energy_uj").write_text(f"{energy}\n")
    (made / "max_energy_range_uj").write_text(f"{span}\n")
    return made / "energy_uj"


class TestProcessor:
    def test_joules_since_the_last_call_of_all_packages(self, tmp_path):
        first = zone(tmp_path, "intel-rapl:0", "package-0", 7_000_000)
        second = zone(tmp_path, "intel-rapl:1", "package-1", 100)
        joules = energy_meter("cpu", tmp_path)
        assert joules() == 0
        first.write_text("9500000")
        second.write_text("500100")
        assert joules() == pytest.approx(3.0)
        assert joules() == 0

    def test_parts_of_a_package_and_the_whole_board_are_not_counted_again(self, tmp_path):
        package = zone(tmp_path, "intel-rapl:0", "package-0", 0)
        others = [
            zone(tmp_path, "intel-rapl:0:0", "core", 0),
            zone(tmp_path, "intel-rapl:1", "psys", 0),
            zone(tmp_path, "intel-rapl-mmio:0", "package-0", 0),
        ]
        joules = energy_meter("cpu", tmp_path)
        for file in (package, *others):
            file.write_text("2000000")
        assert joules() == pytest.approx(2.0)

    def test_a_counter_that_is_full_begins_again(self, tmp_path):
        file = zone(tmp_path, "intel-rapl:0", "package-0", 9_000_000, span=9_999_999)
        joules = energy_meter("cpu", tmp_path)
        file.write_text("500000")
        assert joules() == pytest.approx(1.5)

    def test_where_nothing_tells_there_is_no_meter(self, tmp_path):
        assert energy_meter("cpu", tmp_path) is None
        assert energy_meter("cpu", tmp_path / "missing") is None

    @pytest.mark.parametrize("damage", ["folder", "text", "missing"])
    def test_what_can_not_be_read_is_no_meter(self, tmp_path, damage):
        file = zone(tmp_path, "intel-rapl:0", "package-0", 7)
        file.unlink()
        if damage == "folder":  # reading fails as it does for who has no right to
            file.mkdir()
        if damage == "text":
            file.write_text("none")
        assert energy_meter("cpu", tmp_path) is None


class TestGraphicsProcessor:
    def test_power_times_the_time_since_the_last_call(self, monkeypatch):
        watts, clock = iter([50, 300, 200]), iter([10.0, 12.0, 12.5])
        monkeypatch.setattr(torch.cuda, "power_draw", lambda: 1000 * next(watts))
        monkeypatch.setattr(machine.time, "perf_counter", lambda: next(clock))
        joules = energy_meter("cuda")
        assert joules() == pytest.approx(300 * 2.0)
        assert joules() == pytest.approx(200 * 0.5)

    def test_without_the_driver_there_is_no_meter(self, monkeypatch):
        def missing():
            raise ModuleNotFoundError("No module named 'pynvml'")

        monkeypatch.setattr(torch.cuda, "power_draw", missing)
        assert energy_meter("cuda") is None
