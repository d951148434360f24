"""What the papers prove or show in small, computed."""

from hypersphere.theory.toy import OPTIMUM_DEGREES, TOY_LOSSES, ToyLoss, ToySolution, draw_toy, solve_toy

__all__ = ["OPTIMUM_DEGREES", "TOY_LOSSES", "ToyLoss", "ToySolution", "draw_toy", "solve_toy"]
