"""What must hold of a result before it is written: one check a module, each a function that returns findings.

A finding of severity error is a refusal: the caller writes nothing and raises VerificationError.
"""
