/** An observable value, and the hook that reads a part of it. */

import { useLayoutEffect, useState } from "preact/hooks";

/** Holds one immutable value, and notifies its watchers when the value is replaced. */
export class Store<T> {
  #value: T;
  readonly #watchers = new Set<() => void>();

  constructor(value: T) {
    this.#value = value;
  }

  get value(): T {
    return this.#value;
  }

  set(value: T): void {
    if (Object.is(value, this.#value)) return;
    this.#value = value;
    for (const watcher of [...this.#watchers]) watcher();
  }

  update(change: Partial<T>): void {
    this.set({ ...this.#value, ...change });
  }

  /** Call `watcher` after each change until the returned function is called. */
  subscribe(watcher: () => void): () => void {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }
}

/**
 * Return `select` of the store's value, and render again if, and only if, the result has changed.
 *
 * A selector has to return the same object for the same value.
 */
export function useSelector<T, S>(store: Store<T>, select: (value: T) => S): S {
  const selected = select(store.value);
  const [, redraw] = useState(0);
  useLayoutEffect(() => {
    let shown = selected;
    const look = () => {
      const next = select(store.value);
      if (Object.is(next, shown)) return;
      shown = next;
      redraw((count) => count + 1);
    };
    look();
    return store.subscribe(look);
  });
  return selected;
}

/** Return the whole value of a store. */
export function useStore<T>(store: Store<T>): T {
  return useSelector(store, same);
}

function same<T>(value: T): T {
  return value;
}
