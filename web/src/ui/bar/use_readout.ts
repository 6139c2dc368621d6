/** The text of the title bar with its countdown. */

import { useEffect, useState } from "preact/hooks";
import type { Conversation } from "../store/conversation.ts";
import { useSelector } from "../store/store.ts";
import { busyUntil, readoutText } from "./readout.ts";

/** Return the current activity in words, updated each second while its provider is busy. */
export function useReadout(conversation: Conversation): string {
  const busy = useSelector(conversation.store, (state) => busyUntil(state.thread));
  const now = useSeconds(conversation, busy);
  return useSelector(conversation.store, (state) => readoutText(state.thread, state.stopping, now));
}

/** The server's time, updated each second until `untilMs`. */
function useSeconds(conversation: Conversation, until: number): number {
  const [now, setNow] = useState(() => conversation.serverClock.nowMs());
  useEffect(() => {
    const show = () => setNow(conversation.serverClock.nowMs());
    show();
    if (until <= conversation.serverClock.nowMs()) return;
    const timer = setInterval(show, 1000);
    return () => clearInterval(timer);
  }, [conversation, until]);
  return now;
}
