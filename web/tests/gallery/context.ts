/** Actions that do nothing, and the user's actions in a state. */

import type { WholeReceipt } from "../../src/thread/thread.ts";
import type { Acts, ThreadContext } from "../../src/ui/acts.ts";
import { NO_PAST } from "../../src/ui/branches/past.ts";
import { Store } from "../../src/ui/store/store.ts";
import { at, priced } from "./build.ts";
import type { State } from "./fixtures.ts";

const nothing = () => {};
const wholeReceipt: WholeReceipt = {
  lines: priced,
  usd: 0.0291,
  priced: true,
  aws: [
    { what: "function time", quantity: 3.2, usd: 0.0000427 },
    { what: "write unit", quantity: 88, usd: 0.000055 },
  ],
  awsUsd: 0.0000977,
  unreported: 1,
  pricesOf: "2026-11-20",
};
/** A distinct picture, so that a box around it is visible. */
const drawn = `data:image/svg+xml,${encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 4"><path fill="#89b" d="M0 4V2l2 1 2-3 2 2 2-1v3z"/></svg>',
)}`;
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
  loadPicture: (path) => Promise.resolve(path.includes("lost") ? "" : drawn),
  openTimeline: nothing,
  fillComposer: nothing,
  editMessage: taken,
  runAgain: taken,
  forkAfter: nothing,
  switchBranch: nothing,
  openConversation: nothing,
  loadEarlier: nothing,
  readReceipt: () => Promise.resolve(wholeReceipt),
};

export function contextOf(state: State): ThreadContext {
  return {
    conversation: state.thread.conversation,
    open: new Set(state.open),
    toggle: nothing,
    now: () => state.now ?? at(120),
    outbox: [],
    problems: new Map(),
    discarded: new Set(),
    target: null,
    past: new Store(NO_PAST),
    edits: new Store(new Map()),
    earlier: "none",
    stage: "local",
    inspect: true,
    ...state.context,
  };
}
