"""The filter, run by an interpreter of BPF for both architectures, and against the kernel's own headers."""

import errno
import fcntl
import re
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exec_task.executor import kernel, rules, seccomp
from exec_task.executor.calls import LAST_KNOWN, NUMBERS

MACHINES = ("x86_64", "aarch64")
REACHES = ("namespace", "domain", "self")
OWN, PROTECTED, OTHER = 4242, 777, 555
WORD = 0xFFFFFFFF
X32 = 0x40000000

NO_USE = """
    io_uring_setup io_uring_enter io_uring_register ptrace process_vm_readv process_vm_writev process_madvise
    kcmp pidfd_getfd pidfd_send_signal unshare setns mount umount2 pivot_root chroot move_mount open_tree fsopen
    fsconfig fsmount fspick mount_setattr bpf keyctl add_key request_key userfaultfd perf_event_open kexec_load
    kexec_file_load init_module finit_module delete_module reboot swapon swapoff sethostname setdomainname
    quotactl acct settimeofday clock_settime adjtimex open_by_handle_at shmget semget msgget mq_open
    io_setup sync syncfs memfd_create memfd_secret open_tree_attr inotify_init1 inotify_add_watch cachestat
    file_setattr
"""

FILTERS = {
    (machine, reach): seccomp.build(machine, reach, {PROTECTED} if reach == "domain" else ())
    for machine in MACHINES
    for reach in REACHES
}


def verdict(code: bytes, audit: int, number: int, args=()) -> int:
    """Run classic BPF over one struct seccomp_data and return what it returns."""
    data = struct.pack("<IIQ6Q", number & WORD, audit, 0, *(a & (1 << 64) - 1 for a in (*args, *[0] * 6)[:6]))
    program = [struct.unpack_from("<HBBI", code, at) for at in range(0, len(code), 8)]
    at, accumulator = 0, 0
    while True:
        operation, yes, no, operand = program[at]
        at += 1
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, operand)
        elif operation == 0x06:
            return operand
        else:
            holds = {
                0x15: accumulator == operand,
                0x35: accumulator >= operand,
                0x45: bool(accumulator & operand),
            }[operation]
            at += yes if holds else no


def ask(machine: str, call: str, *args: int, reach="namespace", own=OWN) -> str:
    """Return the filter's verdict on a call: `allow`, `kill` or the name of the errno."""
    architecture = seccomp.ARCHITECTURES[machine]
    number = NUMBERS[call][architecture.column]
    return word(verdict(FILTERS[machine, reach].bind(own), architecture.audit, number, args))


def word(value: int) -> str:
    if value in (seccomp.ALLOW, seccomp.KILL_PROCESS):
        return "allow" if value == seccomp.ALLOW else "kill"
    assert value & 0xFFFF0000 == seccomp.ERRNO
    return errno.errorcode[value & 0xFFFF]


def expected(rule: rules.Rule | None, args, own: int) -> int:
    """Decide by the meaning of a rule, without any BPF."""

    def holds(check: rules.Check) -> bool:
        def values(listed):
            replacements = {rules.OWN_PID: own, rules.OWN_GROUP: -own}
            return {replacements.get(value, value) & WORD for value in listed}

        if check.null_at is not None and not args[check.null_at]:
            return True
        value = args[check.arg] & WORD
        if value in values(check.one_of):
            return True
        forbids = bool(check.none_of or check.no_bits)
        return forbids and value not in values(check.none_of) and not value & check.no_bits

    if rule is None or (rule.checks and all(holds(check) for check in rule.checks)):
        return seccomp.ALLOW
    return seccomp.ERRNO | rule.code


interesting = st.sampled_from(
    [
        0,
        1,
        2,
        OWN,
        -OWN,
        PROTECTED,
        -PROTECTED,
        -1,
        OTHER,
        8,
        15,
        0x4030582A,
        0x5412,
        0x8901,
        16,
        kernel.CLONE_NEWUSER,
        0x11,
    ]
)
words = interesting | st.integers(-(1 << 31), WORD) | interesting.map(lambda low: low & WORD | 7 << 32)


@given(
    machine=st.sampled_from(MACHINES),
    reach=st.sampled_from(REACHES),
    number=st.sampled_from([n for pair in NUMBERS.values() for n in pair if n is not None])
    | st.integers(0, LAST_KNOWN),
    args=st.lists(words, min_size=6, max_size=6),
)
def test_the_assembled_filter_decides_what_the_rules_mean(machine, reach, number, args):
    architecture = seccomp.ARCHITECTURES[machine]
    by_number = {
        NUMBERS[call][architecture.column]: rule
        for call, rule in rules.rules(reach, frozenset({PROTECTED} if reach == "domain" else ())).items()
    }
    code = FILTERS[machine, reach].bind(OWN)
    assert verdict(code, architecture.audit, number, args) == expected(by_number.get(number), args, OWN)


