"""Measuring speed: what `benchmarks/speed.py` runs and the other scripts here share."""

from bench.check_plan import check_lines, check_plan
from bench.contestants import FLOOR, Size, contestants, draw
from bench.machine import append_row, choose_measured_device, device_name, peak_bytes
from bench.measure_heads import Measured, draw_head_panels, head_rows, head_table, measure_heads
from bench.measure_training import TrainingBench
from bench.plan import PLANNED, describe_measured, describe_plan, forecast_for, measure_rate

__all__ = [
    "FLOOR",
    "PLANNED",
    "Measured",
    "Size",
    "TrainingBench",
    "append_row",
    "check_lines",
    "check_plan",
    "choose_measured_device",
    "contestants",
    "describe_measured",
    "describe_plan",
    "device_name",
    "draw",
    "draw_head_panels",
    "forecast_for",
    "head_rows",
    "head_table",
    "measure_heads",
    "measure_rate",
    "peak_bytes",
]
