/** The files of the message that is being written, each with its state. */

import { visible } from "../../markdown/index.ts";
import { shell } from "../../words/en/shell.ts";
import { formatBytes, wordsOf } from "../../words/index.ts";
import { Icon } from "../app/icons.tsx";
import { useStore } from "../store/store.ts";
import type { Attachments, Files, PendingFile } from "./attachments.ts";

export function AttachmentList({ attachments }: { attachments: Attachments }) {
  const { items, notice } = useStore(attachments.store);
  const words = noticeWords(notice);
  if (items.length === 0 && !words) return null;
  return (
    <div class="files">
      <ul aria-label={shell.files.label}>
        {items.map((item) => (
          <FileChip key={item.id} item={item} attachments={attachments} />
        ))}
      </ul>
      {words && <p class="hint">{words}</p>}
    </div>
  );
}

function FileChip({ item, attachments }: { item: PendingFile; attachments: Attachments }) {
  const name = visible(item.name);
  const failed = item.state === "refused" || item.state === "expired";
  return (
    <li class={`upload ${item.state}`}>
      <Icon name="file" />
      <bdi class="name" title={name}>
        {name}
      </bdi>
      <span class="num">{formatBytes(item.sizeBytes)}</span>
      <span class={`num state ${failed ? "bad" : ""}`}>{stateWords(item)}</span>
      {item.state === "uploading" && <progress value={item.progress} max={1} aria-label={name} />}
      {failed && item.code !== "size_limit" && (
        <button
          type="button"
          class="tool"
          aria-label={`${shell.files.retry}: ${name}`}
          onClick={() => attachments.retry(item.id)}
        >
          <Icon name="again" />
        </button>
      )}
      <button
        type="button"
        class="tool"
        aria-label={shell.files.remove(name)}
        onClick={() => attachments.remove(item.id)}
      >
        <Icon name="close" />
      </button>
      {failed && <span class="why">{reasonWords(item)}</span>}
    </li>
  );
}

function stateWords(item: PendingFile): string {
  const { states } = shell.files;
  if (item.state === "uploading") return states.uploading(item.progress);
  return item.state === "refused" || item.state === "expired" ? item.state : states[item.state];
}

export function reasonWords(item: PendingFile): string {
  // A rule named in the verdict is more precise than the general code.
  const codes = item.reasons.length ? item.reasons : [item.code];
  return codes.map((code) => wordsOf(code, item.message)).join(" ");
}

/**
 * Explain next to Send why a message was held back, and what to do. `more`: the message has content without these
 * files.
 */
export function sayHeld(held: readonly PendingFile[], act: "send" | "add", more: boolean): string {
  const [file] = held;
  const why =
    held.length === 1 && file
      ? shell.files.held(visible(file.name), reasonWords(file))
      : shell.files.heldAll(held.length);
  return `${why} ${more ? shell.files.without(shell.composer.acts[act], held.length) : shell.files.nothingElse}`;
}

function noticeWords(notice: Files["notice"]): string {
  if (notice.is === "too_many") return shell.files.tooMany(notice.left);
  return notice.is === "same" ? shell.files.same(visible(notice.name), visible(notice.as)) : "";
}
