"""Scripts: source that calls tools, each through the ordinary path of a call.

A script that has not ended is data (:mod:`.stored_script`), never a snapshot of an interpreter.  To continue it is to
run its source again from the start: calls that have ended are answered from their records, and the first one without
an answer is made.
"""
