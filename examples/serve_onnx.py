"""Serve `anchorfl export RUN model.onnx --probabilities`: MODEL=FILE python serve_onnx.py [PORT]."""

import io
import json
import os
import sys
from wsgiref.simple_server import make_server

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

session = onnxruntime.InferenceSession(os.environ["MODEL"], providers=["CPUExecutionProvider"])
interface = json.loads(session.get_modelmeta().custom_metadata_map["interface"])
height, width = interface["image_size"]
mode = {"RGB": "RGB", "grey": "L"}[interface["input"]["colour"]]
if session.get_outputs()[0].name != "probabilities":
    sys.exit("this model has scores alone: export it with --probabilities")


def classify(data):
    picture = ImageOps.exif_transpose(Image.open(io.BytesIO(data), formats=("PNG", "JPEG")))
    if picture.mode[0] in "IF" or picture.has_transparency_data:
        raise ValueError(picture.mode)
    picture = picture.convert(mode).resize((width, height), Image.Resampling.BILINEAR)
    pixels = np.asarray(picture, np.float32).reshape(1, height, width, -1).transpose(0, 3, 1, 2) / 255
    chances, *far = session.run(None, {"images": np.ascontiguousarray(pixels)})
    best = chances[0].argmax()
    answer = {"class": interface["class_names"][best], "probability": float(chances[0, best])}
    if not far:
        return answer
    return {**answer, "unfamiliarity": float(far[0][0]), "unlike": bool(far[0][0] > 1)}


def service(request, start):
    """A WSGI application."""
    status, answer = "200 OK", {"status": "ok", "classes": interface["class_names"]}
    if request["PATH_INFO"] != "/health":
        try:
            size = min(max(int(request.get("CONTENT_LENGTH") or 0), 0), 20_000_000)
            answer = classify(request["wsgi.input"].read(size))
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
            status, answer = "400 Bad Request", {"error": "POST an opaque PNG or JPEG of 8 bits itself"}
    start(status, [("Content-Type", "application/json")])
    return [json.dumps(answer).encode()]


if __name__ == "__main__":
    server = make_server("127.0.0.1", int((sys.argv[1:] or ["8000"])[0]), service)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
