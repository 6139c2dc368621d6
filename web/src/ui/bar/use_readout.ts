/** The words of the title bar while they count down. */

import { useEffect, useState } from "preact/hooks";
import type { Conversation } from "../store/conversation.ts";
import { useSelector } from "../store/store.ts";
import { busyUntil, readoutText } from "./readout.ts";

/** Return what runs now in words, each second anew while its provider is busy. */
export function useReadout(conversation: Conversation): string {
  const busy = useSelector(conversation.store, (state) => busyUntil(state.thread));
  const now = useSeconds(conversation, busy);
  return useSelector(conversation.store, (state) => readoutText(state.thread, state.stopping, now));
}

/** The server's time, each second until one that is to come. */
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
