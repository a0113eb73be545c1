"""Serve `anchorfl export RUN model.onnx --probabilities`: python serve_onnx.py model.onnx [PORT]."""

import io
import json
import sys
from wsgiref.simple_server import make_server

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
interface = json.loads(session.get_modelmeta().custom_metadata_map["interface"])
height, width = interface["image_size"]
mode = {"RGB": "RGB", "grey": "L"}[interface["input"]["colour"]]


def classify(data):
    picture = ImageOps.exif_transpose(Image.open(io.BytesIO(data), formats=("PNG", "JPEG")))
    if picture.mode[0] in "IF" or picture.has_transparency_data:
        raise ValueError(picture.mode)
    picture = picture.convert(mode).resize((width, height), Image.Resampling.BILINEAR)
    pixels = np.asarray(picture, np.float32).reshape(1, height, width, -1).transpose(0, 3, 1, 2) / 255
    chances, *far = session.run(None, {"images": np.ascontiguousarray(pixels)})
    best = chances[0].argmax()
    answer = {"class": interface["class_names"][best], "probability": float(chances[0, best])}
    return {**answer, "unfamiliarity": float(far[0][0])} if far else answer


def service(request, start):
    status, size = "200 OK", min(int(request["CONTENT_LENGTH"] or 0), 20_000_000)
    try:
        healthy = request["PATH_INFO"] == "/health"
        answer = {"status": "ok"} if healthy else classify(request["wsgi.input"].read(size))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        status, answer = "400 Bad Request", {"error": "send an opaque PNG or JPEG of 8 bits"}
    start(status, [("Content-Type", "application/json")])
    return [json.dumps(answer).encode()]


server = make_server("127.0.0.1", int(sys.argv[2] if len(sys.argv) > 2 else 8000), service)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
