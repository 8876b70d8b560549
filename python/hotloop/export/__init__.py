"""Policies for other programs: ONNX models, written from the policy's spec, and torch programs."""
