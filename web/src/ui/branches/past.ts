/** What the page knows about the past of one conversation: its branches and forks, and messages that are being edited. */

import type { Branch, BranchPoint } from "../../thread/branches.ts";

/** A fork, and the last batch that it shares with its origin. */
export interface ForkOf {
  readonly conversation: string;
  readonly n: number;
  readonly title: string;
}

export interface Past {
  /** The tree of the conversation, its root first; empty while unknown. */
  readonly branches: readonly Branch[];
  readonly points: readonly BranchPoint[];
  /** The members of the tree whose turn runs. */
  readonly running: ReadonlySet<string>;
  readonly forks: readonly ForkOf[];
  /** The conversation that this one continues, for a fork that is no branch. */
  readonly origin: Omit<ForkOf, "title"> | null;
}

export const NO_PAST: Past = { branches: [], points: [], running: new Set(), forks: [], origin: null };

/** The text of a message that is being edited. It is kept when the field is closed. */
export interface Edit {
  readonly text: string;
  readonly open: boolean;
  /** The text differs from that of the message. */
  readonly changed: boolean;
}

/** Edits by message id. */
export type Edits = ReadonlyMap<string, Edit>;

/** Return the texts of the open edits that differ from their messages. */
export function editedTexts(edits: Edits): readonly string[] {
  return [...edits.values()].filter((edit) => edit.open && edit.changed).map((edit) => edit.text);
}
