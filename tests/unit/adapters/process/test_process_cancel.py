"""A cancelled run in this machine's namespaces leaves no running tool, and an intact server."""

import dataclasses

from stepline.adapters.sandbox.cancel import Over
from stepline.tools.context import ToolOutput
from tests.contract.executor_jobs import process_bench, skip_unsupported
from tests.unit.programs.tool_host import make_host, tool


def test_the_tool_call_of_a_cancelled_program_ends_with_it():
    cancel, cancelled = Over(), []

    def wait(_params, context):
        cancel.set()
        cancelled.append(context.cancel.wait(60))
        return ToolOutput(ret="at last")

    def host(job):
        return make_host(tool("test.wait", wait), allowed=job.request.tools, cancel=job.cancel)

    with process_bench(host) as bench:
        skip_unsupported(bench)
        job = bench.job(
            "agent_io_tools.tool_call(tool_id='test.wait', params={})\nopen('outputs/x', 'w').write('x')",
            tools=("test.wait",),
        )
        run = bench.executor.run(dataclasses.replace(job, cancel=cancel))
        assert (run.error, run.files) == ("cancelled", ())
        assert cancelled == [True]
        assert [call.tool_id for call in run.calls] == ["test.wait"]
        server = bench.executor._server
        assert bench.ran("print('next')").program_log == "next\n"
        assert bench.executor._server is server


def test_a_cancelled_run_keeps_its_fork_server():
    cancel = Over()
    cancel.set()
    with process_bench() as bench:
        run = bench.executor.run(dataclasses.replace(bench.job(""), cancel=cancel))
        assert run.error == "cancelled"
        assert bench.executor._server is None
