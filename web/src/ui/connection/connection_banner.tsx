/** The line about the connection, if there is one to show. */

import { useEffect, useState } from "preact/hooks";
import { shell } from "../../words/en/shell.ts";
import { formatTime } from "../../words/index.ts";
import type { Conversation } from "../store/conversation.ts";
import type { Page } from "../store/page.ts";
import { useSelector } from "../store/store.ts";
import { bannerOf } from "./banner.ts";

const { connection: words } = shell;

interface BannerProps {
  readonly page: Page;
  readonly conversation: Conversation;
  readonly signedOut: boolean;
}

export function ConnectionBanner({ page, conversation, signedOut }: BannerProps) {
  const link = useSelector(conversation.store, (state) => state.link);
  const outdated = useSelector(conversation.store, (state) => state.outdated);
  const [, redraw] = useState(0);
  const { banner, changesInMs } = bannerOf(link, Date.now());
  useEffect(() => {
    // Compute the time again: the machine may have slept since the last render.
    const dueInMs = bannerOf(link, Date.now()).changesInMs;
    if (!changesInMs) return;
    const timer = setTimeout(() => redraw((count) => count + 1), dueInMs);
    return () => clearTimeout(timer);
  }, [link, changesInMs]);
  if (outdated) return <Banner text={words.newer} act={words.reload} onAct={() => location.reload()} />;
  if (signedOut || banner.is === "refused") {
    return <Banner text={words.refused} act={words.signIn} onAct={() => page.signIn()} />;
  }
  if (banner.is === "connecting") return <Banner text={words.connecting} />;
  if (banner.is === "reconnecting") return <Banner text={words.reconnecting} />;
  return banner.is === "offline" ? <Banner text={words.offline(formatTime(banner.sinceMs))} /> : null;
}

function Banner({ text, act, onAct }: { text: string; act?: string; onAct?: () => void }) {
  return (
    <p class="banner" role="status">
      {text}
      {act && (
        <button type="button" class="act" onClick={onAct}>
          {act}
        </button>
      )}
    </p>
  );
}
