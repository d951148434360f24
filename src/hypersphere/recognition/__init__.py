"""From photos to decisions: find and align faces, calibrate, verify, enrol and identify."""

from hypersphere.models.align import (
    ALIGNMENT_TARGETS,
    AlignmentTarget,
    DegenerateLandmarks,
    align_face,
    similarity_transform,
)
from hypersphere.recognition.align_folder import align_photos
from hypersphere.recognition.align_report import ALIGN_FAILURES, FACE_POLICIES, AlignedPhoto, AlignReport, AlignTask
from hypersphere.recognition.calibration import (
    SHIPPED,
    Calibration,
    CalibrationSet,
    calibrate,
    calibrate_scores,
    calibration_path,
    load_calibration,
    save_calibration,
)
from hypersphere.recognition.cluster import LINKAGES, ClusterQuality, cluster_faces, cluster_quality, members_of
from hypersphere.recognition.cluster_page import write_cluster_page
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
from hypersphere.recognition.face_cache import FaceCache
from hypersphere.recognition.find_faces import FoundFaces, find_faces, open_photos
from hypersphere.recognition.find_person import PersonSearch, find_person, write_find_page
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
    IndexCheck,
    contract_digest,
    open_gallery,
    restore_gallery,
)
from hypersphere.recognition.llr import LlrLine, cllr, fit_llr, min_cllr
from hypersphere.recognition.photo import PhotoTooLarge, read_photo
from hypersphere.recognition.recognizer import FACES, FaceCountError, Photo, Portrait, Recognizer, default_gallery
from hypersphere.recognition.score_curve import ScoreCurve, score_curve
from hypersphere.recognition.search_thresholds import SearchThreshold, calibrate_searches
from hypersphere.recognition.sort_photos import sort_photos
from hypersphere.recognition.template import pool_template
from hypersphere.recognition.verify_page import marked_photo, write_verify_page

__all__ = [
    "ALIGNMENT_TARGETS",
    "ALIGN_FAILURES",
    "FACES",
    "FACE_POLICIES",
    "LINKAGES",
    "NO_LIVENESS",
    "SHIPPED",
    "AlignReport",
    "AlignTask",
    "AlignedPhoto",
    "AlignmentTarget",
    "AuditEntry",
    "Calibration",
    "CalibrationSet",
    "Candidate",
    "ClusterQuality",
    "Damage",
    "Decision",
    "DegenerateLandmarks",
    "Detector",
    "DuplicateTemplate",
    "ExactSearch",
    "Face",
    "FaceCache",
    "FaceCountError",
    "FoundFaces",
    "Gallery",
    "GalleryDamaged",
    "GalleryInfo",
    "GalleryMismatch",
    "GalleryUnavailable",
    "IdentificationDecision",
    "IdentifiedSubject",
    "IndexCheck",
    "LlrLine",
    "Mtcnn",
    "PersonSearch",
    "Photo",
    "PhotoTooLarge",
    "Portrait",
    "Recognizer",
    "ScoreCurve",
    "Scrfd",
    "SearchThreshold",
    "YuNet",
    "align_face",
    "align_photos",
    "calibrate",
    "calibrate_scores",
    "calibrate_searches",
    "calibration_path",
    "cllr",
    "cluster_faces",
    "cluster_quality",
    "contract_digest",
    "decide",
    "decide_search",
    "default_gallery",
    "find_faces",
    "find_person",
    "fit_llr",
    "load_calibration",
    "load_detector",
    "marked_photo",
    "members_of",
    "min_cllr",
    "open_gallery",
    "open_photos",
    "pool_template",
    "read_photo",
    "restore_gallery",
    "save_calibration",
    "score_curve",
    "similarity_transform",
    "sort_photos",
    "write_cluster_page",
    "write_find_page",
    "write_verify_page",
]