@given(machine=st.sampled_from(MACHINES), audit=st.integers(0, WORD), number=st.integers(0, WORD))
def test_a_foreign_architecture_is_killed_whatever_it_calls(machine, audit, number):
    if audit == seccomp.ARCHITECTURES[machine].audit:
        audit ^= 1
    assert verdict(FILTERS[machine, "namespace"].bind(OWN), audit, number) == seccomp.KILL_PROCESS


@given(number=st.integers(0, X32 - 1))
def test_every_call_of_the_x32_abi_is_killed(number):
    audit = seccomp.ARCHITECTURES["x86_64"].audit
    assert verdict(FILTERS["x86_64", "namespace"].bind(OWN), audit, number | X32) == seccomp.KILL_PROCESS


@given(machine=st.sampled_from(MACHINES), number=st.integers(LAST_KNOWN + 1, X32 - 1))
def test_a_call_that_was_not_reviewed_is_unknown(machine, number):
    audit = seccomp.ARCHITECTURES[machine].audit
    assert word(verdict(FILTERS[machine, "namespace"].bind(OWN), audit, number)) == "ENOSYS"


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("call", ["socket", "socketpair"])
def test_only_unix_sockets_can_be_made(machine, call):
    assert ask(machine, call, 1) == "allow"
    assert {ask(machine, call, family) for family in range(64) if family != 1} == {"EACCES"}
    assert ask(machine, call, 1 | 1 << 32) == "allow", "the kernel looks at the low word, and so do we"
    assert ask(machine, call, 2 | 1 << 32) == "EACCES"


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("call", NO_USE.split())
def test_calls_that_a_program_has_no_use_for_are_refused(machine, call):
    assert ask(machine, call) == "EPERM"
    assert ask(machine, call, WORD, WORD, WORD) == "EPERM"


@pytest.mark.parametrize("machine", MACHINES)
def test_processes_and_threads_are_made_only_without_namespaces(machine):
    threads, fork = 0x3D0F00, 0x1200011
    assert ask(machine, "clone", threads) == ask(machine, "clone", fork) == "allow"
    for flag in (kernel.CLONE_NEWNS, kernel.CLONE_NEWUSER, kernel.CLONE_NEWPID, kernel.CLONE_NEWNET, 0x8000):
        assert ask(machine, "clone", fork | flag) == "EPERM"
    assert ask(machine, "clone3") == "ENOSYS"


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("call", ["kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"])
def test_signals_reach_as_far_as_the_program_is_alone(machine, call):
    def reached(reach, own=OWN):
        targets = {"self": own, "group": 0, "own group": -own, "child": OTHER, "child group": -OTHER}
        targets |= {"init": 1, "all": -1, "supervisor": PROTECTED, "its group": -PROTECTED}
        return {n for n, pid in targets.items() if ask(machine, call, pid, reach=reach, own=own) == "allow"}

    ours = {"self", "group", "own group"}
    assert reached("self") == ours
    assert reached("domain") == {*ours, "child", "child group"}
    assert reached("namespace") == {*ours, "child", "child group", "supervisor", "its group"}
    assert "init" in reached("namespace", own=1), "who is the first process may signal itself"


@pytest.mark.parametrize("machine", MACHINES)
def test_limits_and_priorities_are_set_only_on_oneself(machine):
    for call in ("prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"):
        assert [ask(machine, call, pid) for pid in (0, OWN, OTHER, 1, -1)] == ["allow"] * 2 + ["EPERM"] * 3
    for call, process in (("setpriority", 0), ("ioprio_set", 1)):
        assert [ask(machine, call, process, pid) for pid in (0, OWN, OTHER)] == ["allow", "allow", "EPERM"]
        assert {ask(machine, call, which, 0) for which in range(4) if which != process} == {"EPERM"}


@pytest.mark.parametrize("machine", MACHINES)
def test_terminal_input_and_signals_by_descriptor_are_refused(machine):
    assert {ask(machine, "ioctl", 0, request) for request in (0x5412, 0x541C, 0x8901, 0x8902)} == {"EPERM"}
    assert ask(machine, "ioctl", 0, 0x5401) == "allow"
    assert ask(machine, "personality", WORD) == "allow"
    assert ask(machine, "personality", 0x0040000) == "EPERM"


