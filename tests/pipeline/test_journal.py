"""A journal keeps every record that was appended, whatever becomes of its writer."""

import errno
import os

import pytest

from labkit.pipeline.journal import HEADER, Journal, JournalError

RECORDS = [b"one", b"", b"three" * 50]


@pytest.fixture
def path(tmp_path):
    with Journal(tmp_path / "work.journal") as journal:
        for record in RECORDS:
            journal.append(record)
    return tmp_path / "work.journal"


def test_records_are_there_when_the_file_is_opened_again(path):
    with Journal(path) as journal:
        assert list(journal) == RECORDS
        journal.append(b"four")
        journal.sync()
    with Journal(path) as journal:
        assert list(journal) == [*RECORDS, b"four"]


def test_a_file_cut_anywhere_holds_the_records_before_the_cut(path):
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with Journal(path) as journal:
            found = list(journal)
            assert found == RECORDS[: len(found)]
            journal.append(b"more")
        with Journal(path) as journal:
            assert list(journal) == [*found, b"more"]


def test_a_record_with_a_wrong_byte_and_all_behind_it_are_gone(path):
    content = bytearray(path.read_bytes())
    content[-len(RECORDS[2]) - HEADER.size - 1 - HEADER.size] ^= 1  # in the first record
    path.write_bytes(content)
    with Journal(path) as journal:
        assert list(journal) == []


def test_a_length_beyond_the_file_is_not_believed(path):
    with path.open("ab") as file:
        file.write(HEADER.pack(2**32 - 1, 0))
    with Journal(path) as journal:
        assert list(journal) == RECORDS


def test_a_second_writer_is_refused(path):
    with Journal(path), pytest.raises(JournalError, match="another process is writing"):
        Journal(path)
    Journal(path).close()


def test_another_file_is_refused_and_left_alone(tmp_path):
    file = tmp_path / "letter.txt"
    file.write_text("dear reader", encoding="utf-8")
    with pytest.raises(JournalError, match="is not a journal"):
        Journal(file)
    assert file.read_text(encoding="utf-8") == "dear reader"


def test_a_full_disk_leaves_no_half_record(path, monkeypatch):
    real, room = os.pwrite, 5

    def pwrite(descriptor, content, at):
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = real(descriptor, bytes(content)[:room], at)
        room -= written
        return written

    before = path.read_bytes()
    with Journal(path) as journal:
        monkeypatch.setattr(os, "pwrite", pwrite)
        with pytest.raises(OSError, match="No space left"):
            journal.append(b"does not fit")
        assert list(journal) == RECORDS
    assert path.read_bytes() == before
