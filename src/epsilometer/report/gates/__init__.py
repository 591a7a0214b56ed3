"""A result for machines that gate a pipeline: JUnit XML, a badge, annotations, a tracked run."""
