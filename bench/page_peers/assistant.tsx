/** assistant-ui with react-markdown, its usual renderer: a thread over a store of the page's own, a composer below. */

import {
  AssistantRuntimeProvider,
  ComposerPrimitive,
  MessagePrimitive,
  type ThreadMessageLike,
  ThreadPrimitive,
  useExternalStoreRuntime,
} from "@assistant-ui/react";
import { MarkdownTextPrimitive } from "@assistant-ui/react-markdown";
import { memo, useSyncExternalStore } from "react";
import { flushSync } from "react-dom";
import { createRoot } from "react-dom/client";
import remarkGfm from "remark-gfm";
import { offer } from "../../web/tests/bench/measure.ts";
import "./peer.css";

interface Message {
  readonly role: "user" | "assistant";
  readonly text: string;
}

let messages: readonly Message[] = [];
let drawn = messages;
let grows = false;
let redraw = () => {};

function subscribe(watcher: () => void): () => void {
  redraw = watcher;
  return () => {};
}

const plugins = [remarkGfm];
// It would type letter by letter what is here already; the others show it at once.
const Text = memo(() => <MarkdownTextPrimitive remarkPlugins={plugins} smooth={false} />);

const AssistantMessage = () => (
  <MessagePrimitive.Root>
    <MessagePrimitive.Parts components={{ Text }} />
  </MessagePrimitive.Root>
);

const UserMessage = () => (
  <MessagePrimitive.Root>
    <MessagePrimitive.Parts />
  </MessagePrimitive.Root>
);

const convertMessage = ({ role, text }: Message): ThreadMessageLike => ({ role, content: [{ type: "text", text }] });

function Page() {
  const shown = useSyncExternalStore(subscribe, () => drawn);
  const runtime = useExternalStoreRuntime({
    messages: shown,
    isRunning: grows,
    convertMessage,
    onNew: async () => {},
  });
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <ThreadPrimitive.Root asChild>
        <main>
          <ThreadPrimitive.Viewport className="thread following">
            {shown.length === 0 && <h1>Ask a question</h1>}
            <ThreadPrimitive.Messages components={{ UserMessage, AssistantMessage }} />
          </ThreadPrimitive.Viewport>
          <ComposerPrimitive.Root>
            <ComposerPrimitive.Input />
          </ComposerPrimitive.Root>
        </main>
      </ThreadPrimitive.Root>
    </AssistantRuntimeProvider>
  );
}

createRoot(document.getElementById("page") as HTMLElement).render(<Page />);
offer({
  begin(prompt) {
    messages = [...messages, { role: "user", text: prompt }, { role: "assistant", text: "" }];
    grows = true;
  },
  push(piece) {
    const last = messages[messages.length - 1] as Message;
    messages = messages.with(-1, { role: "assistant", text: last.text + piece });
  },
  end() {
    messages = [...messages];
    grows = false;
  },
  draw() {
    drawn = messages;
    flushSync(redraw);
  },
  drawsAtOnce: true,
});
