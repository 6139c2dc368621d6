/** The tools at a message of the user, and the field in which it is edited. */

import type { TargetedEvent } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { isOwn } from "../../thread/branches.ts";
import type { Message } from "../../thread/thread.ts";
import { branchWords as words } from "../../words/en/branches.ts";
import { wordsOf } from "../../words/index.ts";
import { Icon } from "../app/icons.tsx";
import { keyOf, lengthOf } from "../composer/rules.ts";
import type { Store } from "../store/store.ts";
import { useDesk } from "../turn/desk.ts";
import { BranchPoints } from "./branch_points.tsx";
import type { Edit, Edits } from "./past.ts";

/** The button to edit a message, and the switch between its branches. */
export function MessageTools({ message }: { message: Message }) {
  const { context } = useDesk();
  const edit = () => {
    const known = context.edits.value.get(message.messageId);
    put(context.edits, message, known?.text ?? message.text, true);
  };
  return (
    <div class="message-tools">
      <BranchPoints message={message} />
      {isOwn(message) && (
        <button
          type="button"
          class="tool"
          data-edit={message.messageId}
          aria-label={words.edit}
          title={words.edit}
          onClick={edit}
        >
          <Icon name="pen" />
        </button>
      )}
    </div>
  );
}

function put(edits: Store<Edits>, message: Message, text: string, open: boolean): void {
  const edit: Edit = { text, open, changed: text !== message.text };
  edits.set(new Map(edits.value).set(message.messageId, edit));
}

/** Enter sends, Escape closes the field and keeps its text. */
export function EditField({ message, text }: { message: Message; text: string }) {
  const { acts, context } = useDesk();
  const field = useRef<HTMLTextAreaElement>(null);
  const [busy, setBusy] = useState(false);
  const [refusal, setRefusal] = useState("");
  const long = lengthOf(text).part > 1;
  const free = !busy && !long && text.trim() !== "";
  useLayoutEffect(() => {
    field.current?.focus();
    field.current?.setSelectionRange(text.length, text.length);
  }, []);
  useLayoutEffect(() => {
    const element = field.current;
    if (!element) return;
    element.style.blockSize = "auto";
    element.style.blockSize = `${element.scrollHeight}px`;
  }, [text]);
  const close = () => {
    put(context.edits, message, text, false);
    requestAnimationFrame(() => {
      document.querySelector<HTMLElement>(`[data-edit="${CSS.escape(message.messageId)}"]`)?.focus();
    });
  };
  const send = async () => {
    if (!free) return;
    setBusy(true);
    setRefusal("");
    const code = await acts.editMessage(message, text);
    setBusy(false);
    if (code) setRefusal(wordsOf(code, words.failed));
  };
  const onKeyDown = (event: TargetedEvent<HTMLTextAreaElement, KeyboardEvent>) => {
    const key = keyOf(event, false);
    if (event.key === "Escape") close();
    else if (key === "main" || key === "redirect") void send();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <form
      class="composer edit-field"
      aria-label={words.editing}
      aria-busy={busy}
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <textarea
        ref={field}
        class="draft"
        rows={1}
        dir="auto"
        aria-label={words.editing}
        value={text}
        readOnly={busy}
        onInput={(event) => put(context.edits, message, event.currentTarget.value, true)}
        onKeyDown={onKeyDown}
      />
      <div class="acts">
        <span class="gap" />
        <button type="button" class="act" onClick={close}>
          {words.cancel} <kbd>Esc</kbd>
        </button>
        <button type="submit" class="act main" disabled={!free}>
          {busy ? words.sending : words.send} <kbd>⏎</kbd>
        </button>
      </div>
      {message.attachments.length > 0 && <p class="hint">{words.sameFiles(message.attachments.length)}</p>}
      {(refusal || long) && (
        <p class="hint refused" role="alert">
          {refusal || words.tooLong}
        </p>
      )}
    </form>
  );
}
