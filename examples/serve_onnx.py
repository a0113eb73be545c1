"""Serve `anchorfl export RUN model.onnx --probabilities`: python serve_onnx.py model.onnx [PORT]."""

import io
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

LARGEST = 20_000_000
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF")
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
interface = json.loads(session.get_modelmeta().custom_metadata_map["interface"])
height, width = interface["image_size"]
mode = "RGB" if interface["input"]["colour"] == "RGB" else "L"


def classify(data):
    picture = ImageOps.exif_transpose(Image.open(io.BytesIO(data), formats=FORMATS))
    if picture.mode[0] in "IF" or picture.has_transparency_data:
        raise ValueError(picture.mode)
    picture = picture.convert(mode).resize((width, height), Image.Resampling.BILINEAR)
    pixels = np.asarray(picture, np.float32).reshape(1, height, width, -1).transpose(0, 3, 1, 2) / 255
    answers = session.run(None, {"images": np.ascontiguousarray(pixels)})
    found = dict(zip([each["name"] for each in interface["outputs"]], answers, strict=True))
    chances, far = found["probabilities"][0], found.get("unfamiliarity")
    best = int(chances.argmax())
    answer = {"class": interface["class_names"][best], "probability": float(chances[best])}
    return answer if far is None else {**answer, "unfamiliarity": float(far[0])}


class Handler(BaseHTTPRequestHandler):
    def reply(self, status, content):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        known = self.path == "/health"
        self.reply(200 if known else 404, {"status": "ok"} if known else {"error": "GET /health"})

    def do_POST(self):
        size = int(self.headers.get("Content-Length", 0))
        if not 0 < size <= LARGEST:
            self.reply(413, {"error": f"send a picture of at most {LARGEST:,} bytes"})
            return
        try:
            self.reply(200, classify(self.rfile.read(size)))
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
            self.reply(400, {"error": "no picture of 8 bits a channel without transparency"})

    def log_message(self, *words):
        """Requests are not logged."""


if __name__ == "__main__":
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 8000
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
