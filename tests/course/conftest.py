"""Between the answers to one exercise what it forbids stays put away, and no longer."""

import pytest

from tests.course.answers import out_of_reach


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    asked = getattr(getattr(nextitem, "callspec", None), "params", {}).get("exercise")
    if getattr(asked, "id", None) != out_of_reach.id or nextitem.function is not item.function:
        out_of_reach.end()
