"""Measuring speed: what `hypersphere bench` runs and the scripts of benchmarks/ share."""

from hypersphere.bench.check_plan import check_lines, check_plan
from hypersphere.bench.contestants import FLOOR, Size, contestants, draw
from hypersphere.bench.machine import append_row, choose_measured_device, device_name, peak_bytes
from hypersphere.bench.measure_heads import Measured, draw_head_panels, head_rows, head_table, measure_heads
from hypersphere.bench.measure_training import TrainingBench
from hypersphere.bench.plan import (
    PLANNED,
    Cost,
    Forecast,
    describe_plan,
    forecast,
    forecast_table,
    measure_rate,
    network_cost,
    process_counts,
)

__all__ = [
    "FLOOR",
    "PLANNED",
    "Cost",
    "Forecast",
    "Measured",
    "Size",
    "TrainingBench",
    "append_row",
    "check_lines",
    "check_plan",
    "choose_measured_device",
    "contestants",
    "describe_plan",
    "device_name",
    "draw",
    "draw_head_panels",
    "forecast",
    "forecast_table",
    "head_rows",
    "head_table",
    "measure_heads",
    "measure_rate",
    "network_cost",
    "peak_bytes",
    "process_counts",
]
