"""Dual numbers."""

from tests.autograd.both import assert_same


def test_tangents_go_along():
    def program(m, log):
        fw = m.fw
        with fw.dual_level():
            x = fw.make_dual(m.tensor([1.0, 2.0]), m.tensor([1.0, 10.0]))
            y = x * x * 3 + x
            log(*fw.unpack_dual(y))
            log(fw.unpack_dual(x.view(2, 1)).tangent)
            z = x * 1
            z.mul_(x)
            log(fw.unpack_dual(z).tangent)
            z[0].mul_(5)
            log(*fw.unpack_dual(z))
            w = m.tensor([7.0, 8.0])
            w[1:].add_(x[:1])
            log(*fw.unpack_dual(w))
            log(fw.unpack_dual(x.sum()).tangent)
        log(fw.unpack_dual(y).tangent)
        try:
            fw.make_dual(m.tensor([1.0, 1.0]), m.tensor([1.0, 1.0]))
        except Exception as e:
            log(type(e).__name__, str(e))

    assert_same(program)
