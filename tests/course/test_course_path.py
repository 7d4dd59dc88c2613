"""One path, not a map: what comes next and why, and nothing that is not written."""

import pytest

from labkit import course
from labkit.course import course_path, exercises, progress_file
from labkit.course.cards import progress
from labkit.course.course_map import map_data
from labkit.course.course_path import lines, stops_of
from labkit.course.notebook_form import ROOT, notebook_name, notebook_paths
from labkit.course.plan import planned
from labkit.course.progress_file import record_pass


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    monkeypatch.setattr(progress_file, "_in_memory", {})
    monkeypatch.setenv("LABKIT_PROGRESS", "off")
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    monkeypatch.chdir(ROOT / "notebooks" / "2_core_code")


def needed(name):
    """Every chapter below one."""
    return {name}.union(*(needed(other) for other in planned()[name]["needs"]))


def drawn_name(node):
    """The chapter that a node of the map stands for."""
    return f"{node['group']}/{node['label'].replace(' ', '_')}".removeprefix("0_start_here/")


def do(name):
    for module in exercises.modules():
        if exercises.notebook_of(module) == name:
            for exercise in exercises.in_module(module):
                record_pass(exercise.id)


@pytest.mark.parametrize("line", lines())
def test_no_stop_stands_before_one_that_it_needs(line):
    stops = lines()[line]["stops"]
    assert stops[0] == "0_start_here" and len(set(stops)) == len(stops)
    for at, name in enumerate(stops):
        assert not needed(name) & set(stops[at + 1 :]), name


def test_what_a_chapter_needs_is_a_chapter_before_it():
    """In reading order: so nothing needs what is not there, and nothing needs itself."""
    before = set()
    for name, entry in planned().items():
        assert set(entry["needs"]) <= before, name
        assert entry["needs"] or name == "0_start_here"
        before.add(name)


@pytest.mark.parametrize("line", lines())
def test_a_stop_names_what_it_needs_from_other_lines(line):
    path = course.path(line)
    page, on_line = path._repr_html_(), set()
    for stop in path.stops[line]:
        named = {one.name for one in path.beside(line, stop)}
        assert set(planned()[stop.name]["needs"]) == named | (
            set(planned()[stop.name]["needs"]) & on_line
        )
        assert all(f'href="{one.link()}"' in page for one in path.beside(line, stop))
        on_line.add(stop.name)


def test_what_is_done_is_not_asked_for_again():
    path = course.path("memory")
    (stop,) = [one for one in path.stops["memory"] if one.name == "1_fundamentals/6_memory"]
    waiting = ["1_fundamentals/4_indexing", "1_fundamentals/5_broadcasting"]
    assert [one.name for one in path.beside("memory", stop)] == waiting
    assert "needs, from another line: 1_fundamentals/4_indexing" in repr(path)
    do(waiting[0])
    assert [one.name for one in course.path("memory").beside("memory", stop)] == waiting[1:]


def test_every_written_chapter_is_on_a_line():
    on_lines = {name for line in lines().values() for name in line["stops"]}
    assert on_lines <= set(planned())
    assert {notebook_name(path) for path in notebook_paths()} <= on_lines


def test_the_next_stop_follows_what_is_done():
    assert course.path("gradients").next.name == "0_start_here"
    do("0_start_here")
    assert course.path("gradients").next.name == "1_fundamentals/1_introduction"
    do("1_fundamentals/1_introduction")
    path = course.path("gradients")
    assert path.next.name == "2_core_code/6_autograd" and path.stops["gradients"][0].done
    assert course.path().line == "gradients", "the line gone furthest is open"
    for stop in stops_of("gradients"):
        do(stop.name)
    assert course.path("gradients").next is None
    assert "every stop is done" in course.path("gradients")._repr_html_()


def test_who_is_further_on_is_not_sent_back_to_the_start():
    """A page made without Jupyter does not know which chapter runs; what was passed says enough."""
    record_pass("introduction.asks")
    assert course.path().here == ""
    assert course.path().next.name == "1_fundamentals/1_introduction"
    assert course.path("gradients").next.name == "1_fundamentals/1_introduction"


def test_the_chapter_that_runs_is_marked_and_the_next_is_behind_it(monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "notebooks/2_core_code/9_caching_allocator.ipynb")
    path = course.path()
    assert path.here == "2_core_code/9_caching_allocator" and path.line == "memory"
    assert path.next.name == "2_core_code/9b_run_that_died"
    assert path.next.link() == "9b_run_that_died.ipynb"
    assert repr(path).count("you are here") == 1
    page = path._repr_html_()
    assert 'href="9b_run_that_died.ipynb"' in page
    assert page.count("<details open>") == 1 and page.count("you are here") == 1


def test_who_has_chosen_no_line_is_offered_each(monkeypatch):
    monkeypatch.chdir(ROOT / "notebooks")
    for passed, running in [
        (False, "0_start_here.ipynb"),
        (False, ""),
        (True, "0_start_here.ipynb"),
    ]:
        monkeypatch.setenv("JPY_SESSION_NAME", running)
        if passed:
            do("0_start_here")
        path = course.path()
        page = path._repr_html_()
        assert path.is_fork and "<details open>" not in page
        offered = [path.next_of(line).link() for line in lines()]
        assert all(f'href="{link}"' in page.partition("</ul>")[0] for link in offered)
        assert "0_start_here.ipynb" not in offered, "nobody is sent to where he is"
        assert repr(path).count("→") == len(lines())
    record_pass("introduction.asks")
    assert not course.path().is_fork and course.path().line == "gradients"
    assert not course.path("views").is_fork


def test_all_lists_count_the_same_exercises():
    do("0_start_here")
    said = {name: (done, asked) for name, done, asked, _ in progress().rows()}
    drawn = {drawn_name(node): node["kind"] for node in map_data()[0]}
    for line in lines():
        for stop in stops_of(line):
            assert said.get(stop.name, (0, 0)) == (stop.passed, stop.asked), stop.name
            assert drawn[stop.name] == ("passed" if stop.done else "open")


def test_the_boss_is_not_asked_for(monkeypatch):
    from labkit.course.exercise import Exercise

    asked = {
        "id": "toys.a", "case": lambda rng, size: (1,), "hints": ("h",), "must_fail": ("w",),
    }  # fmt: skip
    pair = (Exercise(**asked), Exercise(**asked | {"id": "toys.b", "rung": "boss"}))
    monkeypatch.setattr(course_path, "_exercises", lambda: {"0_start_here": pair})
    record_pass("toys.a")
    assert stops_of("views")[0].done


def test_chapters_not_written_are_not_drawn(monkeypatch):
    written = {notebook_name(path) for path in notebook_paths()}
    nodes, edges = map_data()
    assert {drawn_name(node) for node in nodes} == written
    assert all(edge["source"] < edge["target"] for edge in edges)
    reached = {edge["target"] for edge in edges}
    assert len(reached) == len(nodes) - 1, "needs are followed through what is not written"
    about = {"title": "?", "minutes": 3, "exercise_minutes": 1}
    monkeypatch.setattr(
        course_path,
        "_about",
        lambda name: None if "autograd" in name else about,
    )
    planned_stops = lines()["gradients"]["stops"]
    left = [name for name in planned_stops if "autograd" not in name]
    assert [stop.name for stop in stops_of("gradients")] == left != planned_stops


def test_a_goal_that_is_none_says_which_there_are():
    with pytest.raises(KeyError, match="kernels"):
        course.path("graphics")
