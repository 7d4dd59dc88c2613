"""A room that other spawners run: files that say what was asked, and what starts a learner."""

import ast
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from labkit.cli import main
from labkit.launcher.problem import Problem
from labkit.workshop import elsewhere
from labkit.workshop.elsewhere import Room, write

LEARNER = Path(elsewhere.__file__).parent / "learner.sh"
ROOM = Room(teacher="maria", image="lab.example/course:7", memory=1.5, idle_minutes=20)


@pytest.fixture
def files(tmp_path):
    written = write(tmp_path / "room", ROOM)
    return {str(path.relative_to(tmp_path / "room")): path.read_text() for path in written}


def settings(text):
    """`c.Class.name` -> value, for every assignment of a plain value."""
    found = {}
    for one in ast.parse(text).body:
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Attribute):
            try:
                found[ast.unparse(one.targets[0])] = ast.literal_eval(one.value)
            except ValueError:
                continue
    return found


def test_no_placeholder_is_left_and_the_readme_names_every_way(files):
    assert not [name for name, text in files.items() if "@{" in text]
    assert {name.split("/")[0] for name in files} == {
        "README.md", "docker", "systemd", "kubernetes",
    }  # fmt: skip
    for name in ("docker/Dockerfile", "docker/jupyterhub_config.py", "kubernetes/values.yaml"):
        assert name in files["README.md"]
    assert "Sign up as `maria` yourself" in files["README.md"]


@pytest.mark.parametrize("way", ["docker", "systemd"])
def test_a_hub_gives_what_was_asked_and_lets_in_whom_the_teacher_lets_in(files, way):
    said = settings(files[f"{way}/jupyterhub_config.py"])
    assert said["c.Spawner.mem_limit"] == "1536M"
    assert said["c.Authenticator.admin_users"] == {"maria"}
    assert said["c.JupyterHub.authenticator_class"] == "native"
    assert said["c.JupyterHub.bind_url"] == "http://127.0.0.1:8000"
    assert "--ServerApp.shutdown_no_activity_timeout=1200" in said["c.Spawner.args"]


def test_kubernetes_gets_the_same(files):
    values = yaml.safe_load(files["kubernetes/values.yaml"])
    assert values["hub"]["config"]["Authenticator"]["admin_users"] == ["maria"]
    assert values["hub"]["config"]["JupyterHub"] == {"authenticator_class": "native"}
    assert values["singleuser"]["image"] == {"name": "lab.example/course", "tag": "7"}
    assert values["singleuser"]["memory"]["limit"] == "1536M"
    assert values["cull"]["timeout"] == 1200
    assert values["proxy"]["service"]["type"] == "ClusterIP"


@pytest.mark.parametrize(
    ("room", "said"),
    [
        (Room(teacher="Maria\nroot"), "teacher"),
        (Room(image="course"), "name:tag"),
        (Room(image='x:1"\n'), "name:tag"),
        (Room(memory=0.25), "1 or more"),
        (Room(idle_minutes=0), "1 or more"),
    ],
)
def test_a_setting_that_no_file_could_say_is_refused(tmp_path, room, said):
    with pytest.raises(ValueError, match=said):
        write(tmp_path / "room", room)
    assert not (tmp_path / "room").exists()


def test_a_folder_that_holds_something_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(Problem, match="holds something already"):
        write(tmp_path, ROOM)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_the_command_says_what_it_wrote(tmp_path, capsys):
    assert main(["workshop", "elsewhere", str(tmp_path / "room"), "--teacher", "maria"]) == 0
    assert str(tmp_path / "room" / "README.md") in capsys.readouterr().out
    assert main(["workshop", "elsewhere", str(tmp_path / "room")]) == 1
    assert "holds something already" in capsys.readouterr().err


def test_a_learner_finds_the_notebooks_once_and_keeps_what_they_made_of_them(tmp_path):
    course, home = tmp_path / "course", tmp_path / "home"
    released = course / "release" / "notebooks"
    released.mkdir(parents=True)
    (released / "a.ipynb").write_text("as released")
    (released / "a.ipynb").chmod(0o444)
    (home / ".notebooks.new").mkdir(parents=True)  # of a copy that was cut off
    (home / ".notebooks.new" / "half").touch()

    def run(*command):
        variables = {"PATH": os.environ["PATH"], "HOME": str(home), "LABKIT_COURSE": str(course)}
        done = subprocess.run(
            [str(LEARNER), *command], env=variables, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout

    assert run("sh", "-c", "pwd; ls notebooks") == (0, f"{home}\na.ipynb\n")
    (home / "notebooks" / "a.ipynb").write_text("mine")
    assert run("cat", "notebooks/a.ipynb") == (0, "mine")
    assert run("sh", "-c", "exit 3") == (3, "")
