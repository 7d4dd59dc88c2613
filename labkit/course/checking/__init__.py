"""How an answer is asked: out of reach of what is right, timed, judged, and said."""
