"""From photos to decisions: find and align faces, calibrate, verify, enrol and identify."""

from hypersphere.recognition.align import (
    ALIGNMENT_TARGETS,
    AlignmentTarget,
    DegenerateLandmarks,
    align_face,
    similarity_transform,
)
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
from hypersphere.recognition.detect import Detector, Mtcnn, Scrfd, YuNet, load_detector
from hypersphere.recognition.face import Face
from hypersphere.recognition.gallery import (
    AuditEntry,
    Candidate,
    Damage,
    DuplicateTemplate,
    ExactSearch,
    Gallery,
    GalleryDamaged,
    GalleryInfo,
    GalleryMismatch,
    GalleryUnavailable,
    contract_digest,
    open_gallery,
    restore_gallery,
)
from hypersphere.recognition.llr import LlrLine, cllr, fit_llr, min_cllr
from hypersphere.recognition.photo import PhotoTooLarge, read_photo
from hypersphere.recognition.score_curve import ScoreCurve, score_curve
from hypersphere.recognition.search_thresholds import SearchThreshold, calibrate_searches
from hypersphere.recognition.template import pool_template

__all__ = [
    "ALIGNMENT_TARGETS",
    "CALIBRATION_FILE",
    "NO_LIVENESS",
    "AlignmentTarget",
    "AuditEntry",
    "Calibration",
    "CalibrationSet",
    "Candidate",
    "Damage",
    "Decision",
    "DegenerateLandmarks",
    "Detector",
    "DuplicateTemplate",
    "ExactSearch",
    "Face",
    "Gallery",
    "GalleryDamaged",
    "GalleryInfo",
    "GalleryMismatch",
    "GalleryUnavailable",
    "IdentificationDecision",
    "IdentifiedSubject",
    "LlrLine",
    "Mtcnn",
    "PhotoTooLarge",
    "ScoreCurve",
    "Scrfd",
    "SearchThreshold",
    "YuNet",
    "align_face",
    "calibrate",
    "calibrate_scores",
    "calibrate_searches",
    "calibration_path",
    "cllr",
    "contract_digest",
    "decide",
    "decide_search",
    "fit_llr",
    "load_calibration",
    "load_detector",
    "min_cllr",
    "open_gallery",
    "pool_template",
    "read_photo",
    "restore_gallery",
    "save_calibration",
    "score_curve",
    "similarity_transform",
]
