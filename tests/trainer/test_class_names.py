"""Names of the classes beside a SavedModel."""

from trainer import class_names


def test_read_gives_the_names_that_were_written(tmp_path):
    names = ("cat", "two words", "Ä\x85\u2028\x0b", "dog")  # all of them could be folders
    class_names.write(str(tmp_path), names)
    assert class_names.read(str(tmp_path)) == names


def test_read_without_names_is_empty(tmp_path):
    assert class_names.read(str(tmp_path)) == ()
