"""Serve: makes one call of a running program, for whose supervisor it has the keys."""

from __future__ import annotations

import msgspec

from lambdas.edge.runtime import Event, edge, logger, wired
from stepline.bootstrap.loop_app import LoopApp
from stepline.loop.programs.serve_call import serve_call
from stepline.model.program.served_call import ServedCall

app = wired(LoopApp)


@edge
def handler(event: Event) -> Event:
    """In: a `ServedCall`. Out: its `ServedAnswer`."""
    call = msgspec.convert(event, ServedCall)
    logger.append_keys(turn_id=call.turn, conversation=call.lane.conversation, call_id=call.exec_id)
    own = app().of(call.bundle)
    own.ports.ledger.works_for(call.lane, call.turn)
    answer = serve_call(own.ports, own.agent, own.history, call)
    logger.info("call served", extra={"tool_id": call.tool_id, "number": call.number, "code": answer.code})
    built: Event = msgspec.to_builtins(answer)
    return built
