"""Coverage and conformance studies, with their plans and results; not part of the package."""
