/**
 * One object with everything that a component of the thread needs besides its own value: actions, open items, sources,
 * the time.
 *
 * It stays the same object for as long as a conversation is shown, so it causes no render. A component that depends on
 * one open item watches its key.
 */

import { createContext, h } from "preact";
import { useContext, useEffect, useLayoutEffect } from "preact/hooks";
import { type MarkdownContext, pathAddress } from "../../markdown/index.ts";
import type { Source, Thread } from "../../thread/thread.ts";
import type { Acts, ThreadContext } from "../acts.ts";
import { cite } from "./cited.ts";
import { useRedraw } from "./memo.tsx";
import { Picture } from "./picture.tsx";

export const turnKey = (turnId: string): string => turnId;
export const roundKey = (turnId: string, iteration: number): string => `${turnId}/${iteration}`;
export const callKey = (turnId: string, callId: string): string => `${turnId}/${callId}`;

export class Desk {
  acts: Acts;
  context: ThreadContext;
  thread: Thread;
  /** The context of a text in the thread; `growing` is for a text whose pictures may not exist yet. */
  readonly markdown: MarkdownContext;
  readonly growing: MarkdownContext;
  #notified: ReadonlySet<string>;
  readonly #watchers = new Map<string, Set<() => void>>();

  constructor(thread: Thread, acts: Acts, context: ThreadContext) {
    this.thread = thread;
    this.acts = acts;
    this.context = context;
    this.#notified = context.open;
    this.markdown = {
      conversation: context.conversation,
      resolveSource: (sid) => this.source(sid),
      onCite: cite,
      onOpenPath: (path) => this.acts.openFile(path),
      drawPicture: (path, alt) => this.#draw(path, alt, "whole"),
    };
    this.growing = { ...this.markdown, drawPicture: (path, alt) => this.#draw(path, alt, "") };
  }

  #draw(path: string, alt: string, version: string) {
    return h(Picture, { path, alt, version, href: this.pathHref(path), acts: this.acts, whole: true });
  }

  take(thread: Thread, acts: Acts, context: ThreadContext): void {
    this.thread = thread;
    this.acts = acts;
    this.context = context;
  }

  /** Notify the components that watch a key that was opened or closed since the last call. */
  notify(): void {
    const before = this.#notified;
    const after = this.context.open;
    if (before === after) return;
    this.#notified = after;
    const changed = [...before].filter((id) => !after.has(id)).concat([...after].filter((id) => !before.has(id)));
    for (const id of changed) for (const run of this.#watchers.get(id.slice(1)) ?? []) run();
  }

  watch(key: string, run: () => void): () => void {
    const runs = this.#watchers.get(key) ?? new Set();
    this.#watchers.set(key, runs.add(run));
    return () => {
      runs.delete(run);
      if (runs.size === 0) this.#watchers.delete(key);
    };
  }

  isOpen(key: string, byItself: boolean): boolean {
    const { open } = this.context;
    return open.has(`+${key}`) || (byItself && !open.has(`-${key}`));
  }

  /** Open or close by hand, which overrides later automatic changes. */
  setOpen(key: string, byItself: boolean, to: boolean): void {
    const { open, toggle } = this.context;
    if (open.has(`+${key}`) !== (to && !byItself)) toggle(`+${key}`);
    if (open.has(`-${key}`) !== (!to && byItself)) toggle(`-${key}`);
  }

  source(sid: number): Source | undefined {
    return this.thread.sources.get(sid);
  }

  pathHref(path: string): string {
    return pathAddress(this.context.conversation, path);
  }

  timelineHref(turnId: string, iteration: number): string {
    return `/c/${this.context.conversation}/timeline/${turnId}/${iteration + 1}`;
  }
}

export const DeskContext = createContext<Desk | null>(null);

export function useDesk(): Desk {
  const desk = useContext(DeskContext);
  if (!desk) throw new Error("drawn outside of a thread");
  return desk;
}

/** Whether an item is open, and how to toggle it. `byItself` is the default while the user has not touched it. */
export function useOpen(key: string, byItself: boolean): [boolean, (to: boolean) => void] {
  const desk = useDesk();
  const redraw = useRedraw();
  useLayoutEffect(() => desk.watch(key, redraw), [desk, key]);
  return [desk.isOpen(key, byItself), (to) => desk.setOpen(key, byItself, to)];
}

/** The time, updated each second while `runs`. */
export function useNow(runs: boolean): number {
  const desk = useDesk();
  const redraw = useRedraw();
  useEffect(() => {
    if (!runs) return;
    const timer = setInterval(redraw, 1000);
    return () => clearInterval(timer);
  }, [runs]);
  return desk.context.now();
}
