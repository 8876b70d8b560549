"""Policies for other programs: ONNX models, written from the policy's description, and torch programs."""
