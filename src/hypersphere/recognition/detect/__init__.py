"""Detectors of faces: photos in, faces with five landmarks out."""

from hypersphere.recognition.detect.detector import Detector, load_detector
from hypersphere.recognition.detect.mtcnn import Mtcnn
from hypersphere.recognition.detect.scrfd import Scrfd
from hypersphere.recognition.detect.yunet import YuNet

__all__ = ["Detector", "Mtcnn", "Scrfd", "YuNet", "load_detector"]