@pytest.mark.parametrize("machine", MACHINES)
def test_commands_on_descriptors_copy_lock_and_seal_and_nothing_else(machine):
    """Signals sent by the kernel, leases and delegations, folder notifications, and newer commands are refused."""
    commands = {name: getattr(fcntl, name) for name in dir(fcntl) if name.startswith("F_")}
    plain = {
        name for name in commands if name.startswith(("F_DUP", "F_GET", "F_SETFD", "F_SETFL", "F_SETLK"))
    }
    plain |= {"F_OFD_GETLK", "F_OFD_SETLK", "F_OFD_SETLKW", "F_SETPIPE_SZ", "F_ADD_SEALS"} & commands.keys()
    assert {ask(machine, "fcntl", 0, commands[name]) for name in plain} == {"allow"}
    refused = {8: "own", 10: "its signal", 15: "own by id", 1024: "lease", 1026: "notify", 1040: "delegation"}
    assert {ask(machine, "fcntl", 0, command) for command in refused} == {"EPERM"}
    assert {ask(machine, "fcntl", 0, command) for command in range(1041, 1200)} == {"EPERM"}


@pytest.mark.parametrize("machine", MACHINES)
def test_the_limit_on_core_dumps_cannot_be_changed(machine):
    for call, *before in (("prlimit64", 0), ("setrlimit",)):
        answers = {resource: ask(machine, call, *before, resource, 0x7FFF0000) for resource in range(16)}
        assert {number for number, answer in answers.items() if answer != "allow"} == {4}
        assert ask(machine, call, *before, 4 | 1 << 32, 1) == "EPERM", "the kernel looks at the low word"


@pytest.mark.parametrize("machine", MACHINES)
def test_every_limit_of_oneself_is_read(machine):
    assert {ask(machine, "prlimit64", pid, limit, 0) for pid in (0, OWN) for limit in range(16)} == {"allow"}
    assert ask(machine, "prlimit64", OTHER, 4, 0) == "EPERM"
    for pointer in (1 << 32, 1 << 63, 1, WORD, 0x7FFF00000000):
        assert ask(machine, "prlimit64", 0, 4, pointer) == "EPERM", "half of a pointer is no null"


@pytest.mark.parametrize("machine", MACHINES)
def test_disk_space_is_allocated_only_by_growing_a_file(machine):
    """Blocks beyond a file's end are not part of the sizes that the limits and the quota check."""
    assert ask(machine, "fallocate", 3, 0) == "allow"
    assert ask(machine, "fallocate", 3, 1 << 32) == "allow", "the kernel looks at the low word, and so do we"
    assert {
        ask(machine, "fallocate", 3, mode) for mode in (1, 2, 3, 8, 0x10, 0x11, 0x20, 0x40, 0x80, -1)
    } == {"ENOTSUP"}
    reserving = (0x40305828, 0x40305829, 0x4030582A, 0x4030582B, 0x40305839, 0x401C5820, 0x40086602)
    assert {ask(machine, "ioctl", 3, request) for request in reserving} == {"EPERM"}
    assert {ask(machine, "ioctl", 3, request | 7 << 32) for request in reserving} == {"EPERM"}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("reach", REACHES)
def test_every_jump_is_forward_and_every_path_ends_in_a_verdict(machine, reach):
    code = FILTERS[machine, reach].code
    program = [struct.unpack_from("<HBBI", code, at) for at in range(0, len(code), 8)]
    for at, (operation, yes, no, _) in enumerate(program):
        if operation in (0x15, 0x35, 0x45):
            assert max(at + 1 + yes, at + 1 + no) < len(program)
    assert program[-1][0] == 0x06
    assert len(program) < 4096


def test_a_machine_without_a_table_is_refused():
    with pytest.raises(seccomp.UnsupportedMachineError, match="riscv64"):
        seccomp.build("riscv64", "namespace")


def test_more_pids_than_a_jump_can_skip_are_refused():
    with pytest.raises(ValueError, match="protected"):
        seccomp.build("x86_64", "domain", range(2, 100))


@pytest.mark.parametrize(
    ("column", "header", "pattern"),
    [
        (0, "x86_64-linux-gnu/asm/unistd_64.h", r"#define __NR_(\w+) (\d+)"),
        (1, "asm-generic/unistd.h", r"#define __NR(?:3264)?_(\w+)\s+(\d+)"),
    ],
)
def test_the_numbers_are_the_kernels(column, header, pattern):
    path = Path("/usr/include", header)
    if not path.exists():
        pytest.skip(f"{path} is not installed")
    known = {name: int(number) for name, number in re.findall(pattern, path.read_text())}
    ours = {call: pair[column] for call, pair in NUMBERS.items() if pair[column] is not None}
    assert {call: known[call] for call in ours if call in known} == {
        call: number for call, number in ours.items() if call in known
    }
    assert {number for call, number in ours.items() if call not in known} <= set(
        range(max(known.values()), 470)
    )
