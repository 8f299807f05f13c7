"""Programs from elsewhere as modules: ONNX files and torch.export archives."""
