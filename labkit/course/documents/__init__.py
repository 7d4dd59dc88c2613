"""Code of the documents, kept as it is described there so that it can be measured."""
