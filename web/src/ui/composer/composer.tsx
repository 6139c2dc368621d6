/** The composer: one input, its files, and the actions that are possible now. */

import type { TargetedEvent } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { shell } from "../../words/en/shell.ts";
import { formatBytes, wordsOf } from "../../words/index.ts";
import { Icon, StopIcon } from "../app/icons.tsx";
import { AttachmentList, sayHeld } from "../attachments/attachment_list.tsx";
import type { PendingFile } from "../attachments/attachments.ts";
import { COMMAND } from "../keys/command.ts";
import { LIMIT_CODES, sayLimit } from "../limits/limit_codes.ts";
import type { Conversation } from "../store/conversation.ts";
import { useSelector, useStore } from "../store/store.ts";
import type { Draft, Refusal } from "./composer_model.ts";
import { keyOf, lengthOf, type Offer, offerActs } from "./rules.ts";

interface ComposerProps {
  readonly conversation: Conversation;
  readonly uploads: boolean;
  readonly signedOut: boolean;
}

/** The input's id, the target of skip links and keys. */
export const FIELD = "composer-field";
export const STOP = "composer-stop";
const HINT = "composer-hint";

const { composer: words } = shell;

export function Composer({ conversation, uploads, signedOut }: ComposerProps) {
  const { composer } = conversation;
  const draft = useStore(composer.draft);
  const { items } = useStore(composer.attachments.store);
  const running = useSelector(conversation.store, (state) => state.running);
  const stopping = useSelector(conversation.store, (state) => state.stopping);
  const [blockedUntil, nowMs] = useBlock(conversation);
  const [armed, setArmed] = useState(false);
  const offer = offerActs({
    text: draft.text,
    files: items.length,
    running,
    stopping,
    signedOut,
    blockedUntil,
    nowMs,
    uploads,
  });
  const main = () => {
    if (!offer.canMain || draft.waits) return;
    composer.submit();
  };
  const redirect = () => {
    if (!offer.redirect) return main();
    if (!offer.canRedirect) return;
    conversation.steer(draft.text);
    composer.clear();
  };
  return (
    <form
      class="composer"
      aria-label={running ? words.labelRunning : words.label}
      onSubmit={(event) => {
        event.preventDefault();
        main();
      }}
    >
      <AttachmentList attachments={composer.attachments} />
      <Field conversation={conversation} running={running} uploads={uploads} main={main} redirect={redirect} />
      <div class="acts">
        {uploads && <AttachButton onFiles={(files) => composer.attachments.add(files)} />}
        <StopButton offer={offer} onStop={() => conversation.stop()} setArmed={setArmed} />
        <span class="gap" />
        {offer.redirect && (
          <button type="button" class="act" disabled={!offer.canRedirect} onClick={redirect}>
            {words.acts.redirect} <kbd>{COMMAND}⏎</kbd>
          </button>
        )}
        {draft.waits ? (
          <button type="button" class="act" onClick={() => composer.edit()}>
            {words.edit}
          </button>
        ) : (
          <button type="submit" class="act main" disabled={!offer.canMain}>
            {words.acts[offer.main]} <kbd>⏎</kbd>
          </button>
        )}
      </div>
      <Hint text={hintOf({ draft, items, offer, blockedUntil, nowMs, armed, uploads })} />
    </form>
  );
}

interface FieldProps {
  readonly conversation: Conversation;
  readonly running: boolean;
  readonly uploads: boolean;
  readonly main: () => void;
  readonly redirect: () => void;
}

function Field({ conversation, running, uploads, main, redirect }: FieldProps) {
  const { composer } = conversation;
  const { text, waits } = useStore(composer.draft);
  const field = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => {
    const element = field.current;
    if (!element) return;
    element.style.blockSize = "auto";
    element.style.blockSize = `${element.scrollHeight}px`;
  }, [text]);
  const onKeyDown = (event: TargetedEvent<HTMLTextAreaElement, KeyboardEvent>) => {
    const key = keyOf(event, text === "");
    if (key === "none" || key === "newline") return;
    event.preventDefault();
    if (key === "main") main();
    else if (key === "redirect") redirect();
    else fillLast(conversation);
  };
  const onPaste = (event: TargetedEvent<HTMLTextAreaElement, ClipboardEvent>) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (!uploads || files.length === 0) return;
    event.preventDefault();
    composer.attachments.add(files);
  };
  return (
    <textarea
      ref={field}
      id={FIELD}
      class="draft"
      rows={1}
      dir="auto"
      aria-label={words.label}
      placeholder={running ? words.add : uploads ? words.ask : words.askPlain}
      value={text}
      readOnly={waits}
      onInput={(event) => composer.write(event.currentTarget.value)}
      onKeyDown={onKeyDown}
      onPaste={onPaste}
    />
  );
}

