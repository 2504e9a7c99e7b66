"""libcst transforms: one codemod a file, each begins with a before/after; none of them opens a file."""
