"""The recognizer as an HTTP service with a page: FastAPI, with the extra `service`."""

from hypersphere.service.app import create_app
from hypersphere.service.keys import ROLES, Key, KeyFile
from hypersphere.service.server import ServeOptions, serve
from hypersphere.service.service_settings import ServiceSettings

__all__ = ["ROLES", "Key", "KeyFile", "ServeOptions", "ServiceSettings", "create_app", "serve"]
