"""The time zone of the user, as the machine names it."""

import pytest

from stepline.local.caller import find_timezone


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "timezone").write_text("America/Bogota\n")
    return tmp_path


@pytest.mark.parametrize(
    "target", ["/usr/share/zoneinfo/Europe/Zurich", "../usr/share/zoneinfo/Europe/Zurich", "/var/db/timezone/zoneinfo/Europe/Zurich"]
)  # fmt: skip
def test_the_link_of_the_system_names_the_zone(folder, target):
    (folder / "localtime").symlink_to(target)
    assert find_timezone(named="", folder=folder) == "Europe/Zurich"


@pytest.mark.parametrize(
    "target", ["/usr/share/zoneinfo/Europe", "/usr/share/zoneinfo/", "/srv/time", "zoneinfo/../x"]
)
def test_a_link_that_names_no_zone_leaves_it_to_the_file_beside_it(folder, target):
    (folder / "localtime").symlink_to(target)
    assert find_timezone(named="", folder=folder) == "America/Bogota"


def test_a_copy_of_the_zone_names_none(folder):
    (folder / "localtime").write_bytes(b"TZif2")
    assert find_timezone(named="", folder=folder) == "America/Bogota"


@pytest.mark.parametrize(
    ("named", "zone"),
    [
        ("Asia/Kathmandu", "Asia/Kathmandu"),
        (":Asia/Kathmandu", "Asia/Kathmandu"),
        ("/usr/share/zoneinfo/Asia/Kathmandu", "Asia/Kathmandu"),
        ("UTC", "UTC"),
        ("CET-1CEST,M3.5.0,M10.5.0/3", ""),
        ("Atlantis/Capital", ""),
    ],
)
def test_the_variable_outweighs_the_files(folder, named, zone):
    (folder / "localtime").symlink_to("/usr/share/zoneinfo/Europe/Zurich")
    assert find_timezone(named=named, folder=folder) == zone


def test_a_machine_without_any_of_them_has_no_zone(tmp_path):
    assert find_timezone(named="", folder=tmp_path) == ""
