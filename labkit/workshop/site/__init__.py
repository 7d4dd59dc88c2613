"""`labkit site OUT`: the course as pages that need no server, no kernel and no network.

Every chapter is run; its widgets work from the state in the page, its predictions answer, and each
solution is folded below its exercise. `index.html` lists and searches the chapters; `widgets/` has
one page for each kind of widget, to be put into a frame elsewhere.
"""

from labkit.workshop.site.build import add_arguments, run

__all__ = ["add_arguments", "run"]
