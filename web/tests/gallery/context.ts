/** Acts that do nothing, and what a reader has done in a state. */

import type { Acts, ThreadContext } from "../../src/ui/acts.ts";
import { at } from "./build.ts";
import type { State } from "./fixtures.ts";

const nothing = () => {};
const taken = () => Promise.resolve("");

export const acts: Acts = {
  send: nothing,
  steer: nothing,
  stop: nothing,
  sendAgain: nothing,
  discard: nothing,
  approve: taken,
  deny: taken,
  edit: taken,
  rate: taken,
  openFile: nothing,
  openTimeline: nothing,
  fillComposer: nothing,
  loadEarlier: nothing,
};

export function contextOf(state: State): ThreadContext {
  return {
    conversation: state.thread.conversation,
    open: new Set(state.open),
    toggle: nothing,
    now: () => state.now ?? at(120),
    outbox: [],
    troubles: new Map(),
    discarded: new Set(),
    target: null,
    earlier: "none",
    stage: "local",
    inspect: true,
    ...state.context,
  };
}
