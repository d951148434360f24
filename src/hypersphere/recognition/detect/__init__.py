"""Detectors of faces: photos in, faces with five landmarks out."""

from hypersphere.recognition.detect.detector import Detector, load_detector
from hypersphere.recognition.detect.mtcnn import Mtcnn

__all__ = ["Detector", "Mtcnn", "load_detector"]