/** Restore the user's newest message into the input. */
function fillLast(conversation: Conversation): void {
  const { outbox, thread } = conversation.store.value;
  const said = thread.turns.flatMap((turn) => [...turn.prompts, ...turn.messages]);
  const last = [...said, ...thread.loose, ...outbox].filter((message) => message.source === "").at(-1);
  if (last) conversation.composer.write(last.text);
}

function AttachButton({ onFiles }: { onFiles: (files: File[]) => void }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <button type="button" class="tool" aria-label={words.attach} onClick={() => input.current?.click()}>
        <Icon name="clip" />
      </button>
      <input
        ref={input}
        type="file"
        multiple
        hidden
        onChange={(event) => {
          onFiles([...(event.currentTarget.files ?? [])]);
          event.currentTarget.value = "";
        }}
      />
    </>
  );
}

interface StopProps {
  readonly offer: Offer;
  readonly onStop: () => void;
  readonly setArmed: (armed: boolean) => void;
}

/** Escape focuses this button; a second Escape, or a click, stops. */
function StopButton({ offer, onStop, setArmed }: StopProps) {
  if (offer.stop === "none") return null;
  return (
    <button
      type="button"
      id={STOP}
      class="act stop"
      aria-disabled={offer.stop === "stopping"}
      aria-describedby={HINT}
      onClick={onStop}
      onFocus={() => setArmed(true)}
      onBlur={() => setArmed(false)}
    >
      <StopIcon />
      {words.acts[offer.stop]} <kbd>Esc</kbd>
    </button>
  );
}

interface HintParts {
  readonly draft: Draft;
  readonly items: readonly PendingFile[];
  readonly offer: Offer;
  readonly blockedUntil: number;
  readonly nowMs: number;
  readonly armed: boolean;
  readonly uploads: boolean;
}

function hintOf({ draft, items, offer, blockedUntil, nowMs, armed, uploads }: HintParts): string {
  if (blockedUntil > nowMs) return words.blocked(Math.ceil((blockedUntil - nowMs) / 1000));
  if (draft.waits) return words.waits;
  const held = items.filter((item) => draft.heldFor.includes(item.id));
  if (held.length > 0) return sayHeld(held, offer.main, draft.text.trim() !== "" || held.length < items.length);
  if (draft.refusal) return sayRefusal(draft.refusal, nowMs);
  const length = lengthOf(draft.text);
  if (length.shown) {
    const left = length.leftBytes;
    if (left >= 0) return words.left(formatBytes(left));
    return `${words.over(formatBytes(-left))}${uploads ? `: ${words.asFile}` : ""}`;
  }
  if (armed && offer.stop === "stop") return words.again;
  return offer.redirect ? words.hint : "";
}

function sayRefusal({ code, message, untilMs }: Refusal, nowMs: number): string {
  if (LIMIT_CODES.has(code)) return sayLimit(code, message, untilMs, nowMs);
  return words.givenBack(wordsOf(code), message);
}

function Hint({ text }: { text: string }) {
  return (
    <p id={HINT} class="hint">
      {text}
    </p>
  );
}

/** Return until when nothing can be sent, and the time. It ticks as long as that or the limit of a refusal lasts. */
function useBlock(conversation: Conversation): readonly [untilMs: number, nowMs: number] {
  const blocked = useSelector(conversation.store, (state) => state.blockedUntil);
  const refused = useSelector(conversation.composer.draft, (draft) => draft.refusal?.untilMs ?? 0);
  const until = Math.max(blocked, refused);
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (until <= Date.now()) return;
    const timer = setInterval(() => {
      setNow(Date.now());
      if (until <= Date.now()) clearInterval(timer);
    }, 1000);
    return () => clearInterval(timer);
  }, [until]);
  return [blocked, Math.max(now, until > now ? Date.now() : now)];
}
