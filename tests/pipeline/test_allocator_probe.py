from labkit.pipeline.probes import allocator_probe


def test_a_data_ptr_moves_and_releases_once():
    facts = allocator_probe.facts()
    assert (facts["copyable"], facts["movable"]) == (False, True)
    assert facts["releases at a move"] == 0
    assert not facts["exchange with a wrong expectation"]
    assert facts["exchange with the right expectation"]
    assert (facts["the old deleter ran"], facts["the new deleter ran"]) == (0, 1)


def test_no_memory_may_still_be_somewhere():
    facts = allocator_probe.facts()
    assert (facts["null pointer is on device type"], facts["null pointer has device index"]) == (
        1,
        3,
    )
    assert not facts["null pointer counts as memory"]
    assert facts["default device type"] == 0


def test_a_std_function_needs_an_object_of_its_own():
    facts = allocator_probe.facts()
    assert facts["plain context is the memory"]
    assert not facts["std::function context is the memory"]
    assert facts["std::function ran"] == 1
    assert facts["bytes of the std::function context"] > 8


def test_the_answers_do_not_change_when_asked_again():
    assert allocator_probe.facts() == allocator_probe.facts()
