"""An environment that lost something is noticed at the next start, and put right."""

import shutil

import pytest

from labkit.launcher.setup import OURS, STAMP


def site(project):
    (folder,) = project.venv.glob("lib/*/site-packages")
    return folder


def truncate(path):
    path.write_bytes(path.read_bytes()[:-1])


DAMAGE = {
    "a module's folder is gone": lambda site: shutil.rmtree(site / "tinydep_parts"),
    "its vital file is cut short": lambda site: truncate(site / "tinydep_parts" / "__init__.py"),
    "its library is cut short": lambda site: truncate(site / "tinydep_parts" / "fast.so"),
    "its record is gone": lambda site: shutil.rmtree(site / "tinydep-1.0.dist-info"),
    "all of it is gone": lambda site: (
        [shutil.rmtree(path) for path in site.glob("tinydep*-*")]
        + [shutil.rmtree(site / "tinydep_parts")]
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_the_next_start_puts_it_right(finished, damage):
    DAMAGE[damage](site(finished))
    result = finished.lab("setup")
    assert result.returncode == 0, result.stderr
    assert "Gone from .venv, or damaged: tinydep. Putting it right." in result.stdout
    assert (site(finished) / "tinydep_parts" / "fast.so").stat().st_size == 100
    assert finished.imports("tinydep_parts")
    again = finished.lab("setup", PIP_FIND_LINKS="/nowhere")
    assert again.stdout == "The lab is set up. Open it with: python3 lab.py\n"


def test_what_the_user_added_is_left_alone(finished):
    added = site(finished) / "mine-1.0.dist-info"
    added.mkdir()
    result = finished.lab("setup", PIP_FIND_LINKS="/nowhere")
    assert result.stdout == "The lab is set up. Open it with: python3 lab.py\n"
    added.rmdir()


def test_repair_compares_every_byte(finished):
    """A file of the right size with other bytes passes for whole at a start, not here."""
    data = site(finished) / "tinydep_data.bin"
    data.write_bytes(b"?" * 1000)
    assert finished.lab("setup", PIP_FIND_LINKS="/nowhere").returncode == 0
    assert data.read_bytes() == b"?" * 1000
    result = finished.lab("repair")
    assert result.returncode == 0, result.stderr
    assert "tinydep-1.0 was left half installed" in result.stdout
    assert "torch-2.13.0 was left half installed" not in result.stdout
    assert result.stdout.endswith("Every file is as it was installed, and torch can be imported.\n")
    assert data.read_bytes() == bytes(1000)


def test_repair_makes_what_is_not_there(project):
    """With the pip of Python itself."""
    result = project.lab("repair", PYTHONPATH="")
    assert result.returncode == 0, result.stderr
    assert (project.venv / STAMP).is_file()
    assert (project.venv / OURS).is_file()


def test_what_repair_cannot_mend_is_told(finished):
    """A file that no package has recorded, in the way of the import."""
    (site(finished) / "torch").mkdir()
    (site(finished) / "torch" / "__init__.py").write_text("raise ImportError('odd libc')")
    result = finished.lab("repair")
    shutil.rmtree(site(finished) / "torch")
    assert result.returncode == 1
    assert "torch still cannot be imported:\n  ImportError: odd libc" in result.stderr
    assert f"rm -rf {finished.venv}" in result.stderr


def test_the_versions_of_the_constraints_are_installed(finished):
    """tinydep 2.0 lies beside 1.0 in the same folder, and is newer."""
    assert (site(finished) / "tinydep-1.0.dist-info").is_dir()
    (finished.root / "constraints.txt").write_text("tinydep==2.0\n", encoding="utf-8")
    result = finished.lab("setup")
    assert result.returncode == 0, result.stderr
    assert (site(finished) / "tinydep-2.0.dist-info").is_dir()
