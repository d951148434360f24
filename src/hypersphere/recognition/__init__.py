"""From photos to decisions: find and align faces, calibrate, verify, enrol and identify."""

from hypersphere.recognition.calibration import (
    CALIBRATION_FILE,
    Calibration,
    CalibrationSet,
    calibrate,
    calibrate_scores,
    calibration_path,
    load_calibration,
    save_calibration,
)
from hypersphere.recognition.decision import (
    NO_LIVENESS,
    Decision,
    IdentificationDecision,
    IdentifiedSubject,
    decide,
    decide_search,
)
from hypersphere.recognition.llr import LlrLine, cllr, fit_llr, min_cllr
from hypersphere.recognition.score_curve import ScoreCurve, score_curve
from hypersphere.recognition.search_thresholds import SearchThreshold, calibrate_searches
from hypersphere.recognition.template import pool_template

__all__ = [
    "CALIBRATION_FILE",
    "NO_LIVENESS",
    "Calibration",
    "CalibrationSet",
    "Decision",
    "IdentificationDecision",
    "IdentifiedSubject",
    "LlrLine",
    "ScoreCurve",
    "SearchThreshold",
    "calibrate",
    "calibrate_scores",
    "calibrate_searches",
    "calibration_path",
    "cllr",
    "decide",
    "decide_search",
    "fit_llr",
    "load_calibration",
    "min_cllr",
    "pool_template",
    "save_calibration",
    "score_curve",
]
